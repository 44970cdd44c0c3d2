"""Lists that are too long: which of a user's entries are kept, drawn at random on the user's side."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Integers
from shuffledp.sampling.random import RandomSource


def first_of_each(owners: Integers, numbers: Integers) -> Integers:
    """The places, in order, at which a row has a number for the first time."""
    order = np.lexsort((numbers, owners))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (owners[order][1:] != owners[order][:-1]) | (numbers[order][1:] != numbers[order][:-1])
    # The sort is stable: of equal ones the first stands first.
    return np.sort(order[new])


def drawn_of(sizes: Integers, most: int, source: RandomSource | None) -> dict[int, tuple[Integers, Integers]]:
    """For each length beyond ``most``: the rows of that length, and of each ``most`` different places, all sets alike.

    Without a source the first places, as good as any for a check.
    """
    found = {}
    for size in np.unique(sizes[sizes > most]).tolist():
        rows = np.flatnonzero(sizes == size)
        places = np.tile(np.arange(size), (len(rows), 1))
        each = np.arange(len(rows))
        for place in range(most if source is not None else 0):
            # A uniform one of those that are left comes to the front.
            chosen = place + source.below(size - place, len(rows))  # type: ignore[union-attr]
            places[each, chosen], places[:, place] = places[:, place].copy(), places[each, chosen].copy()
        found[size] = rows, np.sort(places[:, :most], axis=1)
    return found


def kept_entries(sizes: Integers, drawn: dict[int, tuple[Integers, Integers]], most: int) -> Integers:
    """The places of all entries that are kept, in order, where rows' entries stand one after the other."""
    if not drawn:
        return np.arange(int(sizes.sum()))
    starts = np.cumsum(sizes) - sizes
    kept = np.repeat(sizes <= most, sizes)
    for rows, places in drawn.values():
        kept[(starts[rows][:, None] + places).reshape(-1)] = True
    return np.flatnonzero(kept)
