"""mixDUMP: randomized response on the option, among uniform dummies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import Tuning
from shuffledp.mechanisms.parts.dummy import DUMMIES, SHARE, NumberedDummies, numbers_of_dummies
from shuffledp.mechanisms.parts.old_support import true_or_uniform, uniform_counts
from shuffledp.mechanisms.parts.published import uniform_dummies
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.randomizer import HasNoisyOthers, HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class MixDUMP(NumberedDummies, HasNoisyOthers, HasPublishedGuarantee):
    """Send the true option with probability 1 − f and any other one with f/(d−1), and uniform dummies.

    Executed as: a uniform option with probability γ = f·d/(d−1), rounded up to a multiple of 2^-64 (which only hides
    more), else the true one. With ``share`` below 1 a dummy is blank with probability 1 − share.

    Theorem: identity (★) with the uniform law of the dummies, M − 1 = (honest users)·dummies.
    [VR] Table 3, mixDUMP: p = (1−f)(d−1)/f, β = 1 − f − f/(d−1), q = (1−f)d; q_common = max(1, f·d/(d−1)).
    Requires: d ≥ 2; 0 < f < (d−1)/d; dummies ≥ 1; 0 < share ≤ 1.
    Returns: an upper bound: what the others' own randomness hides on top is counted by ``NoisyCrowdBound`` only.
    """

    options: int
    flip: float
    dummies: int = 1
    share: float = 1.0

    name = "mix-dump"
    summary = "randomized response on the option, and uniform dummies"
    tuning = (Tuning("flip", False, True, 2.0**-60, 1.0), DUMMIES, SHARE)
    published_theorem = (
        "pureDUMP's analysis [DUMP], of which mixDUMP is a post-processing: ε = √(14·d·log(2/δ)/dummies)"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        return numbers_of_dummies()

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("MixDUMP", "options", self.options, at_least=2))
        object.__setattr__(self, "flip", argument.open_probability("MixDUMP", "flip", self.flip))
        self._check_dummies()
        if self.uniform_share >= 1:
            most = 1 - 1 / self.options
            raise ValueError(f"MixDUMP: flip must be below 1 − 1/options = {most:.6g}, got {self.flip!r}.")

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of sending a uniform option in place of the true one."""
        return dyadic.rounded_up(Fraction(self.flip) * self.options / (self.options - 1))

    @property
    def own_support(self) -> Fraction:
        return 1 - self.uniform_share + self.other_support

    @property
    def other_support(self) -> Fraction:
        return self.uniform_share / self.options

    @property
    def filled_support(self) -> Fraction:
        return Fraction(1, self.options)

    @property
    def kinds(self) -> int:
        return self.options

    def real_messages(self, values: Array, source: RandomSource) -> Array:
        drawn = source.below(self.options, len(values))
        np.copyto(drawn, values, where=~source.coins(self.uniform_share, len(values)))
        return drawn

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.options + 1)[: self.options]

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        real = true_or_uniform(held, users, float(self.uniform_share), rng)
        return real + self.draw_dummies(users, rng)

    def draw_dummies(self, users: int, rng: np.random.Generator) -> Integers:
        """Blank ones left out, each is any option."""
        filled = int(rng.binomial(users * self.dummies, float(self.filled)))
        return uniform_counts(filled, self.options, rng)

    def variation_ratio(self) -> VariationRatio:
        own, other, each = self.own_support, self.other_support, self.filled / self.options
        p, common = above(own / other), above(max(Fraction(1), other / each))
        # With p a hair above the ratio, a hair of the common part is where the pair differs, too.
        hair = other - (own - other) / (Fraction(p) - 1)
        q = (own - hair) / (each - hair / Fraction(common))
        return VariationRatio(p=p, beta=above(own - other), q=above(q), q_common=common)

    def blankets(self) -> Sequence[HidingPair]:
        return [self._pair(self.filled)]

    def _pair(self, filled: Fraction) -> HidingPair:
        own, other, each = self.own_support, self.other_support, filled / self.options
        rest = self.options - 2
        laws = [(own, other, each), (other, own, each), (rest * other, rest * other, rest * each)]
        return exact_pair([(rational(a), rational(b), rational(c)) for a, b, c in laws], symmetric=True)

    def noisy_others(self, messages: int) -> tuple[int, Fraction]:
        """A real message is uniform with probability γ, whatever the option; a filled dummy hides as well or better."""
        return self.other_users(messages), self.uniform_share

    def attack_messages(self, users: int) -> int:
        return users * self.messages_per_user

    def attacks(self) -> Sequence[HidingPair]:
        """Others whose options are uniform send uniform messages; every blank, too, may as well hide."""
        return [self._pair(Fraction(1))]

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        return uniform_dummies(self, messages, delta)

    def real_rows(self) -> tuple[tuple[Fraction, ...], ...]:
        own, other, every = self.own_support, self.other_support, range(self.options)
        return tuple(tuple(own if x == y else other for y in every) for x in every)

    @classmethod
    def examples(cls) -> Sequence[MixDUMP]:
        return [
            cls(options=2, flip=0.25),
            cls(options=3, flip=0.4, dummies=2),
            cls(options=4, flip=0.1, dummies=1, share=0.6),
        ]
