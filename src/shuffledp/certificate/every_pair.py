"""The law of a small table of messages, of which every pair of inputs is looked at."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from flint import fmpq

from shuffledp.certificate.written_law import Law
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms.mechanism import Mechanism

Kind = tuple[tuple[tuple[Fraction, Fraction, Fraction], int], ...]
"""A pair of inputs of a table: how often each (first, second, least of all inputs) stands in a column."""

MOST_MESSAGE_BITS = 8
MOST_ITEMS = 6
"""A table of exponentially many inputs is written down only if every setting is at most this."""
MOST_CELLS_OF_PAIRS = 5_000_000


def kinds_of(mechanism: Mechanism) -> list[Kind] | None:
    """Every ordered pair of inputs, each kind once; None where the table is too large to write down."""
    if mechanism.message_bits > MOST_MESSAGE_BITS:
        return None
    sizes = [size for size in mechanism.settings().values() if isinstance(size, int)]
    if mechanism.values.combines_items and max(sizes, default=math.inf) > MOST_ITEMS:
        return None
    try:
        table = mechanism.hiding_table()
    except (ValueError, ShuffledpError):
        return None
    rows = table.rows
    if len(rows) ** 2 * len(rows[0]) > MOST_CELLS_OF_PAIRS:
        return None
    # Small whole numbers in place of fractions make the many comparisons cheap.
    numbers = sorted({number for row in (*rows, table.floor) for number in row})
    place = {number: index for index, number in enumerate(numbers)}
    short = [[place[number] for number in row] for row in rows]
    least = [place[number] for number in table.floor]
    found = {
        frozenset(Counter(zip(first, second, least, strict=True)).items()): None
        for i, first in enumerate(short)
        for j, second in enumerate(short)
        if i != j
    }
    return [tuple(((numbers[a], numbers[b], numbers[h]), count) for (a, b, h), count in sorted(kind)) for kind in found]


def law_of_kind(kind: Kind) -> Law:
    """The pair against the pointwise minimum, and the rest."""
    classes = [tuple(count * fmpq(x.numerator, x.denominator) for x in triple) for triple, count in kind]
    rest = 1 - sum((c[2] for c in classes), fmpq(0))
    return [(first, second, hiding) for first, second, hiding in [*classes, (fmpq(0), fmpq(0), rest)]]
