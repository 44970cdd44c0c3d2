"""Ball arithmetic: the working precision, exact conversions and directed rounding to floats.

A ball is a midpoint and a radius that provably contains the real number. Whatever precision is in
force, the enclosure holds; precision only decides how wide the ball is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

from shuffledp.errors import NumericalError

Exact = int | float | Fraction
"""A number that is taken at its word: a float stands for exactly the real number it stores."""

MOST_BITS = 1 << 15
RELATIVE_WIDTH = 1e-17
LARGEST = math.nextafter(math.inf, 0.0)
"""The largest float."""

_LOCK = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the working precision for a block; one thread at a time, because the library's context is global."""
    with _LOCK, ctx.workprec(bits):
        yield


def rational(number: Exact) -> fmpq:
    """The exact rational value of a finite number."""
    if isinstance(number, Fraction):
        return fmpq(number.numerator, number.denominator)
    numerator, denominator = number.as_integer_ratio()
    return fmpq(numerator, denominator)


def above(number: Exact) -> float:
    """The smallest float that is not below an exact number; infinity where it is beyond them."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf if number > 0 else -LARGEST
    return nearest if Fraction(nearest) >= Fraction(number) else math.nextafter(nearest, math.inf)


def below(number: Exact) -> float:
    """The largest float that is not above an exact number."""
    return -above(-number)


def round_up(ball: arb) -> float:
    """The smallest float found that is certainly not below the ball (infinity if none is)."""
    if not ball.is_finite():
        return math.inf
    candidate = float(ball.upper())
    while not (math.isinf(candidate) or arb(candidate) >= ball):
        candidate = math.nextafter(candidate, math.inf)
    return candidate


def round_down(ball: arb) -> float:
    """The largest float found that is certainly not above the ball."""
    return -round_up(-ball)


def whole_below(ball: arb) -> int:
    """A whole number that is certainly not above the ball, the largest one if the ball is narrow."""
    lowest = ball.lower().floor()
    whole = lowest.unique_fmpz()
    if whole is None:
        whole = lowest.lower().floor().unique_fmpz()
    assert whole is not None
    return int(whole)


def until_sharp(compute: Callable[[], tuple[arb, arb]], bits: int) -> tuple[arb, arb]:
    """Run ``compute`` at doubling precision until the first ball it returns is narrow relative to its value."""
    while bits <= MOST_BITS:
        with precision(bits):
            value, other = compute()
            if value.is_finite() and value.rad() <= abs(value.mid()) * RELATIVE_WIDTH:
                return value, other
        bits *= 2
    raise NumericalError(f"No digit is certain at {MOST_BITS} bits; please report the parameters.")


def tail_of_squares(rate: arb, start: int) -> arb:
    """An upper bound of the sum of exp(-rate·k²) over all integers k ≥ start, for rate > 0 and start ≥ 1.

    For k ≥ start the exponent grows by at least rate·(2·start) per step, so a geometric series dominates.
    """
    first = (-rate * start * start).exp()
    return first / (1 - (-rate * (2 * start)).exp())
