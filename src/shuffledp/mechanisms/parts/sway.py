"""What one user's messages can add to an estimated number, whatever they are, beside what honest users add."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sway:
    """From ``least`` to ``most`` by any messages that the wire admits, from ``low`` to ``high`` by honest values.

    What is added to a mean is counted as if the user were the only one: among n users it is an n-th of that.
    """

    least: float
    most: float
    low: float = 0.0
    high: float = 1.0

    @property
    def users(self) -> float:
        """How far a liar is from the honest value on the other side, where an honest user goes from end to end."""
        return max(self.most - self.low, self.high - self.least) / (self.high - self.low)

    def times(self, factor: float) -> Sway:
        """Where all that messages add counts so many times; what honest users add on average stays as it is."""
        return Sway(factor * self.least, factor * self.most, self.low, self.high)

    def or_nothing(self) -> Sway:
        """Where a user's messages may also be about other numbers, and add nothing to this one."""
        return Sway(min(self.least, 0.0), max(self.most, 0.0), self.low, self.high)
