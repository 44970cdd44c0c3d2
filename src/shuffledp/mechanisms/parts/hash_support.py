"""Reading messages that are a random hash function and a bucket: they support the options of that bucket."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Integers
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.support import DecodedSupports, SomeSupports, SupportReading
from shuffledp.sampling.hashed_option import HashedOption


@dataclass(frozen=True)
class HashSupport(SupportReading):
    """The statistic counts messages where these are few, and is decoded at the end; else the options' support."""

    hashed: HashedOption = field(kw_only=True)

    def accumulate(self, messages: Array) -> Array:
        return self.hashed.statistic(messages)

    def supports(self, total: Array) -> Array:
        return self.hashed.supports(total)

    def some(self, asked: Asked) -> Reading:
        return DecodedSupports(self, asked) if self.hashed.counts_messages else SomeSupports(self, asked)

    def supports_of(self, messages: Array, asked: Asked) -> Integers:
        return self.hashed.supports_of(messages, asked.options)


@dataclass(frozen=True)
class InOwnBucket:
    """Whether each message names the bucket of the option beside it."""

    hashed: HashedOption

    def __call__(self, values: Array, messages: Array) -> NDArray[np.bool_]:
        return np.asarray(self.hashed.own_messages(messages // self.hashed.buckets, values) == messages)
