"""What is reported: one kind of estimate for each label, with confidence intervals where there are any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shuffledp.array import Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.tasks.shape import ANY, Shape


@dataclass(frozen=True)
class Quantity:
    """One kind of estimate, for each label: its values, and a confidence interval where there is one."""

    name: str
    labels: tuple[str, ...]
    value: Floats
    standard_error: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None
    question: str = ""
    """Which question of a survey it answers."""
    shape: Shape = ANY
    adjusted: Floats | None = None
    """The values after post-processing, where that was asked for; all else is of the estimates as they are."""

    @classmethod
    def of(
        cls, name: str, labels: Iterable[str], estimate: Estimate, confidence: float, shape: Shape = ANY
    ) -> Quantity:
        """An estimate with its intervals."""
        low, high = estimate.interval(confidence)
        return cls(name, tuple(labels), estimate.value, estimate.standard_error, low, high, shape=shape)
