"""Local distances as large as their targets allow, searched in floats: nothing here is proved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shuffledp.array import Floats
from shuffledp.metric.amplification import Amplification
from shuffledp.metric.many_pairs import ManyPairs, clone_sums
from shuffledp.metric.pair_proofs import Advance, nobody
from shuffledp.numerics.many_roots import Places, find_crossings
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.space import LARGEST_DISTANCE

TOLERANCE = 1e-7
"""Relative width to which distances are searched that are not in each other's way."""
ROUGH = 1e-3
"""The same where distances are raised one by one, each of which is in the way of others."""
WORTH_RAISING = 0.009
"""A distance is raised as long as it can grow by this much; at the end none can grow by a hundredth."""
MOST_SWEEPS = 60


@dataclass(frozen=True)
class DistanceSearch:
    """Distances for these targets, by the estimates of a bound.

    An excess grows with every distance. Hence a distance that cannot grow now never can, and each is looked at once;
    only those that the triangle inequality holds back are looked at again when others have grown.
    """

    target: Floats
    users: int
    delta: float
    amplification: Amplification

    def filled(self, limits: Floats) -> Floats:
        """Every distance as large as its target allows if nothing is farther from an input than its limit."""
        first, second = np.triu_indices(len(self.target), 1)
        target, most = self.target[first, second], np.minimum(limits[first], limits[second])
        clones, diameter = np.exp(limits[first]) + np.exp(limits[second]), np.full_like(most, limits.max())
        pairs = ManyPairs(most, limits[first], limits[second], clones, diameter)

        def excess(distance: Floats, places: Places) -> Floats:
            return self._excess(replace(pairs.at(places), distance=distance), target[places])

        found = most.copy()
        (over,) = np.nonzero(self._excess(pairs, target) > 0)
        if len(over):
            below, _ = find_crossings(lambda x, at: excess(x, over[at]), target[over], most[over], TOLERANCE)
            found[over] = below
        result = np.zeros_like(self.target)
        result[first, second] = result[second, first] = found
        return result

    def _excess(self, pairs: ManyPairs, target: Floats) -> Floats:
        return self.amplification.estimates(pairs, self.users, self.delta, target)

    def raised(self, matrix: Floats, *, keep_triangles: bool, advance: Advance = nobody) -> Floats:
        """Distances raised one at a time, smallest first, until none can grow; ``advance`` counts those done with."""
        held = _Held(matrix)
        first, second = (ends.tolist() for ends in np.triu_indices(len(matrix), 1))
        waiting = list(range(len(first)))
        for _ in range(MOST_SWEEPS):
            waiting.sort(key=lambda place: held.matrix[first[place], second[place]])
            left, grown = [], False
            for place in waiting:
                start = held.matrix[first[place], second[place]]
                if self._raise(held, first[place], second[place], keep_triangles):
                    advance(1)
                else:
                    left.append(place)
                grown = grown or held.matrix[first[place], second[place]] > start
            waiting = sorted(left)
            if not grown:
                break
        advance(len(waiting))
        return held.matrix

    def _raise(self, held: _Held, a: int, b: int, keep_triangles: bool) -> bool:
        """Raise one distance as far as all pairs that it touches allow; whether it can never grow again."""
        low, step = float(held.matrix[a, b]), 1 + WORTH_RAISING
        most = held.shortest_way(a, b) if keep_triangles else LARGEST_DISTANCE
        if low * step >= most:
            return not keep_triangles
        touched = _Touched(held, a, b)
        target = self.target[touched.first, touched.second]

        def excess(distance: float, rows: Places) -> Floats:
            return self._excess(touched.if_raised(distance, rows), target[rows])

        over, high = touched.rows[:0], low
        while low < most and not len(over):
            high = min(low * step, most)
            rows = touched.changed(high, self.amplification.asks)
            over = rows[excess(high, rows) > 0]
            if not len(over):
                low, step = high, min(step * step, 2.0)
        if low > float(held.matrix[a, b]):
            if len(over):
                # What is not in the way of the larger distance is not in the way of a smaller one.
                low = find_crossing(lambda x: float(excess(x, over).max()), low, high, relative=ROUGH).below
            held.put(a, b, low)
        return bool(len(over)) or not keep_triangles


class _Held:
    """Distances that grow, with what a bound asks about them."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix.copy()
        self.far = self.matrix.max(axis=1)
        self.grown = np.exp(self.matrix)
        self.clones = clone_sums(self.matrix)
        self.diameter = float(self.far.max())

    def shortest_way(self, a: int, b: int) -> float:
        """The least way round from a to b, or the largest distance that there may be."""
        ways = self.matrix[a] + self.matrix[b]
        ways[[a, b]] = LARGEST_DISTANCE
        return min(float(ways.min()), LARGEST_DISTANCE)

    def put(self, a: int, b: int, distance: float) -> None:
        """Raise one distance."""
        self.matrix[a, b] = self.matrix[b, a] = distance
        self.grown[a, b] = self.grown[b, a] = np.exp(distance)
        for x, y in ((a, b), (b, a)):
            self.far[x] = max(self.far[x], distance)
            # The sum of x and any c by way of y.
            self.clones[x] = np.maximum(self.clones[x], self.grown[x, y] + self.grown[y])
            self.clones[:, x] = self.clones[x]
        self.diameter = max(self.diameter, distance)


class _Touched:
    """The pairs that one distance touches: the two inputs themselves in row 0, then each of them with any other."""

    def __init__(self, held: _Held, a: int, b: int) -> None:
        others = np.delete(np.arange(len(held.far)), [a, b])
        self.held = held
        self.first = np.concatenate([[a], np.full_like(others, a), np.full_like(others, b)])
        self.second = np.concatenate([[b], others, others])
        self.partner = a + b - self.first
        self.rows = np.arange(len(self.first))

    def changed(self, distance: float, asks: tuple[str, ...]) -> Places:
        """The rows of which a raised distance changes a number that is asked for."""
        held, first = self.held, self.first
        changed = (self.rows == 0) | ("diameter" in asks)
        if "far_first" in asks:
            changed |= held.far[first] < distance
        if "clone_sum" in asks:
            changed |= held.clones[first, self.second] < self._clones(distance, self.rows)
        (places,) = np.nonzero(changed)
        return places

    def _clones(self, distance: float, rows: Places) -> Floats:
        return np.asarray(np.exp(distance) + self.held.grown[self.partner[rows], self.second[rows]])

    def if_raised(self, distance: float, rows: Places) -> ManyPairs:
        """The numbers of some rows if the distance of the two inputs were this."""
        held, first, second = self.held, self.first[rows], self.second[rows]
        itself = rows == 0
        return ManyPairs(
            np.where(itself, distance, held.matrix[first, second]),
            np.maximum(held.far[first], distance),
            np.where(itself, np.maximum(held.far[second], distance), held.far[second]),
            np.maximum(held.clones[first, second], self._clones(distance, rows)),
            np.full(len(rows), max(held.diameter, distance)),
        )
