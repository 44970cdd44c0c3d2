"""Parts of mechanisms that are not yet assembled from parts: each asks the mechanism itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from shuffledp.array import Array, Bytes, Floats, Integers, Words
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.reading import Reading, SimulatedReading
from shuffledp.mechanisms.parts.reference import Reference
from shuffledp.mechanisms.parts.user_values import UserValues
from shuffledp.mechanisms.parts.wire import Wire
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio


@dataclass(frozen=True)
class LegacyValues(UserValues):
    of: Any

    def check(self, values: Any) -> Array:
        return np.asarray(self.of.check(values))

    def probe(self) -> Array:
        return np.asarray(self.of.probe())

    @property
    def range(self) -> tuple[float, float]:
        return -1.0, 1.0


@dataclass(frozen=True)
class LegacyLaw(Law):
    of: Any

    @property
    def tight(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.of, "tight", True))

    @property
    def covers_mixtures(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.of, "covers_mixtures", False))

    def variation_ratio(self) -> VariationRatio:
        found: VariationRatio = self.of.variation_ratio()
        return found

    def blankets(self) -> Sequence[HidingPair]:
        found: Sequence[HidingPair] = self.of.blankets()
        return found

    def attacks(self) -> Sequence[HidingPair]:
        found: Sequence[HidingPair] = self.of.attacks()
        return found

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        """Mechanisms with two messages override the question itself."""
        return None


@dataclass(frozen=True)
class LegacyWire(Wire):
    of: Any

    @property
    def bits(self) -> int:
        return int(self.of.message_bits)

    def pack(self, messages: Array) -> Bytes:
        return np.asarray(self.of.pack(messages))

    def unpack(self, wire: Bytes) -> Array:
        return np.asarray(self.of.unpack(wire))


@dataclass(frozen=True)
class LegacyReading(Reading):
    of: Any

    def accumulate(self, messages: Array) -> Array:
        return np.asarray(self.of.accumulate(messages))

    def finish(self, total: Array, users: int) -> Estimate:
        found: Estimate = self.of.finish(total, users)
        return found

    def truth(self, values: Array) -> Floats:
        return np.asarray(self.of.truth(values))

    def variance(self, values: Array) -> Floats:
        return np.asarray(self.of.variance(values))


@dataclass(frozen=True)
class LegacySimulated(LegacyReading, SimulatedReading):
    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        found: Estimate = self.of.simulate(held, users, rng)
        return found


@dataclass(frozen=True)
class LegacyReference(Reference):
    of: Any

    @property
    def ratio(self) -> float:
        return float(self.of.reference_ratio)

    @property
    def deletion_epsilon(self) -> float:
        return float(self.of.deletion_epsilon)

    @property
    def words(self) -> int:
        return int(self.of.reference_words)

    def messages(self, words: Words) -> Array:
        return np.asarray(self.of.reference_messages(words))

    def acceptance(self, values: Array, messages: Array) -> Floats:
        return np.asarray(self.of.acceptance(values, messages))

    @property
    def acceptance_error(self) -> float:
        return float(self.of.acceptance_error)


def reading_of(mechanism: Any) -> Reading:
    return LegacySimulated(mechanism) if hasattr(mechanism, "simulate") else LegacyReading(mechanism)


def reference_of(mechanism: Any) -> Reference | None:
    return LegacyReference(mechanism) if hasattr(mechanism, "reference_messages") else None
