"""Cancelling noise for sets: every item in the clear, and messages that cancel but for little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.multimessage.cancelling_noise import ERRORS, CancellingNoise
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.crowd import SharedNoise
from shuffledp.mechanisms.parts.flood_design import flood_within
from shuffledp.mechanisms.parts.noise_share import NoiseShare
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.signed_count import SignedCounts
from shuffledp.mechanisms.parts.user_values import ItemsUpTo
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.privacy.randomizer import HasParts, Randomizer
from shuffledp.sampling.random import RandomSource

WHO = "CancellingSets"


@dataclass(frozen=True)
class CancellingSets(Mechanism, HasParts):
    """Send every item of a set as it is; all users together, or the shuffler, add noise as in ``CancellingNoise``.

    A user may hold any number of items up to ``items``, and sends one message for each. How many messages a user sends
    tells whoever sees it the size of her set, as the shuffler may; to the analyst it is hidden by the noise.

    ``options``, ``rate``, ``shape``, ``ratio``, ``honest``: as for ``CancellingNoise``. ``items``: the most items of
    one user. There is no local ε.

    Theorem: a changed set takes messages away from at most ``items`` options and adds some to at most ``items`` others:
    the losses of as many pairs of counts, which are independent, composed.
    Requires: d ≥ 2; 1 ≤ items < d.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.CancellingSets(options=50, items=3, rate=0.15, shape=20, ratio=0.97, honest=100_000)
    >>> f"{sdp.amplify(mechanism, users=100_000).epsilon(delta=1e-6).upper:.3f}"
    '0.938'
    """

    options: int
    items: int
    rate: float
    shape: float
    ratio: float
    honest: int

    name = "cancelling-sets"
    task = "set-valued"
    summary = "every item, and noise that cancels: a curator's error, private only by the shuffler"
    take_it = "For sets near a curator's error, where the shuffler is trusted."
    tuning = (Tuning("shape", False, True, 0.1, 1e3),)
    has_table = False
    designs_a_front = True

    def __post_init__(self) -> None:
        with argument.said_by(WHO, CancellingNoise.__name__):
            one = CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest)
        for name in ("options", "rate", "shape", "ratio", "honest"):
            object.__setattr__(self, name, getattr(one, name))
        object.__setattr__(self, "items", argument.count(WHO, "items", self.items))
        if self.items >= self.options:
            raise ValueError(f"{WHO}: items must be below the {self.options} options, got {self.items}.")

    @cached_property
    def one(self) -> CancellingNoise:
        """The same for users with one item each: what a pair of counts is told by."""
        return CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.one.noise, self.options, Fraction(1, max(1, self.honest)))

    @cached_property
    def values(self) -> ItemsUpTo:
        return ItemsUpTo(WHO, self.options, self.items)

    @property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw(WHO)

    @cached_property
    def crowd(self) -> SharedNoise:
        return SharedNoise(self.items, self._share.messages, self.honest, exactly=False)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(WHO, 2 * self.options)

    @cached_property
    def reading(self) -> SignedCounts:
        return SignedCounts(self.options, self.one.noise, self.honest, one_each=False)

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        return [(self.one, self.items)]

    def randomize(self, values: Array, source: RandomSource) -> Array:
        own = 2 * values[values >= 0]
        return own if self.honest == 0 else np.concatenate([own, self._share.draw(source, len(values))])

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        return self._share.draw(source, 1) if self.honest == 0 else None

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """From little error to few messages; and the least error where the shuffler draws the noise."""
        sizes = {"options": facts["options"], "items": facts["items"]}
        for times in ERRORS:
            found = flood_within(times, epsilon, delta, rounds, 2 * facts["items"])
            if found is not None:
                rate, flood = found
                noise = {"rate": rate, "shape": flood.shape, "ratio": flood.ratio}
                if times == ERRORS[0]:
                    yield {**sizes, **noise, "honest": 0}
                yield {**sizes, **noise, "honest": users}

    def table(self) -> OutputTable:
        raise ValueError(f"{WHO}: its noise has no end, so that its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingSets]:
        return [
            cls(options=5, items=2, rate=0.5, shape=3.5, ratio=0.8, honest=25),
            cls(options=6, items=3, rate=0.8, shape=6.0, ratio=0.7, honest=0),
        ]
