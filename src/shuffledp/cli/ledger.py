"""``shuffledp ledger``: what each population has given, and its budget."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shuffledp.cli import options, show
from shuffledp.cli.collect import LEDGER, LedgerFile
from shuffledp.collection.ledger import RESERVED, Ledger, Standing
from shuffledp.collection.report import standing_document
from shuffledp.document import json_text


def command(
    file: LedgerFile = LEDGER,
    population: Annotated[str | None, typer.Option(help="Only this population.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ at which ε is told; the budget's by default.")] = None,
    budget: Annotated[float | None, typer.Option(help="Set the population's budget ε, with --delta.")] = None,
    forget: Annotated[str | None, typer.Option(help="Take back a killed collection that released nothing.")] = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """What each population has given so far, and its budget. All its collections count together."""
    ledger = Ledger(file)
    if budget is not None:
        if population is None or delta is None:
            raise ValueError("ledger: --budget needs --population and --delta.")
        ledger.set_budget(population, budget, delta)
    if forget is not None:
        ledger.forget(forget)
    standings = ledger.standings(population, delta)
    if json:
        typer.echo(json_text({"ledger": str(file), "populations": [standing_document(s) for s in standings]}))
        return
    if not standings:
        typer.echo(f"Nothing has been collected according to {file}.")
    for standing in standings:
        if standing.entries or standing.budget:
            _print(standing)
        else:
            typer.echo(f"{file} knows nothing of {standing.population!r}.")


def _print(standing: Standing) -> None:
    budget = "no budget" if standing.budget is None else f"budget {standing.budget.epsilon:g}"
    title = f"{standing.population}: {show.epsilon_is(standing.epsilon)} at δ = {standing.delta:g} ({budget})"
    table = Table(box=None, pad_edge=False)
    for name in ("when (UTC)", "task", "mechanism", "users", "ε alone", "state"):
        table.add_column(name, overflow="fold", no_wrap=name.startswith("when"))
    for entry in standing.entries:
        when = entry.started[: len("2026-01-01T00:00")].replace("T", " ")
        cells = (when, entry.task, entry.mechanism, f"{entry.users:,}", show.epsilon(entry.epsilon, 4), entry.state)
        table.add_row(*map(Text, cells))
    console = Console(soft_wrap=True)
    console.print(Text(title, style="italic"))
    if standing.entries:
        Console().print(table)
    for entry in standing.entries:
        if entry.state == RESERVED:
            console.print(Text(f"Reserved, not released: take it back by --forget {entry.id}, if nothing was seen."))
