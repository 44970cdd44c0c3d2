"""mixDUMP: randomized response on the option, among uniform dummies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import HidingTable, OutputTable
from shuffledp.mechanisms.parts.crowd import AmongDummies
from shuffledp.mechanisms.parts.dummy import (
    DUMMIES,
    SHARE,
    CountedAmongDummies,
    MessageTable,
    UniformDummies,
    checked_dummies,
    checked_share,
    numbers_of_dummies,
)
from shuffledp.mechanisms.parts.pair_law import PairLaw
from shuffledp.mechanisms.parts.published import uniform_dummies
from shuffledp.mechanisms.parts.reference import log_above
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.randomizer import HasNoisyOthers, HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import dyadic
from shuffledp.sampling.random import RandomSource

LOCAL = 8.0
"""The local ε that plans let a report keep."""


@dataclass(frozen=True)
class MixDUMP(Mechanism, HasNoisyOthers, HasPublishedGuarantee):
    """Send the true option with probability 1 − f and any other one with f/(d−1), and uniform dummies.

    Executed as: a uniform option with probability γ = f·d/(d−1), rounded up to a multiple of 2^-64 (which only hides
    more), else the true one. With ``share`` below 1 a dummy is blank with probability 1 − share.

    ``options``: d, how many options there are; a user's value is the number of one of them, from 0. ``flip``: f, the
    chance that the user's own message is another option. ``dummies``: how many uniform options every user adds, 1 by
    default. ``share``: the chance that a dummy is filled and not blank, 1 by default.

    All messages of a user together keep the local ε log(1 + d·(1−γ)/γ), which tells little where f is tiny.

    Theorem: identity (★) with the uniform law of the dummies, M − 1 = (honest users)·dummies.
    [VR] Table 3, mixDUMP: p = (1−f)(d−1)/f, β = 1 − f − f/(d−1), q = (1−f)d; q_common = max(1, f·d/(d−1)).
    Requires: d ≥ 2; 0 < f < (d−1)/d; dummies ≥ 1; 0 < share ≤ 1.
    Returns: an upper bound: what the others' own randomness hides on top is counted by ``NoisyCrowdBound`` only.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.MixDUMP(options=16, flip=0.2, dummies=3)
    >>> mechanism.messages_per_user
    4
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0895'
    """

    options: int
    flip: float
    dummies: int = 1
    share: float = 1.0

    name = "mix-dump"
    task = "frequency"
    summary = "randomized response on the option, and uniform dummies"
    take_it = "For counts with dummies that keep a local ε as well."
    also_called = ("mixdump",)
    tuning = (Tuning("flip", False, True, 2.0**-60, 1.0), DUMMIES, SHARE)
    published_theorem = (
        "pureDUMP's analysis [DUMP], of which mixDUMP is a post-processing: ε = √(14·d·log(2/δ)/dummies)"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """So few flips that a report keeps a local ε of ``LOCAL``; without any the protocol is ``PureDUMP``."""
        others = facts["options"] - 1
        flip = others / (math.exp(LOCAL) + others)
        return ({**dummies, "flip": flip} for dummies in numbers_of_dummies())

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", argument.count("MixDUMP", "options", self.options, at_least=2))
        object.__setattr__(self, "flip", argument.open_probability("MixDUMP", "flip", self.flip))
        object.__setattr__(self, "dummies", checked_dummies("MixDUMP", self.dummies))
        object.__setattr__(self, "share", checked_share("MixDUMP", self.share))
        if self.uniform_share >= 1:
            most = 1 - 1 / self.options
            raise ValueError(f"MixDUMP: flip must be below 1 − 1/options = {most:.6g}, got {self.flip!r}.")

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of sending a uniform option in place of the true one."""
        return dyadic.rounded_up(Fraction(self.flip) * self.options / (self.options - 1))

    @cached_property
    def uniform(self) -> UniformDummies:
        """What hides the option."""
        return UniformDummies.of_share(self.dummies, self.options, self.share)

    @cached_property
    def values(self) -> OneOption:
        return OneOption("MixDUMP", self.options)

    @cached_property
    def law(self) -> PairLaw:
        """Attacked where others' options are uniform, so that their messages are; every blank may as well hide."""
        hidden, attacked = self._pair(self.uniform.filled), self._pair(Fraction(1))
        return PairLaw(self._parameters(), (hidden,), attacked=(attacked,), tight=True)

    def _parameters(self) -> VariationRatio:
        own, other, each = self.reading.own, self.reading.other, self.uniform.filled / self.options
        p, common = above(own / other), above(max(Fraction(1), other / each))
        # With p a hair above the ratio, a hair of the common part is where the pair differs, too.
        hair = other - (own - other) / (Fraction(p) - 1)
        q = (own - hair) / (each - hair / Fraction(common))
        return VariationRatio(p=p, beta=above(own - other), q=above(q), q_common=common)

    def _pair(self, filled: Fraction) -> HidingPair:
        own, other, each = self.reading.own, self.reading.other, filled / self.options
        rest = self.options - 2
        laws = [(own, other, each), (other, own, each), (rest * other, rest * other, rest * each)]
        return exact_pair([(rational(a), rational(b), rational(c)) for a, b, c in laws], symmetric=True)

    @property
    def local_epsilon(self) -> float:
        """Of all messages of a user: the own one is randomized response, and the dummies depend on no value."""
        return log_above(self.reading.own / self.reading.other)

    @property
    def crowd(self) -> AmongDummies:
        return AmongDummies(self.dummies)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("MixDUMP", self.uniform.outputs)

    @cached_property
    def reading(self) -> CountedAmongDummies:
        return CountedAmongDummies.of(self.uniform, self.uniform_share)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.uniform.around(self._real, values, source)

    def _real(self, values: Array, source: RandomSource) -> Array:
        drawn = source.below(self.options, len(values))
        np.copyto(drawn, values, where=~source.coins(self.uniform_share, len(values)))
        return drawn

    def noisy_others(self, messages: int) -> tuple[int, Fraction]:
        """A real message is uniform with probability γ, whatever the option; a filled dummy hides as well or better."""
        return self.crowd.others(messages), self.uniform_share

    def attack_messages(self, users: int) -> int:
        return users * self.crowd.per_user

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        return uniform_dummies(self.options, self.share, messages, delta)

    def message_table(self) -> MessageTable:
        """The exact laws of single messages, for instances small enough to write down."""
        return self.uniform.table(self.reading.real_rows())

    def hiding_table(self) -> HidingTable:
        return self.message_table().hiding()

    def table(self) -> OutputTable:
        return self.message_table().with_dummies("MixDUMP", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[MixDUMP]:
        return [
            cls(options=2, flip=0.25),
            cls(options=3, flip=0.4, dummies=2),
            cls(options=4, flip=0.1, dummies=1, share=0.6),
        ]
