"""``shuffledp ledger``: the accumulated privacy loss and the budget of each population, and integrity checks."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from shuffledp._core.formatting import format_exact, format_json
from shuffledp.cli import options, output
from shuffledp.cli.app import UniqueOptionsGroup
from shuffledp.cli.output import Console
from shuffledp.ledger.accounting import PLAN_DIGITS, RESERVED, BudgetStatus
from shuffledp.ledger.guarantee import Guarantee
from shuffledp.ledger.ledger import Ledger, choose_round
from shuffledp.ledger.storage import LedgerAddress
from shuffledp.planning.plan import Plan

LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="The ledger of what was given, a file or postgresql://…; by default $SHUFFLEDP_LEDGER, or your own.",
    ),
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Keep no ledger.")]
Round = Annotated[
    int | None,
    typer.Option("--round", help="Which of the plan's rounds this is; by default the ledger's next free one."),
]
Population = Annotated[str, typer.Argument(metavar="POPULATION", help="The people, as plans call them.")]

app = typer.Typer(
    cls=UniqueOptionsGroup,
    help="What each population has given so far, and its budget.",
    add_completion=False,
    rich_markup_mode=None,
)


def resolve_ledger(who: str, file: str | None, none: bool, plan: Plan) -> Path | LedgerAddress | None:
    """Returns the path of the ledger that a command records in, or None with ``--no-ledger``.

    Prints the ledger's warnings about this plan on standard error, before any work is done.
    """
    if none:
        if file is not None:
            raise ValueError(f"{who}: give either --ledger or --no-ledger, not both.")
        return None
    ledger = _open_ledger(file)
    print_warnings(ledger.warnings(plan))
    return ledger.path


def print_warnings(sentences: Iterable[str]) -> None:
    """Prints each sentence on a line of standard error."""
    for sentence in sentences:
        output.print_text(sentence, err=True)


def _open_ledger(file: str | None) -> Ledger:
    return Ledger(Ledger.default_path() if file is None else file)


@app.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """What each population has given so far, and its budget."""
    if context.invoked_subcommand is None:
        show()


@app.command()
def create(
    file: LedgerOption = None,
    population: Annotated[list[str] | None, typer.Option(help="Register these people; may be repeated.")] = None,
) -> None:
    """Make a new ledger, where there is none yet."""
    ledger = Ledger.create(_open_ledger(file).path)
    for name in population or ():
        ledger.register(name)
    names = ", ".join(standing.population for standing in ledger.budget_statuses())
    output.print_text(f"A new ledger is at {ledger.path}; it knows {names}.")


@app.command("show")
def show(
    file: LedgerOption = None,
    population: Annotated[str | None, typer.Option(help="Only these people.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ at which ε is told; by default the budget's.")] = None,
    report: options.Report = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """What each population has given; all its collections count together."""
    options.check_report_path("ledger", report)
    if report is not None and population is None:
        raise ValueError("ledger: --report is about one population; add --population NAME.")
    ledger = _open_ledger(file)
    standings = ledger.budget_statuses(population, delta)
    if report is not None:
        options.write_statement("ledger", standings[0].statement(options.format_command_line()), report)
    for standing in standings:
        print_warnings(standing.warnings)
    if json:
        typer.echo(format_json({"ledger": str(ledger.path), "populations": [one.document() for one in standings]}))
        return
    for standing in standings:
        _print_status(standing)
    if words := standings[0].format_acceptances():
        output.print_text(words)


@app.command()
def register(population: Population, file: LedgerOption = None) -> None:
    """Make people known, so that plans may name them."""
    ledger = _open_ledger(file)
    ledger.register(population)
    print_warnings(ledger.find_similar_name_warnings(population))


@app.command()
def budget(
    population: Population,
    epsilon: Annotated[float, typer.Option(help="The most that they may give, over all collections.")],
    delta: Annotated[float, typer.Option(help="The δ of that ε.")],
    file: LedgerOption = None,
) -> None:
    """Set the most that people may be asked for."""
    ledger = _open_ledger(file)
    ledger.set_budget(population, epsilon, delta)
    print_warnings(ledger.budget_statuses(population)[0].warnings)


@app.command()
def reserve(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    file: LedgerOption = None,
    round_number: Round = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Set a round aside, for as many users as are planned, before it begins."""
    ledger, chosen = _open_ledger(file), Plan.load(plan)
    warnings = ledger.warnings(chosen)
    print_warnings(warnings)
    number, id_ = choose_round("ledger", chosen, round_number, ledger), Ledger.new_id()
    guarantee = Guarantee(chosen, chosen.users, round_number=number)
    ledger.reserve(id_, guarantee)
    if json:
        told = {"reservation": id_, "round": number, "users": chosen.users, "epsilon": guarantee.value.upper}
        typer.echo(format_json(told | {"delta": chosen.delta, "warnings": warnings}))
    else:
        which = "" if chosen.rounds == 1 else f"{chosen.format_round(number)} "
        hand = f"hand --reservation {id_} to the shuffler or the estimator."
        output.print_text(f"Reserved {which}for {chosen.users:,} users; {hand}")


