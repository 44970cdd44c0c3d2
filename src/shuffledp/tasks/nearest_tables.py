"""Tables of two columns each, moved to the nearest that some users could have: none below 0, and all in agreement.

Theorem: [Dykstra 1983]; alternating projections with corrections find the nearest point of an intersection of convex
sets: here of the tables without negative cells and of those whose sums agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shuffledp.array import Floats

STEPS, ENOUGH = 5000, 1e-9
"""Most projections, and by how little, of all users, the last one may move a cell."""

Places = Sequence[tuple[int, int]]


def nearest_tables(tables: Sequence[Floats], places: Places, users: float) -> list[Floats]:
    """The nearest tables, in squares over all cells; ``places`` says of which two columns each is."""
    found, owed = list(tables), [np.zeros_like(table) for table in tables]
    for _ in range(STEPS):
        agreeing = _agreeing(found, places, users)
        raised = [np.maximum(table + rest, 0.0) for table, rest in zip(agreeing, owed, strict=True)]
        owed = [table + rest - up for table, rest, up in zip(agreeing, owed, raised, strict=True)]
        moved = max(float(np.abs(up - table).max()) for up, table in zip(raised, agreeing, strict=True))
        found = raised
        if moved <= ENOUGH * users:
            break
    return found


def one_way_of(tables: Sequence[Floats], places: Places, columns: int) -> list[Floats]:
    """How many users hold each value of every column, by the tables that have it."""
    return [np.mean(_sums(tables, places, column), axis=0) for column in range(columns)]


def _sums(tables: Sequence[Floats], places: Places, column: int) -> list[Floats]:
    """What each table with a column says of its values."""
    pairs = zip(tables, places, strict=True)
    return [table.sum(axis=1 - two.index(column)) for table, two in pairs if column in two]


def _agreeing(tables: Sequence[Floats], places: Places, users: float) -> list[Floats]:
    """The nearest tables whose sums are the same and add up to the users; cells may be below 0.

    A table's total, its rows' sums less their mean, its columns' alike, and the rest are orthogonal: a column's values
    take the mean of what the tables say, each of which counts the more the fewer cells a sum is spread over.
    """
    found = [table + (users - table.sum()) / table.size for table in tables]
    for column in sorted({one for two in places for one in two}):
        sharing = [place for place, two in enumerate(places) if column in two]
        sides = [places[place].index(column) for place in sharing]
        sums = [found[place].sum(axis=1 - side) for place, side in zip(sharing, sides, strict=True)]
        weights = [1 / found[place].shape[1 - side] for place, side in zip(sharing, sides, strict=True)]
        agreed = np.average(sums, axis=0, weights=weights)
        for place, side, own in zip(sharing, sides, sums, strict=True):
            found[place] = found[place] + np.expand_dims((agreed - own) / found[place].shape[1 - side], 1 - side)
    return found
