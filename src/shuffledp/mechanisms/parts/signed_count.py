"""Counts whose noise cancels: the messages for an option less those against it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.flooded_noise import FloodedNoise
from shuffledp.mechanisms.parts.noise_tails import CountNoiseTails
from shuffledp.mechanisms.parts.reading import Reading, SimulatedReading, SomeReading, TreeReading
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
        kept, known = self.kept, 1 - self.kept
        return (Sway(known - messages * kept, known + messages * kept),)

    def finish(self, total: Array, users: int) -> Estimate:
        value = np.asarray(total, dtype=np.float64)
        return self.from_counts(value, value.sum(), users)

    def from_counts(self, counts: Floats, every: float, users: int) -> Estimate:
        """The estimate of some options, where the counts of all add up to ``every``."""
        value = counts + (users - every) / self.options if self.one_each else counts
        variance = np.full(len(value), self.variance_of_one(users))
        tails = CountNoiseTails(self._times(users), self.noise.rate, self.options if self.one_each else None)
        return Estimate(value, variance, users, tails)

    @property
    def counted(self) -> int:
        return self.options

    def some(self, asked: Asked) -> Reading:
        return SomeSignedCounts(self, asked)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        return self.finish(held + self.draw_noise(users, self.options, rng), users)

    def draw_noise(self, users: int, numbers: int, rng: np.random.Generator, together: int = 1) -> Integers:
        """So many numbers, each X − Y of so many options ``together``."""
        stop = -math.expm1(-self.noise.rate)
        counts = [rng.negative_binomial(together * self._times(users), stop, numbers) for _ in range(2)]
        return np.asarray(counts[0] - counts[1])

    def truth(self, values: Array) -> Floats:
        held = values.reshape(-1)
        return np.bincount(held[held >= 0], minlength=self.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.full(self.options, self.variance_of_one(len(values)))

    @cached_property
    def tree(self) -> ValueTree:  # type: ignore[override]
        return ValueTree(self.options, self.options)

    @property
    def combines(self) -> bool:
        return self.one_each

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """The noise is independent; that all counts together are known takes the weights' mean off."""
        del held
        alone = self.variance_of_one(users) / self.kept
        return np.asarray(alone * ((weights**2).sum(axis=-1) - weights.sum(axis=-1) ** 2 / self.options))

    def _times(self, users: float) -> float:
        """How many times over the noise is there: once from the shuffler, or from as many users as were planned."""
        return 1.0 if self.honest == 0 else users / self.honest

    def variance_of_one(self, users: float) -> float:
        """Of each option's estimate."""
        ratio, stop = math.exp(-self.noise.rate), -math.expm1(-self.noise.rate)
        return self._times(users) * 2 * ratio / stop**2 * self.kept

    @property
    def kept(self) -> float:
        """What of an option's error is left once all counts together are right."""
        return 1 - 1 / self.options if self.one_each else 1.0


@dataclass(frozen=True)
class SomeSignedCounts(SomeReading):
    """The counts of the options that were asked for, and behind them the count of all options together."""

    whole: SignedCounts
    asked: Asked

    def accumulate(self, messages: Array) -> Array:
        options, against = np.divmod(messages, 2)
        pro, contra = options[against == 0], options[against == 1]
        # A blank has the number after the last option's two, and is for nothing.
        every = np.count_nonzero(pro < self.whole.options) - len(contra)
        return np.append(self.asked.counts(pro) - self.asked.counts(contra), every)

    def finish(self, total: Array, users: int) -> Estimate:
        *counts, every = np.asarray(total, dtype=np.float64)
        return self.whole.from_counts(np.array(counts), float(every), users)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        return self.whole.sways(messages)

    def variance_where(self, held: Floats, users: float) -> Floats:
        return np.full(len(held), self.whole.variance_of_one(users))

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The noise of these options, and that of all others together."""
        noise, others = self.whole.draw_noise(users, len(held), rng), self.whole.options - len(held)
        rest = int(self.whole.draw_noise(users, 1, rng, others)[0]) if others > 0 else 0
        return self.finish(np.append(held + noise, users + noise.sum() + rest), users)
