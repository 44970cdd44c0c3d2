"""How messages are read: a statistic that adds up, the unbiased estimate from it, and its exact variance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.asked import Asked
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.value_tree import ValueTree

BYTES_OF_AN_OPTION, MOST_BYTES = 64, 1 << 32
"""Of a whole histogram: about what one option takes while it is read, and what all of them may take (4 GiB)."""


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

    def of_ends(self, estimate: Estimate) -> Estimate:
        """The estimate of means where every value is known to be at an end of its range.

        Its variance may then be less: some readings take as noise that values differ from their mean.
        """
        return estimate

    def mean_square(self, total: Array, users: int) -> Floats | None:
        """The mean square of what a message adds to the estimate, where the statistic tells it."""
        del total, users
        return None

    def sways(self, messages: float) -> Sequence[Sway] | None:
        """What one user's ``messages`` messages can add to an estimated number, for each kind of number.

        Any messages that the wire admits, not only those that an honest user sends. None where it is not known.
        """
        del messages
        return None

    # --- some options only ------------------------------------------------------------------------------------

    @property
    def counted(self) -> int | None:
        """How many options there are, where the estimate is how many users hold each; None where it is not."""
        return None

    @property
    def whole_bytes(self) -> int:
        """About how much memory it takes to read all options at once."""
        return BYTES_OF_AN_OPTION * (self.counted or 0)

    def some(self, asked: Asked) -> Reading:
        """The reading of these options alone, in this order: the same values and variances as in the whole estimate.

        Here the whole is read and they are taken out of it: a reading of a domain of any size has a better way.
        """
        return PickedReading(self, asked)

    def variance_where(self, held: Floats, users: float) -> Floats | None:
        """The exact variance where so many of ``users`` hold each option, and all others are spread evenly.

        None where it is not known without going through every user.
        """
        del held, users
        return None


@dataclass(frozen=True)
class PickedReading(Reading):
    """Some numbers of the estimate of the ``whole``."""

    whole: Reading
    asked: Asked

    @property
    def counted(self) -> int:
        return len(self.asked)

    def accumulate(self, messages: Array) -> Array:
        return self.whole.accumulate(messages)

    def finish(self, total: Array, users: int) -> Estimate:
        return self.whole.finish(total, users).some(self.asked.options)

    def truth(self, values: Array) -> Floats:
        return self.whole.truth(values)[self.asked.options]

    def variance(self, values: Array) -> Floats:
        return self.whole.variance(values)[self.asked.options]

    def sways(self, messages: float) -> Sequence[Sway] | None:
        return self.whole.sways(messages)


class SimulatedReading(Reading):
    """A reading whose estimate can be drawn by its law, without drawing messages."""

    @abstractmethod
    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate where ``held`` users hold each option."""


class SomeReading(SimulatedReading):
    """Counts of the options that were asked for, out of a domain that may be far larger: nothing is as large as that.

    ``simulate`` takes how many users hold each of those.
    """

    asked: Asked

    @property
    def counted(self) -> int:
        return len(self.asked)

    def truth(self, values: Array) -> Floats:
        return self.asked.counts(values.reshape(-1)).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return self.variance_where(self.truth(values), len(values))

    @abstractmethod
    def variance_where(self, held: Floats, users: float) -> Floats: ...


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


def demand_room(who: str, options: int, taken: int) -> None:
    """Stop where all options at once would take more memory, in bytes, than they may."""
    if taken > MOST_BYTES:
        raise ValueError(
            f"{who}: all {options:,} options at once would take {taken:,} bytes, where {MOST_BYTES:,} are the most; "
            f"ask for some of them, by --options FILE or options=[…]."
        )
