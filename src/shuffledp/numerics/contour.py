"""E[(G_1 + … + G_n)_+] for any finite law of G, at a cost that does not grow with n.

Let S be the sum, Z standard normal and v > 0 a variance. Smoothing raises: E(S)_+ ≤ F(v) = E(S + √v·Z)_+.
With M(t) = E exp(tG) and any tilt τ > 0,

    F(v) = (1/2πi) ∫_{Re t = τ} M(t)^n · exp(v·t²/2) · t^(-2) dt,

and the trapezoid sum with step h on that line equals Σ_m W(2πm/h), W(y) = exp(τy)·E(S + √v·Z − y)_+ ≥ 0, whose
term m = 0 is F(v): discretising raises too. So the sum, evaluated in ball arithmetic with its truncated tail
bounded and added, is a certified upper bound.

For the lower side: d/dv F(v) = g(v)/2, with g(v) the density of S + √v·Z at 0, and √v'·g(v') ≤ √v·g(v) for
v' < v, hence F(v) − E(S)_+ = ½∫₀^v g ≤ v·g(v). The same nodes, without t^(-2), give an upper bound of g(v).
The aliases m ≠ 0 are at most a geometric series by (x)_+ ≤ exp(θx)/(eθ).

Everything that is planned in floats (τ, v, h, which nodes to keep) may be any number without harming the
proof; the bound of a skipped node is the only float that enters it, with a margin of e^SKIP_MARGIN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from flint import acb, acb_mat, arb
from numpy.typing import NDArray

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, tail_of_squares
from shuffledp.numerics.contour_floats import FEW, log_ratio, ratios, relative_sums, squares
from shuffledp.numerics.finite_law import Bracket, FiniteLaw
from shuffledp.numerics.tilted import TiltedLaw

MOST_REACHED = 1_000_000
MOST_SCANNED, LEAST_SCANNED = 120_000, 2_000
"""Nodes looked at in floats: the first is shared among the values, the second is granted to any law."""
MOST_KEPT = 4_000
NEGLIGIBLE = 3e4
"""Truncation and aliases are planned this many times smaller than the width that smoothing costs."""
COARSEST = 0.01
"""Relative width beyond which a tighter plan is always worth it."""
FLATTEST = 0.1
"""Where tilting leaves one value only, the sum is still looked at on the scale of the tilt."""
MOST_BLURRED = 10.0
"""Relative width beyond which one node, which needs no plan, is sharper: see ``_one_node``."""
SKIP_MARGIN = 6.0
FRESH_START = 32
"""Rotating a rectangular ball can widen it by √2 each time; after this many rotations it is computed anew."""
MOST_BY_MATRICES = 10**7
"""Up to so many summands, what rounding does to M in ``ratios`` is nothing to its power."""
LOWEST_LEVEL = -80.0
FEW_VALUES = 6
"""Down to this level, and up to so many values, cosines of their differences are quicker than turns of their sum."""
ROUNDED = 1e-15
"""More than what rounding does to M for each of its terms, besides that of their phases."""
GUARD_BITS = 80 + FRESH_START // 2
SHIFTS = np.geomspace(0.5, 40.0, 24)
DOWNWARD = 1 - np.geomspace(1e-3, 0.95, 24)
"""Tilts tried against aliases: in standard deviations from the saddle, and in shares of it downwards."""


@dataclass(frozen=True)
class ContourPlan:
    """Where to evaluate: the law is scaled by 1/scale, then summed on the nodes τ + i·k·step, k in ``kept``."""

    scale: float
    tilt: float
    variance: float
    step: float
    kept: NDArray[np.int64]
    reach: int
    """Nodes beyond this index are bounded by the Gaussian factor alone."""
    peak_reach: int
    """Nodes in (kept[-1], peak_reach] are bounded by the curvature of the only peak; 0 where unused."""
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
    return bool(law.floats()[0].max() > 0)


@lru_cache(maxsize=4)
def _tilted(law: FiniteLaw, count: int) -> TiltedLaw:
    """One law is looked at, planned for and estimated in turn."""
    return TiltedLaw(law, count)


def make_plan(law: FiniteLaw, count: int, tolerance: float) -> ContourPlan:
    """Choose τ, v, h and the nodes so that the two certified sides differ by about ``tolerance``·z² in relative
    terms, z being the number of standard deviations at which the sum must land: that is ``tolerance`` in the
    argument of a curve with a Gaussian tail. Coarser where that would keep more than MOST_KEPT nodes; where even a
    coarse plan would, one node."""
    tilted = _tilted(law, count)
    tau = tilted.peak
    coarsest = COARSEST
    while True:
        plan = _plan(tilted, tau, tolerance, coarsest)
        if isinstance(plan, ContourPlan) and len(plan.kept) <= MOST_KEPT:
            return plan
        excess = len(plan.kept) / MOST_KEPT if isinstance(plan, ContourPlan) else plan
        coarsening = max(1.5, excess) ** 2
        tolerance *= coarsening
        coarsest *= coarsening


def _plan(tilted: TiltedLaw, tau: float, tolerance: float, coarsest: float) -> ContourPlan | float:
    """A plan, or by how much the nodes to scan are too many."""
    weights = tilted.tilt_weights(tau)
    mean = float(np.dot(weights, tilted.values))
    variance_of_one = float(np.dot(weights, (tilted.values - mean) ** 2))
    deviation = max(math.sqrt(tilted.count * variance_of_one), FLATTEST / tau)
    spread = float(tilted.values.max() - tilted.values.min())
    relative = min(coarsest, tolerance * max(1.0, (tau * deviation) ** 2))
    if relative > MOST_BLURRED:
        return _one_node(tilted, tau)
    digits = math.log1p(NEGLIGIBLE / relative)
    variance = relative / tau**2
    single_peak = 2 * digits * (spread / math.pi) ** 2
    one_peak = single_peak <= variance
    if one_peak:
        relative = min(relative, single_peak * tau**2)
        digits = math.log1p(NEGLIGIBLE / relative)
        variance = 2 * digits * (spread / math.pi) ** 2
    distance, right, left = _alias_distance(tilted, tau, variance, deviation, digits)
    step = 2 * math.pi / distance
    reach = math.ceil(math.sqrt(2 * digits / variance) / step)
    if reach > MOST_REACHED and not one_peak:
        variance *= (reach / MOST_REACHED) ** 2
        reach = MOST_REACHED
    log_skipped = -(digits + 25.0)
    peak_reach = 0
    if one_peak:
        rate = 2 * tilted.count * variance_of_one / math.pi**2 + variance / 2
        last = min(reach, math.ceil(math.sqrt((digits + 12) / rate) / step))
        peak_reach = math.floor(math.pi / (spread * step) * (1 - 1e-9))
        kept = np.arange(last + 1)
        reach = max(last, peak_reach)
    else:
        scan = _near_peaks(tilted, weights, tau, step, reach, -log_skipped)
        if len(scan) > _most_scanned(weights):
            return len(scan) / _most_scanned(weights)
        kept = _significant(tilted, weights, tau, variance, step, scan, log_skipped)
    return ContourPlan(
        tilted.scale, tau, variance, step, kept, reach, peak_reach, log_skipped + SKIP_MARGIN, right, left
    )


def renewed(plan: ContourPlan, law: FiniteLaw, count: int) -> ContourPlan | None:
    """The plan of a neighbour for another law: as it is with one peak, else with nodes of its own; None without any."""
    if plan.peak_reach > 0:
        return plan
    tilted = _tilted(law, count)
    if tilted.scale != plan.scale:
        return None
    weights, log_skipped = tilted.tilt_weights(plan.tilt), plan.log_skipped - SKIP_MARGIN
    scan = _near_peaks(tilted, weights, plan.tilt, plan.step, plan.reach, -log_skipped)
    if len(scan) > _most_scanned(weights):
        return None
    kept = _significant(tilted, weights, plan.tilt, plan.variance, plan.step, scan, log_skipped)
    return replace(plan, kept=kept) if len(kept) <= MOST_KEPT else None


def _most_scanned(weights: Floats) -> int:
    return max(LEAST_SCANNED, MOST_SCANNED // len(weights))


def _one_node(tilted: TiltedLaw, tau: float) -> ContourPlan:
    """v = 1/τ² and h = 2τ: the node 0 and a bound of all others, 0.66·M(τ)^n/τ in all, against Chernoff's 0.37.

    With a wider v, of x/τ², any sum is at least e^(x/2)·M(τ)^n/(τ·z·√2π) for z standard deviations, which is more from
    x = 10 on, for every z below 80.
    """
    nothing = np.zeros(1, dtype=np.int64)
    return ContourPlan(tilted.scale, tau, 1 / tau**2, 2 * tau, nothing, 0, 0, 0.0, tau, tau / 2)


def _alias_distance(
    tilted: TiltedLaw, tau: float, variance: float, deviation: float, digits: float
) -> tuple[float, float, float]:
    """A distance beyond which W is negligible on both sides, and the tilts that prove it."""

    def reach(thetas: Floats) -> Floats:
        """How far W must be followed until the tilt θ proves the rest negligible."""
        bounds = tilted.log_moments(thetas) + variance * thetas**2 / 2 - 1 - np.log(thetas)
        return np.asarray((bounds - height + digits) / np.abs(thetas - tau))

    height = tilted.log_moment(tau) + variance * tau**2 / 2 - 2 * math.log(tau) - math.log(2.6 * deviation)
    shifts = SHIFTS / deviation
    downward = np.concatenate([shifts[shifts < 0.95 * tau], tau * DOWNWARD])
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
    """Logarithm of M(τ+iu)^n·exp(v·t²/2) relative to its value at u = k·step = 0, accurate for n up to 1e12."""
    u = step * indices.astype(np.float64)
    if tilted.count <= MOST_BY_MATRICES:
        found = ratios(tilted.values, weights, step, indices)
        with np.errstate(divide="ignore"):
            size, turn = np.log(np.abs(found)), np.angle(found)
    else:
        size, turn = log_ratio(tilted.values, weights, u)
    # Part by part: a node at which M is 0 has no finite logarithm, and ∞·0 is no number.
    result = np.empty(u.shape, dtype=np.complex128)
    result.real, result.imag = tilted.count * size, tilted.count * turn
    return result - 0.5 * variance * u**2 + 1j * variance * tau * u


def _significant(
    tilted: TiltedLaw,
    weights: Floats,
    tau: float,
    variance: float,
    step: float,
    scan: NDArray[np.int64],
    log_skipped: float,
) -> NDArray[np.int64]:
    """Those of the nodes that are not provably below exp(log_skipped) of node 0, with and without t^(-2).

    From squares: with n ≥ FEW and |R|^n above e^−80, |R|² > 0.08, so that n·log|R| is off by at most 6.2n times what
    |R|² is off by. That is 8e·u·Σ π_j·|A_j| for the phases, e = 2^-53, which makes 5.5 times
    ``_phase_doubt`` in all, and some J²·e for the rest: nothing to the margin up to MOST_BY_MATRICES summands.
    """
    u = step * scan.astype(np.float64)
    if _phase_doubt(tilted, weights, float(u[-1])) > 1.0:
        return scan
    doubt = ROUNDED * (len(weights) + 10)
    # What is kept has at least this logarithm of |R|^n: without t^(-2) it counts for more.
    lowest = log_skipped - math.log1p((float(u[-1]) / tau) ** 2)
    if tilted.count > MOST_BY_MATRICES:
        size, _ = log_ratio(tilted.values, weights, u)
    elif tilted.count >= FEW and len(weights) <= FEW_VALUES and lowest > LOWEST_LEVEL:
        size = 0.5 * np.log(np.maximum(squares(tilted.values, weights, u), 0.0) + len(weights) * doubt)
    else:
        # M(τ+iu)/M(τ) is not known accurately near 0.
        size = np.log(np.abs(ratios(tilted.values, weights, step, scan)) + doubt)
    size = tilted.count * size - 0.5 * variance * u**2 + np.log1p((u / tau) ** 2)
    return np.asarray(scan[(size > log_skipped) | (scan == 0)])


def _phase_doubt(tilted: TiltedLaw, weights: Floats, u: float) -> float:
    """How far the logarithm of |M(τ+iu)|^n in floats may be off: a phase u·G is wrong by at most a few ulps."""
    return tilted.count * u * float(np.dot(weights, np.abs(tilted.values))) * 1e-15


def _near_peaks(
    tilted: TiltedLaw, weights: Floats, tau: float, step: float, reach: int, level: float
) -> NDArray[np.int64]:
    """Indices of [0, reach] where |M(τ+iu)|^n may exceed exp(−level), by the best pair of values.

    |M(τ+iu)|² ≤ M(τ)²·(1 − 4·w_a·w_b·sin²(u·(A_a − A_b)/2)) for any two values with tilted weights w_a, w_b.
    """
    if _phase_doubt(tilted, weights, step * reach) > 1.0:
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
    """The indices in blocks that reach less than ``most`` beyond their first one."""
    blocks: list[list[int]] = []
    for k in kept:
        if not blocks or k - blocks[-1][0] >= most:
            blocks.append([])
        blocks[-1].append(k)
    return blocks


def negligible(law: FiniteLaw, count: int, log_level: float) -> Bracket | None:
    """0 ≤ E(S)_+ ≤ M(τ)^n/(e·τ), by (x)_+ ≤ exp(τx)/(eτ), where that is below exp(log_level); None elsewhere."""
    tilted = _tilted(law, count)
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
    """The planned sum in floats."""
    tilted = _tilted(law, count)
    weights = tilted.tilt_weights(plan.tilt)
    u = plan.step * plan.kept.astype(np.float64)
    terms = np.exp(_log_ratio(tilted, weights, plan.variance, plan.tilt, plan.step, plan.kept))
    factor = np.where(plan.kept == 0, 1.0, 2.0)
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
    """Certified enclosure of E(S)_+ by the planned sum in balls.

    With ``in_floats`` the nodes are summed in floats and the proved bound of their rounding is part of the
    enclosure: some ten times faster where there are many, and a little wider. Where that bound is more than a share
    ``rounding`` of the sum, balls are used.
    """
    with precision(GUARD_BITS + count.bit_length()):
        return _Certified(law, count, plan).bracket(in_floats, rounding)


class _Certified:
    """The sum of the module's docstring in balls, at the working precision."""

    def __init__(self, law: FiniteLaw, count: int, plan: ContourPlan) -> None:
        self.plan = plan
        self.count = count
        self.atoms = [(value / plan.scale, weight) for value, weight in law.atoms()]
        self.tau, self.variance, self.step = arb(plan.tilt), arb(plan.variance), arb(plan.step)

    def moment_power(self, theta: arb) -> arb:
        """M(θ)^n·exp(v·θ²/2) on the real line."""
        total = arb(0)
        for value, weight in self.atoms:
            total += weight * (theta * value).exp()
        return (total.log() * self.count + self.variance * theta * theta / 2).exp()

    def nodes(self) -> tuple[arb, arb]:
        """Sums over all kept nodes and their conjugates, with and without the factor t^(-2)."""
        with_square, without = acb(0), acb(0)
        narrowing = acb((-self.variance * self.step * self.step).exp())
        expected = -1
        for k, moment in self.moments():
            t = acb(self.tau, self.step * k)
            if k != expected or k % FRESH_START == 0:
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

    def moments(self) -> Iterator[tuple[int, acb]]:
        """M at each kept node: a product of matrices, of the terms at first nodes and their turns to the next ones."""
        blocks = _blocks(self.plan.kept.tolist(), FRESH_START)
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

    def left_out(self) -> arb:
        """Bound on the sum of |M(t)^n·exp(v·t²/2)| over all nodes not kept, relative to node 0."""
        plan = self.plan
        last = int(plan.kept[-1])
        total = arb(0)
        if plan.peak_reach > last:
            total += tail_of_squares(self.peak_rate(), last + 1)
        else:
            skipped = plan.reach + 1 - len(plan.kept)
            total += skipped * arb(plan.log_skipped).exp()
        total += tail_of_squares(self.variance * self.step * self.step / 2, plan.reach + 1)
        return 2 * total

    def peak_rate(self) -> arb:
        """Rate a with |M(τ+ikh)^n·exp(…)| ≤ exp(−a·k²) of node 0 while k·h·spread ≤ π.

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
        """Bound on Σ_{m≠0} W(2πm/h)."""
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
        found = relative_sums(self.atoms, self.count, plan.tilt, plan.variance, plan.step, plan.kept)
        if found is None or not float(found[0].rad()) <= rounding * abs(float(found[0].mid())):
            return self.nodes()
        with_square, without = found
        return top * with_square / (self.tau * self.tau), top * without

    def bracket(self, in_floats: bool, rounding: float) -> Bracket:
        unit = self.step / (2 * arb.pi())
        top = self.moment_power(self.tau)
        with_square, without = self.nodes_in_floats(top, rounding) if in_floats else self.nodes()
        tail = top * self.left_out()
        smoothed = unit * with_square
        tail_square = unit * tail / (self.tau * self.tau)
        upper = smoothed + tail_square
        excess = self.variance * unit * (without + tail)
        lower = smoothed - tail_square - self.aliases() - excess
        scale = arb(self.plan.scale)
        return Bracket((lower * scale).lower(), (upper * scale).upper(), "contour")
