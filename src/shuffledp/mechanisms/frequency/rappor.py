"""Symmetric unary encoding: one bit for each option, each flipped with the same probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from shuffledp.mechanisms.parts.bit_response import flip_probability
from shuffledp.mechanisms.parts.unary import UnaryEncoding


@dataclass(frozen=True)
class RAPPOR(UnaryEncoding):
    """Send one bit for each option, 1 for the own one and 0 for the others, each flipped with probability f.

    f = 1/(e^{ε/2} + 1), rounded up to a multiple of 2^-64: the ratio ((1−f)/f)², two bits apart, is at most e^ε.

    Theorem: [VR] Table 1, binary RR (RAPPOR): p = q = e^ε, β = (e^{ε/2}−1)/(e^{ε/2}+1) = 1 − 2f.
    """

    name = "rappor"
    summary = "symmetric unary encoding: one bit for each option, each flipped with the same probability"

    @cached_property
    def flip(self) -> Fraction:
        """f: the probability that a bit is flipped."""
        return flip_probability(self.epsilon / 2)

    @property
    def own_support(self) -> Fraction:
        return 1 - self.flip

    @property
    def other_support(self) -> Fraction:
        return self.flip

    @classmethod
    def examples(cls) -> Sequence[RAPPOR]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=4.0, options=5)]
