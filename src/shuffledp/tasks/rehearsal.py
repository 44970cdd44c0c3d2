"""A search tried on made-up users: what was to be found and was, and what was shown besides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from shuffledp.array import Integers
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.candidates import HeldValues
from shuffledp.tasks.task import SEED, apportioned
from shuffledp.tasks.unlisted import Unlisted

ITEMS, FEWEST, USERS_OF_AN_ITEM = 1 << 17, 64, 16
"""Most and fewest items, and for how many users there is one more."""
DATA = "items by Zipf's law"


@dataclass(frozen=True)
class Rehearsal:
    """One search."""

    heavy: int
    """Items that at least as many users hold as the threshold."""
    recalled: int
    """Those of them that were found: whole, or by as many bits as a search is to reach."""
    shown: int
    """All that was shown."""
    whole: int
    """Complete values among it; the others are beginnings."""
    held: Integers
    """How many users hold each that was shown, or what begins so."""
    inside: int
    """Intervals that hold the truth."""


class Searching(ABC):
    """A task that looks for what it does not know: it is tried as a whole, not number by number."""

    @abstractmethod
    def rehearse(self, mechanism: Mechanism, crowd: MadeUp, confidence: float, rng: np.random.Generator) -> Rehearsal:
        """One whole search of these users, its counts drawn by their law, not message by message."""

    @abstractmethod
    def made_up(self, users: int) -> MadeUp:
        """So many users, who hold items by Zipf's law."""


@dataclass(frozen=True, eq=False)
class MadeUp:
    """Made-up users: different values, and how many hold each."""

    values: Any
    held: Integers
    sorted: HeldValues


@lru_cache(maxsize=4)
def zipf(values_of: Unlisted, users: int) -> MadeUp:
    """The k-th value is held by 1/k as many as the first."""
    some = min(ITEMS, max(FEWEST, users // USERS_OF_AN_ITEM))
    values = values_of.made_up(some, np.random.default_rng(SEED))
    count = len(values) if isinstance(values, np.ndarray) else len(values.ends) - 1
    shares = 1 / np.arange(1, count + 1)
    return holding(values_of, values, apportioned(shares / shares.sum(), users))


def holding(values_of: Unlisted, values: Any, held: Integers) -> MadeUp:
    """Users who hold these."""
    return MadeUp(values, held, HeldValues.of(values_of.code, values, held, values_of.longest))
