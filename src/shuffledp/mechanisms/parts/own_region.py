"""The law that most randomizers have: uniform on all messages, or else uniform on a region that belongs to the input.

Randomized response, subset selection, local hashing, Hadamard response, signs, windows and caps are all of this kind:
two levels of probability, high on the own region and low elsewhere, with a likelihood ratio of at most e^ε.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

from flint import arb

from shuffledp.mechanisms.parts.law import Law
from shuffledp.numerics.ball import above, below, rational
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic

Regions = tuple[bool, ...]

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

    def attack(self, shares: Mapping[Regions, Fraction], *, symmetric: bool) -> HidingPair:
        """The exact pair of two inputs where all others hold a third one.

        ``shares``: of all messages, by whether they are in the first, the second and the third input's region.
        """
        chance = {True: self.inside, False: self.outside}
        cells = [(share, chance[a], chance[b], chance[c]) for (a, b, c), share in shares.items()]
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

    def others(self, only_one: Fraction, always: Fraction = Fraction(0)) -> Others:
        """Two inputs that share as few messages as any two do, and every region that another user's may be.

        Theorem: (a) With fixed regions S0 and S1 the law of G depends on another user's region S only by how much of
        "S0 alone", "S1 alone", "both" and "neither" it holds, and is affine in these four shares, so that it is a
        mixture of those at the corners of what is possible: all but one of them empty or full. (b) If S0 and S1 share
        more, let y be in both and z in neither, and give y to S0 alone and z to S1 alone. Where S holds z and not y,
        let it hold y and not z. With p the ratio and weights (1, p) the values p(1−e^ε) and (1−e^ε)/p become 1 − p·e^ε
        and 1 − e^ε/p: the same mean, further apart. Else S stays: at equal chances the values p(1−e^ε) and 1 − e^ε
        become p − e^ε and 1 − p·e^ε, and where S holds y alone, 1 − e^ε twice becomes 1 − e^ε/p and 1 − p·e^ε: the same
        mean, further apart. So every crowd has one that is at least as bad with regions that share less.
        """
        both, neither = self.share - only_one - always, 1 - self.share - only_one
        rooms = [(only_one, True, False), (only_one, False, True), (both, True, True), (neither, False, False)]
        kinds = []
        for held in corners([room for room, _, _ in rooms], self.share - always):
            shares: dict[Regions, Fraction] = {(True, True, True): always}
            for part, (room, first, second) in zip(held, rooms, strict=True):
                shares[first, second, True] = shares.get((first, second, True), Fraction(0)) + part
                shares[first, second, False] = room - part
            kinds.append(self.attack(shares, symmetric=False))
        return KnownOthers(below(self.uniform_share), symmetric=True, given=tuple(kinds))

    def others_alike(self, both: Fraction, together: Sequence[Fraction]) -> Others:
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
        kinds = tuple(self.attack(shares, symmetric=False) for shares in same)
        return KnownOthers(below(self.uniform_share), symmetric=True, given=kinds)

    def variation_ratio(self, only_one: Fraction, q_common: float | None) -> VariationRatio:
        """Parameters where ``only_one`` is the largest over all pairs of inputs."""
        ratio = above(self.inside / self.outside)
        beta = above(only_one * (self.inside - self.outside))
        return VariationRatio(p=ratio, beta=beta, q=ratio, q_common=q_common)


@dataclass(frozen=True)
class RegionLaw(Law):
    """The law of a region, with what is known of how the regions of different inputs overlap.

    ``only_one``: the largest share of all messages that are in one input's region but not in another's; ``always``: the
    share of those that are in every input's region; ``q_common``: where a smaller ratio on the common part is known;
    ``attacked``: exact pairs of real datasets; ``coin``: the extreme chances of one of two messages.

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

    @classmethod
    def of_disjoint(
        cls, region: OwnRegion, *, attacked: Sequence[HidingPair] = (), tight: bool = False, why_no_attack: str = ""
    ) -> RegionLaw:
        """The law where some two inputs have regions without a common message; each region is at most half of all."""
        return cls(
            region, region.share, attacked=tuple(attacked), tight=tight, covers_mixtures=True,
            why_no_attack=why_no_attack,
        )  # fmt: skip

    def variation_ratio(self) -> VariationRatio:
        return self.region.variation_ratio(self.only_one, self.q_common)

    def blankets(self) -> Sequence[HidingPair]:
        return [self.region.pair(self.only_one, self.always)]

    def attacks(self) -> Sequence[HidingPair]:
        return self.attacked

    def others(self) -> Sequence[Others]:
        """Every region that has the right size; a subclass that knows which there are says so."""
        return [self.region.others(self.only_one, self.always)]

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
