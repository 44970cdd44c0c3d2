"""Upper bounds of E[(G_1 + … + G_m)_+] over all mixtures: each summand may have any of a few laws.

In a mixture c_x summands have the law x, m = Σ c_x in all; M_x(t) = E exp(tG_x). As in ``contour_integral``, for any
tilt τ > 0, variance v ≥ 0 and step s, smoothing and discretising only raise:

    E(S)_+ ≤ (s/2π)·Σ_k Re[exp(Σ_x c_x·log M_x(t_k) + v·t_k²/2)/t_k²],   t_k = τ + iks.

On a simplex of mixtures c the phase of term k is linear in c, so that it lies between its values at the vertices;
with C_k the largest cosine there, the positive part of the sum is at most Σ_k C_k·exp(linear in c): convex in c,
largest at a vertex. Where C_k < 0 the term is at most C_k times its least size, that of a vertex too. Any branch of
log M_x will do: c is whole where the sum means something. So a simplex is bounded by its vertices, and halved if that
is not sharp enough; constant mixtures, in which all summands have one law, are vertices of the first one.

The nodes are summed in floats. Their rounding is bounded as in ``contour_integral`` (330 + 7J ulps of u·E|G| for each
summand's log M), added to every exponent and to either end of every phase. Everything planned in floats (τ, v, s, the
nodes to keep) may be any number without harming the proof.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.numerics.contour_integral import LOG_HALF, NEGLIGIBLE_WEIGHT, UNIT_ROUNDOFF, log_ratio, tilted_floats
from shuffledp.numerics.distributions import Atoms, FiniteLaw
from shuffledp.numerics.roots import find_crossing

# --- Chernoff bounds over all mixtures, for many families of laws at once, in floats ---
#
# For every t > 0, s ≤ e^(ts)/(e·t), so that E(S)_+ ≤ Π_i M_i(t)/(e·t): largest if all summands have the law with the
# largest M. The bound is a few percent above in ε, and a thousand times cheaper than the search below: families that it
# settles need no further work.
#
# G = (first − e^ε·second)/hiding at a message of the law hiding, which may lack some mass: there G = 0. Each of the
# three probabilities is known to a relative 2^-44. Then G is known to within 2^-41·(first + e^ε·second)/hiding, and
# M − 1 = Σ hiding·expm1(tG) to within 2^-40·(Σ hiding·|expm1(tG)| + t·Σ e^(tG)·(first + e^ε·second)).


ROUNDING = 2.0**-40
MARGIN = 1e-9
MAX_BATCH_CELLS = 1 << 21
MAX_EXPONENT = 300.0
"""Families with larger exponents are not settled by Chernoff's bound."""


class MessageProbabilities(NamedTuple):
    """Probabilities of messages, each to a relative 2^-44; ``hiding`` has a row for each kind of other user.

    The other two have one row for all kinds, or one for each.
    """

    first: Floats
    second: Floats
    hiding: Floats


def chi_squared_distances(view: MessageProbabilities) -> Floats:
    """Returns Σ (first − second)²/hiding for each kind."""
    square = (view.first - view.second) ** 2 * np.ones_like(view.hiding)
    gaps = np.divide(square, view.hiding, out=np.zeros_like(view.hiding), where=view.hiding > 0)
    return np.asarray(gaps.sum(axis=1))


def log_chernoff(views: Sequence[MessageProbabilities], epsilon: float, counts: Floats) -> Floats:
    """Returns for each family (rows) and count m (columns) the log of a bound of E(S)_+/m over all its mixtures."""
    result = np.full((len(views), len(counts)), np.inf)
    ratio = np.exp(epsilon)
    for numbers, first, second, hiding in _stack_by_shape(views):
        there = hiding > 0
        mass = first + ratio * second
        value = (first - second) - np.expm1(epsilon) * second
        value = np.divide(value, hiding, out=np.zeros(hiding.shape), where=there)
        square = (hiding * value**2).sum(axis=2).max(axis=1)
        t = _tilt(np.expm1(epsilon), square, float(counts[0]))
        exponent = t[:, None, None] * value
        settled = (exponent.max(axis=(1, 2)) < MAX_EXPONENT) & np.isfinite(t)
        growth = np.expm1(np.minimum(exponent, MAX_EXPONENT))
        excess = (hiding * growth).sum(axis=2)
        doubt = (hiding * np.abs(growth)).sum(axis=2) + t[:, None] * ((1 + growth) * mass * there).sum(axis=2)
        log_moment = np.log1p(np.maximum(excess + ROUNDING * doubt, -1 + MARGIN)).max(axis=1)
        found = np.multiply.outer(log_moment, counts) - 1 - np.log(t)[:, None] - np.log(counts)
        found += MARGIN * (1 + np.abs(np.multiply.outer(log_moment, counts)))
        result[numbers[settled]] = found[settled]
    return result


