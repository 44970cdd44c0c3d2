"""Randomizers whose message is uniform on all messages, or else uniform on a region that belongs to the input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic

Regions = tuple[bool, ...]


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
        if self.uniform_share == 1:
            raise ValueError(
                f"{self.who}: epsilon must be large enough for a coin of 64 bits to show it, got {self.epsilon!r}."
            )

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of a message that is uniform on all."""
        if self.own_uniform_share is not None:
            return self.own_uniform_share
        h = rational(self.share)
        return dyadic.at_least(lambda: 1 / (1 + arb(h) * arb(self.epsilon).expm1()))

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

    def variation_ratio(self, only_one: Fraction, q_common: float | None) -> VariationRatio:
        """Parameters where ``only_one`` is the largest over all pairs of inputs."""
        ratio = above(self.inside / self.outside)
        beta = above(only_one * (self.inside - self.outside))
        return VariationRatio(p=ratio, beta=beta, q=ratio, q_common=q_common)


def _pair(cells: Iterable[tuple[Fraction, Fraction, Fraction, Fraction]], *, symmetric: bool) -> HidingPair:
    """From shares of all messages, each with three probabilities in units of the uniform one."""
    classes = [tuple(rational(share * chance) for chance in chances) for share, *chances in cells]
    return exact_pair([(first, second, hiding) for first, second, hiding in classes], symmetric=symmetric)
