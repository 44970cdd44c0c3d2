"""Symmetric unary encoding, a frequency oracle: one bit for each option, each flipped with the same probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import flip_probability, informative_epsilon
from shuffledp.mechanisms.parts.support import SummedBits
from shuffledp.mechanisms.parts.unary import UnaryBits, UnaryLaw, UnaryReference
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import BitRowWire, demand_short
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class RAPPOR(Mechanism):
    """Send one bit for each option, 1 for the own one and 0 for the others, each flipped with probability f.

    f = 1/(e^{ε/2} + 1), rounded up to a multiple of 2^-64: the ratio ((1−f)/f)², two bits apart, is at most e^ε.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are, and bits in a
    message; a user's value is the number of one of them, from 0.

    Theorem: [VR] Table 1, binary RR (RAPPOR): p = q = e^ε, β = (e^{ε/2}−1)/(e^{ε/2}+1) = 1 − 2f.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.RAPPOR(epsilon=4.0, options=12)
    >>> messages = mechanism.encode([3] * 1000, rng=np.random.default_rng(1))
    >>> messages.shape
    (1000, 2)
    >>> int(mechanism.estimate(messages).value.argmax())
    3
    """

    epsilon: float
    options: int

    name = "rappor"
    task = "frequency"
    summary = "symmetric unary encoding: one bit for each option, each flipped with the same probability"
    take_it = "To compare with RAPPOR, or where all bits must be flipped alike."
    also_called = (
        "basic-rappor",
        "sue",
        "symmetric-unary-encoding",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("RAPPOR", self.epsilon))
        object.__setattr__(self, "options", argument.count("RAPPOR", "options", self.options, at_least=2))
        demand_short("RAPPOR", self.options)

    @cached_property
    def flip(self) -> Fraction:
        """f: the probability that a bit is flipped."""
        return flip_probability(self.epsilon / 2)

    @cached_property
    def row(self) -> UnaryBits:
        """The bits of a message."""
        return UnaryBits(self.options, own=1 - self.flip, other=self.flip)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("RAPPOR", self.options)

    @cached_property
    def law(self) -> UnaryLaw:
        return UnaryLaw(self.row)

    @cached_property
    def wire(self) -> BitRowWire:
        return BitRowWire("RAPPOR", self.options)

    @cached_property
    def reading(self) -> SummedBits:
        return SummedBits(self.options, self.row.own, self.row.other)

    @cached_property
    def reference(self) -> UnaryReference:
        return UnaryReference(self.row)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.row.draw(values, source)

    def table(self) -> OutputTable:
        return self.row.table("RAPPOR")

    @classmethod
    def examples(cls) -> Sequence[RAPPOR]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=4.0, options=5)]
