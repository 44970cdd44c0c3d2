"""Trade-off functions of f-DP: polygons, the Gaussian curve, and their conversion to privacy curves δ(ε).

T(P, Q)(x) is the smallest type II error (``fnr``) of any test of P against Q whose type I error (``fpr``) is x. The
test rejects P where p/q is small, so that 1 + f*(−e^ε) is D_{e^ε}(Q‖P). A larger curve is more private; 1 − x is
perfect privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable, NumericalError
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import log_ndtr, ndtr, ndtri
from shuffledp.numerics.convolution import lower_convex_hull
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, CurveSource, PrivacyCurve

# --- Rényi divergences from hockey-stick divergences ---


MAX_SCAN_EPSILON, NEGLIGIBLE_DELTA = 700.0, 1e-300
"""The largest ε, and the δ below which nothing is known of the tail."""
FLOOR_FACTOR = 1 - 1e-9
SCAN_POINTS, LOG_NEGLIGIBLE = 400, -45.0
NODES, MIN_PANELS, MAX_PANELS = 16, 32, 4096
TOLERANCE = 1e-9


def renyi_divergence(forward: Callable[[float], float], backward: Callable[[float], float], order: float) -> float:
    """Returns D_order(P‖Q), at order 1 the Kullback–Leibler divergence, from δ(ε) of both directions.

    ``forward`` is D_{e^ε}(P‖Q), ``backward`` D_{e^ε}(Q‖P), for ε ≥ 0.

    Theorem: an f-divergence is the mixture ∫_1^∞ F''(x)·D_x(P‖Q) + x^(−3)·F''(1/x)·D_x(Q‖P) dx of hockey-stick
    divergences [Sason and Verdú 2016, Theorem 8]; with F(s) = s^α and x = e^ε the integral over ε ≥ 0 of
    α(α−1)·(e^((α−1)ε)·D_{e^ε}(P‖Q) + e^(−αε)·D_{e^ε}(Q‖P)) is E_Q (p/q)^α − 1, and KL for F(s) = s·log s.
    Requires: order ≥ 1; the two functions are smooth but for a few kinks.
    Returns: floats, to about 1e-9 of the integral; infinity where P has mass that Q does not have. Raises
    NumericalError where values below 1e-300, or an ε above 700, would count.
    """
    end = _end_of_support(forward)
    if end == MAX_SCAN_EPSILON and forward(MAX_SCAN_EPSILON) >= FLOOR_FACTOR * forward(MAX_SCAN_EPSILON / 2):
        return math.inf

    def logs(points: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            there = np.log(np.array([max(0.0, forward(x)) for x in points.tolist()]))
            back = np.log(np.array([max(0.0, backward(x)) for x in points.tolist()]))
        return np.asarray(np.logaddexp((order - 1) * points + there, -order * points + back))

    scanned = np.linspace(0.0, end, SCAN_POINTS + 1)
    found = logs(scanned)
    top = float(found.max())
    if top == -math.inf:
        return 0.0
    unknown = (order - 1) * end + math.log(max(NEGLIGIBLE_DELTA, forward(end)))
    if unknown > top + LOG_NEGLIGIBLE:
        raise NumericalError(f"divergence: at order {order:g} the result depends on values beyond the range of floats.")
    counted = np.flatnonzero(found > top + LOG_NEGLIGIBLE)
    low, high = scanned[max(0, counted[0] - 1)], scanned[min(SCAN_POINTS, counted[-1] + 1)]
    log_excess = top + math.log(_integral(lambda points: np.exp(logs(points) - top), float(low), float(high)))
    if order == 1:
        return math.exp(log_excess)
    return float(np.logaddexp(0.0, math.log(order * (order - 1)) + log_excess)) / (order - 1)


def _end_of_support(forward: Callable[[float], float]) -> float:
    """Returns the first ε at which the divergence underflows, 700 if there is none."""
    if forward(MAX_SCAN_EPSILON) >= NEGLIGIBLE_DELTA:
        return MAX_SCAN_EPSILON
    low, high = 0.0, MAX_SCAN_EPSILON
    while high - low > 1e-15 * high and high > NEGLIGIBLE_DELTA:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if forward(middle) >= NEGLIGIBLE_DELTA else (low, middle)
    return high


def _integral(function: Callable[[Floats], Floats], low: float, high: float) -> float:
    """Integrates by Gauss–Legendre quadrature on more and more panels."""
    places, weights = np.polynomial.legendre.leggauss(NODES)
    before, panels = math.inf, MIN_PANELS
    while panels <= MAX_PANELS:
        edges = np.linspace(low, high, panels + 1)
        half = (high - low) / panels / 2
        points = ((edges[:-1] + half)[:, None] + half * places).ravel()
        found = half * float(np.sum(np.tile(weights, panels) * function(points)))
        if abs(found - before) <= TOLERANCE * abs(found):
            return found
        before, panels = found, 2 * panels
    raise NumericalError("divergence: the curve has too many kinks to be integrated.")


ERROR_PREFIX = "TradeOff"
TOTAL_TOLERANCE = 1e-9
"""Masses that sum to 1 within this are normalised."""
MAX_LOG_RATIO = 600.0
"""Logarithms are summed for powers of ratios above e to this, near the largest float."""


class TradeOff(ValueObject, ABC):
    """A trade-off curve: convex, decreasing, at most 1 − x.

    ``guarantee``: no test does better than the curve says. ``certified``: its values are rounded so that this holds to
    the last bit; otherwise they carry the rounding errors of floats.
    """

    theorem: str
    guarantee: bool
    certified: bool

    @abstractmethod
    def fnr(self, fpr: ArrayLike) -> Floats:
        """Returns the smallest type II error at each type I error.

        Args:
            fpr: Type I errors, each between 0 and 1.

        Returns:
            The type II errors.

        Raises:
            ValueError: If an error is not between 0 and 1.
        """

    @abstractmethod
    def tpr(self, fpr: ArrayLike) -> Floats:
        """Returns the largest power at each type I error: 1 − ``fnr``, accurate in relative terms where it is tiny.

        Args:
            fpr: Type I errors, each between 0 and 1.

        Returns:
            The values 1 − ``fnr``.

        Raises:
            ValueError: If an error is not between 0 and 1.
        """

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Returns D_{e^ε}(Q‖P): the largest 1 − fnr − e^ε·fpr.

        Theorem: [FDP] Lemma A.3: δ(ε) = 1 + f*(−e^ε).

        Args:
            epsilon: Any real ε.

        Returns:
            The value of δ.
        """

    @abstractmethod
    def to_piecewise(self) -> PiecewiseTradeOff:
        """Returns the curve as a polygon: itself if it is one."""

    @abstractmethod
    def inverse(self) -> TradeOff:
        """Returns T(Q, P): the two errors exchanged."""

    def conjugate(self, slope: float) -> float:
        """Returns the convex conjugate f*(y) = sup_x (x·y − f(x)).

        Args:
            slope: y, at most 0.

        Returns:
            The value of f* at y.

        Raises:
            ValueError: If ``slope`` is above 0.
        """
        slope = validation.real(ERROR_PREFIX, "slope", slope)
        if not slope <= 0:
            raise ValueError(f"{ERROR_PREFIX}: slope must be at most 0, got {slope!r}.")
        return self.delta(math.log(-slope)) - 1.0 if slope < 0 else 0.0

    def advantage(self) -> float:
        """Returns the largest 1 − fpr − fnr: the total variation, which is δ at ε = 0."""
        return self.delta(0.0)

    def divergence(self, epsilon: float) -> float:
        """Returns the larger of both directions, as (ε, δ)-DP requires.

        Args:
            epsilon: ε of at least 0.

        Returns:
            The value of δ.
        """
        return max(self.delta(epsilon), self.inverse().delta(epsilon))

    def renyi(self, order: float) -> float:
        """Returns the Rényi divergence D(P‖Q) in floats.

        Args:
            order: Order of at least 1; at 1 it is the Kullback–Leibler divergence.

        Returns:
            The divergence; infinity if P has mass that Q does not have.

        Raises:
            NumericalError: If values beyond the range of floats would count.
        """
        other, backward = self.inverse(), cache(self.delta)
        # If both directions are the same curve, each δ is computed once.
        return renyi_divergence(backward if other is self else other.delta, backward, order)


