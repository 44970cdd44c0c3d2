"""max over crowds of E(G_1 + … + G_m)_+/m, from above: each of m independent summands has one of a few laws.

With p_x the share of those that have the law x, and M_x(t) = E exp(tG_x), any τ > 0, variance v and step s have

    E(S)_+ ≤ (s/2π)·Σ_k Re[exp(m·Σ_x p_x·log M_x(t_k) + v·t_k²/2)/t_k²],   t_k = τ + iks:

normal noise of variance v raises the left side (Jensen), and the trapezoid rule gives that and more of its kind
(Poisson summation; ``certificate.line``). Let p be in the hull of some corners and m between two numbers. What is in
the exponent is linear in m·p, which is then in the hull of each corner times either number. So the phase of term k is
between its least and its largest value there; with C_k the largest cosine between these, the sum divided by m is at
most

    Σ_{C_k>0} C_k·exp(real part)/m − Σ_{C_k<0} |C_k|·(the least size at any of these points)/(the larger number),

convex in m and in p: it is largest at a corner, and between the two numbers it is below the chord. A hull is the union
of two: with the points a and b replaced in turn by their middle (Σλ_w·w with λ_a ≥ λ_b needs only a and the middle), or
of the hull of b and all middles to b, and that of these middles and all points but b.

``Nodes`` holds log M_x in balls. Nodes that hardly count are bounded by their size: by |M_x(τ+iu)/M_x(τ)| in floats
with a wide margin, and by exp(−2·u²·variance/π²) as long as no two values are more than π/u apart. What comes after is
sums of floats that are at most 1, times a margin far above what they can be off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import acb, arb
from numpy.typing import NDArray

Array = NDArray[np.float64]
Atoms = Sequence[tuple[arb, arb]]
"""Values of G and their weights."""
Logs = tuple[float, float]
"""Logarithms of bounds for the larger and for the smaller number of summands."""

MOST_SMOOTHING = 0.02
FLATTEST = 0.1
ALIAS = 8.0
"""Distance to the next alias, in deviations and in units of 1/τ."""
LAST = 40.0
"""Where smoothing ends the sum, in e-folds."""
HARDLY_COUNT = 1e-6
"""What all nodes may weigh that are only bounded, against node 0."""
SMALL = 2.0**-30
"""A moment's size, against that at τ, below which its phase counts as unknown."""
MOST_TERMS = 1_500_000
MARGIN = 1e-9
PAD = 1e-11
MOST_PAD = 1e-4
MOST_PIECES = 400
FEW_CORNERS = 2
SEEN = 4
UNKNOWN = "some probability of the others is not known well enough."


class Undecided(Exception):
    """Neither proved nor disproved, and why."""


