"""shuffledp metric: amplified distances, lower bound and solver, from files and ranges; --pair and --diameter."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.bounds.compare_metric import lower_bound
from tests.cli import run
from tests.metric.test_amplification import triangle

# The same few questions in many formats.
pytestmark = pytest.mark.usefixtures("each_curve_once")

COMMON = ["--users", "1e4", "--delta", "1e-6"]


@pytest.fixture
def matrix_file(tmp_path: Path) -> str:
    path = tmp_path / "matrix.csv"
    path.write_text("0,0.1,0.3\n0.1,0,0.2\n0.3,0.2,0\n", "utf-8")
    return str(path)


@pytest.fixture
def points_file(tmp_path: Path) -> str:
    path = tmp_path / "points.csv"
    path.write_text("52.30,4.90\n52.31,4.90\n52.30,4.92\n", "utf-8")
    return str(path)


def answer(*words: str) -> dict[str, Any]:
    outcome = run(*words, "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert isinstance(document, dict)
    return document


def test_a_matrix_is_amplified(matrix_file: str) -> None:
    """The same numbers as in Python, by the default bound and by a published one."""
    space = sdp.metric.DistanceMatrix.from_csv(matrix_file)
    document = answer("metric", "amplify", *COMMON, "--matrix", matrix_file)
    assert document["amplified"] == sdp.metric.AmplifiedMetric(space, 10_000, 1e-6).matrix.tolist()
    assert document["local"] == space.matrix.tolist()
    assert document["guarantee"]
    assert document["certified"]
    theorem = answer("metric", "amplify", *COMMON, "--matrix", matrix_file, "--bound", "theorem-1")
    assert (np.array(theorem["amplified"]) >= np.array(document["amplified"])).all()
    shown = run("metric", "amplify", *COMMON, "--matrix", matrix_file).out
    assert "0.0098772" in shown


def test_a_range_is_amplified(tmp_path: Path) -> None:
    """Distances in even steps; the last is the whole range; a plot is drawn."""
    plot = tmp_path / "plot.png"
    words = [*COMMON, "--range", "-1", "1", "--rate", "2", "--noise", "laplace", "--steps", "4"]
    document = answer("metric", "amplify", *words, "--plot", str(plot))
    assert [entry["distance"] for entry in document["distances"]] == [0.5, 1.0, 1.5, 2.0]
    values = [entry["amplified"]["upper"] for entry in document["distances"]]
    assert values == sorted(values)
    assert plot.stat().st_size > 1000
    assert "shuffled ε" in run("metric", "amplify", *words).out


def test_the_lower_bound(tmp_path: Path, points_file: str) -> None:
    path = tmp_path / "triangle.csv"
    path.write_text("\n".join(",".join(map(repr, row)) for row in triangle(1.0).matrix.tolist()), "utf-8")
    document = answer("metric", "lower", *COMMON, "--matrix", str(path))
    assert document["lower"][0][1] == lower_bound(triangle(1.0), 0, 1, 10_000, 1e-6)
    shown = run("metric", "lower", *COMMON, "--points", points_file, "--degrees", "--rate", "1e-3")
    assert shown.status == 0
    assert "Some private randomizer" in shown.out


def test_the_solver(matrix_file: str) -> None:
    """Every solution meets the target; the paper's bound gives smaller distances."""
    document = answer("metric", "solve", *COMMON, "--matrix", matrix_file, "--diameters", "1")
    target = np.array(document["target"])
    for solution in document["solutions"]:
        assert (np.array(solution["amplified"]) <= target).all()
        assert (np.array(solution["closure"]) <= np.array(solution["raw"])).all()
    paper = answer("metric", "solve", *COMMON, "--matrix", matrix_file, "--diameters", "1", "--bound", "corollary-1")
    assert paper["largest_equal"] < document["largest_equal"]
    shown = run("metric", "solve", *COMMON, "--matrix", matrix_file, "--bound", "corollary-2-uniform").out
    assert "If all were equal" in shown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0,1\n2,0\n", "row 0, column 1 must equal row 1, column 0, which is 2.0, got 1.0."),
        ("0,-1\n-1,0\n", "row 0, column 1 must not be negative, got -1.0."),
        ("0,\n1,0\n", "row 0, column 1 is missing."),
        ("0,5,6\n5,0,0.5\n6,0.5,0\n", "triangle inequality, but row 0, column 2 is 6.0, above 5.5 by way of 1"),
    ],
)
def test_bad_matrices_are_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    """Exit code 2, one line on stderr that names the entry, nothing on stdout."""
    path = tmp_path / "bad.csv"
    path.write_text(text, "utf-8")
    outcome = run("metric", "lower", *COMMON, "--matrix", str(path))
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert sentence in outcome.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["amplify"], "give one of --matrix, --points and --range, got 0 of them"),
        (["amplify", "--range", "0", "1", "--matrix", "x.csv"], "got 2 of them"),
        (["amplify", "--matrix", "no-such.csv"], "cannot read no-such.csv"),
        (["amplify", "--matrix", "x.csv", "--rate", "2"], "--rate goes with --points or --range"),
        (["amplify", "--range", "0", "1", "--degrees"], "--degrees goes with --points"),
        (["amplify", "--range", "0", "1", "--bound", "magic"], "bound must be one of theorem-1"),
        (["amplify", "--range", "0", "1", "--noise", "pink"], "noise must be one of any, laplace"),
        (["amplify", "--range", "0", "1", "--noise", "laplace", "--bound", "clone"], "--noise goes with --bound"),
        (["amplify", "--matrix", "x.csv", "--steps", "5"], "--steps goes with --range"),
        (["amplify", "--range", "1", "0"], "low must be below high"),
        ([], "Missing command"),
    ],
)
def test_bad_choices_are_one_sentence(words: list[str], sentence: str) -> None:
    outcome = run("metric", *words[:1], *(COMMON if words else []), *words[1:])
    assert outcome.status == 2
    assert outcome.out == ""
    assert sentence in outcome.err


