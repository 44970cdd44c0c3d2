"""Every bound side by side for one randomizer."""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp import argument
from shuffledp.bounds import BOUNDS
from shuffledp.bounds.amplify import amplify
from shuffledp.errors import NotApplicable
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue


@dataclass(frozen=True)
class Row:
    """One bound's answer, or why it has none."""

    bound: str
    theorem: str
    value: BoundValue | None
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """All answers, smallest guarantee first, then what is no guarantee, then what does not apply."""

    rows: tuple[Row, ...]
    users: int
    """Users who hide each other, colluding ones taken away."""
    messages: int
    """Messages that hide each other."""
    lower: float | None

    @property
    def best(self) -> Row:
        """The smallest certified guarantee."""
        return next(row for row in self.rows if row.value is not None and row.value.guarantee)


def compare(randomizer: Randomizer, users: float, delta: float, *, colluding: float = 0) -> Comparison:
    """ε at δ by every bound, and the lower bound of the strongest known attack."""
    rows: list[Row] = []
    lower: float | None = None
    hidden = 0
    for bound in BOUNDS:
        name = bound.name
        try:
            curve = amplify(randomizer, users, bound=name, colluding=colluding)
            hidden, value = curve.messages, curve.epsilon(delta)
        except NotApplicable as error:
            rows.append(Row(name, bound.theorem, None, error.reason))
            continue
        rows.append(Row(name, value.theorem, value))
        if lower is None:
            lower = value.lower
    rows.sort(key=_order)
    honest = argument.count("compare", "users", users) - argument.count("compare", "colluding", colluding, at_least=0)
    return Comparison(tuple(rows), honest, hidden, lower)


def _order(row: Row) -> tuple[bool, bool, float]:
    if row.value is None:
        return True, True, 0.0
    return False, not row.value.guarantee, row.value.upper
