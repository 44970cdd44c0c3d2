"""Places: how many users are in each cell of a map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.map_grid import MapGrid, MapPoint
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.tasks.adjustment import WAYS
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, WHO, Area, Interval, Values
from shuffledp.tasks.given import Given
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import CELLS, Shape
from shuffledp.tasks.task import Sensitivity, Task

if TYPE_CHECKING:
    import pyarrow as pa

PLACES_TASK = "location"
"""What mechanisms say they estimate that take places themselves; the others take the number of a cell."""
PLACES = 60
"""Points of a map along each axis that stand for all of it."""
MOST_CELLS = 1 << 20
COLUMNS = 6
PLANE, DEGREES = "plane", "degrees"
AXES = {"x": ("x", "lon", "lng", "long", "longitude"), "y": ("y", "lat", "latitude")}
"""What columns of coordinates are called."""
OFF_THE_MAP = "; move them to its edges (--clip), plan a larger map, or see whether the coordinates are swapped"
EDGES = ("west", "east", "south", "north")


@dataclass(frozen=True, init=False)
class Location(Task):
    """How many users are in each cell of a map.

    Mechanisms for places answer it, and those for frequencies: a place becomes the number of its cell before it is
    randomized. Only the former promise distances.

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
    kinds = (PLACES_TASK, "frequency")
    data = "users spread evenly over the map"
    unit = "users"
    numeric = True
    sampled = True
    post = tuple(WAYS)
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
        edges = self.area
        if coordinates == DEGREES and not (edges.south >= -90 and edges.north <= 90 and edges.east - edges.west <= 360):
            raise ValueError(
                f"{TASK}: a map in degrees must lie between latitudes -90 and 90 and be at most 360 wide, got "
                f"latitudes {edges.south:g} to {edges.north:g} and longitudes {edges.west:g} to {edges.east:g}."
            )
        if self.cells > MOST_CELLS:
            raise ValueError(
                f"{TASK}: expected at most {MOST_CELLS:,} cells, got {self.grid.columns:,} columns and "
                f"{self.grid.rows:,} rows; give fewer columns."
            )

    @cached_property
    def grid(self) -> MapGrid:
        """The map cut into its cells."""
        return MapGrid.of(**vars(self.area), columns=self.columns, rows=self.rows, coordinates=self.coordinates)

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.grid.columns * self.grid.rows

    @property
    def domain(self) -> Values:
        return self.area

    @property
    def _region(self) -> Mapping[str, Any]:
        return {**vars(self.area), "columns": self.columns, "rows": self.rows, "coordinates": self.coordinates}

    @property
    def facts(self) -> Mapping[str, Any]:
        return {**self._region, "options": self.cells}

    def demand(self, mechanism: Mechanism) -> None:
        if not self.can_use(mechanism):
            super().demand(mechanism)
        settings = mechanism.settings()
        if not _takes_places(mechanism):
            self._demand_rows(mechanism, self.cells)
            if settings.get("options", self.cells) != self.cells:
                has = f"has options = {settings['options']}"
                raise ValueError(f"{WHO}: {mechanism.name} {has}, but the map has {self.cells} cells.")
            return
        for name, value in self._region.items():
            # No rows: the mechanism takes as many as make its cells about square.
            if settings.get(name, value) != value and not (name == "rows" and value == 0):
                raise ValueError(f"{WHO}: {mechanism.name} has another {name} than the domain.")

    def caveat(self, offered: Sequence[Mechanism]) -> str:
        metric = [mechanism.name for mechanism in offered if isinstance(mechanism, HasNeighbours)]
        if len(metric) == len(offered):
            return ""
        what = "distances, that near places are hidden better than far ones"
        if not metric:
            return f"None of these promises {what}: all cells are hidden alike."
        verb = "promise" if len(metric) > 1 else "promises"
        return f"Only {' and '.join(metric)} {verb} {what}; the others hide all cells alike."

    def sample(self, mechanism: Mechanism) -> Array:
        if not _takes_places(mechanism):
            return np.arange(self.cells)
        places = (np.arange(PLACES) + 0.5) / PLACES
        x = self.area.west + places * (self.area.east - self.area.west)
        y = self.area.south + places * (self.area.north - self.area.south)
        points = np.stack([np.tile(x, PLACES), np.repeat(y, PLACES)], axis=1)
        return points if self.coordinates == PLANE else points[:, ::-1]

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def central_factor(self) -> float:
        """As for frequencies: all counts together are known."""
        return math.sqrt(1 - 1 / self.cells)

    def values(self, column: Column, array: pa.Array) -> Any:
        places = self._clipped(column, self._places(column, array))
        inside = MapPoint(self.name, self.grid, (0, 0))
        found = column.checked(places, inside.check, OFF_THE_MAP)
        return found if _takes_places(column.mechanism) else self.grid.cells(found)

    def columns_read(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """One column of two coordinates, or two columns, put in order by their names where these tell it.

        Otherwise the first is x, or the latitude where the map is in degrees.
        """
        if len(named) > 2:
            raise ValueError(f"input: expected a column of places, or one for each coordinate, got {len(named)}.")
        axes = [axis_of(name) for name in named]
        # Degrees are written latitude first.
        wanted = ["x", "y"] if self.coordinates == PLANE else ["y", "x"]
        return named[::-1] if axes == wanted[::-1] else named

    def _places(self, column: Column, array: pa.Array) -> Array:
        """Two coordinates per row."""
        if len(column.names) > 1:
            return np.stack([column.plain_numbers(part, "as coordinates") for part in array.flatten()], axis=1)
        sizes, entries = column.lists(array)
        if (sizes != 2).any():
            raise column.refuse("expected two coordinates in every row, got lists of another length", sizes != 2)
        owners = np.repeat(np.arange(len(sizes)), 2)
        return column.plain_numbers(entries, "as coordinates", owners).reshape(-1, 2)

    def _clipped(self, column: Column, places: Array) -> Array:
        """Moved to the map's edges, where that is the rule."""
        edges = [Interval(self.area.west, self.area.east), Interval(self.area.south, self.area.north)]
        moved = [column.clipped(places[:, place], edges[axis]) for place, axis in enumerate(self.grid.order)]
        return np.stack(moved, axis=1)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels = [f"{first:.6g}, {second:.6g}" for first, second in self.grid.centres]
        users = float(estimate.users)
        return [Quantity.of("users", labels, estimate, confidence, Shape(CELLS, 0.0, users, users, self.grid))]

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


def axis_of(name: str) -> str | None:
    """Along which axis a column of this name runs; None where its name does not tell."""
    plain = name.strip().casefold()
    return next((axis for axis, known in AXES.items() if plain in known), None)


def _takes_places(mechanism: Mechanism) -> bool:
    return mechanism.task == PLACES_TASK
