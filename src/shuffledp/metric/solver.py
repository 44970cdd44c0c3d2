"""The largest local distances whose shuffled privacy meets a global target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import NumericalError
from shuffledp.metric.amplification import Amplification, MetricVariationRatio
from shuffledp.metric.distance_search import DistanceSearch
from shuffledp.metric.pair_proofs import Advance, PairProofs, nobody
from shuffledp.numerics.ball import precision, round_up
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.record import Record
from shuffledp.privacy.space import LARGEST_DISTANCE, DistanceMatrix, Surroundings
from shuffledp.progress import Progress

FINE = 1e-11
"""Relative width to which the largest diameter is searched; what is returned is on the proved side."""
LOWERED = 1e-4
"""The same for a distance that floats found and that could not be proved."""
MOST_LOWERINGS = 20
ALONE, IN_ALL = 2, 4
"""Steps that each pair goes through: searched and proved, and once more for a metric."""


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
    """The distances after shuffling, as proved; none is above its target."""
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
    raised one by one until none can grow by 1%: searched in floats, and lowered where a pair cannot be proved.

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
        self.amplification.check_space("LocalMetricSolver", self.target)
        object.__setattr__(self, "users", argument.count("LocalMetricSolver", "users", self.users))
        object.__setattr__(self, "delta", argument.open_probability("LocalMetricSolver", "delta", self.delta))

    def largest_diameter(self) -> float:
        """The largest m such that all distances equal to m meet the largest target."""
        return self.largest_equal(self.target.diameter)

    def largest_equal(self, target: float) -> float:
        """The largest m for which inputs that are all m apart meet one target."""
        return largest_uniform_distance(target, self.users, self.delta, self.amplification)

    def solve(self, diameters: float = 8, progress: Progress | None = None) -> list[LocalMetric]:
        """The Pareto set over this many diameters, the largest diameter first; ``progress`` is told how far it is."""
        count = argument.count("LocalMetricSolver", "diameters", diameters)
        low, high = self.largest_equal(self.target.smallest), self.largest_diameter()
        steps = ALONE if self.amplification.uniform else IN_ALL
        with (Progress() if progress is None else progress).step("solving", count * steps * self._pairs) as advance:
            tried = np.linspace(high, low, count).tolist()
            found = pareto([self._searched(diameter, advance) for diameter in tried])
            advance((count - len(found)) * (steps - 1) * self._pairs)
            return [self._checked(matrix, advance) for matrix in found]

    @property
    def _pairs(self) -> int:
        return self.target.size * (self.target.size - 1) // 2

    def distances(self, diameter: float) -> Floats:
        """The distances for one diameter m, every pair checked."""
        searched = self._searched(argument.positive_finite("LocalMetricSolver", "diameter", diameter), nobody)
        return self._proved(searched, nobody)[0].matrix

    @cached_property
    def _search(self) -> DistanceSearch:
        return DistanceSearch(self.target.matrix, self.users, self.delta, self.amplification)

    def _searched(self, diameter: float, advance: Advance) -> Floats:
        """The distances for one diameter in floats."""
        matrix = self._search.filled(np.full(self.target.size, diameter))
        if self.amplification.uniform:
            advance(self._pairs)
            return matrix
        return self._search.raised(self._search.filled(matrix.max(axis=1)), keep_triangles=False, advance=advance)

    # --- proofs -----------------------------------------------------------------------------------------------

    def _checked(self, matrix: Floats, advance: Advance) -> LocalMetric:
        raw, amplified = self._proved(matrix, advance)
        closed = raw.closure()
        if self.amplification.uniform:
            return LocalMetric(raw, amplified, self._proved(closed.matrix, nobody)[0])
        raised = DistanceMatrix(self._search.raised(closed.matrix, keep_triangles=True, advance=advance)).closure()
        return LocalMetric(raw, amplified, self._proved(raised.matrix, advance, keep_triangles=True)[0])

    def _proved(
        self, matrix: Floats, advance: Advance, *, keep_triangles: bool = False
    ) -> tuple[DistanceMatrix, Floats]:
        """The distances, lowered where they miss their targets, and the proved distances after shuffling.

        A randomizer that is private for lowered distances is private for those before, so that nothing proved is lost.
        """
        for _ in range(MOST_LOWERINGS):
            space = DistanceMatrix(matrix)
            amplified = self._proofs.amplified(space, advance)
            missed = [(a, b) for a, b in space.pairs() if math.isinf(amplified[a, b])]
            if not missed:
                return space, amplified
            matrix, advance = np.array(matrix), nobody
            for a, b in missed:
                self._lower(matrix, a, b)
            if keep_triangles:
                matrix = DistanceMatrix(matrix).closure().matrix
        a, b = missed[0]
        target = float(self.target.matrix[a, b])
        raise NumericalError(f"LocalMetricSolver: inputs {a}, {b} miss their target {target!r}; please report.")

    @cached_property
    def _proofs(self) -> PairProofs:
        return PairProofs(self.target, self.users, self.delta, self.amplification)

    def _lower(self, matrix: Floats, a: int, b: int) -> None:
        """Lower one distance until it meets its target."""

        def excess(distance: float) -> float:
            matrix[a, b] = matrix[b, a] = distance
            return self._excess(DistanceMatrix(matrix), a, b)

        high = float(matrix[a, b])
        found = find_crossing(
            excess, float(self.target.matrix[a, b]), high, guess=high * (1 - LOWERED), relative=LOWERED
        )
        matrix[a, b] = matrix[b, a] = found.below

    def can_be_raised(self, matrix: Floats, a: int, b: int, factor: float = 1.01) -> bool:
        """Whether one distance may be multiplied by a factor and every pair still meet its target."""
        changed = np.array(matrix)
        changed[a, b] = changed[b, a] = changed[a, b] * factor
        space = DistanceMatrix(changed)
        touched = [(a, b), *((x, c) for x in (a, b) for c in range(space.size) if c not in (a, b))]
        return all(self._excess(space, x, y) <= 0 for x, y in touched)

    def _excess(self, space: DistanceMatrix, a: int, b: int) -> float:
        target = float(self.target.matrix[a, b])
        return self.amplification.excess(space.surroundings(a, b), self.users, self.delta, target)


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
