"""``shuffledp`` without a command: a tour of private collections of real public data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from shuffledp._core.errors import ShuffledpError, install_hint
from shuffledp._core.formatting import format_exact
from shuffledp._core.validation import Floats
from shuffledp.cli import output
from shuffledp.cli._example_flights import FLIGHTS_PACKAGE, MAX_DELAY, MIN_DELAY, destinations, load_flights
from shuffledp.cli.output import Console, ProgressBars
from shuffledp.cli.plan import plot_ranking, print_ranking
from shuffledp.collection.collect import collect
from shuffledp.collection.estimate_tables import DEFAULT_CONFIDENCE
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.report import Report
from shuffledp.ledger.hash_chain import LedgerError
from shuffledp.ledger.ledger import FILE_NAME, Ledger
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.planning.plan import Plan
from shuffledp.planning.planner import plan
from shuffledp.planning.ranking import Ranking
from shuffledp.tasks import Area, Frequency, Location, Mean, Task
from shuffledp.tasks.base import Quantity

if TYPE_CHECKING:
    import pyarrow as pa


DEFAULT_FOLDER = "shuffledp-report"
POPULATION = "flights"
TOUR_DELTA = 1e-8
MAX_BITS = 128
UNITED_STATES = Area(west=-160.0, east=-65.0, south=20.0, north=62.0)
MAX_ROWS_SHOWN = 6
BATCH_ROWS = 1 << 20
REQUIRED_PACKAGES = (FLIGHTS_PACKAGE, "pyarrow", "matplotlib")
"""Packages that the tour needs besides those of the command line."""


@dataclass(frozen=True)
class TourQuestion:
    """One question that the tour answers about the flights."""

    name: str
    text: str
    task: Task
    column: str
    epsilon: float
    mechanism: str | None = None
    """The mechanism to use; None ranks all mechanisms."""


def questions() -> Sequence[TourQuestion]:
    """Returns one question about categories, one about numbers and one about places."""
    return (
        TourQuestion(
            "destinations",
            "How many flights went to each destination?",
            Frequency(destinations()),
            "destination",
            epsilon=1.0,
        ),
        TourQuestion(
            "delays",
            "How many minutes late were they on average?",
            Mean(MIN_DELAY, MAX_DELAY),
            "delay",
            epsilon=0.5,
            mechanism="piecewise",
        ),
        TourQuestion(
            "places",
            "Where on the map did they go?",
            Location(**vars(UNITED_STATES), columns=4, coordinates="degrees"),
            "place",
            epsilon=1.0,
            mechanism="planar-laplace",
        ),
    )


def run_tour() -> None:
    """Runs the whole tour and writes its results to a new folder."""
    _check_packages()
    console = Console()
    folder = _new_folder(Path(DEFAULT_FOLDER))
    flights = load_flights()
    console.print(
        f"Real data: {flights.num_rows:,} flights from New York in 2013 (package {FLIGHTS_PACKAGE}). "
        "Each flight stands for a user\nwho sends randomized messages; a shuffler mixes them, and only what comes out "
        "is analysed.",
        highlight=False,
        soft_wrap=True,
    )
    ledger = _new_ledger(folder)
    with tempfile.TemporaryDirectory() as raw:
        for number, question in enumerate(questions(), 1):
            console.print(f"\n[bold]{number}. {question.text}[/bold]", highlight=False)
            source = _write_column(flights, question.column, Path(raw))
            selected_plan = _choose_plan(question, source.num_rows, folder)
            out = folder / question.name
            report = collect(
                selected_plan, source.path, question.column, out=out, ledger=ledger.path, progress=ProgressBars()
            )
            _print_results(console, report, _compute_truth(selected_plan, question.column, source.path))
    (status,) = ledger.budget_statuses(POPULATION, TOUR_DELTA)
    console.print(
        f"\nAll together, about the same flights: at most ε = {output.format_upper(status.epsilon, 4)} at δ = "
        f"{format_exact(TOUR_DELTA)}, by the ledger.\nReports, estimates, plots, certificates and the shuffled "
        f"messages are in "
        f"./{folder}.\n\n"
        "Try your own:",
        highlight=False,
        soft_wrap=True,
    )
    for example in _examples(folder):
        console.print(
            f"  {os.environ.get('SHUFFLEDP_COMMAND', 'shuffledp')} {example}", highlight=False, soft_wrap=True
        )


def _check_packages() -> None:
    """Raises ShuffledpError early if a package is missing, because the last one is needed only at the end."""
    missing = [name for name in REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        raise ShuffledpError(f"the tour needs {' and '.join(missing)}; {install_hint('tour')}.")


def _examples(folder: Path) -> Sequence[str]:
    return (
        f"simulate {folder}/destinations/plan.json --users 1e9",
        f"verify {folder}/destinations/certificate.json",
        "amplify --mechanism krr --epsilon-local 2 --set options=128 --users 100000 --delta 1e-8",
        "mechanisms",
        "plan --help",
    )


def _new_folder(wished: Path) -> Path:
    """Creates the folder, or the first folder of its name with a number that does not exist yet."""
    number = 1
    folder = wished
    while folder.exists():
        number += 1
        folder = wished.with_name(f"{wished.name}-{number}")
    try:
        folder.mkdir()
    except OSError as error:
        raise ValueError(
            f"cannot write to {folder}: {error.strerror}; run from a folder that you may write to."
        ) from None
    return folder


def _new_ledger(folder: Path) -> Ledger:
    """Creates the tour's ledger; it is accepted, because one of an earlier tour at this path was deleted."""
    ledger = Ledger.create(folder / FILE_NAME)
    with suppress(LedgerError):
        ledger.accept()
    ledger.register(POPULATION)
    return ledger


