"""Randomized response on any number of options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.own_region import OwnRegion
from shuffledp.mechanisms.parts.reference import UniformNumber
from shuffledp.mechanisms.parts.support import SupportOracle, true_or_uniform
from shuffledp.mechanisms.parts.whole_number import WholeNumber
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic
from shuffledp.sampling.random import RandomSource

LARGEST_EPSILON = 128.0
"""Beyond this γ is 2^-64 for any number of options, whatever ε."""

USERS_AT_ONCE = 1 << 15
"""Users encoded at a time, so that the working arrays stay in the processor's cache."""


@dataclass(frozen=True)
class KRR(WholeNumber, UniformNumber, SupportOracle):
    """Report an option drawn uniformly from all with probability γ, the true one otherwise.

    γ = d/(e^ε + d − 1), rounded up to a multiple of 2^-64: the ratio 1 + d(1−γ)/γ is then at most e^ε.
    The uniform draw is the privacy blanket itself.

    Theorem: [VR] Table 1, randomized response: p = q = e^ε, β = (e^ε−1)/(e^ε+d−1); q_common = 1.
    Requires: ε > 0 finite; d ≥ 2.
    """

    epsilon: float
    options: int

    name = "krr"
    summary = "randomized response: the true option, or one drawn uniformly"
    covers_mixtures = True

    def __post_init__(self) -> None:
        informative_epsilon("KRR", self.epsilon)
        object.__setattr__(self, "options", argument.count("KRR", "options", self.options, at_least=2))
        if self.uniform_share == 1:
            raise ValueError(f"KRR: epsilon is too small to tell {self.options} options apart, got {self.epsilon!r}.")

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of reporting a uniform option."""
        epsilon = min(self.epsilon, LARGEST_EPSILON)
        return dyadic.at_least(lambda: self.options / (arb(epsilon).exp() + self.options - 1))

    @property
    def own_support(self) -> Fraction:
        return 1 - self.uniform_share + self.other_support

    @property
    def other_support(self) -> Fraction:
        return self.uniform_share / self.options

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            honest = ~source.coins(self.uniform_share, len(own))
            drawn = source.below(self.options, len(own))
            np.copyto(drawn, own, where=honest)
            messages[start : start + USERS_AT_ONCE] = drawn
        return messages

    @property
    def outputs(self) -> int:
        return self.options

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.options)

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        """Those who report the truth, and a uniform option of everybody else."""
        return true_or_uniform(held, users, float(self.uniform_share), rng)

    @cached_property
    def region(self) -> OwnRegion:
        """The law: an option's region is itself."""
        return OwnRegion("KRR", self.epsilon, Fraction(1, self.options), self.uniform_share)

    def owns(self, values: Array, messages: Array) -> NDArray[np.bool_]:
        return np.asarray(values == messages)

    def variation_ratio(self) -> VariationRatio:
        ratio = above(self.own_support / self.other_support)
        return VariationRatio(p=ratio, beta=above(1 - self.uniform_share), q=ratio, q_common=1.0)

    def blankets(self) -> Sequence[HidingPair]:
        own, other = rational(self.own_support), rational(self.other_support)
        same = other * (self.options - 2)
        return [
            exact_pair(
                [
                    (own, other, other),
                    (other, own, other),
                    (same, same, same),
                ],
                symmetric=True,
            )
        ]

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        return (self.other_support, self.own_support) if self.options == 2 else None

    def attacks(self) -> Sequence[HidingPair]:
        own, other = rational(self.own_support), rational(self.other_support)
        mixed = (own + other) / 2
        if self.options == 2:
            first, second = (own, other), (other, own)
            return [
                exact_pair([(*first, own), (*second, other)], symmetric=False),
                exact_pair([(*first, mixed), (*second, mixed)], symmetric=True),
            ]
        rest = other * (self.options - 3)
        third = [(own, other, other), (other, own, other), (other, other, own), (rest, rest, rest)]
        return [exact_pair(third, symmetric=True)]

    def table(self) -> OutputTable:
        every = np.arange(self.options)
        rows = tuple(
            tuple(self.own_support if y == x else self.other_support for y in range(self.options)) for x in every
        )
        return OutputTable(every, every, rows)

    @classmethod
    def examples(cls) -> Sequence[KRR]:
        return [cls(epsilon=1.0, options=2), cls(epsilon=0.5, options=3), cls(epsilon=3.0, options=5)]
