"""Composition of the privacy curves of rounds, and the Gaussian limit of many users."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.validation import Floats
from shuffledp.numerics.convolution import (
    UNIT_ROUNDOFF,
    GridMeasure,
    GridSum,
    PiecewiseLinear,
    TiltedSum,
    TransformTooLong,
)
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve, exact_lower_bound
from shuffledp.privacy.lower_bounds import Attack
from shuffledp.privacy.privacy_loss import SURVEY_BUDGET, LossGrid, LossSurvey, round_step

# --- Gaussian limit of many users ---


NAME = "gaussian-limit"
NOTE = "Approximate: the limit of many users, not an upper bound."


@dataclass(frozen=True)
class GaussianLimit(PrivacyCurve):
    """δ(ε) between N(μ, 1) and N(0, 1), in floats: an approximation, never a guarantee.

    Theorem: central limit of (★): n messages whose G has standard deviation σ at ε = 0 approach μ = σ/√n, rounds add
    μ²; for any ε0-LDP randomizer μ = (e^ε0 − 1)·√(2/((e^ε0 + 1)·n)).
    Requires: nothing: that is why it is only approximate (n = 1e3, ε0 = 4, δ = 1e-5: 1.221 against the true 1.498).
    Returns: an approximation with ``guarantee`` and ``certified`` False; ``slack`` is infinite.
    """

    mu: float

    @property
    def certified(self) -> bool:
        return False

    def loss_deviation(self) -> float | None:
        return self.mu

    def _delta(self, epsilon: float) -> BoundValue:
        from scipy.special import log_ndtr

        point = min(epsilon, MAX_EPSILON)
        if self.mu == 0:
            return self._value(0.0, math.inf)
        first = float(log_ndtr(self.mu / 2 - point / self.mu))
        second = point + float(log_ndtr(-self.mu / 2 - point / self.mu))
        return self._value(math.exp(first) * -math.expm1(min(0.0, second - first)), math.inf)

    def _epsilon(self, delta: float) -> BoundValue:
        if self.mu == 0 or self._delta(0.0).upper <= delta:
            return self._value(0.0, math.inf)
        crossing = find_crossing(lambda x: delta - self._delta(x).upper, 0.0, MAX_EPSILON, guess=self.mu)
        return self._value(crossing.above, math.inf)


def gaussian_limit(curve: PrivacyCurve) -> GaussianLimit:
    """Returns the Gaussian approximation that the curve approaches as the number of users grows.

    It is computed at once and is not an upper bound.

    Args:
        curve: Curve of ``amplify``, or several rounds composed by ``compose``.

    Returns:
        A curve with ``guarantee`` and ``certified`` False.

    Raises:
        NotApplicable: If the limit of the curve is not known.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> value = sdp.gaussian_limit(curve).epsilon(delta=1e-6)
    >>> print(f"{value.upper:.3f}", value.guarantee)
    0.068 False
    """
    mu = curve.loss_deviation()
    if mu is None:
        raise NotApplicable(NAME, f"the limit of the curve of {curve.bound!r} is not known.")
    source: CurveSource = dataclasses.replace(
        curve.source, bound=NAME, theorem="central limit theorem", guarantee=False, note=NOTE, attack=None
    )
    return GaussianLimit(source, mu)


# --- Composition ---


@dataclass(frozen=True)
class RepeatedAttack(Attack):
    """Several rounds, each attacked in the same way: certified lower bounds of δ(ε) and ε(δ).

    The rounds are independent given the data, so the pair of all rounds is a product, and the lower values that
    composition proves for it are attained (by one dataset per round, where the others' values were drawn at random).
    Attacks whose two directions differ are not composed: one round of them is still a lower bound for all rounds.
    """

    single_attack: Attack
    rounds: int
    compose: Callable[[PrivacyCurve, int], PrivacyCurve]

    @cached_property
    def _composed_curve(self) -> PrivacyCurve | None:
        """All rounds of the attack that reveals most in the limit of many users."""
        curves = self.single_attack.exact_curves()
        if not curves:
            return None
        return self.compose(max(curves, key=lambda curve: curve.loss_deviation() or 0.0), self.rounds)

    def exact_curves(self) -> Sequence[PrivacyCurve]:
        return [] if self._composed_curve is None else [self._composed_curve]

    def delta(self, epsilon: float) -> float:
        return max(
            [self.single_attack.delta(epsilon), *(exact_lower_bound(c.delta(epsilon)) for c in self.exact_curves())]
        )

    def epsilon(self, delta: float) -> float:
        return max(
            [self.single_attack.epsilon(delta), *(exact_lower_bound(c.epsilon(delta)) for c in self.exact_curves())]
        )


_COMPOSE = "compose"
ACCURACY, MANY_CURVES_ACCURACY, MAX_CURVES_FOR_ACCURACY = 1e-4, 2.5e-4, 10
"""Relative amount by which the grid may raise ε; the second value applies to more different curves than the third."""
TRUNCATION_SHARE = 1e-4
"""Share of δ that truncating the tails of all rounds may cost."""
TARGET_DECADES = 3
"""Targets are rounded down to powers of ten with this spacing, so that neighbouring queries share work."""
FIRST_TARGET, MIN_TARGET = 1e-6, 1e-300
GRID_REACH = 4.0
"""Standard deviations of one round's loss, beyond the shift by the sum, within which every grid point is used."""
MAX_REFINEMENTS = 6
MAX_LOG = 700.0
"""The exponential of this is still a finite float."""
COARSENING, COARSEST_STEP = 32, 0.5

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _SideMeasure:
    """One side of the composed pair: the measure of the finite losses and the mass at infinity."""

    total: GridSum
    infinite_mass: float


class _Composer:
    """The discretised rounds, shared by all queries of one composition."""

    def __init__(self, parts: tuple[tuple[PrivacyCurve, int], ...], accuracy: float) -> None:
        self.multiplicities = [times for _, times in parts]
        self.rounds = sum(self.multiplicities)
        surveys = [LossSurvey(curve, SURVEY_BUDGET) for curve, _ in parts]
        self.variances = [survey.variance for survey in surveys]
        self.variance = math.fsum(n * v for n, v in zip(self.multiplicities, self.variances, strict=True))
        # Chords spread the loss over cells of length h and add about h²/6 to its variance in each round.
        self.step = round_step(math.sqrt(6 * accuracy * self.variance / self.rounds))
        self.floors = [(curve, survey.floor) for (curve, _), survey in zip(parts, surveys, strict=True)]
        self._start()

    def _start(self) -> None:
        self.grids = [LossGrid(curve, self.step, floor) for curve, floor in self.floors]
        self.sides: dict[float, tuple[_SideMeasure, _SideMeasure]] = {}

    def run_query(self, question: Callable[[], Answer]) -> Answer:
        """Answers on the first grid that is coarse enough for the range of the losses.

        A few large losses may be negligible for the variance, which chose the first grid, but not for δ.
        """
        while True:
            try:
                return question()
            except TransformTooLong:
                if self.step > COARSEST_STEP:
                    raise
                self.step *= COARSENING
                self._start()

    def compute_sides(self, target: float) -> tuple[_SideMeasure, _SideMeasure]:
        """Returns (dominating, dominated), fine enough for values of δ of about ``target`` and above."""
        target = max(MIN_TARGET, 10.0 ** (TARGET_DECADES * math.floor(math.log10(target) / TARGET_DECADES)))
        if target not in self.sides:
            shift = math.sqrt(-2 * math.log(target) / self.variance)
            share = TRUNCATION_SHARE * target / self.rounds
            pairs = [
                grid.pairs(shift * variance + GRID_REACH * math.sqrt(variance), share, lambda x: np.full_like(x, share))
                for grid, variance in zip(self.grids, self.variances, strict=True)
            ]
            self.sides[target] = self._side([pair[0] for pair in pairs]), self._side([pair[1] for pair in pairs])
        return self.sides[target]

    def _side(self, pairs: list[PiecewiseLinear]) -> _SideMeasure:
        parts: list[tuple[GridMeasure, int]] = []
        log_all = log_infinite = 0.0
        for pair, times in zip(pairs, self.multiplicities, strict=True):
            finite = math.fsum(pair.kinks.masses)
            parts.append((pair.kinks, times))
            log_all += times * math.log(finite + pair.value_at_infinity)
            log_infinite += times * math.log1p(pair.value_at_infinity / finite)
        if log_all > MAX_LOG:
            raise NumericalError(f"{_COMPOSE}: the rounds are too many for floats; compose fewer.")
        # Π(finite + rest) − Π finite; the last factor covers the rounding of the logarithms, one per round.
        infinite = math.exp(log_all) * -math.expm1(-log_infinite) * (1 + 1e-9 + 8 * UNIT_ROUNDOFF * self.rounds)
        return _SideMeasure(GridSum(tuple(parts)), infinite)


@dataclass(frozen=True)
class ComposedCurve(PrivacyCurve):
    """The curve of several rounds, each given by a curve and a multiplicity; inputs may be chosen adaptively.

    Theorem: [VR] Lemma 7.2: if each round is dominated by a pair, all rounds are dominated by the product of the
    pairs. The pairs are built from the curves by connecting the dots (privacy/privacy_loss.py).
    Requires: each curve bounds both directions for every neighbouring pair and for whatever came before.
    Returns: a certified upper value; ``slack`` is its distance to a certified lower value of the same product,
    grid, tails, wrap-around and rounding included.
    """

    parts: tuple[tuple[PrivacyCurve, int], ...]
    accuracy: float

    @property
    def certified(self) -> bool:
        return all(curve.certified for curve, _ in self.parts)

    def rounds(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        return self.parts

    def loss_deviation(self) -> float | None:
        deviations = [(times, curve.loss_deviation()) for curve, times in self.parts]
        squares = [times * deviation * deviation for times, deviation in deviations if deviation is not None]
        return math.sqrt(math.fsum(squares)) if len(squares) == len(deviations) else None

    @cached_property
    def _composer(self) -> _Composer:
        return _Composer(self.parts, self.accuracy)

    def _epsilon(self, delta: float) -> BoundValue:
        return self._composer.run_query(lambda: self._root(delta))

    def _root(self, delta: float) -> BoundValue:
        above, below = self._composer.compute_sides(delta)
        upper = _LevelCrossing(above, delta).smallest_proved()
        lower = _LevelCrossing(below, delta).largest_refuted()
        slack = 0.0 if math.isinf(upper) and lower >= MAX_EPSILON else upper - lower
        return self._value(upper, max(0.0, slack))

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self._composer.run_query(lambda: self._values(epsilons))

    def _values(self, epsilons: Floats) -> tuple[Floats, Floats]:
        points = np.minimum(epsilons, MAX_EPSILON)
        above, below = self._sides_for_epsilon(float(points.max(initial=0.0)))
        upper = np.minimum(1.0, _evaluate_at_points(above.total, points, TiltedSum.upper) + above.infinite_mass)
        return upper, np.minimum(upper, _evaluate_at_points(below.total, points, TiltedSum.lower))

    def _sides_for_epsilon(self, epsilon: float) -> tuple[_SideMeasure, _SideMeasure]:
        """Returns both sides, truncated so far out that the mass moved to infinity is small compared with δ(ε)."""
        target = FIRST_TARGET
        for _ in range(MAX_REFINEMENTS):
            above, below = self._composer.compute_sides(target)
            (finite,) = _evaluate_at_points(above.total, np.array([epsilon]), TiltedSum.upper)
            if target <= MIN_TARGET or finite >= target:
                break
            # Where no finite loss is left, only the smallest target shows how much mass is really at infinity.
            target = max(MIN_TARGET, finite * 0.1)
        return above, below


def _evaluate_at_points(total: GridSum, points: Floats, side: Callable[[TiltedSum, float], float]) -> Floats:
    """Evaluates one side of the positive part at each point; a tilt is reused for one standard deviation."""
    result = np.zeros_like(points)
    tilted, end = None, -math.inf
    for place in np.argsort(points).tolist():
        x = float(points[place])
        if x >= total.largest_point:
            break
        if tilted is None or x > end:
            tilt = total.tilt_for(x)
            tilted = total.apply_tilt(tilt, x)
            end = x + math.sqrt(total.moments(tilt)[2])
        result[place] = side(tilted, x)
    return result


class _LevelCrossing:
    """The crossing of the composed δ(ε) of one side with a level."""

    def __init__(self, side: _SideMeasure, level: float) -> None:
        self.side, self.level = side, level
        total = side.total
        tilt = total.tilt_for_level(math.log(level))
        _, mean, variance = total.moments(tilt)
        centre = mean - (1 / tilt + 1 / (1 + tilt) if tilt > 0 else 0.0)
        least = max(0.0, centre - 3 * math.sqrt(variance)) if tilt > 0 else 0.0
        self.high = min(MAX_EPSILON, max(total.largest_point, 0.0) + total.step)
        self.guess = min(max(centre, least), self.high)
        self.tilted = total.apply_tilt(tilt, min(least, self.high))

    def smallest_proved(self) -> float:
        """Returns the smallest ε found at which δ is proved to be at most the level; infinity if there is none."""
        if self._upper(self.high) > self.level:
            return math.inf
        if self._upper(self.tilted.least) <= self.level:
            if self.tilted.least == 0.0:
                return 0.0
            self._extend_left()
            if self._upper(0.0) <= self.level:
                return 0.0
        return self._search(self._upper)[1]

    def largest_refuted(self) -> float:
        """Returns the largest ε found at which δ is proved to be at least the level."""
        if self.tilted.lower(self.tilted.least) < self.level:
            if self.tilted.least == 0.0:
                return 0.0
            self._extend_left()
            if self.tilted.lower(0.0) < self.level:
                return 0.0
        return self._search(self.tilted.lower)[0]

    def _extend_left(self) -> None:
        self.tilted = self.side.total.apply_tilt(self.tilted.tilt, 0.0)

    def _upper(self, epsilon: float) -> float:
        return self.tilted.upper(epsilon) + self.side.infinite_mass

    def _search(self, value: Callable[[float], float]) -> tuple[float, float]:
        """Returns two close points: the value is at least the level at the first, at most the level at the second."""

        def excess(epsilon: float) -> float:
            found = value(epsilon)
            return math.log(self.level / found) if found > 0 else math.inf

        found = find_crossing(excess, self.tilted.least, self.high, guess=self.guess, relative=1e-9, absolute=1e-12)
        return found.below, found.above


def compose(
    curves: PrivacyCurve | Iterable[PrivacyCurve], rounds: float | None = None, *, accuracy: float | None = None
) -> PrivacyCurve:
    """Returns the privacy curve of several rounds with the same users.

    Each round may be chosen after seeing the results of earlier ones.

    Args:
        curves: One curve, or one for each round.
        rounds: Number of times that a single curve is run; 1 if left out.
        accuracy: Relative amount by which the grid may raise ε, approximately: by default 1e-4, or 2.5e-4 for more than
            ten different curves. The amount that it did raise is in ``slack``.

    Returns:
        The curve of all rounds; the curve itself if there is one round only.

    Raises:
        TypeError: If ``curves`` holds anything but privacy curves.
        ValueError: If there is no curve, if ``rounds`` is given with a list, or if a number is out of range.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> sdp.compose(curve, 10).epsilon(delta=1e-6).upper < 0.232
    True
    """
    if isinstance(curves, PrivacyCurve):
        listed = [curves]
        repeats = validation.count(_COMPOSE, "rounds", 1 if rounds is None else rounds)
    else:
        listed, repeats = list(curves), 1
        if rounds is not None:
            raise ValueError(f"{_COMPOSE}: rounds goes with one curve, not with a list of {len(listed)}.")
    if not listed:
        raise ValueError(f"{_COMPOSE}: expected at least one curve, got none.")
    if accuracy is not None:
        accuracy = validation.positive_finite(_COMPOSE, "accuracy", accuracy)
    parts: dict[int, tuple[PrivacyCurve, int]] = {}
    for curve in listed:
        if not isinstance(curve, PrivacyCurve):
            raise TypeError(f"{_COMPOSE}: expected privacy curves as amplify returns them, got {curve!r}.")
        for part, times in curve.rounds():
            known = parts.get(id(part), (part, 0))[1]
            parts[id(part)] = part, known + times * repeats
    distinct = tuple(parts.values())
    if len(distinct) == 1 and distinct[0][1] == 1:
        return distinct[0][0]
    default = MANY_CURVES_ACCURACY if len(distinct) > MAX_CURVES_FOR_ACCURACY else ACCURACY
    return ComposedCurve(_source(distinct), distinct, default if accuracy is None else accuracy)


def _source(parts: tuple[tuple[PrivacyCurve, int], ...]) -> CurveSource:
    def joined(words: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(word for word in words if word))

    curves = [curve for curve, _ in parts]
    rounds = sum(times for _, times in parts)
    # Attacks on different rounds may need different data of the same user, so only equal rounds are attacked.
    single = curves[0].source.attack if len(parts) == 1 else None
    return CurveSource(
        bound=joined(curve.bound for curve in curves),
        theorem=f"{rounds} rounds composed [VR Lemma 7.2], each by: " + joined(curve.theorem for curve in curves),
        messages=min(curve.messages for curve in curves),
        guarantee=all(curve.guarantee for curve in curves),
        note=joined(curve.note for curve in curves),
        users=max(curve.users for curve in curves),
        colluding=max(curve.source.colluding for curve in curves),
        chosen_inputs_only=any(curve.source.chosen_inputs_only for curve in curves),
        origin=joined(curve.source.origin for curve in curves),
        attack=None if single is None else RepeatedAttack(single, rounds, compose),
    )
