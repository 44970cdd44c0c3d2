"""Operations on privacy curves: composition of rounds, group privacy, the Gaussian limit, Rényi divergences.

``SampledCurve`` stores a curve as some hundred values, so that it can be composed later without computing it again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.base_classes import ValueObject
from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.validation import Floats, Integers
from shuffledp.numerics.convolution import (
    UNIT_ROUNDOFF,
    GridMeasure,
    GridSum,
    PiecewiseLinear,
    TiltedSum,
    TransformTooLong,
)
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.intervals import precision, round_down, round_up
from shuffledp.numerics.roots import find_crossing, invert
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve, exact_lower_bound
from shuffledp.privacy.lower_bounds import Attack
from shuffledp.privacy.privacy_loss import FLOOR_FACTOR, ROUNDING, LossGrid, LossMoments, LossSurvey, round_step

# --- Curves stored as points ---


SURVEY_BUDGET = 1e-12
POINT_SPACING, POINT_REACH = 0.03, 5.0
"""Spacing of the points and the range over which it is kept, both in standard deviations of the loss."""
MAX_REFINEMENT, MAX_FALL = 64, 1.35
"""Points are refined by at most the first factor where the curve falls by more than the second between two of them."""
NEGLIGIBLE_DELTA = 1e-20
"""Points are added until the curve is at most about this."""
MARGIN = 1e-12
"""Exceeds the relative rounding error of a chord in floats."""
MAGIC = b"shuffledp dots 1\n"


@dataclass(frozen=True, eq=False)
class SampledDeltas:
    """Upper values of δ(ε), never rising, at multiples of a step of few bits, from ε = 0 on."""

    step: float
    indices: Integers
    upper: Floats

    @classmethod
    def from_curve(cls, curve: PrivacyCurve) -> Self:
        """Samples a curve: densely where most of its loss lies, more widely beyond."""
        survey = LossSurvey(curve, SURVEY_BUDGET)
        deviation = math.sqrt(survey.variance)
        grid = LossGrid(curve, round_step(POINT_SPACING / MAX_REFINEMENT * deviation), survey.floor)
        grid.evaluate(
            grid.choose_points(
                POINT_REACH * deviation, max(NEGLIGIBLE_DELTA, survey.floor * FLOOR_FACTOR), MAX_REFINEMENT
            )
        )
        while True:
            samples = cls._from_grid(grid)
            before, after, cells = samples.upper[:-1], samples.upper[1:], np.diff(samples.indices)
            falls = (before > MAX_FALL * after) & (before > NEGLIGIBLE_DELTA) & (cells > 1)
            if not falls.any():
                return samples
            grid.evaluate((samples.indices[:-1] + cells // 2)[falls])

    @classmethod
    def _from_grid(cls, grid: LossGrid) -> Self:
        indices = np.array(sorted(grid.evaluated_bounds), dtype=np.int64)
        upper = np.array([grid.evaluated_bounds[place][0] for place in indices.tolist()])
        # The true curve never rises, whatever its bounds do.
        return cls(grid.step, indices, np.minimum.accumulate(np.minimum(1.0, upper)))

    def to_bytes(self) -> bytes:
        """Returns the points as bytes, without loss."""
        parts = (np.array([self.step]), self.indices, self.upper)
        return MAGIC + b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Restores the result of ``to_bytes``; compare its hash first."""
        body = content[len(MAGIC) :]
        count = (len(body) - 8) // 16
        (step,), upper = np.frombuffer(body[:8], "<f8").tolist(), np.frombuffer(body[8 + 8 * count :], "<f8")
        return cls(step, np.frombuffer(body[8 : 8 + 8 * count], "<i8").astype(np.int64), upper.astype(np.float64))

    @cached_property
    def epsilons(self) -> Floats:
        return np.asarray(self.step * self.indices.astype(np.float64))


