"""The budget split over several runs of one randomizer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq

from shuffledp import argument
from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.mechanism import Estimate, Mechanism, OutputTable
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.unit_ball import UnitBall
from shuffledp.mechanisms.vector.sqkr import SQKR
from shuffledp.numerics.ball import above, rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource

MOST_MESSAGES_OF_A_TABLE = 1000


@dataclass(frozen=True)
class Repeated(Mechanism):
    """A user runs ``mechanism`` on the same vector ``runs`` times and sends all messages as one.

    m runs at ε each are one run at mε. The estimate is the mean over all messages, its variance 1/m of one run's:
    less than one run at mε has where the error falls slowly in ε (PrivHS), more where it falls fast (PrivUnit), at
    a message m times as long. The pair of two inputs is the product of the runs' pairs, classes with equally many
    runs in either own set put together.

    Theorem: [LC] Lemma C.1: mε, error α/m, m times the bits. The product of dominating two-level pairs dominates: given
    the other runs, the density of one enters G linearly, and ``RegionLaw``'s argument holds run by run.
    """

    mechanism: Mechanism
    runs: int
    epsilon: float = field(init=False)

    name = "repeated"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: several runs of another mechanism, each with a part of ε"
    built_from_numbers = False
    tuning = ()
    tight = False

    def __post_init__(self) -> None:
        inner = self.mechanism
        vectors = isinstance(inner, Mechanism) and isinstance(inner.values, UnitBall)
        if not (vectors and isinstance(inner.law, RegionLaw)):
            raise TypeError(f"Repeated: mechanism must be one for vectors in the unit ball, got {self.mechanism!r}.")
        object.__setattr__(self, "runs", argument.count("Repeated", "runs", self.runs))
        object.__setattr__(self, "epsilon", above(self.runs * Fraction(self.mechanism.epsilon)))

    @property
    def dimension(self) -> int:
        ball = self.mechanism.values
        assert isinstance(ball, UnitBall)
        return ball.dimension

    @property
    def region(self) -> OwnRegion:
        """The law of one run."""
        law = self.mechanism.law
        assert isinstance(law, RegionLaw)
        return law.region

    def settings(self) -> dict[str, Any]:
        """The settings of the mechanism that is run, and how often."""
        inner = self.mechanism.settings() | {"epsilon": self.epsilon}
        return inner | {"mechanism": self.mechanism.name, "runs": self.runs}

    # --- running it -------------------------------------------------------------------------------------------

    def check(self, values: Any) -> Array:
        try:
            return self.mechanism.check(values)
        except (TypeError, ValueError) as refusal:
            raise type(refusal)(f"Repeated {refusal}") from None

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return np.stack([self.mechanism.randomize(values, source) for _ in range(self.runs)], axis=1)

    @property
    def message_bits(self) -> int:
        return 8 * self.runs * self.mechanism.message_bytes

    def pack(self, messages: Array) -> Bytes:
        parts = [self.mechanism.pack(messages[:, run]) for run in range(self.runs)]
        return np.concatenate(parts, axis=1)

    def unpack(self, wire: Bytes) -> Array:
        rows = np.asarray(wire)
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != self.message_bytes:
            width = self.message_bytes
            raise ValueError(f"Repeated: expected rows of {width} bytes, got {rows.dtype} of shape {rows.shape}.")
        return np.stack([self.mechanism.unpack(part) for part in np.split(rows, self.runs, axis=1)], axis=1)

    # --- reading the messages ---------------------------------------------------------------------------------

    def accumulate(self, messages: Array) -> Array:
        return self.mechanism.accumulate(messages.reshape(-1, *messages.shape[2:]))

    def finish(self, total: Array, users: int) -> Estimate:
        estimate = self.mechanism.finish(total, users * self.runs)
        return Estimate(estimate.value, estimate.variance, users)

    def truth(self, values: Any) -> Floats:
        return self.mechanism.truth(self.check(values))

    def variance(self, values: Any) -> Floats:
        return np.asarray(self.mechanism.variance(self.check(values)) / self.runs)

    # --- its privacy ------------------------------------------------------------------------------------------

    @cached_property
    def _classes(self) -> list[tuple[fmpq, fmpq, fmpq]]:
        """Runs in the first own set, in the second, elsewhere: the product law of each number of them."""
        share = rational(self.region.share)
        low = rational(self.region.uniform_share)
        high = low + (1 - low) / share
        classes = []
        for first, second in _two_parts(self.runs):
            ways = math.comb(self.runs, first) * math.comb(self.runs - first, second)
            mass = ways * share ** (first + second) * (1 - 2 * share) ** (self.runs - first - second)
            others = low ** (self.runs - first - second)
            densities = (high**first * low**second * others, low**first * high**second * others, low**self.runs)
            classes.append((mass * densities[0], mass * densities[1], mass * densities[2]))
        return classes

    def blankets(self) -> Sequence[HidingPair]:
        return [exact_pair(self._classes, symmetric=True)]

    def attacks(self) -> Sequence[HidingPair]:
        """None whose exact law is known."""
        return ()

    def variation_ratio(self) -> VariationRatio:
        one = self.region.uniform_share
        ratio = above((1 + (1 - one) / (one * self.region.share)) ** self.runs)
        gap = sum((first - second for first, second, _ in self._classes if first > second), fmpq(0))
        return VariationRatio(p=ratio, beta=above(Fraction(int(gap.p), int(gap.q))), q=ratio)

    def probe(self) -> Array:
        return self.mechanism.probe()

    def table(self) -> OutputTable:
        single = self.mechanism.table()
        if len(single.messages) ** self.runs > MOST_MESSAGES_OF_A_TABLE:
            raise ValueError(
                f"Repeated: a table needs fewer messages, got {len(single.messages)} in each of {self.runs} runs."
            )
        picks = list(itertools.product(range(len(single.messages)), repeat=self.runs))
        rows = tuple(
            tuple(math.prod((row[k] for k in pick), start=Fraction(1)) for pick in picks)
            for row in single.probabilities
        )
        return OutputTable(single.inputs, single.messages[np.array(picks)], rows)

    @classmethod
    def examples(cls) -> Sequence[Repeated]:
        return [cls(SQKR(0.5, 2), 2), cls(SQKR(1.0, 2, signs=1), 1)]


def _two_parts(whole: int) -> Iterator[tuple[int, int]]:
    for first in range(whole + 1):
        for second in range(whole - first + 1):
            yield first, second
