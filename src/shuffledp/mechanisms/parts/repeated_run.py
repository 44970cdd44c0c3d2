"""Several runs of one randomizer on the same value, sent as one message: the parts around those of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp.array import Array, Bytes, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import UserValues
from shuffledp.mechanisms.parts.wire import Mask, Wire


@dataclass(frozen=True)
class RepeatedValues(UserValues):
    """The values of one run; a refusal says who asked."""

    who: str
    single: UserValues

    def check(self, values: Any) -> Array:
        try:
            return self.single.check(values)
        except (TypeError, ValueError) as refusal:
            raise type(refusal)(f"{self.who} {refusal}") from None

    def probe(self) -> Array:
        return self.single.probe()

    @property
    def range(self) -> tuple[float, float]:
        return self.single.range


@dataclass(frozen=True)
class RepeatedWire(Wire):
    """The runs' messages, each in whole bytes, one after the other; in memory along the second axis."""

    who: str
    single: Wire
    runs: int

    @property
    def bits(self) -> int:
        return 8 * self.runs * self.single.bytes

    @property
    def expected(self) -> str:
        return f"{self.runs} times {self.single.expected}"

    def pack(self, messages: Array) -> Bytes:
        return np.concatenate([self.single.pack(messages[:, run]) for run in range(self.runs)], axis=1)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        found = [self.single.read(np.ascontiguousarray(part)) for part in np.split(rows, self.runs, axis=1)]
        return np.stack([messages for messages, _ in found], axis=1), np.all([good for _, good in found], axis=0)


@dataclass(frozen=True)
class RepeatedReading(Reading):
    """The mean over all runs of all users, as if each run were a user."""

    single: Reading
    runs: int

    def accumulate(self, messages: Array) -> Array:
        return self.single.accumulate(messages.reshape(-1, *messages.shape[2:]))

    def finish(self, total: Array, users: int) -> Estimate:
        estimate = self.single.finish(total, users * self.runs)
        return Estimate(estimate.value, estimate.variance, users)

    def sways(self, messages: float) -> Sequence[Sway] | None:
        """A mean over runs that are all alike is what one of them is."""
        return self.single.sways(messages)

    def truth(self, values: Array) -> Floats:
        return self.single.truth(values)

    def variance(self, values: Array) -> Floats:
        return np.asarray(self.single.variance(values) / self.runs)
