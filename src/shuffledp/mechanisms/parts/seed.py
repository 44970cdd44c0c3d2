"""Seeds that stand for messages: how they are expanded, sent and read, and what is known of their law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shuffledp.array import Array, Bytes, Floats
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.reference import Reference
from shuffledp.mechanisms.parts.seed_guarantee import SeedGuarantee
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.wire import Mask, Wire, every
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.prg import PseudorandomGenerator, Seeds

WORDS_AT_ONCE = 1 << 17
"""Words expanded at a time, so that they and what becomes of them stay in the processor's cache."""


@dataclass(frozen=True)
class SeedExpansion:
    """A seed s stands for the message R_∅(G(s)): the draw from the reference law by the generator's words."""

    reference: Reference
    generator: PseudorandomGenerator

    @property
    def rows_at_once(self) -> int:
        return max(1, WORDS_AT_ONCE // int(self.reference.words))

    def parts(self, seeds: Seeds) -> Iterator[tuple[slice, Array]]:
        """The messages that seeds stand for, some rows at a time."""
        for start in range(0, len(seeds), self.rows_at_once):
            rows = slice(start, start + self.rows_at_once)
            words = self.generator.expand(seeds[rows], self.reference.words)
            yield rows, self.reference.messages(words)


@dataclass(frozen=True)
class SeedWire(Wire):
    """A message is a seed of whole bytes, as it is sent."""

    who: str
    seed_bits: int

    @property
    def bits(self) -> int:
        return self.seed_bits

    @property
    def expected(self) -> str:
        return f"seeds of {self.seed_bits} bits"

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        return rows, every(rows)


@dataclass(frozen=True)
class SeedReading(Reading):
    """The ``inner`` reading of the messages that the seeds stand for."""

    wire: SeedWire
    expansion: SeedExpansion
    inner: Reading

    def expand(self, messages: Array) -> Array:
        """The randomizer's messages that the seeds stand for."""
        return np.concatenate([part for _, part in self.expansion.parts(self.wire.unpack(messages))])

    def accumulate(self, messages: Array) -> Array:
        """Some seeds at a time: what they stand for may be far longer."""
        total: Array | None = None
        for _, part in self.expansion.parts(self.wire.unpack(messages)):
            added = np.asarray(self.inner.accumulate(part))
            total = added if total is None else total + added
        if total is None:
            raise ValueError(f"{self.wire.who}: expected at least one message to estimate from, got none.")
        return total

    def finish(self, total: Array, users: int) -> Estimate:
        return self.inner.finish(total, users)

    @property
    def counted(self) -> int | None:
        return self.inner.counted

    @property
    def whole_bytes(self) -> int:
        return self.inner.whole_bytes

    def some(self, asked: Asked) -> Reading:
        return replace(self, inner=self.inner.some(asked))

    def variance_where(self, held: Floats, users: float) -> Floats | None:
        return self.inner.variance_where(held, users)

    def sways(self, messages: float) -> Sequence[Sway] | None:
        """As if some seed stood for every message: a liar tries as many seeds as it takes."""
        return self.inner.sways(messages)

    def truth(self, values: Array) -> Floats:
        return self.inner.truth(values)

    def variance(self, values: Array) -> Floats:
        return self.inner.variance(values)


@dataclass(frozen=True)
class SeedLaw(Law):
    """The law of seeds: parameters from those of the ``inner`` law, a blanket from the least and the largest density.

    Every value's law has a density f to uniform seeds between two levels, whatever it is there. Of all laws of
    (f(x), f(x')) on that square with means 1 the one on its corners, (high, low) and (low, high) as often as can be,
    makes the mean of every convex function of f(x) − e^ε·f(x') largest: that is the law of two regions that share as
    little as they can, and the least level times the uniform law is in every other user's. A value that stays is one
    more law on that square.

    Theorem: two-level randomizers, as in ``RegionLaw``, for densities between the levels.
    """

    who: str
    guarantee: SeedGuarantee
    inner: Law

    why_no_attack = "how likely a seed is depends on a cryptographic generator, of which no law is known exactly."

    @property
    def covers_mixtures(self) -> bool:  # type: ignore[override]
        return self.guarantee.pure

    @cached_property
    def levels(self) -> RegionLaw:
        """Two regions with these levels, where δ = 0."""
        low, high = self.guarantee.levels
        share = (1 - low) / (high - low)
        region = OwnRegion(self.who, self.guarantee.seeds.replacement_epsilon, share, low)
        return RegionLaw(region, only_one=min(share, 1 - share), covers_mixtures=True)

    def variation_ratio(self) -> VariationRatio:
        missed = self.guarantee.seeds.replacement_delta
        if missed:
            raise NotApplicable(
                self.who, f"the randomizer is private only up to δ = {missed:.3g}, so there is no largest ratio."
            )
        return self.guarantee.variation_ratio(self.inner.variation_ratio())

    def blankets(self) -> Sequence[HidingPair]:
        return self.levels.blankets() if self.guarantee.pure else ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()
