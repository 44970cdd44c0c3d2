"""Every bound side by side for one randomizer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shuffledp import argument, figure as figures
from shuffledp.bounds import BOUNDS
from shuffledp.bounds.schedule import Schedule
from shuffledp.document import epsilon_is, epsilon_text, rounded_down, typed
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
    schedule: Schedule | None = None
    """Who takes part and how often, where it is not everybody once."""
    known: BoundValue | None = None
    """The best guarantee if everybody learns who was drawn; None where nobody is."""

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
        at = "" if given is None else f" at δ = {typed(given)}"
        hidden = "" if self.messages == self.users else f", {self.messages:,} messages that hide each other"
        rounds = "" if self.schedule is None or self.schedule.rounds == 1 else f", {self.schedule.rounds:,} rounds"
        return f"ε{at} for {self.users:,} users{rounds}{hidden}"

    def summary(self) -> list[tuple[str, str]]:
        said = [(row.bound, row.said()) for row in self.rows]
        return [*said, ("attack", self._attack_text()), *self.told_schedule()]

    def told_schedule(self) -> list[tuple[str, str]]:
        """How the users are drawn, how often, and what the guarantees rest on."""
        if self.schedule is None:
            return []
        left = [] if self.known is None else self.schedule.condition(epsilon_is(self.known.upper))
        return [*self.schedule.rows(), *left]

    def _attack_text(self) -> str:
        if self.lower is not None:
            return f"attains {rounded_down(self.lower)}"
        return f"none known: {self.why_no_attack.removesuffix('.')}" if self.why_no_attack else "none known"


def compare(
    randomizer: Randomizer,
    users: float | None = None,
    delta: float | None = None,
    *,
    colluding: float = 0,
    rounds: float = 1,
    of: float | None = None,
    rate: Any = None,
) -> Comparison:
    """ε at δ by every bound, and the lower bound of the strongest known attack.

    ``randomizer``, ``users`` and ``colluding`` are as in ``amplify``; ``rounds``, ``of`` and ``rate`` as in
    ``Schedule``. The result prints as a table, and ``best`` is its smallest guarantee.

    >>> import shuffledp as sdp
    >>> found = sdp.compare(sdp.KRR(epsilon=1.0, options=4), users=1000, delta=1e-6)
    >>> found.best.bound
    'optimal'
    >>> found.lower > 0.117, found.best.value.upper < 0.118
    (True, True)
    """
    with argument.said_by("compare", "Schedule"):
        schedule = Schedule(users, of, rate, rounds)  # type: ignore[arg-type]
    delta = argument.open_probability("compare", "delta", delta)
    colluding = argument.count("compare", "colluding", colluding, at_least=0)
    rows: list[ComparedBound] = []
    lower: float | None = None
    hidden = 0
    for bound in BOUNDS:
        name = bound.name
        try:
            with argument.said_by("compare", "amplify", "subsample", "poisson"):
                curve = schedule.curve(randomizer, bound=name, colluding=colluding)
            hidden, value = curve.messages, curve.epsilon(delta)
        except NotApplicable as error:
            rows.append(ComparedBound(name, bound.theorem, None, error.reason))
            continue
        rows.append(ComparedBound(name, value.theorem, value))
        if lower is None:
            lower = value.lower
    rows.sort(key=_order)
    why = randomizer.why_no_attack if lower is None and not schedule.is_sampled else ""
    found = Comparison(tuple(rows), schedule.expected - colluding, hidden, lower, why, schedule)
    if not schedule.is_sampled:
        return found
    known = schedule.known(randomizer, bound=found.best.bound, colluding=colluding).epsilon(delta)
    return replace(found, known=known)


def _order(row: ComparedBound) -> tuple[bool, bool, float]:
    if row.value is None:
        return True, True, 0.0
    return False, not row.value.guarantee, row.value.upper
