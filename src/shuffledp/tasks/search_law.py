"""What a search finds, from the exact law of its noise: how many users are found how surely, and what nobody holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shuffledp.array import Array, Floats, Integers

SURELY, HARDLY = 0.99, 0.01


@dataclass(frozen=True)
class SearchLaw:
    """A search over rounds, in each of which a count has Poisson noise of this ``mean``, taken off on average.

    A candidate survives a round where its estimate is above ``keep`` users, and is shown where in the last one it is
    above ``show``. There are at most ``options`` candidates.

    Theorem: the noise of a candidate is a Poisson number that no value changes, independent of all others and of all
    other rounds, whatever was asked because of them. So whoever begins with a candidate's bits counts for it, and an
    item of c users survives each round at least with P(N > keep + mean − c).
    """

    mean: float
    rounds: int
    keep: float
    show: float
    options: int

    def chance(self, users: Array | float, above: float) -> Floats:
        """The probability that the estimate of so many users is above a number."""
        from scipy.special import pdtrc

        beyond = np.floor(above + self.mean - np.asarray(users, dtype=np.float64))
        return np.where(beyond < 0, 1.0, pdtrc(np.maximum(beyond, 0.0), self.mean))

    def found(self, users: Array | float) -> Floats:
        """The least probability with which an item of so many users is found."""
        return np.asarray(self.chance(users, self.keep) ** (self.rounds - 1) * self.chance(users, self.show))

    @property
    def threshold(self) -> int:
        """The fewest users of whom an item is found with 99% probability."""
        return _least(lambda users: float(self.found(users)) >= SURELY, self._most)

    @property
    def floor(self) -> int:
        """The most users of whom an item is shown with at most 1% probability, whatever else there is."""
        return _least(lambda users: float(self.chance(users, self.show)) > HARDLY, self._most) - 1

    @property
    def false_finds(self) -> float:
        """At most so many candidates that nobody holds are shown on average."""
        return self.options * float(self.chance(0, self.show))

    @property
    def kept_by_noise(self) -> float:
        """At most so many that nobody holds survive a round."""
        return self.options * float(self.chance(0, self.keep))

    @property
    def _most(self) -> int:
        return math.ceil(self.show + self.keep + 40 * math.sqrt(self.mean) + 100)

    def interval(self, value: Floats, above: float, confidence: float) -> tuple[Floats, Floats]:
        """Intervals for the users behind estimates that are seen only because they are above a number.

        Theorem: given that it is seen, an estimate is the law above cut off below ``above``; it grows with c, as the
        Poisson law is log-concave. Tests of both tails turned round hold the truth with at least this probability,
        given that it is seen. The estimate itself is kept inside.
        """
        tail = (1 - confidence) / 2
        seen = np.rint(value + self.mean)
        # At least as large; at most as large, both among those that are seen.
        low = _first(lambda users: self._at_least(seen, users, above) >= tail, seen)
        high = _first(lambda users: self._at_most(seen, users, above) < tail, seen) - 1
        return np.minimum(low, np.maximum(value, 0.0)), np.maximum(high, value)

    def _at_least(self, seen: Floats, users: Integers, above: float) -> Floats:
        return self.chance(users, seen - 1 - self.mean) / self.chance(users, above)  # type: ignore[arg-type]

    def _at_most(self, seen: Floats, users: Integers, above: float) -> Floats:
        return 1.0 - self.chance(users, seen - self.mean) / self.chance(users, above)  # type: ignore[arg-type]


def _least(holds: Callable[[int], bool], most: int) -> int:
    """The least whole number for which something holds that holds from there on."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _first(holds: Callable[[Integers], Array], ends: Floats) -> Integers:
    """The same for many at once, from 0 to two more than the ends."""
    low = np.zeros(len(ends), dtype=np.int64)
    high = np.maximum(ends, 0).astype(np.int64) + 2
    while (low < high).any():
        middle = (low + high) // 2
        here = holds(middle)
        low, high = np.where(here, low, np.minimum(middle + 1, high)), np.where(here, middle, high)
    return low