def _tilt(mean: float, square: Floats, count: float) -> Floats:
    """Returns the best t for a normal sum with this mean below 0 and this mean square."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((mean + np.sqrt(mean**2 + 8 * square / count)) / (2 * square))


def _stack_by_shape(views: Sequence[MessageProbabilities]) -> list[tuple[Floats, Floats, Floats, Floats]]:
    """Returns families of one shape as one array each (family, kind, message), not too many at once."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for number, view in enumerate(views):
        shapes.setdefault(view.hiding.shape, []).append(number)
    result = []
    for shape, members in shapes.items():
        step = max(1, MAX_BATCH_CELLS // (shape[0] * shape[1]))
        for start in range(0, len(members), step):
            numbers = members[start : start + step]
            hiding = np.stack([views[k].hiding for k in numbers])
            first, second = (
                np.stack([np.atleast_2d(views[k][place]) for k in numbers]) * np.ones_like(hiding) for place in (0, 1)
            )
            result.append((np.array(numbers), first, second, hiding))
    return result


GUARD_BITS = 128
LOG_TRUNCATION_ERROR = 17.0
"""Negative logarithm of the planned truncation error, relative to node 0."""
LOG_NODE_CUTOFF = 30.0
"""Nodes whose size is below the exponential of minus this, relative to node 0, are not evaluated one by one."""
ALIAS_DISTANCE = 8.0
"""Distance to the next alias, in standard deviations of the tilted sum."""
MAX_NODES = 12_000
SHARPNESS = 2e-5
"""Relative width in ε that smoothing may cost, and by which a simplex may exceed the worst mixture found."""
MAX_RELATIVE_WIDTH = 0.02
MAX_CONSTANT_MIXTURES = 4
"""Number of constant mixtures that are evaluated."""
MAX_PIECES, MIN_PIECES, MAX_TOTAL_CORNERS = 160, 24, 1280
"""Largest number of pieces, the number granted to any family, and the largest number of their corners in all."""
MAX_CORNERS_TO_HALVE = 4
"""Up to this many corners an edge is halved; beyond, the part near one corner is cut off."""
MIN_DEVIATION_SHARE = 0.1
TILT_GRID, SPREAD_GRID = 0.01, 0.05
"""Logarithmic resolution of the tilts and of the variances."""
MAX_NEWTON_STEPS, NEWTON_TOLERANCE, MAX_LOG_TILT = 20, 1e-3, 80.0
"""Limits of the search for the logarithm of a tilt."""
MAX_NODE_ERROR = 1.0
LOG_NEGLIGIBLE_VALUE = -700.0
LOWEST_VALUE = -1e60
LOG_SMALL_RATIO_BOUND = math.log(0.51)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The values of each law at the nodes τ + iks: a row for each law."""

    tau: float
    variance: float
    step: float
    u: Floats
    size: Floats
    """Upper bounds of log|M_x(τ+iu)/M_x(τ)|."""
    phase: Floats
    """The argument of M_x(τ+iu)."""
    error: Floats
    """Bounds of the errors of ``size`` and ``phase``."""
    phase_known: Floats
    """1 for nodes whose argument is known, 0 for others."""
    log_moment: Floats
    """Upper bounds of log M_x(τ)."""
    spreads: Floats
    """Tilted variances, rounded down."""
    one_peak: bool
    """True if ``variance`` alone suffices for u beyond π/width, and ``spreads`` before it."""
    width: float
    """The largest difference of two values of one law."""


class InsufficientAccuracy(Exception):
    """The error raised when floats are not accurate enough."""


class WorstDatasetMixture:
    """Upper bounds over all mixtures of summands with these laws, at one ε.

    ``corners``: if not all mixtures are possible, some whose convex hull contains all others, a row of shares each,
    which sum to 1 and are whole multiples of 2^-30, so that they can be halved repeatedly.
    """

    def __init__(self, laws: Sequence[FiniteLaw], sharpness: float = SHARPNESS, corners: Floats | None = None) -> None:
        self.laws = laws
        self.sharpness = sharpness
        self.corners = np.eye(len(laws)) if corners is None else corners
        views = [law.floats() for law in laws]
        positive = max(float(values.max()) for values, _ in views)
        self.scale = 2.0 ** math.ceil(math.log2(positive)) if positive > 0 else 1.0
        self.law_count, most = len(laws), max(len(values) for values, _ in views)
        # A row for each law, padded with its largest value and no mass.
        self._values, self._masses = np.zeros((self.law_count, most)), np.zeros((self.law_count, most))
        for row, (values, weights) in enumerate(views):
            with np.errstate(over="ignore"):
                scaled = np.maximum(values / self.scale, LOWEST_VALUE)
            self._values[row], self._values[row, : len(values)] = scaled.max(), scaled
            self._masses[row, : len(values)] = weights
        self._tops = self._values.max(axis=1, keepdims=True)
        self.may_rise = np.array([law.may_be_positive for law in laws])
        self._nodes_cache: dict[tuple[int, int], _Nodes] = {}
        self._single_mixtures: dict[int, WorstDatasetMixture] = {}
        self._near_saddle: dict[float, float] = {}

    # --- Planning ---

    def _tilted_moments(self, t: float) -> tuple[Floats, Floats]:
        """Returns mean and variance of each law tilted by t."""
        return self._moments(self._tilted_masses(t))

    def _moments(self, falling: Floats) -> tuple[Floats, Floats]:
        """Returns mean and variance of each law with these masses, which need not be normalised."""
        tilted = falling / falling.sum(axis=1, keepdims=True)
        means = (tilted * self._values).sum(axis=1)
        return means, (tilted * (self._values - means[:, None]) ** 2).sum(axis=1)

    def saddle(self, corners: Floats, count: float) -> tuple[float, float]:
        """Returns the t that minimises the largest count·Σ c_x·log M_x(t) over the corners, less 2·log t.

        The second value is the variance there.
        """

        def slope(log_t: float) -> tuple[float, float]:
            """Returns the derivative in log t, and the derivative of that."""
            t = math.exp(log_t)
            falling = self._tilted_masses(t)
            worst = corners[int(np.argmax(corners @ self._log_moments(t, falling)))] if len(corners) > 1 else corners[0]
            means, spreads = self._moments(falling)
            first = t * float(worst @ means)
            return count * first - 2.0, count * (first + t * t * float(worst @ spreads))

        # Consecutive mixtures are much alike.
        if count not in self._near_saddle:
            mean, square = float(self._means.max()), float((corners @ self._squares).max())
            guess = (math.sqrt(mean * mean + 8 * square / count) - mean) / (2 * square) if square > 0 else 1.0
            self._near_saddle[count] = math.log(guess) if 0 < guess < math.inf else 0.0
        self._near_saddle[count] = _crossing(slope, self._near_saddle[count])
        t = math.exp(self._near_saddle[count])
        return t, float((corners @ self._tilted_moments(t)[1]).max())

    @cached_property
    def _means(self) -> Floats:
        return np.asarray((self._masses * self._values).sum(axis=1))

    @cached_property
    def _squares(self) -> Floats:
        return np.asarray((self._masses * self._values**2).sum(axis=1))

    def _tilted_masses(self, t: float) -> Floats:
        """Returns the masses tilted by t, relative to the largest value."""
        return np.asarray(self._masses * np.exp(t * (self._values - self._tops)))

    def _log_moments(self, t: float, falling: Floats | None = None) -> Floats:
        """Returns log M_x(t) in floats, near 0 from M − 1."""
        falling = self._tilted_masses(t) if falling is None else falling
        tops = t * self._tops[:, 0]
        large = tops + np.log(falling.sum(axis=1))
        if not (tops <= 1.0).any():
            return np.asarray(large)
        excess = (np.expm1(np.minimum(t * self._values, 1.0)) * self._masses).sum(axis=1)
        near = (tops <= 1.0) & (excess > -0.5)
        return np.asarray(np.where(near, np.log1p(np.maximum(excess, -0.5)), large))

    def nodes(self, corners: Floats, count: int) -> _Nodes:
        """Returns nodes that suit the worst of some mixtures."""
        exact, spread = self.saddle(corners, count)
        # Simplices around one mixture share their nodes.
        place = round(math.log(exact) / TILT_GRID), round(math.log(max(spread, 1e-300)) / SPREAD_GRID)
        if place not in self._nodes_cache:
            self._nodes_cache[place] = self._plan_nodes(
                math.exp(TILT_GRID * place[0]), math.exp(SPREAD_GRID * place[1]), count
            )
        return self._nodes_cache[place]

    def _plan_nodes(self, tau: float, spread: float, count: int) -> _Nodes:
        deviation = max(math.sqrt(count * spread), MIN_DEVIATION_SHARE / tau)
        relative = min(MAX_RELATIVE_WIDTH, self.sharpness * max(1.0, (tau * deviation) ** 2))
        width = float((self._tops[:, 0] - self._values.min(axis=1)).max()) * (1 + MARGIN)
        step = 2 * math.pi / (ALIAS_DISTANCE * deviation + 2.0)
        variance = relative / tau**2
        one_peak = 2 * LOG_TRUNCATION_ERROR * (width / math.pi) ** 2 <= variance
        if one_peak:
            rate = 2 * count * spread / math.pi**2 + variance / 2
            last = math.sqrt((LOG_TRUNCATION_ERROR + 12) / rate) / step
        else:
            last = math.sqrt(2 * LOG_TRUNCATION_ERROR / variance) / step
            if last > MAX_NODES:
                variance *= (last / MAX_NODES) ** 2
        u = step * np.arange(min(MAX_NODES, math.ceil(last)) + 1, dtype=np.float64)
        return self._evaluate_nodes(tau, variance, step, u, one_peak, width)

    def _evaluate_nodes(
        self, tau: float, variance: float, step: float, u: Floats, one_peak: bool, width: float
    ) -> _Nodes:
        sizes, turns, doubts, tops, spreads = [], [], [], [], []
        known = np.ones_like(u)
        with precision(GUARD_BITS):
            for atoms in self.scaled_atoms:
                found = tilted_floats(list(atoms), tau)
                if found is None:
                    raise InsufficientAccuracy
                values, weights, mass = found
                tops.append(round_up(mass.log()))
                size, turn = log_ratio(values, weights, u)
                small = size < LOG_HALF
                size[small], known[small] = LOG_SMALL_RATIO_BOUND, 0.0
                sizes.append(size)
                turns.append(turn)
                moments = u * float(np.dot(weights, np.abs(values))) * 1.001
                doubts.append(UNIT_ROUNDOFF * (330 + 7 * len(values)) * moments + 5.0 * len(atoms) * NEGLIGIBLE_WEIGHT)
                mean = float(weights @ values)
                spreads.append(max(0.0, float(weights @ (values - mean) ** 2) * (1 - 1e-6) - 1e-12))
        return _Nodes(
            tau, variance, step, u, np.array(sizes), np.array(turns), np.array(doubts), known,
            np.array(tops), np.array(spreads), one_peak, width,
        )  # fmt: skip

    # --- One simplex ---

    def log_bounds(self, corners: Floats, counts: Floats) -> Floats:
        """Returns for each count the logarithm of a bound of E(S)_+/count over the simplex of these corners."""
        return self._bound_simplex(corners, counts)[0]

    def _bound_simplex(self, corners: Floats, counts: Floats) -> tuple[Floats, int]:
        """Returns the same, and the corner that attains the bound."""
        if not (corners[:, self.may_rise] > 0).any():
            return np.full(len(counts), -math.inf), 0
        try:
            simplex = _Simplex(self.nodes(corners, int(counts[0])), corners, counts)
            return simplex.log_sums() + math.log(self.scale), simplex.largest_corner
        except InsufficientAccuracy:
            return np.full(len(counts), math.inf), 0

    @cached_property
    def scaled_atoms(self) -> list[Atoms]:
        """The atoms over the scale, at the working precision."""
        return [[(value / self.scale, weight) for value, weight in law.atoms()] for law in self.laws]

    def _find_contrasting_corner(self, corners: Floats, best: int, count: float) -> int:
        """Returns a corner nearly as bad as ``best``, or worse, that turns the phase differently."""
        tau, spread = self.saddle(corners, count)
        heights = count * (corners @ self._log_moments(tau))
        turns = math.sqrt(count / max(spread, 1e-300)) * (corners @ self._tilted_moments(tau)[0])
        apart = np.abs(turns - turns[best]) * np.exp(np.minimum(heights - heights[best], 0.0) / 2)
        apart += 1e-9 * ((corners - corners[best]) ** 2).sum(axis=1)
        return int(np.argmax(apart))

    def bound_worst_mixture(self, counts: Floats) -> tuple[Floats, Floats, int]:
        """Returns for each count the logarithms of a bound over all mixtures and of the worst mixture found.

        The last value is the law of the worst constant mixture, or the worst corner.
        """
        seen, kind = self.bound_constant_mixtures(counts)
        return (seen if len(self.corners) == 1 else self._bisect_simplices(counts, seen)), seen, kind

    def bound_constant_mixtures(self, counts: Floats) -> tuple[Floats, int]:
        """Returns the bounds of the worst constant mixture among the likely ones, and its law."""
        tau, _ = self.saddle(self.corners, float(counts[0]))
        likely = np.argsort(-(self.corners @ self._log_moments(tau)), kind="stable")[:MAX_CONSTANT_MIXTURES].tolist()
        found = np.array([self._bound_corner(corner, counts) for corner in likely])
        return np.maximum(found.max(axis=0), LOG_NEGLIGIBLE_VALUE), likely[int(np.argmax(found[:, 0]))]

    def _bound_corner(self, corner: int, counts: Floats) -> Floats:
        """Returns bounds of the mixtures of one corner only."""
        if corner not in self._single_mixtures:
            there = np.flatnonzero(self.corners[corner]).tolist()
            only = self.corners[[corner]][:, there]
            self._single_mixtures[corner] = WorstDatasetMixture(
                [self.laws[kind] for kind in there], self.sharpness, only
            )
        alone = self._single_mixtures[corner]
        return alone.log_bounds(alone.corners, counts)

    def _bisect_simplices(self, counts: Floats, seen: Floats) -> Floats:
        """Halves simplices until none exceeds the worst mixture found by more than the tolerance; returns bounds.

        The mixtures found are only a reason to stop.
        """
        room = self.sharpness * np.maximum(1.0, -2 * seen)
        order, size = itertools.count(), len(self.corners)
        settled = seen.copy()
        waiting: list[tuple[float, int, _Piece]] = []

        def look(corners: Floats) -> bool:
            """Bounds a piece; returns True if it is settled, else queues it."""
            nonlocal settled
            found, largest = self._bound_simplex(corners, counts)
            # If floats were not accurate enough, neither is known to be finite.
            above = float(np.max(found - seen - room)) if (found < math.inf).all() else math.inf
            if above <= 0:
                settled = np.maximum(settled, found)
            elif len(corners) == size:
                heapq.heappush(waiting, (-above, next(order), _Piece(corners, found, largest)))
            return above <= 0

        look(self.corners)
        looked = 1
        most = min(MAX_PIECES, max(MIN_PIECES, MAX_TOTAL_CORNERS // size))
        while waiting and looked < most:
            _, _, piece = heapq.heappop(waiting)
            best = piece.largest
            unlike = self._find_contrasting_corner(piece.corners, best, float(counts[0]))
            # Not all mixtures are constant: there is no need to be sharper than one in the middle.
            middle = self.log_bounds((piece.corners[[best]] + piece.corners[[unlike]]) / 2, counts)
            seen = np.maximum(seen, np.where(np.isfinite(middle), middle, seen))
            near, far = piece.split_at_corner(best)
            looked += 2
            if size > MAX_CORNERS_TO_HALVE and look(far):
                look(near)
                continue
            for half in piece.split_edge((best, unlike)):
                look(half)
        return np.asarray(np.max([settled, *(piece.bounds for _, _, piece in waiting)], axis=0))


@dataclass(frozen=True, eq=False)
class _Piece:
    """The mixtures between these corners, and their bound: a simplex, if the corners are few."""

    corners: Floats
    bounds: Floats = field(repr=False)
    largest: int
    """The corner that attains the bound."""

    def split_at_corner(self, best: int) -> tuple[Floats, Floats]:
        """Returns the part near one corner v, v + (w − v)/2 for all w, and the rest.

        With Σλ_w > 1/2 outside of v, a point Σλ_w·w is between a point of the other corners' hull and its midpoint
        to v.
        """
        middles = (self.corners + self.corners[best]) / 2
        others = np.arange(len(self.corners)) != best
        return middles, np.concatenate([middles[others], self.corners[others]])

    def split_edge(self, edge: tuple[int, int]) -> tuple[Floats, Floats]:
        """Cuts the piece in the middle of an edge; midpoints are exact floats.

        A point with at least as much of a as of b is between a, the middle and the rest, whatever these are.
        """
        a, b = edge
        middle = (self.corners[a] + self.corners[b]) / 2
        first, second = self.corners.copy(), self.corners.copy()
        first[a], second[b] = middle, middle
        return first, second


class _Simplex:
    """The sum of the module's docstring, bounded on a simplex, for several numbers of summands."""

    def __init__(self, nodes: _Nodes, corners: Floats, counts: Floats) -> None:
        self.nodes, self.corners, self.counts = nodes, corners, counts
        self.gaussian = 0.5 * nodes.variance * nodes.u**2
        self.rotation = nodes.variance * nodes.tau * nodes.u
        self.shrinking = np.log1p((nodes.u / nodes.tau) ** 2)
        # Corner by count: the exponent of node 0.
        exact = np.multiply.outer(corners @ nodes.log_moment, counts)
        self.slack = 16 * UNIT_ROUNDOFF * np.multiply.outer(corners @ np.abs(nodes.log_moment), counts)
        self.heights = exact + self.slack
        self.highest = self.heights.max(axis=0)
        self.largest_corner = 0

    def log_sums(self) -> Floats:
        """Returns the logarithm of the bound of E(S)_+/count, for scaled values."""
        nodes = self.nodes
        total = self._sum_large_nodes() + self._bound_small_nodes() + self._bound_tail_nodes()
        unit = nodes.step / (2 * math.pi * nodes.tau**2)
        logs = np.log(np.maximum(total, 1e-300) * unit / self.counts * (1 + MARGIN))
        return np.asarray(logs + self.highest + 0.5 * nodes.variance * nodes.tau**2 * (1 + MARGIN) + MARGIN)

    @cached_property
    def _sizes(self) -> Floats:
        """Σ_x c_x·log|M_x| at each corner and node, for one summand."""
        return np.asarray(self.corners @ self.nodes.size)

    @cached_property
    def _node_errors(self) -> Floats:
        """Bounds of the errors of each node's exponent and phase, for the most summands."""
        nodes, most = self.nodes, float(self.counts.max())
        # |Σ c·log M| is below 4·count·doubt/(330·UNIT_ROUNDOFF), whose rounding is far below the doubt itself.
        own = most * nodes.error.max(axis=0)
        return np.asarray(
            1.05 * own + 24 * UNIT_ROUNDOFF * (self.gaussian + self.rotation + self.shrinking) + 96 * UNIT_ROUNDOFF
        )

    @cached_property
    def _largest_exponents(self) -> Floats:
        """The largest exponent of each node, with the fewest summands."""
        return np.asarray(float(self.counts.min()) * self._sizes.max(axis=0) - self.gaussian - self.shrinking)

    def _bound_small_nodes(self) -> float:
        """Returns a bound of all nodes too small to be evaluated one by one, with the fewest summands."""
        far = self._largest_exponents <= -LOG_NODE_CUTOFF
        return (
            2
            * float(np.exp(np.minimum(self._largest_exponents[far] + self._node_errors[far], 0.0)).sum())
            * (1 + MARGIN)
        )

    def _sum_large_nodes(self) -> Floats:
        nodes, counts = self.nodes, self.counts
        near = self._largest_exponents > -LOG_NODE_CUTOFF
        doubt = self._node_errors[near]
        if not doubt.max() <= MAX_NODE_ERROR:
            raise InsufficientAccuracy
        counted = np.multiply.outer(self._sizes[:, near], counts).transpose(0, 2, 1)
        exponents = counted - (self.gaussian + self.shrinking)[near]
        exponents += (self.heights - self.highest)[:, :, None]
        phases = np.multiply.outer(self.corners @ nodes.phase[:, near], counts).transpose(0, 2, 1)
        phases += (self.rotation - 2 * np.arctan2(nodes.u, nodes.tau))[near]
        cosines = _largest_cosine(phases.min(axis=0) - doubt, phases.max(axis=0) + doubt)
        cosines = np.where(nodes.phase_known[near] > 0, cosines, 1.0)
        factor = np.where(nodes.u[near] == 0, 1.0, 2.0)
        sizes = np.exp(exponents) * factor
        sums = (sizes * np.maximum(cosines, 0.0) * np.exp(doubt)).sum(axis=2)
        self.largest_corner, positive = int(np.argmax(sums[:, 0])), sums.max(axis=0)
        negative = (sizes.min(axis=0) * np.minimum(cosines, 0.0) * np.exp(-doubt)).sum(axis=1)
        # Heights are rounded up, which makes the subtracted part too large.
        return np.asarray(positive * (1 + MARGIN) + negative * np.exp(-2 * self.slack.max(axis=0)) * (1 - MARGIN))

    def _bound_tail_nodes(self) -> float:
        """Returns a bound of all nodes after the last: by the peak's curvature within its reach, then by smoothing."""
        nodes, last = self.nodes, len(self.nodes.u)
        flat = 0.5 * nodes.variance * nodes.step**2
        ratio = nodes.tau / nodes.step
        if not nodes.one_peak:
            return 2 * _tail(flat, last, ratio)
        reach = math.floor(math.pi / (nodes.width * nodes.step) * (1 - 1e-9)) if nodes.width > 0 else last
        total = 2 * _tail(flat, max(reach + 1, last), ratio)
        if reach < last:
            return total
        # One for each corner: these are exponentials of linear functions, too.
        fewest = float(self.counts.min())
        curvatures = 2 * fewest / math.pi**2 * nodes.step**2 * (self.corners @ nodes.spreads)
        depths = (self.heights - self.highest).max(axis=1)
        tails = [_tail(flat + curved, last, ratio) for curved in curvatures]
        return total + 2 * max(math.exp(depth) * tail for depth, tail in zip(depths, tails, strict=True))


def _crossing(slope: Callable[[float], tuple[float, float]], start: float) -> float:
    """Returns the zero of the first of two values, the second being its derivative, by Newton steps of at most 1."""
    x = start
    for _ in range(MAX_NEWTON_STEPS):
        value, steep = slope(x)
        # Too far to the left it falls before it rises.
        step = 1.0 if steep <= 0 else min(max(-value / steep, -1.0), 1.0)
        x = min(max(x + step, -MAX_LOG_TILT), MAX_LOG_TILT)
        if abs(step) <= NEWTON_TOLERANCE:
            return x
    found = find_crossing(
        lambda y: slope(y)[0], -MAX_LOG_TILT, MAX_LOG_TILT, guess=start, relative=0.0, absolute=NEWTON_TOLERANCE
    )
    return found.middle


def _largest_cosine(low: Floats, high: Floats) -> Floats:
    """Returns the largest cosine between two phases."""
    turn = 2 * math.pi
    full = np.floor(high / turn + 1e-12) >= np.ceil(low / turn - 1e-12)
    ends = np.maximum(np.cos(low), np.cos(high)) + 1e-12
    return np.asarray(np.where(full, 1.0, np.minimum(1.0, ends)))


def _tail(rate: float, start: int, ratio: float) -> float:
    """Returns an upper bound of the sum of exp(−rate·k²)/(1 + (k/ratio)²) over k ≥ start ≥ 1.

    It is bounded by its exponentials, or by its quotients.
    """
    falling = math.exp(-max(rate, 0.0) * start * start)
    quotients = falling * ratio * ratio / (start - 1) if start > 1 else math.inf
    if not rate > 0:
        return quotients * (1 + MARGIN)
    exponentials = falling / -math.expm1(-2 * rate * start) / (1 + (start / ratio) ** 2)
    return min(exponentials, quotients) * (1 + MARGIN)
