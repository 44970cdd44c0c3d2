"""Probabilities that a computer can really draw: multiples of 2^-64, rounded in the direction that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb

from shuffledp.numerics.ball import precision, whole_below

BITS = 64


def at_least(number: Callable[[], arb], bits: int = BITS) -> Fraction:
    """The smallest multiple of 2^-bits that is certainly not below ``number()``, a ball at the working precision."""
    return -at_most(lambda: -number(), bits)


def at_most(number: Callable[[], arb], bits: int = BITS) -> Fraction:
    """The largest multiple of 2^-bits that is certainly not above ``number()``."""
    with precision(4 * bits + 64):
        return Fraction(whole_below(number() * arb(2) ** bits), 1 << bits)


def rounded_up(number: Fraction, bits: int = BITS) -> Fraction:
    """The smallest multiple of 2^-bits that is not below an exact number."""
    return Fraction(-(-number.numerator * (1 << bits) // number.denominator), 1 << bits)
