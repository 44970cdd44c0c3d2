"""E[(G_1 + … + G_n)_+] for any finite law of G by a contour integral, at a cost that does not grow with n.

Let S be the sum, Z standard normal and v > 0 a variance. Smoothing raises: E(S)_+ ≤ F(v) = E(S + √v·Z)_+.
With M(t) = E exp(tG) and any tilt τ > 0,

    F(v) = (1/2πi) ∫_{Re t = τ} M(t)^n · exp(v·t²/2) · t^(-2) dt,

and the trapezoid sum with step h on that line equals Σ_m W(2πm/h), W(y) = exp(τy)·E(S + √v·Z − y)_+ ≥ 0, whose
term m = 0 is F(v): discretising raises too. So the sum, evaluated in ball arithmetic, or in floats whose
rounding is bounded (``relative_sums``), with its truncated tail bounded and added, is a certified upper bound.

For the lower side: d/dv F(v) = g(v)/2, with g(v) the density of S + √v·Z at 0, and √v'·g(v') ≤ √v·g(v) for
v' < v, hence F(v) − E(S)_+ = ½∫₀^v g ≤ v·g(v). The same nodes, without t^(-2), give an upper bound of g(v).
The aliases m ≠ 0 are at most a geometric series by (x)_+ ≤ exp(θx)/(eθ).

Everything planned in floats (τ, v, h, the nodes to keep) may be any number without harming the proof; the bound of a
skipped node enters it with a margin of e^SKIP_MARGIN. ``log_positive_part_means`` estimates and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from flint import acb, acb_mat, arb
from numpy.typing import NDArray

from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import gaussian_tail_sum, precision
from shuffledp.numerics.distributions import Bracket, FiniteLaw
from shuffledp.numerics.roots import find_crossing

# --- The sum over the nodes in floats, with a proved bound of its rounding ---
#
# Relative to node 0, the term of t = τ + iu is R(u)^n·exp(−v·u²/2 + i·v·τ·u), R(u) = Σ π_j·exp(i·u·A_j), with π the
# tilted weights. Write e = 2^-53 and m = |u|·Σ π_j·|A_j|. The model of arithmetic: sums, products and quotients of
# floats are off by at most a relative e; sin, cos, exp, log1p and arctan2 by at most a relative FUNCTION_ERROR·e, sin
# and cos also for large arguments (their authors claim a quarter of that).
#
# - π_j and A_j are rounded from balls, and u = k·h is rounded: a phase u·A_j is off by at most 3.1e·|u·A_j|. Hence
#   sin(φ) by at most 20e·|φ|, 2·sin²(φ/2) by at most 46e·|φ|, and with the weights and a sum of J terms in any order,
#   R by at most ρ = (70 + 3J)·e·m.
# - Where |R| ≥ ½: log R is off by at most 2.1ρ from R, 110e·m from |R|² − 1 and its logarithm, 30e·m from the angle: at
#   most (290 + 7J)·e·m. The product with n adds 20e·n·m, because |log R| ≤ 15m.
# - The Gaussian factor, the sum of both exponents, exp and the division by (1 + iu/τ)² add at most
#   16e·(v·u²/2 + v·τ·u) + 16e·n·m + 64e.
# - Where |R| < ½ and there are many summands the term is below 2^-n, and is counted as an error of that size. Where
#   there are few, R itself is raised to its power by products, each off by at most a relative √8·e: with ρ' = ρ + e, as
#   1 is added to R − 1, R^n is off by at most n·ρ'·(|R| + ρ')^(n−1) + 3n·e·|R|^n.


FUNCTION_ERROR = 8
UNIT_ROUNDOFF = 2.0**-53
MIN_ACCURACY_BITS = 60
"""Accurate bits that a ball must have before it is rounded to a float."""
MAX_NODE_ERROR = 0.05
"""Relative doubt about one node beyond which balls are used."""
LOG_HALF = -0.6931
MIN_COUNT_FOR_FLOATS = 64
"""Below this many summands 2^-n is not a small error."""
MAX_SMALL_RATIO = 0.52
"""More than |R| + ρ' where |R| was found to be below ½, as n·ρ' is below ``MAX_NODE_ERROR``/4."""
NEGLIGIBLE_WEIGHT = 1e-200
"""A tilted weight below this is omitted, and counted as doubt about R."""
SMALLEST = 1e-300
ROTATION_BLOCK = 32
"""Number of neighbouring nodes that are computed by rotating one."""


def relative_sums(
    atoms: list[tuple[arb, arb]], count: int, tau: float, variance: float, step: float, kept: NDArray[np.int64]
) -> tuple[arb, arb] | None:
    """Returns sums over the kept nodes and their conjugates relative to node 0, the first with the factor (τ/t)².

    Each is a ball that contains the exact sum; None if floats are not accurate enough. ``kept`` begins with 0.
    """
    law = tilted_floats(atoms, tau)
    if law is None:
        return None
    values, weights, _ = law
    u = step * kept.astype(np.float64)
    real, imaginary = _ratio_minus_one(values, weights, u)
    size, turn = _logarithm(real, imaginary)
    small = size < LOG_HALF
    size[small] = 0.0
    gaussian = 0.5 * variance * u**2
    rotation = variance * tau * u
    with np.errstate(under="ignore"):
        sizes = np.exp(count * size - gaussian)
        terms = sizes * phase_factors(count * turn + rotation)
    moments = u * float(np.dot(weights, np.abs(values))) * 1.001
    doubt = UNIT_ROUNDOFF * (count * (330 + 7 * len(values)) * moments + 20 * (gaussian + rotation) + 64)
    doubt += 5.0 * count * len(atoms) * NEGLIGIBLE_WEIGHT
    if not float(doubt.max()) <= MAX_NODE_ERROR:
        return None
    factor = np.where(kept == 0, 1.0, 2.0)
    if count < MIN_COUNT_FOR_FLOATS:
        with np.errstate(under="ignore"):
            powers = power((1.0 + real + 1j * imaginary)[small], count)
            terms[small] = powers * np.exp(-gaussian[small]) * phase_factors(rotation[small])
            sizes[small] = np.abs(terms[small])
        unsure = MAX_SMALL_RATIO ** (count - 1) * 1.1 * float(np.sum(doubt[small] + 8 * count * UNIT_ROUNDOFF))
    else:
        factor[small] = 0.0
        unsure = int(small.sum()) * 0.51**count
    error = float(np.sum(factor * sizes * (1.1 * doubt + 2 * len(kept) * UNIT_ROUNDOFF)))
    error = 1.01 * (error + 2 * unsure) + SMALLEST
    with_square = float(np.sum(factor * (terms / (1 + 1j * u / tau) ** 2).real))
    return arb(with_square, error), arb(float(np.sum(factor * terms.real)), error)


def phase_factors(phase: Floats) -> NDArray[np.complex128]:
    """Returns exp(i·phase), many times faster than the exponential of a complex number."""
    result = np.empty(phase.shape, dtype=np.complex128)
    result.real, result.imag = np.cos(phase), np.sin(phase)
    return result


def log_ratio(values: Floats, weights: Floats, u: Floats) -> tuple[Floats, Floats]:
    """Returns log|R(u)| and the argument of R(u), accurate where R is near 1."""
    return _logarithm(*_ratio_minus_one(values, weights, u))


def _ratio_minus_one(values: Floats, weights: Floats, u: Floats) -> tuple[Floats, Floats]:
    """Returns the real and the imaginary part of R(u) − 1."""
    phase = np.multiply.outer(u, values)
    return -2.0 * (np.sin(0.5 * phase) ** 2) @ weights, np.sin(phase) @ weights


def _logarithm(real: Floats, imaginary: Floats) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore"):
        size = 0.5 * np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -1.0))
    return size, np.arctan2(imaginary, 1.0 + real)


def power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Returns the power by at most ``exponent`` − 1 rounded products for each factor of the result."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def characteristic_ratios(
    values: Floats, weights: Floats, step: float, indices: NDArray[np.int64]
) -> NDArray[np.complex128]:
    """Returns R(u) at u = k·step, off by some e·(J + u·Σ π_j·|A_j|): few exponentials, and a product of matrices."""
    rows, place = np.unique(indices // ROTATION_BLOCK, return_inverse=True)
    firsts = weights * phase_factors(step * ROTATION_BLOCK * np.multiply.outer(rows, values))
    turns = phase_factors(step * np.multiply.outer(values, np.arange(ROTATION_BLOCK)))
    return np.asarray((firsts @ turns)[place, indices % ROTATION_BLOCK])


def squared_ratios(values: Floats, weights: Floats, u: Floats) -> Floats:
    """Returns |R(u)|², off by some e·(J² + u·Σ π_j·|A_j|): a cosine for each pair of values."""
    total = np.full(len(u), float(weights @ weights))
    for first in range(len(values)):
        for second in range(first):
            both = 2.0 * float(weights[first] * weights[second])
            total += both * np.cos(u * float(values[first] - values[second]))
    return total


def tilted_floats(atoms: list[tuple[arb, arb]], tau: float) -> tuple[Floats, Floats, arb] | None:
    """Returns values and tilted weights, rounded from balls with more accurate digits than a float has, and M(τ)."""
    exact_tau = arb(tau)
    tilted = [weight * (exact_tau * value).exp() for value, weight in atoms]
    mass = sum(tilted, arb(0))
    values: list[float] = []
    weights: list[float] = []
    for (value, _), weight in zip(atoms, tilted, strict=True):
        share = weight / mass
        if share < NEGLIGIBLE_WEIGHT:
            continue
        if min(value.rel_accuracy_bits(), share.rel_accuracy_bits()) < MIN_ACCURACY_BITS:
            return None
        values.append(float(value.mid()))
        weights.append(float(share.mid()))
    return np.array(values), np.array(weights), mass


# --- Exponential tilting in floats: cumulants and saddle points, for planning ---


LOWEST_VALUE = -1e60
MAX_EXPONENT = 1023
MAX_LOG_SADDLE_ERROR = 0.1
"""A saddle point whose logarithm is off by more is searched for again."""


class TiltedLaw:
    """The law in floats, scaled, with its cumulant function."""

    def __init__(self, law: FiniteLaw, count: int) -> None:
        values, weights = law.floats()
        positive = float(values.max())
        self.scale = 2.0 ** min(math.ceil(math.log2(positive)), MAX_EXPONENT) if positive > 0 else 1.0
        # Far below, a value's weight vanishes under any tilt that matters; clipping keeps squares finite.
        with np.errstate(over="ignore"):
            self.values = np.maximum(values / self.scale, LOWEST_VALUE)
        self.below_top = self.values - self.values.max()
        self.weights = weights
        self.count = count

    def log_moments(self, t: Floats) -> Floats:
        """Returns count·log M(t) for many t > 0; near M = 1 from M − 1, so that count may be large."""
        excess = np.expm1(np.minimum(np.multiply.outer(t, self.values), 1.0)) @ self.weights
        shifted = np.exp(np.multiply.outer(t, self.below_top)) @ self.weights
        large = t * self.values.max() + np.log(shifted)
        near = (t * self.values.max() <= 1.0) & (excess > -0.5)
        return np.asarray(self.count * np.where(near, np.log1p(np.maximum(excess, -0.5)), large))

    def log_moment(self, t: float) -> float:
        """Returns count·log M(t)."""
        return float(self.log_moments(np.array([t]))[0])

    def tilt_weights(self, t: float) -> Floats:
        tilted = self.weights * np.exp(t * self.below_top)
        return np.asarray(tilted / tilted.sum())

    @cached_property
    def peak(self) -> float:
        """The saddle point without smoothing."""
        return self.saddle(0.0)

    def saddle(self, variance: float) -> float:
        """Returns the minimum of count·log M(t) + variance·t²/2 − 2·log t over t > 0, where the integrand peaks."""

        def slope(log_t: float) -> float:
            t = math.exp(log_t)
            mean = float(np.dot(self.tilt_weights(t), self.values))
            return self.count * t * mean + variance * t * t - 2.0

        # To second order in t the sum has mean n·m and variance n·v, which gives t and the slope near it.
        m, v = float(np.dot(self.weights, self.values)), float(np.dot(self.weights, self.values**2))
        guess = (math.sqrt(m * m + 8 * v / self.count) - m) / (2 * v) if v > 0 else 1.0
        steepness = self.count * guess * (m + 2 * guess * v)
        if not (0.0 < guess < math.inf and 0.0 < steepness < math.inf):
            guess, steepness = 1.0, 2.0
        crossing = find_crossing(
            slope, -80.0, 80.0, guess=math.log(guess), slope=max(2.0, steepness), relative=0.0, absolute=1e-3
        )
        found = math.exp(crossing.above if math.isinf(crossing.f_below) else crossing.middle)
        if self._log_distance_to_minimum(found, slope(math.log(found))) <= MAX_LOG_SADDLE_ERROR:
            return found
        # If very rare values decide, that slope is far too steep and the search stops at once.
        return math.exp(find_crossing(slope, -80.0, 80.0, relative=0.0, absolute=1e-3).middle)

    def _log_distance_to_minimum(self, t: float, slope: float) -> float:
        """Returns about how far log t is from the minimum, by the slope there and the curvature."""
        weights = self.tilt_weights(t)
        spread = self.values - float(np.dot(weights, self.values))
        return abs(slope) / max(2.0, self.count * t * t * float(np.dot(weights, spread**2)))


MAX_REACH = 1_000_000
MAX_SCANNED, MIN_SCANNED = 120_000, 2_000
"""Nodes evaluated in floats: the first is divided by the number of values, the second is granted to any law."""
MAX_SUMMED_NODES = 4_000
TRUNCATION_FACTOR = 3e4
"""Truncation and aliases are planned this many times smaller than the width that smoothing costs."""
MAX_PLAN_WIDTH = 0.01
"""Relative width beyond which a tighter plan is always worth it."""
MIN_DEVIATION_SHARE = 0.1
"""If tilting leaves only one value, the deviation is at least this share of the tilt's own scale 1/τ."""
MAX_SMOOTHING_WIDTH = 10.0
"""Relative width beyond which one node, which needs no plan, is sharper: see ``_plan_one_node``."""
SKIP_MARGIN = 6.0
MAX_ROTATIONS = 32
"""Rotating a rectangular ball can widen it by √2 each time; after this many rotations it is computed anew."""
MAX_COUNT_FOR_MATRICES = 10**7
"""Up to this many summands, the rounding of M in ``characteristic_ratios`` is negligible in its power."""
MIN_LEVEL_FOR_COSINES = -80.0
MAX_VALUES_FOR_COSINES = 6
"""Down to this level, and up to this many values, cosines of their differences are faster than rotations."""
MOMENT_ROUNDING_ERROR = 1e-15
"""An upper bound of the rounding of M for each of its terms, besides that of their phases."""
GUARD_BITS = 80 + MAX_ROTATIONS // 2
RIGHT_TILT_SHIFTS = np.geomspace(0.5, 40.0, 24)
LEFT_TILT_SHARES = 1 - np.geomspace(1e-3, 0.95, 24)
"""Tilts tried against aliases: in standard deviations from the saddle, and in shares of it downwards."""


