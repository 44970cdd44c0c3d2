"""``LocalMetricSolver``: the largest local distances whose amplified distances meet a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.errors import NumericalError
from shuffledp._core.results_and_value_objects import Progress, ValueObject
from shuffledp._core.validation import Floats
from shuffledp.bounds.metric_amplification import Amplification, MetricVariationRatio, PairDistanceArrays, clone_sums
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.numerics.roots import Indices, find_crossing, find_crossings
from shuffledp.privacy.metric_space import MAX_DISTANCE, DistanceMatrix, PairDistances

# --- Proofs that every two inputs meet a target ---


ProgressCallback = Callable[[int], None]
"""Callback that receives each number of finished pairs."""


def ignore_progress(count: int) -> None:
    """Ignores progress."""


@dataclass(frozen=True)
class PairProofs(ValueObject):
    """Proofs, pair by pair, that the distances after shuffling are at most the target's.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> proofs = PairProofs(target=places, users=10_000, delta=1e-6)
    >>> of_two = PairProofs(places, users=2, delta=1e-6)
    >>> proofs.find_unproved_pair(places) is None, of_two.find_unproved_pair(places) is None
    (True, True)
    >>> proofs.find_unproved_pair(sdp.metric.DistanceMatrix(places.matrix * 8))
    (0, 1)
    """

    target: DistanceMatrix
    users: int
    delta: float
    amplification: Amplification = field(default_factory=MetricVariationRatio)

    def prove_distances(self, space: DistanceMatrix, advance: ProgressCallback = ignore_progress) -> Floats:
        """Returns the proved distances after shuffling, each at most its target; infinity where there is no proof."""
        result = np.zeros_like(space.matrix)
        guesses = self.amplification.guess_epsilons(PairDistanceArrays.from_space(space), self.users, self.delta)
        for (a, b), guess in zip(space.pairs(), guesses.tolist(), strict=True):
            pair, target = space.pair_distances(a, b), float(self.target.matrix[a, b])
            key = (*(getattr(pair, name) for name in self.amplification.used_distances), target)
            if key not in self._cached_proofs:
                self._cached_proofs[key] = self.amplification.prove_epsilon(pair, self.users, self.delta, target, guess)
            result[a, b] = result[b, a] = self._cached_proofs[key]
            advance(1)
        return result

    @cached_property
    def _cached_proofs(self) -> dict[tuple[float, ...], float]:
        """Proofs by the numbers of a pair and its target, on which alone they depend."""
        return {}

    def find_unproved_pair(self, space: DistanceMatrix) -> tuple[int, int] | None:
        """Returns the first two inputs whose target is not proved, or None if all are."""
        amplified = self.prove_distances(space)
        return next(((a, b) for a, b in space.pairs() if math.isinf(amplified[a, b])), None)


# --- Search in floats (nothing here is proved) ---


INDEPENDENT_TOLERANCE = 1e-7
"""Relative width of the search for distances that do not constrain each other."""
RAISE_TOLERANCE = 1e-3
"""The same where distances are raised one by one and constrain each other."""
MIN_RELATIVE_RAISE = 0.009
"""A distance is raised while it can grow by this much; in the end none can grow by 1%."""
MAX_SWEEPS = 60


@dataclass(frozen=True)
class DistanceSearch:
    """Search for local distances that meet targets, by the estimates of a bound.

    An excess grows with every distance. Hence a distance that cannot grow now never can, and each is tried once; only
    those limited by the triangle inequality are tried again after others have grown.
    """

    target: Floats
    users: int
    delta: float
    amplification: Amplification

    def largest_distances(self, limits: Floats) -> Floats:
        """Returns distances as large as their targets allow if no input is farther from another than its limit."""
        first, second = np.triu_indices(len(self.target), 1)
        target, most = self.target[first, second], np.minimum(limits[first], limits[second])
        clones, diameter = np.exp(limits[first]) + np.exp(limits[second]), np.full_like(most, limits.max())
        pairs = PairDistanceArrays(most, limits[first], limits[second], clones, diameter)

        def excess(distance: Floats, places: Indices) -> Floats:
            return self._excess(replace(pairs.select(places), distance=distance), target[places])

        largest = most.copy()
        (over,) = np.nonzero(self._excess(pairs, target) > 0)
        if len(over):
            below, _ = find_crossings(
                lambda x, at: excess(x, over[at]), target[over], most[over], INDEPENDENT_TOLERANCE
            )
            largest[over] = below
        result = np.zeros_like(self.target)
        result[first, second] = result[second, first] = largest
        return result

    def _excess(self, pairs: PairDistanceArrays, target: Floats) -> Floats:
        return self.amplification.estimate_excesses(pairs, self.users, self.delta, target)

    def raise_distances(
        self, matrix: Floats, *, keep_triangles: bool, advance: ProgressCallback = ignore_progress
    ) -> Floats:
        """Raises distances one at a time, smallest first, until none can grow; ``advance`` counts those finished."""
        distances = _GrowingDistances(matrix)
        first, second = (ends.tolist() for ends in np.triu_indices(len(matrix), 1))
        waiting = list(range(len(first)))
        for _ in range(MAX_SWEEPS):
            waiting.sort(key=lambda place: distances.matrix[first[place], second[place]])
            limited, grown = [], False
            for place in waiting:
                start = distances.matrix[first[place], second[place]]
                if self._raise_distance(distances, first[place], second[place], keep_triangles):
                    advance(1)
                else:
                    limited.append(place)
                grown = grown or distances.matrix[first[place], second[place]] > start
            waiting = sorted(limited)
            if not grown:
                break
        advance(len(waiting))
        return distances.matrix

    def _raise_distance(self, distances: _GrowingDistances, a: int, b: int, keep_triangles: bool) -> bool:
        """Raises one distance as far as all affected pairs allow; returns True if it can never grow again."""
        low, step = float(distances.matrix[a, b]), 1 + MIN_RELATIVE_RAISE
        most = distances.shortest_detour(a, b) if keep_triangles else MAX_DISTANCE
        if low * step >= most:
            return not keep_triangles
        affected = _AffectedPairs(distances, a, b)
        target = self.target[affected.first, affected.second]

        def excess(distance: float, rows: Indices) -> Floats:
            return self._excess(affected.raised_pairs(distance, rows), target[rows])

        over, high = affected.rows[:0], low
        while low < most and not len(over):
            high = min(low * step, most)
            rows = affected.find_changed_rows(high, self.amplification.used_distances)
            over = rows[excess(high, rows) > 0]
            if not len(over):
                low, step = high, min(step * step, 2.0)
        if low > float(distances.matrix[a, b]):
            if len(over):
                # A pair that does not limit the larger distance does not limit a smaller one.
                low = find_crossing(lambda x: float(excess(x, over).max()), low, high, relative=RAISE_TOLERANCE).below
            distances.raise_distance(a, b, low)
        return bool(len(over)) or not keep_triangles


class _GrowingDistances:
    """Growing distances, with the derived numbers that a bound uses."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix.copy()
        self.far = self.matrix.max(axis=1)
        self.grown = np.exp(self.matrix)
        self.clones = clone_sums(self.matrix)
        self.diameter = float(self.far.max())

    def shortest_detour(self, a: int, b: int) -> float:
        """Returns the length of the shortest detour from a to b, at most the largest allowed distance."""
        ways = self.matrix[a] + self.matrix[b]
        ways[[a, b]] = MAX_DISTANCE
        return min(float(ways.min()), MAX_DISTANCE)

    def raise_distance(self, a: int, b: int, distance: float) -> None:
        """Raises one distance."""
        self.matrix[a, b] = self.matrix[b, a] = distance
        self.grown[a, b] = self.grown[b, a] = np.exp(distance)
        for x, y in ((a, b), (b, a)):
            self.far[x] = max(self.far[x], distance)
            # The sum e^D(x,y) + e^D(y,c), for any c by way of y.
            self.clones[x] = np.maximum(self.clones[x], self.grown[x, y] + self.grown[y])
            self.clones[:, x] = self.clones[x]
        self.diameter = max(self.diameter, distance)


