"""How messages are read: a statistic that adds up, the unbiased estimate from it, and its exact variance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.value_tree import ValueTree


class Reading(ABC):
    """From messages to an estimate. Values are checked ones, in canonical form."""

    @abstractmethod
    def accumulate(self, messages: Array) -> Array:
        """A statistic of fixed shape that adds up over batches of messages, whatever their order."""

    @abstractmethod
    def finish(self, total: Array, users: int) -> Estimate:
        """The estimate from the added-up statistic of all messages of ``users`` users."""

    @abstractmethod
    def truth(self, values: Array) -> Floats:
        """What the estimate estimates, computed from the true values."""

    @abstractmethod
    def variance(self, values: Array) -> Floats:
        """The exact variance of the estimate per component, for these true values."""

    def sways(self, messages: float) -> Sequence[Sway] | None:
        """What one user's ``messages`` messages can add to an estimated number, for each kind of number.

        Any messages that the wire admits, not only those that an honest user sends. None where it is not known.
        """
        del messages
        return None


class SimulatedReading(Reading):
    """A reading whose estimate can be drawn by its law, without drawing messages."""

    @abstractmethod
    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate where ``held`` users hold each option."""


class CombinedReading(ABC):
    """A reading whose estimates' covariances are known exactly, so that sums of them have a known error."""

    @abstractmethod
    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """The exact variance of Σ weights·estimate, for each row of weights, where ``held`` users hold each value."""


class TreeReading(CombinedReading):
    """Estimates the counts of all nodes of a tree over an ordered domain; a flat histogram is a tree of one level."""

    tree: ValueTree

    @property
    def combines(self) -> bool:
        """Whether the covariances are known with these settings."""
        return True

    @property
    def values_free(self) -> bool:
        """Whether the noise of every node is independent of the other nodes, of the values."""
        return False

    def nodes_named(self, messages: Array) -> Integers:
        """The node that each message is about, where every message is about one."""
        raise ValueError("messages: those of this mechanism are not about one node of a tree each.")

    @property
    def empty(self) -> tuple[float, ...]:
        """The variance of an empty node's estimate on each level, in any unit."""
        return (1.0,) * self.tree.height
