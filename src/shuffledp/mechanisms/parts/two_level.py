"""Randomizers with two levels of probability: high on a set of messages of the user's own, low elsewhere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

from flint import arb, fmpq

from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic

LARGEST_EXPONENT = 128.0
"""From here on γ is 2^-64, whatever ε, for every own set of at least 2^-64 of the messages."""


class TwoLevel(Mechanism):
    """A message drawn uniformly from all with probability γ, else uniformly from the user's own set.

    Every own set is the same share s ≤ 1/2 of all messages, some two own sets are disjoint, and which set is the
    user's may be drawn at random from the value. γ = 1/(1 + s(e^ε−1)), rounded up to a multiple of 2^-64: the ratio
    1 + (1−γ)/(γs) is then at most e^ε.

    The uniform draw is the privacy blanket: two disjoint sets leave no message that all users have in their set.
    Two disjoint sets are the worst pair: if two sets overlap, give one message of both and one of neither to one set
    each instead; the two values of G keep their sum and move apart, so G grows in convex order. A value whose set is
    random is a mixture of sets, and the divergence is convex.

    Theorem: two-level randomizers: p = q = 1 + (1−γ)/(γs), β = 1 − γ.
    """

    covers_mixtures = True

    @property
    @abstractmethod
    def own_share(self) -> Fraction:
        """s: the size of an own set over the number of all messages."""

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of a message drawn from all."""
        share, exponent = rational(self.own_share), min(self.epsilon, LARGEST_EXPONENT)
        return dyadic.at_least(lambda: 1 / (1 + arb(share) * (arb(exponent).exp() - 1)))

    def variation_ratio(self) -> VariationRatio:
        gamma = self.uniform_share
        ratio = above(1 + (1 - gamma) / (gamma * self.own_share))
        return VariationRatio(p=ratio, beta=above(1 - gamma), q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        _, low, rest = self._masses
        return [self._pair_against(low, low, rest)]

    def attacks(self) -> Sequence[HidingPair]:
        """The others all hold the first of the two inputs."""
        high, low, rest = self._masses
        return [self._pair_against(high, low, rest)]

    @property
    def _masses(self) -> tuple[fmpq, fmpq, fmpq]:
        """Probabilities of the own set, of another one disjoint from it, and of all other messages."""
        gamma, low = rational(self.uniform_share), rational(self.uniform_share * self.own_share)
        return low + 1 - gamma, low, gamma - 2 * low

    def _pair_against(self, in_first: fmpq, in_second: fmpq, elsewhere: fmpq) -> HidingPair:
        """Two inputs with disjoint sets, against hiding messages in either set or elsewhere this often."""
        high, low, rest = self._masses
        classes = [(high, low, in_first), (low, high, in_second), (rest, rest, elsewhere)]
        return exact_pair(classes, symmetric=in_first == in_second)
