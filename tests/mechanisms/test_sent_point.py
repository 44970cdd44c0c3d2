"""A density whose points themselves are sent: the proof from cells is above the continuous truth, and tends to it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.mechanism import Floats

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