@pytest.mark.parametrize("command", ["amplify", "solve"])
@pytest.mark.parametrize(
    ("rows", "noise", "sentence"),
    [
        ("0,0,0,0\n1,1,1,1\n", "laplace", "points of 1 coordinate, got points of 4 coordinates; only 'any' serves"),
        ("0,0\n1,1\n", "laplace", "points of 1 coordinate, got points of 2 coordinates; take 'planar-laplace' or"),
        ("0\n1\n", "planar-laplace", "points of 2 coordinates, got points of 1 coordinate; take 'laplace' or 'any'"),
    ],
)
def test_a_noise_for_other_points_is_one_sentence(
    tmp_path: Path, command: str, rows: str, noise: str, sentence: str
) -> None:
    path = tmp_path / "points.csv"
    path.write_text(rows, "utf-8")
    outcome = run("metric", command, *COMMON, "--points", str(path), "--noise", noise)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith(f"shuffledp: metric: {noise} noise is for {sentence}")
    assert outcome.err.count("\n") == 1


@pytest.mark.exhaustive
def test_units_and_noise_are_said(tmp_path: Path) -> None:
    """A range has columns for input units and for ε; a noise is a condition, which a written mechanism would break."""
    shown = run("metric", "amplify", *COMMON, "--range", "0", "10", "--rate", "0.1", "--noise", "laplace").out
    assert re.search(r"input units +local ε +shuffled ε\n", shown)
    assert re.search(r"\n +10 +1 +0\.", shown)
    assert "Holds for laplace noise only." in shown
    near = run("amplify", *COMMON, "--mechanism", "laplace", "--epsilon-local", "2", "--diameter", "0.1")
    assert re.search(r"diameter +0.1 input units *", near.out)
    points = tmp_path / "line.csv"
    points.write_text("0\n0.1\n", "utf-8")
    words = ["metric", "solve", *COMMON, "--points", str(points), "--diameters", "1", "--noise", "laplace"]
    assert answer(*words)["noise"] == "laplace"
    assert "Holds for laplace noise only." in run(*words).out
    refused = run(*words, "--out", str(tmp_path / "m.csv"))
    assert refused.status == 2
    assert "--out is for the padded-exponential mechanism, which does not add laplace noise" in refused.err