@dataclass(frozen=True, eq=False)
class PiecewiseTradeOff(TradeOff):
    """The curve of two finite laws: one segment for each likelihood ratio, steepest first.

    The masses of a segment under P and Q are its extent to the right and downwards. Knots, δ(ε), the inverse, mixtures
    and divergences all follow from these two lists, and tiny errors keep their digits.

    Args:
        null: Masses of the outcomes under P; they are normalised and sorted by slope.
        alternative: Masses of the same outcomes under Q.
        theorem: Theorem behind the curve.
        guarantee: True if no test does better than the curve says.
        from_points: True if the polygon goes through points of the actual curve and thus lies above it in between.

    Raises:
        ValueError: If the lists differ in length, hold a negative number or do not sum to 1.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.from_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{float(coins.fnr(0.25)):g} {coins.advantage():g}")
    0.25 0.5
    """

    null: Floats
    alternative: Floats
    theorem: str = "likelihood-ratio test (Neyman and Pearson)"
    guarantee: bool = False
    from_points: bool = False
    certified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        null, alternative = _masses("null", self.null), _masses("alternative", self.alternative)
        if null.shape != alternative.shape:
            raise ValueError(
                f"{ERROR_PREFIX}: null and alternative must be equally long, got {len(null)} and {len(alternative)}."
            )
        positive = (null > 0) | (alternative > 0)
        null, alternative = null[positive], alternative[positive]
        order = np.argsort(-_steepness(null, alternative), kind="stable")
        object.__setattr__(self, "null", _freeze(null[order]))
        object.__setattr__(self, "alternative", _freeze(alternative[order]))

    @classmethod
    def from_laws(cls, null: Mapping[object, float], alternative: Mapping[object, float]) -> PiecewiseTradeOff:
        """Returns T(P, Q) of two finite laws.

        Theorem: [FDP] Lemma A.1 (Neyman–Pearson).

        Args:
            null: Probability of each outcome under P.
            alternative: Probability of each outcome under Q.

        Returns:
            The exact curve in floats.

        Raises:
            ValueError: If a law holds a negative number or does not sum to 1.
        """
        outcomes = list(dict.fromkeys([*null, *alternative]))
        first = np.array([float(null.get(y, 0)) for y in outcomes])
        return cls(first, np.array([float(alternative.get(y, 0)) for y in outcomes]))

    @classmethod
    def from_error_points(cls, fpr: ArrayLike, fnr: ArrayLike) -> PiecewiseTradeOff:
        """Returns the lower convex hull of points together with (0, 1) and (1, 0).

        Args:
            fpr: Type I errors of the points.
            fnr: Type II errors of the points.

        Returns:
            A polygon with ``from_points`` true.

        Raises:
            ValueError: If the lists differ in length or hold a number outside [0, 1].
        """
        x, y = np.asarray(fpr, dtype=np.float64), np.asarray(fnr, dtype=np.float64)
        inside = (x >= 0) & (x <= 1) & (y >= 0) & (y <= 1)
        if x.shape != y.shape or x.ndim != 1 or not inside.all():
            raise ValueError(f"{ERROR_PREFIX}: expected as many fpr as fnr, each between 0 and 1.")
        x, y = np.append(x, [0.0, 1.0]), np.append(y, [1.0, 0.0])
        order = np.lexsort((y, x))
        # Of points with the same fpr only the lowest counts.
        lowest_first = order[np.append(True, np.diff(x[order]) > 0)]
        x, y = x[lowest_first], y[lowest_first]
        corners = lower_convex_hull(x, y)
        x, y = x[corners], y[corners]
        return cls(np.append([0.0], np.diff(x)), np.append([1.0 - y[0]], -np.diff(y)), from_points=True)

    @classmethod
    def from_privacy_loss(cls, losses: ArrayLike, masses: ArrayLike) -> PiecewiseTradeOff:
        """Returns the curve of a privacy-loss distribution of D(Q‖P).

        The mass of P that the finite losses do not account for lies where q = 0.

        Args:
            losses: Losses log(q/p), +∞ where p = 0.
            masses: Their probabilities under Q.

        Returns:
            The curve in floats.

        Raises:
            ValueError: If the masses do not sum to 1, or the losses give P a mass above 1.
        """
        loss, mass = np.asarray(losses, dtype=np.float64), _masses("masses", masses)
        null = mass * np.exp(-loss)
        rest = 1.0 - float(null.sum())
        if rest < -TOTAL_TOLERANCE:
            raise ValueError(f"{ERROR_PREFIX}: the losses give P a mass of {1.0 - rest!r}, which must be at most 1.")
        return cls(np.append(null, max(0.0, rest)), np.append(mass, 0.0))

    def privacy_loss(self) -> tuple[Floats, Floats]:
        """Returns the losses log(q/p) of D(Q‖P) in falling order, and their masses under Q."""
        possible = self.alternative > 0
        null, mass = self.null[possible], self.alternative[possible]
        with np.errstate(divide="ignore"):
            return np.log(mass) - np.log(null), mass

    @cached_property
    def fpr_knots(self) -> Floats:
        """Type I errors of the knots, from 0 to 1."""
        return self._cumulative_from_left(self.null)

    @cached_property
    def tpr_knots(self) -> Floats:
        """1 − the type II errors of the knots."""
        return self._cumulative_from_left(self.alternative)

    @cached_property
    def fnr_knots(self) -> Floats:
        """Type II errors of the knots, summed from the right so that tiny ones keep their digits."""
        return self._cumulative_from_right(self.alternative)

    @property
    def _starts_with_drop(self) -> bool:
        return bool(self.null[0] == 0.0)

    def _cumulative_from_left(self, masses: Floats) -> Floats:
        total = np.cumsum(masses)
        total[-1] = 1.0
        return _freeze(np.minimum(1.0, total if self._starts_with_drop else np.append(0.0, total)))

    def _cumulative_from_right(self, masses: Floats) -> Floats:
        total = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        return _freeze(np.minimum(1.0, total[1:] if self._starts_with_drop else total))

    @property
    def _rounding(self) -> float:
        """Exceeds the rounding of sums over all segments, so that values of a guarantee are bounds."""
        return 2 * len(self.null) * float(np.finfo(np.float64).eps) if self.guarantee else 0.0

    def fnr(self, fpr: ArrayLike) -> Floats:
        """Returns the smallest type II error at each type I error, rounded down if the curve is a guarantee."""
        found = np.interp(check_error_rates(fpr), self.fpr_knots, self.fnr_knots)
        return np.asarray(np.maximum(0.0, found - self._rounding))

    def tpr(self, fpr: ArrayLike) -> Floats:
        """Returns the largest power at each type I error, rounded up if the curve is a guarantee."""
        found = np.interp(check_error_rates(fpr), self.fpr_knots, self.tpr_knots)
        return np.asarray(np.minimum(1.0, found * (1 + self._rounding)))

    def delta(self, epsilon: float) -> float:
        """Returns D_{e^ε}(Q‖P), rounded up if the curve is a guarantee."""
        epsilon = validation.real(ERROR_PREFIX, "epsilon", epsilon)
        if epsilon < 0:
            # D_{e^ε}(Q‖P) = 1 − e^ε + e^ε·D_{e^−ε}(P‖Q), without cancellation.
            return -math.expm1(epsilon) + math.exp(epsilon) * self.inverse().delta(-epsilon)
        with np.errstate(over="ignore", invalid="ignore"):
            product = np.where(self.null > 0, np.exp(epsilon) * self.null, 0.0)
        found = float(np.maximum(0.0, self.alternative - product).sum())
        return min(1.0, found * (1 + self._rounding))

    def to_piecewise(self) -> PiecewiseTradeOff:
        return self

    def require_exact(self) -> None:
        """Raises NotApplicable for a polygon through points: the divergence of the true curve may be infinite."""
        if self.from_points:
            raise NotApplicable(
                "divergence",
                "expected a curve that is known everywhere, got one through points, of which a divergence is only "
                "bounded from below; give its laws, its formula or a guaranteed curve.",
            )

    def renyi(self, order: float) -> float:
        """Returns the Rényi divergence log Σ p^order·q^(1−order)/(order − 1), at order 1 Σ p·log(p/q), in floats.

        Args:
            order: Order of at least 1.

        Returns:
            The divergence; infinity if P has mass that Q does not have.

        Raises:
            NotApplicable: If the polygon goes through points of the actual curve.
        """
        self.require_exact()
        if self.null[self.alternative == 0].any():
            return math.inf
        positive = self.null > 0
        p, q = self.null[positive], self.alternative[positive]
        losses, rest = np.log(p) - np.log(q), float(self.alternative[~positive].sum())
        if order == 1:
            # s·log s − s + 1 is never negative, so no digits cancel; the added terms sum to 0.
            return math.fsum((p * losses - p + q).tolist()) + rest
        logs = np.log(q) + order * losses
        top = float(logs.max())
        if top > MAX_LOG_RATIO:
            return (top + math.log(float(np.sum(np.exp(logs - top))))) / (order - 1)
        # s^a − 1 − a·(s − 1), likewise.
        excess = q * (np.expm1(order * losses) - order * np.expm1(losses))
        return math.log1p(math.fsum(excess.tolist()) + (order - 1) * rest) / (order - 1)

    def inverse(self) -> PiecewiseTradeOff:
        return replace(self, null=self.alternative, alternative=self.null)

    def symmetrised(self) -> PiecewiseTradeOff:
        """Returns C(f): the curve that (ε, δ(ε))-DP in both directions for all ε ≥ 0 proves.

        Theorem: [FDP] Equation 3: left of slope −1 the curve itself, then x̄ + f(x̄) − x, then the mirror image; where
        the steep part crosses the diagonal, the part before the crossing and its mirror image.
        Returns: δ(ε) for ε ≥ 0 as before, or smaller where the steep part crosses the diagonal.
        Deviates: print has x̄ − f(x̄) − x in the middle (docs/errata.md, FD-6).
        """
        steep = self.alternative >= self.null
        null, alternative = self.null[steep], self.alternative[steep]
        x, y = float(null.sum()), 1.0 - float(alternative.sum())
        if x > y:
            null, alternative, gap = _truncate_at_diagonal(null, alternative)
        else:
            gap = y - x
        return replace(
            self,
            null=np.concatenate([null, [gap], alternative]),
            alternative=np.concatenate([alternative, [gap], null]),
        )

    def mu(self) -> float:
        """Returns the smallest μ for which the curve lies on or above that of μ-GDP; infinity if there is none.

        Theorem: at each knot G_μ(x) = Φ(Φ⁻¹(1−x) − μ) gives one μ; a convex G_μ below all knots is below all chords.
        """
        if self.tpr_knots[0] > 0 or (self.null[-1] > 0 and self.alternative[-1] == 0):
            return math.inf
        if len(self.null) == 1:
            return 0.0
        inner = slice(1, -1)
        left = _normal_score(self._cumulative_from_right(self.null)[inner], self.fpr_knots[inner])
        return max(0.0, float(np.max(left + _normal_score(self.tpr_knots[inner], self.fnr_knots[inner]))))


