"""Upper bound over all datasets of the other users, by the theorem of the absent user (docs/crowds.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.bounds.base import Bound, EvaluationCost
from shuffledp.bounds.tail_truncation import has_tails, tail_curve
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.numerics.roots import invert
from shuffledp.numerics.worst_case_positive_part import (
    SHARPNESS,
    WorstDatasetMixture,
    chi_squared_distances,
    log_chernoff,
)
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, InterpolationPoints, PrivacyCurve
from shuffledp.privacy.dominating_pairs import OtherUsers
from shuffledp.privacy.randomizer_interface import Randomizer

METHOD = "worst dataset"
MIN_OTHERS = 16
"""Number of others below which the blanket or an exact bound is sharper."""
EXACT_BINARY_USER_LIMIT = 5_000
"""Number of users from which this bound is faster for two messages than ``exact-binary``, with about the same ε."""
EVEN_STEPS, GROWING_STEPS = 16, 12
"""Number of steps for the number of lost users: evenly spaced ones, and then growing ones."""
EVEN_RANGE = 4.0
"""End of the evenly spaced steps, in multiples of the mean number of lost users."""
TAIL_LOG_MARGIN = 12.0
"""The probability beyond the last step is planned this many e-folds below δ."""
ROUNDING_MARGIN = 1e-12
SEARCH_SHARPNESS = 1e-3
PROFILE_SHARPNESS = 5e-5
LOST_USERS_SHARPNESS = 0.02
"""Sharpness of the search for the worst dataset, as a share of the cost of the lost users."""
MAX_PROFILE_DIRECTIONS, MAX_PROFILE_PROBABILITIES = 48, 6000
"""Largest number of directions, and of probabilities in all of them, that may be evaluated hundreds of times."""
HEAVY_MESSAGE_DEVIATIONS = 10.0
"""Standard deviations of the sum above which one message is heavy."""
MIN_RELATIVE_GAIN = 5e-4
"""Relative gain in ε below which the search is skipped."""
HEAVY_EPSILON_SHARE, FAR_EPSILON_FACTOR = 0.5, 4.0
MAX_DIRECT_EVALUATIONS = 16
"""For more ε than this, δ is interpolated."""
INTERPOLATION_STEP, MAX_INTERPOLATION_POINTS = 0.125, 200
"""Distance of the interpolation points in standard deviations, and their largest number."""


@dataclass(frozen=True)
class WorstDatasetDivergence(ValueObject):
    """Upper bound of the largest divergence over all datasets in one direction.

    Theorem: absent user (docs/crowds.md): D ≤ Σ_{h<M} γ(1−γ)^h·U(M−h) + (1−γ)^M, U(m) = max of E(ΣG)_+/m over all
    datasets of m others; U falls with m, so that several h are bounded by the last of them.
    """

    others: OtherUsers
    count: int
    """M, the number of others."""

    def bracket(self, epsilon: float, sharpness: float = SHARPNESS) -> Bracket:
        if (epsilon, sharpness) not in self._brackets:
            self._brackets[epsilon, sharpness] = self._bracket(epsilon, sharpness)
        return self._brackets[epsilon, sharpness]

    def log_estimate(self, epsilon: float) -> float:
        if epsilon not in self._estimates:
            self._estimates[epsilon] = self._estimate_log_delta(epsilon)
        return self._estimates[epsilon]

    @cached_property
    def _brackets(self) -> dict[tuple[float, float], Bracket]:
        return {}

    @cached_property
    def _estimates(self) -> dict[float, float]:
        return {}

    def _estimate_log_delta(self, epsilon: float) -> float:
        """Returns log δ in floats, for the worst constant dataset."""
        mixture = WorstDatasetMixture(self.others.approximate_laws(epsilon), SEARCH_SHARPNESS)
        if not mixture.may_rise.any():
            return -math.inf
        first, _ = mixture.bound_constant_mixtures(np.array([float(self.count)]))
        chances, counts, beyond = self.lost_user_steps(min(float(first[0]), 0.0))
        logs, _ = mixture.bound_constant_mixtures(counts)
        return math.log(min(1.0, max(1e-300, self.total_delta(chances, logs, beyond))))

    def _bracket(self, epsilon: float, sharpness: float) -> Bracket:
        # More sharpness than the cost of the lost users would be wasted.
        sharpness = max(sharpness, LOST_USERS_SHARPNESS / (self.others.gamma * self.count))
        mixture = WorstDatasetMixture(self.others.laws(epsilon), sharpness)
        if not mixture.may_rise.any():
            return Bracket(arb(0), arb(self.lost_user_steps(-math.inf)[2]), METHOD)
        chances, counts, beyond = self.lost_user_steps(self.log_estimate(epsilon))
        logs, _, kind = mixture.bound_worst_mixture(counts)
        total = self.total_delta(chances, logs, beyond)
        (least,) = self.constant_dataset_mean(kind).brackets([epsilon])
        return Bracket(least.lower.min(arb(total)), arb(min(1.0, total)), METHOD)

    def natural_scale(self) -> float:
        return math.sqrt(float(chi_squared_distances(self.others.probabilities).max()) / self.count)

    @property
    def is_heavy(self) -> bool:
        """True if one message may weigh much more than the standard deviation of all."""
        view = self.others.probabilities
        gaps = np.divide(view.first - view.second, view.hiding, out=np.zeros_like(view.hiding), where=view.hiding > 0)
        return float(gaps.max()) > HEAVY_MESSAGE_DEVIATIONS * math.sqrt(
            self.count * float(chi_squared_distances(view).max())
        )

    def is_bounded_by(self, level: float, epsilon: float) -> bool:
        """Returns True if the bound at ε is certainly at most ``level``; tries the cheap bound first."""
        return self.is_quickly_within(level, epsilon) or bool(self.bracket(epsilon).upper <= level)

    def is_quickly_within(self, level: float, epsilon: float) -> bool:
        """Returns True if one bound for all datasets together already shows that δ is at most ``level``."""
        mixture = WorstDatasetMixture(self.others.laws(epsilon), SEARCH_SHARPNESS)
        if not (level > 0 and mixture.may_rise.any()):
            return False
        chances, counts, beyond = self.lost_user_steps(math.log(level))
        return self.total_delta(chances, mixture.log_bounds(np.eye(mixture.law_count), counts), beyond) <= level

    def is_covered_by(self, other: WorstDatasetDivergence) -> bool:
        """Returns True if every law here is also one there, so that the bound of the other direction covers it."""
        return self.others.gamma >= other.others.gamma and self.others.signature <= other.others.signature

    @staticmethod
    def total_delta(chances: Floats, logs: Floats, beyond: float) -> float:
        return float(chances @ np.exp(np.minimum(logs, 0.0))) * (1 + ROUNDING_MARGIN) + beyond

    def constant_dataset_mean(self, kind: int) -> PositivePartMean:
        """Returns the sum if all others have the same law."""
        return PositivePartMean(self.others.user_pairs[kind].law, self.count)

    def lost_user_steps(self, log_delta: float) -> tuple[Floats, Floats, float]:
        return lost_user_steps(self.others.gamma, self.count, log_delta)


def lost_user_steps(gamma: float, count: int, log_delta: float) -> tuple[Floats, Floats, float]:
    """Returns probabilities of ranges of lost users, the least number of others left in each, and the rest to 1."""
    if gamma >= 1.0:
        return np.array([1.0]), np.array([float(count)]), 0.0
    fall = -math.log1p(-gamma)
    last = math.ceil(min(count, (TAIL_LOG_MARGIN - log_delta) / fall))
    even = np.linspace(0.0, min(EVEN_RANGE / fall, last), EVEN_STEPS + 1)
    growing = np.geomspace(max(1.0, even[-1]), last, GROWING_STEPS + 1) if even[-1] < last else np.array([last])
    edges = np.unique(np.minimum(np.ceil(np.concatenate([even, growing])), last))
    starts, ends = edges[:-1], edges[1:]
    chances = np.exp(-fall * starts) * -np.expm1(-fall * (ends - starts)) * (1 + ROUNDING_MARGIN)
    return chances, count - (ends - 1), math.exp(-fall * last) * (1 + 1e-9)


@dataclass(frozen=True)
class WorstDatasetCurve(PrivacyCurve):
    """Upper bound of the largest divergence over all datasets, for several pairs of inputs."""

    directions: tuple[WorstDatasetDivergence, ...]
    """The widest first."""
    largest_epsilon: float

    @property
    def certified(self) -> bool:
        return True

    def loss_deviation(self) -> float | None:
        return self.directions[0].natural_scale()

    @property
    def has_fast_profile(self) -> bool:
        size = sum(way.others.probabilities.hiding.size for way in self.directions)
        return len(self.directions) <= MAX_PROFILE_DIRECTIONS and size <= MAX_PROFILE_PROBABILITIES

    def may_beat(self, epsilon: float, delta: float) -> bool:
        """Returns False if a constant dataset, in floats, has no smaller δ at an ε that is hardly smaller.

        If one message can outweigh all others, the sum is far from normal and cannot be bounded sharply; the answer is
        then True only if δ is smaller at half of ε. Far beyond the limit of many users the answer is True without
        evaluation.
        """
        if not 0 < delta < 1:
            return False
        first, log_delta = self.directions[0], math.log(delta)
        far = FAR_EPSILON_FACTOR * first.natural_scale() * math.sqrt(-2 * log_delta)
        if first.is_heavy:
            return first.log_estimate(min(epsilon * HEAVY_EPSILON_SHARE, far, self.largest_epsilon)) < log_delta
        if epsilon > far > 0:
            return True
        return first.log_estimate(min(epsilon, self.largest_epsilon) * (1 - MIN_RELATIVE_GAIN)) < log_delta

    def _may_exceed(self, level: float, epsilon: float) -> list[WorstDatasetDivergence]:
        """Returns the directions after the first that are not immediately shown to be at most ``level`` at ε."""
        rest = self.directions[1:]
        if not rest or not level > 0:
            return list(rest)
        chances, counts, beyond = min(rest, key=lambda way: way.others.gamma).lost_user_steps(math.log(level))
        logs = log_chernoff([way.others.probabilities for way in rest], epsilon, counts)
        return [
            way
            for way, log in zip(rest, logs, strict=True)
            if not WorstDatasetDivergence.total_delta(chances, log, beyond) <= level
        ]

    def _epsilon(self, delta: float) -> BoundValue:
        high, vanishes = min(self.largest_epsilon, MAX_EPSILON), self.largest_epsilon <= MAX_EPSILON
        found = invert(self.directions[0], delta, high, zero_at_high=vanishes)
        upper, lower = found.upper, found.lower
        evaluated = [self.directions[0]]
        for way in self._may_exceed(delta, upper) if math.isfinite(upper) else ():
            if any(way.is_covered_by(other) for other in evaluated):
                continue
            evaluated.append(way)
            if not way.is_bounded_by(delta, upper):
                found = invert(way, delta, high, zero_at_high=vanishes)
                upper, lower = max(upper, found.upper), max(lower, found.lower)
        if math.isinf(upper) and math.isfinite(self.largest_epsilon):
            return self._value(self.largest_epsilon, self.largest_epsilon - lower)
        return self._value(upper, upper - lower if math.isfinite(upper) else math.inf)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest_epsilon and math.isfinite(self.largest_epsilon):
            return self._value(0.0, 0.0)
        upper, lower = self._worst(min(epsilon, MAX_EPSILON), SHARPNESS)
        if epsilon > MAX_EPSILON:
            return self._value(upper, upper)
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def _worst(self, epsilon: float, sharpness: float) -> tuple[float, float]:
        """Returns the largest δ over all directions, as an upper and a lower bound."""
        found = self.directions[0].bracket(epsilon, sharpness)
        upper, lower = found.upper_float(), found.lower_float()
        evaluated = [self.directions[0]]
        for way in self._may_exceed(upper, epsilon):
            if not (any(way.is_covered_by(other) for other in evaluated) or way.is_quickly_within(upper, epsilon)):
                found = way.bracket(epsilon, sharpness)
                upper, lower = max(upper, found.upper_float()), max(lower, found.lower_float())
                evaluated.append(way)
        return min(1.0, upper), lower

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        if len(epsilons) > MAX_DIRECT_EVALUATIONS:
            return self._interpolation_points.interpolate(epsilons)
        found = [self._bound_profile_point(float(epsilon)) for epsilon in epsilons]
        return np.array([upper for upper, _ in found]), np.array([lower for _, lower in found])

    @cached_property
    def _interpolation_points(self) -> InterpolationPoints:
        """δ at a few ε, to interpolate: the largest divergence over all datasets is convex in e^ε."""
        scale = self.directions[0].natural_scale()
        return InterpolationPoints.from_function(
            self._bound_profile_point, INTERPOLATION_STEP * scale, self.largest_epsilon, MAX_INTERPOLATION_POINTS
        )

    def _bound_profile_point(self, epsilon: float) -> tuple[float, float]:
        """Returns an upper and a lower bound of δ, less sharp than for a single value."""
        if epsilon >= self.largest_epsilon:
            return 0.0, 0.0
        upper, lower = self._worst(min(epsilon, MAX_EPSILON), PROFILE_SHARPNESS)
        return upper, 0.0 if epsilon > MAX_EPSILON else lower


class WorstDatasetBound(Bound):
    """The worst case over all datasets of the others.

    Theorem: absent user (docs/crowds.md), with the largest E(ΣG)_+ over all datasets by convexity on simplices.
    Requires: every law that another user's message may have, for each kind of input pair; a common part γ of them.
    Returns: a certified upper bound; the slack reaches down to the divergence of a real dataset.
    """

    name = "all-crowds"
    theorem = "absent user: the worst of all crowds (ours)"
    summary = "the worst of all datasets: meets the attack where many take part"
    guarantees = True
    slow = True

    def __init__(self, fewest: int = MIN_OTHERS) -> None:
        self.fewest = fewest
        """Number of others below which the bound does not apply."""

    def evaluation_cost(self, randomizer: Randomizer, users: int) -> EvaluationCost:
        is_fast = users >= EXACT_BINARY_USER_LIMIT and randomizer.coin_range() is not None
        return EvaluationCost.CHEAP if is_fast else EvaluationCost.EXPENSIVE

    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        if users - 1 < self.fewest:
            raise NotApplicable(self.name, f"is for at least {self.fewest} others, got {users - 1}.")
        if not has_tails(randomizer):
            return self._untruncated_curve(randomizer, users)
        finite = self._untruncated_curve(randomizer, users) if randomizer.other_users() else None
        return tail_curve(self, randomizer, users, finite)

    def _untruncated_curve(self, randomizer: Randomizer, users: int) -> WorstDatasetCurve:
        families = randomizer.other_users()
        if not families:
            raise NotApplicable(self.name, f"{type(randomizer).__name__} does not give all laws of the others.")
        ways = [way for others in families for way in ([others] if others.symmetric else [others, others.swapped()])]
        ways.sort(key=lambda way: -float(chi_squared_distances(way.probabilities).max()))
        largest = max(way.largest_log_ratio() for way in ways)
        directions = tuple(WorstDatasetDivergence(way, users - 1) for way in ways)
        return WorstDatasetCurve(self.source(users), directions, largest)
