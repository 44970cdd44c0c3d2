"""Convolutions on a grid: both sides hold the exact value, however far in the tail, wrapped around or tilted."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from mpmath import mp, mpf

from shuffledp._core.errors import NumericalError
from shuffledp.numerics import convolution
from shuffledp.numerics.convolution import GridMeasure, GridSum, fit_piecewise_linear

Exact = dict[int, Fraction]


def dense(step: float, first: int, masses: list[float]) -> GridMeasure:
    return GridMeasure(step, np.arange(first, first + len(masses)), np.array(masses))


def measure(rng: Random, step: float, size: int) -> GridMeasure:
    weights = [rng.random() * 10.0 ** -rng.randint(0, 6) for _ in range(size)]
    total = sum(weights)
    return dense(step, rng.randint(-size, 0), [w / total for w in weights])


def convolved(parts: list[tuple[GridMeasure, int]]) -> Exact:
    result: Exact = {0: Fraction(1)}
    for one, times in parts:
        for _ in range(times):
            following: Exact = {}
            for place, mass in result.items():
                for index, weight in zip(one.indices.tolist(), one.masses, strict=True):
                    spot = place + index
                    following[spot] = following.get(spot, Fraction(0)) + mass * Fraction(float(weight))
            result = following
    return result


def positive_part(exact: Exact, step: float, x: float) -> mpf:
    with mp.workdps(50):
        total = mpf(0)
        for place, mass in exact.items():
            gap = mpf(x) - place * mpf(step)
            if gap < 0:
                total -= mpf(mass.numerator) / mass.denominator * mp.expm1(gap)
        return total


@pytest.mark.parametrize("seed", range(8))
def test_exact_sums_are_enclosed(seed: int) -> None:
    """Random masses over six decades, in exact rationals, at the tilt that suits and at others."""
    rng = Random(seed)
    step = 2.0 ** -rng.randint(1, 6)
    parts = [(measure(rng, step, rng.randint(2, 6)), rng.randint(1, 4)) for _ in range(2)]
    exact = convolved(parts)
    total = GridSum(tuple(parts))
    for share in (0.0, 0.3, 0.6, 0.95):
        x = share * total.largest_point
        if not 0 <= x < total.largest_point:
            continue
        truth = positive_part(exact, step, x)
        for tilt in (0.0, total.tilt_for(x), 3.0):
            found = total.apply_tilt(tilt, x)
            assert found.lower(x) <= truth <= found.upper(x)
        found = total.apply_tilt(total.tilt_for(x), x)
        assert found.upper(x) <= truth * (1 + mpf("1e-9")) + mpf("1e-320")
        assert found.lower(x) >= truth * (1 - mpf("1e-9"))


@pytest.mark.parametrize("times", [50, 2000])
def test_a_tail_of_a_long_sum_keeps_its_digits(times: int) -> None:
    """Two places, many factors: the binomial sum to fifty digits, down to 1e-200."""
    chance = 0.25
    one = dense(0.125, 0, [1 - chance, chance])
    total = GridSum(((one, times),))
    for share in (0.3, 0.5, 0.9):
        x = math.floor(share * times) * 0.125 + 0.03
        with mp.workdps(60):
            truth = mpf(0)
            for k in range(times + 1):
                if k * 0.125 > x:
                    mass = mp.binomial(times, k) * mpf(chance) ** k * mpf(1 - chance) ** (times - k)
                    truth -= mass * mp.expm1(mpf(x) - k * mpf("0.125"))
        found = total.apply_tilt(total.tilt_for(x), x)
        assert found.lower(x) <= truth
        if truth > 1e-300:
            assert truth <= found.upper(x) <= truth * (1 + mpf("1e-7"))
            assert found.lower(x) >= truth * (1 - mpf("1e-7"))


def test_what_wraps_around_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a window that leaves out a tenth of the mass, both sides still hold."""
    monkeypatch.setattr(convolution, "LOG_OUTSIDE", math.log(0.1) - convolution.LOG_MARGIN)
    one = dense(0.5, -3, [1 / 7] * 7)
    exact = convolved([(one, 6)])
    total = GridSum(((one, 6),))
    for x in (0.0, 1.0, 4.0):
        for tilt in (0.0, 0.7):
            found = total.apply_tilt(tilt, x)
            assert found.lower(x) <= positive_part(exact, 0.5, x) <= found.upper(x)


def test_too_long_is_refused() -> None:
    """A sum over more grid points than fit is an error with a remedy, not an answer."""
    one = GridMeasure(2.0**-40, np.array([0, 1000]), np.array([0.5, 0.5]))
    with pytest.raises(NumericalError, match="ask for less accuracy"):
        GridSum(((one, 1),)).apply_tilt(0.0, 1.0)


@pytest.mark.parametrize("seed", range(10))
def test_the_hull_is_on_its_side(seed: int) -> None:
    """What the masses give at every point is at least, or at most, the hull of the values."""
    rng = Random(seed)
    step = 2.0**-4
    indices = np.unique([0, *[rng.randint(1, 60) for _ in range(rng.randint(1, 20))]])
    scale = rng.random() * 2 + 0.05
    values = np.array([rng.random() * 0.2 + 0.8 for _ in indices]) * np.exp(-((step * indices / scale) ** 2)) * 0.7
    above, below = (fit_piecewise_linear(step, indices, values, upper=side) for side in (True, False))
    corners = [_corner(step, int(k)) for k in indices]
    for x in [*corners, *[mpf(rng.random() * 3) for _ in range(20)]]:
        high, low = (_value(side.kinks, side.value_at_infinity, x) for side in (above, below))
        assert low <= high <= low * (1 + mpf("1e-10"))
        mirrored = 1 - x + x * _value(above.kinks, above.value_at_infinity, 1 / x)
        assert abs(mirrored - high) <= 1e-10
    # The lower one is below all values; the upper one reaches some: nothing larger is convex and below them.
    assert all(
        _value(below.kinks, below.value_at_infinity, x) <= value for x, value in zip(corners, values, strict=True)
    )
    assert any(
        _value(above.kinks, above.value_at_infinity, x) >= value for x, value in zip(corners, values, strict=True)
    )


def _corner(step: float, index: int) -> mpf:
    with mp.workdps(40):
        return mp.exp(index * mpf(step))


def _value(kinks: GridMeasure, rest: float, x: mpf) -> mpf:
    with mp.workdps(40):
        total = mpf(rest)
        for index, mass in zip(kinks.indices.tolist(), kinks.masses, strict=True):
            corner = _corner(kinks.step, index)
            if corner > x:
                total += mpf(float(mass)) * (1 - x / corner)
        return total