def _normal_score(probability: Floats, complement: Floats) -> Floats:
    """Returns Φ⁻¹(probability), computed from the smaller of the two."""
    from scipy.special import ndtri

    return np.asarray(np.where(probability < complement, ndtri(probability), -ndtri(complement)))


def lowest(curves: Sequence[TradeOff]) -> PiecewiseTradeOff:
    """Returns min(f, g, …)**: the convex hull of several curves, a guarantee for all of their pairs at once.

    Args:
        curves: At least one trade-off curve; those that are not polygons are represented by their knots.

    Returns:
        A polygon, which is a guarantee if all curves are.

    Raises:
        ValueError: If there is no curve.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.from_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> hull = sdp.tradeoff.lowest([coins, sdp.tradeoff.GaussianTradeOff(1.0)])
    >>> print(f"{float(hull.fnr(0.01)):.4f} {float(hull.fnr(0.25)):.4f}")
    0.9076 0.2500
    """
    if not curves:
        raise ValueError("lowest: expected at least one curve, got none.")
    known = [curve.to_piecewise() for curve in curves]
    x = np.concatenate([curve.fpr_knots for curve in known])
    y = np.concatenate([curve.fnr_knots for curve in known])
    result = PiecewiseTradeOff.from_error_points(x, y)
    theorem = "convex hull of: " + ", ".join(dict.fromkeys(curve.theorem for curve in curves))
    guarantee, from_points = all(curve.guarantee for curve in known), any(curve.from_points for curve in known)
    return replace(result, theorem=theorem, guarantee=guarantee, from_points=from_points)


