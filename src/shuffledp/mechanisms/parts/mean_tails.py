"""Intervals of means: every mean that would not be surprised by the estimate, by the law that it would give it.

Where users hold nearly an end of the range, the messages that say otherwise are rare and far away: an estimate from
which they are missing by chance is too near to the end and states an error that is too small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shuffledp.array import Floats
from shuffledp.mechanisms.estimate import NORMAL, Tails
from shuffledp.mechanisms.parts.count_tails import CountTails, Cumulant, plain


@dataclass(frozen=True)
class MeanTails(Tails):
    """The error of the mean of numbers from ``low`` to ``high``, as that of a count of users.

    Who holds a number between both is counted in part: their ``counts`` are the share of the way from low to high.
    """

    counts: CountTails
    messages: int
    """As many as the mean is of."""
    low: float = -1.0
    high: float = 1.0

    @classmethod
    def of_messages(
        cls,
        messages: int,
        second_moment: float | Floats,
        curvature: float,
        third_slope: float | Floats | None,
        step: float = 0.0,
        start: float = 0.0,
    ) -> MeanTails:
        """Of messages with cumulants S + c·x² and t·x + 2·x³ of users who hold x, from −1 to 1, all of them the mean.

        ``step`` and ``start`` are those of the mean. A third cumulant that is not known counts as 0.
        """
        n, third = messages, Cumulant(0.0)
        if third_slope is not None:
            # With x = 2k/n − 1, and half of what a message adds.
            slope = np.asarray(third_slope)
            third = Cumulant(plain(-n * (slope + 2) / 8), plain((slope + 6) / 4), -3 / n, 2 / n**2)
        variance = _variance(n, second_moment, curvature)
        return cls(CountTails(variance, third, step * n / 2, (start + 1) * n / 2), messages)

    def at_least(self, second_moment: float, curvature: float) -> MeanTails:
        """Where the messages' variance is no less than S + c·x²."""
        return replace(self, counts=replace(self.counts, least=_variance(self.messages, second_moment, curvature)))

    def variance_of(self, means: Floats) -> Floats:
        """The variance of the estimates of these means, from −1 to 1."""
        return self.counts.variance_at((means + 1) / 2 * self.messages) * (2 / self.messages) ** 2

    def some(self, places: Any) -> Tails:
        return replace(self, counts=self.counts.some(places))

    def of_ends(self) -> MeanTails:
        """Those of users who all hold one end or the other."""
        variance, third = (one.straight(self.messages) for one in (self.counts.variance, self.counts.third))
        return replace(self, counts=replace(self.counts, variance=variance, third=third))

    def reach(self, confidence: float) -> float:
        return NORMAL.reach(confidence)

    def of_sum(self, parts: float) -> Tails:
        del parts
        return NORMAL

    def moved(self, scale: float | Floats, shift: float | Floats) -> Tails:
        if np.ndim(scale) or np.ndim(shift):
            return NORMAL
        return replace(self, low=float(shift + scale * self.low), high=float(shift + scale * self.high))

    def limits(self, value: Floats, variance: Floats, users: int, confidence: float) -> tuple[Floats, Floats]:
        del users
        unit = (self.high - self.low) / self.messages
        ends = self.counts.limits((value - self.low) / unit, variance, self.messages, confidence)
        first, last = (self.low + unit * end for end in ends)
        return (first, last) if unit > 0 else (last, first)


def _variance(messages: int, second_moment: float | Floats, curvature: float) -> Cumulant:
    """S + c·x² of each message, as that of a count of users: x = 2k/n − 1, and half of what a message adds."""
    empty = plain(messages * (np.asarray(second_moment) + curvature) / 4)
    return Cumulant(empty, -curvature, curvature / messages)
