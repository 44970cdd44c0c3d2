"""One pair of a padded set of key–value pairs, by randomized response on keys and signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.count_tails import CountTails
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.pair_reading import (
    NONE,
    USERS_AT_ONCE,
    KeyValuePairs,
    PairReading,
    exact_value,
    positive_signs,
    sets_of_pairs,
)
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class PCKV(Mechanism):
    """PCKV-GRR: pad the pairs to ℓ, draw one, round its value to a sign; send this key and sign, or uniform ones.

    A user with fewer than ℓ = ``padding`` pairs adds dummy keys, each with a random sign. The draw is exactly uniform;
    the value, as a multiple of 2^-52, is rounded exactly and without bias.
    With probability γ the message is uniform on all pairs of a sign and one of the d' = keys + ℓ keys instead:
    γ = 2d'/(ℓ(e^ε−1) + 2d'), rounded up to a multiple of 2^-64. A given pair is drawn with probability 1/ℓ, so the
    ratio 1 + 2d'(1−γ)/(ℓγ) is at most e^ε. The message is the number 2·key + sign.

    ``epsilon``: the local ε that every message keeps. ``keys``: how many keys there are, numbered from 0. ``padding``:
    ℓ, the most pairs that a user may hold: the estimates of users with more would not be unbiased, so that they are
    refused; a larger one adds noise. A value is a row of pairs (key, number from −1 to 1); the key −1 leaves a place
    empty.

    Theorem: [VR] Table 1, PCKV-GRR: p = q = e^ε, β = ℓ(e^ε−1)/(ℓe^ε + 2d' − ℓ).
    Deviates: "keep the key with probability a, then the sign, else another key and a random sign" is the same law,
    written as a uniform message or the true one. A user with m < ℓ pairs pads with the dummy keys numbered m … ℓ−1,
    not with random ones. q_common = q: a third user may be far from two who agree.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PCKV(epsilon=2.0, keys=20, padding=2)
    >>> mechanism.message_bits
    6
    >>> counts, sums = mechanism.truth([[(0, 0.5), (7, -1.0)], [(7, -0.5), (-1, 0.0)]])
    >>> counts[[0, 7]].tolist(), sums[[0, 7]].tolist()
    ([1.0, 2.0], [0.5, -1.5])
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0594'
    """

    epsilon: float
    keys: int
    padding: int

    name = "pckv"
    task = "key-value"
    summary = "one of a user's key–value pairs, padded to a fixed number: its key and sign, or uniform ones"
    take_it = "For key–value pairs of a fixed number of keys, with a local ε."
    also_called = ("pckv-grr",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", argument.positive_finite("PCKV", "epsilon", self.epsilon))
        object.__setattr__(self, "keys", argument.count("PCKV", "keys", self.keys))
        object.__setattr__(self, "padding", argument.count("PCKV", "padding", self.padding))
        if self.padding > self.keys:
            raise ValueError(f"PCKV: padding must be at most keys = {self.keys}, got {self.padding}.")
        if self.keys > 1 << 60:
            raise ValueError(f"PCKV: keys must be at most 2^60, got {self.keys}.")
        _ = self.region

    @property
    def outputs(self) -> int:
        """2d': keys and dummy keys, each with two signs."""
        return 2 * (self.keys + self.padding)

    @cached_property
    def region(self) -> OwnRegion:
        """The law of a user with ℓ pairs of values ±1: uniform on all messages, or on the own ℓ."""
        return OwnRegion("PCKV", self.epsilon, Fraction(self.padding, self.outputs))

    @cached_property
    def values(self) -> KeyValuePairs:
        return KeyValuePairs("PCKV", self.keys, most_pairs=self.padding, probe_pairs=self.padding)

    @cached_property
    def law(self) -> RegionLaw:
        """Two users with the same ℓ keys and opposite signs.

        Every message is avoided by some user, so the blanket is the uniform law with mass γ. Every user's own part
        is an average of uniform laws on ℓ messages (random signs and dummies included), and for a fixed blanket the
        divergence is convex in user 1's two laws; of two sets of ℓ messages, disjoint ones hide worst (OwnRegion).
        """
        return RegionLaw(self.region, self.region.share, attacked=(self._attack(),), tight=True)

    def _attack(self) -> HidingPair:
        """The same two users, and all others hold nothing: they send dummy keys."""
        chance = self.region.uniform_share / self.outputs
        drawn, own, dummies = 1 - self.region.uniform_share, self.padding * chance, 2 * self.padding * chance
        rest = 2 * (self.keys - self.padding) * chance
        classes = [(own + drawn, own, own), (own, own + drawn, own), (dummies, dummies, dummies + drawn)]
        exact = [(rational(a), rational(b), rational(h)) for a, b, h in [*classes, (rest, rest, rest)]]
        return exact_pair(exact, symmetric=True)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("PCKV", self.outputs)

    @cached_property
    def reading(self) -> PaddedCounts:
        return PaddedCounts(self.keys, self.padding, self.region.uniform_share)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        parts = range(0, len(values), USERS_AT_ONCE)
        return np.concatenate([self._randomize(values[start : start + USERS_AT_ONCE], source) for start in parts])

    def _randomize(self, pairs: Array, source: RandomSource) -> Integers:
        held = pairs[..., 0] != NONE
        holds = held.sum(axis=1)
        place = source.below(self.padding, len(pairs))
        # The drawn one of the held pairs stands where as many held ones have been passed.
        own = held & (np.cumsum(held, axis=1, dtype=np.int32) == (place + 1)[:, None])
        slot = np.argmax(own, axis=1)
        key, value = pairs[np.arange(len(pairs)), slot].T
        dummy = place >= holds
        key = np.where(dummy, self.keys + place, key.astype(np.int64))
        truth = 2 * key + positive_signs(np.where(dummy, 0.0, value), source)
        lies = source.coins(self.region.uniform_share, len(pairs))
        return np.where(lies, source.below(self.outputs, len(pairs)), truth)

    def table(self) -> OutputTable:
        inputs = np.stack(list(sets_of_pairs(self.keys, self.padding, self.padding, 0.375)))
        return OutputTable(inputs, np.arange(self.outputs), tuple(self.law_of(row) for row in inputs))

    def law_of(self, pairs: Array) -> tuple[Fraction, ...]:
        """The exact law of the message of one user."""
        held = [(int(key), exact_value(value)) for key, value in pairs if key != NONE]
        held += [(self.keys + place, Fraction(0)) for place in range(len(held), self.padding)]
        gamma = self.region.uniform_share
        law = [gamma / self.outputs] * self.outputs
        for key, value in held:
            for sign in (0, 1):
                law[2 * key + sign] += (1 - gamma) / self.padding * (1 + (2 * sign - 1) * value) / 2
        return tuple(law)

    @classmethod
    def examples(cls) -> Sequence[PCKV]:
        return [
            cls(epsilon=1.0, keys=1, padding=1),
            cls(epsilon=0.5, keys=3, padding=1),
            cls(epsilon=2.0, keys=2, padding=2),
        ]


@dataclass(frozen=True)
class PaddedCounts(PairReading):
    """Counts of keys with a sign, of which each of a user's pairs is drawn with chance (1 − γ)/ℓ."""

    padding: int
    """ℓ."""
    uniform_share: Fraction
    """γ."""

    @property
    def outputs(self) -> int:
        """2d'."""
        return 2 * (self.keys + self.padding)

    def accumulate(self, messages: Array) -> Array:
        """For each key, how many messages have it with sign − and with sign +."""
        return np.bincount(messages, minlength=self.outputs).reshape(-1, 2)[: self.keys].T

    def finish(self, total: Array, users: int) -> Estimate:
        """ℓ(n₊ + n₋ − 2nγ/2d')/(1−γ) and ℓ(n₊ − n₋)/(1−γ).

        The variance of a value sum leaves out −Σv², at most the count: it errs on the safe side.
        """
        minus, plus = np.asarray(total, dtype=np.float64)
        counts = self._scale * (minus + plus - users * self._by_chance)
        held = np.clip(counts, 0.0, users)
        own = self._by_chance + 1 / self._scale
        spread = held * own * (1 - own) + (users - held) * self._by_chance * (1 - self._by_chance)
        variance = self._scale**2 * np.stack([spread, minus + plus])
        return Estimate(np.stack([counts, self._scale * (plus - minus)]), variance, users, self.tails(users))

    def count_tails(self, users: int) -> CountTails:
        """A message has a given key, with either sign, or not."""
        chances = self._by_chance + 1 / self._scale, self._by_chance
        spread = [self._scale**2 * p * (1 - p) for p in chances]
        third = [self._scale**3 * p * (1 - p) * (1 - 2 * p) for p in chances]
        return CountTails.of_users(users, spread, third, self._scale, -users * self._scale * self._by_chance)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All have one key with either sign, or all have a dummy key."""
        most, chance = messages * self._scale, self._scale * self._by_chance
        return Sway(-chance, most - chance), Sway(-most, most, -1.0, 1.0)

    def variance(self, values: Array) -> Floats:
        # All below is in units of the estimate.
        held, squares = self.sums(values, 2)
        chance = self._scale * self._by_chance
        reported = self._scale * (held + len(values) * chance)
        wasted = (2 * chance + 1) * held + len(values) * chance**2
        return np.stack([reported - wasted, reported - squares])

    def covariance(self, sums: Floats) -> Floats:
        """Σv·(ℓ/(1−γ)·(1 − by chance) − 1)."""
        return (self._scale * (1 - self._by_chance) - 1) * sums

    @property
    def _scale(self) -> float:
        """ℓ/(1−γ)."""
        return float(self.padding / (1 - self.uniform_share))

    @property
    def _by_chance(self) -> float:
        """The probability that a message has a given key that was not drawn."""
        return float(2 * self.uniform_share / self.outputs)