@pytest.mark.exhaustive
def test_every_theorem_side_by_side(matrix_file: str, tmp_path: Path) -> None:
    """All theorems for a pair, and the lower bound below them; as a table, a figure, and for all pairs."""
    space = sdp.metric.DistanceMatrix.from_csv(matrix_file)
    document = answer("metric", "compare", *COMMON, "--matrix", matrix_file, "--pair", "0", "2")
    (row,) = document["pairs"]
    assert row["lower"] == lower_bound(space, 0, 2, 10_000, 1e-6)
    for name, found in row["bounds"].items():
        value = sdp.metric.AmplifiedMetric(space, 10_000, 1e-6, bound=name)(0, 2).upper
        assert row["lower"] < value == found["upper"]
    assert row["bounds"][row["best"]]["upper"] == min(found["upper"] for found in row["bounds"].values())
    figure = tmp_path / "pairs.png"
    outcome = run("metric", "compare", *COMMON, "--matrix", matrix_file, "--plot", str(figure))
    assert outcome.status == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert all(word in outcome.out for word in ("theorem-1", "all-crowds", "no bound below", "0, 1", "1, 2"))
    refused = run("metric", "compare", *COMMON, "--matrix", matrix_file, "--pair", "1", "3")
    assert refused.status == 2
    assert "--pair must be two inputs from 0 to 2" in refused.err


def test_a_pair_without_a_lower_bound_says_why() -> None:
    """Distances that break the triangle inequality have no padded exponential mechanism to attack."""
    space = sdp.metric.DistanceMatrix([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    (found,) = sdp.metric.compare_pairs(space, 1000, 1e-6, pairs=[(0, 1)])
    assert found.lower is None
    assert "triangle" in found.missing_attack_reason


@pytest.mark.exhaustive
def test_amplify_for_a_pair_and_a_diameter() -> None:
    """The command gives what the function gives, and says for which inputs; a certificate is for all inputs only."""
    words = ["amplify", *COMMON, "--mechanism", "planar-laplace", "--epsilon-local", "4", "--set", "columns=3"]
    mechanism = sdp.PlanarLaplace(4.0, columns=3)
    pair = answer(*words, "--pair", "[0.1, 0.1]", "--pair", "[0.5, 0.1]")
    wanted = sdp.amplify(mechanism, 10_000, pair=((0.1, 0.1), (0.5, 0.1)), effort="quick").epsilon(1e-6)
    assert pair["epsilon"]["upper"] == wanted.upper
    assert pair["pair"] == [[0.1, 0.1], [0.5, 0.1]]
    assert pair["parameters"]["p"] < math.exp(4.0) * 0.5
    near = answer("amplify", *COMMON, "--mechanism", "laplace", "--epsilon-local", "2", "--diameter", "0.1")
    assert near["diameter"] == 0.1
    assert (
        near["epsilon"]["upper"]
        == sdp.amplify(sdp.Laplace(2.0), 10_000, diameter=0.1, effort="quick").epsilon(1e-6).upper
    )
    for extra, sentence in (
        (["--pair", "[0.1, 0.1]"], "pair must be two inputs, got 1"),
        (["--pair", "here", "--pair", "there"], "--pair must be a number or a JSON list, got 'here'"),
        (["--diameter", "-1"], "diameter must be above 0"),
    ):
        outcome = run(*words, *extra)
        assert outcome.status == 2
        assert sentence in outcome.err
