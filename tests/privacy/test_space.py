"""Distances: what is refused and how, shortest paths, and the numbers that bounds ask for."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shuffledp.privacy.metric_space import Box, DistanceMatrix, Segment, euclidean, great_circle, worst_pair_distances

GOOD = [[0.0, 1.0, 2.0], [1.0, 0.0, 1.5], [2.0, 1.5, 0.0]]


def changed(row: int, column: int, value: float) -> list[list[float]]:
    return [[value if (a, b) == (row, column) else x for b, x in enumerate(line)] for a, line in enumerate(GOOD)]


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (changed(0, 2, 2.5), "row 0, column 2 must equal row 2, column 0, which is 2.0, got 2.5."),
        (changed(1, 2, -1.5), "row 1, column 2 must not be negative, got -1.5."),
        (changed(2, 1, math.nan), "row 2, column 1 is missing."),
        (changed(1, 1, 0.5), "row 1, column 1 must be 0, the distance of an input to itself, got 0.5."),
        (changed(0, 1, 0.0), "row 0, column 1 must be above 0, because the inputs differ, got 0.0."),
        (changed(0, 1, math.inf), "row 0, column 1 must be at most 700, got inf."),
        ([[0.0, 1.0]], "expected as many rows as columns, got shape (1, 2)."),
        ([[0.0]], "expected at least two inputs, got 1."),
        ([[0.0, 1.0], [1.0]], "expected rows of numbers, all of one length."),
    ],
)
def test_bad_matrices_are_refused_by_entry(matrix: Any, sentence: str) -> None:
    """Not symmetric, negative, missing, …: one sentence that names the entry."""
    with pytest.raises(ValueError, match="DistanceMatrix: ") as caught:
        DistanceMatrix(matrix)
    assert str(caught.value) == f"DistanceMatrix: {sentence}"


def test_text_is_no_matrix() -> None:
    """Words are refused, booleans too."""
    with pytest.raises(TypeError, match="expected a table of numbers, got bool"):
        DistanceMatrix([[False, True], [True, False]])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a table of numbers, got <U1"):
        DistanceMatrix([["a", "b"], ["c", "d"]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0,1\n1,\n", "row 1, column 1 is missing."),
        ("0,1\n1\n", "row 1, column 1 is missing."),
        ("0,1,2\n1,0\n", "expected 2 columns as there are rows, got 3 in row 0."),
        ("0,x\n1,0\n", "row 0, column 1 must be a number, got 'x'."),
        ("", "expected numbers in"),
    ],
)
def test_bad_files_are_refused_by_entry(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match="DistanceMatrix") as caught:
        DistanceMatrix.from_csv(path)
    assert sentence in str(caught.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in GOOD), "utf-8")
    assert DistanceMatrix.from_csv(path).matrix.tolist() == GOOD


def test_a_broken_triangle_is_named() -> None:
    """The worst entry, with the way around; shortest paths mend it; rounding does not count."""
    space = DistanceMatrix([[0, 1, 5], [1, 0, 2], [5, 2, 0]])
    assert space.broken_triangle() == (0, 2, 1)
    with pytest.raises(ValueError, match=r"Someone: .* row 0, column 2 is 5.0, above 3.0 by way of 1"):
        space.check_triangle_inequality("Someone")
    closed = space.closure()
    assert closed.matrix[0, 2] == pytest.approx(3.0, rel=1e-13)
    closed.check_triangle_inequality("Someone")
    DistanceMatrix([[0, 0.1, 0.1 + 0.2 + 1e-17], [0.1, 0, 0.2], [0.1 + 0.2 + 1e-17, 0.2, 0]]).check_triangle_inequality(
        "Someone"
    )


def test_the_closure_is_the_largest_metric_below() -> None:
    """Shortest paths, by brute force over all paths."""
    generator = np.random.default_rng(3)
    size = 5
    raw = np.triu(generator.uniform(0.1, 3.0, (size, size)), 1)
    space = DistanceMatrix(raw + raw.T)
    closed = space.closure().matrix
    for a in range(size):
        for b in range(size):
            if a == b:
                continue
            inner = [c for c in range(size) if c not in (a, b)]
            paths = [p for count in range(size - 1) for p in permutations(inner, count)]
            shortest = min(sum(space.matrix[x, y] for x, y in zip((a, *p), (*p, b), strict=True)) for p in paths)
            assert shortest <= closed[a, b] <= min(shortest * (1 + 1e-14), space.matrix[a, b])


def brute_surroundings(distance: Any, a: Any, b: Any, crowd: list[Any]) -> tuple[float, ...]:
    return (
        distance(a, b),
        max(distance(a, c) for c in crowd),
        max(distance(b, c) for c in crowd),
        max(math.exp(distance(a, c)) + math.exp(distance(b, c)) for c in crowd),
    )


def test_surroundings_on_a_line_and_in_a_box() -> None:
    """Distances to the farthest inputs and R_ab, against a fine grid of others; never below it."""
    line = Segment(-1.0, 2.0, rate=1.5)
    places = np.linspace(-1, 2, 61).tolist()
    for a, b in ((-0.5, 1.0), (0.0, 0.1), (-1.0, 2.0)):
        found = line.pair_distances(a, b)
        wanted = brute_surroundings(lambda x, y: 1.5 * abs(x - y), a, b, places)
        got = (found.distance, found.farthest_from_first, found.farthest_from_second, found.clone_sum)
        assert got == pytest.approx(wanted, rel=1e-12)
    capped = Segment(-1.0, 2.0, rate=1.5, cap=2.0).pair_distances(-0.5, 1.0)
    wanted = brute_surroundings(lambda x, y: min(1.5 * abs(x - y), 2.0), -0.5, 1.0, places)
    assert capped.clone_sum >= wanted[3]
    assert capped.diameter == 2.0
    box = Box(2.0, 1.0, rate=0.7)
    corners = [(x, y) for x in np.linspace(0, 2, 21) for y in np.linspace(0, 1, 11)]
    found = box.pair_distances((0.3, 0.2), (1.5, 0.9))
    wanted = brute_surroundings(lambda x, y: 0.7 * math.dist(x, y), (0.3, 0.2), (1.5, 0.9), corners)
    got = (found.distance, found.farthest_from_first, found.farthest_from_second, found.clone_sum)
    assert got == pytest.approx(wanted, rel=1e-12)


def test_points_become_distances() -> None:
    """Rounded up, in the plane and on the sphere."""
    points = np.random.default_rng(5).random((6, 2))
    space = DistanceMatrix.from_points(points, rate=3.0)
    for a, b in space.pairs():
        assert space.matrix[a, b] == pytest.approx(3.0 * math.dist(points[a], points[b]), rel=1e-14)
    assert euclidean((0.0, 0.0), (3.0, 4.0)) == 5.0
    quarter = great_circle(np.array([0.0, 0.0]), np.array([0.0, 90.0]))
    assert quarter == pytest.approx(6_371_008.8 * math.pi / 2, rel=1e-14)
    city = DistanceMatrix.from_degrees([[52.30, 4.90], [52.31, 4.90], [52.30, 4.91]], rate=1e-3)
    assert city.matrix[0, 1] == pytest.approx(1.11195, rel=1e-4)
    with pytest.raises(ValueError, match="points 0 and 2 must differ"):
        DistanceMatrix.from_points([[0, 0], [1, 1], [0, 0]])
    with pytest.raises(ValueError, match="row 0 must be a latitude"):
        DistanceMatrix.from_degrees([[95.0, 0.0], [0.0, 0.0]], 1.0)
    with pytest.raises(ValueError, match="row 1, column 0 must be a finite number"):
        DistanceMatrix.from_points([[0.0, 0.0], [math.nan, 0.0]])


def test_bad_spaces_are_refused() -> None:
    for make, sentence in (
        (lambda: Segment(1.0, 0.0), "low must be below high"),
        (lambda: Segment(0.0, 1.0, rate=0.0), "rate must be above 0"),
        (lambda: Segment(0.0, 1.0, cap=0.0), "cap must be above 0"),
        (lambda: Segment(0.0, 1.0, rate=1000.0), "largest distance must be at most 700"),
        (lambda: Box(-1.0, 1.0), "width must be above 0"),
        (lambda: Segment(0.0, 1.0).pair_distances(0.0, 2.0), "an input must be from 0.0 to 1.0, got 2.0"),
        (
            lambda: worst_pair_distances("me", Segment(0.0, 1.0), 1.5),
            "me: epsilon_local must be at most the largest distance",
        ),
        (lambda: DistanceMatrix(GOOD).pair_distances(0, 3), "an input must be from 0 to 2, got 3"),
    ):
        with pytest.raises(ValueError, match=sentence):
            make()
