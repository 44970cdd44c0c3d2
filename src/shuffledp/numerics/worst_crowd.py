"""max over crowds of E[(G_1 + … + G_m)_+] where each summand may have any of a few laws, from above.

Let c_x summands have the law x, m = Σ c_x in all, M_x(t) = E exp(tG_x). As in ``contour``, for any tilt τ > 0, variance
v ≥ 0 and step s, smoothing and discretising only raise:

    E(S)_+ ≤ (s/2π)·Σ_k Re[exp(Σ_x c_x·log M_x(t_k) + v·t_k²/2)/t_k²],   t_k = τ + iks.

On a simplex of compositions c the phase of term k is linear in c, so that it lies between its values at the vertices;
with C_k the largest cosine there, the positive part of the sum is at most Σ_k C_k·exp(linear in c): convex in c,
largest at a vertex. Where C_k < 0 the term is at most C_k times its least size, that of a vertex too. Any branch of
log M_x will do: c is whole where the sum means something. So a simplex is bounded by its vertices, and halved where
that is not sharp enough: constant crowds are vertices of the first one.

The nodes are summed in floats. Their rounding is bounded as in ``contour_floats`` (330 + 7J ulps of u·E|G| for each
summand's log M), added to every exponent and to either end of every phase. What is planned in floats (τ, v, s, which
nodes to keep) may be any number without harming the proof.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shuffledp.array import Floats
from shuffledp.numerics.ball import precision, round_up
from shuffledp.numerics.contour_floats import LOG_HALF, NOTHING, UNIT, log_ratio, tilted_floats
from shuffledp.numerics.finite_law import Atoms, FiniteLaw
from shuffledp.numerics.root import find_crossing

GUARD_BITS = 128
DIGITS = 17.0
"""Logarithm of what truncation is planned to leave, relative to node 0."""
CUT = 30.0
"""Nodes whose size is below e^−CUT of node 0 are not looked at one by one."""
ALIAS = 8.0
"""Distance to the next alias, in standard deviations of the tilted sum."""
MOST_NODES = 12_000
SHARPNESS = 2e-5
"""Relative width in ε that smoothing may cost, and that a simplex may be above the worst crowd seen."""
COARSEST = 0.02
LIKELY = 4
"""Constant crowds that are looked at."""
MOST_PIECES, LEAST_PIECES, PIECES_OF_ALL = 160, 24, 1280
"""How many pieces are looked at: so many, fewer where each has many corners, and so many of these in all."""
FEW_CORNERS = 4
"""Up to so many, an edge is halved; beyond, what is near one corner is cut off."""
FLATTEST = 0.1
MARGIN = 1e-9
"""Relative; more than what some dozen float operations on positive numbers do."""
TILT_GRID, SPREAD_GRID = 0.01, 0.05
"""Logarithmic distance of the tilts, and of the variances, that are told apart."""
MOST_NEWTON_STEPS, CLOSE, HIGHEST_LOG = 20, 1e-3, 80.0
"""Of the search for the logarithm of a tilt."""
MOST_DOUBT = 1.0
LOG_NOTHING = -700.0
LOWEST = -1e60
LOG_UNKNOWN = math.log(0.51)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Everything that the nodes τ + iks tell of each law: a row for each of them."""

    tau: float
    variance: float
    step: float
    u: Floats
    size: Floats
    """Upper bounds of log|M_x(τ+iu)/M_x(τ)|."""
    turn: Floats
    """The argument of M_x(τ+iu)."""
    doubt: Floats
    """How far either may be off."""
    known: Floats
    """Whether the argument is known at all, 1 or 0 for each node."""
    top: Floats
    """Upper bounds of log M_x(τ)."""
    spreads: Floats
    """Tilted variances, rounded down."""
    one_peak: bool
    """Whether ``variance`` alone does for u beyond π/width, and ``spreads`` for what is before."""
    width: float
    """The largest difference of two values of one law."""


class Unsure(Exception):
    """Floats are not sure enough."""


