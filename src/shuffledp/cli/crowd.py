"""``shuffledp crowd``: the privacy of users of several groups in one shuffle."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from shuffledp._core import validation
from shuffledp._core.formatting import format_exact, format_json
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.mixed_populations import Crowd
from shuffledp.bounds.participation import Participation
from shuffledp.bounds.registry import FULL_EFFORT
from shuffledp.cli import options, output
from shuffledp.cli.options import RandomizerOptions
from shuffledp.cli.output import Console, show_spinner
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.opt_out_group import OptOut
from shuffledp.privacy.composition import compose
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer_interface import HasMixedUsers
from shuffledp.statement import RANDOMNESS_CONDITION, conditions

CROWD_PREFIX = "crowd"
GROUP_RANDOMNESS_CONDITION = (
    "Everybody runs the randomizer of their group, with fresh secret randomness, and sends nothing else."
)


@options.takes_randomizer(CROWD_PREFIX, "mechanism", "mechanism_file", "set_")
def command(
    *,
    group: Annotated[
        list[str],
        typer.Option(metavar="EPSILON:USERS", help="Local ε, or the CSV of a table, and how many; give it for each."),
    ],
    opt_outs: Annotated[
        float, typer.Option(parser=options.number, help="People who send messages that depend on nothing.")
    ] = 0,
    choice: RandomizerOptions,
    delta: Annotated[float | None, typer.Option(help="Target δ; the answer is ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε; the answer is δ.")] = None,
    colluding: Annotated[
        float, typer.Option(parser=options.number, help="Users, of any groups, who tell the analyst their messages.")
    ] = 0,
    rounds: options.Rounds = 1,
    effort: options.Effort = FULL_EFFORT,
    json: options.Json = False,
) -> None:
    """Compute the central (ε, δ) guarantee of each group, if groups differ in their local ε or their table."""
    if (delta is None) == (epsilon is None):
        raise ValueError("crowd: give either --delta (to get ε) or --epsilon (to get δ).")
    times = validation.count(CROWD_PREFIX, "rounds", rounds)
    with show_spinner("Amplifying"):
        groups = dict(_parse_group(choice, text) for text in group)
        if len(groups) < len(group):
            raise ValueError("crowd: expected each --group once; add up the users of equal ones.")
        people = validation.count(CROWD_PREFIX, "opt-outs", opt_outs, at_least=0)
        members: dict[HasMixedUsers, float] = dict(groups.items())
        if people:
            members[OptOut(next(iter(groups)))] = people
        with validation.relabel_errors(CROWD_PREFIX, "amplify", "Crowd"):
            crowd = Crowd(members)
            curve = amplify(crowd, colluding=colluding, effort=effort)
        values = [
            (
                mechanism,
                int(groups[mechanism]),
                _evaluate_curve(compose(curve.group_curve(mechanism), times), delta, epsilon),
            )
            for mechanism in groups
        ]
    required_conditions = _conditions(next(iter(groups)), crowd, times, int(colluding))
    if json:
        document = _document(crowd, values, people, times, int(colluding))
        typer.echo(format_json(document | {"conditions": required_conditions}))
        return
    _print_groups(
        values,
        people,
        times,
        "ε" if epsilon is None else "δ",
        f"δ = {format_exact(delta or 0.0)}" if epsilon is None else f"ε = {format_exact(epsilon)}",
    )
    output.print_conditions(required_conditions)


def _conditions(mechanism: Mechanism, crowd: Crowd, rounds: int, colluding: int) -> list[str]:
    """Returns the conditions under which the guarantees hold for users of every group."""
    sentences = conditions(mechanism, Participation(crowd.users, rounds=rounds), colluding=colluding)
    return [GROUP_RANDOMNESS_CONDITION if sentence == RANDOMNESS_CONDITION else sentence for sentence in sentences]


def _parse_group(choice: RandomizerOptions, text: str) -> tuple[Mechanism, float]:
    """Parses one --group into a mechanism and its number of users."""
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
        built = RandomizerOptions(CROWD_PREFIX, table=Path(name)).build()
    else:
        if choice.mechanism is None:
            raise ValueError("crowd: --group EPSILON:USERS needs --mechanism.")
        built = dataclasses.replace(choice, epsilon_local=local).build()
    assert isinstance(built, Mechanism)
    return built, users


def _evaluate_curve(curve: PrivacyCurve, delta: float | None, epsilon: float | None) -> BoundValue:
    return curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)


GroupBounds = list[tuple[Mechanism, int, BoundValue]]


def _document(crowd: Crowd, values: GroupBounds, opt_outs: int, rounds: int, colluding: int) -> dict[str, Any]:
    return {
        "users": crowd.users,
        "opt_outs": opt_outs,
        "colluding": colluding,
        "rounds": rounds,
        "groups": [
            {"mechanism": mechanism.to_document(), "users": users, **value.document()}
            for mechanism, users, value in values
        ],
        "worst": max(range(len(values)), key=lambda place: values[place][2].upper),
    }


def _print_groups(values: GroupBounds, opt_outs: int, rounds: int, answer: str, given: str) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("group", "users", f"{answer} (guaranteed)", "attack", "bound"):
        table.add_column(name, justify="left" if name in ("group", "bound") else "right", overflow="fold")
    for mechanism, users, value in values:
        guaranteed = output.format_epsilon(value.upper) if answer == "ε" else output.format_upper(value.upper)
        attack = "none known" if value.lower is None else output.format_lower(value.lower)
        table.add_row(
            f"{mechanism.name}, local ε {format_exact(mechanism.epsilon)}",
            f"{users:,}",
            guaranteed,
            attack,
            value.bound,
        )
    if opt_outs:
        table.add_row("opt-outs", f"{opt_outs:,}", "–", "–", "")
    console = Console()
    console.print(f"Privacy of a user of each group, at {given}" + (f", {rounds:,} rounds" if rounds > 1 else ""))
    console.print(table)