@dataclass(frozen=True)
class _View:
    """All laws in floats, in units of the largest value: a row each, filled up with values of no weight."""

    values: Array
    weights: Array

    @classmethod
    def of(cls, kinds: Sequence[Atoms], scale: float) -> _View:
        shape = len(kinds), max(map(len, kinds))
        values, weights = np.zeros(shape), np.zeros(shape)
        for row, atoms in enumerate(kinds):
            found = [float(value.mid()) / scale for value, _ in atoms]
            values[row], values[row, : len(atoms)] = found[0], found
            weights[row, : len(atoms)] = [float(weight.mid()) for _, weight in atoms]
        return cls(values, weights)

    def log_moments(self, t: float) -> Array:
        """log M_x(t), near 0 from M − 1."""
        tops = self.values.max(axis=1)
        rise = (self.weights * np.expm1(np.minimum(t * self.values, 1.0))).sum(axis=1)
        far = t * tops + np.log((self.weights * np.exp(t * (self.values - tops[:, None]))).sum(axis=1))
        return np.asarray(np.where((t * tops <= 1) & (rise > -0.5), np.log1p(np.maximum(rise, -0.5)), far))

    def tilted(self, t: float) -> tuple[Array, Array, Array]:
        """Weights tilted by t, means and variances."""
        weights = self.weights * np.exp(t * (self.values - self.values.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        means = (weights * self.values).sum(axis=1)
        return weights, means, (weights * (self.values - means[:, None]) ** 2).sum(axis=1)

    def saddle(self, count: int) -> tuple[float, float]:
        """Where the largest of count·log M_x(t) − 2·log t is least, and the deviation of that sum, tilted."""
        low, high = -80.0, 80.0
        for _ in range(50):
            middle = (low + high) / 2
            t = math.exp(middle)
            worst = int(np.argmax(self.log_moments(t)))
            slope = count * t * float(self.tilted(t)[1][worst])
            low, high = (low, middle) if slope > 2 else (middle, high)
        t = math.exp(low)
        worst = int(np.argmax(self.log_moments(t)))
        return t, math.sqrt(count * float(self.tilted(t)[2][worst]))


class Nodes:
    """The terms of the sum for all crowds of ``fewest`` to ``most`` summands with these laws.

    ``cost``: what smoothing may cost, relative to ε; the more, the fewer nodes count.
    """

    def __init__(self, kinds: Sequence[Atoms], most: int, fewest: int, cost: float) -> None:
        self.most, self.fewest, self.kinds = most, fewest, len(kinds)
        self.scale = max(float(value.mid()) for atoms in kinds for value, _ in atoms)
        view = _View.of(kinds, self.scale)
        # Anything is sound that is planned here.
        self.tau, deviation = view.saddle(fewest)
        deviation = max(deviation, FLATTEST / self.tau)
        smoothing = min(MOST_SMOOTHING, cost * max(1.0, (self.tau * deviation) ** 2))
        self.variance = 2 * smoothing / self.tau**2
        self.step = 2 * math.pi / (ALIAS * deviation + ALIAS / self.tau)
        scaled = [[(value / self.scale, weight) for value, weight in atoms] for atoms in kinds]
        tilted = [_tilted(atoms, self.tau) for atoms in scaled]
        self.tops = [moment.log() for _, moment in tilted]
        near, self.far = self._planned(view)
        if len(near) * sum(map(len, kinds)) > MOST_TERMS:
            raise Undecided("the sum over all kinds of others would be too long.")
        self.u = self.step * near.astype(np.float64)
        self.known = np.ones(len(near), dtype=bool)
        self.size, self.turn, self.doubt = self._evaluated(scaled, [weights for weights, _ in tilted], near)
        self.common = -0.5 * self.variance * self.u**2 - np.log1p((self.u / self.tau) ** 2)
        self.rotation = self.variance * self.tau * self.u - 2 * np.arctan2(self.u, self.tau)
        self.times = np.where(near == 0, 1.0, 2.0)

    def heights(self, count: int) -> list[arb]:
        """count·log M_x(τ)."""
        return [count * top for top in self.tops]

    def _planned(self, view: _View) -> tuple[NDArray[np.int64], float]:
        """Which nodes k ≥ 0 are looked at, and a bound of all others in sum, against the highest node 0 of any end."""
        a = 0.5 * self.variance * self.step**2
        last = math.ceil(math.sqrt(LAST / a))
        u = self.step * np.arange(last + 1, dtype=np.float64)
        weights, _, spreads = view.tilted(self.tau)
        ends = [self.heights(count) for count in {self.most, self.fewest}]
        highest = [max(end, key=lambda height: float(height.mid())) for end in ends]
        sizes = np.full(last + 1, -math.inf)
        for x in range(self.kinds):
            values, width = view.values[x], float(np.ptp(view.values[x]))
            phases = np.multiply.outer(u, values)
            about = np.hypot(np.cos(phases) @ weights[x], np.sin(phases) @ weights[x])
            logs = np.log(np.minimum(1.0, about + 1e-11 + 1e-14 * u * float(np.abs(values).max())))
            spread = float(spreads[x]) * (1 - 1e-6) - 1e-13 * float(np.abs(values).max()) ** 2
            curved = np.where(u * width <= 3.14, -2 / math.pi**2 * u**2 * max(0.0, spread), 0.0)
            depth = max(float((end[x] - top).upper()) for end, top in zip(ends, highest, strict=True))
            sizes = np.maximum(sizes, depth + self.fewest * np.minimum(logs, curved))
        sizes += MARGIN - (0.5 * self.variance * u**2 + np.log1p((u / self.tau) ** 2)) * (1 - MARGIN)
        order = np.argsort(sizes[1:]) + 1
        weighed = np.cumsum(np.exp(np.minimum(sizes[order], 0.0)))
        few = int(np.searchsorted(weighed, HARDLY_COUNT))
        beyond = math.exp(-a * (last + 1) ** 2) / -math.expm1(-2 * a * (last + 1))
        far = 2 * (float(weighed[few - 1] if few else 0.0) + beyond) * (1 + 2 * MARGIN)
        return np.sort(np.append(order[few:], 0)), far

    def _evaluated(
        self, kinds: Sequence[Atoms], tilted: Sequence[Sequence[arb]], near: NDArray[np.int64]
    ) -> tuple[Array, Array, float]:
        """log|M_x(τ+iu)/M_x(τ)| and its argument for each law and node; and how far either may be off."""
        size, turn = np.zeros((self.kinds, len(near))), np.zeros((self.kinds, len(near)))
        doubt = 0.0
        for place, k in enumerate(near.tolist()):
            u = arb(self.step) * k
            for x, (atoms, weights) in enumerate(zip(kinds, tilted, strict=True)):
                real, imaginary = arb(0), arb(0)
                for (value, _), weight in zip(atoms, weights, strict=True):
                    sine, cosine = (u * value).sin_cos()
                    real += weight * cosine
                    imaginary += weight * sine
                moment = acb(real, imaginary)
                if not abs(moment) > SMALL:
                    if not abs(moment) < 2 * SMALL:
                        raise Undecided(UNKNOWN)
                    self.known[place], size[x, place] = False, math.log(2 * SMALL)
                    continue
                log = moment.log()
                size[x, place], turn[x, place] = float(log.real.mid()), float(log.imag.mid())
                doubt = max(doubt, float(log.real.rad()), float(log.imag.rad()))
        if not math.isfinite(doubt):
            raise Undecided(UNKNOWN)
        return size, turn, doubt


class Hull:
    """The bound of the module's docstring, for crowds of ``most`` to ``fewest`` summands at these nodes."""

    def __init__(self, nodes: Nodes, most: int, fewest: int) -> None:
        assert nodes.most >= most >= fewest >= nodes.fewest
        self.nodes, self.counts = nodes, (most, fewest)
        ends = [nodes.heights(count) for count in self.counts]
        self.highest = max((height for end in ends for height in end), key=lambda height: float(height.mid()))
        depths = [np.array([float((height - self.highest).mid()) for height in end]) for end in ends]
        self.sizes = [depth[:, None] + count * nodes.size for depth, count in zip(depths, self.counts, strict=True)]
        self.turns = [count * nodes.turn for count in self.counts]
        largest = max(float(np.abs(array).max()) for array in (*self.sizes, *self.turns, nodes.common, nodes.rotation))
        known = max(float(height.rad()) for end in ends for height in end) + float(self.highest.rad())
        self.pad = PAD + 1e-15 * (nodes.kinds + 64) * largest + 2 * (most * nodes.doubt + known)
        if not self.pad <= MOST_PAD:
            raise Undecided("floats do not tell the phases well enough.")

    @cached_property
    def log_unit(self) -> float:
        """What all terms are in units of, rounded up."""
        tau, variance, step = arb(self.nodes.tau), arb(self.nodes.variance), arb(self.nodes.step)
        log = (step * self.nodes.scale / (2 * arb.pi() * tau * tau)).log() + self.highest + variance * tau * tau / 2
        return math.nextafter(float(log.upper()), math.inf)

    def bound(self, corners: Array) -> tuple[Logs, int, int]:
        """The logarithms of both bounds of E(S)_+/m on the hull; its worst corner, and the one most unlike it."""
        nodes = self.nodes
        turns = [corners @ turn + nodes.rotation for turn in self.turns]
        low = np.minimum(turns[0].min(axis=0), turns[1].min(axis=0)) - self.pad
        high = np.maximum(turns[0].max(axis=0), turns[1].max(axis=0)) + self.pad
        cosine = np.where(nodes.known, _largest_cosine(low, high), 1.0)
        sizes = [nodes.times * np.exp(corners @ size + nodes.common) for size in self.sizes]
        least = np.minimum(sizes[0].min(axis=0), sizes[1].min(axis=0))
        positive, negative = np.maximum(cosine, 0.0), np.maximum(-cosine, 0.0)
        taken = float(least @ negative) * math.exp(-self.pad) * (1 - MARGIN) / self.counts[0]
        each = [size @ positive for size in sizes]
        logs = []
        for sums, count in zip(each, self.counts, strict=True):
            total = (float(sums.max()) * math.exp(self.pad) * (1 + MARGIN) + nodes.far) / count - taken
            logs.append(self.log_unit + math.log(max(total * (1 + MARGIN), 1e-300)) + MARGIN)
        worst = int(np.argmax(each[1]))
        weight = sizes[1][worst] * (nodes.u > 0)
        apart = np.minimum(np.abs(turns[1] - turns[1][worst]), 2.0) @ weight
        apart = apart * np.sqrt(np.minimum(each[1] / max(each[1][worst], 1e-300), 1.0)) + 1e-12 * apart
        return (logs[0], logs[1]), worst, int(np.argmax(apart))

    def seen(self) -> Logs:
        """The largest of the bounds for a few crowds: constant ones of the highest kinds, and halves of two."""
        order = np.argsort(-self.sizes[1][:, 0], kind="stable")[:SEEN]
        points = np.eye(self.nodes.kinds)[order]
        crowds = {((a + b) / 2).tobytes(): (a + b) / 2 for a in points for b in points}
        found = [self.bound(crowd[None, :])[0] for crowd in crowds.values()]
        return max(most for most, _ in found), max(fewest for _, fewest in found)

    def proved(self, target: Logs) -> Logs:
        """Bounds over all crowds, if they are within the target; U ≤ 1 needs no proof."""
        if min(target) >= 0:
            return 0.0, 0.0
        waiting = [np.eye(self.nodes.kinds)]
        largest, looked = (-math.inf, -math.inf), 0

        def settles(corners: Array) -> tuple[bool, int, int]:
            nonlocal largest, looked
            looked += 1
            found, worst, unlike = self.bound(corners)
            if within := found[0] <= target[0] and found[1] <= target[1]:
                largest = max(largest[0], found[0]), max(largest[1], found[1])
            return within, worst, unlike

        while waiting:
            corners = waiting.pop()
            within, worst, unlike = settles(corners)
            if within:
                continue
            if looked >= MOST_PIECES or worst == unlike:
                raise Undecided(
                    "the worst of all crowds is not told from the others in as many pieces as are looked at."
                )
            if len(corners) > FEW_CORNERS and len(corners) <= self.nodes.kinds:
                near, far = _around(corners, worst)
                if settles(far)[0]:
                    waiting.append(near)
                    continue
            waiting += _halves(corners, worst, unlike)
        return largest


def _tilted(atoms: Atoms, tau: float) -> tuple[list[arb], arb]:
    """Weights tilted by τ, and M(τ)."""
    raised = [weight * (arb(tau) * value).exp() for value, weight in atoms]
    moment = sum(raised, arb(0))
    return [weight / moment for weight in raised], moment


def _around(corners: Array, place: int) -> tuple[Array, Array]:
    """What is near a corner, and what is not."""
    middles = (corners + corners[place]) / 2
    rest = np.arange(len(corners)) != place
    return middles, np.concatenate([middles[rest], corners[rest]])


def _halves(corners: Array, a: int, b: int) -> tuple[Array, Array]:
    """Two hulls that cover one: either of two points gives way to their middle."""
    one, other = corners.copy(), corners.copy()
    one[a] = other[b] = (corners[a] + corners[b]) / 2
    return one, other


def _largest_cosine(low: Array, high: Array) -> Array:
    turn = 2 * math.pi
    full = np.floor(high / turn + MARGIN) >= np.ceil(low / turn - MARGIN)
    return np.asarray(np.where(full, 1.0, np.minimum(1.0, np.maximum(np.cos(low), np.cos(high)) + MARGIN)))
