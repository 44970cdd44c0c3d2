"""``shuffledp demo``: a shuffler that crashes once, ten thousand clients and an analyst on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from shuffledp._core.formatting import GUARANTEE_DIGITS, format_exact, format_json, format_rounded_up
from shuffledp.cli import options, output
from shuffledp.cli.output import ProgressBars
from shuffledp.planning.planner import plan
from shuffledp.service.demo import DemoResult, run_demo
from shuffledp.tasks import Frequency

DEMO_EPSILON, DEMO_DELTA = 1.0, 1e-6
DEMO_COLOURS, DEMO_COLOUR_SHARES = ("red", "green", "blue", "black"), (0.4, 0.3, 0.2, 0.1)
MIN_USERS_SHARE, COLLUDING_SHARE = 0.9, 0.05
"""Shares of the users: the least that must take part, and the most that may collude with the analyst."""


def demo_command(
    users: Annotated[int, typer.Option("--users", help="Simulated clients.")] = 10_000,
    out: Annotated[Path | None, typer.Option("--out", help="A new directory for all results.")] = None,
    json: options.Json = False,
) -> None:
    """Run a whole campaign on this machine: clients, a shuffler that is killed once, and an analyst."""
    if users < 1000:
        raise ValueError(f"demo: expected at least 1000 users, who hide each other, got {users}.")
    if out is not None:
        try:
            out.mkdir()
        except OSError as error:
            raise ValueError(f"demo: cannot make {out}: {error.strerror}; give a new directory.") from None
        _run_demo(users, out, json)
        return
    with tempfile.TemporaryDirectory() as room:
        _run_demo(users, Path(room), json)


def _run_demo(users: int, room: Path, json: bool) -> None:
    minimum, colluding = int(MIN_USERS_SHARE * users), int(COLLUDING_SHARE * users)
    selected_plan = plan(
        Frequency(DEMO_COLOURS), users, DEMO_EPSILON, DEMO_DELTA, mechanism="krr", minimum=minimum, colluding=colluding,
        progress=ProgressBars(),
    ).best.plan  # fmt: skip
    values = np.random.default_rng().choice(len(DEMO_COLOURS), size=users, p=DEMO_COLOUR_SHARES)
    print_note = (lambda _: None) if json else output.print_note
    print_note(
        f"{users:,} people are asked for a colour: ε = {DEMO_EPSILON:g} at δ = {format_exact(DEMO_DELTA)} is "
        f"guaranteed if {minimum:,} take part, {colluding:,} of them colluding."
    )
    result = run_demo(selected_plan, values, room, progress=ProgressBars(), tell=print_note)
    counts = np.bincount(values, minlength=len(DEMO_COLOURS))
    if json:
        typer.echo(format_json(_document(result, counts)))
    else:
        _print_demo(result, counts)


def _print_demo(result: DemoResult, truth: NDArray[np.int64]) -> None:
    guarantee, quantity = result.report.guarantee, result.report.quantities[0]
    low, high = quantity.low, quantity.high
    assert low is not None, "the mechanism has intervals"
    assert high is not None, "the mechanism has intervals"
    rows = [
        (name, f"{value:8,.0f}   {least:,.0f} … {most:,.0f}   truly {true:,}")
        for name, value, least, most, true in zip(
            quantity.labels, quantity.value, low, high, truth.tolist(), strict=True
        )
    ]
    output.print_rows("Estimates with 95% intervals", rows)
    stated = format_rounded_up(guarantee.stated_value.upper, GUARANTEE_DIGITS)
    output.print_text(
        f"ε = {stated} at δ = {format_exact(guarantee.plan.delta)} for the {guarantee.users:,} who "
        f"came, {guarantee.plan.colluding:,} of them colluding; {result.received.refused:,} messages were set aside."
    )
    output.print_conditions(guarantee.conditions())


def _document(result: DemoResult, truth: NDArray[np.int64]) -> dict[str, object]:
    return result.report.document() | {"campaign": result.campaign.id, "truth": truth.tolist()}
