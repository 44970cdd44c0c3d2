"""Intervals of counts: every count that would not be surprised by the estimate, by the law that it would give it.

Where few messages speak of an option, an estimate that is too small states an error that is too small, and its error
is skewed: an interval that takes the error from the estimate and is even about it holds the truth too rarely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import NORMAL, Tails

SMOOTH = 10.0
"""With a deviation of so many steps a step has 0.6% of the probability where a tail of 2.5% begins: no matter."""
HALVINGS = 36
"""Of the bracket of a limit: to 1e-9 of a standard error."""
SKEWNESS_STEPS = 4
"""A limit's skewness is that of the limit before: each step takes the difference down to some percent of it."""
TINY = 1e-300


@dataclass(frozen=True)
class Cumulant:
    """A cumulant of the error of a count's estimate: ``empty`` where nobody is counted, ``slope`` more a user.

    A number each, or one for each component.
    """

    empty: float | tuple[float, ...]
    slope: float | tuple[float, ...] = 0.0

    @classmethod
    def among(cls, added: Floats, held: Floats) -> Cumulant:
        """Where a user of input i adds ``added[i, j]`` to that of count j, and the others of j are as in ``held``."""
        others = held[:, None] * (1 - np.eye(len(held))) + TINY
        other = (others * added).sum(axis=0) / others.sum(axis=0)
        return cls(tuple((held.sum() * other).tolist()), tuple((np.diag(added) - other).tolist()))

    def at(self, counts: float | Floats) -> Floats:
        """That of these counts."""
        return np.asarray(np.asarray(self.empty) + np.asarray(self.slope) * counts, dtype=np.float64)

    def some(self, places: Any) -> Cumulant:
        return Cumulant(*(_picked(numbers, places) for numbers in (self.empty, self.slope)))


def _plain(numbers: Any) -> float | tuple[float, ...]:
    return float(numbers) if np.ndim(numbers) == 0 else tuple(np.asarray(numbers).tolist())


def sampled_tails(users: int, flip: float, share: float) -> CountTails:
    """The error of a count from a bit, flipped with this chance, of each user who is asked: one in 1/share."""
    gap, spread = 1 - 2 * flip, flip * (1 - flip)
    holder, other = spread * (2 * flip - 1), spread * gap
    alone = CountTails.of_users(1, [spread / gap**2] * 2, [holder / gap**3, other / gap**3])
    return alone.thinned(share, 1, users)


def _picked(numbers: float | tuple[float, ...], places: Any) -> float | tuple[float, ...]:
    return tuple(np.asarray(numbers)[places].tolist()) if isinstance(numbers, tuple) else numbers


