"""Counts whose noise cancels: the messages for an option less those against it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.flooded_noise import FloodedNoise
from shuffledp.mechanisms.parts.noise_tails import CountNoiseTails
from shuffledp.mechanisms.parts.reading import SimulatedReading, TreeReading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.value_tree import ValueTree


@dataclass(frozen=True)
class SignedCounts(SimulatedReading, TreeReading):
    """For each option the messages for it less those against it.

    Each error is X − Y, of variance 2q/(1−q)² times how many times over the noise is there. Where every user holds one
    option (``one_each``) all counts together are known, which takes 1/options of it off.
    """

    options: int
    noise: FloodedNoise
    honest: int
    one_each: bool = True

    def accumulate(self, messages: Array) -> Array:
        counts = np.bincount(messages, minlength=2 * self.options)[: 2 * self.options].reshape(self.options, 2)
        return np.asarray(counts[:, 0] - counts[:, 1])

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """All for one option or all against it; the others take their part of what is too much."""
        if math.isinf(messages):
            return (Sway(-math.inf, math.inf),)
        kept, known = self._kept, 1 - self._kept
        return (Sway(known - messages * kept, known + messages * kept),)

    def finish(self, total: Array, users: int) -> Estimate:
        value = np.asarray(total, dtype=np.float64)
        if self.one_each:
            value = value + (users - value.sum()) / self.options
        variance = np.full(self.options, self._variance(users))
        return Estimate(value, variance, users, CountNoiseTails(self._shape(users), self.noise.rate))

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        stop = -math.expm1(-self.noise.rate)
        counts = [rng.negative_binomial(self._times(users), stop, self.options) for _ in range(2)]
        return self.finish(held + counts[0] - counts[1], users)

    def truth(self, values: Array) -> Floats:
        held = values.reshape(-1)
        return np.bincount(held[held >= 0], minlength=self.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.full(self.options, self._variance(len(values)))

    @cached_property
    def tree(self) -> ValueTree:  # type: ignore[override]
        return ValueTree(self.options, self.options)

    @property
    def combines(self) -> bool:
        return self.one_each

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """The noise is independent; that all counts together are known takes the weights' mean off."""
        del held
        alone = self._variance(users) / self._kept
        return np.asarray(alone * ((weights**2).sum(axis=-1) - weights.sum(axis=-1) ** 2 / self.options))

    def _times(self, users: int) -> float:
        """How many times over the noise is there: once from the shuffler, or from as many users as were planned."""
        return 1.0 if self.honest == 0 else users / self.honest

    def _variance(self, users: int) -> float:
        ratio, stop = math.exp(-self.noise.rate), -math.expm1(-self.noise.rate)
        return self._times(users) * 2 * ratio / stop**2 * self._kept

    @property
    def _kept(self) -> float:
        """What of an option's error is left once all counts together are right."""
        return 1 - 1 / self.options if self.one_each else 1.0

    def _shape(self, users: int) -> float:
        """The shape of a law of the same fourth moment: a part of every other option's error is in each."""
        kept, others = self._kept, (self.options - 1) / self.options**4 if self.one_each else 0.0
        return self._times(users) * kept**2 / (kept**4 + others)
