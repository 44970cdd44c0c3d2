"""A user's share of cancelling noise: a few clusters of messages, however many options there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import arb

from shuffledp.array import Integers
from shuffledp.mechanisms.parts.flooded_noise import FloodedNoise
from shuffledp.numerics.ball import rational
from shuffledp.sampling.random import RandomSource
from shuffledp.sampling.real_law import ChoiceLaw, LogarithmicLaw, PoissonLaw

LARGEST_MEAN = 32
"""Larger Poisson numbers are sums of smaller ones."""
FOR, AGAINST, BOTH = 0, 1, 2
"""A cluster's messages are for its option, against it, or as many of each."""


@dataclass(frozen=True)
class NoiseShare:
    """``part`` of the noise of ``options`` options, as messages 2·option (for) and 2·option + 1 (against).

    A negative binomial number of shape a and ratio s is a Poisson number of mean −a·log(1−s) of clusters with
    logarithmic sizes. So the noise of all options together is one Poisson number of clusters, each of one of three
    kinds, with an option drawn uniformly and a size.
    """

    noise: FloodedNoise
    options: int
    part: Fraction

    # --- its laws ---------------------------------------------------------------------------------------------

    def all_rates(self) -> arb:
        """Clusters on average."""
        return 2 * self._single_rate() + self._flood_rate()

    def _single_rate(self) -> arb:
        """Clusters of X, all options together; those of Y are as many."""
        return -arb(rational(self.part * self.options)) * (1 - self.noise.geometric_ball()).log()

    def _flood_rate(self) -> arb:
        """Clusters of F."""
        shape = Fraction(self.noise.shape) * self.part * self.options
        return -arb(rational(shape)) * (1 - self.noise.ratio_ball()).log()

    @cached_property
    def messages(self) -> float:
        """Messages on average."""
        q, s = math.exp(-self.noise.rate), self.noise.ratio
        each = 2 * q / (1 - q) + 2 * self.noise.shape * s / (1 - s)
        return float(self.part * self.options) * each

    @cached_property
    def _kind(self) -> ChoiceLaw:
        return ChoiceLaw((self._single_rate, self._single_rate, self._flood_rate))

    @cached_property
    def _sizes(self) -> tuple[LogarithmicLaw, LogarithmicLaw]:
        return LogarithmicLaw(self.noise.geometric_ball), LogarithmicLaw(self.noise.ratio_ball)

    # --- draws ------------------------------------------------------------------------------------------------

    def draw(self, source: RandomSource, users: int) -> Integers:
        """The shares of so many users, their messages in no order.

        Poisson numbers of clusters add up to one: it is drawn for all users at once.
        """
        number = NumberOfClusters(self, users)
        kinds, options, sizes = self._drawn_clusters(source, int(number.draw(source, 1)[0]))
        flooded = kinds == BOTH
        pairs = np.repeat(2 * options[flooded], sizes[flooded])
        single = np.repeat((2 * options + kinds)[~flooded], sizes[~flooded])
        return np.concatenate([pairs, pairs + 1, single])

    def draw_apart(self, source: RandomSource, users: int) -> tuple[Integers, Integers]:
        """The same, and whose each message is."""
        owners = np.repeat(np.arange(users), NumberOfClusters(self, 1).draw(source, users))
        kinds, options, sizes = self._drawn_clusters(source, len(owners))
        flooded = kinds == BOTH
        pairs, theirs = np.repeat(2 * options[flooded], sizes[flooded]), np.repeat(owners[flooded], sizes[flooded])
        single = np.repeat((2 * options + kinds)[~flooded], sizes[~flooded])
        whose = np.concatenate([theirs, theirs, np.repeat(owners[~flooded], sizes[~flooded])])
        return whose, np.concatenate([pairs, pairs + 1, single])

    def _drawn_clusters(self, source: RandomSource, count: int) -> tuple[Integers, Integers, Integers]:
        """Kinds, options and sizes of so many clusters."""
        kinds, options = self._kind.draw(source, count), source.below(self.options, count)
        sizes, flooded = np.empty(count, dtype=np.int64), kinds == BOTH
        floods = int(np.count_nonzero(flooded))
        sizes[flooded] = self._sizes[1].draw(source, floods)
        sizes[~flooded] = self._sizes[0].draw(source, count - floods)
        return kinds, options, sizes

    # --- how many messages it may be --------------------------------------------------------------------------

    def chance_of_more_than(self, messages: int) -> arb:
        """The probability that one share has more messages than this, as a ball."""
        single, flood = self._single_rate(), self._flood_rate()
        q, s = self.noise.geometric_ball(), self.noise.ratio_ball()
        # n·P(n) = Σ_j j·λ_j·P(n − j) for a Poisson number of clusters, λ_j of them of size j.
        sized: list[arb] = [arb(0)]
        for j in range(1, messages + 1):
            both = flood * s ** (j // 2) / ((j // 2) * -(1 - s).log()) if j % 2 == 0 else arb(0)
            sized.append(j * (2 * single * q**j / (j * -(1 - q).log()) + both))
        chances = [(-(2 * single + flood)).exp()]
        for n in range(1, messages + 1):
            chances.append(sum((sized[j] * chances[n - j] for j in range(1, n + 1)), arb(0)) / n)
        return 1 - sum(chances, arb(0))


@dataclass(frozen=True)
class NumberOfClusters:
    """How many clusters so many users have together: a Poisson number, as a sum of some of small means."""

    share: NoiseShare
    users: int

    def draw(self, source: RandomSource, count: int) -> Integers:
        """``count`` independent numbers."""
        law, pieces = _pieces(self)
        drawn = law.draw(source, count * pieces)
        return drawn if pieces == 1 else np.asarray(drawn.reshape(count, pieces).sum(axis=1))


@dataclass(frozen=True)
class _PieceRate:
    """The mean of one of so many pieces."""

    number: NumberOfClusters
    pieces: int

    def __call__(self) -> arb:
        return self.number.share.all_rates() * self.number.users / self.pieces


@lru_cache(maxsize=64)
def _pieces(number: NumberOfClusters) -> tuple[PoissonLaw, int]:
    mean = float(number.share.all_rates()) * number.users
    pieces = max(1, math.ceil(mean / LARGEST_MEAN))
    return PoissonLaw(_PieceRate(number, pieces)), pieces
