"""``shuffledp ledger``: what each population has given, its budget, and whether the file is what it was."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from shuffledp.cli import options, report as report_option, show as shown
from shuffledp.cli.once import OnceEach
from shuffledp.cli.show import Console
from shuffledp.collection.account import RESERVED
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.ledger import Ledger, chosen_round
from shuffledp.collection.ledger_place import LedgerAddress
from shuffledp.collection.standing import PLAN_DIGITS, Standing
from shuffledp.document import json_text, typed
from shuffledp.planner.plan_file import Plan

LedgerGiven = Annotated[
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
    cls=OnceEach,
    help="What each population has given so far, and its budget.",
    add_completion=False,
    rich_markup_mode=None,
)


def kept(who: str, file: str | None, none: bool, plan: Plan) -> Path | LedgerAddress | None:
    """The ledger that a command keeps, looked at before any work is done; None where it shall keep none.

    What somebody should look at before this plan is collected is said on standard error.
    """
    if none:
        if file is not None:
            raise ValueError(f"{who}: give either --ledger or --no-ledger, not both.")
        return None
    ledger = _ledger(file)
    warn(ledger.warnings(plan))
    return ledger.path


def warn(sentences: Iterable[str]) -> None:
    """Each on a line of standard error."""
    for sentence in sentences:
        shown.say(sentence, err=True)


def _ledger(file: str | None) -> Ledger:
    return Ledger(Ledger.default_path() if file is None else file)


@app.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """What each population has given so far, and its budget."""
    if context.invoked_subcommand is None:
        show()


@app.command()
def create(
    file: LedgerGiven = None,
    population: Annotated[list[str] | None, typer.Option(help="Register these people; may be repeated.")] = None,
) -> None:
    """Make a new ledger, where there is none yet."""
    ledger = Ledger.create(_ledger(file).path)
    for name in population or ():
        ledger.register(name)
    names = ", ".join(standing.population for standing in ledger.standings())
    shown.say(f"A new ledger is at {ledger.path}; it knows {names}.")


@app.command("show")
def show(
    file: LedgerGiven = None,
    population: Annotated[str | None, typer.Option(help="Only these people.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ at which ε is told; by default the budget's.")] = None,
    report: report_option.Report = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """What each population has given; all its collections count together."""
    report_option.demand_place("ledger", report)
    if report is not None and population is None:
        raise ValueError("ledger: --report is about one population; add --population NAME.")
    ledger = _ledger(file)
    standings = ledger.standings(population, delta)
    if report is not None:
        report_option.write("ledger", standings[0].statement(report_option.command_typed()), report)
    for standing in standings:
        warn(standing.warnings)
    if json:
        typer.echo(json_text({"ledger": str(ledger.path), "populations": [one.document() for one in standings]}))
        return
    for standing in standings:
        _print(standing)
    if words := standings[0].accepted_words():
        shown.say(words)


@app.command()
def register(population: Population, file: LedgerGiven = None) -> None:
    """Make people known, so that plans may name them."""
    ledger = _ledger(file)
    ledger.register(population)
    warn(ledger.mistakable(population))


@app.command()
def budget(
    population: Population,
    epsilon: Annotated[float, typer.Option(help="The most that they may give, over all collections.")],
    delta: Annotated[float, typer.Option(help="The δ of that ε.")],
    file: LedgerGiven = None,
) -> None:
    """Set the most that people may be asked for."""
    ledger = _ledger(file)
    ledger.set_budget(population, epsilon, delta)
    warn(ledger.standings(population)[0].warnings)


@app.command()
def reserve(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    file: LedgerGiven = None,
    round_number: Round = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Set a round aside, for as many users as are planned, before it begins."""
    ledger, chosen = _ledger(file), Plan.load(plan)
    warnings = ledger.warnings(chosen)
    warn(warnings)
    number, id_ = chosen_round("ledger", chosen, round_number, ledger), Ledger.new_id()
    guarantee = Guarantee(chosen, chosen.users, round_number=number)
    ledger.reserve(id_, guarantee)
    if json:
        told = {"reservation": id_, "round": number, "users": chosen.users, "epsilon": guarantee.value.upper}
        typer.echo(json_text(told | {"delta": chosen.delta, "warnings": warnings}))
    else:
        which = "" if chosen.rounds == 1 else f"{chosen.round_words(number)} "
        hand = f"hand --reservation {id_} to the shuffler or the estimator."
        shown.say(f"Reserved {which}for {chosen.users:,} users; {hand}")


@app.command()
def forget(
    collection: Annotated[str, typer.Argument(metavar="ID", help="The collection, as `ledger show` names it.")],
    file: LedgerGiven = None,
) -> None:
    """Take back a killed collection that released nothing."""
    _ledger(file).give_back(collection)


@app.command()
def check(
    file: LedgerGiven = None,
    report: Annotated[Path | None, typer.Option(help="A report.json that quotes the ledger.")] = None,
    plan: Annotated[Path | None, typer.Option(help="A plan that quotes the ledger.")] = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Prove that the ledger is what was written, and what others quote."""
    ledger = _ledger(file)
    head = ledger.head()
    if report is not None:
        ledger.demand_contains(_quoted(report), "report")
    if plan is not None:
        ledger.demand_contains(dict(Plan.load(plan).ledger), "plan")
    if json:
        typer.echo(json_text({"ledger": str(ledger.path), "head": head.document()}))
    else:
        shown.say(f"{ledger.path} is whole: {head.entries} entries of the ledger {head.ledger}, head {head.hash}.")


@app.command()
def accept(file: LedgerGiven = None) -> None:
    """Go on with a ledger that is not the one last seen here."""
    ledger = _ledger(file)
    ledger.accept()
    shown.say(f"{ledger.path} is accepted; every report will say that what was given before may be missing.")


def _quoted(report: Path) -> Any:
    """The head that a report tells."""
    try:
        document = json_format.loads(report.read_text("utf-8"))
        return document["ledger"]["head"]
    except OSError as error:
        raise ValueError(f"report: cannot read {report}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"report: {report} quotes no ledger.") from None


def _print(standing: Standing) -> None:
    budget = standing.budget
    most = "no budget" if budget is None else f"budget {typed(budget.epsilon)}"
    if budget is not None and budget.delta != standing.delta:
        most += f", {shown.upper(standing.spent)} spent at δ = {typed(budget.delta)}"
    if standing.entries:
        title = f"{standing.population}: {shown.epsilon_is(standing.epsilon)} at δ = {typed(standing.delta)} ({most})"
    else:
        title = f"{standing.population}: nothing was collected ({most})"
    table = Table(box=None, pad_edge=False)
    for name in ("when (UTC)\nplan, round", "task", "mechanism", "users", "ε alone", "state"):
        table.add_column(name, overflow="fold", no_wrap=name.startswith("when"))
    for entry in standing.entries:
        when = entry.started[: len("2026-01-01T00:00")].replace("T", " ")
        users, alone = entry.recipe.crowd_words(), shown.epsilon(entry.epsilon, 4)
        plan = "- -" if entry.plan is None else f"{entry.plan[:PLAN_DIGITS]} {entry.round_words}"
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
        shown.conditions(standing.conditions())
