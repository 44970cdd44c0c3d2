"""Whoever sends messages: their law, their bytes and how many there are, which decide whether two hide each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import final

from shuffledp.mechanisms.parts.crowd import CrowdRule, OneEach
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.wire import Wire
from shuffledp.privacy.mixed_others import MixedOthers
from shuffledp.privacy.randomizer import MayMix


class Sender(MayMix):
    """Sends messages of a known law."""

    @property
    @abstractmethod
    def law(self) -> Law:
        """What a bound needs to know of its message."""

    @property
    @abstractmethod
    def wire(self) -> Wire:
        """Messages as bytes."""

    @property
    def crowd(self) -> CrowdRule:
        """How many messages each user sends, and how many hide each other."""
        return OneEach()

    @final
    def why_apart(self, other: MayMix) -> str:
        if not (self.crowd.one_each and isinstance(other, Sender) and other.crowd.one_each):
            return "not every user sends one message"
        return "" if self.wire == other.wire else "their messages have different forms"

    @final
    def hidden_among(self, groups: Sequence[MayMix]) -> Sequence[MixedOthers]:
        laws = [group.law for group in groups if isinstance(group, Sender) and not self.why_apart(group)]
        return self.law.among(laws) if len(laws) == len(groups) else ()
