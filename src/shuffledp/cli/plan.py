"""``shuffledp plan`` ranks mechanisms for a privacy target; ``shuffledp simulate`` tries a plan on made-up users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from shuffledp._core import plotting, validation
from shuffledp._core.formatting import format_json
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.cli import options, output
from shuffledp.cli.ledger import LedgerOption, print_warnings
from shuffledp.cli.options import InputOptions, load_tables, parse_settings, takes_input
from shuffledp.cli.output import Console, ProgressBars
from shuffledp.collection.input.column_profiles import Preview, preview
from shuffledp.ledger.ledger import Ledger
from shuffledp.planning import ranking_text
from shuffledp.planning.goal import LOCAL
from shuffledp.planning.planner import plan
from shuffledp.planning.ranking import Ranking
from shuffledp.planning.simulation import DEFAULT_CONFIDENCE, simulate
from shuffledp.privacy.metric_space import DistanceMatrix
from shuffledp.statement import delta_warnings
from shuffledp.tasks.domain import TaskOptions, read_lines
from shuffledp.tasks.registry import command_names, from_options
from shuffledp.tasks.survey import Survey
from shuffledp.tasks.survey_parser import parse_questions


@takes_input
def plan_command(
    epsilon: Annotated[float, typer.Option(help="The central ε over all rounds.")],
    delta: Annotated[float, typer.Option(help="The central δ.")],
    source: InputOptions | None,
    task: Annotated[
        str | None,
        typer.Option(
            help=f"What to estimate: {', '.join(command_names())}; suggested by --input if left out, survey with "
            f"--question."
        ),
    ] = None,
    users: Annotated[float | None, typer.Option(parser=options.number, help="Number of users in each round.")] = None,
    of: options.PeopleSampledFrom = None,
    rate: options.Rate = None,
    domain: Annotated[
        float | None, typer.Option(parser=options.number, help="Number of options, keys or values.")
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
        float | None, typer.Option(parser=options.number, help="Maximum number of bytes of a text from an open domain.")
    ] = None,
    bits: Annotated[
        float | None, typer.Option(parser=options.number, help="Bits of a whole number from an open domain.")
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
            help="Take the categories from --input although most of them are rare: the plan publishes them.",
        ),
    ] = False,
    ways: Annotated[
        float | None, typer.Option(help="Marginals of single columns (1), or also of every two columns (2).")
    ] = None,
    minimum: Annotated[
        float | None,
        typer.Option(
            parser=options.number,
            help="Smallest number of users with whom the target must be met; by default all of them.",
        ),
    ] = None,
    colluding: options.Colluding = 0,
    rounds: options.Rounds = 1,
    max_bits: Annotated[
        float | None, typer.Option(parser=options.number, help="Maximum number of bits per user.")
    ] = None,
    max_messages: Annotated[
        float | None, typer.Option(parser=options.number, help="Maximum number of messages per user.")
    ] = None,
    local_epsilon_at_most: Annotated[
        float | None, typer.Option(help="Largest local ε, which holds even without the shuffler.")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="Plan with this mechanism only.")] = None,
    mechanism_file: options.MechanismFile = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=FILE", help="The table of a mechanism that needs one: distances=FILE."),
    ] = None,
    target_distances: Annotated[
        Path | None,
        typer.Option(
            help="CSV file of the central ε of every two values, a row per value, no header; for such a mechanism."
        ),
    ] = None,
    population: Annotated[str, typer.Option(help="Name of these users in the ledger.")] = "everyone",
    ledger: LedgerOption = None,
    rests_on: Annotated[
        str,
        typer.Option(
            help="Which winner to write: local (keeps a local ε), shuffler (rests on it alone) or shuffler-noise (the "
            "shuffler draws the noise)."
        ),
    ] = LOCAL,
    effort: options.Effort = QUICK_EFFORT,
    out: Annotated[Path | None, typer.Option(help="Write the plan, for `shuffledp collect`.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw error against bits to this file.")] = None,
    json: options.Json = False,
) -> None:
    """Rank the mechanisms that meet a target by their error, and write a plan.

    Every mechanism for the task is calibrated to the target; the plan is for `collect`.
    """
    ends = tuple(low or ()), tuple(high or ())
    survey_questions = parse_questions(question or (), questions) or None
    task_options = TaskOptions(
        domain, categories, items, *ends, dimension, west, east, south, north, columns, degrees or None, strings, bits,
        reach, questions=survey_questions, ways=ways,
    )  # fmt: skip
    _check_writable(out, plot)
    preview_result = _preview_input(source, task, task_options, domain_from_data)
    if preview_result is not None:
        task, task_options = preview_result.task, preview_result.task_options
        users = preview_result.users if users is None and rate is None else users
    selected_task = from_options(_select_task_name(task, survey_questions is not None), task_options)
    participation = options.build_participation("plan", users, of, rate, rounds)
    opened_ledger = _open_ledger(ledger)
    ledger_head = {} if opened_ledger is None else opened_ledger.head().to_document()
    ranking = plan(
        selected_task,
        users,
        epsilon,
        delta,
        rounds=rounds,
        of=of,
        rate=rate,
        max_bits=max_bits,
        max_messages=max_messages,
        local_epsilon_at_most=local_epsilon_at_most,
        mechanism=mechanism,
        population=population,
        rests_on=rests_on,
        minimum=minimum,
        colluding=colluding,
        settings=_read_settings(mechanism, set_),
        workers=None,
        progress=ProgressBars(),
        target_distances=None if target_distances is None else _read_distances(target_distances),
        effort=effort,
    )
    # Without a feasible plan, --out is an error; otherwise a note below the table says so.
    best = ranking.selected_candidate if out is None else ranking.best
    settings_from_data = () if preview_result is None else preview_result.settings_from_data
    chosen = None if best is None else replace(best.plan, ledger=ledger_head, read_from_data=settings_from_data)
    if plot is not None:
        plot_ranking(ranking, plot)
        if not json:
            output.print_written_path("figure", plot)
    if out is not None and chosen is not None:
        chosen.save(out)
    warnings = [] if preview_result is None else [preview_result.format_text()]
    warnings += [] if opened_ledger is None or chosen is None else opened_ledger.warnings(chosen, ahead=True)
    print_warnings(warnings)
    delta_notes = delta_warnings(delta, participation.population_size)
    if json:
        required_conditions = [] if chosen is None else list(chosen.conditions())
        document = {
            "plan": None if chosen is None else chosen.document(),
            "warnings": warnings + delta_notes,
            "conditions": required_conditions,
        }
        typer.echo(format_json(ranking.document() | document))
        return
    print_ranking(ranking)
    if chosen is not None:
        output.print_conditions(chosen.conditions(), f"\nWhat {chosen.mechanism.name} promises holds if")
    for sentence in delta_notes:
        output.print_text(f"\n{sentence}")
    if out is not None:
        output.print_text(f"\nThe plan with {ranking.best.name} was written to {out}: hand it to `shuffledp collect`.")


def _preview_input(source: InputOptions | None, task: str | None, given: TaskOptions, insists: bool) -> Preview | None:
    """Returns a preview of the input to plan for, or None without an input."""
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


def _select_task_name(task: str | None, asks: bool) -> str:
    """Returns the task's name; a survey if there are questions and no task is named."""
    if task is None and not asks:
        raise ValueError(
            "plan: give --task, or --input and --column to read it from a file, or --question for each of a survey."
        )
    return task or Survey.command_name()


