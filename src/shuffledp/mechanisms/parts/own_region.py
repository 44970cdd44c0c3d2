"""The law that most randomizers have: uniform on all messages, or else uniform on a region that belongs to the input.

Randomized response, subset selection, local hashing, Hadamard response, signs, windows and caps are all of this kind:
two levels of probability, high on the own region and low elsewhere, with a likelihood ratio of at most e^ε.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

from flint import arb

from shuffledp.mechanisms.parts.law import Law
from shuffledp.numerics.ball import above, below, rational
from shuffledp.privacy.mixed_others import MixedOthers
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic

Regions = tuple[bool, ...]
Kinds = tuple[HidingPair, ...]
Space = tuple[str | int, ...]

LARGEST_EXPONENT = 1024.0
"""From here on γ is 2^-64, whatever ε, for every region of at least 2^-1400 of all messages."""


@dataclass(frozen=True)
class OwnRegion:
    """With probability γ a uniform message, else a uniform one of the input's region, a share h of all messages.

    γ = 1/(1 + h(e^ε−1)), rounded up to a multiple of 2^-64: the ratio 1 + (1−γ)/(hγ) is then at most e^ε.
    A mechanism that draws exactly in another way gives its own γ.
    """

    who: str
    epsilon: float
    share: Fraction
    """h: regions of all inputs have the same size, below all messages."""
    own_uniform_share: Fraction | None = None

    def __post_init__(self) -> None:
        # A γ that cannot be told from 1 is rounded up beyond it.
        if self.uniform_share >= 1:
            raise ValueError(
                f"{self.who}: epsilon must be large enough for a coin of 64 bits to show it, got {self.epsilon!r}."
            )

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of a message that is uniform on all."""
        if self.own_uniform_share is not None:
            return self.own_uniform_share
        h, exponent = rational(self.share), min(self.epsilon, LARGEST_EXPONENT)
        return dyadic.at_least(lambda: 1 / (1 + arb(h) * arb(exponent).expm1()))

    @property
    def outside(self) -> Fraction:
        """The probability of a message outside the region, in units of the uniform one."""
        return self.uniform_share

    @property
    def inside(self) -> Fraction:
        """The probability of a message inside the region, in units of the uniform one."""
        return self.uniform_share + (1 - self.uniform_share) / self.share

    @property
    def levels(self) -> dict[bool, Fraction]:
        """The probability of a message by whether it is inside, in units of the uniform one."""
        return {True: self.inside, False: self.outside}

    def pair(self, only_one: Fraction, always: Fraction = Fraction(0)) -> HidingPair:
        """The pair of two inputs against the blanket.

        ``only_one``: share of all messages in the first region but not the second (as many the other way round);
        ``always``: share of those that are in every input's region.
        The smaller ``only_one``, the better they hide: lowering it by m moves mass m in the law of G from each of
        the values p − e^ε and 1 − p·e^ε to p(1−e^ε) and 1 − e^ε (times 1/γ), which have the same mean and lie
        between them.
        """
        both = self.share - only_one - always
        neither = 1 - self.share - only_one
        high, low = self.inside, self.outside
        shares = [(only_one, high, low, low), (only_one, low, high, low), (both, high, high, low)]
        shares += [(always, high, high, high), (neither, low, low, low)]
        return _pair(shares, symmetric=True)

    def attack(
        self, shares: Mapping[Regions, Fraction], *, symmetric: bool, hider: OwnRegion | None = None
    ) -> HidingPair:
        """The exact pair of two inputs where all others hold a third one.

        ``shares``: of all messages, by whether they are in the first, the second and the third input's region.
        ``hider``: what the others have, where it is not the same.
        """
        chance, third = self.levels, (hider or self).levels
        cells = [(share, chance[a], chance[b], third[c]) for (a, b, c), share in shares.items()]
        return _pair(cells, symmetric=symmetric)

    def disjoint_attack(self, third: Sequence[Fraction] | None = None) -> HidingPair:
        """The exact pair of two inputs with disjoint regions, where all others hold the first input.

        With ``third``: where the others' messages are in either region or elsewhere with these chances.
        """
        rest = 1 - 2 * self.share
        if third is None:
            shares: dict[Regions, Fraction] = {
                (True, False, True): self.share,
                (False, True, False): self.share,
                (False, False, False): rest,
            }
            return self.attack(shares, symmetric=False)
        chances = [(self.inside, self.outside), (self.outside, self.inside), (self.outside, self.outside)]
        sizes = (self.share, self.share, rest)
        classes = [
            (rational(size * first), rational(size * second), rational(chance))
            for size, (first, second), chance in zip(sizes, chances, third, strict=True)
        ]
        return exact_pair(classes, symmetric=third[0] == third[1])

    def kinds(self, only_one: Fraction, always: Fraction, hider: OwnRegion) -> Kinds:
        """Two inputs that share as few messages as any two do, and every region that another user's may be.

        Theorem: (a) With fixed regions S0 and S1 the law of G depends on another user's region S only by how much of
        "S0 alone", "S1 alone", "both" and "neither" it holds, and is affine in these four shares, so that it is a
        mixture of those at the corners of what is possible: all but one of them empty or full. (b) If S0 and S1 share
        more, let y be in both and z in neither, and give y to S0 alone and z to S1 alone. Where S holds z and not y,
        let it hold y and not z. With p the ratio and weights (1, p) the values p(1−e^ε) and (1−e^ε)/p become 1 − p·e^ε
        and 1 − e^ε/p: the same mean, further apart. Else S stays: at equal chances the values p(1−e^ε) and 1 − e^ε
        become p − e^ε and 1 − p·e^ε, and where S holds y alone, 1 − e^ε twice becomes 1 − e^ε/p and 1 − p·e^ε: the same
        mean, further apart. So every crowd has one that is at least as bad with regions that share less.
        (c) The same where the others' ratio is another one, p': with weights (1, p') it is as in (b), but that S, where
        it holds y alone and p' < p, takes z instead: the values p(1−e^ε)/p' and 1 − e^ε, of which the former is then
        the smaller, become (1 − p·e^ε)/p' and p − e^ε.
        """
        both, neither = self.share - only_one - always, 1 - self.share - only_one
        rooms = [(only_one, True, False), (only_one, False, True), (both, True, True), (neither, False, False)]
        kinds = []
        for held in corners([room for room, _, _ in rooms], hider.share - always):
            shares: dict[Regions, Fraction] = {(True, True, True): always}
            for part, (room, first, second) in zip(held, rooms, strict=True):
                shares[first, second, True] = shares.get((first, second, True), Fraction(0)) + part
                shares[first, second, False] = room - part
            kinds.append(self.attack(shares, symmetric=False, hider=hider))
        return tuple(kinds)

    def kinds_alike(self, both: Fraction, together: Sequence[Fraction], hider: OwnRegion) -> Kinds:
        """The same where any two different inputs share ``both``, and any three one of ``together``, or
        something between them; none where there are no three.

        The law of G is affine in what the three share: the two ends, and the pair itself, are all that there is.
        """
        alone = self.share - both
        same: list[dict[Regions, Fraction]] = [
            {(True, False, first): alone, (False, True, not first): alone, (True, True, True): both}
            for first in (True, False)
        ]
        for three in dict.fromkeys(together):
            shares: dict[Regions, Fraction] = {(True, True, True): three}
            shares |= dict.fromkeys([(True, True, False), (True, False, True), (False, True, True)], both - three)
            one = self.share - 2 * both + three
            shares |= dict.fromkeys([(True, False, False), (False, True, False), (False, False, True)], one)
            same.append(shares)
        for shares in same:
            shares[False, False, False] = 1 - sum(shares.values(), Fraction(0))
        return tuple(self.attack(shares, symmetric=False, hider=hider) for shares in same)

    def variation_ratio(self, only_one: Fraction, q_common: float | None) -> VariationRatio:
        """Parameters where ``only_one`` is the largest over all pairs of inputs."""
        ratio = above(self.inside / self.outside)
        beta = above(only_one * (self.inside - self.outside))
        return VariationRatio(p=ratio, beta=beta, q=ratio, q_common=q_common)


