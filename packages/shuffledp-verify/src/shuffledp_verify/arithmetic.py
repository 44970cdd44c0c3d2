"""Exact rationals and balls: the number types of every proof.

An ``fmpq`` is an exact rational. An ``arb`` is a ball, a midpoint and a radius that contains the real number; FLINT
rounds outwards, so that ``a <= b`` is true only if every number in the ball ``a`` is at most every number in ``b``.
The working precision only decides how wide balls are, never whether they are right.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import flint
from flint import arb, ctx, fmpq

Number = fmpq | arb
"""A probability or a value: an exact rational, or a ball that contains it."""

EXPONENTIAL_BITS = 192

# The working precision is global to FLINT. The lock is an attribute of FLINT's module, so that other code of this
# process that changes the precision can take the same lock.
_LOCK = vars(flint).setdefault("_precision_lock", threading.RLock())


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Sets the working precision for a block, one thread at a time.

    Args:
        bits: Binary digits of a ball's midpoint.
    """
    with _LOCK, ctx.workprec(bits):
        yield


@dataclass(frozen=True)
class Enclosure:
    """Two balls that enclose a number: ``lower`` ≤ number ≤ ``upper``."""

    lower: arb
    upper: arb


def rational(number: Fraction | float) -> fmpq:
    """Returns a number exactly, as a FLINT rational.

    Args:
        number: A fraction, or a finite float, which stands for exactly the number that it stores.

    Returns:
        The same number.
    """
    return fmpq(*number.as_integer_ratio())


def fraction(number: fmpq) -> Fraction:
    """Returns a rational as a Python fraction."""
    return Fraction(int(number.p), int(number.q))


def round_up_to_float(number: fmpq) -> fmpq:
    """Returns the smallest float that is not below a rational."""
    exact = fraction(number)
    nearest = float(exact)
    return rational(nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf))


def positive_part(number: Number) -> Number:
    """Returns the number if it is above 0, else 0."""
    return number.max(arb(0)) if isinstance(number, arb) else max(number, fmpq(0))


def delta_bits(delta: Fraction) -> int:
    """Returns about −log2 δ, the bits that a number as small as δ needs in addition to those of its value."""
    return max(0, delta.denominator.bit_length() - delta.numerator.bit_length())


def bracket_exponential(x: Fraction) -> tuple[fmpq, fmpq]:
    """Returns rationals just below and just above e^x.

    Taylor's series of x/2^k in integer units, squared k times. Each term is rounded down for the lower and up for the
    upper sum. The series stops at an upper term of one unit; from there on each term is at most half the one before it,
    so that all further ones are at most one unit in sum.

    Args:
        x: At least 0.

    Returns:
        The lower and the upper rational.
    """
    halvings = math.ceil(x).bit_length() + 2
    small = x / 2**halvings
    bits = EXPONENTIAL_BITS + 2 * halvings
    one = 1 << bits
    low = high = low_term = high_term = one
    k = 0
    while high_term > 1:
        k += 1
        low_term = low_term * small.numerator // (small.denominator * k)
        high_term = -(-high_term * small.numerator // (small.denominator * k))
        low, high = low + low_term, high + high_term
    high += 1
    for _ in range(halvings):
        low, high = low * low >> bits, -(-high * high >> bits)
    return fmpq(low, one), fmpq(high, one)


def exponential_ball(x: Fraction) -> arb:
    """Returns a ball that contains e^x, x ≥ 0, at the working precision."""
    below, above = bracket_exponential(x)
    return arb(below).union(arb(above))


def sum_balls(numbers: Iterable[arb]) -> arb:
    """Returns the sum of balls, 0 for none."""
    return sum(numbers, arb(0))


def bound_positive_sum(chances: Sequence[arb], others: Sequence[arb]) -> tuple[arb, arb]:
    """Returns bounds from below and from above of Σ (p − q)₊ over the cells of two laws."""
    cells = [p - q for p, q in zip(chances, others, strict=True)]
    below = sum_balls(cell for cell in cells if cell > 0)
    return below.lower(), sum_balls(cell.max(arb(0)) for cell in cells).upper()
