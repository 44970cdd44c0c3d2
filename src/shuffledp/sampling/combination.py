"""Subsets of a fixed size: drawn exactly, and as bytes. A subset is a row of increasing numbers below ``options``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Integers
from shuffledp.sampling.random import RandomSource

Rows = NDArray[Any]

WORD_SPAN = 1 << 60
"""One random word serves draws whose bounds multiply to at most this: at most a sixteenth of the words is refused."""
WORKING_CELLS = 1 << 20
"""Cells of the working arrays of one batch of users: what fits the processor's cache."""
MOST_USERS = 1 << 15
MOST_LISTED, MOST_MARKED = 1 << 12, 1 << 24
"""Numbers of a subset that are compared one by one, and options that are marked."""


def missing_share(options: int, size: int, items: int) -> Fraction:
    """The share of all ``size``-subsets that contain none of ``items`` given numbers."""
    fewer, more = sorted((size, items))
    return Fraction(comb(options - more, fewer), comb(options, fewer)) if more <= options else Fraction(0)


def number_type(options: int) -> np.dtype[Any]:
    """The smallest type of numbers below ``options``."""
    kinds = (np.uint8, np.uint16, np.uint32)
    return next((np.dtype(kind) for kind in kinds if options - 1 <= np.iinfo(kind).max), np.dtype(np.int64))


def draw(source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]) -> Rows:
    """One subset per user: exactly uniform, among all where not ``forced``, among those with the user's pivot where.

    Floyd's algorithm: for j = options−size … options−1 draw t uniformly from 0 … j and add t, or j if t is there
    already. Before the last step the set is uniform on the (size−1)-subsets of the numbers below options−1, so that
    adding options−1 in any case gives a uniform subset among those that contain it; it then changes names with the
    pivot.
    """
    if size > MOST_LISTED and options > MOST_MARKED:
        rows = [_refilled(source, options, size, int(own) if held else None) for own, held in _users(pivots, forced)]
        return np.stack(rows).astype(number_type(options))
    # Comparing with every number drawn so far costs about size²/2 a user, marking them options.
    dense = size * size > 2 * options
    batch = min(MOST_USERS, max(1, WORKING_CELLS // (options if dense else size)))
    some = _marked if dense else _listed
    result = np.empty((len(pivots), size), dtype=number_type(options))
    for start in range(0, len(pivots), batch):
        part = slice(start, start + batch)
        result[part] = some(source, options, size, pivots[part], forced[part])
    return result


def _users(pivots: Integers, forced: NDArray[np.bool_]) -> Iterator[tuple[Any, Any]]:
    return zip(pivots, forced, strict=True)


def _refilled(source: RandomSource, options: int, size: int, pivot: int | None) -> Integers:
    """Large subsets of very many options: numbers are drawn, those that are there already left out, until all are.

    Every number that is added is uniform among those that are not there. A pivot is there from the beginning.
    """
    chosen = np.empty(0, dtype=np.int64) if pivot is None else np.array([pivot])
    while len(chosen) < size:
        # Whichever of equal numbers comes first, the set is the same; and there are never too many.
        chosen = np.unique(np.concatenate([chosen, source.below(options, size - len(chosen))]))
    return chosen


def _listed(source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]) -> Rows:
    kind = number_type(options).type
    chosen = np.empty((size, len(pivots)), dtype=kind)
    last = options - 1
    for step, (j, drawn) in enumerate(_floyd(source, options, size, len(pivots))):
        t = drawn.astype(kind)
        present = (chosen[:step] == t).any(axis=0)
        if j == last:
            present |= forced
        chosen[step] = np.where(present, kind(j), t)
    # Only the last step can have added the number options−1.
    final, names = chosen[-1].copy(), pivots.astype(kind)
    chosen = np.where(chosen == names, kind(last), chosen)
    chosen[-1] = np.where(final == last, names, chosen[-1])
    return np.sort(chosen.T, axis=1) if size > 1 else chosen.T


def _marked(source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]) -> Rows:
    marks = np.zeros(len(pivots) * options, dtype=np.bool_)
    starts = np.arange(len(pivots)) * options
    last = options - 1
    for j, t in _floyd(source, options, size, len(pivots)):
        place = starts + t
        present = marks[place]
        if j == last:
            present |= forced
        marks[np.where(present, starts + j, place)] = True
    here, there = starts + pivots, starts + last
    marks[here], marks[there] = marks[there], marks[here]
    return np.flatnonzero(marks).reshape(-1, size) - starts[:, None]


