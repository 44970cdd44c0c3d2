"""Intervals of counts: every count that would not be surprised by the estimate, by the law that it would give it.

Where few messages speak of an option, an estimate that is too small states an error that is too small, and its error
is skewed: an interval that takes the error from the estimate and is even about it holds the truth too rarely.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import NORMAL, Tails

SMOOTH = 10.0
"""With a deviation of so many steps a step has 0.6% of the probability where a tail of 2.5% begins: no matter."""
HALVINGS = 36
"""Of the bracket of a limit: to 1e-9 of a standard error."""
SKEWNESS_STEPS = 4
"""A limit's skewness is that of the limit before: each step takes the difference down to some percent of it."""
TINY = 1e-300
Numbers: TypeAlias = "float | array[float]"
"""One for all components, or one for each: whole histograms have a number for each option."""
LEAST_DEVIATION = 1e-6
"""In steps: a law of a smaller deviation is one step, and its skewness is lost in rounding."""
MOST_STEPS_OF_A_USER = 2
"""Between the least and the largest of what one independent part, a user's message, adds to an estimate of steps."""


@dataclass(frozen=True)
class Cumulant:
    """A cumulant of the error of a count's estimate: ``empty`` where nobody is counted, ``slope`` more a user.

    A number each, or one for each component. ``square`` and ``cube`` of the count are added, where every user may be
    counted in part.
    """

    empty: Numbers
    slope: Numbers = 0.0
    square: float = 0.0
    cube: float = 0.0

    @classmethod
    def among(cls, added: Floats, held: Floats) -> Cumulant:
        """Where a user of input i adds ``added[i, j]`` to that of count j, and the others of j are as in ``held``."""
        others = held[:, None] * (1 - np.eye(len(held))) + TINY
        other = (others * added).sum(axis=0) / others.sum(axis=0)
        return cls(plain(held.sum() * other), plain(np.diag(added) - other))

    def at(self, counts: float | Floats) -> Floats:
        """That of these counts."""
        more = np.asarray(self.slope) + (self.square + self.cube * counts) * counts
        return np.asarray(np.asarray(self.empty) + more * counts, dtype=np.float64)

    def some(self, places: Any) -> Cumulant:
        return Cumulant(_picked(self.empty, places), _picked(self.slope, places), self.square, self.cube)

    def straight(self, users: float) -> Cumulant:
        """The one that has the same ends, where each of the users is counted or not."""
        ends = self.at(0.0), self.at(float(users))
        return Cumulant(plain(ends[0]), plain((ends[1] - ends[0]) / users))


def plain(numbers: Any) -> Numbers:
    """A number, or one for each component, as a cumulant has them."""
    found = np.asarray(numbers, dtype=np.float64)
    return float(found) if found.ndim == 0 else array("d", found.tobytes())


def sampled_tails(users: int, flip: float, share: float) -> CountTails:
    """The error of a count from a bit, flipped with this chance, of each user who is asked: one in 1/share."""
    gap, spread = 1 - 2 * flip, flip * (1 - flip)
    holder, other = spread * (2 * flip - 1), spread * gap
    alone = CountTails.of_users(1, [spread / gap**2] * 2, [holder / gap**3, other / gap**3])
    return alone.thinned(share, 1, users)


def _picked(numbers: Numbers, places: Any) -> Numbers:
    return plain(np.asarray(numbers)[places]) if isinstance(numbers, array) else numbers


