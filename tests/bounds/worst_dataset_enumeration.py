"""The worst of all crowds against all datasets of a few users: random tables, in whole numbers.

The truth is enumerated here, by code that the package has no part in.
``python -m tests.bounds.worst_dataset_enumeration 0 500`` looks at each table at three ε, as sharply as can be, and
prints each complaint: ten minutes of one processor.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from random import Random

import shuffledp as sdp
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound

Units = list[list[int]]
"""A table in whole units: rows are inputs, and all have the same sum."""
Law = dict[tuple[int, ...], int]

SIZES = (
    *((2, 2, 6), (2, 3, 5), (3, 2, 5), (2, 4, 4), (3, 3, 3), (2, 2, 5)),
    *((2, 3, 4), (4, 2, 4), (2, 4, 3), (3, 2, 4), (4, 3, 3)),
)
"""Inputs, messages, users."""
LARGE_WEIGHT, LARGE_RATIO = 1_000_000, 1_000
RELATIVE_TOLERANCE = 1e-12


def unstructured_table(rng: Random, inputs: int, outputs: int) -> Units:
    return [[rng.randint(1, 9) for _ in range(outputs)] for _ in range(inputs)]


def nearly_equal_table(rng: Random, inputs: int, outputs: int) -> Units:
    """Rows that differ by a thousandth, or by a millionth, and perhaps one that does not."""
    scale = rng.choice([10**3, 10**6])
    base = [scale * rng.randint(1, 9) for _ in range(outputs)]
    rows = [[entry + rng.randint(-9, 9) for entry in base] for _ in range(inputs)]
    if rng.random() < 0.5:
        rows[-1] = [scale * rng.randint(1, 9) for _ in range(outputs)]
    return rows


def rare_message_table(rng: Random, inputs: int, outputs: int) -> Units:
    """Some messages that hardly anybody sends."""
    return [[rng.choice([1, 1, rng.randint(1, 9) * LARGE_WEIGHT]) for _ in range(outputs)] for _ in range(inputs)]


def large_ratio_table(rng: Random, inputs: int, outputs: int) -> Units:
    """Ratios of a thousand."""
    return [[rng.choice([1, LARGE_RATIO]) for _ in range(outputs)] for _ in range(inputs)]


def extremal_table(rng: Random, inputs: int, outputs: int) -> Units:
    """Entries in one ratio, as in randomized response."""
    ratio = rng.choice([2, 3, 8])
    return [[rng.choice([1, ratio]) for _ in range(outputs)] for _ in range(inputs)]


TABLE_GENERATORS = (unstructured_table, nearly_equal_table, rare_message_table, large_ratio_table, extremal_table)


def draw_table(number: int) -> tuple[Units, int]:
    """A table whose rows have one sum, and not all are alike; and how many users."""
    rng = Random(20_000 + number)
    inputs, outputs, users = SIZES[number % len(SIZES)]
    while True:
        rows = TABLE_GENERATORS[number % len(TABLE_GENERATORS)](rng, inputs, outputs)
        whole = math.lcm(*map(sum, rows))
        rows = [[entry * (whole // sum(row)) for entry in row] for row in rows]
        if any(row != rows[0] for row in rows):
            return rows, users


def count_laws(rows: Units, users: int) -> dict[tuple[int, ...], Law]:
    """For every multiset of so many inputs: how often, in whole units, its messages have these counts."""
    laws: dict[tuple[int, ...], Law] = {(): {(0,) * len(rows[0]): 1}}
    for size in range(1, users + 1):
        longer: dict[tuple[int, ...], Law] = {}
        for held in combinations_with_replacement(range(len(rows)), size):
            law: Law = {}
            for counts, ways in laws[held[:-1]].items():
                for message, entry in enumerate(rows[held[-1]]):
                    after = (*counts[:message], counts[message] + 1, *counts[message + 1 :])
                    law[after] = law.get(after, 0) + ways * entry
            longer[held] = law
        laws = longer
    return laws


def worst_divergences(rows: Units, users: int, ratios: Sequence[Fraction]) -> list[Fraction]:
    """The largest divergence at each e^ε, over both neighbours and all that the others may hold."""
    laws, everything = count_laws(rows, users), sum(rows[0]) ** users
    most = [0] * len(ratios)
    for others in combinations_with_replacement(range(len(rows)), users - 1):
        for one, two in permutations(range(len(rows)), 2):
            first, second = (laws[tuple(sorted((*others, held)))] for held in (one, two))
            pairs = [(ways, second[counts]) for counts, ways in first.items()]
            for place, ratio in enumerate(ratios):
                up, down = ratio.as_integer_ratio()
                found = sum(excess for p, q in pairs if (excess := down * p - up * q) > 0)
                most[place] = max(most[place], found)
    return [Fraction(found, ratio.denominator * everything) for found, ratio in zip(most, ratios, strict=True)]


def choose_ratios(rows: Units) -> list[Fraction]:
    """Near 1, between, and near the largest ratio of the table."""
    largest = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
    return [1 + (largest - 1) * share for share in (Fraction(1, 50), Fraction(1, 3), Fraction(9, 10))]


def find_unsound_bounds(number: int, places: Sequence[int] = (0, 1, 2)) -> Iterator[str]:
    rows, users = draw_table(number)
    whole, every = sum(rows[0]), choose_ratios(rows)
    ratios = [every[place] for place in places]
    table = sdp.FromTable([[Fraction(entry, whole) for entry in row] for row in rows])
    curve = WorstDatasetBound(fewest=1).curve(table, users)
    for ratio, truth in zip(ratios, worst_divergences(rows, users, ratios), strict=True):
        stated = curve.delta(math.nextafter(math.log(ratio), 0.0)).upper
        if stated < float(truth) * (1 - RELATIVE_TOLERANCE):
            yield f"table {number}, {users} users, e^ε = {float(ratio):.6g}: {stated!r} is below {float(truth)!r}"


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    for number in range(first, last):
        for complaint in find_unsound_bounds(number):
            print(complaint, flush=True)