class _AffectedPairs:
    """The pairs that one distance affects: the two inputs in row 0, then each of them with any other input."""

    def __init__(self, distances: _GrowingDistances, a: int, b: int) -> None:
        others = np.delete(np.arange(len(distances.far)), [a, b])
        self.distances = distances
        self.first = np.concatenate([[a], np.full_like(others, a), np.full_like(others, b)])
        self.second = np.concatenate([[b], others, others])
        self.partner = a + b - self.first
        self.rows = np.arange(len(self.first))

    def find_changed_rows(self, distance: float, used_distances: tuple[str, ...]) -> Indices:
        """Returns the rows in which a raised distance changes a number that the bound uses."""
        distances, first = self.distances, self.first
        changed = (self.rows == 0) | ("diameter" in used_distances)
        if "farthest_from_first" in used_distances:
            changed |= distances.far[first] < distance
        if "clone_sum" in used_distances:
            changed |= distances.clones[first, self.second] < self._raised_clone_sums(distance, self.rows)
        (places,) = np.nonzero(changed)
        return places

    def _raised_clone_sums(self, distance: float, rows: Indices) -> Floats:
        return np.asarray(np.exp(distance) + self.distances.grown[self.partner[rows], self.second[rows]])

    def raised_pairs(self, distance: float, rows: Indices) -> PairDistanceArrays:
        """Returns the numbers of some rows for a raised distance of the two inputs."""
        distances, first, second = self.distances, self.first[rows], self.second[rows]
        is_first = rows == 0
        return PairDistanceArrays(
            np.where(is_first, distance, distances.matrix[first, second]),
            np.maximum(distances.far[first], distance),
            np.where(is_first, np.maximum(distances.far[second], distance), distances.far[second]),
            np.maximum(distances.clones[first, second], self._raised_clone_sums(distance, rows)),
            np.full(len(rows), max(distances.diameter, distance)),
        )