def fingerprint(content: bytes) -> str:
    """Returns the hash that identifies stored points."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class SampledCurve(PrivacyCurve):
    """The chords between sampled upper values of a curve.

    Theorem: connect the dots [Doroshenko et al. 2022]: the true δ is convex in e^ε and never rises, so chords between
    upper values lie above it, and beyond the last point that point's value does (privacy/privacy_loss.py).
    Requires: the points are values of a guarantee for all inputs.
    Returns: a certified upper bound; ``slack`` is the rounding of the chords, not their distance to the curve.
    """

    samples: SampledDeltas

    @property
    def certified(self) -> bool:
        return True

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, places = self.samples.upper, self.samples.epsilons
        points = np.minimum(epsilons, places[-1])
        right = np.clip(np.searchsorted(places, points, side="left"), 1, len(places) - 1)
        left = right - 1
        # (e^b − e^ε)/(e^b − e^a) for a ≤ ε ≤ b, as a product of factors that are each accurate.
        weight = (
            np.expm1(places[right] - points) * np.exp(points - places[left]) / np.expm1(places[right] - places[left])
        )
        chord = upper[right] + (upper[left] - upper[right]) * weight
        return np.minimum(1.0, chord * (1 + MARGIN)), np.minimum(1.0, chord * (1 - MARGIN))

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def _epsilon(self, delta: float) -> BoundValue:
        def excess(epsilon: float) -> float:
            return delta - self._delta(epsilon).upper

        if excess(0.0) >= 0:
            return self._value(0.0, 0.0)
        if excess(MAX_EPSILON) < 0:
            return self._value(math.inf, 0.0)
        crossing = find_crossing(excess, 0.0, MAX_EPSILON, relative=1e-12)
        return self._value(crossing.above, crossing.above - crossing.below)


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


# --- Group privacy ---


BITS = 128
ROUNDING_MARGIN = 1e-13
"""Exceeds the relative rounding error of ε/K and of Σ e^(iε/K) in floats."""
UNDERFLOW_MARGIN = 1e-320
"""Exceeds the loss of a product through underflow."""
FIRST_POINT, POINT_RATIO, MIN_SCALE = 0.05, 1.5, 1e-12
"""The points at which the running minimum of the bound is taken: the first one, and the ratio of each to the next."""


@dataclass(frozen=True)
class GroupCurve(PrivacyCurve):
    """The curve ``inner`` for neighbours that differ in ``size`` values instead of one.

    Theorem: group privacy: along a chain of datasets, each of which changes one more of K values,
    δ_K(ε) ≤ Σ_{i<K} e^(iε/K)·δ(ε/K); as δ_K never grows, the smallest such value up to ε bounds it, too.
    Requires: ``inner`` bounds both directions for every pair of datasets that differ in one value; the number of
    values, the group's included, is the same in both datasets.
    Returns: a certified upper bound of both directions, rounded up.
    """

    inner: PrivacyCurve
    size: int

    @property
    def certified(self) -> bool:
        return self.inner.certified

    def _epsilon(self, delta: float) -> BoundValue:
        points, smallest = self._running_minimum
        within = np.flatnonzero(smallest <= delta)
        if not len(within):
            return self._value(math.inf, math.inf)
        high = float(points[within[0]])
        if high == 0.0:
            return self._value(0.0, 0.0)
        # A value in floats is a little larger than the same value in balls, so the level also holds there.
        inverse = invert(self, delta, high, zero_at_high=False)
        if math.isinf(inverse.upper):
            return self._value(high, high)
        return self._value(inverse.upper, inverse.upper - inverse.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        point = min(epsilon, MAX_EPSILON)
        value = self.bracket(point)
        upper = min(1.0, value.upper_float(), self._minimum_up_to(point))
        # Beyond the largest ε that is evaluated only an upper bound is known.
        lower = 0.0 if epsilon > MAX_EPSILON else min(upper, value.lower_float())
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def bracket(self, epsilon: float) -> Bracket:
        """Returns both sides of the sum at one ε."""
        with precision(BITS):
            step = arb(epsilon) / self.size
            terms = arb(epsilon).expm1() / step.expm1() if epsilon > 0 else arb(self.size)
            early, late = self.inner.delta(max(0.0, round_down(step))), self.inner.delta(round_up(step))
            lower = terms * max(0.0, math.nextafter(late.upper - late.slack, 0.0))
            return Bracket(lower.lower(), (terms * arb(early.upper)).upper(), "a chain of neighbours")

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        return self._scale * self.size

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        capped = np.minimum(epsilons, MAX_EPSILON)
        points, smallest = self._running_minimum
        # The last point at or before each ε.
        before = np.searchsorted(points, capped, side="right") - 1
        upper = np.minimum(self._upper(capped), smallest[before])
        lower = (
            self.inner.profile(capped / self.size * (1 + ROUNDING_MARGIN)).lower
            * self._terms(capped)
            * (1 - 4 * ROUNDING_MARGIN)
        )
        return upper, np.where(epsilons <= MAX_EPSILON, np.minimum(lower, upper), 0.0)

    def _upper(self, epsilons: Floats) -> Floats:
        upper = self.inner.profile(epsilons / self.size * (1 - ROUNDING_MARGIN)).upper
        raised = upper * self._terms(epsilons) * (1 + 4 * ROUNDING_MARGIN) + np.where(upper > 0, UNDERFLOW_MARGIN, 0.0)
        return np.asarray(np.minimum(1.0, raised))

    def _terms(self, epsilons: Floats) -> Floats:
        """Σ_{i<K} e^(iε/K)."""
        positive = np.where(epsilons > 0, epsilons, 1.0)
        return np.asarray(np.where(epsilons > 0, np.expm1(positive) / np.expm1(positive / self.size), self.size))

    def _minimum_up_to(self, epsilon: float) -> float:
        points, smallest = self._running_minimum
        return float(smallest[np.searchsorted(points, epsilon, side="right") - 1])

    @cached_property
    def _scale(self) -> float:
        return max(float(self.inner.profile([0.0]).upper[0]), MIN_SCALE) * math.sqrt(2 * math.pi)

    @cached_property
    def _running_minimum(self) -> tuple[Floats, Floats]:
        """Returns points ε from 0 on and the running minimum of the sum over them.

        The minimum is needed because any mass at infinity, however little, makes the sum grow again.
        """
        first = FIRST_POINT * self.natural_scale()
        count = max(1, math.ceil(math.log(MAX_EPSILON / first) / math.log(POINT_RATIO)))
        points = np.minimum(MAX_EPSILON, np.concatenate(([0.0], first * POINT_RATIO ** np.arange(count + 1))))
        return points, np.minimum.accumulate(self._upper(points))


def group(curve: PrivacyCurve, size: float) -> PrivacyCurve:
    """Returns the curve for a person who holds several values, where ``curve`` protects each value alone.

    The guarantee compares the person's values with any others, all replaced at once. The number of values is the same
    in both datasets and is not hidden.

    Args:
        curve: Curve of one value.
        size: Number of values that one person holds.

    Returns:
        An upper bound of δ(ε) for all values of one person; the curve itself where ``size`` is 1.

    Raises:
        TypeError: If ``curve`` is not a privacy curve.
        ValueError: If ``size`` is not a whole number of at least 1.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> print(f"{curve.epsilon(delta=1e-6).upper:.4f} {sdp.group(curve, 2).epsilon(delta=1e-6).upper:.4f}")
    0.0675 0.1418
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"group: expected a privacy curve as amplify returns it, got {curve!r}.")
    count = validation.count("group", "size", size)
    if count == 1:
        return curve
    theorem = f"group privacy of {count} values of one person, each by: {curve.theorem}"
    return GroupCurve(dataclasses.replace(curve.source, theorem=theorem), curve, count)


