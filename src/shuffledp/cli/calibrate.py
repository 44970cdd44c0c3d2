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
    """Find the most useful setting that meets a central target.

    The largest local ε or fewest dummies; with --find the fewest users (with --of: the most that may be drawn), the
    most rounds, the fewest people to draw from (of) or another setting.
    """
    target = Target(epsilon, delta)
    options.check_report_path("calibrate", report)
    parameter = _select_tunable(choice, find)
    with show_spinner("Searching"):
        build = _make_builder(choice, parameter)
        calibration = search(
            build, parameter, target, users=users, rounds=rounds, of=of, rate=rate, bound=bound, colluding=colluding,
            effort=effort,
        )  # fmt: skip
        required_conditions = conditions(calibration.mechanism, calibration.schedule, colluding=int(colluding))
        document = _document(calibration, target) | {"conditions": list(required_conditions)}
        if report is not None:
            if not calibration.epsilon.guarantee:
                raise ValueError(f"calibrate: --report states a guarantee, and {bound} is none.")
            options.write_statement("calibrate", _statement(calibration, target, required_conditions), report)
    warnings = delta_warnings(delta, calibration.schedule.population_size)
    if json:
        typer.echo(format_json(document | ({"warnings": warnings} if warnings else {})))
    else:
        _print(calibration, target, "\n".join(warnings))
        output.print_conditions(required_conditions)


def _statement(calibration: Calibration, target: Target, required_conditions: tuple[str, ...]) -> Statement:
    """Returns the statement of the guarantee that the calibrated setting achieves."""
    setting = (
        calibration.setting.replace("_", " "),
        f"{calibration.value:,}" if isinstance(calibration.value, int) else repr(calibration.value),
    )
    facts = [
        ("target", str(target)),
        setting,
        *build_fact_rows(calibration.mechanism, calibration.users, calibration.schedule.rows()),
    ]
    disclosed_value = (
        None if calibration.disclosed_sample_curve is None else calibration.disclosed_sample_curve.epsilon(target.delta)
    )
    return Statement(
        calibration.epsilon,
        required_conditions,
        disclosed_value,
        calibration.curve,
        options.format_command_line(),
        facts,
    )


def _select_tunable(choice: RandomizerOptions, find: str | None) -> TunableParameter:
    """Returns the setting to search for: by default the mechanism's first, or the local ε of any randomizer."""
    known = (
        catalogue.find_buildable_class(choice.mechanism).tunable if choice.mechanism is not None else Mechanism.tunable
    )
    name = None if find is None else SETTING_ALIASES.get(find, find.replace("-", "_"))
    return find_parameter(known, name)


def _make_builder(choice: RandomizerOptions, parameter: TunableParameter) -> RandomizerFactory:
    if parameter not in PARTICIPATION_PARAMETERS:
        return choice.builder_for_setting(parameter.name)
    randomizer = choice.build()
    return lambda value: randomizer


def _document(calibration: Calibration, target: Target) -> dict[str, Any]:
    value = calibration.epsilon
    document = {
        "find": calibration.setting,
        "value": calibration.value,
        "epsilon": {"lower": value.lower, "upper": value.upper, "slack": value.slack},
        "delta": target.delta,
        "target": {"epsilon": target.epsilon, "delta": target.delta},
        "users": calibration.users,
        "messages": calibration.curve.messages,
        "bound": value.bound,
        "theorem": value.theorem,
        "certified": value.certified,
        "guarantee": value.guarantee,
        "limit": calibration.limit,
        "parameters": calibration.mechanism.ratio_parameters(),
        **calibration.schedule.to_document(),
    }
    if calibration.disclosed_sample_curve is not None:
        disclosed_value = target.evaluate(calibration.disclosed_sample_curve).document(attacked=False)
        document |= {"condition": SAMPLING_SECRECY_CONDITION, "if_known": disclosed_value}
    if isinstance(calibration.mechanism, Mechanism):
        document["mechanism"] = {"name": calibration.mechanism.name, **calibration.mechanism.settings()}
    return document


def _print(calibration: Calibration, target: Target, warning: str) -> None:
    value = calibration.epsilon
    setting = f"{calibration.value:,}" if isinstance(calibration.value, int) else repr(calibration.value)
    status = "guaranteed" if value.guarantee else "as printed, NOT a guarantee"
    pairs = [
        (calibration.setting.replace("_", " "), setting),
        (f"central ε ({status})", output.format_epsilon(value.upper)),
        ("target", str(target)),
        *calibration.condition_rows(),
        ("users", output.format_users(calibration.users, calibration.curve.messages)),
        *calibration.schedule.rows(),
        ("bound", value.bound),
        ("theorem", value.theorem),
        *output.paper_rows(value.theorem),
    ]
    if isinstance(calibration.mechanism, Mechanism):
        settings = format_settings(calibration.mechanism.settings())
        pairs.append(("mechanism", f"{calibration.mechanism.name}: {settings}"))
    if calibration.limit:
        pairs.append(("limit", calibration.limit))
    output.print_rows("The most useful setting that meets the target", pairs, warning)
