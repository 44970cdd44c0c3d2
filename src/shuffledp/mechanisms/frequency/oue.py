"""Optimised unary encoding: a fair own bit among rare ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from shuffledp.mechanisms.parts.bit_response import flip_probability
from shuffledp.mechanisms.parts.unary import UnaryEncoding


@dataclass(frozen=True)
class OUE(UnaryEncoding):
    """Send one bit for each option: the own one is a fair coin, every other one is 1 with probability r.

    r = 1/(e^ε + 1), rounded up to a multiple of 2^-64: the ratio (1−r)/r is at most e^ε.

    Theorem: optimised unary encoding: p = q = e^ε, β = (e^ε−1)/(2(e^ε+1)) = 1/2 − r.
    Deviates: not in [VR]; β is the total variation, by enumeration.
    """

    name = "oue"
    summary = "optimised unary encoding: one bit for each option, a fair one for the own, rare ones for the others"

    @cached_property
    def rare(self) -> Fraction:
        """r: the probability that the bit of an option that is not the own one is 1."""
        return flip_probability(self.epsilon)

    @property
    def own_support(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def other_support(self) -> Fraction:
        return self.rare

    @classmethod
    def examples(cls) -> Sequence[OUE]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=4.0, options=5)]
