"""Ball arithmetic: exact conversions, directed rounding, precision, the bound of a Gaussian tail."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from random import Random

import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings, strategies as st
from mpmath import mp, mpf

from shuffledp._core.errors import NumericalError
from shuffledp.numerics.ball_arithmetic import (
    compute_until_narrow,
    float_above,
    gaussian_tail_sum,
    precision,
    round_down,
    round_up,
    to_rational,
)

from .exact_law import fraction_of, upper_end

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def ball_of(number: Fraction, bits: int) -> arb:
    """A ball around a rational at the given precision."""
    with precision(bits):
        return arb(to_rational(number))


@settings(deadline=None, derandomize=True, max_examples=200)
@given(FLOATS)
def test_a_float_is_exactly_the_real_number_it_stores(number: float) -> None:
    """No float loses or gains a digit on its way into a rational."""
    assert to_rational(number) == fmpq(*number.as_integer_ratio())
    assert fraction_of(arb(number)) == Fraction(number)


def test_integers_and_fractions_are_exact() -> None:
    """Integers beyond the floats and fractions that no float stores are kept as they are."""
    assert to_rational(10**40 + 1) == fmpq(10**40 + 1)
    assert to_rational(Fraction(-1, 3)) == fmpq(-1, 3)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.fractions(max_denominator=10**9), st.integers(10, 200))
def test_rounding_is_directed_and_sharp(number: Fraction, bits: int) -> None:
    """The float above is not below the number, the float below not above it, and at 60 bits they are close."""
    ball = ball_of(number, bits)
    up, down = round_up(ball), round_down(ball)
    assert Fraction(down) <= number <= Fraction(up)
    if bits >= 60:
        assert up - down <= 4 * math.ulp(max(abs(up), abs(down)))


@pytest.mark.parametrize("number", [0.0, 1.0, -1.0, 0.1, -0.1, 5e-324, -5e-324, 1.7976931348623157e308, 1e-300])
def test_a_float_rounds_to_itself(number: float) -> None:
    """An exact ball around a float rounds to that float in both directions, at the ends of the range too."""
    assert round_up(arb(number)) == number
    assert round_down(arb(number)) == number


def test_rounding_beyond_the_floats() -> None:
    """A tiny positive number rounds up to the least float, a huge one to infinity, never the unsafe way."""
    with precision(100):
        tiny, huge = arb(2) ** -2000, arb(2) ** 2000
    assert round_up(tiny) == 5e-324
    assert round_down(tiny) == 0.0
    assert round_up(-tiny) == 0.0
    assert round_down(-tiny) == -5e-324
    assert round_up(huge) == math.inf
    assert round_down(-huge) == -math.inf
    assert round_up(-huge) < -1e308


def test_an_undefined_ball_rounds_to_the_safe_infinity() -> None:
    """Where nothing is known the upper end is infinity and the lower end minus infinity."""
    for unknown in (arb("nan"), arb(0, math.inf), arb("inf")):
        assert round_up(unknown) == math.inf
    for unknown in (arb("nan"), arb(0, math.inf), arb("-inf")):
        assert round_down(unknown) == -math.inf


def test_a_wide_ball_rounds_to_its_ends() -> None:
    """Both roundings account for the radius, not only for the midpoint."""
    wide = arb(1, 0.25)
    assert 1.25 <= round_up(wide) <= 1.2500001
    assert 0.7499999 <= round_down(wide) <= 0.75


@pytest.mark.parametrize("number", [Fraction(1, 3), Fraction(2, 7), Fraction(-5, 11)])
def test_the_ends_of_a_wide_ball_are_rounded_outwards(number: Fraction) -> None:
    """Where no float is an end, the next one beyond it is taken, not the nearest."""
    with precision(300):
        for part in range(1, 20):
            ball = arb(fmpq(number.numerator, number.denominator), arb(fmpq(1, 3 * part)))
            assert round_up(ball) >= upper_end(ball)
            assert round_down(ball) <= -upper_end(-ball)


def test_above_is_the_least_float_not_below() -> None:
    """The float above 1/3 and above 2/3 is the nearest or its neighbour; a float is above itself."""
    rng = Random(0)
    for _ in range(200):
        number = Fraction(rng.randint(-(10**6), 10**6), rng.randint(1, 10**6))
        assert Fraction(float_above(number)) >= number
        assert Fraction(math.nextafter(float_above(number), -math.inf)) < number
    assert float_above(0.1) == 0.1


def test_precision_is_restored() -> None:
    """The working precision is what was asked for inside the block and what it was after it, errors included."""
    before = ctx.prec
    with precision(300):
        assert ctx.prec == 300
        with precision(80):
            assert ctx.prec == 80
        assert ctx.prec == 300
    with pytest.raises(KeyError), precision(200):
        raise KeyError
    assert ctx.prec == before


def test_precision_is_not_disturbed_by_another_thread() -> None:
    """A second thread that wants another precision waits until the first block is left."""
    entered, seen = threading.Event(), []

    def other() -> None:
        entered.set()
        with precision(77):
            seen.append(ctx.prec)

    with precision(500):
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
        for _ in range(1000):
            assert ctx.prec == 500
        assert seen == []
    thread.join()
    assert seen == [77]


def test_until_sharp_raises_the_precision_until_the_digits_are_there() -> None:
    """A difference that cancels 300 digits comes out with its leading ones right."""

    def cancelling() -> tuple[arb, arb]:
        return (1 + arb(10) ** -300) - 1, arb(7)

    value, other = compute_until_narrow(cancelling, 64)
    assert value.rad() <= value.mid() * 1e-17
    assert abs(fraction_of(value.mid()) * 10**300 - 1) < Fraction(1, 10**16)
    assert fraction_of(other) == 7


def test_until_sharp_takes_an_exact_zero() -> None:
    """A value that is exactly 0 has no digits to wait for."""
    value, _ = compute_until_narrow(lambda: (arb(0), arb(0)), 64)
    assert value.is_zero()


def test_until_sharp_gives_up_by_name() -> None:
    """A ball that never gets narrow raises a sentence instead of returning it or looping for ever."""
    with pytest.raises(NumericalError, match="bits"):
        compute_until_narrow(lambda: (arb(0, 1), arb(0)), 64)
    with pytest.raises(NumericalError):
        compute_until_narrow(lambda: (arb("nan"), arb(0)), 64)


@pytest.mark.exhaustive("100-40.0")
@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.1, 1.0, 40.0])
@pytest.mark.parametrize("start", [1, 2, 7, 100])
def test_the_tail_of_squares_is_above_the_sum(rate: float, start: int) -> None:
    """The bound is not below the sum of exp(-rate k²), and close where the terms fall fast."""
    with precision(100):
        bound = gaussian_tail_sum(arb(rate), start)
    with mp.workdps(40):
        stop = start + math.ceil(math.sqrt(100 / rate)) + 5
        total = sum((mp.exp(-mpf(rate) * k * k) for k in range(start, stop)), start=mpf(0))
        upper = upper_end(bound)
        assert mpf(upper.numerator) / upper.denominator >= total
        if rate * start >= 1:
            assert mpf(upper.numerator) / upper.denominator <= total * 1.2
