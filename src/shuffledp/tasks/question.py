"""What may be asked of an ordered domain after the collection: users in a range, and which value is a quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffledp import argument
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.consistent_ranges import ConsistentRanges
from shuffledp.mechanisms.parts.quantile import RunningCount
from shuffledp.readable import Readable
from shuffledp.tasks.domain import Values

WHO = "ask"


@dataclass(frozen=True)
class RangeCount(Readable):
    """How many users hold a value from ``first`` up to and including ``last``; ``print`` it to read it.

    ``value`` is the estimate, ``standard_error`` how far it is off, ``low`` and ``high`` its confidence interval.

    >>> import shuffledp as sdp
    >>> found = sdp.tasks.RangeCount("5", "20", 120.0, 10.0, 100.4, 139.6)
    >>> print(found)
    From 5 up to and including 20
      users           120
      standard error  10
      interval        100.4 … 139.6
    """

    first: str
    last: str
    value: float
    standard_error: float
    low: float
    high: float

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "range": [self.first, self.last], "estimate": self.value, "standard_error": self.standard_error,
            "low": self.low, "high": self.high,
        }  # fmt: skip

    @property
    def heading(self) -> str:
        return f"From {self.first} up to and including {self.last}"

    def summary(self) -> list[tuple[str, str]]:
        """The answer in a few lines."""
        return [
            ("users", f"{self.value:,.6g}"),
            ("standard error", f"{self.standard_error:,.4g}"),
            ("interval", f"{self.low:,.6g} … {self.high:,.6g}"),
        ]


@dataclass(frozen=True)
class Quantile(Readable):
    """The first value that at least a ``share`` of the users do not exceed; ``print`` it to read it.

    ``low`` and ``high`` are the first and last value that it may be, with the confidence asked for.

    >>> import shuffledp as sdp
    >>> print(sdp.tasks.Quantile(0.5, "17", "16", "19"))
    Quantile 0.5
      value     17
      interval  16 … 19
    """

    share: float
    value: str
    low: str
    high: str

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"quantile": self.share, "value": self.value, "low": self.low, "high": self.high}

    @property
    def heading(self) -> str:
        return f"Quantile {self.share:g}"

    def summary(self) -> list[tuple[str, str]]:
        """The answer in a few lines."""
        return [("value", self.value), ("interval", f"{self.low} … {self.high}")]


@dataclass(frozen=True)
class Questions:
    """An estimate of an ordered domain, ready to be asked."""

    domain: Values
    answers: ConsistentRanges
    estimate: Estimate

    def range(self, first: Any, last: Any, confidence: float) -> RangeCount:
        """How many users hold a value from ``first`` up to and including ``last``: labels, or numbers of options."""
        low, high = (self.domain.place(WHO, end) for end in (first, last))
        if low > high:
            raise ValueError(f"{WHO}: a range goes from the first to the last value, got {first} after {last}.")
        end = self.answers.tree.values if high == self._size - 1 else high + 1
        found = self.answers.ranges(self.estimate, [(low, end)])
        bounds = found.interval(confidence)
        return RangeCount(
            self.domain.label(low), self.domain.label(high), float(found.value[0]), float(found.standard_error[0]),
            float(bounds[0][0]), float(bounds[1][0]),
        )  # fmt: skip

    def quantile(self, share: Any, confidence: float) -> Quantile:
        """The first value that at least this share of the users do not exceed."""
        part = argument.open_probability(WHO, "a quantile", share)
        found = RunningCount(self.answers, self.estimate, self._size).quantile(part, confidence)
        return Quantile(part, *(self.domain.label(place) for place in (found.value, found.low, found.high)))

    @property
    def _size(self) -> int:
        assert self.domain.size is not None, "an ordered domain can be counted"
        return self.domain.size
