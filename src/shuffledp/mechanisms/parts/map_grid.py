"""A region of the plane cut into cells: places in it, the cells they fall in, and the distances between cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.parts.metric_table import MetricLaw
from shuffledp.mechanisms.parts.table_reading import TableReading
from shuffledp.mechanisms.parts.table_reference import TableReference
from shuffledp.mechanisms.parts.user_values import UserValues, reals
from shuffledp.privacy.distance import EARTH_RADIUS

ROUNDING = 1e-12
"""More than the relative rounding of distances in floats."""
HAIR = 1e-15
"""Relative distance from an edge on which side of it a place is told in floats."""


MOST_ROWS = 1e9
"""Far more than any map is cut into; what is larger is refused later."""


@dataclass(frozen=True)
class MapGrid:
    """columns × rows equal cells; ``coordinates`` "plane" for points (x, y), or "degrees" for (latitude, longitude)."""

    west: float
    east: float
    south: float
    north: float
    columns: int
    rows: int
    coordinates: str

    @classmethod
    def of(
        cls, west: float, east: float, south: float, north: float, columns: int, rows: int, coordinates: str
    ) -> MapGrid:
        """With as many rows as make cells nearly square where ``rows`` is 0."""
        flat = cls(west, east, south, north, columns, rows or 1, coordinates)
        if rows:
            return flat
        width, height = flat.size
        return replace(flat, rows=max(1, round(min(columns * height / width, MOST_ROWS))))

    @cached_property
    def size(self) -> tuple[float, float]:
        """Width and height of the region in units of distance."""
        width, height = self.east - self.west, self.north - self.south
        if self.coordinates == "plane":
            return width, height
        metres = math.radians(1) * EARTH_RADIUS
        middle = math.cos(math.radians((self.south + self.north) / 2))
        return width * metres * middle, height * metres

    @property
    def cell(self) -> tuple[float, float]:
        """Width and height of a cell."""
        return self.size[0] / self.columns, self.size[1] / self.rows

    @property
    def reach(self) -> float:
        """The largest distance of two centres."""
        return math.hypot(self.cell[0] * (self.columns - 1), self.cell[1] * (self.rows - 1))

    @cached_property
    def centres(self) -> Floats:
        """The middle of each cell, in the order of coordinates that values have."""
        x = self.west + (self.east - self.west) * (np.arange(self.columns) + 0.5) / self.columns
        y = self.south + (self.north - self.south) * (np.arange(self.rows) + 0.5) / self.rows
        places = np.stack([np.tile(x, self.rows), np.repeat(y, self.columns)], axis=1)
        return np.ascontiguousarray(places[:, self.order])

    @property
    def order(self) -> list[int]:
        """Degrees are written latitude first."""
        return [0, 1] if self.coordinates == "plane" else [1, 0]

    def cells(self, points: Floats) -> NDArray[np.int64]:
        """The number of the cell of each checked point."""
        x, y = points[:, self.order].T
        column = np.floor((x - self.west) / (self.east - self.west) * self.columns).astype(np.int64)
        row = np.floor((y - self.south) / (self.north - self.south) * self.rows).astype(np.int64)
        return np.asarray(np.minimum(row, self.rows - 1) * self.columns + np.minimum(column, self.columns - 1))

    def steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many columns, and how many rows, are between every two cells."""
        place = np.arange(self.columns * self.rows)
        across = np.abs(np.subtract.outer(place % self.columns, place % self.columns))
        along = np.abs(np.subtract.outer(place // self.columns, place // self.columns))
        return across, along

    def least_distance(self, a: int, b: int) -> float:
        """Of two points of these cells."""
        width, height = self.cell
        across = max(0, abs(a % self.columns - b % self.columns) - 1) * width
        along = max(0, abs(a // self.columns - b // self.columns) - 1) * height
        return math.hypot(across, along)

    def nearest_points(self, a: int, b: int) -> Floats:
        """A place in each of two cells, a hair from where the cells are nearest to each other."""
        places = np.empty((2, 2))
        for axis, (low, high, count) in enumerate(
            ((self.west, self.east, self.columns), (self.south, self.north, self.rows))
        ):
            hair = HAIR * max(abs(low), abs(high))
            one, other = (cell // self.columns if axis else cell % self.columns for cell in (a, b))
            edges = low + (high - low) * np.array([max(one, other), min(one, other) + 1]) / count
            beside = [edges[0] + hair, edges[1] - hair] if one > other else [edges[1] - hair, edges[0] + hair]
            places[:, axis] = beside if one != other else edges.mean()
        return np.ascontiguousarray(places[:, self.order])

    def distance(self, points: Floats) -> float:
        """Of two places, in the unit of distance."""
        x, y = (points[1] - points[0])[self.order]
        return math.hypot(x * self.size[0] / (self.east - self.west), y * self.size[1] / (self.north - self.south))


@dataclass(frozen=True)
class MapPoint(UserValues):
    """A point of the region per user; ``ends`` are two cells that are hard to hide from each other."""

    who: str
    map: MapGrid
    ends: tuple[int, int]

    def check(self, values: Any) -> Array:
        points, region = reals(self.who, values, -math.inf, math.inf, axes=2), self.map
        if points.shape[1] != 2:
            raise ValueError(f"{self.who}: expected two coordinates per user, got {points.shape[1]}.")
        x, y = points[:, region.order].T
        outside = (x < region.west) | (x > region.east) | (y < region.south) | (y > region.north)
        if outside.any():
            raise ValueError(f"{self.who}: points must lie in the region, got {points[outside][0].tolist()}.")
        return points

    def probe(self) -> Array:
        return np.asarray(self.map.centres[np.array(self.ends)])


@dataclass(frozen=True)
class MapLaw(MetricLaw):
    """The law of a table of cells: points are as near as the nearest points of their cells."""

    map: MapGrid

    def near(self, diameter: float) -> Iterator[tuple[int, int]]:
        """Cells that hold two points at most this far apart."""
        return ((a, b) for a, b in self.space.pairs() if self.map.least_distance(a, b) <= diameter * (1 + ROUNDING))

    def surely_near(self, a: int, b: int, diameter: float) -> bool:
        """Cells are half open: where the diameter is just their distance, no two of their points are that near."""
        points = self.map.nearest_points(a, b)
        if self.map.cells(points).tolist() != [a, b]:
            return False
        return self.map.distance(points) <= diameter * (1 - ROUNDING)


@dataclass(frozen=True)
class MapReading(TableReading):
    """The number of users in each cell."""

    map: MapGrid

    def truth(self, values: Array) -> Floats:
        return super().truth(self.map.cells(values))


@dataclass(frozen=True)
class MapReference(TableReference):
    """The reference law of a table of cells."""

    map: MapGrid

    def rows(self, values: Array) -> Integers:
        return self.map.cells(values)
