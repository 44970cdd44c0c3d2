"""``shuffledp crowd``: the privacy of users of several groups in one shuffle."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from shuffledp import argument
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.best import FULL
from shuffledp.bounds.schedule import Schedule
from shuffledp.cli import options, show
from shuffledp.cli.bars import waiting
from shuffledp.cli.randomizer import Choice
from shuffledp.cli.show import Console
from shuffledp.composition.sequential import compose
from shuffledp.document import json_text, typed
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.opt_out import OptOut
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.mixed_crowd import Crowd
from shuffledp.privacy.randomizer import MayMix
from shuffledp.privacy.value import BoundValue
from shuffledp.statement.condition import RANDOMNESS, conditions

WHO = "crowd"
EACH = "Everybody runs the randomizer of her group, with fresh secret randomness, and sends nothing else."


@options.takes_randomizer(WHO, "mechanism", "mechanism_file", "set_")
def command(
    *,
    group: Annotated[
        list[str],
        typer.Option(metavar="EPSILON:USERS", help="Local ε, or the CSV of a table, and how many; give it for each."),
    ],
    opt_outs: Annotated[
        float, typer.Option(parser=options.number, help="People who send messages that depend on nothing.")
    ] = 0,
    choice: Choice,
    delta: Annotated[float | None, typer.Option(help="Target δ; the answer is ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε; the answer is δ.")] = None,
    colluding: Annotated[
        float, typer.Option(parser=options.number, help="Users, of any groups, who tell the analyst their messages.")
    ] = 0,
    rounds: options.Rounds = 1,
    effort: options.Effort = FULL,
    json: options.Json = False,
) -> None:
    """The central (ε, δ) guarantee of a user of each group, where groups differ in their local ε or their table."""
    if (delta is None) == (epsilon is None):
        raise ValueError("crowd: give either --delta (to get ε) or --epsilon (to get δ).")
    times = argument.count(WHO, "rounds", rounds)
    with waiting("Amplifying"):
        groups = dict(_group(choice, text) for text in group)
        if len(groups) < len(group):
            raise ValueError("crowd: expected each --group once; add up the users of equal ones.")
        people = argument.count(WHO, "opt-outs", opt_outs, at_least=0)
        members: dict[MayMix, float] = dict(groups.items())
        if people:
            members[OptOut(next(iter(groups)))] = people
        with argument.said_by(WHO, "amplify", "Crowd"):
            crowd = Crowd(members)
            curve = amplify(crowd, colluding=colluding, effort=effort)
        found = [(one, int(groups[one]), _asked(compose(curve.of(one), times), delta, epsilon)) for one in groups]
    needed = _conditions(next(iter(groups)), crowd, times, int(colluding))
    if json:
        document = _document(crowd, found, people, times, int(colluding))
        typer.echo(json_text(document | {"conditions": needed}))
        return
    _show(
        found,
        people,
        times,
        "ε" if epsilon is None else "δ",
        f"δ = {typed(delta or 0.0)}" if epsilon is None else f"ε = {typed(epsilon)}",
    )
    show.conditions(needed)


def _conditions(one: Mechanism, crowd: Crowd, rounds: int, colluding: int) -> list[str]:
    """What must be so for everybody's guarantee, whichever group she is of."""
    told = conditions(one, Schedule(crowd.users, rounds=rounds), colluding=colluding)
    return [EACH if sentence == RANDOMNESS else sentence for sentence in told]


def _group(choice: Choice, text: str) -> tuple[Mechanism, float]:
    """One --group as typed."""
    name, found, number = text.rpartition(":")
    try:
        users = float(number)
    except ValueError:
        users = -1.0
    if not found or users < 1:
        raise ValueError(f"crowd: --group takes EPSILON:USERS or TABLE.csv:USERS, got {text!r}.")
    try:
        local = float(name)
    except ValueError:
        if choice.mechanism is not None:
            raise ValueError(f"crowd: --group takes EPSILON:USERS where there is --mechanism, got {text!r}.") from None
        built = Choice(WHO, table=Path(name)).build()
    else:
        if choice.mechanism is None:
            raise ValueError("crowd: --group EPSILON:USERS needs --mechanism.")
        built = dataclasses.replace(choice, epsilon_local=local).build()
    assert isinstance(built, Mechanism)
    return built, users


def _asked(curve: PrivacyCurve, delta: float | None, epsilon: float | None) -> BoundValue:
    return curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)


Found = list[tuple[Mechanism, int, BoundValue]]


def _document(crowd: Crowd, found: Found, opt_outs: int, rounds: int, colluding: int) -> dict[str, Any]:
    return {
        "users": crowd.users,
        "opt_outs": opt_outs,
        "colluding": colluding,
        "rounds": rounds,
        "groups": [{"mechanism": one.document(), "users": users, **value.document()} for one, users, value in found],
        "worst": max(range(len(found)), key=lambda place: found[place][2].upper),
    }


def _show(found: Found, opt_outs: int, rounds: int, answer: str, given: str) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("group", "users", f"{answer} (guaranteed)", "attack", "bound"):
        table.add_column(name, justify="left" if name in ("group", "bound") else "right", overflow="fold")
    for one, users, value in found:
        shown = show.epsilon(value.upper) if answer == "ε" else show.upper(value.upper)
        attained = "none known" if value.lower is None else show.lower(value.lower)
        table.add_row(f"{one.name}, local ε {typed(one.epsilon)}", f"{users:,}", shown, attained, value.bound)
    if opt_outs:
        table.add_row("opt-outs", f"{opt_outs:,}", "–", "–", "")
    console = Console()
    console.print(f"Privacy of a user of each group, at {given}" + (f", {rounds:,} rounds" if rounds > 1 else ""))
    console.print(table)