DIAMETER_TOLERANCE = 1e-11
"""Relative width of the search for the largest diameter; the returned value is on the proved side."""
LOWERING_TOLERANCE = 1e-4
"""The same for a distance that was found in floats and could not be proved."""
MAX_LOWERINGS = 20
UNIFORM_STEPS_PER_PAIR, METRIC_STEPS_PER_PAIR = 2, 4
"""Steps for each pair: searched and proved, and both again for a metric."""


# --- The solver: every pair of its result is proved ---


@dataclass(frozen=True, eq=False)
class LocalMetric(ValueObject):
    """Local distances found for a target, every pair of which was proved in ball arithmetic.

    Args:
        raw: The distances as found; the triangle inequality may fail.
        amplified: The proved distances after shuffling; none is above its target.
        metric: For mechanisms that need a metric: the shortest paths, raised as far as targets and triangle inequality
            allow.

    >>> import shuffledp as sdp
    >>> target = sdp.metric.DistanceMatrix.from_points([[0.0], [0.1]])
    >>> (found,) = sdp.metric.LocalMetricSolver(target, users=10_000, delta=1e-6).solve(diameters=1)
    >>> print(f"{found.metric.matrix[0, 1]:.3f} before shuffling, {found.amplified[0, 1]:.3f} after")
    1.830 before shuffling, 0.100 after
    """

    raw: DistanceMatrix
    amplified: Floats
    metric: DistanceMatrix

    @property
    def diameter(self) -> float:
        """The largest distance between two inputs."""
        return self.raw.diameter

    @property
    def closure(self) -> DistanceMatrix:
        """The shortest paths, a metric: a randomizer that is private for the raw distances is private for these."""
        return self.raw.closure()


