"""Inverting a decreasing function: the upper end is proved, the lower end is proved, whatever the estimate says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

import pytest
from flint import arb

from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.numerics.roots import invert
from shuffledp.privacy.variation_ratio import VariationRatio
from tests.oracle.highprecision import delta_published, solve_epsilon

from .exact_law import overlap


@dataclass
class Known:
    """A decreasing function with a known inverse, certified to a chosen relative width; estimates may be wrong."""

    value: Callable[[arb], arb]
    width: float = 1e-15
    scale: float = 1.0
    estimate: Callable[[float], float] | None = None
    asked: list[float] = field(default_factory=list)

    def bracket(self, x: float) -> Bracket:
        self.asked.append(x)
        with precision(128):
            value = self.value(arb(x))
            return Bracket((value * (1 - self.width)).lower(), (value * (1 + self.width)).upper(), "known")

    def log_estimate(self, x: float) -> float:
        if self.estimate is not None:
            return self.estimate(x)
        with precision(128):
            value = self.value(arb(x))
            return float(value.log().mid()) if value > 0 else -math.inf

    def natural_scale(self) -> float:
        return self.scale


def exponential(x: arb) -> arb:
    """e^-x / 2, which crosses the level L at log(1/(2L))."""
    return (-x).exp() / 2


def gaussian(x: arb) -> arb:
    """e^(-x²/2) / 2."""
    return (-x * x / 2).exp() / 2


@pytest.mark.parametrize("level", [0.49, 0.1, 1e-3, 1e-10, 1e-100, 1e-290])
@pytest.mark.parametrize("width", [1e-15, 1e-9, 1e-4, 0.2])
def test_both_ends_are_proved_and_close(level: float, width: float) -> None:
    """The crossing lies between the two ends, whose distance is that of the certified sides and little more."""
    function = Known(exponential, width=width)
    found = invert(function, level, 700.0, zero_at_high=False)
    exact = math.log(0.5 / level)
    assert found.lower <= exact * (1 + 1e-12) + 1e-15
    assert found.upper >= exact * (1 - 1e-12)
    assert function.bracket(found.upper).upper <= level
    assert found.upper - found.lower <= 12 * width + 1e-9 * exact + 1e-12


@pytest.mark.parametrize("level", [0.4, 1e-6, 1e-60])
def test_a_gaussian_tail_needs_few_evaluations(level: float) -> None:
    """Where the tail is Gaussian the certified function is asked about a dozen times at most."""
    function = Known(gaussian)
    found = invert(function, level, 100.0, zero_at_high=False)
    assert found.upper == pytest.approx(math.sqrt(-2 * math.log(2 * level)), rel=1e-9)
    assert len(function.asked) <= 15


def test_below_the_level_everywhere() -> None:
    """Where f(0) is proved to be at most the level the answer is exactly 0."""
    found = invert(Known(exponential), 0.75, 10.0, zero_at_high=False)
    assert (found.lower, found.upper) == (0.0, 0.0)


def test_at_the_level_at_zero() -> None:
    """Where f(0) cannot be told from the level the upper end is a hair above 0 and the lower end 0."""
    found = invert(Known(exponential), 0.5, 10.0, zero_at_high=False)
    assert 0.0 <= found.lower <= found.upper < 1e-10


def test_above_the_level_everywhere() -> None:
    """Where f stays above the level up to the end the answer is infinity, and the end is a lower bound."""
    found = invert(Known(lambda x: arb(1) / 4 + (-x).exp() / 8), 0.2, 50.0, zero_at_high=False)
    assert found.upper == math.inf
    assert found.lower == 50.0


def test_flat_at_exactly_the_level() -> None:
    """A function that never falls below the level, nor can be told from it, has no proved crossing."""
    found = invert(Known(lambda x: arb(1) / 4), 0.25, 50.0, zero_at_high=False)
    assert found.upper == math.inf
    assert found.lower <= 50.0


def test_a_cap_is_used_where_nothing_below_it_is_proved() -> None:
    """With f(high) = 0 promised, a function that stays above the level until there returns the end itself."""

    def jump(x: arb) -> arb:
        return arb(1) / 2 if x < 3 else arb(0)

    found = invert(Known(jump), 0.1, 3.0, zero_at_high=True)
    assert found.upper == pytest.approx(3.0, abs=1e-9)
    assert 2.9 < found.lower <= 3.0


def test_a_jump_below_the_level() -> None:
    """At a jump the upper end is at or right of it and the lower end left of it."""

    def jump(x: arb) -> arb:
        return arb(1) / 2 if x < 2 else arb(1) / 1000

    function = Known(jump)
    found = invert(function, 0.1, 10.0, zero_at_high=False)
    assert found.lower <= 2.0 <= found.upper
    assert found.upper < 2.0001


@pytest.mark.parametrize("seed", range(6))
def test_a_lying_estimate_never_breaks_the_proof(seed: int) -> None:
    """Estimates that are noisy, shifted, constant or infinite cost time or sharpness, never truth."""
    rng = Random(seed)
    liars: list[Callable[[float], float]] = [
        lambda x: -x - math.log(2) + rng.uniform(-3, 3),
        lambda x: -x - 5,
        lambda x: -x + 5,
        lambda x: -0.1,
        lambda x: -1e6,
        lambda x: -math.inf,
        lambda x: 0.0,
        lambda x: -math.inf if x > 1 else 0.0,
    ]
    for liar in liars:
        for level in (0.3, 1e-4):
            function = Known(exponential, estimate=liar, width=1e-12)
            found = invert(function, level, 100.0, zero_at_high=False)
            exact = math.log(0.5 / level)
            assert found.lower <= exact * (1 + 1e-9)
            assert found.upper >= exact * (1 - 1e-9)
            assert math.isinf(found.upper) or function.bracket(found.upper).upper <= level


@pytest.mark.parametrize("users", [1, 2, 7, 12])
@pytest.mark.parametrize("level", [0.2, 1e-2, 1e-5])
def test_a_real_curve_is_inverted(users: int, level: float) -> None:
    """The clone pair's ε at δ, against bisection of a direct sum at high precision."""
    parameters = VariationRatio.from_ldp(1.0)
    family = PositivePartMean(lambda epsilon: parameters.pair(epsilon).law(epsilon), users)
    found = invert(family, level, parameters.largest_log_ratio(), zero_at_high=True)
    p = parameters.p
    beta = (Fraction(p) - 1) / (Fraction(p) + 1)
    exact = solve_epsilon(lambda e: delta_published(p, beta, p, p, users, e, digits=30), level, tolerance="1e-13")
    assert found.lower - 1e-12 <= exact <= found.upper + 1e-12
    assert found.upper - found.lower < 1e-9


