"""Many crossings at once: against roots known in closed form, and values that are infinite at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from shuffledp.numerics.roots import find_crossings


def test_cubes() -> None:
    """Each function is asked at its own point, and both ends close in."""
    wanted = np.array([1.0, 2.0, 27.0, 1e-6])
    below, above = find_crossings(lambda x, at: x**3 - wanted[at], np.zeros(4), np.full(4, 10.0), 1e-9)
    assert below == pytest.approx(np.cbrt(wanted), rel=2e-9)
    assert ((below**3 <= wanted) & (above**3 > wanted)).all()


def test_steps_and_infinities() -> None:
    """No slope helps: halving does."""
    places = np.array([0.3, 5.0])

    def step(x: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.where(x <= places[at], -np.inf, np.inf)

    below, above = find_crossings(step, np.zeros(2), np.full(2, 8.0), 1e-7)
    assert (below <= places).all()
    assert (above > places).all()
    assert above - below == pytest.approx(np.zeros(2), abs=1e-6)