@dataclass(frozen=True)
class CountTails(Tails):
    """The error of a count to which every user adds by themselves.

    Theorem: [Wilson 1927]: the interval holds every count whose own law would not be surprised by the estimate; with
    the skewness of that law, [Bartlett 1953] and [Cornish and Fisher 1938].
    Requires: variance and third cumulant are affine in the count, as where users are of two kinds, or a concave square
    and a cube.

    ``step``: the estimate is ``start`` plus a multiple of it; 0 where it is not a multiple of anything. Where steps are
    large for the law, each count accepts the fewest of them that have at least the confidence asked for together.
    ``least``: the variance is no less than this, where that was estimated with the count; affine.
    """

    variance: Cumulant
    third: Cumulant = Cumulant(0.0)
    step: float = 0.0
    start: Numbers = 0.0
    least: Cumulant | None = None

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
        variance, cubes = (Cumulant(plain(users * other), plain(own - other)) for own, other in (spread, third))
        least = None if self.least is None else CountTails(self.least).thinned(share, answers, users).variance
        return CountTails(variance, cubes, least=least)

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
        variance, least = (None if one is None else _turned(one, users, 1) for one in (self.variance, self.least))
        assert variance is not None
        start = plain(users - np.asarray(self.start))
        return CountTails(variance, _turned(self.third, users, -1), self.step, start, least)

    def some(self, places: Any) -> CountTails:
        least = None if self.least is None else self.least.some(places)
        start = _picked(self.start, places)
        return CountTails(self.variance.some(places), self.third.some(places), self.step, start, least)

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        del variance
        rough = self.deviation(users) < SMOOTH * self.step
        if rough.ndim == 0 and rough:
            return _lattice_law(self, users, confidence).limits(value)
        low, high = self._limit(value, users, confidence, -1), self._limit(value, users, confidence, 1)
        if rough.any():
            places = np.flatnonzero(rough)
            first, same = self._alike(value, places)
            law = LatticeLaw(self.some(places[first]), users, confidence)
            for ends, found in zip((low, high), law.accepting(value[places[first]]), strict=True):
                ends[places] = found[same]
        return low, high

    def _alike(self, value: Floats, places: Integers) -> tuple[Integers, Integers]:
        """One of each kind of the components in these places with the same law and estimate, and each one's kind."""
        numbers = [self.variance.empty, self.variance.slope, self.third.empty, self.third.slope, self.start]
        numbers += [] if self.least is None else [self.least.empty, self.least.slope]
        told = [value[places], *(np.asarray(each)[places] for each in numbers if isinstance(each, array))]
        _, first, same = np.unique(np.stack(told, axis=1), axis=0, return_index=True, return_inverse=True)
        return first, same.reshape(-1)

    def variance_at(self, counts: float | Floats) -> Floats:
        """That of the estimates of these counts."""
        own = self.variance.at(counts)
        return own if self.least is None else np.maximum(own, self.least.at(counts))

    def deviation(self, users: int) -> Floats:
        """The standard error of the count that has the largest."""
        ends = [self.variance_at(count) for count in (0.0, users / 2, users)]
        return np.asarray(np.sqrt(np.maximum(np.max(ends, axis=0), 0.0)))

    def _limit(self, value: Floats, users: int, confidence: float, side: int) -> Floats:
        """The count θ whose law has ``value`` at the end: θ − side·z·σ(θ) + κ₃(θ)/σ²(θ)·(z² − 1)/6 = value."""
        z = NORMAL.reach(confidence)
        found = self._wilson(value, users, z, side)
        for _ in range(SKEWNESS_STEPS):
            inside = np.clip(found, 0.0, users)
            variance = np.maximum(self.variance_at(inside), TINY)
            # Beyond a skewness of 3/z the expansion turns back.
            most = 3 / z * np.sqrt(variance)
            lean = np.clip(self.third.at(inside) / variance, -most, most)
            found = self._wilson(value - lean * (z**2 - 1) / 6, users, z, side)
        return found

    def _wilson(self, value: Floats, users: int, z: float, side: int) -> Floats:
        """The count θ with θ − side·z·σ(θ) = value, or the farther of two."""
        found = _wilson(self.variance, value, users, z, side)
        if self.least is None:
            return found
        return (np.minimum if side < 0 else np.maximum)(found, _wilson(self.least, value, users, z, side))


def _turned(cumulant: Cumulant, users: float, sign: int) -> Cumulant:
    """That of the count of all the other users; an affine one."""
    return Cumulant(plain(sign * cumulant.at(users)), plain(-sign * np.asarray(cumulant.slope)))


def _wilson(variance: Cumulant, value: Floats, users: int, z: float, side: int) -> Floats:
    """The count θ with θ − side·z·σ(θ) = value; outside of 0 to ``users`` the error is that of the nearest."""
    none, all_of_them = (z * np.sqrt(np.maximum(variance.at(ends), 0.0)) for ends in (0.0, users))
    # With θ = v + d and V(v + d) = V(v) + V'(v)·d + q·d²: (1 − z²·q)·d² − z²·V'(v)·d − z²·V(v) = 0.
    half = z**2 * (np.asarray(variance.slope) / 2 + variance.square * value)
    whole = 1 - z**2 * variance.square
    inside = half**2 + whole * z**2 * variance.at(value)
    found = value + np.where(inside >= 0, half + side * np.sqrt(np.maximum(inside, 0.0)), 0.0) / whole
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
        start, step = np.asarray(self.tails.start), self.tails.step
        seen, places = np.unique(np.rint((value - start) / step), return_inverse=True)
        missing = np.array([one for one in seen.tolist() if one not in self.known])
        if len(missing):
            low, high = self.accepting(start + step * missing)
            self.known.update(zip(missing.tolist(), zip(low.tolist(), high.tolist(), strict=True), strict=True))
        low, high = np.array([self.known[one] for one in seen.tolist()]).T
        return low[places].reshape(value.shape), high[places].reshape(value.shape)

    def accepting(self, value: Floats) -> tuple[Floats, Floats]:
        """The least and the largest count that accept each of these steps; one of each law, where there are several."""
        far = 2 * (NORMAL.reach(self.confidence) + 3) * self.tails.deviation(self.users) + 2 * self.tails.step
        low = _crossing(lambda counts: self.edges(counts)[1] > value, value - far, value + far)
        high = _crossing(lambda counts: self.edges(counts)[0] > value, value - far, value + far)
        return low, high

    def edges(self, counts: Floats) -> tuple[Floats, Floats]:
        """Half a step below the least accepted estimate, and half a step above the largest."""
        inside, step, start = np.clip(counts, 0.0, self.users), self.tails.step, np.asarray(self.tails.start)
        variance = np.maximum(self.tails.variance_at(inside), (LEAST_DEVIATION * step) ** 2)
        deviation = np.sqrt(variance)
        # What is within R of each other has a third cumulant of at most R times the variance.
        far = MOST_STEPS_OF_A_USER * step
        skewness = np.clip(self.tails.third.at(inside) / variance, -far, far) / deviation

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
