"""Planar Laplace mechanism: a location in a region of the plane, reported by a cell that is likely to be near."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import InputDomain, check_interval, check_reals
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.table_law import UnitTable
from shuffledp.mechanisms.base.table_mechanism import TableEstimator, TableProposal
from shuffledp.mechanisms.metric.exponential import (
    MAX_DISTANCE,
    RATIO_BITS,
    BigIntegers,
    MetricLaw,
    add_rest_column,
    check_largest_distance,
    ratio_below,
    round_to_units,
    units_per_weight,
)
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.privacy.input_pairs import Neighbours
from shuffledp.privacy.metric_space import EARTH_RADIUS, DistanceMatrix
from shuffledp.privacy.randomizer_interface import HasNeighbours
from shuffledp.sampling.random_sources import RandomSource

# --- Regions cut into cells: input domain, law, estimator and proposal ---


DISTANCE_TOLERANCE = 1e-12
"""Larger than the relative rounding error of distances in floats."""
EDGE_TOLERANCE = 1e-15
"""Relative distance from an edge at which floats still distinguish its two sides."""


MAX_ROWS = 1e9
"""Cap on the default number of rows; larger maps are rejected later."""


@dataclass(frozen=True)
class MapGrid:
    """columns × rows equal cells; ``coordinates``: "plane" for points (x, y), "degrees" for (latitude, longitude)."""

    west: float
    east: float
    south: float
    north: float
    columns: int
    rows: int
    coordinates: str

    @classmethod
    def from_bounds(
        cls, west: float, east: float, south: float, north: float, columns: int, rows: int, coordinates: str
    ) -> MapGrid:
        """Returns the grid, with as many rows as make cells nearly square if ``rows`` is 0."""
        flat = cls(west, east, south, north, columns, rows or 1, coordinates)
        if rows:
            return flat
        width, height = flat.size
        return replace(flat, rows=max(1, round(min(columns * height / width, MAX_ROWS))))

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
        """The middle of each cell, in the order of coordinates of the values."""
        x = self.west + (self.east - self.west) * (np.arange(self.columns) + 0.5) / self.columns
        y = self.south + (self.north - self.south) * (np.arange(self.rows) + 0.5) / self.rows
        places = np.stack([np.tile(x, self.rows), np.repeat(y, self.columns)], axis=1)
        return np.ascontiguousarray(places[:, self.coordinate_order])

    @property
    def coordinate_order(self) -> list[int]:
        """Order of coordinates: degrees are written latitude first."""
        return [0, 1] if self.coordinates == "plane" else [1, 0]

    def find_cells(self, points: Floats) -> Integers:
        """Returns the number of the cell of each checked point."""
        x, y = points[:, self.coordinate_order].T
        column = np.floor((x - self.west) / (self.east - self.west) * self.columns).astype(np.int64)
        row = np.floor((y - self.south) / (self.north - self.south) * self.rows).astype(np.int64)
        return np.asarray(np.minimum(row, self.rows - 1) * self.columns + np.minimum(column, self.columns - 1))

    def cell_offsets(self) -> tuple[Integers, Integers]:
        """Returns the numbers of columns, and of rows, between every two cells."""
        place = np.arange(self.columns * self.rows)
        across = np.abs(np.subtract.outer(place % self.columns, place % self.columns))
        along = np.abs(np.subtract.outer(place // self.columns, place // self.columns))
        return across, along

    def least_distance(self, a: int, b: int) -> float:
        """Returns the least distance of two points of these cells."""
        width, height = self.cell
        across = max(0, abs(a % self.columns - b % self.columns) - 1) * width
        along = max(0, abs(a // self.columns - b // self.columns) - 1) * height
        return math.hypot(across, along)

    def nearest_points(self, a: int, b: int) -> Floats:
        """Returns a point of each of two cells, just inside of where the cells are nearest to each other."""
        places = np.empty((2, 2))
        for axis, (low, high, count) in enumerate(
            ((self.west, self.east, self.columns), (self.south, self.north, self.rows))
        ):
            margin = EDGE_TOLERANCE * max(abs(low), abs(high))
            first, second = (cell // self.columns if axis else cell % self.columns for cell in (a, b))
            edges = low + (high - low) * np.array([max(first, second), min(first, second) + 1]) / count
            above, below = edges[0] + margin, edges[1] - margin
            beside = [above, below] if first > second else [below, above]
            places[:, axis] = beside if first != second else edges.mean()
        return np.ascontiguousarray(places[:, self.coordinate_order])

    def distance(self, points: Floats) -> float:
        """Returns the distance of two points."""
        x, y = (points[1] - points[0])[self.coordinate_order]
        return math.hypot(x * self.size[0] / (self.east - self.west), y * self.size[1] / (self.north - self.south))


@dataclass(frozen=True)
class MapPoint(InputDomain):
    """One point of the region per user; ``ends`` are two cells that are hard to hide from each other."""

    error_prefix: str
    grid: MapGrid
    ends: tuple[int, int]

    def check(self, values: Any) -> Array:
        points, region = check_reals(self.error_prefix, values, -math.inf, math.inf, axes=2), self.grid
        if points.shape[1] != 2:
            raise ValueError(f"{self.error_prefix}: expected two coordinates per user, got {points.shape[1]}.")
        x, y = points[:, region.coordinate_order].T
        outside = (x < region.west) | (x > region.east) | (y < region.south) | (y > region.north)
        if outside.any():
            raise ValueError(f"{self.error_prefix}: points must lie in the region, got {points[outside][0].tolist()}.")
        return points

    def audit_pair(self) -> Array:
        return np.asarray(self.grid.centres[np.array(self.ends)])


@dataclass(frozen=True)
class MapLaw(MetricLaw):
    """Law of a table of cells: points are as near as the nearest points of their cells."""

    grid: MapGrid

    def near_pairs(self, diameter: float) -> Iterator[tuple[int, int]]:
        """Returns the cells that hold two points at most this far apart."""
        most = diameter * (1 + DISTANCE_TOLERANCE)
        return ((a, b) for a, b in self.space.pairs() if self.grid.least_distance(a, b) <= most)

    def is_surely_near(self, a: int, b: int, diameter: float) -> bool:
        """Returns True if two points of these half-open cells are certainly at most this far apart.

        If the diameter equals the distance of the cells, no two of their points are that near.
        """
        points = self.grid.nearest_points(a, b)
        if self.grid.find_cells(points).tolist() != [a, b]:
            return False
        return self.grid.distance(points) <= diameter * (1 - DISTANCE_TOLERANCE)


@dataclass(frozen=True)
class MapEstimator(TableEstimator):
    """Estimator of the number of users in each cell."""

    grid: MapGrid

    def truth(self, values: Array) -> Floats:
        return super().truth(self.grid.find_cells(values))


@dataclass(frozen=True)
class MapProposal(TableProposal):
    """Proposal law of a table of cells."""

    grid: MapGrid

    def row_numbers(self, values: Array) -> Integers:
        return self.grid.find_cells(values)


PRECISION_BITS = 4 * RATIO_BITS
MAX_CELLS = 1024
COORDINATES = ("plane", "degrees")


@dataclass(frozen=True)
class PlanarLaplace(Mechanism, HasNeighbours):
    """Reports a cell of a region with probability in proportion to e^(−distance) of its centre from the true cell's.

    The region is cut into columns × rows equal cells. A point counts as the centre of its cell. ``epsilon`` is spent
    over the largest distance of two centres: two points whose cells' centres are d apart differ by a factor of at most
    e^(rate·d), ``rate`` = ε/(largest distance), exactly: the table is one of whole units. Reports that would fall
    outside the region are the last message, "outside", made as rare as privacy allows. The estimate is the number of
    users in each cell.

    Theorem: [VR] Table 2, planar Laplace: private for rate·distance.
    Deviates: cells in place of points; places outside the region are one message, as rare as the ratios allow.

    Args:
        epsilon: Local ε of every message, spent over the largest distance of two centres.
        west: Western end of the region (the unit square by default).
        east: Eastern end of the region.
        south: Southern end of the region.
        north: Northern end of the region.
        columns: Number of cells from west to east.
        rows: Number of cells from south to north; 0 for nearly square cells.
        coordinates: "plane" for points (x, y), or "degrees" for (latitude, longitude), whose distances are in metres on
            a map that is true to scale along the region's middle latitude.

    Raises:
        ValueError: If a parameter is out of range, or there are too few or too many cells.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PlanarLaplace(2.0, west=6.0, east=6.2, south=49.4, north=49.6, columns=4, coordinates="degrees")
    >>> mechanism.columns, mechanism.rows, f"{mechanism.reach:.0f} m"
    (4, 6, '21466 m')
    >>> curve = sdp.amplify(mechanism, users=10_000, diameter=6000)
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}"
    '0.0308'
    """

    epsilon: float = field(metadata=checked(check_largest_distance))
    west: float = field(default=0.0, metadata=checked(validation.real))
    east: float = field(default=1.0, metadata=checked(validation.real, up=True))
    south: float = field(default=0.0, metadata=checked(validation.real))
    north: float = field(default=1.0, metadata=checked(validation.real, up=True))
    columns: int = field(default=6, metadata=checked(validation.count))
    rows: int = field(default=0, metadata=checked(validation.count, at_least=0))
    coordinates: str = "plane"
    space: DistanceMatrix = field(init=False, repr=False, compare=False)
    """The privacy distances of cells."""
    unit_table: UnitTable = field(init=False, repr=False, compare=False)
    """The table that is executed, to which all numbers refer."""

    name = "planar-laplace"
    task = "location"
    summary = "where users are: the cell of a map, with planar Laplace noise"
    use_case = "For places, where near ones are to be hidden best."
    aliases = ("geo-ind", "geo-indistinguishability")
    tunable = (TunableParameter("epsilon", False, False, 1e-6, MAX_DISTANCE),)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval("PlanarLaplace", self.west, self.east, ("west", "east"))
        check_interval("PlanarLaplace", self.south, self.north, ("south", "north"))
        self._check_coordinates()
        columns, rows = self.columns, self._build_grid().rows
        if not 2 <= columns * rows <= MAX_CELLS:
            raise ValueError(f"PlanarLaplace: expected 2 to {MAX_CELLS} cells, got {columns} columns and {rows} rows.")
        object.__setattr__(self, "rows", rows)
        self._tabulate()

    def _build_grid(self) -> MapGrid:
        return MapGrid.from_bounds(
            self.west, self.east, self.south, self.north, self.columns, self.rows, self.coordinates
        )

    @classmethod
    def per_unit(cls, rate: float, **settings: Any) -> PlanarLaplace:
        """Returns the mechanism with ε given per unit of distance (per metre for degrees), for example log(4)/200.

        Args:
            rate: ε per unit of distance between centres.
            **settings: Other arguments of the constructor.

        Returns:
            The mechanism with ε = rate·(largest distance), rounded down.

        Raises:
            ValueError: As for the constructor.
        """
        rate = validation.positive_finite("PlanarLaplace", "rate", rate)
        reach = cls(1.0, **settings).grid.reach
        # The product in floats may be an ulp too large.
        return cls(epsilon=math.nextafter(rate * reach, 0.0), **settings)

    def _check_coordinates(self) -> None:
        if self.coordinates not in COORDINATES:
            raise ValueError(f"PlanarLaplace: coordinates must be plane or degrees, got {self.coordinates!r}.")
        fits = self.south >= -85 and self.north <= 85 and self.east - self.west <= 180
        if self.coordinates == "degrees" and not fits:
            raise ValueError(
                "PlanarLaplace: a region in degrees must lie between latitudes -85 and 85 and be at most 180 wide, "
                f"got {self.south!r} to {self.north!r} and {self.west!r} to {self.east!r}."
            )

    # --- map ---

    @cached_property
    def grid(self) -> MapGrid:
        """The cells of the map."""
        return self._build_grid()

    @property
    def reach(self) -> float:
        """The largest distance of two centres."""
        return self.grid.reach

    @property
    def rate(self) -> float:
        """ε per unit of distance between centres."""
        return self.epsilon / self.reach

    @property
    def centres(self) -> Floats:
        """The middle of each cell, in the order of coordinates of the values."""
        return self.grid.centres

    def decode(self, messages: Array) -> Floats:
        """Returns the reported locations.

        Args:
            messages: Reported cells.

        Returns:
            The centre of each cell; NaN for "outside".
        """
        places = np.concatenate([self.centres, np.full((1, 2), np.nan)])
        return np.asarray(places[messages])

    # --- parts of the mechanism ---

    @cached_property
    def domain(self) -> MapPoint:
        return MapPoint("PlanarLaplace", self.grid, self.unit_table.find_farthest_rows())

    @cached_property
    def law(self) -> MapLaw:
        return MapLaw("PlanarLaplace", self.unit_table, self.space, self.grid)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("PlanarLaplace", self.unit_table.outputs)

    @cached_property
    def estimator(self) -> MapEstimator:
        return MapEstimator("PlanarLaplace", self.unit_table, self.grid)

    @cached_property
    def proposal(self) -> MapProposal:
        return MapProposal(self.unit_table, self.grid)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.unit_table.draw(self.grid.find_cells(values), source)

    # --- table ---

    def _tabulate(self) -> None:
        """Builds the table from a table of offsets, on which alone the weights depend."""
        with precision(PRECISION_BITS):
            distances = self._offset_distances()
            ratios = np.array([[ratio_below(d) for d in line] for line in distances.tolist()], dtype=object)
            across, along = self.grid.cell_offsets()
            space = DistanceMatrix(distances[along, across])
            weights = np.exp(-distances)
            scale = units_per_weight(space, weights[along, across].sum(axis=1))
            units = [[round_to_units((-arb(d)).exp(), scale) for d in line] for line in distances.tolist()]
        lowered = _lower_offsets(np.array(units, dtype=object), ratios)
        rows = add_rest_column(lowered[along, across], ratios[along, across])
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "unit_table", UnitTable(rows.astype(np.int64)))

    def _offset_distances(self) -> Floats:
        """Returns rate·distance of two centres by rows and columns between them, rounded up to at most ε."""
        width, height = self.grid.cell
        squares = [
            [(arb(width) * i) ** 2 + (arb(height) * j) ** 2 for i in range(self.columns)] for j in range(self.rows)
        ]
        far = squares[-1][-1]
        numbers = [
            [min(round_up(arb(self.epsilon) * (s / far).sqrt()), self.epsilon) for s in line] for line in squares
        ]
        return np.array(numbers)

    # --- near inputs ---

    def neighbours_between(self, first: Any, second: Any) -> Neighbours:
        a, b = self.grid.find_cells(self.check([first, second])).tolist()
        return self.law.neighbours_between(a, b)

    def neighbours_within(self, diameter: float) -> Neighbours:
        return self.law.neighbours_within(diameter)

    def table(self) -> OutputTable:
        return OutputTable(self.centres, np.arange(self.unit_table.outputs), self.unit_table.fractions())

    @classmethod
    def examples(cls) -> Sequence[PlanarLaplace]:
        return [
            cls(epsilon=1.0, columns=2, rows=1),
            cls(epsilon=4.0, west=-1.0, east=2.0, columns=3, rows=2),
            cls(epsilon=6.0, west=4.8, east=4.95, south=52.33, north=52.4, columns=3, rows=3, coordinates="degrees"),
        ]


def _lower_offsets(units: BigIntegers, ratios: BigIntegers) -> BigIntegers:
    """Returns units by offset, lowered until t(o) ≤ e^D(o−o')·t(o') for all offsets whose difference is on the map."""
    rows, columns = units.shape
    units = units.copy()
    changed = True
    while changed:
        mirrored = np.concatenate([units[:0:-1], units])
        mirrored = np.concatenate([mirrored[:, :0:-1], mirrored], axis=1)
        changed = False
        for j in range(rows):
            for i in range(columns):
                # Offsets o' from o − (map) to o + (map), restricted to those that occur.
                low_j, high_j = max(-(rows - 1), j - rows + 1), rows - 1
                low_i, high_i = max(-(columns - 1), i - columns + 1), columns - 1
                other = mirrored[low_j + rows - 1 : high_j + rows, low_i + columns - 1 : high_i + columns]
                along = np.abs(j - np.arange(low_j, high_j + 1))
                across = np.abs(i - np.arange(low_i, high_i + 1))
                most = int(((ratios[np.ix_(along, across)] * other) >> RATIO_BITS).min())
                if most < units[j, i]:
                    units[j, i], changed = most, True
    return units
