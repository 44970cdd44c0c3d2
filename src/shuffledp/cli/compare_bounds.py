"""``shuffledp compare``: every bound side by side, as a table, JSON or a plot."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from shuffledp._core import plotting
from shuffledp._core.formatting import format_exact, format_json
from shuffledp.bounds.compare import ComparedBound, Comparison, compare
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION, Participation
from shuffledp.bounds.sweep import LOCAL_EPSILON, USERS, compare_along
from shuffledp.cli import amplify, options, output
from shuffledp.cli.options import RandomizerOptions
from shuffledp.cli.output import Console, ProgressBars, show_spinner
from shuffledp.privacy.curve import BoundValue
from shuffledp.statement import conditions

PLOT_POINTS = 25
MIN_PLOT_EPSILON, MAX_PLOT_EPSILON = 0.1, 6.0
"""Range of the local ε in a plot, covered by ``PLOT_POINTS`` points."""
PLOT_USERS_RATIO = 100
"""A plot covers the given number of users, divided and multiplied by this ratio."""
AXES = (LOCAL_EPSILON, USERS)


@options.takes_randomizer("compare")
def command(
    *,
    users: options.MaybeUsers = None,
    delta: options.Delta,
    choice: RandomizerOptions,
    colluding: options.Colluding = 0,
    of: options.PeopleSampledFrom = None,
    rate: options.Rate = None,
    rounds: options.Rounds = 1,
    plot: Annotated[
        Path | None, typer.Option(help="Draw every bound along --against to this file (png, pdf, svg).")
    ] = None,
    curve_file: amplify.CurveFile = None,
    against: Annotated[
        str | None, typer.Option(metavar="AXIS", help="local-epsilon (the default where there is one) or users.")
    ] = None,
    range_: Annotated[
        tuple[float, float] | None,
        typer.Option("--range", metavar="LOW HIGH", help="From where to where on that axis, 0.1 to 6 for a local ε."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare every bound, and the best known attack."""
    files = _ComparisonOutput(plot, curve_file, _select_axis(choice, against), range_)
    files.check(against)
    schedule = options.build_participation("compare", users, of, rate, rounds)
    if rate is not None and files.is_requested and files.axis == USERS:
        raise ValueError("compare: how many users come follows from --of and --rate; draw --against local-epsilon.")
    run_comparison = partial(compare, delta=delta, colluding=colluding, rounds=rounds, of=of, rate=rate)
    with show_spinner("Comparing"):
        randomizer = choice.build()
        result = run_comparison(randomizer, users=users)
    required_conditions = conditions(randomizer, schedule, colluding=int(colluding))
    files.write(choice, run_comparison, schedule, delta)
    if json:
        typer.echo(format_json(_document(result, delta) | {"conditions": list(required_conditions)}))
    else:
        _print_comparison(result, delta)
        output.print_conditions(required_conditions)


def _document(result: Comparison, delta: float) -> dict[str, Any]:
    return {
        "users": result.users,
        "messages": result.messages,
        "delta": delta,
        "lower": result.lower,
        "best": result.best.bound,
        "bounds": [_row_document(row) for row in result.rows],
        **({} if result.schedule is None else result.schedule.to_document()),
        **(
            {}
            if result.disclosed_sample_value is None
            else {"condition": SAMPLING_SECRECY_CONDITION, "if_known": _known_document(result.disclosed_sample_value)}
        ),
    }


def _known_document(value: BoundValue) -> dict[str, Any]:
    return value.document(attacked=False)


def _row_document(row: ComparedBound) -> dict[str, Any]:
    value = {} if row.value is None else row.value.document(attacked=False)
    return {
        "bound": row.bound,
        "theorem": row.theorem,
        "epsilon": value.get("epsilon"),
        "certified": value.get("certified", False),
        "guarantee": value.get("guarantee", False),
        "reason": row.reason,
    }


def _print_comparison(result: Comparison, delta: float) -> None:
    rounds = "" if result.schedule is None or result.schedule.rounds == 1 else f", {result.schedule.rounds:,} rounds"
    table = Table(
        title=Text(f"ε at δ = {format_exact(delta)} for {result.users:,} users{rounds}"), title_justify="left", box=None
    )
    table.add_column("bound")
    table.add_column("ε", justify="right")
    table.add_column("theorem, or why it does not apply", overflow="fold")
    for row in result.rows:
        if row.value is None:
            table.add_row(row.bound, "–", Text(row.reason, style="dim"))
            continue
        theorem = Text(row.theorem) if row.value.guarantee else Text(f"{row.theorem}: NOT a guarantee", style="red")
        table.add_row(row.bound, output.format_epsilon(row.value.upper), theorem)
    console = Console()
    console.print(table)
    best = result.best
    assert best.value is not None
    console.print(
        f"\nBest guarantee: {output.format_epsilon_equation(best.value.upper)} by {best.bound}.", highlight=False
    )
    if result.lower is None:
        reason = f": {result.missing_attack_reason}" if result.missing_attack_reason else "."
        console.print(f"No attack is known for this input{reason}", highlight=False)
    elif result.lower > 0:
        gap = 100 * (best.value.upper / result.lower - 1)
        gap_text = f": the gap is {gap:.3g}%" if math.isfinite(gap) else ""
        sentence = f"A concrete attack on a constructed dataset achieves ε = {output.format_lower(result.lower)}"
        console.print(f"{sentence}{gap_text}.", highlight=False)
    else:
        console.print("The known attacks achieve no positive ε.")
    for name, words in result.participation_rows():
        console.print(Text(f"{name.capitalize()}: {words}."))


