"""A place in a region of the plane, reported near where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.map_grid import MapGrid, MapLaw, MapPoint, MapReading, MapReference
from shuffledp.mechanisms.parts.metric_table import (
    LARGEST_DISTANCE,
    RATIO_BITS,
    SMALLEST_DISTANCE,
    Whole,
    ratio_below,
    units_of_one,
    whole_units,
    with_rest,
)
from shuffledp.mechanisms.parts.unit_table import UnitTable
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.neighbours import Neighbours
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.sampling.random import RandomSource

BITS = 4 * RATIO_BITS
MOST_CELLS = 1024
COORDINATES = ("plane", "degrees")


@dataclass(frozen=True)
class PlanarLaplace(Mechanism, HasNeighbours):
    """Report a cell of a region with probability in proportion to e^(−distance) of the cell's centre to one's own.

    The region is cut into columns × rows equal cells; rows is 0 for cells that are nearly square. A point counts as the
    centre of its cell. ``epsilon`` is spent over the largest distance of two centres: two points whose cells' centres
    are d apart differ by a factor of at most e^(rate·d), ``rate`` = ε/(largest distance), exactly: the table is one of
    whole units (``metric_table``). What would fall outside the region is the last message, "outside", made as rare as
    privacy allows. The estimate is the number of users in each cell.

    ``west``, ``east``, ``south``, ``north``: the ends of the region, the unit square by default. ``columns``: how many
    cells from west to east, 6 by default; ``rows``: how many from south to north, 0 by default. ``coordinates``:
    "plane" for points (x, y), or "degrees" for (latitude, longitude), whose distances are metres on the map that is
    true to scale along the region's middle latitude.

    Theorem: [VR] Table 2, planar Laplace: private for rate·distance.
    Deviates: cells in place of points; places outside the region are one message, as rare as the ratios allow.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PlanarLaplace(2.0, west=6.0, east=6.2, south=49.4, north=49.6, columns=4, coordinates="degrees")
    >>> mechanism.columns, mechanism.rows, f"{mechanism.reach:.0f} m"
    (4, 6, '21466 m')
    >>> curve = sdp.amplify(mechanism, users=10_000, diameter=6000)
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}"
    '0.0308'
    """

    epsilon: float
    west: float = 0.0
    east: float = 1.0
    south: float = 0.0
    north: float = 1.0
    columns: int = 6
    rows: int = 0
    coordinates: str = "plane"
    space: DistanceMatrix = field(init=False, repr=False, compare=False)
    """The privacy distances of cells."""
    executed: UnitTable = field(init=False, repr=False, compare=False)
    """The table that is run, and that all numbers are about."""

    name = "planar-laplace"
    task = "location"
    summary = "where users are: the cell of a map, with planar Laplace noise"
    take_it = "For places, where near ones are to be hidden best."
    also_called = (
        "geo-ind",
        "geo-indistinguishability",
    )
    tuning = (Tuning("epsilon", False, False, 1e-6, LARGEST_DISTANCE),)

    def __post_init__(self) -> None:
        level = argument.positive_finite("PlanarLaplace", "epsilon", self.epsilon)
        if not SMALLEST_DISTANCE <= level <= LARGEST_DISTANCE:
            raise ValueError(
                f"PlanarLaplace: epsilon must be from {SMALLEST_DISTANCE:g} to {LARGEST_DISTANCE:g}, got {level!r}."
            )
        object.__setattr__(self, "epsilon", level)
        for low, high in (("west", "east"), ("south", "north")):
            ends = [argument.real("PlanarLaplace", name, getattr(self, name), up=name == high) for name in (low, high)]
            if not 0.0 < ends[1] - ends[0] < math.inf:
                raise ValueError(
                    f"PlanarLaplace: {low} must be below {high} and both finite, got {ends[0]!r} and {ends[1]!r}."
                )
            object.__setattr__(self, low, ends[0])
            object.__setattr__(self, high, ends[1])
        self._check_coordinates()
        columns = argument.count("PlanarLaplace", "columns", self.columns)
        rows = self._map(columns, argument.count("PlanarLaplace", "rows", self.rows, at_least=0)).rows
        if not 2 <= columns * rows <= MOST_CELLS:
            raise ValueError(f"PlanarLaplace: expected 2 to {MOST_CELLS} cells, got {columns} columns and {rows} rows.")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", rows)
        self._tabulate()

    def _map(self, columns: int, rows: int) -> MapGrid:
        return MapGrid.of(self.west, self.east, self.south, self.north, columns, rows, self.coordinates)

    @classmethod
    def per_unit(cls, rate: float, **settings: Any) -> PlanarLaplace:
        """With ε given per unit of distance (per metre for degrees), for example log(4)/200."""
        rate = argument.positive_finite("PlanarLaplace", "rate", rate)
        reach = cls(1.0, **settings).map.reach
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

    # --- the map ----------------------------------------------------------------------------------------------

    @cached_property
    def map(self) -> MapGrid:
        return self._map(self.columns, self.rows)

    @property
    def reach(self) -> float:
        """The largest distance of two centres."""
        return self.map.reach

    @property
    def rate(self) -> float:
        """ε per unit of distance between centres."""
        return self.epsilon / self.reach

    @property
    def centres(self) -> Floats:
        """The middle of each cell, in the order of coordinates that values have."""
        return self.map.centres

    def decode(self, messages: Array) -> Floats:
        """The centre of each reported cell; NaN for "outside"."""
        places = np.concatenate([self.centres, np.full((1, 2), np.nan)])
        return np.asarray(places[messages])

    # --- its parts --------------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> MapPoint:
        return MapPoint("PlanarLaplace", self.map, self.executed.farthest())

    @cached_property
    def law(self) -> MapLaw:
        return MapLaw("PlanarLaplace", self.executed, self.space, self.map)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("PlanarLaplace", self.executed.outputs)

    @cached_property
    def reading(self) -> MapReading:
        return MapReading("PlanarLaplace", self.executed, self.map)

    @cached_property
    def reference(self) -> MapReference:
        return MapReference(self.executed, self.map)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.executed.draw(self.map.cells(values), source)

    # --- the table --------------------------------------------------------------------------------------------

    def _tabulate(self) -> None:
        """Weights depend on the offset alone, so that the table of offsets is lowered in place of the whole one."""
        with precision(BITS):
            distances = self._offset_distances()
            ratios = np.array([[ratio_below(d) for d in line] for line in distances.tolist()], dtype=object)
            across, along = self.map.steps()
            space = DistanceMatrix(distances[along, across])
            weights = np.exp(-distances)
            scale = units_of_one(space, weights[along, across].sum(axis=1))
            units = [[whole_units((-arb(d)).exp(), scale) for d in line] for line in distances.tolist()]
        lowered = _lowered_offsets(np.array(units, dtype=object), ratios)
        rows = with_rest(lowered[along, across], ratios[along, across])
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "executed", UnitTable(rows.astype(np.int64)))

    def _offset_distances(self) -> Floats:
        """rate·distance of two centres by rows and columns between them, rounded up but for the largest, which is ε."""
        width, height = self.map.cell
        squares = [
            [(arb(width) * i) ** 2 + (arb(height) * j) ** 2 for i in range(self.columns)] for j in range(self.rows)
        ]
        far = squares[-1][-1]
        numbers = [
            [min(round_up(arb(self.epsilon) * (s / far).sqrt()), self.epsilon) for s in line] for line in squares
        ]
        return np.array(numbers)

    # --- near inputs ------------------------------------------------------------------------------------------

    def between(self, first: Any, second: Any) -> Neighbours:
        """Two points, by their cells."""
        a, b = self.map.cells(self.check([first, second])).tolist()
        return self.law.between(a, b)

    def within(self, diameter: float) -> Neighbours:
        """Every two points at most this far apart."""
        return self.law.within(diameter)

    def table(self) -> OutputTable:
        return OutputTable(self.centres, np.arange(self.executed.outputs), self.executed.fractions())

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
