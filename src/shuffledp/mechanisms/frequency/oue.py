"""Optimised unary encoding, a frequency oracle: a fair own bit among rare ones."""

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
class OUE(Mechanism):
    """Send one bit for each option: the own one is a fair coin, every other one is 1 with probability r.

    r = 1/(e^ε + 1), rounded up to a multiple of 2^-64: the ratio (1−r)/r is at most e^ε.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are, and bits in a
    message; a user's value is the number of one of them, from 0.

    Theorem: optimised unary encoding: p = q = e^ε, β = (e^ε−1)/(2(e^ε+1)) = 1/2 − r.
    Deviates: not in [VR]; β is the total variation, by enumeration.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.OUE(epsilon=1.0, options=100)
    >>> mechanism.message_bits
    100
    >>> f"{float(mechanism.rare):.4f}", f"{mechanism.variation_ratio().beta:.4f}"
    ('0.2689', '0.2311')
    """

    epsilon: float
    options: int

    name = "oue"
    task = "frequency"
    summary = "optimised unary encoding: one bit for each option, a fair one for the own, rare ones for the others"
    take_it = "For many options, where a bit for each may be sent."
    also_called = (
        "optimised-unary-encoding",
        "optimized-unary-encoding",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("OUE", self.epsilon))
        object.__setattr__(self, "options", argument.count("OUE", "options", self.options, at_least=2))
        demand_short("OUE", self.options)

    @cached_property
    def rare(self) -> Fraction:
        """r: the probability that the bit of an option that is not the own one is 1."""
        return flip_probability(self.epsilon)

    @cached_property
    def row(self) -> UnaryBits:
        """The bits of a message."""
        return UnaryBits(self.options, own=Fraction(1, 2), other=self.rare)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("OUE", self.options)

    @cached_property
    def law(self) -> UnaryLaw:
        return UnaryLaw(self.row)

    @cached_property
    def wire(self) -> BitRowWire:
        return BitRowWire("OUE", self.options)

    @cached_property
    def reading(self) -> SummedBits:
        return SummedBits(self.options, self.row.own, self.row.other)

    @cached_property
    def reference(self) -> UnaryReference:
        return UnaryReference(self.row)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.row.draw(values, source)

    def table(self) -> OutputTable:
        return self.row.table("OUE")

    @classmethod
    def examples(cls) -> Sequence[OUE]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=4.0, options=5)]
