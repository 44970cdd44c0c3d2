"""A density whose points themselves are sent: the proof from cells is above the continuous truth, and tends to it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Floats

RATE = 1.0


def tent(x: float, y: Floats) -> Floats:
    """An exponential fall of rate 1 on both sides of x, on [0, 1]; its logarithm has slope ±1."""
    return RATE * np.exp(-RATE * np.abs(y - x)) / (2 - math.exp(-RATE * x) - math.exp(RATE * (x - 1)))


def points(cells: int, gap: float = 0.0) -> sdp.SentPoint:
    table = sdp.FromDensity(tent, [0.0, 1.0], 0.0, 1.0, cells)
    return sdp.SentPoint(table, change=RATE / cells, gap=gap)


def alone(epsilon: float) -> float:
    """∫ (f_0 − e^ε·f_1)_+ for one user: f_0/f_1 = e^(1−2y), so that y < (1−ε)/2 counts."""
    end = max(0.0, (1 - epsilon) / 2)
    norm = 1 - math.exp(-1)
    first = (1 - math.exp(-end)) / norm
    second = (math.exp(end - 1) - math.exp(-1)) / norm
    return first - math.exp(epsilon) * second


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3, 0.9])
def test_one_user_against_the_integral(epsilon: float) -> None:
    """Never below the closed form, and within twice the room of it."""
    for cells in (20, 80):
        value = sdp.amplify(points(cells), 1, bound="optimal").delta(epsilon).upper
        assert alone(epsilon) <= value <= alone(epsilon) + 3 * RATE / cells


@pytest.mark.parametrize("users", [2, 100, 10_000])
def test_a_finer_table_below_and_a_finer_proof_above(users: int) -> None:
    """Cells are a coarsening, so a fine table is below the truth; the proof from any cells is above it."""
    fine = sdp.amplify(sdp.FromDensity(tent, [0.0, 1.0], 0.0, 1.0, 100), users, bound="optimal")
    proofs = [sdp.amplify(points(cells), users, bound="optimal") for cells in (10, 30)]
    for epsilon in (0.02, 0.1):
        below = fine.delta(epsilon)
        rough, better = (proof.delta(epsilon).upper for proof in proofs)
        assert below.upper - below.slack <= better <= rough


def test_inputs_between_the_listed_ones_need_their_gap() -> None:
    """All of [0, 1] with five listed inputs: every input is within 1/8 of one, plus the change of the norm."""
    inputs = [0.0, 0.25, 0.5, 0.75, 1.0]
    table = sdp.FromDensity(tent, inputs, 0.0, 1.0, 40)
    safe = sdp.SentPoint(table, change=RATE / 40, gap=0.125 + 0.08)
    grid = np.linspace(0, 1, 81)
    laws = {x: np.log(tent(x, grid)) for x in (*inputs, 0.1, 0.3, 0.6, 0.9)}
    for x in (0.1, 0.3, 0.6, 0.9):
        assert min(np.abs(laws[x] - laws[listed]).max() for listed in inputs) <= safe.gap
    denser = sdp.FromDensity(tent, sorted(laws), 0.0, 1.0, 40)
    for users in (1, 300):
        truth = sdp.amplify(denser, users, bound="optimal").delta(0.1)
        assert sdp.amplify(safe, users, bound="optimal").delta(0.1).upper >= truth.upper - truth.slack


def test_the_local_guarantee_covers_the_points() -> None:
    safe = points(10)
    grid = np.linspace(0, 1, 1001)
    assert np.abs(np.log(tent(0.0, grid) / tent(1.0, grid))).max() <= safe.epsilon <= 1 + 4 * RATE / 10


def test_bad_promises() -> None:
    table = sdp.FromDensity(tent, [0.0, 1.0], 0.0, 1.0, 10)
    with pytest.raises(ValueError, match=r"SentPoint: change must be"):
        sdp.SentPoint(table, change=-1.0)
    with pytest.raises(TypeError, match=r"SentPoint: cells must be a FromDensity"):
        sdp.SentPoint(sdp.KRR(1.0, 3), change=0.1)  # type: ignore[arg-type]


def lopsided(rng: np.random.Generator, cells: int, pieces: int) -> tuple[Floats, float]:
    """Two laws, each a step function with ``pieces`` steps in each cell, and how much a step changes within a cell."""
    laws = rng.dirichlet(np.ones(cells), size=2) + 0.05
    change = 0.2 * rng.random((2, cells, pieces))
    fine = (laws[:, :, None] * np.exp(change)).reshape(2, -1)
    fine /= fine.sum(axis=1, keepdims=True)
    steps = np.log(fine).reshape(2, cells, pieces)
    return fine, float((steps.max(axis=2) - steps.min(axis=2)).max())


def step_density(fine: Floats) -> sdp.FromDensity:
    """The table whose cells are the steps: what is sent, but for where in a step it lies."""

    def density(x: int, y: Floats) -> Floats:
        return fine[x][np.minimum(len(fine[x]) - 1, (y * len(fine[x])).astype(int))] * len(fine[x])

    return sdp.FromDensity(density, [0, 1], 0.0, 1.0, fine.shape[1])


@pytest.mark.parametrize("seed", range(12))
def test_both_directions_of_lopsided_densities(seed: int) -> None:
    """The worse direction may be either one; the proof from wide cells is above what narrow ones tell of it."""
    rng = np.random.default_rng(seed)
    fine, change = lopsided(rng, cells=4, pieces=3)
    truth = step_density(fine)
    # A cell of a step function is its mean: sixteen points do not integrate a jump, so the cells are given as they are.
    wide = sdp.SentPoint(step_density(fine.reshape(2, 4, 3).sum(axis=2)), change=change)
    for users in (1, 60):
        told, proved = (sdp.amplify(one, users, bound="optimal") for one in (truth, wide))
        for epsilon in (0.0, 0.1, 0.3, 0.6):
            below = told.delta(epsilon)
            assert below.upper - below.slack <= proved.delta(epsilon).upper


@pytest.mark.parametrize("seed", range(4))
def test_tail_bounds_are_above_the_exact_value(seed: int) -> None:
    """Bounds of laws do not sum to 1: the tail bounds must not take their mean to be 1 − e^ε."""
    fine, _ = lopsided(np.random.default_rng(seed), cells=4, pieces=1)
    safe = sdp.SentPoint(step_density(fine), change=0.05)
    for epsilon in (0.05, 0.2, 0.5):
        exact = sdp.amplify(safe, 200, bound="optimal").delta(epsilon).upper
        for bound in ("blanket-hoeffding", "blanket-bennett"):
            assert sdp.amplify(safe, 200, bound=bound).delta(epsilon).upper >= exact
