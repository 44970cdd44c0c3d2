"""Laws of the error of estimated counts and means, and the confidence intervals that follow from them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.estimator import NORMAL, ErrorLaw

# --- Counts ---


MAX_LATTICE_DEVIATION = 10.0
"""Deviation, in steps, above which the lattice is ignored.

A step then has 0.6% of the probability where a tail of 2.5% begins.
"""
BISECTION_STEPS = 36
"""Bisections of the bracket of a limit: to 1e-9 of a standard error."""
SKEWNESS_ITERATIONS = 4
"""Iterations of a limit with the skewness at the previous limit; each reduces the difference to a few percent."""
MIN_POSITIVE = 1e-300
ScalarOrArray: TypeAlias = "float | array[float]"
"""One number for all components, or an array with one per component, as in histograms."""
MIN_DEVIATION = 1e-6
"""Smallest deviation, in steps: below it the law is a single step, and its skewness is lost in rounding."""
MAX_STEPS_PER_USER = 2
"""Largest spread, in steps, of the contribution of one independent part, a user's message, to an estimate in steps."""


@dataclass(frozen=True)
class Cumulant:
    """Cumulant of the error of a count's estimate, as a polynomial of the count; affine if users count fully or not."""

    intercept: ScalarOrArray
    slope: ScalarOrArray = 0.0
    quadratic: float = 0.0
    cubic: float = 0.0

    @classmethod
    def from_contributions(cls, added: Floats, held: Floats) -> Cumulant:
        """Returns the cumulant if a user of input i adds `added[i, j]` to that of count j.

        Args:
            added: Contributions, one row per input, one column per count.
            held: Number of users of each input; for count j it weighs the inputs other than j.

        Returns:
            The cumulant, affine in the count.
        """
        others = held[:, None] * (1 - np.eye(len(held))) + MIN_POSITIVE
        other = (others * added).sum(axis=0) / others.sum(axis=0)
        return cls(to_stored_numbers(held.sum() * other), to_stored_numbers(np.diag(added) - other))

    def evaluate(self, counts: float | Floats) -> Floats:
        """Returns the cumulant at these counts."""
        more = np.asarray(self.slope) + (self.quadratic + self.cubic * counts) * counts
        return np.asarray(np.asarray(self.intercept) + more * counts, dtype=np.float64)

    def select(self, places: Any) -> Cumulant:
        """Returns the cumulant of some components."""
        return Cumulant(
            _select_numbers(self.intercept, places), _select_numbers(self.slope, places), self.quadratic, self.cubic
        )

    def to_affine(self, users: float) -> Cumulant:
        """Returns the affine cumulant with the same ends, for users who are each counted fully or not at all."""
        ends = self.evaluate(0.0), self.evaluate(float(users))
        return Cumulant(to_stored_numbers(ends[0]), to_stored_numbers((ends[1] - ends[0]) / users))


def to_stored_numbers(numbers: Any) -> ScalarOrArray:
    """Returns a number, or one per component, in the form that a cumulant stores."""
    floats = np.asarray(numbers, dtype=np.float64)
    return float(floats) if floats.ndim == 0 else array("d", floats.tobytes())


def sampled_bit_error_law(users: int, flip: float, share: float) -> CountErrorLaw:
    """Returns the error law of a count from one bit, flipped with probability `flip`, of a sampled share of users."""
    gap, spread = 1 - 2 * flip, flip * (1 - flip)
    holder, other = spread * (2 * flip - 1), spread * gap
    alone = CountErrorLaw.from_users(1, [spread / gap**2] * 2, [holder / gap**3, other / gap**3])
    return alone.subsample(share, 1, users)


def _select_numbers(numbers: ScalarOrArray, places: Any) -> ScalarOrArray:
    return to_stored_numbers(np.asarray(numbers)[places]) if isinstance(numbers, array) else numbers