@dataclass(frozen=True)
class ContourPlan:
    """The nodes of the sum: the law is scaled by 1/scale, then summed on τ + i·k·step, k in ``node_indices``."""

    scale: float
    tilt: float
    variance: float
    step: float
    node_indices: NDArray[np.int64]
    reach: int
    """Nodes beyond this index are bounded by the Gaussian factor alone."""
    peak_reach: int
    """Nodes from the last of ``node_indices`` up to this index are bounded by the curvature of the only peak; 0 if
    unused.
    """
    log_skipped: float
    """Logarithm of the bound, relative to the node 0, of each node in [0, reach] that is not kept."""
    shift_right: float
    shift_left: float


@dataclass(frozen=True)
class ContourEstimate:
    """Floats that steer a search: logarithms of E(S)_+ and of the two sides that the balls would certify."""

    log_value: float
    log_upper: float
    log_lower: float


def has_positive_value(law: FiniteLaw) -> bool:
    """Returns True if some value of a law is positive."""
    return bool(law.floats()[0].max() > 0)


@lru_cache(maxsize=4)
def _tilted_law(law: FiniteLaw, count: int) -> TiltedLaw:
    """Returns the tilted law, cached: one law is examined, planned for and estimated in turn."""
    return TiltedLaw(law, count)