def _floyd(source: RandomSource, options: int, size: int, users: int) -> Iterator[tuple[int, Integers]]:
    steps = range(options - size, options)
    return zip(steps, _below_each(source, (j + 1 for j in steps), users), strict=True)


def _below_each(source: RandomSource, bounds: Iterable[int], count: int) -> Iterator[Integers]:
    """For each bound ``count`` integers, independent and exactly uniform: the digits of fewer, larger ones."""
    waiting: list[int] = []
    span = 1
    for bound in bounds:
        if waiting and span * bound > WORD_SPAN:
            yield from _digits(source.below(span, count), waiting)
            waiting, span = [], 1
        waiting.append(bound)
        span *= bound
    if waiting:
        yield from _digits(source.below(span, count), waiting)


def _digits(numbers: Integers, bounds: list[int]) -> Iterator[Integers]:
    for bound in bounds[:-1]:
        rest = numbers // bound
        yield numbers - rest * bound
        numbers = rest
    yield numbers


# --- as bytes -------------------------------------------------------------------------------------------------


def wire_bits(options: int, size: int) -> int:
    """Bits of one subset on the wire: its numbers one after the other or one bit per option, whichever is shorter."""
    return min(options, size * _width(options))


def pack(rows: Rows, options: int) -> NDArray[np.uint8]:
    """Subsets as rows of bytes, unused bits 0."""
    size = rows.shape[1]
    bits = wire_bits(options, size)
    result = np.empty((len(rows), -(-bits // 8)), dtype=np.uint8)
    batch = max(1, WORKING_CELLS // bits)
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        result[start : start + batch] = np.packbits(_bits_of(part, options, bits), axis=1)
    return result


def unpack(rows: NDArray[np.uint8], options: int, size: int) -> tuple[Rows, NDArray[np.bool_]]:
    """The inverse of ``pack``, and which rows are subsets of this size; what the others give means nothing."""
    result = np.zeros((len(rows), size), dtype=number_type(options))
    good = np.empty(len(rows), dtype=np.bool_)
    batch = max(1, WORKING_CELLS // wire_bits(options, size))
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        result[part], good[part] = _rows_of(rows[part], options, size)
    return result, good


def _width(options: int) -> int:
    return max(1, (options - 1).bit_length())


def _bits_of(rows: Rows, options: int, bits: int) -> NDArray[np.uint8]:
    if bits == options:
        marks = np.zeros((len(rows), options), dtype=np.uint8)
        np.put_along_axis(marks, rows.astype(np.int64), 1, axis=1)
        return marks
    shifts = np.arange(_width(options) - 1, -1, -1)
    return (rows[:, :, None].astype(np.int64) >> shifts & 1).astype(np.uint8).reshape(len(rows), bits)


def _rows_of(wire: NDArray[np.uint8], options: int, size: int) -> tuple[Rows, NDArray[np.bool_]]:
    bits = wire_bits(options, size)
    cells = np.unpackbits(wire, axis=1).view(np.bool_)
    good = ~cells[:, bits:].any(axis=1)
    cells = cells[:, :bits]
    if bits == options:
        good &= np.count_nonzero(cells, axis=1) == size
        rows = np.zeros((len(cells), size), dtype=np.int64)
        starts = np.arange(int(good.sum())) * options
        rows[good] = np.flatnonzero(cells if good.all() else cells[good]).reshape(-1, size) - starts[:, None]
        return rows, np.asarray(good)
    places = 1 << np.arange(_width(options) - 1, -1, -1)
    rows = np.asarray(cells.reshape(len(wire), size, -1) @ places)
    good &= (rows < options).all(axis=1) & (rows[:, 1:] > rows[:, :-1]).all(axis=1)
    return rows, np.asarray(good)
