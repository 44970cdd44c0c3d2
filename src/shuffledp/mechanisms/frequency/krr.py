"""Randomized response on any number of options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw, Regions
from shuffledp.mechanisms.parts.reference import UniformNumber
from shuffledp.mechanisms.parts.support import CountedOption
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.privacy.pair import HidingPair
from shuffledp.sampling.random import RandomSource

USERS_AT_ONCE = 1 << 15
"""Users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class KRR(Mechanism):
    """Report an option drawn uniformly from all with probability γ, the true one otherwise.

    γ = d/(e^ε + d − 1), rounded up to a multiple of 2^-64: the ratio 1 + d(1−γ)/γ is then at most e^ε.
    The uniform draw is the privacy blanket itself.

    ``epsilon``: the local ε that every message keeps. ``options``: d, how many options there are, at least 2; a user's
    value is the number of one of them, from 0.

    Theorem: [VR] Table 1, randomized response: p = q = e^ε, β = (e^ε−1)/(e^ε+d−1); q_common = 1.
    Requires: ε > 0 finite; d ≥ 2.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.KRR(epsilon=1.0, options=4)
    >>> mechanism.message_bits
    2
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0343'
    """

    epsilon: float
    options: int

    name = "krr"
    task = "frequency"
    summary = "randomized response: the true option, or one drawn uniformly"
    take_it = "For few options, or a large local ε: the first to try."
    also_called = (
        "grr",
        "k-rr",
        "randomized-response",
        "rr",
        "warner",
        "direct-encoding",
        "de",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("KRR", self.epsilon))
        object.__setattr__(self, "options", argument.count("KRR", "options", self.options, at_least=2))

    @cached_property
    def region(self) -> OwnRegion:
        """An option's region is itself."""
        return OwnRegion("KRR", self.epsilon, Fraction(1, self.options))

    @cached_property
    def values(self) -> OneOption:
        return OneOption("KRR", self.options)

    @cached_property
    def law(self) -> RegionLaw:
        d, gamma = self.options, self.region.uniform_share
        coin = (gamma / 2, 1 - gamma / 2) if d == 2 else None
        return RegionLaw(
            self.region, Fraction(1, d), q_common=1.0, attacked=self._attacked(), coin=coin, tight=True,
            covers_mixtures=True, space=(self.name, d),
        )  # fmt: skip

    def _attacked(self) -> tuple[HidingPair, ...]:
        """All others hold a third option; with two, the first of them, or either by a fair coin."""
        each = Fraction(1, self.options)
        if self.options == 2:
            return self.region.disjoint_attack(), self.region.disjoint_attack((each, each, Fraction(0)))
        shares: dict[Regions, Fraction] = {
            (True, False, False): each,
            (False, True, False): each,
            (False, False, True): each,
            (False, False, False): 1 - 3 * each,
        }
        return (self.region.attack(shares, symmetric=True),)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("KRR", self.options)

    @cached_property
    def reading(self) -> CountedOption:
        own, other = self.region.inside / self.options, self.region.outside / self.options
        return CountedOption(self.options, own, other, uniform_share=self.region.uniform_share)

    @cached_property
    def reference(self) -> UniformNumber:
        return UniformNumber(self.region, np.equal, self.options)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            honest = ~source.coins(self.region.uniform_share, len(own))
            drawn = source.below(self.options, len(own))
            np.copyto(drawn, own, where=honest)
            messages[start : start + USERS_AT_ONCE] = drawn
        return messages

    def table(self) -> OutputTable:
        every = np.arange(self.options)
        own, other = self.reading.own, self.reading.other
        return OutputTable(every, every, tuple(tuple(own if y == x else other for y in every) for x in every))

    @classmethod
    def examples(cls) -> Sequence[KRR]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=3.0, options=5)]
