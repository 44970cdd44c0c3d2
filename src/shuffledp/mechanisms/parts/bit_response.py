"""Randomized response on one bit, from which bit-wise mechanisms are made."""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from shuffledp import argument
from shuffledp.sampling import dyadic

SMALLEST_EPSILON = 1e-17
"""A bit flipped with a multiple of 2^-64 that keeps half of this promise still tells something."""


def informative_epsilon(who: str, epsilon: object) -> float:
    """A finite ε that is large enough for a bit to tell anything."""
    number = argument.positive_finite(who, "epsilon", epsilon)
    if number < SMALLEST_EPSILON:
        raise ValueError(f"{who}: epsilon must be at least {SMALLEST_EPSILON:g}, got {number!r}.")
    return number


def flip_probability(epsilon: float) -> Fraction:
    """The smallest multiple f of 2^-64 with (1−f)/f ≤ e^ε, that is f ≥ 1/(e^ε + 1).

    From ε = 64 on it is 2^-64, whatever ε.
    """
    return dyadic.at_least(lambda: 1 / (arb(min(epsilon, 64.0)).exp() + 1))
