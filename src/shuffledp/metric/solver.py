"""The largest local distances whose shuffled privacy meets a global target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import NumericalError
from shuffledp.metric.amplification import Amplification, MetricVariationRatio
from shuffledp.metric.amplified import AmplifiedMetric
from shuffledp.numerics.ball import precision, round_up
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.record import Record
from shuffledp.privacy.space import LARGEST_DISTANCE, DistanceMatrix, Surroundings

Progress = Callable[[str], None]
TOLERANCE = 1e-7
"""Relative width to which a largest distance is searched; what is returned is on the proved side."""
ROUGH = 1e-3
"""The same where distances are raised one by one, each of which is in the way of others."""
FINE = 1e-11
"""The same for the largest diameter."""
WORTH_RAISING = 0.009
"""A distance is raised as long as it can grow by this much; at the end none can grow by a hundredth."""
MOST_SWEEPS = 60


@dataclass(frozen=True, eq=False)
class LocalMetric(Record):
    """One answer: local distances, every pair of which was checked against the bound.

    >>> import shuffledp as sdp
    >>> target = sdp.metric.DistanceMatrix.from_points([[0.0], [0.1]])
    >>> (found,) = sdp.metric.LocalMetricSolver(target, users=10_000, delta=1e-6).solve(diameters=1)
    >>> print(f"{found.metric.matrix[0, 1]:.3f} before shuffling, {found.amplified[0, 1]:.3f} after")
    1.830 before shuffling, 0.100 after
    """

    raw: DistanceMatrix
    """As found; the triangle inequality may fail."""
    amplified: Floats
    """The distances after shuffling; none is above its target."""
    metric: DistanceMatrix
    """For mechanisms that need a metric: the shortest paths, raised as far as targets and triangle inequality allow."""

    @property
    def diameter(self) -> float:
        return self.raw.diameter

    @property
    def closure(self) -> DistanceMatrix:
        """Its shortest paths, a metric: what is private for the raw distances is private for these."""
        return self.raw.closure()


@dataclass(frozen=True)
class LocalMetricSolver(Record):
    """Finds local distances D with D̂ ≤ target for every pair, as large as the bound allows.

    Theorem: [MDP] Algorithms 1 and 3: for each diameter m, D(a,b) = min(m, max(target, v)), v the largest distance
    whose amplified value at D_max = m meets the target; those that no other dominates are kept.
    Requires: a target matrix; users; δ.
    Returns: the Pareto set, each with its shortest paths and a metric; every pair is checked in ball arithmetic.
    Deviates: any bound may be used; the paper's are Corollary 1 (Algorithm 1) and Corollary 2 with R = 2e^m (Algorithm
    3). With the others each pair counts only the largest distance from its own two inputs, and distances are then
    raised one by one until none can grow by 1%.

    >>> import shuffledp as sdp
    >>> target = sdp.metric.DistanceMatrix.from_points([[0.0], [0.1]])
    >>> (found,) = sdp.metric.LocalMetricSolver(target, users=10_000, delta=1e-6).solve(diameters=1)
    >>> found.diameter > 1.82
    True
    """

    target: DistanceMatrix
    users: int
    delta: float
    amplification: Amplification = field(default_factory=MetricVariationRatio)

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", argument.count("LocalMetricSolver", "users", self.users))
        object.__setattr__(self, "delta", argument.open_probability("LocalMetricSolver", "delta", self.delta))

    def largest_diameter(self) -> float:
        """The largest m such that all distances equal to m meet the largest target."""
        return self.largest_equal(self.target.diameter)

    def largest_equal(self, target: float) -> float:
        """The largest m for which inputs that are all m apart meet one target."""
        return largest_uniform_distance(target, self.users, self.delta, self.amplification)

    def solve(self, diameters: float = 8, progress: Progress = lambda text: None) -> list[LocalMetric]:
        """The Pareto set over this many diameters, the largest diameter first."""
        count = argument.count("LocalMetricSolver", "diameters", diameters)
        low, high = self.largest_equal(self.target.smallest), self.largest_diameter()
        found: list[Floats] = []
        for diameter in np.linspace(high, low, count).tolist():
            progress(f"diameter {diameter:.4g}")
            found.append(self.distances(diameter))
        return [self._checked(matrix) for matrix in pareto(found)]

    def distances(self, diameter: float) -> Floats:
        """The distances for one diameter m."""
        limits = np.full(self.target.size, argument.positive_finite("LocalMetricSolver", "diameter", diameter))
        matrix = self._filled(limits)
        if self.amplification.uniform:
            return matrix
        return self._raised(self._filled(matrix.max(axis=1)), keep_triangles=False)

    def _filled(self, limits: Floats) -> Floats:
        """Every distance as large as its target allows if nothing is farther from an input than its limit."""
        result = np.zeros_like(self.target.matrix)
        for a, b in self.target.pairs():
            far = float(limits[a]), float(limits[b])
            result[a, b] = result[b, a] = self._largest(float(self.target.matrix[a, b]), *far, float(limits.max()))
        return result

    def _largest(self, target: float, far_first: float, far_second: float, diameter: float) -> float:
        limit = min(far_first, far_second)
        if limit <= target:
            return limit
        clones = _clone_sum(far_first, far_second)

        def excess(distance: float) -> float:
            return self._excess(Surroundings(distance, far_first, far_second, clones, diameter), target)

        if excess(limit) <= 0:
            return limit
        return find_crossing(excess, target, limit, relative=TOLERANCE).below

    def _excess(self, pair: Surroundings, target: float) -> float:
        if (pair, target) not in self._known:
            self._known[pair, target] = self.amplification.excess(pair, self.users, self.delta, target)
        return self._known[pair, target]

    @cached_property
    def _known(self) -> dict[tuple[Surroundings, float], float]:
        """A raised distance leaves the numbers of most pairs as they were."""
        return {}

    # --- one by one -------------------------------------------------------------------------------------------

    def _raised(self, matrix: Floats, *, keep_triangles: bool) -> Floats:
        """Distances raised one at a time, smallest first, until none can grow."""
        matrix = matrix.copy()
        for _ in range(MOST_SWEEPS):
            pairs = sorted(self.target.pairs(), key=lambda pair: matrix[pair])
            if not sum(self._raise(matrix, a, b, keep_triangles) for a, b in pairs):
                return matrix
        return matrix

    def _raise(self, matrix: Floats, a: int, b: int, keep_triangles: bool) -> bool:
        """Raise one distance as far as all pairs that it touches allow; whether that was worth it."""
        start, most = float(matrix[a, b]), LARGEST_DISTANCE
        if keep_triangles:
            ways = [matrix[a, c] + matrix[c, b] for c in range(len(matrix)) if c not in (a, b)]
            most = min([most, *map(float, ways)])

        def excess(distance: float) -> float:
            matrix[a, b] = matrix[b, a] = distance
            return self._worst_excess(matrix, a, b)

        low, step = start, 1 + WORTH_RAISING
        while low * step < most and excess(low * step) <= 0:
            low, step = low * step, min(step * step, 2.0)
        if low > start:
            low = find_crossing(excess, low, min(low * step, most), relative=ROUGH).below
        matrix[a, b] = matrix[b, a] = low
        return low > start

    def can_be_raised(self, matrix: Floats, a: int, b: int, factor: float = 1.01) -> bool:
        """Whether one distance may be multiplied by a factor and every pair still meet its target."""
        changed = np.array(matrix)
        changed[a, b] = changed[b, a] = changed[a, b] * factor
        return self._worst_excess(changed, a, b) <= 0

    def _worst_excess(self, matrix: Floats, a: int, b: int) -> float:
        """The largest excess among the pairs that the distance of a and b touches; the pair itself first."""
        space = DistanceMatrix(matrix)
        others = [(x, c) for x in (a, b) for c in range(space.size) if c not in (a, b)]
        worst = -math.inf
        for x, y in [(a, b), *others]:
            worst = max(worst, self._excess(space.surroundings(x, y), float(self.target.matrix[x, y])))
            if worst > 0:
                break
        return worst

    def _checked(self, matrix: Floats) -> LocalMetric:
        raw = self._proved(DistanceMatrix(matrix))
        amplified = AmplifiedMetric(raw, self.users, self.delta, self.amplification).matrix
        closed = raw.closure()
        if not self.amplification.uniform:
            closed = DistanceMatrix(self._raised(closed.matrix, keep_triangles=True))
        # The targets themselves were proved just now; a search for ε may end a hair above.
        return LocalMetric(raw, np.minimum(amplified, self.target.matrix), self._proved(closed.closure()))

    def _proved(self, space: DistanceMatrix) -> DistanceMatrix:
        """The same distances, every pair checked against its target."""
        for a, b in space.pairs():
            target = float(self.target.matrix[a, b])
            if self._excess(space.surroundings(a, b), target) > 0:
                raise NumericalError(f"LocalMetricSolver: inputs {a}, {b} miss their target {target!r}; please report.")
        return space


def largest_uniform_distance(target: float, users: float, delta: float, amplification: Amplification) -> float:
    """The largest m for which inputs that are all m apart stay within the target after shuffling."""
    target = argument.positive_finite("LocalMetricSolver", "target", target)
    count = argument.count("LocalMetricSolver", "users", users)

    def excess(distance: float) -> float:
        pair = Surroundings(distance, distance, distance, _clone_sum(distance, distance), distance)
        return amplification.excess(pair, count, delta, target)

    return find_crossing(excess, target, LARGEST_DISTANCE, guess=2 * target, relative=FINE).below


def pareto(matrices: Sequence[Floats]) -> list[Floats]:
    """Those that are nowhere below another one, equal ones once."""
    kept: list[Floats] = []
    for matrix in matrices:
        if any((matrix <= other).all() for other in kept):
            continue
        kept = [other for other in kept if not (other <= matrix).all()]
        kept.append(matrix)
    return kept


def _clone_sum(far_first: float, far_second: float) -> float:
    with precision(96):
        return round_up(arb(far_first).exp() + arb(far_second).exp())