def _truncate_at_diagonal(null: Floats, alternative: Floats) -> tuple[Floats, Floats, float]:
    """Returns the steep segments up to fpr = fnr, the last one in part; no gap remains between the mirror images."""
    sums = np.cumsum(null + alternative)
    last = int(np.searchsorted(sums, 1.0))
    before = float(sums[last - 1]) if last else 0.0
    share = (1.0 - before) / float(null[last] + alternative[last])
    null, alternative = null[: last + 1].copy(), alternative[: last + 1].copy()
    null[-1] *= share
    alternative[-1] *= share
    return null, alternative, 0.0


def _steepness(null: Floats, alternative: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(alternative) - np.log(null))


def _masses(name: str, values: ArrayLike) -> Floats:
    masses = validation.reals(ERROR_PREFIX, name, values)
    if masses.ndim != 1 or len(masses) == 0 or not (masses >= 0).all():
        raise ValueError(f"{ERROR_PREFIX}: {name} must be a list of numbers of at least 0.")
    total = math.fsum(masses.tolist())
    if not abs(total - 1.0) <= TOTAL_TOLERANCE:
        raise ValueError(f"{ERROR_PREFIX}: {name} must sum to 1, got {total!r}.")
    return masses / total


def _freeze(values: Floats) -> Floats:
    values.flags.writeable = False
    return values