@dataclass(frozen=True)
class CountTails(Tails):
    """The error of a count to which every user adds by themselves.

    Theorem: [Wilson 1927]: the interval holds every count whose own law would not be surprised by the estimate; with
    the skewness of that law, [Bartlett 1953] and [Cornish and Fisher 1938].
    Requires: variance and third cumulant are affine in the count, as where users are of two kinds.

    ``step``: the estimate is ``start`` plus a multiple of it; 0 where it is not a multiple of anything. Where steps are
    large for the law, each count accepts the fewest of them that have at least the confidence asked for together.
    """

    variance: Cumulant
    third: Cumulant = Cumulant(0.0)
    step: float = 0.0
    start: float = 0.0

    @classmethod
    def of_users(
        cls, users: float, spread: Sequence[float], third: Sequence[float], step: float = 0.0, start: float = 0.0
    ) -> CountTails:
        """Where both cumulants are those of ``users`` users, of one who is counted and of one who is not."""
        variance, cube = (Cumulant(users * other, own - other) for own, other in (spread, third))
        return cls(variance, cube, step, start)

    def thinned(self, share: float, answers: int, users: int) -> CountTails:
        """Where each of ``users`` users answers with chance ``share`` and then counts 1/share times.

        These are the tails of ``answers`` users. What an answer adds has the mean m, 1 or 0, and the cumulants v and t:
        its mean square is v + m², its mean cube t + 3mv + m³.
        """
        spread, third = [], []
        for mean in (1.0, 0.0):
            v, t = (
                np.asarray(cumulant.empty) / answers + mean * np.asarray(cumulant.slope)
                for cumulant in (self.variance, self.third)
            )
            square, cube = (v + mean**2) / share, (t + 3 * mean * v + mean**3) / share**2
            spread.append(square - mean**2)
            third.append(cube - 3 * mean * square + 2 * mean**3)
        variance, cubes = (Cumulant(_plain(users * other), _plain(own - other)) for own, other in (spread, third))
        return CountTails(variance, cubes)

    def reach(self, confidence: float) -> float:
        return NORMAL.reach(confidence)

    def of_sum(self, parts: float) -> Tails:
        del parts
        return NORMAL

    def moved(self, scale: float | Floats, shift: float | Floats) -> Tails:
        """A count that is turned round counts the users whom it did not; whatever else is no count, but normal."""
        if np.ndim(shift) or scale != -1.0:
            return NORMAL
        users = float(shift)
        ends = self.variance.at(users), -self.third.at(users)
        variance = Cumulant(_plain(ends[0]), _plain(-np.asarray(self.variance.slope)))
        third = Cumulant(_plain(ends[1]), self.third.slope)
        return CountTails(variance, third, self.step, users - self.start)

    def some(self, places: Any) -> Tails:
        return CountTails(self.variance.some(places), self.third.some(places), self.step, self.start)

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        del variance
        if self.step > 0.0 and self.deviation(users) < SMOOTH * self.step:
            return _lattice_law(self, users, confidence).limits(value)
        return self._limit(value, users, confidence, -1), self._limit(value, users, confidence, 1)

    def deviation(self, users: int) -> float:
        """The standard error of the count that has the largest."""
        return math.sqrt(max(0.0, *(float(self.variance.at(count).max()) for count in (0.0, users))))

    def _limit(self, value: Floats, users: int, confidence: float, side: int) -> Floats:
        """The count θ whose law has ``value`` at the end: θ − side·z·σ(θ) + κ₃(θ)/σ²(θ)·(z² − 1)/6 = value."""
        z = NORMAL.reach(confidence)
        found = self._wilson(value, users, z, side)
        for _ in range(SKEWNESS_STEPS):
            inside = np.clip(found, 0.0, users)
            deviation = np.sqrt(np.maximum(self.variance.at(inside), TINY))
            # Beyond a skewness of 3/z the expansion turns back.
            skewness = np.clip(self.third.at(inside) / deviation**3, -3 / z, 3 / z)
            found = self._wilson(value - skewness * deviation * (z**2 - 1) / 6, users, z, side)
        return found

    def _wilson(self, value: Floats, users: int, z: float, side: int) -> Floats:
        """The count θ with θ − side·z·σ(θ) = value; outside of 0 to ``users`` the error is that of the nearest."""
        none, all_of_them = (z * np.sqrt(np.maximum(self.variance.at(ends), 0.0)) for ends in (0.0, users))
        # With θ = v + d: d² − z²·slope·d − z²·V(v) = 0.
        half = z**2 * np.asarray(self.variance.slope) / 2
        root = np.sqrt(np.maximum(half**2 + z**2 * self.variance.at(value), 0.0))
        found = value + half + side * root
        found = np.where(value <= -side * none, value + side * none, found)
        return np.where(value >= users - side * all_of_them, value + side * all_of_them, found)


@dataclass(frozen=True)
class LatticeLaw:
    """The steps that a count accepts: the fewest of them, but for ties, that have ``confidence`` together."""

    tails: CountTails
    users: int
    confidence: float
    known: dict[float, tuple[float, float]] = field(default_factory=dict)
    """Limits by what was estimated: options, and repeated collections, have the same few numbers."""

    def limits(self, value: Floats) -> tuple[Floats, Floats]:
        """The counts that accept each estimate."""
        seen, places = np.unique(np.rint((value - self.tails.start) / self.tails.step), return_inverse=True)
        missing = np.array([one for one in seen.tolist() if one not in self.known])
        if len(missing):
            self.known.update(zip(missing.tolist(), zip(*self._limits(missing), strict=True), strict=True))
        low, high = np.array([self.known[one] for one in seen.tolist()]).T
        return low[places].reshape(value.shape), high[places].reshape(value.shape)

    def _limits(self, steps: Floats) -> tuple[list[float], list[float]]:
        value = self.tails.start + self.tails.step * steps
        far = 2 * (NORMAL.reach(self.confidence) + 3) * self.tails.deviation(self.users) + 2 * self.tails.step
        low = _crossing(lambda counts: self.edges(counts)[1] > value, value - far, value + far)
        high = _crossing(lambda counts: self.edges(counts)[0] > value, value - far, value + far)
        return low.tolist(), high.tolist()

    def edges(self, counts: Floats) -> tuple[Floats, Floats]:
        """Half a step below the least accepted estimate, and half a step above the largest."""
        inside, step, start = np.clip(counts, 0.0, self.users), self.tails.step, self.tails.start
        deviation = np.sqrt(np.maximum(self.tails.variance.at(inside), TINY))
        skewness = self.tails.third.at(inside) / deviation**3

        def below(number: Array) -> Floats:
            """The probability of all steps up to half a step below this one."""
            return _skewed((start + step * (number - 0.5) - inside) / deviation, skewness)

        z = NORMAL.reach(1 - (1 - self.confidence) / 4)
        middle, lean = inside - start, np.clip(skewness, -3 / z, 3 / z) * (z**2 - 1) / 6
        ends = (np.floor((middle + (lean - z) * deviation) / step), np.ceil((middle + (lean + z) * deviation) / step))
        least, most = fewest(below, *ends, self.confidence)
        moved = counts - inside + start
        return moved + step * (least - 0.5), moved + step * (most + 0.5)