@dataclass(frozen=True)
class CountErrorLaw(ErrorLaw):
    """Error of a count to which every user contributes independently.

    Theorem: [Wilson 1927]: the interval holds every count whose own law accepts the estimate; with
    the skewness of that law, [Bartlett 1953] and [Cornish and Fisher 1938].
    Requires: variance and third cumulant are affine in the count, as for users of two kinds, or a concave square
    and a cube.

    If steps are large for the law, each count accepts the fewest of them that together have at least the confidence.

    Args:
        variance: Variance of the error.
        third_cumulant: Third cumulant of the error.
        step: The estimate is `offset` plus a multiple of it; 0 if it is continuous.
        offset: Offset of the steps.
        min_variance: Affine lower bound of the variance, if that was estimated with the count.
    """

    variance: Cumulant
    third_cumulant: Cumulant = Cumulant(0.0)
    step: float = 0.0
    offset: ScalarOrArray = 0.0
    min_variance: Cumulant | None = None

    @classmethod
    def from_users(
        cls, users: float, spread: Sequence[float], third: Sequence[float], step: float = 0.0, start: float = 0.0
    ) -> CountErrorLaw:
        """Returns the error law of independent users from the cumulants of one who is counted and of one who is not."""
        variance, cube = (Cumulant(users * other, own - other) for own, other in (spread, third))
        return cls(variance, cube, step, start)

    def subsample(self, share: float, answers: int, users: int) -> CountErrorLaw:
        """Returns the error law if each user answers with probability `share` and then counts 1/share times.

        This law is that of `answers` users; `users` may answer. An answer's contribution has mean m, 1 or 0, and
        cumulants v and t: its mean square is v + m², its mean cube t + 3mv + m³.
        """
        spread, third = [], []
        for mean in (1.0, 0.0):
            v, t = (
                np.asarray(cumulant.intercept) / answers + mean * np.asarray(cumulant.slope)
                for cumulant in (self.variance, self.third_cumulant)
            )
            square, cube = (v + mean**2) / share, (t + 3 * mean * v + mean**3) / share**2
            spread.append(square - mean**2)
            third.append(cube - 3 * mean * square + 2 * mean**3)
        variance, cubes = (
            Cumulant(to_stored_numbers(users * other), to_stored_numbers(own - other)) for own, other in (spread, third)
        )
        if self.min_variance is None:
            return CountErrorLaw(variance, cubes)
        least = CountErrorLaw(self.min_variance).subsample(share, answers, users).variance
        return CountErrorLaw(variance, cubes, min_variance=least)

    def critical_value(self, confidence: float) -> float:
        return NORMAL.critical_value(confidence)

    def sum_law(self, parts: float) -> ErrorLaw:
        del parts
        return NORMAL

    def transform(self, scale: float | Floats, shift: float | Floats) -> ErrorLaw:
        """Returns the error law of n − count, which counts the other users; other transforms become normal."""
        if np.ndim(shift) or scale != -1.0:
            return NORMAL
        users = float(shift)
        variance, third = _complement(self.variance, users, 1), _complement(self.third_cumulant, users, -1)
        least = None if self.min_variance is None else _complement(self.min_variance, users, 1)
        return CountErrorLaw(variance, third, self.step, to_stored_numbers(users - np.asarray(self.offset)), least)

    def select(self, places: Any) -> CountErrorLaw:
        least = None if self.min_variance is None else self.min_variance.select(places)
        start = _select_numbers(self.offset, places)
        return CountErrorLaw(self.variance.select(places), self.third_cumulant.select(places), self.step, start, least)

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        del variance
        has_large_steps = self.max_deviation(users) < MAX_LATTICE_DEVIATION * self.step
        if has_large_steps.ndim == 0 and has_large_steps:
            return _cached_lattice_acceptance(self, users, confidence).confidence_limits(value)
        low, high = self._limit(value, users, confidence, -1), self._limit(value, users, confidence, 1)
        if has_large_steps.any():
            places = np.flatnonzero(has_large_steps)
            first, law_index = self._group_duplicates(value, places)
            law = LatticeAcceptance(self.select(places[first]), users, confidence)
            for ends, limits in zip((low, high), law.solve_limits(value[places[first]]), strict=True):
                ends[places] = limits[law_index]
        return low, high

    def _group_duplicates(self, value: Floats, places: Integers) -> tuple[Integers, Integers]:
        """Returns one component per distinct law and estimate, and the index of each component's law among them."""
        cumulants = (self.variance, self.third_cumulant, self.min_variance)
        numbers = [self.offset, *(number for each in cumulants if each for number in (each.intercept, each.slope))]
        columns = [value[places], *(np.asarray(each)[places] for each in numbers if isinstance(each, array))]
        _, first, law_index = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
        return first, law_index.reshape(-1)

    def variance_at(self, counts: float | Floats) -> Floats:
        """Returns the variance of the estimates of these counts."""
        own = self.variance.evaluate(counts)
        return own if self.min_variance is None else np.maximum(own, self.min_variance.evaluate(counts))

    def max_deviation(self, users: int) -> Floats:
        """Returns the largest standard error over all counts."""
        ends = [self.variance_at(count) for count in (0.0, users / 2, users)]
        return np.asarray(np.sqrt(np.maximum(np.max(ends, axis=0), 0.0)))

    def _limit(self, value: Floats, users: int, confidence: float, side: int) -> Floats:
        """Returns the count θ whose law has `value` at the end: θ − side·z·σ(θ) + κ₃(θ)/σ²(θ)·(z² − 1)/6 = value."""
        z = NORMAL.critical_value(confidence)
        count = self._wilson(value, users, z, side)
        for _ in range(SKEWNESS_ITERATIONS):
            inside = np.clip(count, 0.0, users)
            variance = np.maximum(self.variance_at(inside), MIN_POSITIVE)
            # Beyond a skewness of 3/z the expansion is not monotone.
            most = 3 / z * np.sqrt(variance)
            skew = np.clip(self.third_cumulant.evaluate(inside) / variance, -most, most)
            count = self._wilson(value - skew * (z**2 - 1) / 6, users, z, side)
        return count

    def _wilson(self, value: Floats, users: int, z: float, side: int) -> Floats:
        """Returns the count θ with θ − side·z·σ(θ) = value, or the farther of two."""
        count = _wilson(self.variance, value, users, z, side)
        if self.min_variance is None:
            return count
        return (np.minimum if side < 0 else np.maximum)(count, _wilson(self.min_variance, value, users, z, side))