def check_error_rates(fpr: ArrayLike) -> Floats:
    """Returns type I errors as floats; raises ValueError unless all are between 0 and 1."""
    errors = validation.reals(ERROR_PREFIX, "fpr", fpr, up=True)
    if not ((errors >= 0) & (errors <= 1)).all():
        raise ValueError(f"{ERROR_PREFIX}: fpr must be between 0 and 1, got {fpr!r}.")
    return errors


# --- Gaussian differential privacy ---


TANGENTS, TANGENT_REACH = 3001, 9.0
"""Number of tangents that replace the curve, and standard deviations beyond the means where the last ones touch."""
POLYGON_MARGIN = 1e-10
"""Relative amount by which a polygon is lowered: thousands of times the error of its floats."""


def gaussian_delta(mu: Floats, epsilon: float) -> Floats:
    """Returns D_{e^ε} of two unit normals at distance μ ≥ 0: Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), for any real ε.

    Theorem: Gaussian mechanism, exact privacy curve.
    Returns: floats; at μ = 0 the atom (1 − e^ε)_+.
    """
    mu = np.asarray(mu, dtype=np.float64)
    shift = np.where(mu > 0, mu, 1.0)
    first = log_ndtr(shift / 2 - epsilon / shift)
    second = epsilon + log_ndtr(-shift / 2 - epsilon / shift)
    # e^a − e^b = −e^a·expm1(b − a) keeps the digits in the tails.
    found = -np.exp(first) * np.expm1(np.minimum(0.0, second - first))
    return np.where(mu > 0, found, max(0.0, -math.expm1(epsilon)))


