"""What a bound is: one theorem on privacy amplification by shuffling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import ClassVar

from flint import arb

from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import PrivacyCurve, Source
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio


class Pace(IntEnum):
    """When ``best`` asks a bound: what is known by then may spare it."""

    AT_ONCE = 0
    LATER = 1
    SLOW = 2
    """It takes seconds rather than milliseconds: a quick answer leaves it out."""


class Bound(ABC):
    """One theorem that turns what an object offers into a privacy curve of its shuffled output.

    A new one of ours is also named in ``shuffledp.bounds.BOUNDS``, which alone decides what a guarantee rests on.
    One's own is passed by hand: ``amplify(randomizer, users, bound=[MyBound()])``.
    """

    name: ClassVar[str]
    theorem: ClassVar[str]
    summary: ClassVar[str]
    guarantees: ClassVar[bool] = False
    """Whether every curve of this bound is a guarantee: a bound says so, or ``best`` does not use it."""
    slow: ClassVar[bool] = False
    """Whether it mostly takes seconds rather than milliseconds; ``pace`` tells for one randomizer."""
    never_better_than: ClassVar[str | None] = None
    """A bound that is provably at least as tight wherever this one applies; ``best`` then skips this one."""

    @abstractmethod
    def curve(self, randomizer: Randomizer, users: int) -> PrivacyCurve:
        """The curve for ``users`` shuffled messages; raises NotApplicable with the reason where it does not apply."""

    def pace(self, randomizer: Randomizer, users: int) -> Pace:
        """When it is asked about so many messages of this randomizer."""
        return Pace.SLOW if self.slow else Pace.AT_ONCE

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def parameters_of(self, randomizer: Randomizer) -> VariationRatio:
        return randomizer.variation_ratio()

    def source(self, users: int, *, guarantee: bool | None = None, note: str = "") -> Source:
        """Where a curve of this bound comes from; a guarantee if all are, unless this one is known better."""
        return Source(self.name, self.theorem, users, self.guarantees if guarantee is None else guarantee, note)


def need(bound: str, holds: object, inequality: str, left: arb, right: arb) -> None:
    """Refuse by name unless the inequality certainly holds."""
    if not holds:
        raise NotApplicable(bound, f"needs {inequality}, got {float(left):.6g} against {float(right):.6g}.")