def _complement(cumulant: Cumulant, users: float, sign: int) -> Cumulant:
    """Returns the affine cumulant of the count of all other users."""
    return Cumulant(
        to_stored_numbers(sign * cumulant.evaluate(users)), to_stored_numbers(-sign * np.asarray(cumulant.slope))
    )


def _wilson(variance: Cumulant, value: Floats, users: int, z: float, side: int) -> Floats:
    """Returns the count θ with θ − side·z·σ(θ) = value; outside 0 to `users` σ is that of the nearest count."""
    none, all_of_them = (z * np.sqrt(np.maximum(variance.evaluate(ends), 0.0)) for ends in (0.0, users))
    # With θ = v + d and V(v + d) = V(v) + V'(v)·d + q·d²: (1 − z²·q)·d² − z²·V'(v)·d − z²·V(v) = 0.
    half = z**2 * (np.asarray(variance.slope) / 2 + variance.quadratic * value)
    whole = 1 - z**2 * variance.quadratic
    inside = half**2 + whole * z**2 * variance.evaluate(value)
    count = value + np.where(inside >= 0, half + side * np.sqrt(np.maximum(inside, 0.0)), 0.0) / whole
    count = np.where(value <= -side * none, value + side * none, count)
    return np.where(value >= users - side * all_of_them, value + side * all_of_them, count)


