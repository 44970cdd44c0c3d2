"""Two-level output laws: uniform on all messages or, else, uniform on a response set that belongs to the input.

Randomized response, subset selection, local hashing, Hadamard response, signs, windows and caps are of this kind:
two levels of probability, high on the input's region and low elsewhere, with a likelihood ratio of at most e^ε.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

from flint import arb

from shuffledp.mechanisms.base.law import Law
from shuffledp.numerics.ball_arithmetic import float_above, float_below, to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, ListedOtherUsers, MixedOtherUsers, OtherUsers, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import random_sources

SetMembership = tuple[bool, ...]
HidingPairs = tuple[HidingPair, ...]
SpaceKey = tuple[str | int, ...]

MAX_EXPONENT = 1024.0
"""From this ε on γ is 2^-64 for every region of at least 2^-1400 of all messages."""


@dataclass(frozen=True)
class TwoLevelResponse:
    """Two-level response: with probability γ a uniform message, else a uniform message of the input's region.

    γ = 1/(1 + h(e^ε−1)), rounded up to a multiple of 2^-64, where h is the share of the region: the ratio 1 +
    (1−γ)/(hγ) is then at most e^ε.

    Args:
        error_prefix: Name that begins error messages.
        epsilon: Local guarantee.
        share: h, the share of a region in all messages, below 1; regions of all inputs have the same size.
        exact_uniform_share: γ of a mechanism that draws exactly in another way.

    Raises:
        ValueError: If ε is too small for a probability of 64 bits to show it.
    """

    error_prefix: str
    epsilon: float
    share: Fraction
    exact_uniform_share: Fraction | None = None

    def __post_init__(self) -> None:
        # A γ indistinguishable from 1 is rounded up to 1 or more.
        if self.uniform_share >= 1:
            raise ValueError(
                f"{self.error_prefix}: epsilon must be large enough for a coin of 64 bits to show it, got "
                f"{self.epsilon!r}."
            )

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of a message that is uniform on all messages."""
        if self.exact_uniform_share is not None:
            return self.exact_uniform_share
        h, exponent = to_rational(self.share), min(self.epsilon, MAX_EXPONENT)
        return random_sources.round_up_to_multiple(lambda: 1 / (1 + arb(h) * arb(exponent).expm1()))

    @property
    def outside_density(self) -> Fraction:
        """The probability of a message outside the region, in units of the uniform one."""
        return self.uniform_share

    @property
    def inside_density(self) -> Fraction:
        """The probability of a message inside the region, in units of the uniform one."""
        return self.uniform_share + (1 - self.uniform_share) / self.share

    @property
    def densities(self) -> dict[bool, Fraction]:
        """The probability of a message, in units of the uniform one, by whether it is inside."""
        return {True: self.inside_density, False: self.outside_density}

    def blanket_pair(self, only_one: Fraction, always: Fraction = Fraction(0)) -> HidingPair:
        """Returns the pair of two inputs against the blanket.

        The smaller `exclusive_share`, the better they hide: lowering it by m moves mass m in the law of G from each of
        the values p − e^ε and 1 − p·e^ε to p(1−e^ε) and 1 − e^ε (times 1/γ), which have the same mean and lie
        between them.

        Args:
            only_one: Share of all messages in the first region but not the second (as many the other way round).
            always: Share of the messages that are in every input's region.

        Returns:
            The pair with the blanket as hiding law.
        """
        both = self.share - only_one - always
        neither = 1 - self.share - only_one
        high, low = self.inside_density, self.outside_density
        shares = [(only_one, high, low, low), (only_one, low, high, low), (both, high, high, low)]
        shares += [(always, high, high, high), (neither, low, low, low)]
        return _pair(shares, symmetric=True)

    def attack(
        self, shares: Mapping[SetMembership, Fraction], *, symmetric: bool, hider: TwoLevelResponse | None = None
    ) -> HidingPair:
        """Returns the exact pair of two inputs in a dataset where all others hold a third input.

        Args:
            shares: Shares of all messages, by whether they are in the first, the second and the third input's region.
            symmetric: True if swapping the two inputs leaves the pair unchanged.
            hider: Two-level response of the others, if it differs.

        Returns:
            The pair with the others' law as hiding law.
        """
        chance, third = self.densities, (hider or self).densities
        cells = [(share, chance[a], chance[b], third[c]) for (a, b, c), share in shares.items()]
        return _pair(cells, symmetric=symmetric)

    def disjoint_attack(self, third: Sequence[Fraction] | None = None) -> HidingPair:
        """Returns the exact pair of two inputs with disjoint regions.

        Args:
            third: Probabilities that another user's message is in the first region, the second or elsewhere; None if
                all others hold the first input.

        Returns:
            The pair with the others' law as hiding law.
        """
        rest = 1 - 2 * self.share
        if third is None:
            shares: dict[SetMembership, Fraction] = {
                (True, False, True): self.share,
                (False, True, False): self.share,
                (False, False, False): rest,
            }
            return self.attack(shares, symmetric=False)
        chances = [
            (self.inside_density, self.outside_density),
            (self.outside_density, self.inside_density),
            (self.outside_density, self.outside_density),
        ]
        sizes = (self.share, self.share, rest)
        classes = [
            (to_rational(size * first), to_rational(size * second), to_rational(chance))
            for size, (first, second), chance in zip(sizes, chances, third, strict=True)
        ]
        return exact_pair(classes, symmetric=third[0] == third[1])

    def extreme_pairs(self, only_one: Fraction, always: Fraction, hider: TwoLevelResponse) -> HidingPairs:
        """Returns two inputs whose regions overlap as little as any two do, against every region of another user.

        Theorem: (a) With fixed regions S0 and S1 the law of G depends on another user's region S only by how much of
        "S0 alone", "S1 alone", "both" and "neither" it holds, and is affine in these four shares, so that it is a
        mixture of those at the corners of the possible set: all but one of them empty or full. (b) If S0 and S1 share
        more, let y be in both and z in neither, and give y to S0 alone and z to S1 alone. Where S holds z and not y,
        let it hold y and not z. With p the ratio and weights (1, p) the values p(1−e^ε) and (1−e^ε)/p become 1 − p·e^ε
        and 1 − e^ε/p: the same mean, further apart. Else S stays: at equal chances the values p(1−e^ε) and 1 − e^ε
        become p − e^ε and 1 − p·e^ε, and where S holds y alone, 1 − e^ε twice becomes 1 − e^ε/p and 1 − p·e^ε: the same
        mean, further apart. So for every dataset there is one that is at least as bad with regions that share less. (c)
        The same where the others' ratio is another one, p': with weights (1, p') it is as in (b), except that S, where
        it holds y alone and p' < p, takes z instead: the values p(1−e^ε)/p' and 1 − e^ε, of which the former is then
        the smaller, become (1 − p·e^ε)/p' and p − e^ε.

        Args:
            only_one: Largest share of all messages that are in one input's region but not in another's.
            always: Share of the messages that are in every input's region.
            hider: Two-level response of the other users.

        Returns:
            One pair per corner.
        """
        both, neither = self.share - only_one - always, 1 - self.share - only_one
        rooms = [(only_one, True, False), (only_one, False, True), (both, True, True), (neither, False, False)]
        kinds = []
        for held in corners([room for room, _, _ in rooms], hider.share - always):
            shares: dict[SetMembership, Fraction] = {(True, True, True): always}
            for part, (room, first, second) in zip(held, rooms, strict=True):
                shares[first, second, True] = shares.get((first, second, True), Fraction(0)) + part
                shares[first, second, False] = room - part
            kinds.append(self.attack(shares, symmetric=False, hider=hider))
        return tuple(kinds)

    def extreme_pairs_by_overlap(
        self, both: Fraction, together: Sequence[Fraction], hider: TwoLevelResponse
    ) -> HidingPairs:
        """Returns the pairs as `extreme_pairs` does if the overlaps of any two and of any three regions are known.

        The law of G is affine in the overlap of the three: its two ends, and the pair itself, are all cases.

        Args:
            both: Share of all messages in the regions of any two different inputs.
            together: The possible overlaps of any three regions, or the ends of their range; empty if there are no
                three.
            hider: Two-level response of the other users.

        Returns:
            One pair per case.
        """
        alone = self.share - both
        cases: list[dict[SetMembership, Fraction]] = [
            {(True, False, first): alone, (False, True, not first): alone, (True, True, True): both}
            for first in (True, False)
        ]
        for three in dict.fromkeys(together):
            shares: dict[SetMembership, Fraction] = {(True, True, True): three}
            shares |= dict.fromkeys([(True, True, False), (True, False, True), (False, True, True)], both - three)
            single = self.share - 2 * both + three
            shares |= dict.fromkeys([(True, False, False), (False, True, False), (False, False, True)], single)
            cases.append(shares)
        for shares in cases:
            shares[False, False, False] = 1 - sum(shares.values(), Fraction(0))
        return tuple(self.attack(shares, symmetric=False, hider=hider) for shares in cases)

    def variation_ratio(self, only_one: Fraction, q_common: float | None) -> VariationRatio:
        """Returns the variation-ratio parameters.

        Args:
            only_one: Largest share of all messages, over all pairs, in one input's region but not in the other's.
            q_common: A smaller ratio on the common part, if one is known.

        Returns:
            Upper bounds of p, β and q.
        """
        ratio = float_above(self.inside_density / self.outside_density)
        beta = float_above(only_one * (self.inside_density - self.outside_density))
        return VariationRatio(p=ratio, beta=beta, q=ratio, q_common=q_common)


