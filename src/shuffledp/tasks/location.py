"""Places: how many users are in each cell of a map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.metric.planar_laplace import PlanarLaplace
from shuffledp.tasks.column import Column, is_numeric
from shuffledp.tasks.domain import TASK, WHO, Area, Values
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.task import Sensitivity, Task

if TYPE_CHECKING:
    import pyarrow as pa

PLACES = 60
"""Points of a map along each axis that stand for all of it."""
COLUMNS = 6
PLANE, DEGREES = "plane", "degrees"
EDGES = ("west", "east", "south", "north")


@dataclass(frozen=True, init=False)
class Location(Task):
    """How many users are in each cell of a map.

    ``west``, ``east``, ``south`` and ``north`` are the map's edges, ``columns`` the number of cells from west to east
    and ``rows`` from south to north (0: so that cells are about square). ``coordinates`` says whether edges and places
    are "plane" (x, y) or "degrees" (latitude, longitude).

    >>> Location(west=0, east=2, south=0, north=1, columns=4).domain
    Area(west=0.0, east=2.0, south=0.0, north=1.0)
    """

    area: Area
    columns: int
    rows: int
    coordinates: str

    name = "location"
    kinds = ("location",)
    data = "users spread evenly over the map"
    unit = "users"
    parameters = ("columns", "rows", "coordinates")
    taken = (*EDGES, "columns", "degrees")

    def __init__(
        self,
        west: float,
        east: float,
        south: float,
        north: float,
        columns: float = COLUMNS,
        rows: float = 0,
        coordinates: str = PLANE,
    ) -> None:
        if coordinates not in (PLANE, DEGREES):
            raise ValueError(f"{TASK}: coordinates must be {PLANE!r} or {DEGREES!r}, got {coordinates!r}.")
        object.__setattr__(self, "area", Area(west, east, south, north))
        object.__setattr__(self, "columns", argument.count(TASK, "columns", columns))
        object.__setattr__(self, "rows", argument.count(TASK, "rows", rows, at_least=0))
        object.__setattr__(self, "coordinates", coordinates)

    @property
    def domain(self) -> Values:
        return self.area

    @property
    def facts(self) -> Mapping[str, Any]:
        return {**vars(self.area), "columns": self.columns, "rows": self.rows, "coordinates": self.coordinates}

    def demand(self, mechanism: Mechanism) -> None:
        if not self.can_use(mechanism):
            super().demand(mechanism)
        for name, value in self.facts.items():
            # No rows: the mechanism takes as many as make its cells about square.
            if mechanism.settings().get(name, value) != value and not (name == "rows" and value == 0):
                raise ValueError(f"{WHO}: {mechanism.name} has another {name} than the domain.")

    def sample(self, mechanism: Mechanism) -> Array:
        places = (np.arange(PLACES) + 0.5) / PLACES
        x = self.area.west + places * (self.area.east - self.area.west)
        y = self.area.south + places * (self.area.north - self.area.south)
        points = np.stack([np.tile(x, PLACES), np.repeat(y, PLACES)], axis=1)
        return points if self.coordinates == PLANE else points[:, ::-1]

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def values(self, column: Column, array: pa.Array) -> Any:
        sizes, entries = column.lists(array)
        if (sizes != 2).any():
            raise column.refuse("expected two coordinates in every row, got lists of another length")
        if not is_numeric(entries):
            raise column.refuse(f"expected numbers as coordinates, got {entries.type}")
        numbers = column.without_nulls(entries).to_numpy(zero_copy_only=False)
        return numbers.astype(np.float64).reshape(-1, 2)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        assert isinstance(mechanism, PlanarLaplace), "a mechanism for places"
        labels = [f"{first:.6g}, {second:.6g}" for first, second in mechanism.centres]
        return [Quantity.of("users", labels, estimate, confidence)]

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        if not isinstance(domain, Area):
            raise ValueError(f"{WHO}: the task {cls.name!r} needs a domain of {Area.kind}, got {domain.kind}.")
        return cls(**vars(domain), **parameters)

    @classmethod
    def from_options(cls, given: Given) -> Task:
        west, east, south, north = (given.need(name) for name in EDGES)
        columns = COLUMNS if given.columns is None else given.count("columns")
        return cls(west, east, south, north, columns, coordinates=DEGREES if given.degrees else PLANE)