@dataclass(frozen=True)
class UniformRegion(OwnRegion):
    """What no input changes: every message is uniform."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_uniform_share", Fraction(1))


@dataclass(frozen=True)
class RegionLaw(Law):
    """The law of a region, with what is known of how the regions of different inputs overlap.

    ``only_one``: the largest share of all messages that are in one input's region but not in another's; ``always``: the
    share of those that are in every input's region; ``q_common``: where a smaller ratio on the common part is known;
    ``attacked``: exact pairs of constructed datasets; ``coin``: the extreme chances of one of two messages.

    Two disjoint regions are the worst pair: if two overlap, give one message of both and one of neither to one region
    each instead; the two values of G keep their sum and move apart, so G grows in convex order. A value whose region is
    random is a mixture of regions, and the divergence is convex.

    Theorem: two-level randomizers: p = q = 1 + (1−γ)/(γh), β = only_one·(1−γ)/h.
    """

    region: OwnRegion
    only_one: Fraction
    always: Fraction = Fraction(0)
    q_common: float | None = None
    attacked: tuple[HidingPair, ...] = ()
    coin: tuple[Fraction, Fraction] | None = None
    tight: bool = False
    covers_mixtures: bool = False
    why_no_attack: str = ""
    space: Space | None = None
    """What decides which messages there are and which of them are an input's region, where ε does not; None: it does,
    or nobody says."""

    @classmethod
    def of_disjoint(
        cls, region: OwnRegion, *, attacked: Sequence[HidingPair] = (), tight: bool = False, why_no_attack: str = "",
        space: Space | None = None,
    ) -> RegionLaw:  # fmt: skip
        """The law where some two inputs have regions without a common message; each region is at most half of all."""
        return cls(
            region, region.share, attacked=tuple(attacked), tight=tight, covers_mixtures=True,
            why_no_attack=why_no_attack, space=space,
        )  # fmt: skip

    def variation_ratio(self) -> VariationRatio:
        return self.region.variation_ratio(self.only_one, self.q_common)

    def blankets(self) -> Sequence[HidingPair]:
        return [self.region.pair(self.only_one, self.always)]

    def attacks(self) -> Sequence[HidingPair]:
        return self.attacked

    def families(self, hider: OwnRegion) -> Sequence[Kinds]:
        """For each kind of input pair every region of the right size that another user may have, with these levels.

        A subclass that knows which regions there are says so.
        """
        return [self.region.kinds(self.only_one, self.always, hider)]

    def others(self) -> Sequence[Others]:
        gamma = below(self.region.uniform_share)
        return [KnownOthers(gamma, symmetric=True, given=kinds) for kinds in self.families(self.region)]

    def among(self, hiders: Sequence[Law]) -> Sequence[MixedOthers]:
        """Where all have the same regions, each with levels of its own: each law is at least γ times the uniform."""
        laws = [law for law in hiders if isinstance(law, RegionLaw) and law._regions == self._regions]
        if self.space is None or len(laws) < len(hiders):
            return ()
        gamma = tuple(below(law.region.uniform_share) for law in laws)
        together = zip(*(self.families(law.region) for law in laws), strict=True)
        return [MixedOthers(gamma, groups, symmetric=True) for groups in together]

    @cached_property
    def _regions(self) -> RegionLaw:
        """Equal where every input has the same region: all that is known, but for the levels."""
        return dataclasses.replace(self.of_nothing() or self, coin=None, q_common=None)

    def of_nothing(self) -> RegionLaw | None:
        """Every message alike."""
        if self.space is None:
            return None
        nothing = UniformRegion(self.region.who, 0.0, self.region.share)
        return dataclasses.replace(self, region=nothing, attacked=())

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        return self.coin


def corners(rooms: Sequence[Fraction], whole: Fraction) -> Iterator[tuple[Fraction, ...]]:
    """The corners of all ways to put ``whole`` into rooms of these sizes: all but one of them empty or full."""
    seen = set()
    for free in range(len(rooms)):
        for filled in product((False, True), repeat=len(rooms) - 1):
            full = [*filled[:free], False, *filled[free:]]
            held = [room if yes else Fraction(0) for room, yes in zip(rooms, full, strict=True)]
            held[free] = whole - sum(held)
            if 0 <= held[free] <= rooms[free]:
                seen.add(tuple(held))
    yield from sorted(seen, reverse=True)


def _pair(cells: Iterable[tuple[Fraction, Fraction, Fraction, Fraction]], *, symmetric: bool) -> HidingPair:
    """From shares of all messages, each with three probabilities in units of the uniform one."""
    classes = [tuple(rational(share * chance) for chance in chances) for share, *chances in cells]
    return exact_pair([(first, second, hiding) for first, second, hiding in classes], symmetric=symmetric)
