"""Ball arithmetic: the working precision, exact conversions and directed rounding; special functions, imported lazily.

A ball is a midpoint and a radius that provably contains the real number. The enclosure holds at every precision;
precision only decides how wide the ball is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import flint
import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import ArrayLike

from shuffledp._core.errors import NumericalError
from shuffledp._core.validation import Floats

Exact = int | float | Fraction
"""A number taken exactly: a float stands for the real number that it stores."""

MAX_PRECISION_BITS = 1 << 15
RELATIVE_WIDTH = 1e-17
LARGEST_FLOAT = math.nextafter(math.inf, 0.0)
"""The largest float."""

# The precision is global to FLINT: shuffledp_verify, which shares no code with this package, takes the same lock.
_LOCK = vars(flint).setdefault("_precision_lock", threading.RLock())


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Sets the working precision for a block; one thread at a time, because FLINT's context is global."""
    with _LOCK, ctx.workprec(bits):
        yield


def to_rational(number: Exact) -> fmpq:
    """Returns the exact rational value of a finite number."""
    if isinstance(number, Fraction):
        return fmpq(number.numerator, number.denominator)
    numerator, denominator = number.as_integer_ratio()
    return fmpq(numerator, denominator)


def float_above(number: Exact) -> float:
    """Returns the smallest float that is not below an exact number; infinity if it is above all floats."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf if number > 0 else -LARGEST_FLOAT
    return nearest if Fraction(nearest) >= Fraction(number) else math.nextafter(nearest, math.inf)


def float_below(number: Exact) -> float:
    """Returns the largest float that is not above an exact number."""
    return -float_above(-number)


def round_up(ball: arb) -> float:
    """Returns the smallest float found that is certainly not below the ball (infinity if none is)."""
    if not ball.is_finite():
        return math.inf
    candidate = float(ball.upper())
    while not (math.isinf(candidate) or arb(candidate) >= ball):
        candidate = math.nextafter(candidate, math.inf)
    return candidate


def round_down(ball: arb) -> float:
    """Returns the largest float found that is certainly not above the ball."""
    return -round_up(-ball)


def integer_below(ball: arb) -> int:
    """Returns an integer that is certainly not above the ball, the largest one if the ball is narrow."""
    lowest = ball.lower().floor()
    whole = lowest.unique_fmpz()
    if whole is None:
        whole = lowest.lower().floor().unique_fmpz()
    assert whole is not None
    return int(whole)


def compute_until_narrow(compute: Callable[[], tuple[arb, arb]], bits: int) -> tuple[arb, arb]:
    """Runs ``compute`` at doubling precision until the first ball it returns is narrow relative to its value."""
    while bits <= MAX_PRECISION_BITS:
        with precision(bits):
            value, other = compute()
            if value.is_finite() and value.rad() <= abs(value.mid()) * RELATIVE_WIDTH:
                return value, other
        bits *= 2
    raise NumericalError(f"numerics: no digit is certain at {MAX_PRECISION_BITS} bits; please report the parameters.")


def gaussian_tail_sum(rate: arb, start: int) -> arb:
    """Returns an upper bound of the sum of exp(-rate·k²) over all integers k ≥ start, for rate > 0 and start ≥ 1.

    For k ≥ start the exponent grows by at least rate·(2·start) per step, so a geometric series dominates.
    """
    first = (-rate * start * start).exp()
    return first / (1 - (-rate * (2 * start)).exp())


# --- Special functions; scipy is imported on first use, as that takes longer than importing the package ---


def ndtr(x: ArrayLike) -> Floats:
    """Returns Φ, the standard normal distribution function."""
    from scipy import special

    return np.asarray(special.ndtr(x))


def log_ndtr(x: ArrayLike) -> Floats:
    """Returns log Φ, accurate in the tail."""
    from scipy import special

    return np.asarray(special.log_ndtr(x))


def ndtri(p: ArrayLike) -> Floats:
    """Returns Φ⁻¹, the standard normal quantile."""
    from scipy import special

    return np.asarray(special.ndtri(p))


def expit(x: ArrayLike) -> Floats:
    """Returns the logistic function."""
    from scipy import special

    return np.asarray(special.expit(x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Floats:
    """Returns the regularised incomplete beta function."""
    from scipy import special

    return np.asarray(special.betainc(a, b, x))
