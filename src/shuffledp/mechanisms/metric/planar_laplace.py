"""A place in a region of the plane, reported near where it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Mechanism, OutputTable, Tuning
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.metric_table import (
    LARGEST_DISTANCE,
    RATIO_BITS,
    SMALLEST_DISTANCE,
    MetricTable,
    Whole,
    ratio_below,
    units_of_one,
    whole_units,
    with_rest,
)
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.neighbours import Neighbours
from shuffledp.privacy.space import EARTH_RADIUS, DistanceMatrix
from shuffledp.sampling.random import RandomSource

BITS = 4 * RATIO_BITS
MOST_CELLS = 1024
COORDINATES = ("plane", "degrees")


@dataclass(frozen=True)
class PlanarLaplace(MetricTable):
    """Report a cell of a region with probability in proportion to e^(−distance) of the cell's centre to one's own.

    The region is cut into columns × rows equal cells; rows is 0 for cells that are nearly square. A point counts as the
    centre of its cell. ``epsilon`` is spent over the largest distance of two centres: two points whose cells' centres
    are d apart differ by a factor of at most e^(rate·d), ``rate`` = ε/(largest distance), exactly: the table is one of
    whole units (``MetricTable``). What would fall outside the region is the last message, "outside", made as rare as
    privacy allows. The estimate is the number of users in each cell.

    ``coordinates`` is "plane" for points (x, y), or "degrees" for (latitude, longitude): distances are then metres on
    the map that is true to scale along the region's middle latitude.

    Theorem: [VR] Table 2, planar Laplace: private for rate·distance.
    Deviates: cells in place of points; places outside the region are one message, as rare as the ratios allow.
    """

    epsilon: float
    west: float = 0.0
    east: float = 1.0
    south: float = 0.0
    north: float = 1.0
    columns: int = 6
    rows: int = 0
    coordinates: str = "plane"

    name = "planar-laplace"
    task = "location"
    summary = "where users are: the cell of a map, with planar Laplace noise"
    built_from_numbers = True
    tuning = (Tuning("epsilon", False, False, 1e-6, LARGEST_DISTANCE),)

    def __post_init__(self) -> None:
        level = argument.positive_finite("PlanarLaplace", "epsilon", self.epsilon)
        if not SMALLEST_DISTANCE <= level <= LARGEST_DISTANCE:
            raise ValueError(
                f"PlanarLaplace: epsilon must be from {SMALLEST_DISTANCE:g} to {LARGEST_DISTANCE:g}, got {level!r}."
            )
        for low, high in (("west", "east"), ("south", "north")):
            ends = [argument.real("PlanarLaplace", name, getattr(self, name)) for name in (low, high)]
            if not 0.0 < ends[1] - ends[0] < math.inf:
                raise ValueError(
                    f"PlanarLaplace: {low} must be below {high} and both finite, got {ends[0]!r} and {ends[1]!r}."
                )
        self._check_coordinates()
        columns = argument.count("PlanarLaplace", "columns", self.columns)
        rows = argument.count("PlanarLaplace", "rows", self.rows, at_least=0)
        if rows == 0:
            rows = max(1, round(columns * self._size[1] / self._size[0]))
        if not 2 <= columns * rows <= MOST_CELLS:
            raise ValueError(f"PlanarLaplace: expected 2 to {MOST_CELLS} cells, got {columns} columns and {rows} rows.")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", rows)
        self._tabulate()

    @classmethod
    def per_unit(cls, rate: float, **settings: Any) -> PlanarLaplace:
        """With ε given per unit of distance (per metre for degrees), for example log(4)/200."""
        rate = argument.positive_finite("PlanarLaplace", "rate", rate)
        reach = cls(1.0, **settings).reach
        # The product in floats may be an ulp too large.
        return cls(epsilon=math.nextafter(rate * reach, 0.0), **settings)

    def _check_coordinates(self) -> None:
        if self.coordinates not in COORDINATES:
            raise ValueError(f"PlanarLaplace: coordinates must be plane or degrees, got {self.coordinates!r}.")
        if self.coordinates == "degrees" and not (
            self.south >= -85 and self.north <= 85 and self.east - self.west <= 180
        ):
            raise ValueError(
                "PlanarLaplace: a region in degrees must lie between latitudes -85 and 85 and be at most 180 wide, "
                f"got {self.south!r} to {self.north!r} and {self.west!r} to {self.east!r}."
            )

    def settings(self) -> dict[str, Any]:
        return Mechanism.settings(self)

    # --- the map ----------------------------------------------------------------------------------------------

    @cached_property
    def _size(self) -> tuple[float, float]:
        """Width and height of the region in units of distance."""
        width, height = self.east - self.west, self.north - self.south
        if self.coordinates == "plane":
            return width, height
        metres = math.radians(1) * EARTH_RADIUS
        middle = math.cos(math.radians((self.south + self.north) / 2))
        return width * metres * middle, height * metres

    @property
    def _cell(self) -> tuple[float, float]:
        return self._size[0] / self.columns, self._size[1] / self.rows

    @property
    def reach(self) -> float:
        """The largest distance of two centres."""
        return math.hypot(self._cell[0] * (self.columns - 1), self._cell[1] * (self.rows - 1))

    @property
    def rate(self) -> float:
        """ε per unit of distance between centres."""
        return self.epsilon / self.reach

    @cached_property
    def centres(self) -> Floats:
        """The middle of each cell, in the order of coordinates that values have."""
        x = self.west + (self.east - self.west) * (np.arange(self.columns) + 0.5) / self.columns
        y = self.south + (self.north - self.south) * (np.arange(self.rows) + 0.5) / self.rows
        places = np.stack([np.tile(x, self.rows), np.repeat(y, self.columns)], axis=1)
        return np.ascontiguousarray(places[:, self._order])

    @property
    def _order(self) -> list[int]:
        """Degrees are written latitude first."""
        return [0, 1] if self.coordinates == "plane" else [1, 0]

    def check(self, values: Any) -> Array:
        points = user_values.reals("PlanarLaplace", values, -math.inf, math.inf, axes=2)
        if points.shape[1] != 2:
            raise ValueError(f"PlanarLaplace: expected two coordinates per user, got {points.shape[1]}.")
        x, y = points[:, self._order].T
        outside = (x < self.west) | (x > self.east) | (y < self.south) | (y > self.north)
        if outside.any():
            raise ValueError(f"PlanarLaplace: points must lie in the region, got {points[outside][0].tolist()}.")
        return points

    def cells(self, points: Floats) -> NDArray[np.int64]:
        """The number of the cell of each checked point."""
        x, y = points[:, self._order].T
        column = np.floor((x - self.west) / (self.east - self.west) * self.columns).astype(np.int64)
        row = np.floor((y - self.south) / (self.north - self.south) * self.rows).astype(np.int64)
        return np.asarray(np.minimum(row, self.rows - 1) * self.columns + np.minimum(column, self.columns - 1))

    def decode(self, messages: Array) -> Floats:
        """The centre of each reported cell; NaN for "outside"."""
        places = np.concatenate([self.centres, np.full((1, 2), np.nan)])
        return np.asarray(places[messages])

    # --- the table --------------------------------------------------------------------------------------------

    def _tabulate(self) -> None:
        """Weights depend on the offset alone, so that the table of offsets is lowered in place of the whole one."""
        with precision(BITS):
            distances = self._offset_distances()
            ratios = np.array([[ratio_below(d) for d in line] for line in distances.tolist()], dtype=object)
            place = np.arange(self.columns * self.rows)
            across = np.abs(np.subtract.outer(place % self.columns, place % self.columns))
            along = np.abs(np.subtract.outer(place // self.columns, place // self.columns))
            object.__setattr__(self, "space", DistanceMatrix(distances[along, across]))
            weights = np.exp(-distances)
            scale = units_of_one(self.space, weights[along, across].sum(axis=1))
            units = [[whole_units((-arb(d)).exp(), scale) for d in line] for line in distances.tolist()]
        lowered = _lowered_offsets(np.array(units, dtype=object), ratios)
        self._adopt_units(with_rest(lowered[along, across], ratios[along, across]))

    def _offset_distances(self) -> Floats:
        """rate·distance of two centres by rows and columns between them, rounded up but for the largest, which is ε."""
        width, height = self._cell
        squares = [
            [(arb(width) * i) ** 2 + (arb(height) * j) ** 2 for i in range(self.columns)] for j in range(self.rows)
        ]
        far = squares[-1][-1]
        numbers = [
            [min(round_up(arb(self.epsilon) * (s / far).sqrt()), self.epsilon) for s in line] for line in squares
        ]
        return np.array(numbers)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return super().randomize(self.cells(values), source)

    def truth(self, values: Any) -> Floats:
        cells = self.cells(self.check(values))
        return np.bincount(cells, minlength=len(self.units)).astype(np.float64)

    # --- near inputs ------------------------------------------------------------------------------------------

    def between(self, first: Any, second: Any) -> Neighbours:
        """Two points, by their cells."""
        a, b = self.cells(self.check([first, second])).tolist()
        return self._between(a, b)

    def _near(self, diameter: float) -> Iterator[tuple[int, int]]:
        """Cells that hold two points at most this far apart."""
        width, height = self._cell
        for a, b in self.space.pairs():
            across = max(0, abs(a % self.columns - b % self.columns) - 1) * width
            along = max(0, abs(a // self.columns - b // self.columns) - 1) * height
            if math.hypot(across, along) <= diameter * (1 + 1e-12):
                yield a, b

    def probe(self) -> Array:
        return np.asarray(self.centres[super().probe()])

    def table(self) -> OutputTable:
        plain = super().table()
        return OutputTable(self.centres, plain.messages, plain.probabilities)

    @classmethod
    def examples(cls) -> Sequence[PlanarLaplace]:
        return [
            cls(epsilon=1.0, columns=2, rows=1),
            cls(epsilon=4.0, west=-1.0, east=2.0, columns=3, rows=2),
            cls(epsilon=6.0, west=4.8, east=4.95, south=52.33, north=52.4, columns=3, rows=3, coordinates="degrees"),
        ]


def _lowered_offsets(units: Whole, ratios: Whole) -> Whole:
    """Units by offset, lowered until t(o) ≤ e^D(o−o')·t(o') for all offsets whose difference is one of the map."""
    rows, columns = units.shape
    units = units.copy()
    changed = True
    while changed:
        mirrored = np.concatenate([units[:0:-1], units])
        mirrored = np.concatenate([mirrored[:, :0:-1], mirrored], axis=1)
        changed = False
        for j in range(rows):
            for i in range(columns):
                # Offsets o' from o − (map) to o + (map), cut to those that occur.
                low_j, high_j = max(-(rows - 1), j - rows + 1), rows - 1
                low_i, high_i = max(-(columns - 1), i - columns + 1), columns - 1
                other = mirrored[low_j + rows - 1 : high_j + rows, low_i + columns - 1 : high_i + columns]
                along = np.abs(j - np.arange(low_j, high_j + 1))
                across = np.abs(i - np.arange(low_i, high_i + 1))
                most = int(((ratios[np.ix_(along, across)] * other) >> RATIO_BITS).min())
                if most < units[j, i]:
                    units[j, i], changed = most, True
    return units
