"""``shuffledp demo``: a shuffler, ten thousand clients and an analyst on this machine, with a crash on the way."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.document import GUARANTEE_DIGITS, json_text, rounded_up, typed
from shuffledp.planner.plan import plan
from shuffledp.service.whole_path import Rehearsed, rehearse
from shuffledp.tasks import Frequency

EPSILON, DELTA = 1.0, 1e-6
COLOURS, SHARES = ("red", "green", "blue", "black"), (0.4, 0.3, 0.2, 0.1)
FEWEST, COLLUDING = 0.9, 0.05
"""Of the users: so many must come, and so many of them may work with the analyst."""


def command(
    users: Annotated[int, typer.Option("--users", help="Simulated clients.")] = 10_000,
    out: Annotated[Path | None, typer.Option("--out", help="A new directory for all that is left.")] = None,
    json: options.Json = False,
) -> None:
    """The whole path over loopback: clients seal, a shuffler that is killed once mixes, an analyst estimates."""
    if users < 1000:
        raise ValueError(f"demo: expected at least 1000 users, who hide each other, got {users}.")
    if out is not None:
        try:
            out.mkdir()
        except OSError as error:
            raise ValueError(f"demo: cannot make {out}: {error.strerror}; give a new directory.") from None
        _run(users, out, json)
        return
    with tempfile.TemporaryDirectory() as room:
        _run(users, Path(room), json)


def _run(users: int, room: Path, json: bool) -> None:
    minimum, colluding = int(FEWEST * users), int(COLLUDING * users)
    chosen = plan(
        Frequency(COLOURS), users, EPSILON, DELTA, mechanism="krr", minimum=minimum, colluding=colluding,
        progress=Bars(),
    ).best.plan  # fmt: skip
    values = np.random.default_rng().choice(len(COLOURS), size=users, p=SHARES)
    tell = (lambda _: None) if json else show.note
    tell(
        f"{users:,} people are asked for a colour: ε = {EPSILON:g} at δ = {typed(DELTA)} is promised if {minimum:,} "
        f"come, {colluding:,} of them colluding."
    )
    done = rehearse(chosen, values, room, progress=Bars(), tell=tell)
    counts = np.bincount(values, minlength=len(COLOURS))
    if json:
        typer.echo(json_text(_document(done, counts)))
    else:
        _tell(done, counts)


def _tell(done: Rehearsed, truth: NDArray[np.int64]) -> None:
    guarantee, quantity = done.report.guarantee, done.report.quantities[0]
    low, high = quantity.low, quantity.high
    assert low is not None, "the mechanism has intervals"
    assert high is not None, "the mechanism has intervals"
    rows = [
        (name, f"{value:8,.0f}   {least:,.0f} … {most:,.0f}   truly {true:,}")
        for name, value, least, most, true in zip(
            quantity.labels, quantity.value, low, high, truth.tolist(), strict=True
        )
    ]
    show.rows("Estimates with 95% intervals", rows)
    stated = rounded_up(guarantee.stated.upper, GUARANTEE_DIGITS)
    show.say(
        f"ε = {stated} at δ = {typed(guarantee.plan.delta)} for the {guarantee.users:,} who "
        f"came, {guarantee.plan.colluding:,} of them colluding; {done.received.refused:,} messages were set aside."
    )
    show.conditions(guarantee.conditions())


def _document(done: Rehearsed, truth: NDArray[np.int64]) -> dict[str, object]:
    return done.report.document() | {"campaign": done.campaign.id, "truth": truth.tolist()}
