"""The report of counts over time that are released day by day: how far it is, and one promise for all days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffledp.collection.ask import NODES
from shuffledp.collection.report import Report
from shuffledp.tasks.question import Quantile, RangeCount


@dataclass(frozen=True)
class RunningReport(Report):
    """The days that are over, told. Nobody says how many users there are: ``guarantee`` holds for any number."""

    def document(self) -> dict[str, Any]:
        """report.json: without a number of users, and without nodes, of which some are not over."""
        told = {name: value for name, value in super().document().items() if name != NODES}
        days = self.quantities[0].labels
        return told | {
            "users": None,
            "guarantee": told["guarantee"] | {"users": None},
            "days": {"released": len(days), "last": days[-1], "of": self._all_days},
        }

    def range(self, first: Any, last: Any, confidence: float | None = None) -> RangeCount:
        """Not known before all days are over."""
        raise _not_asked()

    def quantile(self, share: float, confidence: float | None = None) -> Quantile:
        """Not known before all days are over."""
        raise _not_asked()

    @property
    def _all_days(self) -> int:
        size = self.guarantee.plan.task.domain.size
        assert size is not None, "days can be counted"
        return size

    def _took_part(self, words: str = "") -> tuple[str, str]:
        days = self.quantities[0].labels
        return "days released", f"{days[0]} … {days[-1]}: {len(days):,} of {self._all_days:,}"

    def _crowd_words(self) -> str:
        return ": ".join(self._took_part())

    def _whom(self) -> str:
        return f"people of all {self._all_days:,} days held instead"

    def _quartiles(self) -> list[tuple[str, str]]:
        return []

    def _rows_used(self) -> str:
        count = len(self.quantities[0].labels)
        return (
            f"{count:,} of {self._all_days:,} days are released; the promise is for all of them together, and is spent "
            f"once. Each row was taken as one person with one event in the whole time."
        )


def _not_asked() -> ValueError:
    return ValueError("ask: what is released day by day has running counts only; take the difference of two of them.")
