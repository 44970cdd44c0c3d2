"""The local-metric solver: uniform diameters, the paper's closed form, feasibility and maximality."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shuffledp._core.results_and_value_objects import Progress
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.local_metric_solver import LocalMetricSolver, largest_uniform_distance, select_pareto_set
from shuffledp.bounds.metric_amplification import (
    Amplification,
    AmplifiedMetric,
    Corollary1,
    ExactClone,
    MetricVariationRatio,
    UniformCorollary2,
)
from shuffledp.bounds.metric_noise_laws import PlanarLaplaceNoise
from shuffledp.mechanisms.metric.exponential import PaddedExponential
from shuffledp.privacy.metric_space import DistanceMatrix

USERS, DELTA, TARGET = 10_000, 1e-6, 0.306


@pytest.mark.parametrize(
    ("amplification", "diameter"),
    [(UniformCorollary2(), 1.34), (Corollary1(), 2.17), (ExactClone(), 2.93), (MetricVariationRatio(), 3.50)],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_uniform_local_diameters(amplification: object, diameter: float) -> None:
    """n = 1e4, δ = 1e-6, global diameter 0.306: the figures of the theory, and 1% more is too much."""
    assert hasattr(amplification, "excess")
    found = largest_uniform_distance(TARGET, USERS, DELTA, amplification)  # type: ignore[arg-type]
    assert round(found, 2) == diameter
    apart = 1 - np.eye(3)
    equal, more = (
        AmplifiedMetric(DistanceMatrix(apart * size), USERS, DELTA, amplification)  # type: ignore[arg-type]
        for size in (found, 1.01 * found)
    )
    assert equal(0, 1).upper <= TARGET + 1e-12
    assert more(0, 1).upper > TARGET


def planar_target(points: int, seed: int) -> DistanceMatrix:
    places = np.random.default_rng(seed).random((points, 2))
    return DistanceMatrix.from_points(places, rate=TARGET / DistanceMatrix.from_points(places).diameter)


def test_the_paper_solver_against_its_closed_form() -> None:
    """D = min(m, max(D#, v)), v = 2·atanh((e^D# − 1)/K(m)), for Algorithms 1 and 3."""
    target = planar_target(5, 1)
    log = math.log(4 / DELTA)

    def factor1(m: float) -> float:
        mean = (USERS - 1) / math.exp(m)
        omega = mean - math.sqrt(3 * mean * log)
        root = math.sqrt(omega * log / 2)
        return (2 * root + 1) / (omega / 2 - root)

    def factor3(m: float) -> float:
        return 8 * (math.sqrt(math.exp(m) * log / (USERS - 1)) + math.exp(m) / (USERS - 1))

    for amplification, factor in ((Corollary1(), factor1), (UniformCorollary2(), factor3)):
        solver = LocalMetricSolver(target, USERS, DELTA, amplification)
        high = solver.largest_diameter()
        for m in (high, 0.8 * high):
            found = solver.distances(m)
            for a, b in target.pairs():
                share = math.expm1(target.matrix[a, b]) / factor(m)
                v = 2 * math.atanh(share) if share < 1 else math.inf
                assert found[a, b] == pytest.approx(min(m, max(target.matrix[a, b], v)), rel=1e-6)
        answers = solver.solve(diameters=5)
        assert len(answers) == 5
        for answer in answers:
            assert (answer.amplified <= target.matrix).all()


@pytest.mark.exhaustive
def test_seven_random_points() -> None:
    """Every pair meets its target, no single distance can be raised by 1%, and the shortest paths are feasible too."""
    target = planar_target(7, 2024)
    solver = LocalMetricSolver(target, USERS, DELTA)
    answers = solver.solve(diameters=2)
    assert answers
    for answer in answers:
        raw = answer.raw.matrix
        again = AmplifiedMetric(answer.raw, USERS, DELTA).matrix
        assert (again <= target.matrix + 1e-12 + 1e-10 * target.matrix).all()
        assert (answer.amplified <= target.matrix + 1e-12).all()
        assert not any(solver.can_be_raised(raw, a, b, 1.01) for a, b in target.pairs())
        answer.metric.check_triangle_inequality("metric")
        assert (AmplifiedMetric(answer.metric, USERS, DELTA).matrix <= target.matrix * (1 + 1e-9)).all()
        assert (answer.metric.matrix >= answer.closure.matrix * (1 - 1e-12)).all()
        closed = answer.closure
        closed.check_triangle_inequality("closure")
        assert (closed.matrix <= raw).all()
        assert (AmplifiedMetric(closed, USERS, DELTA).matrix <= target.matrix * (1 + 1e-9)).all()
    for first in answers:
        for second in answers:
            assert first is second or (first.raw.matrix > second.raw.matrix).any()


def test_three_points_are_feasible_and_cannot_grow() -> None:
    """The same on a small space, with the check made from the bound alone, not by the solver."""
    target = DistanceMatrix([[0, 0.1, 0.3], [0.1, 0, 0.2], [0.3, 0.2, 0]])  # type: ignore[arg-type]
    solver = LocalMetricSolver(target, USERS, DELTA)
    (answer,) = solver.solve(diameters=1)
    bound = MetricVariationRatio()

    def feasible(matrix: np.ndarray) -> bool:
        space = DistanceMatrix(matrix)
        return all(
            bound.curve(space.pair_distances(a, b), USERS).delta(float(target.matrix[a, b])).upper <= DELTA
            for a, b in space.pairs()
        )

    raw = answer.raw.matrix
    assert feasible(raw)
    for a, b in target.pairs():
        raised = raw.copy()
        raised[a, b] = raised[b, a] = 1.01 * raw[a, b]
        assert not feasible(raised)
    # Far above what the paper's solver may spend at the same diameter.
    paper = LocalMetricSolver(target, USERS, DELTA, Corollary1()).distances(2.0)
    assert raw.sum() > paper.sum()


@pytest.mark.exhaustive
def test_the_metric_can_be_run() -> None:
    """The padded exponential mechanism takes it, and its pairs meet the target after shuffling."""
    target = DistanceMatrix([[0, 0.1, 0.3], [0.1, 0, 0.2], [0.3, 0.2, 0]])  # type: ignore[arg-type]
    (answer,) = LocalMetricSolver(target, USERS, DELTA).solve(diameters=1)
    assert answer.metric.matrix.sum() > 1.2 * answer.closure.matrix.sum()
    mechanism = PaddedExponential(answer.metric.matrix)
    for a, b in target.pairs():
        assert amplify(mechanism, USERS, pair=(a, b), effort="quick").epsilon(DELTA).upper <= target.matrix[a, b] * (
            1 + 1e-9
        )


def nine(kind: str) -> DistanceMatrix:
    if kind == "random":
        return planar_target(9, 2024)
    grid = DistanceMatrix.from_points([[x, y] for x in range(3) for y in range(3)])
    return DistanceMatrix(grid.matrix * (TARGET / grid.diameter))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["random", "grid"])
def test_nine_points_are_as_good_as_certified_steps(kind: str) -> None:
    """No distance is 1% below what a search with a certified check at every step finds (nine_points.json)."""
    target = nine(kind)
    wanted = json.loads(Path(__file__).with_name("nine_points.json").read_text("utf-8"))[kind]
    answers = LocalMetricSolver(target, USERS, DELTA).solve(diameters=2)
    assert len(answers) == len(wanted)
    for answer, known in zip(answers, wanted, strict=True):
        for name, space in (("raw", answer.raw), ("metric", answer.metric)):
            found = np.array([space.matrix[pair] for pair in space.pairs()])
            assert (found >= 0.99 * np.array(known[name])).all()
            for a, b in space.pairs():
                # One value in balls for each pair, by none of the solver's own proofs.
                curve = MetricVariationRatio().curve(space.pair_distances(a, b), USERS)
                assert curve.delta(float(target.matrix[a, b])).upper <= DELTA
        answer.metric.check_triangle_inequality("metric")


@pytest.mark.exhaustive("1000000-planar-laplace")
@pytest.mark.parametrize(
    "amplification", [ExactClone(), MetricVariationRatio(PlanarLaplaceNoise())], ids=["clone", "planar-laplace"]
)
@pytest.mark.parametrize("users", [300, 1_000_000])
def test_other_bounds_and_crowds(amplification: Amplification, users: int) -> None:
    """Every pair is proved by the same bound at once, and 2% more for all distances is too much."""
    target = planar_target(4, 3)
    (answer,) = LocalMetricSolver(target, users, DELTA, amplification).solve(diameters=1)

    def excess(matrix: np.ndarray) -> float:
        space = DistanceMatrix(matrix)
        pairs = [(space.pair_distances(a, b), float(target.matrix[a, b])) for a, b in space.pairs()]
        return max(amplification.excess(pair, users, DELTA, wanted) for pair, wanted in pairs)

    assert excess(answer.raw.matrix) <= 0
    assert excess(answer.metric.matrix) <= 0
    assert excess(answer.raw.matrix * 1.02) > 0


@pytest.mark.exhaustive
def test_distances_that_hardly_matter_are_raised_too() -> None:
    """Where one input is far from all, others' distances move δ little; none is left behind."""
    target, users, delta = planar_target(9, 1), 1_000_000, 1e-8
    solver = LocalMetricSolver(target, users, delta)
    (answer,) = solver.solve(diameters=1)
    assert answer.diameter > 7
    assert not any(solver.can_be_raised(answer.raw.matrix, a, b, 1.01) for a, b in target.pairs())


@pytest.mark.exhaustive
def test_what_floats_overrate_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates that are far too small: every pair is still proved, and little is lost."""
    target = planar_target(4, 3)
    honest = LocalMetricSolver(target, USERS, DELTA).solve(diameters=1)[0]
    monkeypatch.setattr(MetricVariationRatio, "estimate_excesses", overrated(MetricVariationRatio.estimate_excesses))
    (answer,) = LocalMetricSolver(target, USERS, DELTA).solve(diameters=1)
    bound = MetricVariationRatio()
    for space in (answer.raw, answer.metric):
        for a, b in space.pairs():
            assert bound.excess(space.pair_distances(a, b), USERS, DELTA, float(target.matrix[a, b])) <= 0
    answer.metric.check_triangle_inequality("metric")
    assert answer.raw.matrix.sum() > 0.8 * honest.raw.matrix.sum()


def overrated(estimates: Any) -> Any:
    return lambda *given: estimates(*given) - 1.0


def test_progress_adds_up() -> None:
    """What is told of is as much as was announced, whether an answer is dropped or not."""
    told: list[int] = []

    class Told(Progress):
        @contextmanager
        def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
            assert (name, total) == ("solving", 3 * 4 * 3)
            yield told.append

    target = DistanceMatrix([[0, 0.1, 0.3], [0.1, 0, 0.2], [0.3, 0.2, 0]])  # type: ignore[arg-type]
    LocalMetricSolver(target, USERS, DELTA).solve(diameters=3, progress=Told())
    assert sum(told) == 3 * 4 * 3


def test_pareto_keeps_what_is_not_dominated() -> None:
    low, high, other = np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([2.0, 1.0])
    assert [each.tolist() for each in select_pareto_set([low, high, other, high])] == [[1.0, 3.0], [2.0, 1.0]]


def test_bad_input() -> None:
    target = planar_target(3, 1)
    with pytest.raises(ValueError, match="users must be at least 1, got 0"):
        LocalMetricSolver(target, 0, DELTA)
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        LocalMetricSolver(target, USERS, 1.5)
    with pytest.raises(ValueError, match="diameters must be at least 1"):
        LocalMetricSolver(target, USERS, DELTA).solve(0)
