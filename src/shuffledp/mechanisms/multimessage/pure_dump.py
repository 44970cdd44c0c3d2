"""pureDUMP: the true option in the clear, among uniform dummies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.parts.dummy import NumberedDummies
from shuffledp.mechanisms.parts.old_support import uniform_counts
from shuffledp.mechanisms.parts.published import uniform_dummies
from shuffledp.numerics.ball import above
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.randomizer import HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class PureDUMP(NumberedDummies, HasPublishedGuarantee):
    """Send the true option as it is, and ``dummies`` options drawn uniformly.

    All draws are exactly uniform. With ``share`` below 1 a dummy is blank with probability 1 − share.

    Theorem: identity (★), exact: the others' options are known and can be taken out of the counts, which leaves the
    victim's among M − 1 = (honest users)·dummies uniform ones. [VR] Table 3, pureDUMP: p = ∞, β = 1, q = d.
    Requires: d ≥ 2; dummies ≥ 1; 0 < share ≤ 1.
    """

    options: int
    dummies: int = 1
    share: float = 1.0

    name = "pure-dump"
    summary = "the true option and uniform dummies; private only among many users"
    published_theorem = "pureDUMP's own analysis [DUMP]: ε = √(14·d·log(2/δ)/dummies), ε ≤ 1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("PureDUMP", "options", self.options, at_least=2))
        self._check_dummies()

    @property
    def own_support(self) -> Fraction:
        return Fraction(1)

    @property
    def other_support(self) -> Fraction:
        return Fraction(0)

    @property
    def filled_support(self) -> Fraction:
        return Fraction(1, self.options)

    @property
    def kinds(self) -> int:
        return self.options

    def real_messages(self, values: Array, source: RandomSource) -> Array:
        return values

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.options + 1)[: self.options]

    def draw_dummies(self, users: int, rng: np.random.Generator) -> Integers:
        """Blank ones left out, each is any option."""
        filled = int(rng.binomial(users * self.dummies, float(self.filled)))
        return uniform_counts(filled, self.options, rng)

    def variation_ratio(self) -> VariationRatio:
        return VariationRatio(p=inf, beta=1.0, q=above(self.options / self.filled))

    def blankets(self) -> Sequence[HidingPair]:
        one, none = Fraction(1), Fraction(0)
        laws = [(one, none, self.filled_support), (none, one, self.filled_support)]
        return [exact_pair(self._classes(laws), symmetric=True)]

    def attacks(self) -> Sequence[HidingPair]:
        """Any dataset: whoever knows the others' options takes them out of the counts."""
        return self.blankets()

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        return uniform_dummies(self, messages, delta)

    def real_rows(self) -> tuple[tuple[Fraction, ...], ...]:
        return tuple(tuple(Fraction(x == y) for y in range(self.options)) for x in range(self.options))

    @classmethod
    def examples(cls) -> Sequence[PureDUMP]:
        return [cls(options=2), cls(options=3, dummies=2), cls(options=4, dummies=1, share=0.3)]
