"""How estimates are told: how sure their intervals are, and what is done to them afterwards, on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from shuffledp import argument
from shuffledp.collection.asking import Asking
from shuffledp.document import share_text
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.tasks.adjustment import ADDS_UP, WAYS, demand
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.task import Task

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Manner:
    """``confidence`` of the intervals, and the way of post-processing, ``post``; None for none."""

    confidence: float = CONFIDENCE
    post: str | None = None

    @classmethod
    def of(cls, who: str, confidence: float, post: str | None, task: Task, *, whole: bool = True) -> Self:
        """What was asked for, if the task's estimates can be told so; ``whole``: not of some options only."""
        level = argument.open_probability(who, "confidence", confidence, up=True)
        if post is not None:
            possible = task.post if whole else tuple(way for way in task.post if way != ADDS_UP)
            demand(who, post, possible, task.name)
        return cls(level, post)

    @property
    def sure(self) -> str:
        """The confidence in words: 95%."""
        return share_text(self.confidence)

    @property
    def post_words(self) -> str:
        """What was done to the estimates; empty where nothing was."""
        if self.post is None:
            return ""
        return (
            f"Adjusted values ({self.post}) are post-processing: {WAYS[self.post]}. They are not unbiased any more; "
            f"standard errors and intervals are those of the estimates as they are. No privacy is spent on it."
        )

    def quantities(self, asking: Asking, estimate: Estimate) -> list[Quantity]:
        """The estimate in the users' own words and units."""
        return self.adjusted(asking.plan.task, asking.plan.mechanism, estimate,
                             asking.quantities(estimate, self.confidence))  # fmt: skip

    def adjusted(self, task: Task, mechanism: Any, estimate: Estimate, found: list[Quantity]) -> list[Quantity]:
        """With the values after post-processing beside them, where that was asked for."""
        if self.post is None:
            return found
        values = task.adjusted(mechanism, estimate, found, self.post)
        return [replace(quantity, adjusted=own) for quantity, own in zip(found, values, strict=True)]

    def document(self) -> dict[str, Any]:
        """For JSON: what is not as ever."""
        told = {"confidence": self.confidence, "post": self.post}
        return {name: value for name, value in told.items() if value != getattr(USUAL, name)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``document``."""
        return cls(**{name: document[name] for name in ("confidence", "post") if name in document})


USUAL = Manner()