class WorstCrowd:
    """Upper bounds over all crowds of summands with these laws, at one ε.

    ``corners``: where not all compositions are possible, some that all others are between, a row of shares each, which
    sum to 1 and are whole multiples of 2^-30, so that they can be halved again and again.
    """

    def __init__(self, laws: Sequence[FiniteLaw], sharpness: float = SHARPNESS, corners: Floats | None = None) -> None:
        self.laws = laws
        self.sharpness = sharpness
        self.corners = np.eye(len(laws)) if corners is None else corners
        views = [law.floats() for law in laws]
        positive = max(float(values.max()) for values, _ in views)
        self.scale = 2.0 ** math.ceil(math.log2(positive)) if positive > 0 else 1.0
        self.kinds, most = len(laws), max(len(values) for values, _ in views)
        # A row for each law, filled up with its largest value and no mass.
        self._places, self._masses = np.zeros((self.kinds, most)), np.zeros((self.kinds, most))
        for row, (values, weights) in enumerate(views):
            with np.errstate(over="ignore"):
                scaled = np.maximum(values / self.scale, LOWEST)
            self._places[row], self._places[row, : len(values)] = scaled.max(), scaled
            self._masses[row, : len(values)] = weights
        self._tops = self._places.max(axis=1, keepdims=True)
        self.may_rise = np.array([law.may_rise for law in laws])
        self._known: dict[tuple[int, int], _Nodes] = {}
        self._single: dict[int, WorstCrowd] = {}
        self._near_saddle: dict[float, float] = {}

    # --- planning ---------------------------------------------------------------------------------------------

    def _tilted(self, t: float) -> tuple[Floats, Floats]:
        """Mean and variance of each law tilted by t."""
        return self._moments(self._falling(t))

    def _moments(self, falling: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each law with these masses, whatever they sum to."""
        tilted = falling / falling.sum(axis=1, keepdims=True)
        means = (tilted * self._places).sum(axis=1)
        return means, (tilted * (self._places - means[:, None]) ** 2).sum(axis=1)

    def saddle(self, corners: Floats, count: float) -> tuple[float, float]:
        """Where the largest of count·Σ c_x·log M_x(t) over the corners, less 2·log t, is least; and its variance."""

        def slope(log_t: float) -> tuple[float, float]:
            """In log t, and its own slope."""
            t = math.exp(log_t)
            falling = self._falling(t)
            worst = corners[int(np.argmax(corners @ self._log_moments(t, falling)))] if len(corners) > 1 else corners[0]
            means, spreads = self._moments(falling)
            first = t * float(worst @ means)
            return count * first - 2.0, count * (first + t * t * float(worst @ spreads))

        # Crowds that are looked at one after the other are much alike.
        if count not in self._near_saddle:
            mean, square = float(self._means.max()), float((corners @ self._squares).max())
            guess = (math.sqrt(mean * mean + 8 * square / count) - mean) / (2 * square) if square > 0 else 1.0
            self._near_saddle[count] = math.log(guess) if 0 < guess < math.inf else 0.0
        self._near_saddle[count] = _crossing(slope, self._near_saddle[count])
        t = math.exp(self._near_saddle[count])
        return t, float((corners @ self._tilted(t)[1]).max())

    @cached_property
    def _means(self) -> Floats:
        return np.asarray((self._masses * self._places).sum(axis=1))

    @cached_property
    def _squares(self) -> Floats:
        return np.asarray((self._masses * self._places**2).sum(axis=1))

    def _falling(self, t: float) -> Floats:
        """Masses tilted by t, against the largest value."""
        return np.asarray(self._masses * np.exp(t * (self._places - self._tops)))

    def _log_moments(self, t: float, falling: Floats | None = None) -> Floats:
        """log M_x(t) in floats, near 0 from M − 1."""
        falling = self._falling(t) if falling is None else falling
        tops = t * self._tops[:, 0]
        large = tops + np.log(falling.sum(axis=1))
        if not (tops <= 1.0).any():
            return np.asarray(large)
        excess = (np.expm1(np.minimum(t * self._places, 1.0)) * self._masses).sum(axis=1)
        near = (tops <= 1.0) & (excess > -0.5)
        return np.asarray(np.where(near, np.log1p(np.maximum(excess, -0.5)), large))

    def nodes(self, corners: Floats, count: int) -> _Nodes:
        """Nodes that suit the worst of some crowds."""
        exact, spread = self.saddle(corners, count)
        # Simplices around one crowd share their nodes.
        place = round(math.log(exact) / TILT_GRID), round(math.log(max(spread, 1e-300)) / SPREAD_GRID)
        if place not in self._known:
            self._known[place] = self._planned(math.exp(TILT_GRID * place[0]), math.exp(SPREAD_GRID * place[1]), count)
        return self._known[place]

    def _planned(self, tau: float, spread: float, count: int) -> _Nodes:
        deviation = max(math.sqrt(count * spread), FLATTEST / tau)
        relative = min(COARSEST, self.sharpness * max(1.0, (tau * deviation) ** 2))
        width = float((self._tops[:, 0] - self._places.min(axis=1)).max()) * (1 + MARGIN)
        step = 2 * math.pi / (ALIAS * deviation + 2.0)
        variance = relative / tau**2
        one_peak = 2 * DIGITS * (width / math.pi) ** 2 <= variance
        if one_peak:
            rate = 2 * count * spread / math.pi**2 + variance / 2
            last = math.sqrt((DIGITS + 12) / rate) / step
        else:
            last = math.sqrt(2 * DIGITS / variance) / step
            if last > MOST_NODES:
                variance *= (last / MOST_NODES) ** 2
        u = step * np.arange(min(MOST_NODES, math.ceil(last)) + 1, dtype=np.float64)
        return self._evaluated(tau, variance, step, u, one_peak, width)

    def _evaluated(self, tau: float, variance: float, step: float, u: Floats, one_peak: bool, width: float) -> _Nodes:
        sizes, turns, doubts, tops, spreads = [], [], [], [], []
        known = np.ones_like(u)
        with precision(GUARD_BITS):
            for atoms in self.scaled_atoms:
                found = tilted_floats(list(atoms), tau)
                if found is None:
                    raise Unsure
                values, weights, mass = found
                tops.append(round_up(mass.log()))
                size, turn = log_ratio(values, weights, u)
                small = size < LOG_HALF
                size[small], known[small] = LOG_UNKNOWN, 0.0
                sizes.append(size)
                turns.append(turn)
                moments = u * float(np.dot(weights, np.abs(values))) * 1.001
                doubts.append(UNIT * (330 + 7 * len(values)) * moments + 5.0 * len(atoms) * NOTHING)
                mean = float(weights @ values)
                spreads.append(max(0.0, float(weights @ (values - mean) ** 2) * (1 - 1e-6) - 1e-12))
        return _Nodes(
            tau, variance, step, u, np.array(sizes), np.array(turns), np.array(doubts), known,
            np.array(tops), np.array(spreads), one_peak, width,
        )  # fmt: skip

    # --- one simplex ------------------------------------------------------------------------------------------

    def log_bounds(self, corners: Floats, counts: Floats) -> Floats:
        """For each count of summands, the logarithm of a bound of E(S)_+/count over the simplex of these corners."""
        return self._bounded(corners, counts)[0]

    def _bounded(self, corners: Floats, counts: Floats) -> tuple[Floats, int]:
        """The same, and the corner that makes it so large."""
        if not (corners[:, self.may_rise] > 0).any():
            return np.full(len(counts), -math.inf), 0
        try:
            simplex = _Simplex(self.nodes(corners, int(counts[0])), corners, counts)
            return simplex.log_sums() + math.log(self.scale), simplex.largest_corner
        except Unsure:
            return np.full(len(counts), math.inf), 0

    @cached_property
    def scaled_atoms(self) -> list[Atoms]:
        """At the working precision."""
        return [[(value / self.scale, weight) for value, weight in law.atoms()] for law in self.laws]

    def _unlike(self, corners: Floats, best: int, count: float) -> int:
        """A corner that is nearly as bad as another one, or worse, but turns the phase otherwise."""
        tau, spread = self.saddle(corners, count)
        heights = count * (corners @ self._log_moments(tau))
        turns = math.sqrt(count / max(spread, 1e-300)) * (corners @ self._tilted(tau)[0])
        apart = np.abs(turns - turns[best]) * np.exp(np.minimum(heights - heights[best], 0.0) / 2)
        apart += 1e-9 * ((corners - corners[best]) ** 2).sum(axis=1)
        return int(np.argmax(apart))

    def worst(self, counts: Floats) -> tuple[Floats, Floats, int]:
        """For each count, logarithms of a bound over all crowds and of the same for the worst crowd seen.

        The last is the law of which, alone, the worst constant crowd is, or the corner that is the worst.
        """
        seen, kind = self.constant(counts)
        return (seen if len(self.corners) == 1 else self._halved(counts, seen)), seen, kind

    def constant(self, counts: Floats) -> tuple[Floats, int]:
        """The same for the worst constant crowd that is found among the likely ones, and its law."""
        tau, _ = self.saddle(self.corners, float(counts[0]))
        likely = np.argsort(-(self.corners @ self._log_moments(tau)), kind="stable")[:LIKELY].tolist()
        found = np.array([self._alone(corner, counts) for corner in likely])
        return np.maximum(found.max(axis=0), LOG_NOTHING), likely[int(np.argmax(found[:, 0]))]

    def _alone(self, corner: int, counts: Floats) -> Floats:
        """Bounds of the crowds of one corner only."""
        if corner not in self._single:
            there = np.flatnonzero(self.corners[corner]).tolist()
            only = self.corners[[corner]][:, there]
            self._single[corner] = WorstCrowd([self.laws[kind] for kind in there], self.sharpness, only)
        alone = self._single[corner]
        return alone.log_bounds(alone.corners, counts)

    def _halved(self, counts: Floats, seen: Floats) -> Floats:
        """Simplices are halved until none is above the worst crowd seen by more than the room there is.

        What was seen is only a reason to stop.
        """
        room = self.sharpness * np.maximum(1.0, -2 * seen)
        order, size = itertools.count(), len(self.corners)
        settled = seen.copy()
        waiting: list[tuple[float, int, _Piece]] = []

        def look(corners: Floats) -> bool:
            """Whether a piece is settled; else it waits."""
            nonlocal settled
            found, largest = self._bounded(corners, counts)
            # Where floats were not sure, neither is known to be finite.
            above = float(np.max(found - seen - room)) if (found < math.inf).all() else math.inf
            if above <= 0:
                settled = np.maximum(settled, found)
            elif len(corners) == size:
                heapq.heappush(waiting, (-above, next(order), _Piece(corners, found, largest)))
            return above <= 0

        look(self.corners)
        looked = 1
        most = min(MOST_PIECES, max(LEAST_PIECES, PIECES_OF_ALL // size))
        while waiting and looked < most:
            _, _, piece = heapq.heappop(waiting)
            best = piece.largest
            unlike = self._unlike(piece.corners, best, float(counts[0]))
            # Not all crowds are constant: what one in the middle does need not be bettered.
            middle = self.log_bounds((piece.corners[[best]] + piece.corners[[unlike]]) / 2, counts)
            seen = np.maximum(seen, np.where(np.isfinite(middle), middle, seen))
            near, far = piece.around(best)
            looked += 2
            if size > FEW_CORNERS and look(far):
                look(near)
                continue
            for half in piece.halves((best, unlike)):
                look(half)
        return np.asarray(np.max([settled, *(piece.found for _, _, piece in waiting)], axis=0))


@dataclass(frozen=True, eq=False)
class _Piece:
    """Compositions between these corners, and what bounds them: a simplex, where the corners are few."""

    corners: Floats
    found: Floats = field(repr=False)
    largest: int
    """The corner that makes it so large."""

    def around(self, best: int) -> tuple[Floats, Floats]:
        """What is near one corner v, v + (w − v)/2 for all w, and what is not: with Σλ_w > 1/2 outside of v, a point
        Σλ_w·w is between a point of the other corners' and its middle to v."""
        middles = (self.corners + self.corners[best]) / 2
        others = np.arange(len(self.corners)) != best
        return middles, np.concatenate([middles[others], self.corners[others]])

    def halves(self, edge: tuple[int, int]) -> tuple[Floats, Floats]:
        """Cut in the middle of an edge; midpoints are exact floats.

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
        exact = np.multiply.outer(corners @ nodes.top, counts)
        self.slack = 16 * UNIT * np.multiply.outer(corners @ np.abs(nodes.top), counts)
        self.heights = exact + self.slack
        self.highest = self.heights.max(axis=0)
        self.largest_corner = 0

    def log_sums(self) -> Floats:
        """log of the bound of E(S)_+/count, scaled values."""
        nodes = self.nodes
        total = self._near() + self._far() + self._beyond()
        unit = nodes.step / (2 * math.pi * nodes.tau**2)
        logs = np.log(np.maximum(total, 1e-300) * unit / self.counts * (1 + MARGIN))
        return np.asarray(logs + self.highest + 0.5 * nodes.variance * nodes.tau**2 * (1 + MARGIN) + MARGIN)

    @cached_property
    def _sizes(self) -> Floats:
        """Σ_x c_x·log|M_x| at each corner and node, for one summand."""
        return np.asarray(self.corners @ self.nodes.size)

    @cached_property
    def _doubt(self) -> Floats:
        """Of the exponent and the phase of each node, for the most summands."""
        nodes, most = self.nodes, float(self.counts.max())
        # |Σ c·log M| is below 4·count·doubt/UNIT/330, whose rounding is far below the doubt itself.
        own = most * nodes.doubt.max(axis=0)
        return np.asarray(1.05 * own + 24 * UNIT * (self.gaussian + self.rotation + self.shrinking) + 96 * UNIT)

    @cached_property
    def _largest(self) -> Floats:
        """Of each node's exponent, with the fewest summands."""
        return np.asarray(float(self.counts.min()) * self._sizes.max(axis=0) - self.gaussian - self.shrinking)

    def _far(self) -> float:
        """All nodes that are too small to be looked at one by one, with the fewest summands."""
        far = self._largest <= -CUT
        return 2 * float(np.exp(np.minimum(self._largest[far] + self._doubt[far], 0.0)).sum()) * (1 + MARGIN)

    def _near(self) -> Floats:
        nodes, counts = self.nodes, self.counts
        near = self._largest > -CUT
        doubt = self._doubt[near]
        if not doubt.max() <= MOST_DOUBT:
            raise Unsure
        counted = np.multiply.outer(self._sizes[:, near], counts).transpose(0, 2, 1)
        exponents = counted - (self.gaussian + self.shrinking)[near]
        exponents += (self.heights - self.highest)[:, :, None]
        phases = np.multiply.outer(self.corners @ nodes.turn[:, near], counts).transpose(0, 2, 1)
        phases += (self.rotation - 2 * np.arctan2(nodes.u, nodes.tau))[near]
        cosines = _largest_cosine(phases.min(axis=0) - doubt, phases.max(axis=0) + doubt)
        cosines = np.where(nodes.known[near] > 0, cosines, 1.0)
        factor = np.where(nodes.u[near] == 0, 1.0, 2.0)
        sizes = np.exp(exponents) * factor
        sums = (sizes * np.maximum(cosines, 0.0) * np.exp(doubt)).sum(axis=2)
        self.largest_corner, positive = int(np.argmax(sums[:, 0])), sums.max(axis=0)
        negative = (sizes.min(axis=0) * np.minimum(cosines, 0.0) * np.exp(-doubt)).sum(axis=1)
        # Heights are rounded up, which makes what is taken off too large.
        return np.asarray(positive * (1 + MARGIN) + negative * np.exp(-2 * self.slack.max(axis=0)) * (1 - MARGIN))

    def _beyond(self) -> float:
        """All nodes after the last one: by the curvature of the peak as far as that goes, then by smoothing."""
        nodes, last = self.nodes, len(self.nodes.u)
        flat = 0.5 * nodes.variance * nodes.step**2
        ratio = nodes.tau / nodes.step
        if not nodes.one_peak:
            return 2 * _tail(flat, last, ratio)
        reach = math.floor(math.pi / (nodes.width * nodes.step) * (1 - 1e-9)) if nodes.width > 0 else last
        total = 2 * _tail(flat, max(reach + 1, last), ratio)
        if reach < last:
            return total
        # Each corner's own: these are exponentials of linear functions, too.
        fewest = float(self.counts.min())
        curvatures = 2 * fewest / math.pi**2 * nodes.step**2 * (self.corners @ nodes.spreads)
        depths = (self.heights - self.highest).max(axis=1)
        tails = [_tail(flat + curved, last, ratio) for curved in curvatures]
        return total + 2 * max(math.exp(depth) * tail for depth, tail in zip(depths, tails, strict=True))


def _crossing(slope: Callable[[float], tuple[float, float]], start: float) -> float:
    """Where the first of two values is 0, the second being its slope: by Newton's rule in steps of at most 1."""
    x = start
    for _ in range(MOST_NEWTON_STEPS):
        value, steep = slope(x)
        # Too far to the left it falls before it rises.
        step = 1.0 if steep <= 0 else min(max(-value / steep, -1.0), 1.0)
        x = min(max(x + step, -HIGHEST_LOG), HIGHEST_LOG)
        if abs(step) <= CLOSE:
            return x
    found = find_crossing(lambda y: slope(y)[0], -HIGHEST_LOG, HIGHEST_LOG, guess=start, relative=0.0, absolute=CLOSE)
    return found.middle


def _largest_cosine(low: Floats, high: Floats) -> Floats:
    """The largest cosine between two phases."""
    turn = 2 * math.pi
    full = np.floor(high / turn + 1e-12) >= np.ceil(low / turn - 1e-12)
    ends = np.maximum(np.cos(low), np.cos(high)) + 1e-12
    return np.asarray(np.where(full, 1.0, np.minimum(1.0, ends)))


def _tail(rate: float, start: int, ratio: float) -> float:
    """At least the sum of exp(−rate·k²)/(1 + (k/ratio)²) over k ≥ start ≥ 1: by its exponentials, or its quotients."""
    falling = math.exp(-max(rate, 0.0) * start * start)
    quotients = falling * ratio * ratio / (start - 1) if start > 1 else math.inf
    if not rate > 0:
        return quotients * (1 + MARGIN)
    exponentials = falling / -math.expm1(-2 * rate * start) / (1 + (start / ratio) ** 2)
    return min(exponentials, quotients) * (1 + MARGIN)