@dataclass(frozen=True)
class LatticeAcceptance:
    """Acceptance regions on a lattice: the fewest steps, up to ties, that together have probability `confidence`.

    `cached_limits` holds limits by step: options and repeated collections share the same few numbers.
    """

    tails: CountErrorLaw
    users: int
    confidence: float
    cached_limits: dict[float, tuple[float, float]] = field(default_factory=dict)

    def confidence_limits(self, value: Floats) -> tuple[Floats, Floats]:
        """Returns the smallest and the largest count that accept each estimate."""
        start, step = np.asarray(self.tails.offset), self.tails.step
        steps, places = np.unique(np.rint((value - start) / step), return_inverse=True)
        missing = np.array([each for each in steps.tolist() if each not in self.cached_limits])
        if len(missing):
            low, high = self.solve_limits(start + step * missing)
            self.cached_limits.update(zip(missing.tolist(), zip(low.tolist(), high.tolist(), strict=True), strict=True))
        low, high = np.array([self.cached_limits[each] for each in steps.tolist()]).T
        return low[places].reshape(value.shape), high[places].reshape(value.shape)

    def solve_limits(self, value: Floats) -> tuple[Floats, Floats]:
        """Returns the smallest and the largest count that accept each of these estimates.

        If `tails` has one law per component, there is one estimate for each.
        """
        z = NORMAL.critical_value(self.confidence)
        far = 2 * (z + 3) * self.tails.max_deviation(self.users) + 2 * self.tails.step
        low = _bisect(lambda counts: self.acceptance_edges(counts)[1] > value, value - far, value + far)
        high = _bisect(lambda counts: self.acceptance_edges(counts)[0] > value, value - far, value + far)
        return low, high

    def acceptance_edges(self, counts: Floats) -> tuple[Floats, Floats]:
        """Returns half a step below the least accepted estimate, and half a step above the largest."""
        inside, step, start = np.clip(counts, 0.0, self.users), self.tails.step, np.asarray(self.tails.offset)
        variance = np.maximum(self.tails.variance_at(inside), (MIN_DEVIATION * step) ** 2)
        deviation = np.sqrt(variance)
        # A variable with range R has a third cumulant of at most R times its variance.
        far = MAX_STEPS_PER_USER * step
        skewness = np.clip(self.tails.third_cumulant.evaluate(inside) / variance, -far, far) / deviation

        def below(number: Array) -> Floats:
            """Returns the probability of all steps below this one."""
            return _skewed_cdf((start + step * (number - 0.5) - inside) / deviation, skewness)

        z = NORMAL.critical_value(1 - (1 - self.confidence) / 4)
        middle, skew = inside - start, np.clip(skewness, -3 / z, 3 / z) * (z**2 - 1) / 6
        ends = (np.floor((middle + (skew - z) * deviation) / step), np.ceil((middle + (skew + z) * deviation) / step))
        least, most = find_shortest_range(below, *ends, self.confidence)
        moved = counts - inside + start
        return moved + step * (least - 0.5), moved + step * (most + 0.5)


@lru_cache(maxsize=64)
def _cached_lattice_acceptance(tails: CountErrorLaw, users: int, confidence: float) -> LatticeAcceptance:
    return LatticeAcceptance(tails, users, confidence)


def find_shortest_range(
    below: Callable[[Array], Floats], least: Array, most: Array, confidence: float
) -> tuple[Array, Array]:
    """Returns the first and the last of the fewest consecutive whole numbers that together have this probability.

    Starts with `least` to `most` and drops the less probable end as long as the others suffice. `below` is the
    probability of all smaller numbers, of a unimodal law.
    """
    rest = 1 - confidence
    while (too_few := below(least) + 1 - below(most + 1) > rest).any():
        least, most = np.where(too_few, least - 1, least), np.where(too_few, most + 1, most)
    while True:
        outside = below(least) + 1 - below(most + 1)
        first, last = below(least + 1) - below(least), below(most + 1) - below(most)
        drop = (outside + np.minimum(first, last) <= rest) & (least < most)
        if not drop.any():
            return least, most
        first_is_less = first <= last
        least, most = np.where(drop & first_is_less, least + 1, least), np.where(drop & ~first_is_less, most - 1, most)


