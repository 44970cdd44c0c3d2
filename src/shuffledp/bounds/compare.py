"""``compare``: every bound for one randomizer, side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shuffledp._core import plotting, validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import (
    format_epsilon,
    format_epsilon_equation,
    format_exact,
    format_rounded_down,
)
from shuffledp._core.results_and_value_objects import PrintableResult
from shuffledp.bounds.participation import Participation
from shuffledp.bounds.registry import BOUNDS
from shuffledp.privacy.curve import BoundValue
from shuffledp.privacy.randomizer_interface import Randomizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAR_COLOUR = "#0b3c5d"


@dataclass(frozen=True)
class ComparedBound:
    """The value of one bound, or the reason why it does not apply."""

    bound: str
    theorem: str
    value: BoundValue | None
    reason: str = ""

    def describe(self) -> str:
        """Returns the value, or the reason, in one line."""
        if self.value is None:
            return f"– {self.reason}"
        return f"{format_epsilon(self.value.upper)} {'' if self.value.guarantee else 'NOT a guarantee, '}{self.theorem}"


@dataclass(frozen=True)
class Comparison(PrintableResult):
    """The values of all bounds: guarantees first, smallest first, then other values, then bounds that do not apply.

    Args:
        rows: One entry for each bound.
        users: Number of users who hide each other, without the colluding ones.
        messages: Number of messages that hide each other.
        lower: An ε that no guarantee can be below, by an attack; None where none is known.
        missing_attack_reason: Reason why there is no ``lower``, where the mechanism gives one.
        schedule: Participation and number of rounds.
        disclosed_sample_value: The best guarantee if everybody learns who was drawn; None where nobody is drawn.

    >>> import shuffledp as sdp
    >>> found = sdp.compare(sdp.KRR(epsilon=1.0, options=4), users=1000, delta=1e-6)
    >>> [row.bound for row in found.rows][:3]
    ['optimal', 'variation-ratio', 'all-crowds']
    >>> f"{found.lower:.4f}", f"{found.best.value.upper:.4f}"
    ('0.1177', '0.1178')
    """

    rows: tuple[ComparedBound, ...]
    users: int
    messages: int
    lower: float | None
    missing_attack_reason: str = ""
    schedule: Participation | None = None
    disclosed_sample_value: BoundValue | None = None

    @property
    def best(self) -> ComparedBound:
        """The entry with the smallest certified guarantee."""
        return next(row for row in self.rows if row.value is not None and row.value.guarantee)

    def plot(self) -> Figure:
        """Returns a matplotlib figure of ε of every bound that applies, as bars; those of guarantees are filled."""
        figure, axes = plotting.create_figure()
        shown = [
            (row.bound, row.value) for row in self.rows if row.value is not None and math.isfinite(row.value.upper)
        ]
        for name, value in reversed(shown):
            axes.barh(name, value.upper, color=BAR_COLOUR if value.guarantee else "none", edgecolor=BAR_COLOUR)
        if self.lower is not None:
            axes.axvline(self.lower, color="black", linestyle=":", label="attack: no less is possible")
            axes.legend()
        axes.set(xlabel="ε")
        axes.set_title(self.heading, fontsize=10)
        return figure

    @property
    def heading(self) -> str:
        delta = next((row.value.delta for row in self.rows if row.value is not None), None)
        at = "" if delta is None else f" at δ = {format_exact(delta)}"
        hidden = "" if self.messages == self.users else f", {self.messages:,} messages that hide each other"
        rounds = "" if self.schedule is None or self.schedule.rounds == 1 else f", {self.schedule.rounds:,} rounds"
        return f"ε{at} for {self.users:,} users{rounds}{hidden}"

    def summary(self) -> list[tuple[str, str]]:
        bounds = [(row.bound, row.describe()) for row in self.rows]
        return [*bounds, ("attack", self._attack_text()), *self.participation_rows()]

    def participation_rows(self) -> list[tuple[str, str]]:
        """Returns the rows about sampling and rounds, and the condition that the guarantees rest on."""
        if self.schedule is None:
            return []
        rows = self.schedule.rows()
        if self.disclosed_sample_value is not None:
            rows += self.schedule.condition_rows(format_epsilon_equation(self.disclosed_sample_value.upper))
        return rows

    def _attack_text(self) -> str:
        if self.lower is not None:
            return f"attains {format_rounded_down(self.lower)}"
        reason = self.missing_attack_reason.removesuffix(".")
        return f"none known: {reason}" if reason else "none known"


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
    """Computes ε at δ by every bound, and the lower bound of the strongest known attack.

    Args:
        randomizer: As in ``amplify``.
        users: Number of users a round, as in ``Participation``.
        delta: The δ of all rounds together.
        colluding: Number of users who reveal their messages and hide nobody.
        rounds: Number of rounds, as in ``Participation``.
        of: Size of the population that users are drawn from, as in ``Participation``.
        rate: Probability that a person takes part, as in ``Participation``.

    Returns:
        A comparison that prints as a table; ``best`` is its smallest guarantee.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of range, or ``users``, ``of`` and ``rate`` do not fit together.

    >>> import shuffledp as sdp
    >>> found = sdp.compare(sdp.KRR(epsilon=1.0, options=4), users=1000, delta=1e-6)
    >>> found.best.bound
    'optimal'
    >>> found.lower > 0.117, found.best.value.upper < 0.118
    (True, True)
    """
    with validation.relabel_errors("compare", "Participation"):
        schedule = Participation(users, of, rate, rounds)  # type: ignore[arg-type]
    delta = validation.open_probability("compare", "delta", delta)
    colluding = validation.count("compare", "colluding", colluding, at_least=0)
    rows: list[ComparedBound] = []
    lower: float | None = None
    messages = 0
    for bound in BOUNDS:
        try:
            with validation.relabel_errors("compare", "amplify", "subsample", "poisson"):
                curve = schedule.curve(randomizer, bound=bound.name, colluding=colluding)
            messages, value = curve.messages, curve.epsilon(delta)
        except NotApplicable as error:
            rows.append(ComparedBound(bound.name, bound.theorem, None, error.reason))
            continue
        rows.append(ComparedBound(bound.name, value.theorem, value))
        lower = value.lower if lower is None else lower
    rows.sort(key=_sort_key)
    reason = randomizer.missing_attack_reason if lower is None and not schedule.is_sampled else ""
    result = Comparison(tuple(rows), schedule.expected_users - colluding, messages, lower, reason, schedule)
    if not schedule.is_sampled:
        return result
    disclosed = schedule.disclosed_sample_curve(randomizer, bound=result.best.bound, colluding=colluding)
    return replace(result, disclosed_sample_value=disclosed.epsilon(delta))


def _sort_key(row: ComparedBound) -> tuple[bool, bool, float]:
    if row.value is None:
        return True, True, 0.0
    return False, not row.value.guarantee, row.value.upper