@dataclass(frozen=True)
class LocalMetricSolver(ValueObject):
    """Solver for local distances D, as large as the bound allows, with D̂ ≤ target for every pair.

    Theorem: [MDP] Algorithms 1 and 3: for each diameter m, D(a,b) = min(m, max(target, v)), v the largest distance
    whose amplified value at D_max = m meets the target; those that no other dominates are kept.
    Requires: a target matrix; users; δ.
    Returns: the Pareto set, each with its shortest paths and a metric; every pair is checked in ball arithmetic.
    Deviates: any bound may be used; the paper's are Corollary 1 (Algorithm 1) and Corollary 2 with R = 2e^m (Algorithm
    3). With the others each pair counts only the largest distance from its own two inputs, and distances are then
    raised one by one until none can grow by 1%: searched in floats, and lowered where a pair cannot be proved.

    Args:
        target: The largest distance of each pair after shuffling.
        users: Number of shuffled messages.
        delta: The δ of the statements.
        amplification: The theorem that bounds distances after shuffling.

    Raises:
        TypeError: If ``users`` or ``delta`` is not a number.
        ValueError: If ``users`` or ``delta`` is out of range, or the theorem does not cover the target's inputs.

    >>> import shuffledp as sdp
    >>> target = sdp.metric.DistanceMatrix.from_points([[0.0], [0.1]])
    >>> (found,) = sdp.metric.LocalMetricSolver(target, users=10_000, delta=1e-6).solve(diameters=1)
    >>> found.diameter > 1.82
    True
    """

    target: DistanceMatrix
    users: int = field(metadata=validation.checked(validation.count))
    delta: float = field(metadata=validation.checked(validation.open_probability))
    amplification: Amplification = field(default_factory=MetricVariationRatio)

    def __post_init__(self) -> None:
        self.amplification.check_space("LocalMetricSolver", self.target)
        validation.check_fields(self)

    def largest_diameter(self) -> float:
        """Returns the largest m such that inputs that are all m apart meet the largest target."""
        return self.largest_equal(self.target.diameter)

    def largest_equal(self, target: float) -> float:
        """Returns the largest m for which inputs that are all m apart meet one target.

        Args:
            target: The largest distance after shuffling.

        Returns:
            A proved local distance.

        Raises:
            ValueError: If ``target`` is not positive and finite.
        """
        return largest_uniform_distance(target, self.users, self.delta, self.amplification)

    def solve(self, diameters: float = 8, progress: Progress | None = None) -> list[LocalMetric]:
        """Computes the Pareto set of local distances over several diameters.

        Args:
            diameters: Number of diameters to try.
            progress: Receives the progress.

        Returns:
            The solutions that no other dominates, the largest diameter first.

        Raises:
            TypeError: If ``diameters`` is not a number.
            ValueError: If ``diameters`` is below 1.
            NumericalError: If a pair cannot be proved to meet its target.
        """
        count = validation.count("LocalMetricSolver", "diameters", diameters)
        low, high = self.largest_equal(self.target.smallest_distance), self.largest_diameter()
        steps = UNIFORM_STEPS_PER_PAIR if self.amplification.is_uniform else METRIC_STEPS_PER_PAIR
        with (Progress() if progress is None else progress).step(
            "solving", count * steps * self._pair_count
        ) as advance:
            diameters_to_try = np.linspace(high, low, count).tolist()
            matrices = select_pareto_set([self._search_distances(diameter, advance) for diameter in diameters_to_try])
            advance((count - len(matrices)) * (steps - 1) * self._pair_count)
            return [self._build_local_metric(matrix, advance) for matrix in matrices]

    @property
    def _pair_count(self) -> int:
        return self.target.size * (self.target.size - 1) // 2

    def distances(self, diameter: float) -> Floats:
        """Computes the distances for one diameter; every pair is proved.

        Args:
            diameter: The largest local distance m.

        Returns:
            The matrix of local distances.

        Raises:
            ValueError: If ``diameter`` is not positive and finite.
            NumericalError: If a pair cannot be proved to meet its target.
        """
        searched = self._search_distances(
            validation.positive_finite("LocalMetricSolver", "diameter", diameter), ignore_progress
        )
        return self._prove_distances(searched, ignore_progress)[0].matrix

    @cached_property
    def _search(self) -> DistanceSearch:
        return DistanceSearch(self.target.matrix, self.users, self.delta, self.amplification)

    def _search_distances(self, diameter: float, advance: ProgressCallback) -> Floats:
        """Returns the distances for one diameter, searched in floats."""
        matrix = self._search.largest_distances(np.full(self.target.size, diameter))
        if self.amplification.is_uniform:
            advance(self._pair_count)
            return matrix
        return self._search.raise_distances(
            self._search.largest_distances(matrix.max(axis=1)), keep_triangles=False, advance=advance
        )

    # --- Proofs ---

    def _build_local_metric(self, matrix: Floats, advance: ProgressCallback) -> LocalMetric:
        raw, amplified = self._prove_distances(matrix, advance)
        closed = raw.closure()
        if self.amplification.is_uniform:
            return LocalMetric(raw, amplified, self._prove_distances(closed.matrix, ignore_progress)[0])
        raised = DistanceMatrix(
            self._search.raise_distances(closed.matrix, keep_triangles=True, advance=advance)
        ).closure()
        return LocalMetric(raw, amplified, self._prove_distances(raised.matrix, advance, keep_triangles=True)[0])

    def _prove_distances(
        self, matrix: Floats, advance: ProgressCallback, *, keep_triangles: bool = False
    ) -> tuple[DistanceMatrix, Floats]:
        """Returns the distances, lowered where they miss their targets, and the proved distances after shuffling.

        A randomizer that is private for lowered distances is private for the original ones, so that lowering is sound.
        """
        for _ in range(MAX_LOWERINGS):
            space = DistanceMatrix(matrix)
            amplified = self._proofs.prove_distances(space, advance)
            missed = [(a, b) for a, b in space.pairs() if math.isinf(amplified[a, b])]
            if not missed:
                return space, amplified
            matrix, advance = np.array(matrix), ignore_progress
            for a, b in missed:
                self._lower_distance(matrix, a, b)
            if keep_triangles:
                matrix = DistanceMatrix(matrix).closure().matrix
        a, b = missed[0]
        target = float(self.target.matrix[a, b])
        raise NumericalError(f"LocalMetricSolver: inputs {a}, {b} miss their target {target!r}; please report.")

    @cached_property
    def _proofs(self) -> PairProofs:
        return PairProofs(self.target, self.users, self.delta, self.amplification)

    def _lower_distance(self, matrix: Floats, a: int, b: int) -> None:
        """Lowers one distance until it meets its target."""

        def excess(distance: float) -> float:
            matrix[a, b] = matrix[b, a] = distance
            return self._excess(DistanceMatrix(matrix), a, b)

        high = float(matrix[a, b])
        crossing = find_crossing(
            excess,
            float(self.target.matrix[a, b]),
            high,
            guess=high * (1 - LOWERING_TOLERANCE),
            relative=LOWERING_TOLERANCE,
        )
        matrix[a, b] = matrix[b, a] = crossing.below

    def can_be_raised(self, matrix: Floats, a: int, b: int, factor: float = 1.01) -> bool:
        """Returns True if one distance may grow by a factor such that every pair still meets its target.

        Args:
            matrix: Local distances.
            a: Index of one input.
            b: Index of the other input.
            factor: Factor that the distance is multiplied by.

        Returns:
            True if all pairs that the distance affects are proved to meet their targets.
        """
        changed = np.array(matrix)
        changed[a, b] = changed[b, a] = changed[a, b] * factor
        space = DistanceMatrix(changed)
        affected = [(a, b), *((x, c) for x in (a, b) for c in range(space.size) if c not in (a, b))]
        return all(self._excess(space, x, y) <= 0 for x, y in affected)

    def _excess(self, space: DistanceMatrix, a: int, b: int) -> float:
        target = float(self.target.matrix[a, b])
        return self.amplification.excess(space.pair_distances(a, b), self.users, self.delta, target)


def largest_uniform_distance(target: float, users: float, delta: float, amplification: Amplification) -> float:
    """Returns the largest m for which inputs that are all m apart stay within the target after shuffling."""
    target = validation.positive_finite("LocalMetricSolver", "target", target)
    count = validation.count("LocalMetricSolver", "users", users)

    def excess(distance: float) -> float:
        with precision(96):
            clones = round_up(arb(distance).exp() + arb(distance).exp())
        pair = PairDistances(distance, distance, distance, clones, distance)
        return amplification.excess(pair, count, delta, target)

    return find_crossing(excess, target, MAX_DISTANCE, guess=2 * target, relative=DIAMETER_TOLERANCE).below


def select_pareto_set(matrices: Sequence[Floats]) -> list[Floats]:
    """Returns the matrices that no other dominates everywhere, equal ones once."""
    best: list[Floats] = []
    for matrix in matrices:
        if any((matrix <= other).all() for other in best):
            continue
        best = [other for other in best if not (other <= matrix).all()]
        best.append(matrix)
    return best
