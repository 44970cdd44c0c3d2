"""What ``shuffledp`` alone does: a plan and private collections from real public data, with the truth beside them."""

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

from shuffledp.array import Floats
from shuffledp.cli import example_data, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.plan import plot_to, show_ranking
from shuffledp.cli.show import Console
from shuffledp.collection.chain import LedgerFailed
from shuffledp.collection.collect import collect
from shuffledp.collection.input.file_table import FileTable
from shuffledp.collection.ledger import FILE_NAME, Ledger
from shuffledp.collection.manner import CONFIDENCE
from shuffledp.collection.report import Report
from shuffledp.document import typed
from shuffledp.errors import ShuffledpError, installing
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.planner.plan import plan
from shuffledp.planner.plan_file import Plan
from shuffledp.planner.ranking import Ranking
from shuffledp.tasks import Area, Frequency, Location, Mean, Task
from shuffledp.tasks.quantity import Quantity

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "shuffledp-report"
POPULATION = "flights"
DELTA = 1e-8
MOST_BITS = 128
UNITED_STATES = Area(west=-160.0, east=-65.0, south=20.0, north=62.0)
ROWS_SHOWN = 6
WHOLE_FILE = 1 << 20
PACKAGES = (example_data.PACKAGE, "pyarrow", "matplotlib")
"""What the tour needs beside the command line."""


@dataclass(frozen=True)
class TourQuestion:
    """One thing to find out about the flights."""

    name: str
    words: str
    task: Task
    column: str
    epsilon: float
    mechanism: str | None = None
    """Compared with no other where it is named."""


def questions() -> Sequence[TourQuestion]:
    """Categories, numbers and places."""
    return (
        TourQuestion(
            "destinations",
            "How many flights went to each destination?",
            Frequency(example_data.destinations()),
            "destination",
            epsilon=1.0,
        ),
        TourQuestion(
            "delays",
            "How many minutes late were they on average?",
            Mean(example_data.EARLIEST, example_data.LATEST),
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


def run() -> None:
    """The whole tour, into a new folder."""
    _demand_packages()
    console = Console()
    folder = _new_folder(Path(FOLDER))
    flights = example_data.flights()
    console.print(
        f"Real data: {flights.num_rows:,} flights from New York in 2013 (package {example_data.PACKAGE}). "
        "Each flight stands for a user\nwho sends randomized messages; a shuffler mixes them, and only what comes out "
        "is looked at.",
        highlight=False,
        soft_wrap=True,
    )
    ledger = _new_ledger(folder)
    with tempfile.TemporaryDirectory() as raw:
        for number, question in enumerate(questions(), 1):
            console.print(f"\n[bold]{number}. {question.words}[/bold]", highlight=False)
            source = _written(flights, question.column, Path(raw))
            chosen = _planned(question, source.num_rows, folder)
            out = folder / question.name
            report = collect(chosen, source.path, question.column, out=out, ledger=ledger.path, progress=Bars())
            _show(console, report, _truth(chosen, question.column, source.path))
    (standing,) = ledger.standings(POPULATION, DELTA)
    console.print(
        f"\nAll together, about the same flights: at most ε = {show.upper(standing.epsilon, 4)} at δ = {typed(DELTA)}, "
        f"by the ledger.\nReports, estimates, plots, certificates and the shuffled messages are in ./{folder}.\n\n"
        "Try your own:",
        highlight=False,
        soft_wrap=True,
    )
    for example in _examples(folder):
        console.print(
            f"  {os.environ.get('SHUFFLEDP_COMMAND', 'shuffledp')} {example}", highlight=False, soft_wrap=True
        )


def _demand_packages() -> None:
    """Refuse before anything is written, as the last of them is needed only at the end."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ShuffledpError(f"the tour needs {' and '.join(missing)}; {installing('tour')}.")


def _examples(folder: Path) -> Sequence[str]:
    return (
        f"simulate {folder}/destinations/plan.json --users 1e9",
        f"verify {folder}/destinations/certificate.json",
        "amplify --mechanism krr --epsilon-local 2 --set options=128 --users 100000 --delta 1e-8",
        "mechanisms",
        "plan --help",
    )


def _new_folder(wished: Path) -> Path:
    """The folder, or the first of its name with a number that is not there yet."""
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
    """A ledger of the tour's own; the one of an earlier tour in a folder of this name is gone."""
    ledger = Ledger.create(folder / FILE_NAME)
    with suppress(LedgerFailed):
        ledger.accept()
    ledger.register(POPULATION)
    return ledger


@dataclass(frozen=True)
class ExampleFile:
    """A file for ``collect``."""

    path: Path
    num_rows: int


def _written(flights: pa.Table, column: str, folder: Path) -> ExampleFile:
    """The flights' column as a file; flights to places off the map are left out where places are asked for."""
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


def _planned(question: TourQuestion, users: int, folder: Path) -> Plan:
    ranking = plan(
        question.task, users, question.epsilon, DELTA, max_bits=MOST_BITS, mechanism=question.mechanism,
        population=POPULATION, workers=None, progress=Bars(),
    )  # fmt: skip
    if question.mechanism is None:
        show_ranking(ranking)
        plot_to(ranking, folder / "plan.png")
    _explain(ranking)
    return ranking.best.plan


def _explain(ranking: Ranking) -> None:
    """The plan in a sentence."""
    best, goal = ranking.best, ranking.goal
    local = best.mechanism.local_epsilon
    alone = "" if local is None else f", with local ε = {show.upper(local, 3)}"
    Console().print(
        f"\nThe plan: {best.name}{alone}; {best.bits:,} bits a user; "
        f"central ε = {show.upper(best.proof.upper, 4)} at δ = {typed(goal.target.delta)}; "
        f"expected standard error {best.standard_error:.3g}.",
        highlight=False,
        soft_wrap=True,
    )


def _truth(chosen: Plan, column_name: str, source: Path) -> Floats:
    """The true numbers in the unit of the report, which only a demonstration may look at."""
    column = chosen.column(column_name)
    values = np.concatenate([column.values(batch) for batch in FileTable(source).batches(column, WHOLE_FILE)])
    truth = chosen.mechanism.truth(values)
    exact = Estimate(truth, np.zeros_like(truth), len(values))
    return column.quantities(exact, CONFIDENCE)[0].value


def _show(console: Console, report: Report, truth: Floats) -> None:
    quantity = report.quantities[0]
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("estimate", "95% interval", "truth"):
        table.add_column(name, justify="right")
    for place in np.argsort(-truth, kind="stable")[:ROWS_SHOWN].tolist():
        table.add_row(Text(quantity.labels[place]), *_cells(quantity, place), _number(truth[place]))
    console.print(table)
    if len(truth) > 1 and quantity.low is not None and quantity.high is not None:
        inside = int(np.sum((quantity.low <= truth) & (truth <= quantity.high)))
        console.print(f"The truth lies in {inside} of all {len(truth)} intervals.", highlight=False)


def _cells(quantity: Quantity, place: int) -> list[str]:
    low, high = quantity.low, quantity.high
    if low is None or high is None:
        return [_number(quantity.value[place]), ""]
    return [_number(quantity.value[place]), f"{_number(low[place])} … {_number(high[place])}"]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