@dataclass(frozen=True)
class GaussianTradeOff(TradeOff):
    """The trade-off curve of μ-GDP, G_μ(x) = Φ(Φ⁻¹(1−x) − μ).

    Theorem: Gaussian differential privacy (Dong, Roth and Su).
    Requires: μ ≥ 0 and finite.
    Returns: the exact curve in floats.

    Args:
        mu: Distance of the two unit normals.

    Raises:
        ValueError: If ``mu`` is negative or infinite.

    >>> from shuffledp.privacy.tradeoff import GaussianTradeOff
    >>> print(f"{float(GaussianTradeOff(1.0).fnr(0.05)):.4f}")
    0.7405
    """

    mu: float = field(metadata=validation.checked(validation.non_negative, up=True))
    theorem: str = field(default="Gaussian differential privacy", init=False)
    guarantee: bool = field(default=True, init=False)
    certified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        validation.check_fields(self)
        if math.isinf(self.mu):
            raise ValueError("GaussianTradeOff: mu must be finite, got inf.")

    def fnr(self, fpr: ArrayLike) -> Floats:
        return np.asarray(ndtr(-ndtri(check_error_rates(fpr)) - self.mu))

    def tpr(self, fpr: ArrayLike) -> Floats:
        return np.asarray(ndtr(ndtri(check_error_rates(fpr)) + self.mu))

    def delta(self, epsilon: float) -> float:
        return float(gaussian_delta(np.array(self.mu), validation.real("GaussianTradeOff", "epsilon", epsilon)))

    def to_piecewise(self) -> PiecewiseTradeOff:
        """Returns the polygon of 3,001 tangents, which is below this curve by less than 1e-5.

        Theorem: a convex curve is above each of its tangents, so that a mixture of such polygons is a guarantee.
        Returns: every type I error before slope −1, and every type II error after it, lowered by 1e-10 of itself: more
        than the errors of all floats here and of those of a mixture.
        """
        theorem = f"{self.theorem}, by tangents"
        if self.mu == 0:
            return PiecewiseTradeOff(np.ones(1), np.ones(1), theorem, guarantee=True)
        scores = np.linspace(-1.0, 1.0, TANGENTS) * min(TANGENT_REACH + self.mu / 2, MAX_EPSILON / self.mu)
        null, ratios = self._tangents(scores), np.exp(-self.mu * scores)
        alternative = ratios * null
        tail = ndtr(scores[0] - self.mu / 2)
        beyond = max(0.0, float(ndtr(scores[0] + self.mu / 2) - ratios[0] * tail))
        null, alternative = null / (null.sum() + beyond), alternative / (alternative.sum() + beyond)
        middle = TANGENTS // 2
        for masses, lowered in ((null, slice(0, middle)), (alternative, slice(middle + 1, None))):
            masses[middle] += POLYGON_MARGIN * masses[lowered].sum()
            masses[lowered] *= 1 - POLYGON_MARGIN
        # The mass beyond the steepest tangent, at a type I error of 0, and its mirror image.
        return PiecewiseTradeOff(
            np.concatenate([[0.0], null, [beyond]]),
            np.concatenate([[beyond], alternative, [0.0]]),
            theorem,
            guarantee=True,
        )

    def _tangents(self, scores: Floats) -> Floats:
        """Returns the mass under P of each tangent's segment, steepest first; P and Q are centred at μ/2 and −μ/2.

        Between two tangents lies a mass n of P and a of Q; the steeper one, of ratio r, takes the u of P with
        r·u + r'·(n − u) = a, whose errors move the polygon along a tangent.
        """
        low, high = scores[:-1] - self.mu / 2, scores[1:] - self.mu / 2
        # Each interval is measured in the tail that it lies in.
        inner = np.where(high < 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steeper = (inner[::-1] * np.exp(self.mu * scores[1:]) - inner) / np.expm1(self.mu * np.diff(scores))
        steeper = np.clip(np.where(np.isfinite(steeper), steeper, inner / 2), 0.0, inner)
        ends = ndtr(scores[0] - self.mu / 2) * np.array([1.0, np.exp(-self.mu * scores[0])])
        return np.asarray(np.append(steeper, ends[1]) + np.append(ends[0], inner - steeper))

    def renyi(self, order: float) -> float:
        """Returns the Rényi divergence order·μ²/2."""
        return order * self.mu**2 / 2

    def inverse(self) -> GaussianTradeOff:
        return self


# --- Trade-off curves as privacy curves ---


NAME = "trade-off"
RELATIVE_TOLERANCE = 1e-12


@dataclass(frozen=True)
class TradeOffCurve(PrivacyCurve):
    """The privacy curve δ(ε) = 1 + f*(−e^ε) of a trade-off curve f, the larger of both directions.

    It composes, compares and calibrates like any other privacy curve; ``privacy_curve(f)`` makes one.

    Theorem: [FDP] Lemma A.3.
    Returns: values as sure as the trade-off curve's own: certified only where that is.

    Args:
        trade_off: The curve f.

    >>> import shuffledp as sdp
    >>> curve = sdp.privacy_curve(sdp.tradeoff.GaussianTradeOff(1.0))
    >>> isinstance(curve, sdp.tradeoff.TradeOffCurve), curve.certified
    (True, False)
    >>> print(f"{curve.delta(1.0).upper:.4f}")
    0.1269
    """

    trade_off: TradeOff

    @property
    def certified(self) -> bool:
        return self.trade_off.certified

    def _delta(self, epsilon: float) -> BoundValue:
        return self._value(self.trade_off.divergence(epsilon), 0.0)

    def _epsilon(self, delta: float) -> BoundValue:
        def excess(epsilon: float) -> float:
            value = self.trade_off.divergence(epsilon)
            # In logarithms, because δ falls by many powers of ten.
            return math.log(delta / value) if value > 0 else math.inf

        if self.trade_off.divergence(0.0) <= delta:
            return self._value(0.0, 0.0)
        if self.trade_off.divergence(MAX_EPSILON) > delta:
            return self._value(math.inf, 0.0)
        found = find_crossing(excess, 0.0, MAX_EPSILON, guess=1.0, relative=RELATIVE_TOLERANCE)
        upper = found.below if excess(found.below) == 0.0 else found.above
        return self._value(upper, upper - found.below)


def privacy_curve(trade_off: TradeOff, users: int = 1) -> TradeOffCurve:
    """Returns the privacy curve of a trade-off curve, so that it composes and compares.

    Args:
        trade_off: The trade-off curve.
        users: Number of users, for the description only.

    Returns:
        The privacy curve.

    Raises:
        ValueError: If ``users`` is not a whole number of at least 1.

    >>> import shuffledp as sdp
    >>> from shuffledp.privacy.tradeoff import GaussianTradeOff
    >>> sdp.privacy_curve(GaussianTradeOff(1.0)).epsilon(delta=1e-5).upper < 4.378
    True
    """
    count = validation.count("privacy_curve", "users", users)
    return TradeOffCurve(CurveSource(NAME, trade_off.theorem, count, trade_off.guarantee), trade_off)