def _skewed_cdf(score: Floats, skewness: Floats) -> Floats:
    """Returns P(error ≤ score deviations) of a law with skewness γ: score = w + γ(w² − 1)/6 of a normal w."""
    from scipy.special import ndtr

    third = np.where(np.abs(skewness) < 1e-6, 1e-6, skewness) / 3
    inside = 1 + 2 * third * (score + third / 2)
    normal = np.where(inside > 0, (np.sqrt(np.maximum(inside, 0.0)) - 1) / third, -np.sign(third) * np.inf)
    return np.asarray(ndtr(normal))


def _bisect(beyond: Callable[[Floats], Array], low: Floats, high: Floats) -> Floats:
    """Returns, by bisection, the point from which on a condition holds."""
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        holds = beyond(middle)
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return np.asarray((low + high) / 2)


@dataclass(frozen=True)
class PoissonErrorLaw(ErrorLaw):
    """Error of a count among a Poisson number of others, minus their `mean`: the exact law of whole numbers."""

    mean: float

    def critical_value(self, confidence: float) -> float:
        below, above = _poisson_margins(self.mean, confidence)
        return (below + above) / 2 / math.sqrt(self.mean)

    def sum_law(self, parts: float) -> ErrorLaw:
        del parts
        return NORMAL

    @property
    def excess_kurtosis(self) -> float:
        return 1 / self.mean

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        del variance, users
        below, above = _poisson_margins(self.mean, confidence)
        return value - above, value + below


@lru_cache(maxsize=256)
def _poisson_margins(mean: float, confidence: float) -> tuple[float, float]:
    """Returns how far a Poisson number lies below and above its mean: the fewest whole numbers, and half a step."""
    from scipy.stats import poisson

    z, deviation = NORMAL.critical_value(confidence), math.sqrt(mean)
    if deviation > MAX_LATTICE_DEVIATION:
        return z * deviation - (z**2 - 1) / 6, z * deviation + (z**2 - 1) / 6
    rest = (1 - confidence) / 8
    ends = np.array([poisson.ppf(rest, mean)]), np.array([poisson.isf(rest, mean)])
    least, most = find_shortest_range(lambda numbers: np.asarray(poisson.cdf(numbers - 1, mean)), *ends, confidence)
    return mean - float(least[0]) + 0.5, float(most[0]) - mean + 0.5


# --- Means ---


