"""``shuffledp calibrate``: the most useful setting that meets a central (ε, δ) target."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shuffledp._core.formatting import format_json, format_settings
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.bounds.registry import FULL_EFFORT
from shuffledp.calibration.calibrate import (
    LOCAL_EPSILON_NAME,
    PARTICIPATION_PARAMETERS,
    Calibration,
    RandomizerFactory,
    find_parameter,
    search,
)
from shuffledp.calibration.targets import Target
from shuffledp.cli import options, output
from shuffledp.cli.options import RandomizerOptions
from shuffledp.cli.output import show_spinner
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism, TunableParameter
from shuffledp.statement import Statement, build_fact_rows, conditions, delta_warnings

SETTING_ALIASES = {"local-epsilon": LOCAL_EPSILON_NAME, "epsilon-local": LOCAL_EPSILON_NAME}


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
    of: options.PeopleSampledFrom = None,
    rate: options.Rate = None,
    rounds: Annotated[
        float | None, typer.Option(parser=options.number, help="How many rounds the target is for.")
    ] = None,
    choice: RandomizerOptions,
    find: Annotated[
        str | None, typer.Option(help="local-epsilon, users, rounds, of, or a setting of the mechanism.")
    ] = None,
    bound: options.BoundName = "best",
    colluding: options.Colluding = 0,
    report: options.Report = None,
    effort: options.Effort = FULL_EFFORT,
    json: options.Json = False,
) -> None:
    """The most useful setting that meets a central target.

    The largest local ε or fewest dummies; with --find the fewest users (with --of: the most that may be drawn), the
    most rounds, the fewest people to draw from (of) or another setting.
    """
    target = Target(epsilon, delta)
    options.check_report_path("calibrate", report)
    tuning = _select_tunable(choice, find)
    with show_spinner("Searching"):
        build = _make_builder(choice, tuning)
        found = search(
            build, tuning, target, users=users, rounds=rounds, of=of, rate=rate, bound=bound, colluding=colluding,
            effort=effort,
        )  # fmt: skip
        needed = conditions(found.mechanism, found.schedule, colluding=int(colluding))
        document = _document(found, target) | {"conditions": list(needed)}
        if report is not None:
            if not found.epsilon.guarantee:
                raise ValueError(f"calibrate: --report states a guarantee, and {bound} is none.")
            options.write_statement("calibrate", _statement(found, target, needed), report)
    cautions = delta_warnings(delta, found.schedule.population_size)
    if json:
        typer.echo(format_json(document | ({"warnings": cautions} if cautions else {})))
    else:
        _print(found, target, "\n".join(cautions))
        output.print_conditions(needed)


def _statement(found: Calibration, target: Target, needed: tuple[str, ...]) -> Statement:
    """Returns the statement of the guarantee that the calibrated setting achieves."""
    setting = (
        found.setting.replace("_", " "),
        f"{found.value:,}" if isinstance(found.value, int) else repr(found.value),
    )
    facts = [("target", str(target)), setting, *build_fact_rows(found.mechanism, found.users, found.schedule.rows())]
    known = None if found.disclosed_sample_curve is None else found.disclosed_sample_curve.epsilon(target.delta)
    return Statement(found.epsilon, needed, known, found.curve, options.format_command_line(), facts)


def _select_tunable(choice: RandomizerOptions, find: str | None) -> TunableParameter:
    """Returns the setting to search for: by default the mechanism's first, or the local ε of any randomizer."""
    known = (
        catalogue.find_buildable_class(choice.mechanism).tunable if choice.mechanism is not None else Mechanism.tunable
    )
    name = None if find is None else SETTING_ALIASES.get(find, find.replace("-", "_"))
    return find_parameter(known, name)


def _make_builder(choice: RandomizerOptions, tuning: TunableParameter) -> RandomizerFactory:
    if tuning not in PARTICIPATION_PARAMETERS:
        return choice.builder_for_setting(tuning.name)
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
        "parameters": found.mechanism.ratio_parameters(),
        **found.schedule.to_document(),
    }
    if found.disclosed_sample_curve is not None:
        left = target.evaluate(found.disclosed_sample_curve).document(attacked=False)
        document |= {"condition": SAMPLING_SECRECY_CONDITION, "if_known": left}
    if isinstance(found.mechanism, Mechanism):
        document["mechanism"] = {"name": found.mechanism.name, **found.mechanism.settings()}
    return document


def _print(found: Calibration, target: Target, warning: str) -> None:
    value = found.epsilon
    shown = f"{found.value:,}" if isinstance(found.value, int) else repr(found.value)
    standing = "guaranteed" if value.guarantee else "as printed, NOT a guarantee"
    pairs = [
        (found.setting.replace("_", " "), shown),
        (f"central ε ({standing})", output.format_epsilon(value.upper)),
        ("target", str(target)),
        *found.condition_rows(),
        ("users", output.format_users(found.users, found.curve.messages)),
        *found.schedule.rows(),
        ("bound", value.bound),
        ("theorem", value.theorem),
        *output.paper_rows(value.theorem),
    ]
    if isinstance(found.mechanism, Mechanism):
        settings = format_settings(found.mechanism.settings())
        pairs.append(("mechanism", f"{found.mechanism.name}: {settings}"))
    if found.limit:
        pairs.append(("limit", found.limit))
    output.print_rows("The most useful setting that meets the target", pairs, warning)
