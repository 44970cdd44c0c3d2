"""A row of a table of parameters: what is printed, what the mechanism says, and what enumeration attains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.reproduction.sheet import Chart

Rows = Sequence[Sequence[Fraction]]
NEAR = 2e-3
"""Relative: a law on a grid is this near to the one on a line."""


@dataclass(frozen=True)
class ParameterRow:
    """One mechanism: its printed formula for β and its value, our β, the total variation of its own table."""

    name: str
    mechanism: Any
    formula: str
    published: float
    attained: float | None = None

    @property
    def sound(self) -> float:
        return float(self.mechanism.variation_ratio().beta)

    @property
    def compared(self) -> str:
        """Whether the printed β is right, above the total variation, or below it."""
        true = self.sound if self.attained is None else self.attained
        if abs(self.published - true) <= NEAR * true:
            return "right"
        return "sound, not tight" if self.published > true else "too small"

    def cells(self) -> tuple[Any, ...]:
        return (self.name, repr(self.mechanism), self.formula, self.published, self.sound, self.attained, self.compared)


def total_variation(mechanism: Mechanism) -> float:
    """The largest total variation of two rows of a mechanism's own table, enumerated."""
    return largest(mechanism.table().probabilities)


def largest(rows: Rows) -> float:
    found = (sum(abs(a - b) for a, b in zip(one, two, strict=True)) / 2 for one, two in itertools.combinations(rows, 2))
    return float(max(found))


def largest_ratio(above: Rows, below: Rows) -> float:
    """The largest ratio of an entry to the one of another row in the same column."""
    pairs = ((a, b) for one in above for two in below for a, b in zip(one, two, strict=True) if a > 0)
    return max(math.inf if b == 0 else float(a / b) for a, b in pairs)


COLUMNS = ("mechanism", "instance", "printed", "published", "sound", "attack", "print_is")
"""The last column but one is the total variation that enumerating the mechanism attains."""


def panel(title: str, rows: Sequence[ParameterRow]) -> Chart:
    """β as printed, as ours and as attained, a row for each mechanism."""
    lines = {
        "printed formula": [(row.published, float(place)) for place, row in enumerate(rows)],
        "sound": [(row.sound, float(place)) for place, row in enumerate(rows)],
        "attained, by enumeration": [
            (row.attained, float(i)) for i, row in enumerate(rows) if row.attained is not None
        ],
    }
    return Chart(title, "total variation β", "", lines, [row.name for row in rows])
