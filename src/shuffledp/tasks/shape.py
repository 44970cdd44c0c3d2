"""What is known beforehand of the true values behind some estimates, and how their labels lie: for whoever shows them.

Post-processing may use the one, since every user and every analyst knows it; pictures need the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shuffledp.array import Floats
from shuffledp.mechanisms.parts.map_grid import MapGrid

COUNTS, NUMBERS, COORDINATES, CELLS, BINS, RUNNING = "counts", "numbers", "coordinates", "cells", "bins", "running"

DAY = re.compile(r"\d{4}(-\d\d){0,2}([ T].*)?")
"""Days, months and moments as they are written where texts sort as they do."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Of which ``kind`` the values are, and what bounds them.

    ``least`` and ``most``: between which each true value lies, one number or one for each. ``total``: what all true
    values add up to. ``grid``: the map that cells are of. ``sizes``: rows and columns, where labels are the cells of a
    table of two columns. ``levels``: where each level of a tree begins among the labels. ``ordered``: whether the
    labels have an order of their own, which a picture keeps.
    """

    kind: str = NUMBERS
    least: float | Floats = -np.inf
    most: float | Floats = np.inf
    total: float | None = None
    grid: MapGrid | None = None
    sizes: tuple[int, int] | None = None
    levels: tuple[int, ...] = ()
    ordered: bool = False


ANY = Shape()


def counted(users: int, *, all_in_one: bool, ordered: bool = False) -> Shape:
    """Counts of so many users; ``all_in_one``: where each is counted just once."""
    return Shape(COUNTS, 0.0, float(users), float(users) if all_in_one else None, ordered=ordered)


def running(users: int) -> Shape:
    """Counts of all up to each label, of so many users."""
    return Shape(RUNNING, 0.0, float(users), ordered=True)


def are_in_order(names: tuple[str, ...] | None) -> bool:
    """Whether labels stand in an order that is not only that of a list: numbers, or days, each above the one before.

    >>> are_in_order(("1", "2", "10")), are_in_order(("2026-01-31", "2026-02-01")), are_in_order(("tea", "milk"))
    (True, True, False)
    """
    if names is None:
        return True
    try:
        return all(one < other for one, other in pairwise(map(float, names)))
    except ValueError:
        return all(map(DAY.fullmatch, names)) and all(one < other for one, other in pairwise(names))
