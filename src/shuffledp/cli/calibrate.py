"""``shuffledp calibrate``: the most useful setting that meets a central (ε, δ) target."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shuffledp.bounds.best import FULL
from shuffledp.bounds.schedule import CONDITION
from shuffledp.calibration.calibrate import AROUND, LOCAL, Builder, Calibration, named_tuning, search
from shuffledp.calibration.target import Target
from shuffledp.cli import options, report as report_option, show
from shuffledp.cli.bars import waiting
from shuffledp.cli.randomizer import Choice
from shuffledp.document import json_text, settings_text
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.statement.condition import conditions
from shuffledp.statement.exposure import caution
from shuffledp.statement.statement import Statement, facts_of

SPELLINGS = {"local-epsilon": LOCAL, "epsilon-local": LOCAL}


@options.takes_randomizer(
    "calibrate",
    "mechanism",
    "mechanism_file",
    "epsilon_local",
    "set_",
    "table",
    helps={
        "epsilon_local": "Local ε0, where it is not what is searched.",
        "table": "CSV of a randomizer, to find users, rounds or of.",
    },
    before={"find": "epsilon_local"},
)
def command(
    *,
    epsilon: Annotated[float, typer.Option(help="The central ε to meet.")],
    delta: Annotated[float, typer.Option(help="The central δ to meet.")],
    users: Annotated[
        float | None, typer.Option(parser=options.number, help="Users whose messages are shuffled together.")
    ] = None,
    of: options.Of = None,
    rate: options.Rate = None,
    rounds: Annotated[
        float | None, typer.Option(parser=options.number, help="How many rounds the target is for.")
    ] = None,
    choice: Choice,
    find: Annotated[
        str | None, typer.Option(help="local-epsilon, users, rounds, of, or a setting of the mechanism.")
    ] = None,
    bound: options.BoundName = "best",
    colluding: options.Colluding = 0,
    report: report_option.Report = None,
    effort: options.Effort = FULL,
    json: options.Json = False,
) -> None:
    """The most useful setting that meets a central target.

    The largest local ε or fewest dummies; with --find the fewest users (with --of: the most that may be drawn), the
    most rounds, the fewest people to draw from (of) or another setting.
    """
    target = Target(epsilon, delta)
    report_option.demand_place("calibrate", report)
    tuning = _tuning(choice, find)
    with waiting("Searching"):
        build = _builder(choice, tuning)
        found = search(
            build, tuning, target, users=users, rounds=rounds, of=of, rate=rate, bound=bound, colluding=colluding,
            effort=effort,
        )  # fmt: skip
        needed = conditions(found.mechanism, found.schedule, colluding=int(colluding))
        document = _document(found, target) | {"conditions": list(needed)}
        if report is not None:
            if not found.epsilon.guarantee:
                raise ValueError(f"calibrate: --report states a guarantee, and {bound} is none.")
            report_option.write("calibrate", _statement(found, target, needed), report)
    cautions = caution(delta, found.schedule.people)
    if json:
        typer.echo(json_text(document | ({"warnings": cautions} if cautions else {})))
    else:
        _print(found, target, "\n".join(cautions))
        show.conditions(needed)


def _statement(found: Calibration, target: Target, needed: tuple[str, ...]) -> Statement:
    """What the setting that was found promises."""
    setting = (
        found.setting.replace("_", " "),
        f"{found.value:,}" if isinstance(found.value, int) else repr(found.value),
    )
    facts = [("target", str(target)), setting, *facts_of(found.mechanism, found.users, found.schedule.rows())]
    known = None if found.known is None else found.known.epsilon(target.delta)
    return Statement(found.epsilon, needed, known, found.curve, report_option.command_typed(), facts)


def _tuning(choice: Choice, find: str | None) -> Tuning:
    """What is searched: by default what the mechanism names first, or the local ε of any randomizer."""
    known = catalogue.kind_of(choice.mechanism).tuning if choice.mechanism is not None else Mechanism.tuning
    name = None if find is None else SPELLINGS.get(find, find.replace("-", "_"))
    return named_tuning(known, name)


def _builder(choice: Choice, tuning: Tuning) -> Builder:
    if tuning not in AROUND:
        return choice.with_setting(tuning.name)
    made = choice.build()
    return lambda value: made


def _document(found: Calibration, target: Target) -> dict[str, Any]:
    value = found.epsilon
    document = {
        "find": found.setting,
        "value": found.value,
        "epsilon": {"lower": value.lower, "upper": value.upper, "slack": value.slack},
        "delta": target.delta,
        "target": {"epsilon": target.epsilon, "delta": target.delta},
        "users": found.users,
        "messages": found.curve.messages,
        "bound": value.bound,
        "theorem": value.theorem,
        "certified": value.certified,
        "guarantee": value.guarantee,
        "limit": found.limit,
        "parameters": found.mechanism.told_parameters(),
        **found.schedule.document(),
    }
    if found.known is not None:
        left = target.reached(found.known).document(attacked=False)
        document |= {"condition": CONDITION, "if_known": left}
    if isinstance(found.mechanism, Mechanism):
        document["mechanism"] = {"name": found.mechanism.name, **found.mechanism.settings()}
    return document


def _print(found: Calibration, target: Target, warning: str) -> None:
    value = found.epsilon
    shown = f"{found.value:,}" if isinstance(found.value, int) else repr(found.value)
    standing = "guaranteed" if value.guarantee else "as printed, NOT a guarantee"
    pairs = [
        (found.setting.replace("_", " "), shown),
        (f"central ε ({standing})", show.epsilon(value.upper)),
        ("target", str(target)),
        *found.condition(),
        ("users", show.crowd(found.users, found.curve.messages)),
        *found.schedule.rows(),
        ("bound", value.bound),
        ("theorem", value.theorem),
        *show.papers(value.theorem),
    ]
    if isinstance(found.mechanism, Mechanism):
        settings = settings_text(found.mechanism.settings())
        pairs.append(("mechanism", f"{found.mechanism.name}: {settings}"))
    if found.limit:
        pairs.append(("limit", found.limit))
    show.rows("The most useful setting that meets the target", pairs, warning)
