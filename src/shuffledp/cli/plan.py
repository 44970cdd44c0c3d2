"""``shuffledp plan``: which mechanism, which settings, what error, for a privacy target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from shuffledp import argument, figure as figures
from shuffledp.bounds.best import QUICK
from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.ledger import LedgerGiven, warn
from shuffledp.cli.randomizer import settings_of, with_tables
from shuffledp.cli.show import Console
from shuffledp.cli.source import Origin, takes_input
from shuffledp.collection.input.preview import Preview, preview
from shuffledp.collection.ledger import Ledger
from shuffledp.document import json_text
from shuffledp.planner import overview
from shuffledp.planner.goal import LOCAL
from shuffledp.planner.plan import plan
from shuffledp.planner.ranking import Ranking
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.statement.exposure import caution
from shuffledp.tasks.asked_questions import questions_of
from shuffledp.tasks.given import Given
from shuffledp.tasks.survey import Survey
from shuffledp.tasks.task_list import command_names, from_options


@takes_input
def command(
    epsilon: Annotated[float, typer.Option(help="The central ε that they are promised, over all rounds.")],
    delta: Annotated[float, typer.Option(help="The central δ.")],
    source: Origin | None,
    task: Annotated[
        str | None,
        typer.Option(
            help=f"What to estimate: {', '.join(command_names())}; suggested by --input if left out, survey with "
            f"--question."
        ),
    ] = None,
    users: Annotated[
        float | None, typer.Option(parser=options.number, help="How many users will take part in each round.")
    ] = None,
    of: options.Of = None,
    rate: options.Rate = None,
    domain: Annotated[
        float | None, typer.Option(parser=options.number, help="How many options, keys or values there are.")
    ] = None,
    categories: Annotated[Path | None, typer.Option(help="A text file with the options or keys, one a line.")] = None,
    items: Annotated[
        float | None, typer.Option(parser=options.number, help="Options or pairs that a user holds.")
    ] = None,
    low: Annotated[
        list[float] | None, typer.Option(help="The least number; of a vector, repeatable, for each coordinate.")
    ] = None,
    high: Annotated[list[float] | None, typer.Option(help="The largest number, likewise.")] = None,
    dimension: Annotated[float | None, typer.Option(parser=options.number, help="Coordinates of a vector.")] = None,
    west: Annotated[float | None, typer.Option(help="The map's edges: x, or longitude.")] = None,
    east: Annotated[float | None, typer.Option(help="")] = None,
    south: Annotated[float | None, typer.Option(help="y, or latitude.")] = None,
    north: Annotated[float | None, typer.Option(help="")] = None,
    columns: Annotated[
        float | None, typer.Option(parser=options.number, help="Cells of the map from west to east.")
    ] = None,
    degrees: Annotated[bool, typer.Option("--degrees", help="The map's edges are degrees.")] = False,
    strings: Annotated[
        float | None, typer.Option(parser=options.number, help="Most bytes of a text that nobody listed.")
    ] = None,
    bits: Annotated[
        float | None, typer.Option(parser=options.number, help="Bits of a whole number that nobody listed.")
    ] = None,
    reach: Annotated[
        float | None, typer.Option(parser=options.number, help="Bits of a code that a search is to find.")
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:COLUMN:WEIGHT:OPTION=VALUE,…",
            help="A question of a survey, such as frequency:city:0.5:domain=16 or krr:city; repeatable.",
        ),
    ] = None,
    questions: Annotated[Path | None, typer.Option(help="The questions of a survey, in a TOML or JSON file.")] = None,
    domain_from_data: Annotated[
        bool,
        typer.Option(
            "--domain-from-data",
            help="Take the categories of --input although most of them are of few people: the plan tells them to all.",
        ),
    ] = False,
    ways: Annotated[
        float | None, typer.Option(help="Marginals of single columns (1), or of every two together, too (2).")
    ] = None,
    minimum: Annotated[
        float | None,
        typer.Option(
            parser=options.number, help="The fewest users with whom the target must be met; all of them by default."
        ),
    ] = None,
    colluding: options.Colluding = 0,
    rounds: options.Rounds = 1,
    max_bits: Annotated[float | None, typer.Option(parser=options.number, help="Most bits a user.")] = None,
    max_messages: Annotated[float | None, typer.Option(parser=options.number, help="Most messages a user.")] = None,
    local_epsilon_at_most: Annotated[
        float | None, typer.Option(help="A local ε that holds even without the shuffler.")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="Plan with this mechanism only.")] = None,
    mechanism_file: options.MechanismFile = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=FILE", help="The table of a mechanism that is one: distances=FILE."),
    ] = None,
    target_distances: Annotated[
        Path | None,
        typer.Option(help="CSV of the central ε of every two values, a row per value, no header; with such a table."),
    ] = None,
    population: Annotated[str, typer.Option(help="What the ledger calls these users.")] = "everyone",
    ledger: LedgerGiven = None,
    rests_on: Annotated[
        str,
        typer.Option(
            help="Which winner to write: local (keeps a local ε), shuffler (rests on it alone) or shuffler-noise (the "
            "shuffler draws the noise)."
        ),
    ] = LOCAL,
    effort: options.Effort = QUICK,
    out: Annotated[Path | None, typer.Option(help="Write the plan, for `shuffledp collect`.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw error against bits to this file.")] = None,
    json: options.Json = False,
) -> None:
    """Mechanisms that meet a target, ranked by error; a plan.

    Every mechanism for the task is calibrated to the target; the plan is for `collect`.
    """
    ends = tuple(low or ()), tuple(high or ())
    several = questions_of(question or (), questions) or None
    given = Given(
        domain, categories, items, *ends, dimension, west, east, south, north, columns, degrees or None, strings, bits,
        reach, questions=several, ways=ways,
    )  # fmt: skip
    _demand_writable(out, plot)
    seen = _seen(source, task, given, domain_from_data)
    if seen is not None:
        task, given = seen.task, seen.given
        users = seen.users if users is None and rate is None else users
    asked = from_options(_named(task, several is not None), given)
    asked_of = options.schedule_of("plan", users, of, rate, rounds)
    kept = _kept(ledger)
    quoted = {} if kept is None else kept.head().document()
    ranking = plan(
        asked, users, epsilon, delta, rounds=rounds, of=of, rate=rate, max_bits=max_bits, max_messages=max_messages,
        local_epsilon_at_most=local_epsilon_at_most, mechanism=mechanism, population=population, rests_on=rests_on,
        minimum=minimum, colluding=colluding, settings=_settings(mechanism, set_), workers=None, progress=Bars(),
        target_distances=None if target_distances is None else _distances(target_distances), effort=effort,
    )  # fmt: skip
    # Where the plan is to be written and there is none, that is an error; a table alone says so below itself.
    best = ranking.chosen if out is None else ranking.best
    read = () if seen is None else seen.read
    chosen = None if best is None else replace(best.plan, ledger=quoted, read_from_data=read)
    if plot is not None:
        plot_to(ranking, plot)
        if not json:
            show.written("figure", plot)
    if out is not None and chosen is not None:
        chosen.save(out)
    warnings = [] if seen is None else [seen.words()]
    warnings += [] if kept is None or chosen is None else kept.warnings(chosen, ahead=True)
    warn(warnings)
    cautions = caution(delta, asked_of.people)
    if json:
        needed = [] if chosen is None else list(chosen.conditions())
        document = {
            "plan": None if chosen is None else chosen.document(),
            "warnings": warnings + cautions,
            "conditions": needed,
        }
        typer.echo(json_text(ranking.document() | document))
        return
    show_ranking(ranking)
    if chosen is not None:
        show.conditions(chosen.conditions(), f"\nWhat {chosen.mechanism.name} promises holds if")
    for sentence in cautions:
        show.say(f"\n{sentence}")
    if out is not None:
        show.say(f"\nThe plan with {ranking.best.name} was written to {out}: hand it to `shuffledp collect`.")


def _seen(source: Origin | None, task: str | None, given: Given, insists: bool) -> Preview | None:
    """What the file tells that is to be planned for, where there is one."""
    if source is None or not source.paths:
        if source is not None and source.columns:
            raise ValueError("plan: --column needs --input.")
        if insists:
            raise ValueError("plan: --domain-from-data needs --input.")
        return None
    return preview(
        source.paths, source.columns, task=task, given=given, user=source.user, rows_per_user=source.rows_per_user,
        rules=source.rules, delimiter=source.delimiter, gather=source.gather, domain_from_data=insists,
    )  # fmt: skip


def _named(task: str | None, asks: bool) -> str:
    """The task's name; where there are questions and no other is named, a survey."""
    if task is None and not asks:
        raise ValueError(
            "plan: give --task, or --input and --column to read it from a file, or --question for each of a survey."
        )
    return task or Survey.command_name()