@dataclass(frozen=True)
class ExampleFile:
    """An input file for ``collect``."""

    path: Path
    num_rows: int


def _write_column(flights: pa.Table, column: str, folder: Path) -> ExampleFile:
    """Writes a column of the flights to a file; places with unknown coordinates or off the map are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if column == "place":
        flights = flights.filter(pc.is_valid(flights["latitude"]))
        both = np.stack([flights["latitude"].to_numpy(), flights["longitude"].to_numpy()], axis=1)
        inside = (both >= [UNITED_STATES.south, UNITED_STATES.west]) & (
            both <= [UNITED_STATES.north, UNITED_STATES.east]
        )
        both = both[inside.all(axis=1)]
        flights = pa.table({column: pa.FixedSizeListArray.from_arrays(pa.array(both.reshape(-1)), 2)})
    path = folder / f"{column}.parquet"
    pq.write_table(flights.select([column]), path)
    return ExampleFile(path, flights.num_rows)


def _choose_plan(question: TourQuestion, users: int, folder: Path) -> Plan:
    ranking = plan(
        question.task, users, question.epsilon, TOUR_DELTA, max_bits=MAX_BITS, mechanism=question.mechanism,
        population=POPULATION, workers=None, progress=ProgressBars(),
    )  # fmt: skip
    if question.mechanism is None:
        print_ranking(ranking)
        plot_ranking(ranking, folder / "plan.png")
    _print_plan(ranking)
    return ranking.best.plan


def _print_plan(ranking: Ranking) -> None:
    """Prints the plan in a sentence."""
    best, goal = ranking.best, ranking.goal
    local = best.mechanism.local_epsilon
    alone = "" if local is None else f", with local ε = {output.format_upper(local, 3)}"
    Console().print(
        f"\nThe plan: {best.name}{alone}; {best.bits:,} bits a user; "
        f"central ε = {output.format_upper(best.proof.upper, 4)} at δ = {format_exact(goal.target.delta)}; "
        f"expected standard error {best.standard_error:.3g}.",
        highlight=False,
        soft_wrap=True,
    )


def _compute_truth(chosen: Plan, column_name: str, source: Path) -> Floats:
    """Returns the true values in the unit of the report, which only a demonstration may compute."""
    column = chosen.column(column_name)
    values = np.concatenate([column.read_values(batch) for batch in FileTable(source).batches(column, BATCH_ROWS)])
    truth = chosen.mechanism.truth(values)
    exact = Estimate(truth, np.zeros_like(truth), len(values))
    return column.quantities(exact, DEFAULT_CONFIDENCE)[0].value


def _print_results(console: Console, report: Report, truth: Floats) -> None:
    quantity = report.quantities[0]
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("estimate", "95% interval", "truth"):
        table.add_column(name, justify="right")
    for place in np.argsort(-truth, kind="stable")[:MAX_ROWS_SHOWN].tolist():
        table.add_row(Text(quantity.labels[place]), *_format_cells(quantity, place), _format_number(truth[place]))
    console.print(table)
    if len(truth) > 1 and quantity.low is not None and quantity.high is not None:
        inside = int(np.sum((quantity.low <= truth) & (truth <= quantity.high)))
        console.print(f"The truth lies in {inside} of all {len(truth)} intervals.", highlight=False)


def _format_cells(quantity: Quantity, place: int) -> list[str]:
    low, high = quantity.low, quantity.high
    if low is None or high is None:
        return [_format_number(quantity.value[place]), ""]
    return [_format_number(quantity.value[place]), f"{_format_number(low[place])} … {_format_number(high[place])}"]


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