def _select_axis(choice: RandomizerOptions, against: str | None) -> str:
    """Returns the figure's axis: the local ε, or the users if the protocol has no local ε."""
    if against is not None and against not in AXES:
        raise ValueError(f"compare: --against must be one of {', '.join(AXES)}, got {against!r}.")
    if against == LOCAL_EPSILON and choice.epsilon_local is None:
        raise ValueError(f"compare: --against {LOCAL_EPSILON} needs --epsilon-local.")
    return against or (USERS if choice.epsilon_local is None else LOCAL_EPSILON)


@dataclasses.dataclass(frozen=True)
class _ComparisonOutput:
    """The files to write, and the axis along which the bounds are computed."""

    plot: Path | None
    curve: Path | None
    axis: str
    range: tuple[float, float] | None

    @property
    def is_requested(self) -> bool:
        return self.plot is not None or self.curve is not None

    def check(self, against: str | None) -> None:
        """Raises ValueError if a file cannot be written, before anything is computed."""
        plotting.check_plot_path("compare", self.plot)
        amplify.check_curve_path("compare", self.curve)
        if not self.is_requested and (against is not None or self.range is not None):
            raise ValueError(
                "compare: --against and --range are about the figure; add --plot FILE or --curve FILE.csv."
            )
        if self.range is not None and not 0 < self.range[0] < self.range[1] < math.inf:
            raise ValueError("compare: --range must be two numbers above 0, the smaller one first.")

    def write(
        self, choice: RandomizerOptions, run_comparison: partial[Comparison], schedule: Participation, delta: float
    ) -> None:
        if not self.is_requested:
            return
        given_value = choice.epsilon_local if self.axis == LOCAL_EPSILON else float(schedule.expected_users)
        assert given_value is not None, "a local ε is demanded where it is the axis"
        curves = compare_along(
            lambda x: self._compare_at(x, choice, run_comparison, schedule),
            self._axis_values(given_value, schedule.of),
            axis=self.axis,
            marked_position=given_value,
            title=_figure_title(choice, schedule, self.axis, delta),
            progress=ProgressBars(),
        )
        if self.curve is not None:
            curves.save(self.curve)
            output.print_note(f"The curve was written to {self.curve}.")
        if self.plot is not None:
            curves.plot(self.plot)
            output.print_note(f"The figure was written to {self.plot}.")

    def _compare_at(
        self, x: float, choice: RandomizerOptions, run_comparison: partial[Comparison], schedule: Participation
    ) -> Comparison:
        if self.axis == LOCAL_EPSILON:
            # With --rate the number of users follows from the rate.
            users = None if run_comparison.keywords["rate"] is not None else schedule.expected_users
            return run_comparison(dataclasses.replace(choice, epsilon_local=x).build(), users=users)
        return run_comparison(choice.build(), users=x)

    def _axis_values(self, given_value: float, of: float | None) -> list[float]:
        if self.axis == LOCAL_EPSILON:
            low, high = self.range or (MIN_PLOT_EPSILON, max(MAX_PLOT_EPSILON, given_value))
            return sorted(
                {*np.linspace(low, high, PLOT_POINTS).tolist(), *([given_value] if low <= given_value <= high else [])}
            )
        low, high = self.range or (
            max(2.0, given_value / PLOT_USERS_RATIO),
            min(given_value * PLOT_USERS_RATIO, of or math.inf),
        )
        return sorted({float(round(x)) for x in (*np.geomspace(low, high, PLOT_POINTS), given_value)})


def _figure_title(choice: RandomizerOptions, schedule: Participation, axis: str, delta: float) -> str:
    """Returns the figure's title: the randomizer, and the parameters that are constant along the axis."""
    settings = f" ({', '.join(choice.settings)})" if choice.settings else ""
    default_subject = "any randomizer with local ε₀" if axis == LOCAL_EPSILON else "a randomizer of these parameters"
    subject = f"{choice.mechanism}{settings}" if choice.mechanism else default_subject
    local = (
        "" if axis == LOCAL_EPSILON or choice.epsilon_local is None else f", ε₀ = {format_exact(choice.epsilon_local)}"
    )
    users = "" if axis == USERS else f", {schedule.expected_users:,} users"
    rounds = "" if schedule.rounds == 1 else f", {schedule.rounds:,} rounds"
    return f"{subject}{local}{users}{rounds}, δ = {plotting.format_scientific(delta)}"