@app.command()
def forget(
    collection: Annotated[str, typer.Argument(metavar="ID", help="The collection, as `ledger show` names it.")],
    file: LedgerOption = None,
) -> None:
    """Take back a killed collection that released nothing."""
    _open_ledger(file).give_back(collection)


@app.command()
def check(
    file: LedgerOption = None,
    report: Annotated[Path | None, typer.Option(help="A report.json that quotes the ledger.")] = None,
    plan: Annotated[Path | None, typer.Option(help="A plan that quotes the ledger.")] = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Prove that the ledger is what was written, and what others quote."""
    ledger = _open_ledger(file)
    head = ledger.head()
    if report is not None:
        ledger.check_contains(_read_quoted_head(report), "report")
    if plan is not None:
        ledger.check_contains(dict(Plan.load(plan).ledger), "plan")
    if json:
        typer.echo(format_json({"ledger": str(ledger.path), "head": head.to_document()}))
    else:
        output.print_text(
            f"{ledger.path} is whole: {head.entries} entries of the ledger {head.ledger}, head {head.hash}."
        )


@app.command()
def accept(file: LedgerOption = None) -> None:
    """Go on with a ledger that is not the one last seen here."""
    ledger = _open_ledger(file)
    ledger.accept()
    output.print_text(f"{ledger.path} is accepted; every report will say that what was given before may be missing.")


def _read_quoted_head(report: Path) -> Any:
    """Returns the ledger's head that a report quotes."""
    try:
        document = json_format.loads(report.read_text("utf-8"))
        return document["ledger"]["head"]
    except OSError as error:
        raise ValueError(f"report: cannot read {report}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"report: {report} quotes no ledger.") from None


def _print_status(standing: BudgetStatus) -> None:
    budget = standing.budget
    most = "no budget" if budget is None else f"budget {format_exact(budget.epsilon)}"
    if budget is not None and budget.delta != standing.delta:
        most += f", {output.format_upper(standing.spent)} spent at δ = {format_exact(budget.delta)}"
    if standing.entries:
        spent = f"{output.format_epsilon_equation(standing.epsilon)} at δ = {format_exact(standing.delta)}"
        title = f"{standing.population}: {spent} ({most})"
    else:
        title = f"{standing.population}: nothing was collected ({most})"
    table = Table(box=None, pad_edge=False)
    for name in ("when (UTC)\nplan, round", "task", "mechanism", "users", "ε alone", "state"):
        table.add_column(name, overflow="fold", no_wrap=name.startswith("when"))
    for entry in standing.entries:
        when = entry.started[: len("2026-01-01T00:00")].replace("T", " ")
        users, alone = entry.recipe.format_participants(), output.format_epsilon(entry.epsilon, 4)
        plan = "- -" if entry.plan is None else f"{entry.plan[:PLAN_DIGITS]} {entry.round_text}"
        cells = (f"{when}\n{plan}", entry.task, entry.mechanism, users, alone, entry.state)
        table.add_row(*map(Text, cells))
    console = Console(soft_wrap=True)
    console.print(Text(title, style="italic"))
    if standing.entries:
        Console().print(table)
    for entry in standing.entries:
        if entry.state == RESERVED:
            words = (
                f"Reserved, not released: take it back by `shuffledp ledger forget {entry.id}`, if nothing was seen."
            )
            console.print(Text(words))
    if standing.entries:
        output.print_conditions(standing.conditions())