# --- Rényi divergences ---


_RENYI = "renyi"
ORDERS = tuple(1 + 2.0**k for k in np.arange(-6.0, 14.5, 0.5).tolist())
THEOREM = "Rényi divergence of the dominating pair; conversion [Canonne, Kamath, Steinke 2020, Prop. 12]"


@dataclass(frozen=True)
class RenyiCurve(ValueObject):
    """Certified Rényi divergences by order: the larger of both directions, summed over all rounds."""

    curve: PrivacyCurve

    def divergence(self, order: float) -> BoundValue:
        """Returns the Rényi divergence of the curve's rounds at one order.

        Theorem: with F(x) = D_x(P‖Q) and its symmetric extension, E_Q[(P/Q)^α] − 1 is the integral over ε ≥ 0 of
        α(α−1)·(e^((α−1)ε) + e^(−αε))·F(e^ε); for the piecewise linear F with slopes jumping by q_j at ε_j it is
        Σ_j q_j·(1 − e^(−(α−1)ε_j))·(e^(αε_j) − 1). Divergences of rounds add up.
        Requires: order > 1.

        Args:
            order: Rényi order, above 1 and finite.

        Returns:
            An upper value from the chords and, for ``slack``, a lower value from functions below the curve; infinity
            where the loss is infinite with positive probability. Where the order is so high that values of δ below
            1e-280 matter, floats underflow and the upper value is loose, as ``slack`` says.

        Raises:
            ValueError: If ``order`` is not above 1 and finite.
        """
        alpha = validation.real(_RENYI, "order", order, up=True)
        if not 1.0 < alpha < math.inf:
            raise ValueError(f"{_RENYI}: order must be above 1 and finite, got {alpha!r}.")
        upper = lower = 0.0
        for moments, times in self._moments:
            above, below = moments.divergence(alpha)
            upper += times * above
            lower += times * below
        upper, lower = upper * (1 + ROUNDING), lower * (1 - ROUNDING)
        return self._value(upper, upper - lower if math.isfinite(upper) else math.inf)

    def epsilon(self, delta: float) -> BoundValue:
        """Returns the smallest ε that the divergences at ORDERS prove for this δ; larger than ``curve.epsilon(delta)``.

        Theorem: [Canonne, Kamath, Steinke 2020] Proposition 12: D_α + log((α−1)/α) − (log δ + log α)/(α−1).
        Requires: 0 < δ < 1.

        Args:
            delta: The δ of the guarantee.

        Returns:
            A certified upper bound; ``slack`` is of the divergence at the order used.

        Raises:
            ValueError: If ``delta`` is not between 0 and 1, both excluded.
        """
        delta = validation.open_probability(_RENYI, "delta", delta)
        best = self._value(math.inf, math.inf)
        for order in ORDERS:
            offset = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            if offset > best.upper:
                continue
            value = self.divergence(order)
            # Divergences grow with the order.
            if value.upper - value.slack > best.upper:
                break
            upper = max(0.0, value.upper + offset + ROUNDING * (value.upper + abs(offset)))
            if upper < best.upper:
                best = self._value(upper, min(value.slack, upper))
        return replace(best, delta=delta)

    @cached_property
    def _moments(self) -> tuple[tuple[LossMoments, int], ...]:
        return tuple((LossMoments(curve), times) for curve, times in self.curve.rounds())

    def _value(self, upper: float, slack: float) -> BoundValue:
        curve = self.curve
        theorem = f"{THEOREM}; {curve.theorem}"
        return BoundValue(
            upper, slack, curve.bound, theorem, curve.certified, curve.guarantee, curve.note, curve.source.origin
        )


def renyi(curve: PrivacyCurve) -> RenyiCurve:
    """Returns the Rényi divergences of a curve by order, for accounting in Rényi differential privacy.

    Args:
        curve: Curve of ``amplify``, ``subsample`` or ``compose``; the divergences of rounds add up.

    Returns:
        An object with ``divergence(order)`` and the ``epsilon(delta)`` that the divergences prove.

    Raises:
        TypeError: If ``curve`` is not a privacy curve.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> sdp.renyi(curve).divergence(order=2.0).upper < 0.00037
    True
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"{_RENYI}: expected a privacy curve as amplify returns it, got {curve!r}.")
    return RenyiCurve(curve)


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