def _settings(mechanism: str | None, texts: list[str] | None) -> dict[str, Any]:
    """The settings of the mechanism that is planned with, tables read from their files."""
    if texts and mechanism is None:
        raise ValueError("plan: --set needs --mechanism.")
    return {} if mechanism is None or not texts else with_tables("plan", mechanism, settings_of("plan", tuple(texts)))


def _distances(file: Path) -> DistanceMatrix:
    with argument.said_by("plan", "DistanceMatrix"):
        return DistanceMatrix.from_csv(file)


def _kept(file: str | None) -> Ledger | None:
    """The ledger, if there is one: the plan quotes where it stands, and will be collected only with that one."""
    ledger = Ledger(Ledger.default_path() if file is None else file)
    return None if file is None and not ledger.exists() else ledger


def _demand_writable(out: Path | None, plot: Path | None) -> None:
    """Stop before the long work where its result could not be written."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise ValueError(f"plan: expected a file in an existing directory to write to, got {out}.")
    figures.demand_place("plan", plot)


def plot_to(ranking: Ranking, path: Path) -> None:
    """Draw to a file; a sentence where it cannot be written."""
    try:
        ranking.plot(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"plan: could not write the plot to {path}: {error}.") from None


def show_ranking(ranking: Ranking) -> None:
    """The table, the yardstick, and what does not meet the goal."""
    console = Console()
    head, *rows = overview.aligned(ranking.rows(), console.width)
    console.print(Text(overview.title(ranking.goal), style="italic"), soft_wrap=True)
    console.print(Text(head, style="bold"), soft_wrap=True)
    for row in rows:
        console.print(Text(row), soft_wrap=True)
    console.print()
    for line in overview.wrapped(ranking.notes(), console.width):
        console.print(Text(line), soft_wrap=True)
    if ranking.refusals:
        console.print("\nLeft out:", highlight=False)
        for line in overview.wrapped(ranking.left_out(), console.width, "  "):
            console.print(Text(line), soft_wrap=True)
