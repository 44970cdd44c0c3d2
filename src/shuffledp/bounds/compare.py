"""Every bound side by side for one randomizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shuffledp import argument, figure as figures
from shuffledp.bounds import BOUNDS
from shuffledp.bounds.amplify import amplify
from shuffledp.document import epsilon_text, rounded_down
from shuffledp.errors import NotApplicable
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue
from shuffledp.readable import Readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOUR = "#0b3c5d"


@dataclass(frozen=True)
class ComparedBound:
    """One bound's answer, or why it has none."""

    bound: str
    theorem: str
    value: BoundValue | None
    reason: str = ""

    def said(self) -> str:
        """In one line."""
        if self.value is None:
            return f"– {self.reason}"
        return f"{epsilon_text(self.value.upper)} {'' if self.value.guarantee else 'NOT a guarantee, '}{self.theorem}"


@dataclass(frozen=True)
class Comparison(Readable):
    """All answers, smallest guarantee first, then what is no guarantee, then what does not apply.

    ``rows``: one for each bound. ``lower``: what no guarantee can be below, by an attack; None where none is known.

    >>> import shuffledp as sdp
    >>> found = sdp.compare(sdp.KRR(epsilon=1.0, options=4), users=1000, delta=1e-6)
    >>> [row.bound for row in found.rows][:3]
    ['optimal', 'variation-ratio', 'all-crowds']
    >>> f"{found.lower:.4f}", f"{found.best.value.upper:.4f}"
    ('0.1177', '0.1178')
    """

    rows: tuple[ComparedBound, ...]
    users: int
    """Users who hide each other, colluding ones taken away."""
    messages: int
    """Messages that hide each other."""
    lower: float | None
    why_no_attack: str = ""
    """Why there is no ``lower``, where the mechanism says so."""

    @property
    def best(self) -> ComparedBound:
        """The smallest certified guarantee."""
        return next(row for row in self.rows if row.value is not None and row.value.guarantee)

    def plot(self) -> Figure:
        """ε of every bound that applies, as bars of a matplotlib figure: filled where it is a guarantee."""
        figure, axes = figures.empty()
        shown = [
            (row.bound, row.value) for row in self.rows if row.value is not None and math.isfinite(row.value.upper)
        ]
        for name, value in reversed(shown):
            axes.barh(name, value.upper, color="#0b3c5d" if value.guarantee else "none", edgecolor="#0b3c5d")
        if self.lower is not None:
            axes.axvline(self.lower, color="black", linestyle=":", label="attack: no less is possible")
            axes.legend()
        axes.set(xlabel="ε")
        axes.set_title(self.heading, fontsize=10)
        return figure

    @property
    def heading(self) -> str:
        given = next((row.value.delta for row in self.rows if row.value is not None), None)
        at = "" if given is None else f" at δ = {given:g}"
        hidden = "" if self.messages == self.users else f", {self.messages:,} messages that hide each other"
        return f"ε{at} for {self.users:,} users{hidden}"

    def summary(self) -> list[tuple[str, str]]:
        said = [(row.bound, row.said()) for row in self.rows]
        return [*said, ("attack", self._attack_text())]

    def _attack_text(self) -> str:
        if self.lower is not None:
            return f"attains {rounded_down(self.lower)}"
        return f"none known: {self.why_no_attack.removesuffix('.')}" if self.why_no_attack else "none known"


def compare(randomizer: Randomizer, users: float, delta: float, *, colluding: float = 0) -> Comparison:
    """ε at δ by every bound, and the lower bound of the strongest known attack.

    ``randomizer``, ``users`` and ``colluding`` are as in ``amplify``. The result prints as a table, and ``best`` is its
    smallest guarantee.

    >>> import shuffledp as sdp
    >>> found = sdp.compare(sdp.KRR(epsilon=1.0, options=4), users=1000, delta=1e-6)
    >>> found.best.bound
    'optimal'
    >>> found.lower > 0.117, found.best.value.upper < 0.118
    (True, True)
    """
    users, delta = argument.count("compare", "users", users), argument.open_probability("compare", "delta", delta)
    colluding = argument.count("compare", "colluding", colluding, at_least=0)
    rows: list[ComparedBound] = []
    lower: float | None = None
    hidden = 0
    for bound in BOUNDS:
        name = bound.name
        try:
            with argument.said_by("compare", "amplify"):
                curve = amplify(randomizer, users, bound=name, colluding=colluding)
            hidden, value = curve.messages, curve.epsilon(delta)
        except NotApplicable as error:
            rows.append(ComparedBound(name, bound.theorem, None, error.reason))
            continue
        rows.append(ComparedBound(name, value.theorem, value))
        if lower is None:
            lower = value.lower
    rows.sort(key=_order)
    why = randomizer.why_no_attack if lower is None else ""
    return Comparison(tuple(rows), users - colluding, hidden, lower, why)


def _order(row: ComparedBound) -> tuple[bool, bool, float]:
    if row.value is None:
        return True, True, 0.0
    return False, not row.value.guarantee, row.value.upper
