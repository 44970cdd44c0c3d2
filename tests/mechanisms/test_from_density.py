"""Densities: cell probabilities against closed forms, decoding, sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from shuffledp import amplify
from shuffledp.mechanisms.table_and_density import FromDensity, FromTable


def straight(x: float, y: Any) -> Any:
    return (1 + x * y) / 2


def test_cells_of_a_straight_line_are_exact() -> None:
    """A cell [a, b] of density (1+xy)/2 has probability (b−a)/2 + x(b²−a²)/4."""
    mechanism = FromDensity(straight, [-0.5, 0.25, 0.8], -1.0, 1.0, 10)
    edges = np.linspace(-1, 1, 11)
    for x, row in zip(mechanism.inputs, mechanism.table().probabilities, strict=True):
        expected = np.diff(edges) / 2 + x * np.diff(edges**2) / 4
        np.testing.assert_allclose([float(chance) for chance in row], expected, rtol=1e-13)


def test_a_smooth_density_on_a_long_interval() -> None:
    """Normal cells against the error function."""

    def normal(x: float, y: Any) -> Any:
        return np.exp(-((y - x) ** 2) / 2) / math.sqrt(2 * math.pi)

    mechanism = FromDensity(normal, [0.0, 1.0], -8.0, 9.0, 34)
    edges = np.linspace(-8, 9, 35)
    for x, row in zip(mechanism.inputs, mechanism.table().probabilities, strict=True):
        below = np.array([math.erfc((x - edge) / math.sqrt(2)) / 2 for edge in edges])
        np.testing.assert_allclose([float(chance) for chance in row], np.diff(below), rtol=1e-9, atol=1e-15)


def test_it_is_the_table_of_its_cells() -> None:
    mechanism = FromDensity(straight, (-0.5, 0.5), -1, 1, 8)
    table = FromTable([[float(chance) for chance in row] for row in mechanism.table().probabilities])
    assert mechanism.epsilon == pytest.approx(table.epsilon, rel=1e-12)
    assert amplify(mechanism, 500, effort="quick").delta(0.05).upper == pytest.approx(
        amplify(table, 500, effort="quick").delta(0.05).upper, rel=1e-9
    )
    assert mechanism.settings() == {"epsilon": mechanism.epsilon, "inputs": 2, "outputs": 8}


def test_messages_decode_to_midpoints() -> None:
    mechanism = FromDensity(straight, [-0.5, 0.5], -1.0, 1.0, 4)
    np.testing.assert_allclose(mechanism.decode(np.array([0, 3, 1])), [-0.75, 0.75, -0.25])


@pytest.mark.parametrize(
    ("density", "inputs", "low", "high", "cells", "sentence"),
    [
        (straight, [0.5], -1, 1, 4, "expected at least two inputs to tell apart, got 1."),
        (straight, [0.5, 0.1], 1, 1, 4, "low must be below high, both finite, got 1.0 and 1.0."),
        (straight, [0.5, 0.1], -math.inf, 1, 4, "low must be below high, both finite, got -inf and 1.0."),
        (straight, [0.5, 0.1], -1, 1, 0, "cells must be at least 1, got 0."),
        (straight, [0.5, 2.0], -1, 1, 4, "density must be finite and not negative, got another value for input 2.0."),
        (
            straight,
            [0.5, 0.1],
            -1,
            0.5,
            4,
            "the density of input 0.5 must integrate to 1 within 1e-06 over [-1, 0.5], got 0.65625; "
            "widen the interval or raise cells.",
        ),
        (
            lambda x, y: 0.5,
            [0.5, 0.1],
            -1,
            1,
            4,
            "density must give numbers of the shape of its points, (4, 16), got float64 of shape ().",
        ),
        (
            lambda x, y: y * math.nan,
            [0.5, 0.1],
            -1,
            1,
            4,
            "density must be finite and not negative, got another value for input 0.5.",
        ),
    ],
)
def test_bad_settings(
    density: Callable[[Any, Any], Any], inputs: list[float], low: float, high: float, cells: int, sentence: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        FromDensity(density, inputs, low, high, cells)
    assert str(caught.value) == f"FromDensity: {sentence}"


def test_a_density_must_be_a_function() -> None:
    with pytest.raises(TypeError, match=r"^FromDensity: density must be a function of an input and an array, got 3\.$"):
        FromDensity(3, [0.1, 0.2], 0.0, 1.0, 4)  # type: ignore[arg-type]


@pytest.mark.exhaustive
@pytest.mark.parametrize("users", [10, 1000])
def test_a_normal_density_on_many_cells_gives_no_warning(users: int) -> None:
    """σ = 2 on 256 cells: at some nodes of the contour the moment is 0 to the last digit. Warnings are errors here."""
    mechanism = FromDensity(lambda x, y: norm.pdf(y, loc=x, scale=2.0), inputs=[0, 1], low=-20, high=20, cells=256)
    value = amplify(mechanism, users, effort="quick").epsilon(1e-6)
    assert value.lower is not None
    assert 0 < value.lower <= value.upper < 1.0
