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
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.ledger import Ledger, choose_round
from shuffledp.ledger.storage import LedgerAddress
from shuffledp.planning.plan import Plan

LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger", help="The ledger, a file or postgresql://…; by default $SHUFFLEDP_LEDGER, or the user's own ledger."
    ),
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Keep no ledger.")]
Round = Annotated[
    int | None, typer.Option("--round", help="Number of the plan's round; by default the ledger's next free one.")
]
Population = Annotated[str, typer.Argument(metavar="POPULATION", help="Name of the population, as in plans.")]

app = typer.Typer(
    cls=UniqueOptionsGroup,
    help="Show and manage privacy losses and budgets.",
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
    """Show and manage privacy losses and budgets."""
    if context.invoked_subcommand is None:
        show()


@app.command()
def create(
    file: LedgerOption = None,
    population: Annotated[list[str] | None, typer.Option(help="Register these people; may be repeated.")] = None,
) -> None:
    """Create a new ledger."""
    ledger = Ledger.create(_open_ledger(file).path)
    for name in population or ():
        ledger.register(name)
    names = ", ".join(status.population for status in ledger.budget_statuses())
    output.print_text(f"A new ledger is at {ledger.path}; it knows {names}.")


@app.command("show")
def show(
    file: LedgerOption = None,
    population: Annotated[str | None, typer.Option(help="Only these people.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ at which ε is shown; by default that of the budget.")] = None,
    report: options.Report = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Show the privacy loss of each population over all its collections."""
    options.check_report_path("ledger", report)
    if report is not None and population is None:
        raise ValueError("ledger: --report is about one population; add --population NAME.")
    ledger = _open_ledger(file)
    statuses = ledger.budget_statuses(population, delta)
    if report is not None:
        options.write_statement("ledger", statuses[0].statement(options.format_command_line()), report)
    for status in statuses:
        print_warnings(status.warnings)
    if json:
        typer.echo(format_json({"ledger": str(ledger.path), "populations": [one.document() for one in statuses]}))
        return
    for status in statuses:
        _print_status(status)
    if words := statuses[0].format_acceptances():
        output.print_text(words)


@app.command()
def register(population: Population, file: LedgerOption = None) -> None:
    """Register a population, so that plans may name it."""
    ledger = _open_ledger(file)
    ledger.register(population)
    print_warnings(ledger.find_similar_name_warnings(population))


@app.command()
def budget(
    population: Population,
    epsilon: Annotated[float, typer.Option(help="Largest ε of all collections together.")],
    delta: Annotated[float, typer.Option(help="The δ of that ε.")],
    file: LedgerOption = None,
) -> None:
    """Set the budget of a population."""
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
    """Reserve a round for the planned number of users before it begins."""
    ledger, chosen = _open_ledger(file), Plan.load(plan)
    warnings = ledger.warnings(chosen)
    print_warnings(warnings)
    number, reservation = choose_round("ledger", chosen, round_number, ledger), Ledger.new_id()
    guarantee = Guarantee(chosen, chosen.users, round_number=number)
    ledger.reserve(reservation, guarantee)
    if json:
        document = {
            "reservation": reservation,
            "round": number,
            "users": chosen.users,
            "epsilon": guarantee.value.upper,
        }
        typer.echo(format_json(document | {"delta": chosen.delta, "warnings": warnings}))
    else:
        round_text = "" if chosen.rounds == 1 else f"{chosen.format_round(number)} "
        advice = f"hand --reservation {reservation} to the shuffler or the estimator."
        output.print_text(f"Reserved {round_text}for {chosen.users:,} users; {advice}")


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
    """Verify the ledger, and the entries that reports and plans quote."""
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
    """Accept a ledger that differs from the one last seen here."""
    ledger = _open_ledger(file)
    ledger.accept()
    output.print_text(f"{ledger.path} is accepted; every report will state that earlier collections may be missing.")


def _read_quoted_head(report: Path) -> Any:
    """Returns the ledger's head that a report quotes."""
    try:
        document = json_format.loads(report.read_text("utf-8"))
        return document["ledger"]["head"]
    except OSError as error:
        raise ValueError(f"report: cannot read {report}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"report: {report} quotes no ledger.") from None


def _print_status(status: BudgetStatus) -> None:
    budget = status.budget
    budget_text = "no budget" if budget is None else f"budget {format_exact(budget.epsilon)}"
    if budget is not None and budget.delta != status.delta:
        budget_text += f", {output.format_upper(status.spent)} spent at δ = {format_exact(budget.delta)}"
    if status.entries:
        spent = f"{output.format_epsilon_equation(status.epsilon)} at δ = {format_exact(status.delta)}"
        title = f"{status.population}: {spent} ({budget_text})"
    else:
        title = f"{status.population}: nothing was collected ({budget_text})"
    table = Table(box=None, pad_edge=False)
    for name in ("when (UTC)\nplan, round", "task", "mechanism", "users", "ε alone", "state"):
        table.add_column(name, overflow="fold", no_wrap=name.startswith("when"))
    for entry in status.entries:
        when = entry.started[: len("2026-01-01T00:00")].replace("T", " ")
        users, epsilon_alone = entry.recipe.format_participants(), output.format_epsilon(entry.epsilon, 4)
        plan = "- -" if entry.plan is None else f"{entry.plan[:PLAN_DIGITS]} {entry.round_text}"
        cells = (f"{when}\n{plan}", entry.task, entry.mechanism, users, epsilon_alone, entry.state)
        table.add_row(*map(Text, cells))
    console = Console(soft_wrap=True)
    console.print(Text(title, style="italic"))
    if status.entries:
        Console().print(table)
    for entry in status.entries:
        if entry.state == RESERVED:
            command = f"shuffledp ledger forget {entry.id}"
            console.print(Text(f"Reserved, not released: take it back with `{command}`, if nobody saw any messages."))
    if status.entries:
        output.print_conditions(status.conditions())