@dataclass(frozen=True)
class MeanErrorLaw(ErrorLaw):
    """Error of the mean of numbers from `low` to `high`, treated as a count of users.

    A user with a number in between counts in part: by their share of the way from low to high.

    Args:
        count_law: Error law of the count.
        message_count: Number of messages of which the mean is taken.
        low: Lower end of the range.
        high: Upper end of the range.
    """

    count_law: CountErrorLaw
    message_count: int
    low: float = -1.0
    high: float = 1.0

    @classmethod
    def from_messages(
        cls,
        messages: int,
        second_moment: float | Floats,
        curvature: float,
        third_slope: float | Floats | None,
        step: float = 0.0,
        start: float = 0.0,
    ) -> MeanErrorLaw:
        """Returns the error law of the mean of messages with known cumulants given a value x from −1 to 1.

        Args:
            messages: Number of messages.
            second_moment: S in the variance S + c·x² of a message.
            curvature: c in the variance.
            third_slope: t in the third cumulant t·x + 2·x³ of a message; None if it is not known, which counts as 0.
            step: Step of the mean; 0 if it is continuous.
            start: Offset of the steps.
        """
        n, third = messages, Cumulant(0.0)
        if third_slope is not None:
            # With x = 2k/n − 1, and half of a message's contribution.
            slope = np.asarray(third_slope)
            third = Cumulant(
                to_stored_numbers(-n * (slope + 2) / 8), to_stored_numbers((slope + 6) / 4), -3 / n, 2 / n**2
            )
        variance = _variance(n, second_moment, curvature)
        return cls(CountErrorLaw(variance, third, step * n / 2, (start + 1) * n / 2), messages)

    def with_min_variance(self, second_moment: float, curvature: float) -> MeanErrorLaw:
        """Returns the law with a lower bound S + c·x² of the messages' variance."""
        least = _variance(self.message_count, second_moment, curvature)
        return replace(self, count_law=replace(self.count_law, min_variance=least))

    def variance_at_means(self, means: Floats) -> Floats:
        """Returns the variance of the estimates of these means, from −1 to 1."""
        return self.count_law.variance_at((means + 1) / 2 * self.message_count) * (2 / self.message_count) ** 2

    def select(self, places: Any) -> ErrorLaw:
        return replace(self, count_law=self.count_law.select(places))

    def for_endpoint_values(self) -> MeanErrorLaw:
        """Returns the law for users who all hold one end or the other."""
        law, users = self.count_law, self.message_count
        variance, third = law.variance.to_affine(users), law.third_cumulant.to_affine(users)
        return replace(self, count_law=replace(law, variance=variance, third_cumulant=third))

    def critical_value(self, confidence: float) -> float:
        return NORMAL.critical_value(confidence)

    def sum_law(self, parts: float) -> ErrorLaw:
        del parts
        return NORMAL

    def transform(self, scale: float | Floats, shift: float | Floats) -> ErrorLaw:
        if np.ndim(scale) or np.ndim(shift):
            return NORMAL
        return replace(self, low=float(shift + scale * self.low), high=float(shift + scale * self.high))

    def confidence_limits(
        self, value: Floats, variance: Floats, users: int, confidence: float
    ) -> tuple[Floats, Floats]:
        del users
        unit = (self.high - self.low) / self.message_count
        ends = self.count_law.confidence_limits((value - self.low) / unit, variance, self.message_count, confidence)
        first, last = (self.low + unit * end for end in ends)
        return (first, last) if unit > 0 else (last, first)


def _variance(messages: int, second_moment: float | Floats, curvature: float) -> Cumulant:
    """Returns S + c·x² of each message as the variance of a count of users.

    Here x = 2k/n − 1, and the contribution is half of a message's.
    """
    empty = to_stored_numbers(messages * (np.asarray(second_moment) + curvature) / 4)
    return Cumulant(empty, -curvature, curvature / messages)


MIN_RATE = 0.01
"""Smallest rate: finer noise looks the same in standard errors."""
MIN_NORMAL_SHAPE = 50.0
"""Shape from which on the law is normal for the purpose of intervals."""
TRUNCATED_PROBABILITY = 1e-12
SHAPE_DIGITS = 4
"""Significant digits to which a shape is rounded: a standard error is then right to as many."""


@dataclass(frozen=True)
class NegativeBinomialErrorLaw(ErrorLaw):
    """Error X − Y, X and Y negative binomial with `shape` and ratio e^−rate each: whole numbers, two-sided.

    Args:
        shape: Shape of both.
        rate: Decay rate of both.
        options: If given, the errors of so many counts are known to sum to 0, and each is reduced by the mean of all.
    """

    shape: float
    rate: float
    options: int | None = None

    def critical_value(self, confidence: float) -> float:
        if self.effective_shape >= MIN_NORMAL_SHAPE:
            return NORMAL.critical_value(confidence)
        shape = float(f"{self.shape:.{SHAPE_DIGITS}g}")
        return _count_noise_critical_value(shape, max(self.rate, MIN_RATE), self.options, confidence)

    def sum_law(self, parts: float) -> ErrorLaw:
        """Returns the law of the same fourth moment."""
        return NegativeBinomialErrorLaw(self.effective_shape * max(1.0, parts), self.rate)

    @property
    def effective_shape(self) -> float:
        """The shape of a law of the same fourth moment without the part of the other options' noise."""
        if self.options is None:
            return self.shape
        own, others = 1 - 1 / self.options, (self.options - 1) / self.options**4
        return self.shape * own**2 / (own**4 + others)

    @property
    def excess_kurtosis(self) -> float:
        ratio = math.exp(-self.rate)
        return (1 + 4 * ratio + ratio**2) / (2 * self.effective_shape * ratio)