@lru_cache(maxsize=64)
def _lattice_law(tails: CountTails, users: int, confidence: float) -> LatticeLaw:
    return LatticeLaw(tails, users, confidence)


def fewest(below: Callable[[Array], Floats], least: Array, most: Array, confidence: float) -> tuple[Array, Array]:
    """The least and the largest of the fewest whole numbers in a row that have this probability together.

    ``below`` is the probability of all smaller numbers, of a law with one peak. Begins with ``least`` to ``most``, and
    leaves out the less probable of both ends as long as all others have enough.
    """
    rest = 1 - confidence
    while (few := below(least) + 1 - below(most + 1) > rest).any():
        least, most = np.where(few, least - 1, least), np.where(few, most + 1, most)
    while True:
        outside = below(least) + 1 - below(most + 1)
        first, last = below(least + 1) - below(least), below(most + 1) - below(most)
        drop = (outside + np.minimum(first, last) <= rest) & (least < most)
        if not drop.any():
            return least, most
        first_is_less = first <= last
        least, most = np.where(drop & first_is_less, least + 1, least), np.where(drop & ~first_is_less, most - 1, most)


def _skewed(score: Floats, skewness: Floats) -> Floats:
    """P(error ≤ score deviations): normal but for its skewness γ, score = w + γ(w² − 1)/6 of a normal w."""
    from scipy.special import ndtr

    third = np.where(np.abs(skewness) < 1e-6, 1e-6, skewness) / 3
    inside = 1 + 2 * third * (score + third / 2)
    normal = np.where(inside > 0, (np.sqrt(np.maximum(inside, 0.0)) - 1) / third, -np.sign(third) * np.inf)
    return np.asarray(ndtr(normal))


def _crossing(beyond: Callable[[Floats], Array], low: Floats, high: Floats) -> Floats:
    """Where a condition that is false at first and true at last turns, by halving."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        true = beyond(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return np.asarray((low + high) / 2)


@dataclass(frozen=True)
class PoissonTails(Tails):
    """The error of a count among a Poisson number of others, less their ``mean``: the exact law of whole numbers."""

    mean: float

    def reach(self, confidence: float) -> float:
        below, above = _poisson_reach(self.mean, confidence)
        return (below + above) / 2 / math.sqrt(self.mean)

    def of_sum(self, parts: float) -> Tails:
        del parts
        return NORMAL

    @property
    def excess_kurtosis(self) -> float:
        return 1 / self.mean

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        del variance, users
        below, above = _poisson_reach(self.mean, confidence)
        return value - above, value + below


@lru_cache(maxsize=256)
def _poisson_reach(mean: float, confidence: float) -> tuple[float, float]:
    """How far a Poisson number is below and above its mean: the fewest whole numbers, and half a step."""
    from scipy.stats import poisson

    z, deviation = NORMAL.reach(confidence), math.sqrt(mean)
    if deviation > SMOOTH:
        return z * deviation - (z**2 - 1) / 6, z * deviation + (z**2 - 1) / 6
    rest = (1 - confidence) / 8
    ends = np.array([poisson.ppf(rest, mean)]), np.array([poisson.isf(rest, mean)])
    least, most = fewest(lambda numbers: np.asarray(poisson.cdf(numbers - 1, mean)), *ends, confidence)
    return mean - float(least[0]) + 0.5, float(most[0]) - mean + 0.5