def _read_settings(mechanism: str | None, texts: list[str] | None) -> dict[str, Any]:
    """Returns the settings of the chosen mechanism, with tables read from their files."""
    if texts and mechanism is None:
        raise ValueError("plan: --set needs --mechanism.")
    return (
        {} if mechanism is None or not texts else load_tables("plan", mechanism, parse_settings("plan", tuple(texts)))
    )


def _read_distances(file: Path) -> DistanceMatrix:
    with validation.relabel_errors("plan", "DistanceMatrix"):
        return DistanceMatrix.from_csv(file)


def _open_ledger(file: str | None) -> Ledger | None:
    """Returns the ledger, or None if there is none.

    The plan quotes the ledger's head and can be collected only with this ledger.
    """
    ledger = Ledger(Ledger.default_path() if file is None else file)
    return None if file is None and not ledger.exists() else ledger


def _check_writable(out: Path | None, plot: Path | None) -> None:
    """Raises ValueError, before the long computation, if a result cannot be written."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise ValueError(f"plan: expected a file in an existing directory to write to, got {out}.")
    plotting.check_plot_path("plan", plot)


def plot_ranking(ranking: Ranking, path: Path) -> None:
    """Draws the ranking to a file; raises ValueError if it cannot be written."""
    try:
        ranking.plot(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"plan: could not write the plot to {path}: {error}.") from None


def print_ranking(ranking: Ranking) -> None:
    """Prints the ranking, the central baseline, and the mechanisms that miss the goal."""
    console = Console()
    head, *rows = ranking_text.align_table(ranking.rows(), console.width)
    console.print(Text(ranking_text.format_title(ranking.goal), style="italic"), soft_wrap=True)
    console.print(Text(head, style="bold"), soft_wrap=True)
    for row in rows:
        console.print(Text(row), soft_wrap=True)
    console.print()
    for line in ranking_text.wrap_paragraphs(ranking.notes(), console.width):
        console.print(Text(line), soft_wrap=True)
    if ranking.rejections:
        console.print("\nLeft out:", highlight=False)
        for line in ranking_text.wrap_paragraphs(ranking.format_rejections(), console.width, "  "):
            console.print(Text(line), soft_wrap=True)


# --- shuffledp simulate ---


def simulate_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    users: Annotated[
        float | None, typer.Option(parser=options.number, help="Number of users; as planned by default.")
    ] = None,
    repeat: Annotated[float, typer.Option(parser=options.number, help="Number of simulated collections.")] = 100,
    seed: Annotated[float, typer.Option(help="The same seed gives the same simulations.")] = 0,
    options_file: Annotated[
        Path | None, typer.Option("--options", help="Only these options, one a line, of a domain of any size.")
    ] = None,
    confidence: options.Confidence = DEFAULT_CONFIDENCE,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Simulate a plan with made-up users, to compare the error with the expected one."""
    selected_options = None if options_file is None else read_lines(options_file, "simulate")
    outcome = simulate(plan, users, repeat, seed, ProgressBars(), selected_options, confidence)
    if json:
        typer.echo(format_json(outcome.document()))
        return
    output.print_rows(outcome.heading, outcome.summary())
    output.print_text(f"\n{outcome.sampling_note}")