def make_plan(law: FiniteLaw, count: int, tolerance: float) -> ContourPlan:
    """Chooses τ, v, h and the nodes for a relative width of about ``tolerance``·z² between the certified sides.

    z is the number of standard deviations at which the sum must land: that is a width of ``tolerance`` in the argument
    of a curve with a Gaussian tail. The plan is coarser if it would sum more than ``MAX_SUMMED_NODES`` nodes; if even a
    coarse plan would, it has one node.
    """
    tilted = _tilted_law(law, count)
    tau = tilted.peak
    coarsest = MAX_PLAN_WIDTH
    while True:
        plan = _plan(tilted, tau, tolerance, coarsest)
        if isinstance(plan, ContourPlan) and len(plan.node_indices) <= MAX_SUMMED_NODES:
            return plan
        excess = len(plan.node_indices) / MAX_SUMMED_NODES if isinstance(plan, ContourPlan) else plan
        coarsening = max(1.5, excess) ** 2
        tolerance *= coarsening
        coarsest *= coarsening


def _plan(tilted: TiltedLaw, tau: float, tolerance: float, coarsest: float) -> ContourPlan | float:
    """Returns a plan, or the factor by which the nodes to scan are too many."""
    weights = tilted.tilt_weights(tau)
    mean = float(np.dot(weights, tilted.values))
    variance_of_one = float(np.dot(weights, (tilted.values - mean) ** 2))
    deviation = max(math.sqrt(tilted.count * variance_of_one), MIN_DEVIATION_SHARE / tau)
    spread = float(tilted.values.max() - tilted.values.min())
    relative = min(coarsest, tolerance * max(1.0, (tau * deviation) ** 2))
    if relative > MAX_SMOOTHING_WIDTH:
        return _plan_one_node(tilted, tau)
    digits = math.log1p(TRUNCATION_FACTOR / relative)
    variance = relative / tau**2
    single_peak = 2 * digits * (spread / math.pi) ** 2
    one_peak = single_peak <= variance
    if one_peak:
        relative = min(relative, single_peak * tau**2)
        digits = math.log1p(TRUNCATION_FACTOR / relative)
        variance = 2 * digits * (spread / math.pi) ** 2
    distance, right, left = _alias_distance(tilted, tau, variance, deviation, digits)
    step = 2 * math.pi / distance
    reach = math.ceil(math.sqrt(2 * digits / variance) / step)
    if reach > MAX_REACH and not one_peak:
        variance *= (reach / MAX_REACH) ** 2
        reach = MAX_REACH
    log_skipped = -(digits + 25.0)
    peak_reach = 0
    if one_peak:
        rate = 2 * tilted.count * variance_of_one / math.pi**2 + variance / 2
        last = min(reach, math.ceil(math.sqrt((digits + 12) / rate) / step))
        peak_reach = math.floor(math.pi / (spread * step) * (1 - 1e-9))
        kept = np.arange(last + 1)
        reach = max(last, peak_reach)
    else:
        scan = _find_peak_nodes(tilted, weights, tau, step, reach, -log_skipped)
        if len(scan) > _max_scanned_nodes(weights):
            return len(scan) / _max_scanned_nodes(weights)
        kept = _find_significant_nodes(tilted, weights, tau, variance, step, scan, log_skipped)
    return ContourPlan(
        tilted.scale, tau, variance, step, kept, reach, peak_reach, log_skipped + SKIP_MARGIN, right, left
    )


