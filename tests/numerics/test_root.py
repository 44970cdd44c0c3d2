"""The root finder on functions that are flat, steep, infinite, discontinuous, or cross at an end."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from shuffledp.numerics.roots import MAX_STEPS, Crossing, find_crossing


class Counted:
    """A function that counts its calls and remembers where it was asked."""

    def __init__(self, function: Callable[[float], float]) -> None:
        self.function = function
        self.points: list[float] = []

    def __call__(self, x: float) -> float:
        self.points.append(x)
        return self.function(x)


def guarded_log(x: float) -> float:
    """Minus infinity at 0 and below."""
    return math.log(x) if x > 0 else -math.inf


FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float, float]] = {
    "linear": (lambda x: x - 0.3, 0.0, 1.0, 0.3),
    "cubic, flat at the root": (lambda x: (x - 0.7) ** 3, 0.0, 2.0, 0.7),
    "seventh power, very flat": (lambda x: (x - 0.125) ** 7, -1.0, 1.0, 0.125),
    "steep": (lambda x: math.expm1(200 * (x - 0.9)), 0.0, 1.0, 0.9),
    "exponential overflow to infinity": (lambda x: math.expm1(x) if x < 700 else math.inf, -5.0, 1e6, 0.0),
    "logarithm, minus infinity at 0": (lambda x: guarded_log(x) + 30, 0.0, 1.0, math.exp(-30)),
    "infinite on both sides": (lambda x: math.inf if x > 2 else (-math.inf if x < 1 else x - 1.5), 0.0, 10.0, 1.5),
    "a step": (lambda x: 1.0 if x > 0.25 else -1.0, 0.0, 1.0, 0.25),
    "a step to infinity": (lambda x: math.inf if x > 0.25 else -math.inf, 0.0, 1.0, 0.25),
    "square root": (lambda x: math.copysign(math.sqrt(abs(x - 0.4)), x - 0.4), 0.0, 1.0, 0.4),
    "tanh": (lambda x: math.tanh(50 * (x - 0.01)), 0.0, 100.0, 0.01),
    "far root": (lambda x: x / 1e9 - 1, 0.0, 1e12, 1e9),
    "tiny root": (lambda x: x - 1e-12, 0.0, 1.0, 1e-12),
    "negative root": (lambda x: x + 3, -80.0, 80.0, -3.0),
    "root at the lower end": (lambda x: x, 0.0, 1.0, 0.0),
    "root at the upper end": (lambda x: x - 1, 0.0, 1.0, 1.0),
    "positive everywhere inside": (lambda x: x + 1e-9, 0.0, 1.0, 0.0),
    "negative everywhere inside": (lambda x: x - 1 - 1e-9, 0.0, 1.0, 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("guess", [None, 0.5, 1e-9, -7.0])
def test_the_sign_change_is_bracketed_and_close(name: str, guess: float | None) -> None:
    """Both ends are on their side of the sign change and as close as asked, whatever the guess."""
    f, low, high, root = FUNCTIONS[name]
    counted = Counted(f)
    found = find_crossing(counted, low, high, guess=guess, relative=1e-12, absolute=1e-15)
    assert low <= found.below <= found.above <= high
    assert found.below == low or f(found.below) <= 0
    assert found.above == high or f(found.above) > 0
    assert found.below - 1e-12 <= root <= found.above + 1e-12
    assert found.above - found.below <= 1e-12 * max(abs(found.below), abs(found.above)) + 1e-15 + 5e-324
    assert len(counted.points) <= MAX_STEPS


@pytest.mark.parametrize("small", [1e-300, 1e-30, 1e-12])
def test_one_side_almost_flat(small: float) -> None:
    """Where one side is a hair below 0 everywhere, interpolation stalls and bisection must still finish the job."""
    found = find_crossing(lambda x: -small if x < 0.6 else x - 0.6 + small, 0.0, 1.0, relative=1e-12)
    assert found.below < 0.6 <= found.above
    assert found.above - found.below <= 1e-12


@pytest.mark.parametrize("scale", [1e-100, 1e-150, 1e-200, 1e-300, 1e100, 1e150, 1e200])
def test_the_scale_of_the_function_does_not_matter(scale: float) -> None:
    """Values whose products leave the floats neither crash the interpolation nor move the root."""
    found = find_crossing(lambda x: scale * (math.exp(x) - 1.5), 0.0, 1.0, relative=1e-12)
    assert found.below <= math.log(1.5) + 1e-12
    assert found.above >= math.log(1.5) - 1e-12
    assert found.above - found.below <= 1e-12


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends_are_never_evaluated(name: str) -> None:
    """The function may be undefined at the ends: it is asked strictly between them only."""
    f, low, high, _ = FUNCTIONS[name]
    counted = Counted(f)
    find_crossing(counted, low, high, absolute=1e-15)
    assert counted.points
    assert all(low < x < high for x in counted.points)


@pytest.mark.parametrize("name", ["linear", "steep", "tanh", "logarithm, minus infinity at 0", "far root"])
def test_the_recorded_values_are_the_functions(name: str) -> None:
    """The crossing reports the values at its two ends, or infinities at ends that were not evaluated."""
    f, low, high, _ = FUNCTIONS[name]
    found = find_crossing(f, low, high, absolute=1e-15)
    assert found.f_below == (f(found.below) if found.below != low else -math.inf)
    assert found.f_above == (f(found.above) if found.above != high else math.inf)


def test_smooth_functions_need_few_evaluations() -> None:
    """On smooth functions with random roots the search is superlinear: far fewer steps than bisection."""
    rng = Random(5)
    for _ in range(100):
        root, bend = rng.uniform(0.05, 0.95), rng.uniform(0.1, 3.0)
        counted = Counted(lambda x, r=root, b=bend: math.expm1(b * (x - r)))
        find_crossing(counted, 0.0, 1.0, guess=root * rng.uniform(0.7, 1.3), relative=1e-11)
        assert len(counted.points) <= 20


def test_a_known_slope_ends_the_search_early() -> None:
    """With the slope given, one look near the root is enough to prove that the upper end is close."""
    counted = Counted(lambda x: 3 * (x - 0.4))
    found = find_crossing(counted, 0.0, 1.0, guess=0.4001, slope=3.0, relative=0.0, absolute=1e-6)
    assert 0.4 < found.above <= 0.4 + 1e-6
    assert len(counted.points) <= 4


@pytest.mark.parametrize("slope", [1e-6, 0.1, 10.0, 1e9])
def test_a_wrong_slope_does_no_harm(slope: float) -> None:
    """A slope that is off by orders of magnitude still leaves the two ends on their sides of the crossing."""
    f = Counted(lambda x: x - 0.4)
    found = find_crossing(f, 0.0, 1.0, guess=0.9, slope=slope, relative=0.0, absolute=1e-9)
    assert found.below <= 0.4 < found.above or (found.above == 1.0 and found.below <= 0.4)
    assert len(f.points) <= MAX_STEPS


def test_random_monotone_step_functions() -> None:
    """On random staircases, with infinite steps among them, the crossing is the right jump."""
    rng = Random(11)
    for _ in range(200):
        places = sorted(rng.uniform(0, 1) for _ in range(6))
        heights = sorted(rng.choice([-math.inf, math.inf, rng.uniform(-2, 2)]) for _ in range(7))

        def stairs(x: float, places: list[float] = places, heights: list[float] = heights) -> float:
            return heights[sum(x > place for place in places)]

        found = find_crossing(stairs, 0.0, 1.0, guess=rng.uniform(0, 1), relative=1e-13)
        jumps = [0.0, *places, 1.0]
        crossing = jumps[sum(height <= 0 for height in heights)]
        assert found.below - 1e-12 <= crossing <= found.above + 1e-12
        assert found.above - found.below < 1e-11


def test_zero_counts_as_below() -> None:
    """At a value of exactly 0 the point becomes the lower end."""
    found = find_crossing(lambda x: max(0.0, x - 0.5), 0.0, 1.0, guess=0.25)
    assert found.below >= 0.5 - 1e-9
    assert found.above > 0.5


def test_the_middle_of_a_crossing() -> None:
    """The estimate is the secant's point, the midpoint where a value is infinite or both are equal, never outside."""
    assert Crossing(1.0, 2.0, -1.0, 3.0).middle == 1.25
    assert Crossing(1.0, 2.0, -math.inf, 3.0).middle == 1.5
    assert Crossing(1.0, 2.0, -1.0, math.inf).middle == 1.5
    assert Crossing(1.0, 2.0, 0.0, 0.0).middle == 1.5
    assert 1.0 <= Crossing(1.0, 2.0, 5.0, 6.0).middle <= 2.0
