"""Locations: the number of users in each cell of a map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.metric.planar_laplace import MapGrid, MapPoint
from shuffledp.privacy.randomizer_interface import HasNeighbours
from shuffledp.tasks.base import CELLS, POST_PROCESSING_METHODS, Quantity, Sensitivity, Shape, Task
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import PLAN_PREFIX, TASK_PREFIX, Area, Interval, TaskOptions, Values, require_domain

if TYPE_CHECKING:
    import pyarrow as pa

POINT_TASK = "location"
"""``Mechanism.task`` of mechanisms that take places themselves; the others take the number of a cell."""
SAMPLE_POINTS_PER_AXIS = 60
"""Representative points of a map along each axis."""
MAX_CELLS = 1 << 20
DEFAULT_COLUMNS = 6
PLANE, DEGREES = "plane", "degrees"
AXIS_COLUMN_NAMES = {"x": ("x", "lon", "lng", "long", "longitude"), "y": ("y", "lat", "latitude")}
"""Recognised names of coordinate columns."""
OFF_MAP_HINT = (
    "; move them to its edges ({rules=Rules(clip=True)}), plan a larger map, or check if the coordinates are swapped"
)
"""Words for a phrase."""
EDGES = ("west", "east", "south", "north")


@dataclass(frozen=True, init=False)
class Location(Task):
    """The number of users in each cell of a map.

    It is done by mechanisms for places, or by those for frequencies; then a place becomes the number of its cell before
    it is randomized. Only the former guarantee privacy by distance.

    Args:
        west: Smallest x or longitude.
        east: Largest x or longitude.
        south: Smallest y or latitude.
        north: Largest y or latitude.
        columns: Number of cells from west to east.
        rows: Number of cells from south to north; 0 makes cells about square.
        coordinates: "plane" for edges and places as (x, y), "degrees" for (latitude, longitude).

    Raises:
        ValueError: If an edge is not below the opposite one, the map in degrees exceeds the globe, there are more than
            2²⁰ cells, or ``coordinates`` is unknown.
        TypeError: If an edge or a number of cells is not a number.

    >>> Location(west=0, east=2, south=0, north=1, columns=4).domain
    Area(west=0.0, east=2.0, south=0.0, north=1.0)
    """

    area: Area
    columns: int
    rows: int
    coordinates: str

    name = "location"
    mechanism_tasks = (POINT_TASK, "frequency")
    data_description = "users spread evenly over the map"
    unit = "users"
    is_numeric = True
    supports_subsampling = True
    post = tuple(POST_PROCESSING_METHODS)
    parameters = ("columns", "rows", "coordinates")
    accepted_options = (*EDGES, "columns", "degrees")

    def __init__(
        self,
        west: float,
        east: float,
        south: float,
        north: float,
        columns: float = DEFAULT_COLUMNS,
        rows: float = 0,
        coordinates: str = PLANE,
    ) -> None:
        if coordinates not in (PLANE, DEGREES):
            raise ValueError(f"{TASK_PREFIX}: coordinates must be {PLANE!r} or {DEGREES!r}, got {coordinates!r}.")
        object.__setattr__(self, "area", Area(west, east, south, north))
        object.__setattr__(self, "columns", validation.count(TASK_PREFIX, "columns", columns))
        object.__setattr__(self, "rows", validation.count(TASK_PREFIX, "rows", rows, at_least=0))
        object.__setattr__(self, "coordinates", coordinates)
        edges = self.area
        if coordinates == DEGREES and not (edges.south >= -90 and edges.north <= 90 and edges.east - edges.west <= 360):
            raise ValueError(
                f"{TASK_PREFIX}: a map in degrees must lie between latitudes -90 and 90 and be at most 360 wide, got "
                f"latitudes {edges.south:g} to {edges.north:g} and longitudes {edges.west:g} to {edges.east:g}."
            )
        if self.cells > MAX_CELLS:
            raise ValueError(
                f"{TASK_PREFIX}: expected at most {MAX_CELLS:,} cells, got {self.grid.columns:,} columns and "
                f"{self.grid.rows:,} rows; give fewer columns."
            )

    @cached_property
    def grid(self) -> MapGrid:
        """The map divided into cells."""
        return MapGrid.from_bounds(
            **vars(self.area), columns=self.columns, rows=self.rows, coordinates=self.coordinates
        )

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.grid.columns * self.grid.rows

    @property
    def domain(self) -> Values:
        return self.area

    @property
    def _map_settings(self) -> Mapping[str, Any]:
        return {**vars(self.area), "columns": self.columns, "rows": self.rows, "coordinates": self.coordinates}

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {**self._map_settings, "options": self.cells}

    def check_mechanism(self, mechanism: Mechanism) -> None:
        if not self.can_use(mechanism):
            super().check_mechanism(mechanism)
        settings = mechanism.settings()
        if not _takes_points(mechanism):
            self._check_table_rows(mechanism, self.cells)
            options = settings.get("options", self.cells)
            if options != self.cells:
                raise ValueError(
                    f"{PLAN_PREFIX}: {mechanism.name} has options = {options}, but the map has {self.cells} cells."
                )
            return
        for name, value in self._map_settings.items():
            # With rows = 0 the mechanism chooses the number of rows that makes its cells about square.
            if settings.get(name, value) != value and not (name == "rows" and value == 0):
                raise ValueError(f"{PLAN_PREFIX}: {mechanism.name} has another {name} than the domain.")

    def ranking_remark(self, offered: Sequence[Mechanism]) -> str:
        metric = [mechanism.name for mechanism in offered if isinstance(mechanism, HasNeighbours)]
        if len(metric) == len(offered):
            return ""
        if not metric:
            return "No mechanism hides near places better than distant ones: all hide every cell equally well."
        verb = "hide" if len(metric) > 1 else "hides"
        return (
            f"Only {' and '.join(metric)} {verb} near places better than distant ones; the others hide every cell "
            f"equally well."
        )

    def representative_values(self, mechanism: Mechanism) -> Array:
        if not _takes_points(mechanism):
            return np.arange(self.cells)
        places = (np.arange(SAMPLE_POINTS_PER_AXIS) + 0.5) / SAMPLE_POINTS_PER_AXIS
        x = self.area.west + places * (self.area.east - self.area.west)
        y = self.area.south + places * (self.area.north - self.area.south)
        points = np.stack([np.tile(x, SAMPLE_POINTS_PER_AXIS), np.repeat(y, SAMPLE_POINTS_PER_AXIS)], axis=1)
        return points if self.coordinates == PLANE else points[:, ::-1]

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(2.0, math.sqrt(2.0))

    def central_factor(self) -> float:
        # As for frequencies: the total of all counts is known.
        return math.sqrt(1 - 1 / self.cells)

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        places = self._clip_points(column, self._read_points(column, array))
        points = column.check_values(places, MapPoint(self.name, self.grid, (0, 0)).check, OFF_MAP_HINT)
        return points if _takes_points(column.mechanism) else self.grid.find_cells(points)

    def resolve_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        # One column of two coordinates, or two columns. If their names are not recognised, the first is x, or the
        # latitude if the map is in degrees.
        if len(named) > 2:
            raise ValueError(f"input: expected a column of places, or one for each coordinate, got {len(named)}.")
        axes = [find_axis(name) for name in named]
        # Latitude comes first.
        expected = ["x", "y"] if self.coordinates == PLANE else ["y", "x"]
        return named[::-1] if axes == expected[::-1] else named

    def _read_points(self, column: ColumnReader, array: pa.Array) -> Array:
        """Returns two coordinates per row."""
        if len(column.names) > 1:
            return np.stack([column.read_numbers(part, "as coordinates") for part in array.flatten()], axis=1)
        sizes, entries = column.read_lists(array)
        if (sizes != 2).any():
            raise column.build_error("expected two coordinates in every row, got lists of another length", sizes != 2)
        owners = np.repeat(np.arange(len(sizes)), 2)
        return column.read_numbers(entries, "as coordinates", owners).reshape(-1, 2)

    def _clip_points(self, column: ColumnReader, places: Array) -> Array:
        """Moves places to the map's edges if that is the rule."""
        edges = [Interval(self.area.west, self.area.east), Interval(self.area.south, self.area.north)]
        order = enumerate(self.grid.coordinate_order)
        return np.stack([column.clip_numbers(places[:, place], edges[axis]) for place, axis in order], axis=1)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        labels = [f"{first:.6g}, {second:.6g}" for first, second in self.grid.centres]
        users = float(estimate.users)
        return [
            Quantity.from_estimate("users", labels, estimate, confidence, Shape(CELLS, 0.0, users, users, self.grid))
        ]

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        return cls(**vars(require_domain(cls.name, domain, Area)), **parameters)

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        west, east, south, north = (given.require_number(name) for name in EDGES)
        columns = DEFAULT_COLUMNS if given.columns is None else given.require_count("columns")
        return cls(west, east, south, north, columns, coordinates=DEGREES if given.degrees else PLANE)


def find_axis(name: str) -> str | None:
    """Returns the axis of a column of this name; None if the name is not recognised."""
    plain = name.strip().casefold()
    return next((axis for axis, known in AXIS_COLUMN_NAMES.items() if plain in known), None)


def _takes_points(mechanism: Mechanism) -> bool:
    return mechanism.task == POINT_TASK