def adapt_plan(plan: ContourPlan, law: FiniteLaw, count: int) -> ContourPlan | None:
    """Returns a neighbour's plan for another law: unchanged with one peak, else with new nodes; None if impossible."""
    if plan.peak_reach > 0:
        return plan
    tilted = _tilted_law(law, count)
    if tilted.scale != plan.scale:
        return None
    weights, log_skipped = tilted.tilt_weights(plan.tilt), plan.log_skipped - SKIP_MARGIN
    scan = _find_peak_nodes(tilted, weights, plan.tilt, plan.step, plan.reach, -log_skipped)
    if len(scan) > _max_scanned_nodes(weights):
        return None
    kept = _find_significant_nodes(tilted, weights, plan.tilt, plan.variance, plan.step, scan, log_skipped)
    return replace(plan, node_indices=kept) if len(kept) <= MAX_SUMMED_NODES else None


def _max_scanned_nodes(weights: Floats) -> int:
    return max(MIN_SCANNED, MAX_SCANNED // len(weights))


def _plan_one_node(tilted: TiltedLaw, tau: float) -> ContourPlan:
    """Returns the plan with v = 1/τ² and h = 2τ: the node 0 and a bound of all others.

    It gives 0.66·M(τ)^n/τ in all, against Chernoff's 0.37. With a wider v, of x/τ², any sum is at least
    e^(x/2)·M(τ)^n/(τ·z·√2π) for z standard deviations, which is more from x = 10 on, for every z below 80.
    """
    nothing = np.zeros(1, dtype=np.int64)
    return ContourPlan(tilted.scale, tau, 1 / tau**2, 2 * tau, nothing, 0, 0, 0.0, tau, tau / 2)


def _alias_distance(
    tilted: TiltedLaw, tau: float, variance: float, deviation: float, digits: float
) -> tuple[float, float, float]:
    """Returns a distance beyond which W is negligible on both sides, and the tilts that prove it."""

    def reach(thetas: Floats) -> Floats:
        """Returns the distance from which on the tilt θ proves W negligible."""
        bounds = tilted.log_moments(thetas) + variance * thetas**2 / 2 - 1 - np.log(thetas)
        return np.asarray((bounds - height + digits) / np.abs(thetas - tau))

    height = tilted.log_moment(tau) + variance * tau**2 / 2 - 2 * math.log(tau) - math.log(2.6 * deviation)
    shifts = RIGHT_TILT_SHIFTS / deviation
    downward = np.concatenate([shifts[shifts < 0.95 * tau], tau * LEFT_TILT_SHARES])
    rights, lefts = reach(tau + shifts), reach(tau - downward)
    best_right, best_left = int(np.argmin(rights)), int(np.argmin(lefts))
    distance = max(rights[best_right], lefts[best_left], 2 * deviation)
    return float(distance), float(shifts[best_right]), float(downward[best_left])


def _log_ratio(
    tilted: TiltedLaw,
    weights: Floats,
    variance: float,
    tau: float,
    step: float,
    indices: NDArray[np.int64],
) -> NDArray[np.complex128]:
    """Returns the logarithm of M(τ+iu)^n·exp(v·t²/2) relative to u = k·step = 0, accurate for n up to 1e12."""
    u = step * indices.astype(np.float64)
    if tilted.count <= MAX_COUNT_FOR_MATRICES:
        found = characteristic_ratios(tilted.values, weights, step, indices)
        with np.errstate(divide="ignore"):
            size, turn = np.log(np.abs(found)), np.angle(found)
    else:
        size, turn = log_ratio(tilted.values, weights, u)
    # Part by part: a node at which M is 0 has no finite logarithm, and ∞·0 is NaN.
    result = np.empty(u.shape, dtype=np.complex128)
    result.real, result.imag = tilted.count * size, tilted.count * turn
    return result - 0.5 * variance * u**2 + 1j * variance * tau * u


def _find_significant_nodes(
    tilted: TiltedLaw,
    weights: Floats,
    tau: float,
    variance: float,
    step: float,
    scan: NDArray[np.int64],
    log_skipped: float,
) -> NDArray[np.int64]:
    """Returns the nodes that are not provably below exp(log_skipped) of node 0, with and without t^(-2).

    From squares: with n ≥ ``MIN_COUNT_FOR_FLOATS`` and |R|^n above e^−80, |R|² > 0.08, so that n·log|R| is off by at
    most 6.2n times the error of |R|². That is 8e·u·Σ π_j·|A_j| for the phases, e = 2^-53, which makes 5.5 times
    ``_phase_error`` in all, and some J²·e for the rest: negligible beside the margin up to ``MAX_COUNT_FOR_MATRICES``
    summands.
    """
    u = step * scan.astype(np.float64)
    if _phase_error(tilted, weights, float(u[-1])) > 1.0:
        return scan
    doubt = MOMENT_ROUNDING_ERROR * (len(weights) + 10)
    # A kept node has at least this logarithm of |R|^n: without t^(-2) it counts for more.
    lowest = log_skipped - math.log1p((float(u[-1]) / tau) ** 2)
    if tilted.count > MAX_COUNT_FOR_MATRICES:
        size, _ = log_ratio(tilted.values, weights, u)
    elif (
        tilted.count >= MIN_COUNT_FOR_FLOATS
        and len(weights) <= MAX_VALUES_FOR_COSINES
        and lowest > MIN_LEVEL_FOR_COSINES
    ):
        size = 0.5 * np.log(np.maximum(squared_ratios(tilted.values, weights, u), 0.0) + len(weights) * doubt)
    else:
        # M(τ+iu)/M(τ) is not known accurately near 0.
        size = np.log(np.abs(characteristic_ratios(tilted.values, weights, step, scan)) + doubt)
    size = tilted.count * size - 0.5 * variance * u**2 + np.log1p((u / tau) ** 2)
    return np.asarray(scan[(size > log_skipped) | (scan == 0)])


def _phase_error(tilted: TiltedLaw, weights: Floats, u: float) -> float:
    """Returns the error of the logarithm of |M(τ+iu)|^n in floats: a phase u·G is wrong by at most a few ulps."""
    return tilted.count * u * float(np.dot(weights, np.abs(tilted.values))) * 1e-15


def _find_peak_nodes(
    tilted: TiltedLaw, weights: Floats, tau: float, step: float, reach: int, level: float
) -> NDArray[np.int64]:
    """Returns the indices of [0, reach] where |M(τ+iu)|^n may exceed exp(−level), by the best pair of values.

    |M(τ+iu)|² ≤ M(τ)²·(1 − 4·w_a·w_b·sin²(u·(A_a − A_b)/2)) for any two values with tilted weights w_a, w_b.
    """
    if _phase_error(tilted, weights, step * reach) > 1.0:
        return np.arange(reach + 1)
    level += math.log1p((step * reach / tau) ** 2)
    heavy = np.argsort(weights)[-8:].tolist()
    best = (float(reach), 0.0, 1.0)
    for position, a in enumerate(heavy):
        for b in heavy[:position]:
            gap = step * abs(float(tilted.values[a] - tilted.values[b]))
            product = 2 * tilted.count * float(weights[a] * weights[b])
            if gap > 0 and product > level:
                half = 2 * math.asin(math.sqrt(level / product)) / gap
                period = 2 * math.pi / gap
                length = half + min(2 * half + 2, period) * math.ceil(reach / period)
                best = min(best, (length, half, period))
    _, half, period = best
    if half == 0.0:
        return np.arange(reach + 1)
    centres = period * np.arange(math.ceil(reach / period) + 1)
    ends = np.minimum(reach, np.ceil(centres + half)).astype(np.int64)
    starts = np.maximum(0, np.floor(centres - half)).astype(np.int64)
    starts[1:] = np.maximum(starts[1:], ends[:-1] + 1)
    lengths = np.maximum(0, ends - starts + 1)
    offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.asarray(np.arange(lengths.sum()) + offsets)


def _blocks(kept: list[int], most: int) -> list[list[int]]:
    """Returns the indices in blocks that reach less than ``most`` beyond their first one."""
    blocks: list[list[int]] = []
    for k in kept:
        if not blocks or k - blocks[-1][0] >= most:
            blocks.append([])
        blocks[-1].append(k)
    return blocks


def bracket_if_negligible(law: FiniteLaw, count: int, log_level: float) -> Bracket | None:
    """Returns 0 ≤ E(S)_+ ≤ M(τ)^n/(e·τ), by (x)_+ ≤ exp(τx)/(eτ), if that is below exp(log_level); else None."""
    tilted = _tilted_law(law, count)
    tau = tilted.peak
    if not tilted.log_moment(tau) - 1 - math.log(tau) + math.log(tilted.scale) < log_level:
        return None
    with precision(GUARD_BITS + count.bit_length()):
        theta = arb(tau / tilted.scale)
        total = arb(0)
        for value, weight in law.atoms():
            total += weight * (theta * value).exp()
        return Bracket(arb(0), ((total.log() * count - 1).exp() / theta).upper(), "Chernoff")


def estimate(law: FiniteLaw, count: int, plan: ContourPlan) -> ContourEstimate:
    """Returns the planned sum in floats."""
    tilted = _tilted_law(law, count)
    weights = tilted.tilt_weights(plan.tilt)
    u = plan.step * plan.node_indices.astype(np.float64)
    terms = np.exp(_log_ratio(tilted, weights, plan.variance, plan.tilt, plan.step, plan.node_indices))
    factor = np.where(plan.node_indices == 0, 1.0, 2.0)
    height = tilted.log_moment(plan.tilt) + plan.variance * plan.tilt**2 / 2
    mean = float(np.sum(factor * (terms / (1 + 1j * u / plan.tilt) ** 2).real))
    excess = plan.variance * plan.tilt**2 * max(0.0, float(np.sum(factor * terms.real)))
    log_unit = height - 2 * math.log(plan.tilt) + math.log(plan.step / (2 * math.pi)) + math.log(plan.scale)

    def log_of(x: float) -> float:
        return log_unit + math.log(x) if x > 0 else -math.inf

    return ContourEstimate(log_of(mean - excess / 2), log_of(mean), log_of(mean - excess))


def bracket(
    law: FiniteLaw, count: int, plan: ContourPlan, *, in_floats: bool = False, rounding: float = math.inf
) -> Bracket:
    """Returns a certified enclosure of E(S)_+ by the planned sum in balls.

    With ``in_floats`` the nodes are summed in floats and the proved bound of their rounding is part of the enclosure:
    some ten times faster if there are many, and a little wider. If that bound is more than a share ``rounding`` of the
    sum, balls are used.
    """
    with precision(GUARD_BITS + count.bit_length()):
        return _BallSum(law, count, plan).bracket(in_floats, rounding)


class _BallSum:
    """The sum of the module's docstring in balls, at the working precision."""

    def __init__(self, law: FiniteLaw, count: int, plan: ContourPlan) -> None:
        self.plan = plan
        self.count = count
        self.atoms = [(value / plan.scale, weight) for value, weight in law.atoms()]
        self.tau, self.variance, self.step = arb(plan.tilt), arb(plan.variance), arb(plan.step)

    def moment_power(self, theta: arb) -> arb:
        """Returns M(θ)^n·exp(v·θ²/2) on the real line."""
        total = arb(0)
        for value, weight in self.atoms:
            total += weight * (theta * value).exp()
        return (total.log() * self.count + self.variance * theta * theta / 2).exp()

    def nodes(self) -> tuple[arb, arb]:
        """Returns sums over all kept nodes and their conjugates, with and without the factor t^(-2)."""
        with_square, without = acb(0), acb(0)
        narrowing = acb((-self.variance * self.step * self.step).exp())
        expected = -1
        for k, moment in self.node_moments():
            t = acb(self.tau, self.step * k)
            if k != expected or k % MAX_ROTATIONS == 0:
                gaussian = (t * t * self.variance / 2).exp()
                ratio = ((acb(0, self.step) * t - self.step * self.step / 2) * self.variance).exp()
            term = moment**self.count * gaussian
            if k == 0:
                term /= 2
            without += term
            with_square += term / (t * t)
            gaussian *= ratio
            ratio *= narrowing
            expected = k + 1
        return 2 * with_square.real, 2 * without.real

    def node_moments(self) -> Iterator[tuple[int, acb]]:
        """Yields M at each kept node: a matrix product of the terms at first nodes and the rotations to the next."""
        blocks = _blocks(self.plan.node_indices.tolist(), MAX_ROTATIONS)
        firsts, widest = [block[0] for block in blocks], max(block[-1] - block[0] for block in blocks)
        turns = [[acb(1)] for _ in self.atoms]
        for row, (value, _) in zip(turns, self.atoms, strict=True):
            turn = acb(0, self.step * value).exp()
            for _ in range(widest):
                row.append(row[-1] * turn)
        tilted = [weight * (self.tau * value).exp() for value, weight in self.atoms]
        angles = [self.step * value for value, _ in self.atoms]
        terms = [
            [acb(size * cosine, size * sine) for size, (sine, cosine) in zip(tilted, turned, strict=True)]
            for turned in ([(angle * first).sin_cos() for angle in angles] for first in firsts)
        ]
        product = acb_mat(terms) * acb_mat(turns)
        for place, (first, block) in enumerate(zip(firsts, blocks, strict=True)):
            for k in block:
                yield k, product[place, k - first]

    def omitted_nodes_bound(self) -> arb:
        """Returns a bound on the sum of |M(t)^n·exp(v·t²/2)| over all nodes not kept, relative to node 0."""
        plan = self.plan
        last = int(plan.node_indices[-1])
        total = arb(0)
        if plan.peak_reach > last:
            total += gaussian_tail_sum(self.peak_rate(), last + 1)
        else:
            skipped = plan.reach + 1 - len(plan.node_indices)
            total += skipped * arb(plan.log_skipped).exp()
        total += gaussian_tail_sum(self.variance * self.step * self.step / 2, plan.reach + 1)
        return 2 * total

    def peak_rate(self) -> arb:
        """Returns a rate a with |M(τ+ikh)^n·exp(…)| ≤ exp(−a·k²) of node 0 while k·h·spread ≤ π.

        1 − cos x ≥ 2x²/π² there, so |M(τ+iu)|² ≤ M(τ)²·(1 − 4u²·Var/π²), Var under the tilted law.
        """
        tilted = [(value, weight * (self.tau * value).exp()) for value, weight in self.atoms]
        mass = sum((weight for _, weight in tilted), arb(0))
        mean = sum((value * weight for value, weight in tilted), arb(0)) / mass
        variance = sum((weight * (value - mean) * (value - mean) for value, weight in tilted), arb(0)) / mass
        largest, smallest = self.atoms[0][0], self.atoms[0][0]
        for value, _ in self.atoms:
            largest, smallest = largest.max(value), smallest.min(value)
        if not (largest - smallest) * self.step * self.plan.peak_reach <= arb.pi():
            return self.variance * self.step * self.step / 2
        rate = 2 * self.count * variance.lower() / arb.pi() ** 2 + self.variance / 2
        return rate * self.step * self.step

    def aliases(self) -> arb:
        """Returns a bound on Σ_{m≠0} W(2πm/h)."""
        total = arb(0)
        distance = 2 * arb.pi() / self.step
        for shift, theta in (
            (arb(self.plan.shift_right), self.tau + self.plan.shift_right),
            (arb(self.plan.shift_left), self.tau - self.plan.shift_left),
        ):
            height = self.moment_power(theta) / (arb(1).exp() * theta)
            total += height / ((shift * distance).exp() - 1)
        return total

    def nodes_in_floats(self, top: arb, rounding: float) -> tuple[arb, arb]:
        plan = self.plan
        found = relative_sums(self.atoms, self.count, plan.tilt, plan.variance, plan.step, plan.node_indices)
        if found is None or not float(found[0].rad()) <= rounding * abs(float(found[0].mid())):
            return self.nodes()
        with_square, without = found
        return top * with_square / (self.tau * self.tau), top * without

    def bracket(self, in_floats: bool, rounding: float) -> Bracket:
        unit = self.step / (2 * arb.pi())
        top = self.moment_power(self.tau)
        with_square, without = self.nodes_in_floats(top, rounding) if in_floats else self.nodes()
        tail = top * self.omitted_nodes_bound()
        smoothed = unit * with_square
        tail_square = unit * tail / (self.tau * self.tau)
        upper = smoothed + tail_square
        excess = self.variance * unit * (without + tail)
        lower = smoothed - tail_square - self.aliases() - excess
        scale = arb(self.plan.scale)
        return Bracket((lower * scale).lower(), (upper * scale).upper(), "contour")


# --- Many laws at once, in floats: steers searches, proves nothing ---
#
# The integral of this module without its smoothing, on the peak around the real axis alone: the other peaks hold the
# contribution of a lattice, which is small unless few messages decide. numpy treats all laws together, at microseconds
# each.


NODES, STEP = 13, 0.5
"""Nodes from the saddle on, and their distance in standard deviations: beyond, a peak is below e^-18 of its height."""
MAX_NEWTON_STEPS, NEWTON_TOLERANCE = 40, 0.02
"""Newton steps towards a saddle, and the change at which they end.

The integral does not depend on the exact crossing.
"""
MAX_TILT_FACTOR = 3.0
"""The largest factor by which one step changes a tilt."""
BATCH_ROWS = 4096


def log_positive_part_means(values: Floats, weights: Floats, count: int) -> Floats:
    """Returns log E[(G_1 + … + G_count)_+] for each law (a row of non-zero values, and of their positive weights).

    The weight that is missing to 1 is that of 0. The result is −∞ if no value is positive, NaN if floats fail.
    """
    result = np.full(len(values), -np.inf)
    (rising,) = np.nonzero(values.max(axis=1) > 0)
    with np.errstate(all="ignore"):
        for start in range(0, len(rising), BATCH_ROWS):
            rows = rising[start : start + BATCH_ROWS]
            top = values[rows].max(axis=1)
            result[rows] = _log_means(values[rows] / top[:, None], weights[rows], count) + np.log(top)
    return result


def _log_means(values: Floats, weights: Floats, count: int) -> Floats:
    """Returns the same if the largest value is 1."""
    tilt = _saddles(values, weights, count)
    tilted, mass = _tilt_weights(values, weights, tilt)
    deviation = np.sqrt(count * _variance(values, tilted))
    u = (STEP / deviation)[:, None] * np.arange(NODES)
    real, imaginary = np.zeros_like(u), np.zeros_like(u)
    for value, weight in zip(values.T[:, :, None], tilted.T[:, :, None], strict=True):
        half = 0.5 * u * value
        sine = np.sin(half)
        real -= 2 * weight * sine**2
        imaginary += 2 * weight * sine * np.cos(half)
    size = 0.5 * np.log1p(2 * real + real**2 + imaginary**2)
    turn, share = np.arctan2(imaginary, 1 + real), u / tilt[:, None]
    terms = np.exp(count * size) * np.cos(count * turn - 2 * np.arctan(share)) / (1 + share**2)
    total = 2 * terms.sum(axis=1) - terms[:, 0]
    height = count * _log_moment(values, weights, tilt, mass) - 2 * np.log(tilt)
    return np.asarray(height + np.log(STEP / (2 * math.pi * deviation)) + np.log(np.maximum(total, SMALLEST)))


def _saddles(values: Floats, weights: Floats, count: int) -> Floats:
    """Returns about the minimum of count·log M(t) − 2·log t over t > 0, which is convex, by limited Newton steps."""
    mean, square = (weights * values).sum(axis=1), (weights * values**2).sum(axis=1)
    tilt = (np.sqrt(mean**2 + 8 * square / count) - mean) / (2 * square)
    for _ in range(MAX_NEWTON_STEPS):
        tilted, _ = _tilt_weights(values, weights, tilt)
        slope = count * (tilted * values).sum(axis=1) * tilt - 2
        curvature = count * _variance(values, tilted) * tilt**2 + 2
        change = np.clip(1 - slope / curvature, 1 / MAX_TILT_FACTOR, MAX_TILT_FACTOR)
        tilt = tilt * change
        if not (np.abs(change - 1) > NEWTON_TOLERANCE).any():
            break
    return np.asarray(tilt)


def _tilt_weights(values: Floats, weights: Floats, tilt: Floats) -> tuple[Floats, Floats]:
    """Returns the weights under e^(t·G), without that of 0, and M(t)·e^-t."""
    raw = weights * np.exp(tilt[:, None] * (values - 1))
    mass = raw.sum(axis=1) + (1 - weights.sum(axis=1)) * np.exp(-tilt)
    return raw / mass[:, None], mass


def _variance(values: Floats, tilted: Floats) -> Floats:
    mean = (tilted * values).sum(axis=1)
    return np.asarray((tilted * values**2).sum(axis=1) - mean**2)


def _log_moment(values: Floats, weights: Floats, tilt: Floats, mass: Floats) -> Floats:
    """Returns log M(t); near 0 from M − 1, so that count may be large."""
    excess = (weights * np.expm1(tilt[:, None] * values)).sum(axis=1)
    near = (tilt <= 1) & (excess > -0.5)
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), tilt + np.log(mass))