@dataclass(frozen=True)
class SkellamErrorLaw(ErrorLaw):
    """Error that is a difference of two Poisson numbers: whole, two-sided, nearly normal if the variance is large."""

    variance: float

    def critical_value(self, confidence: float) -> float:
        if self.variance >= MAX_LATTICE_DEVIATION**2:
            return NORMAL.critical_value(confidence)
        return _skellam_critical_value(float(f"{self.variance:.{SHAPE_DIGITS}g}"), confidence)

    def sum_law(self, parts: float) -> ErrorLaw:
        """Returns the law of the same fourth moment."""
        return SkellamErrorLaw(self.variance * max(1.0, parts))

    @property
    def excess_kurtosis(self) -> float:
        return 1 / self.variance


@lru_cache(maxsize=1024)
def _skellam_critical_value(variance: float, confidence: float) -> float:
    from scipy.stats import skellam

    # Both tails are alike.
    inside = int(skellam.isf((1 - confidence) / 2, variance / 2, variance / 2))
    return (inside + 0.5) / math.sqrt(variance)


@lru_cache(maxsize=1024)
def _count_noise_critical_value(shape: float, rate: float, options: int | None, confidence: float) -> float:
    """Returns the fewest steps that the error exceeds with probability at most 1 − confidence, plus half a step.

    The result is in standard errors. Among k options an error is ((k − 1)·Z − W)/k, Z its own noise and W that of all
    others together: it has steps of 1/k, and each value of Z is matched by an interval of values of W.
    """
    ratio = math.exp(-rate)
    noise, chances = _difference_probabilities(shape, ratio)
    deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
    steps = 1 if options is None else options
    others = _zero_cdf if options is None else _difference_cdf(shape * (options - 1), ratio)
    deviation *= math.sqrt(1 - 1 / steps) if steps > 1 else 1.0
    own = max(1, steps - 1) * noise

    def coverage(reach: int) -> float:
        return float(chances @ (others(own + reach) - others(own - reach - 1)))

    low, high = -1, int(own[-1]) + 1
    while coverage(high) < confidence:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if coverage(middle) >= confidence else (middle, high)
    return (high + 0.5) / steps / deviation


def _difference_probabilities(shape: float, ratio: float) -> tuple[Integers, Floats]:
    """Returns the values of X − Y with non-negligible probability, and their probabilities."""
    from scipy.stats import nbinom

    most = int(nbinom.isf(TRUNCATED_PROBABILITY, shape, 1 - ratio)) + 1
    chances = nbinom.pmf(np.arange(most + 1), shape, 1 - ratio)
    return np.arange(-most, most + 1), np.correlate(chances, chances, mode="full")


def _zero_cdf(numbers: Integers) -> Floats:
    """Returns the distribution function of the constant 0."""
    return np.asarray(numbers >= 0, dtype=np.float64)


def _difference_cdf(shape: float, ratio: float) -> Callable[[Integers], Floats]:
    """Returns the distribution function of X − Y; normal if the shape is large."""
    if shape >= MIN_NORMAL_SHAPE:
        from scipy.special import ndtr

        deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
        return lambda numbers: np.asarray(ndtr((numbers + 0.5) / deviation))
    values, chances = _difference_probabilities(shape, ratio)
    summed = np.concatenate([[0.0], np.cumsum(chances)])
    return lambda numbers: summed[np.clip(numbers - values[0] + 1, 0, len(values))]