@dataclass(frozen=True)
class UniformResponse(TwoLevelResponse):
    """Two-level response that no input changes: every message is uniform."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact_uniform_share", Fraction(1))


@dataclass(frozen=True)
class TwoLevelLaw(Law):
    """Law of a two-level response, with the known overlaps of the regions of different inputs.

    Two disjoint regions are the worst pair: if two overlap, give one message of both and one of neither to one region
    each instead; the two values of G keep their sum and move apart, so G grows in convex order. A value whose region is
    random is a mixture of regions, and the divergence is convex.

    Theorem: two-level randomizers: p = q = 1 + (1−γ)/(γh), β = only_one·(1−γ)/h.

    Args:
        response: The two-level response.
        exclusive_share: Largest share of all messages that are in one input's region but not in another's.
        common_share: Share of the messages that are in every input's region.
        q_common: A smaller ratio on the common part, if one is known.
        attack_pairs: Exact pairs of constructed datasets.
        binary_extremes: Extreme probabilities of one message, if there are only two messages.
        tight: True if some pair of inputs attains β and the blanket.
        covers_mixtures: True if the blanket pairs cover mixtures of randomizers, as for `Law`.
        missing_attack_reason: Reason why `attack_pairs` is empty.
        space_key: Identifies the message space and the regions of the inputs, if they do not depend on ε; None if they
            do or it is not known.
    """

    response: TwoLevelResponse
    exclusive_share: Fraction
    common_share: Fraction = Fraction(0)
    q_common: float | None = None
    attack_pairs: tuple[HidingPair, ...] = ()
    binary_extremes: tuple[Fraction, Fraction] | None = None
    tight: bool = False
    covers_mixtures: bool = False
    missing_attack_reason: str = ""
    space_key: SpaceKey | None = None

    @classmethod
    def from_disjoint(
        cls,
        region: TwoLevelResponse,
        *,
        attacked: Sequence[HidingPair] = (),
        tight: bool = False,
        why_no_attack: str = "",
        space: SpaceKey | None = None,
    ) -> TwoLevelLaw:
        """Returns the law if some two inputs have disjoint regions; each region is at most half of all messages.

        Args:
            region: The two-level response.
            attacked: Exact pairs of constructed datasets.
            tight: True if some pair of inputs attains β and the blanket.
            why_no_attack: Reason why `attack_pairs` is empty.
            space: Identifies the message space and the regions, if they do not depend on ε.

        Returns:
            The law.
        """
        return cls(
            region, region.share, attack_pairs=tuple(attacked), tight=tight, covers_mixtures=True,
            missing_attack_reason=why_no_attack, space_key=space,
        )  # fmt: skip

    def variation_ratio(self) -> VariationRatio:
        return self.response.variation_ratio(self.exclusive_share, self.q_common)

    def blankets(self) -> Sequence[HidingPair]:
        return [self.response.blanket_pair(self.exclusive_share, self.common_share)]

    def attacks(self) -> Sequence[HidingPair]:
        return self.attack_pairs

    def pair_families(self, hider: TwoLevelResponse) -> Sequence[HidingPairs]:
        """Returns, for each kind of input pair, the pairs against every possible region of another user.

        Subclasses that know which regions exist override it.

        Args:
            hider: Two-level response of the other users.

        Returns:
            One tuple of pairs per kind of input pair.
        """
        return [self.response.extreme_pairs(self.exclusive_share, self.common_share, hider)]

    def other_users(self) -> Sequence[OtherUsers]:
        gamma = float_below(self.response.uniform_share)
        return [
            ListedOtherUsers(gamma, symmetric=True, listed_pairs=kinds) for kinds in self.pair_families(self.response)
        ]

    def mixed_other_users(self, hiders: Sequence[Law]) -> Sequence[MixedOtherUsers]:
        """Returns the mixed hiding laws if all groups have the same regions, each with its own levels.

        Each law is at least γ times the uniform one.
        """
        laws = [
            law for law in hiders if isinstance(law, TwoLevelLaw) and law._response_set_key == self._response_set_key
        ]
        if self.space_key is None or len(laws) < len(hiders):
            return ()
        gamma = tuple(float_below(law.response.uniform_share) for law in laws)
        together = zip(*(self.pair_families(law.response) for law in laws), strict=True)
        return [MixedOtherUsers(gamma, groups, symmetric=True) for groups in together]

    @cached_property
    def _response_set_key(self) -> TwoLevelLaw:
        """A key that is equal if every input has the same region: this law without its levels."""
        return dataclasses.replace(self.opt_out_law() or self, binary_extremes=None, q_common=None)

    def opt_out_law(self) -> TwoLevelLaw | None:
        """Returns the law under which all messages are equally likely."""
        if self.space_key is None:
            return None
        uniform = UniformResponse(self.response.error_prefix, 0.0, self.response.share)
        return dataclasses.replace(self, response=uniform, attack_pairs=())

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        return self.binary_extremes


def corners(rooms: Sequence[Fraction], whole: Fraction) -> Iterator[tuple[Fraction, ...]]:
    """Yields the corners of the set of ways to distribute `whole` over rooms of these sizes.

    At a corner all rooms but one are empty or full.
    """
    found = set()
    for free in range(len(rooms)):
        for filled in product((False, True), repeat=len(rooms) - 1):
            full = [*filled[:free], False, *filled[free:]]
            parts = [room if is_full else Fraction(0) for room, is_full in zip(rooms, full, strict=True)]
            parts[free] = whole - sum(parts)
            if 0 <= parts[free] <= rooms[free]:
                found.add(tuple(parts))
    yield from sorted(found, reverse=True)


def _pair(cells: Iterable[tuple[Fraction, Fraction, Fraction, Fraction]], *, symmetric: bool) -> HidingPair:
    """Builds a pair from shares of all messages, each with three probabilities in units of the uniform one."""
    classes = [tuple(to_rational(share * chance) for chance in chances) for share, *chances in cells]
    return exact_pair([(first, second, hiding) for first, second, hiding in classes], symmetric=symmetric)