@pytest.mark.parametrize("users", [10**3, 10**6, 10**12])
@pytest.mark.parametrize("level", [1e-3, 1e-9, 1e-60])
def test_the_certified_ends_are_proofs_at_any_n(users: int, level: float) -> None:
    """At the upper end the divergence is proved to be at most the level, at the lower end at least the level."""
    parameters = VariationRatio.from_ldp(2.0)
    family = PositivePartMean(lambda epsilon: parameters.pair(epsilon).law(epsilon), users)
    found = invert(family, level, parameters.largest_log_ratio(), zero_at_high=True)
    assert family.bracket(found.upper).upper <= level or found.upper == parameters.largest_log_ratio()
    assert family.bracket(found.lower).lower >= level or found.lower == 0.0
    assert found.upper - found.lower <= 1e-7 * found.upper


@dataclass
class Hasty(Known):
    """The same with quick values, of another width; ``promise`` is a factor by which they are too low."""

    promise: float = 1.0
    looked: list[float] = field(default_factory=list)

    def quick_bracket(self, x: float) -> Bracket:
        self.looked.append(x)
        with precision(128):
            value = self.value(arb(x)) * self.promise
            return Bracket((value * (1 - 1e-9)).lower(), (value * (1 + 1e-9)).upper(), "quick")


@pytest.mark.parametrize("level", [0.1, 1e-3, 1e-10, 1e-100])
def test_quick_values_are_searched_and_the_upper_end_is_proved_again(level: float) -> None:
    function = Hasty(exponential)
    found = invert(function, level, 700.0, zero_at_high=False)
    exact = math.log(0.5 / level)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower < 1e-8
    assert function.asked == [found.upper]
    assert len(function.looked) > 1


@pytest.mark.parametrize("promise", [1 - 1e-6, 0.9])
def test_quick_values_that_promise_too_much_are_not_believed(promise: float) -> None:
    """The upper end holds by the function's own values, however wrong the quick ones are."""
    function = Hasty(exponential, promise=promise)
    found = invert(function, 1e-6, 700.0, zero_at_high=False)
    exact = math.log(0.5 / 1e-6)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower < 1e-9


@pytest.mark.parametrize("users", [100, 1000, 10**5, 10**8, 10**12])
@pytest.mark.parametrize("local", [0.5, 2.0, 6.0])
def test_quick_values_of_a_sum_are_as_sharp(users: int, local: float) -> None:
    """They hold the same number, and are hardly wider than what balls give."""
    parameters = VariationRatio.from_ldp(local)
    family = PositivePartMean(lambda epsilon: parameters.pair(epsilon).law(epsilon), users)
    for z in (0.5, 3.0, 6.0):
        x = z * family.natural_scale()
        quick, own = family.quick_bracket(x), family.bracket(x)
        assert overlap(quick, own)
        assert quick.relative_width() <= own.relative_width() + 1e-8
