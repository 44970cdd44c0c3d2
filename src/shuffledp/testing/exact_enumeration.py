"""Exact divergences of small shuffled protocols, by enumeration in rational arithmetic.

The oracle comes straight from the definitions and imports nothing of the package: only the standard library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import factorial, lcm, prod
from random import Random
from typing import NamedTuple

Row = Sequence[Fraction]
Table = Sequence[Row]
Counts = tuple[int, ...]
Units = dict[int, int]
Steps = Sequence[tuple[int, int]]
"""Each summand, which may stand for a vector of counts, with its probability in units."""


def compositions(total: int, parts: int) -> Iterator[Counts]:
    """Yields all vectors of `parts` non-negative integers with the given sum."""
    if parts == 0:
        if total == 0:
            yield ()
        return
    if parts == 1:
        yield (total,)
        return
    for head in range(total + 1):
        for tail in compositions(total - head, parts - 1):
            yield (head, *tail)


def multinomial_law(weights: Row, trials: int) -> dict[Counts, Fraction]:
    """Returns the law of the count vector of `trials` independent draws; `weights` sum to 1."""
    law = {}
    for counts in compositions(trials, len(weights)):
        ways = factorial(trials) // prod(factorial(count) for count in counts)
        law[counts] = ways * prod((w**k for w, k in zip(weights, counts, strict=True)), start=Fraction(1))
    return law


def add_one_message(law: dict[Counts, Fraction], message: Row) -> dict[Counts, Fraction]:
    """Returns the law of the counts after one more independent message is added."""
    result: dict[Counts, Fraction] = {}
    for counts, probability in law.items():
        for output, chance in enumerate(message):
            if chance:
                after = (*counts[:output], counts[output] + 1, *counts[output + 1 :])
                result[after] = result.get(after, Fraction(0)) + probability * chance
    return result


def hockey_stick(first: dict[Counts, Fraction], second: dict[Counts, Fraction], ratio: Fraction) -> Fraction:
    """Returns the sum of max(0, P - ratio * Q) over all outcomes."""
    zero = Fraction(0)
    return sum((max(zero, p - ratio * second.get(key, zero)) for key, p in first.items()), start=zero)


def hockey_stick_of_counts(first: Row, second: Row, hiding: Row, users: int, ratio: Fraction | int) -> Fraction:
    """Returns the divergence of the counts when the target user's message joins users-1 hiding messages.

    `first` and `second` are the laws of the target user's message, `hiding` is the law of one other message. If
    `hiding` sums to less than 1, the rest is one more class, in which the target user's message never is.
    """
    rest = 1 - sum(hiding, start=Fraction(0))
    if rest < 0 or sum(first) != 1 or sum(second) != 1:
        raise ValueError("hockey_stick_of_counts: the laws must sum to 1, the hiding law to at most 1")
    others_law = multinomial_law([*hiding, rest], users - 1)
    return hockey_stick(add_one_message(others_law, first), add_one_message(others_law, second), Fraction(ratio))


def positive_part_mean(values: Row, weights: Row, count: int) -> Fraction:
    """Returns the exact E[max(0, G_1 + ... + G_count)] for independent G with the given values and weights."""
    step, unit = (lcm(*(number.denominator for number in row)) for row in (values, weights))
    one = [(int(value * step), int(weight * unit)) for value, weight in zip(values, weights, strict=True)]
    law: Units = {0: 1}
    for _ in range(count):
        law = _add_units(law, one)
    return Fraction(sum(max(0, total) * units for total, units in law.items()), step * unit**count)


def shuffled_law(rows: Sequence[Row], outputs: int) -> dict[Counts, Fraction]:
    """Returns the law of the output multiset (as counts) of independent messages, one row of probabilities each."""
    law = {(0,) * outputs: Fraction(1)}
    for row in rows:
        law = add_one_message(law, row)
    return law


def shuffled_divergence(
    tables: Sequence[Table], first_input: int, second_input: int, others: Sequence[int], ratio: Fraction | int
) -> Fraction:
    """Returns the divergence of the real protocol: user 1 holds either input, user i+1 holds others[i-1].

    `tables` holds one table for each user (rows are inputs, columns are outputs).
    """
    if len(tables) != len(others) + 1:
        raise ValueError("shuffled_divergence: expected one table for each user, the target user first")
    outputs = len(tables[0][0])
    others_law = shuffled_law([table[value] for table, value in zip(tables[1:], others, strict=True)], outputs)
    first = add_one_message(others_law, tables[0][first_input])
    second = add_one_message(others_law, tables[0][second_input])
    return hockey_stick(first, second, Fraction(ratio))


def worst_divergence(table: Table, users: int, ratio: Fraction | int) -> Fraction:
    """Returns the largest divergence over all ordered input pairs and all datasets of the other users.

    It counts in integer units of 1/denominator^users, which is exact and many times faster than fractions. A vector of
    counts is one number, in base users + 1: one more message is a sum.
    """
    unit = lcm(*(chance.denominator for row in table for chance in row))
    rows = [
        [((users + 1) ** output, int(chance * unit)) for output, chance in enumerate(row) if chance] for row in table
    ]
    up, down = Fraction(ratio).as_integer_ratio()
    worst = 0
    for others_law in _dataset_laws({0: 1}, rows, users - 1):
        laws = [_add_units(others_law, row) for row in rows]
        outcomes = set().union(*laws)
        chances = [[law.get(outcome, 0) for outcome in outcomes] for law in laws]
        firsts, seconds = ([[times * p for p in law] for law in chances] for times in (down, up))
        for (a, first), (b, second) in product(enumerate(firsts), enumerate(seconds)):
            if a != b:
                worst = max(worst, sum([p - q for p, q in zip(first, second, strict=True) if p > q]))
    return Fraction(worst, down * unit**users)


def _dataset_laws(law: Units, rows: Sequence[Steps], users: int) -> Iterator[Units]:
    """Yields ``law`` with so many more users, for every multiset of their inputs."""
    if users == 0:
        yield law
        return
    for place, row in enumerate(rows):
        yield from _dataset_laws(_add_units(law, row), rows[place:], users - 1)


def _add_units(law: Units, message: Steps) -> Units:
    """Returns ``add_one_message`` in integer units."""
    result: Units = {}
    for counts, units in law.items():
        for step, chance in message:
            after = counts + step
            result[after] = result.get(after, 0) + units * chance
    return result


def krr_table(options: int, exp_epsilon: Fraction | int) -> list[list[Fraction]]:
    """Returns the table of randomized response on `options` values: the true value is exp_epsilon times likelier."""
    total = Fraction(exp_epsilon) + options - 1
    return [
        [(Fraction(exp_epsilon) if x == y else Fraction(1)) / total for y in range(options)] for x in range(options)
    ]


def random_extremal_table(rng: Random, inputs: int, outputs: int, exp_epsilon: Fraction | int) -> list[list[Fraction]]:
    """Returns a random table in which every column holds two values only, one exp_epsilon times the other.

    The rows are normalised by one more output column that is itself extremal where that is possible; tables for which
    it is not are drawn again.
    """
    big = Fraction(exp_epsilon)
    while True:
        base = [Fraction(rng.randint(1, 6)) for _ in range(outputs - 1)]
        rows = [[b * rng.choice((Fraction(1), big)) for b in base] for _ in range(inputs)]
        sums = sorted({sum(row) for row in rows})
        if len(sums) == 1:
            continue
        # Two row sums low < high: the last column must be t for the high rows and big * t for the low.
        low, high = sums[0], sums[-1]
        last = (high - low) / (big - 1)
        if len(sums) == 2:
            total = high + last
            return [[*(v / total for v in row), (last if sum(row) == high else big * last) / total] for row in rows]


def random_table(rng: Random, inputs: int, outputs: int, limit: int = 9) -> list[list[Fraction]]:
    """Returns a random table of positive rationals without structure."""
    rows = [[rng.randint(1, limit) for _ in range(outputs)] for _ in range(inputs)]
    return [[Fraction(value, sum(row)) for value in row] for row in rows]


class RatioParameters(NamedTuple):
    """Variation-ratio parameters of one pair of inputs; see `variation_ratio_of_table`."""

    p: Fraction
    beta: Fraction
    q: Fraction
    q_common: Fraction | None


def variation_ratio_of_table(table: Table) -> dict[tuple[int, int], RatioParameters]:
    """Returns the exact parameters of every pair (x0, x1) of a table with positive entries.

    p is the largest ratio of the two rows (either direction), beta their total variation, q the largest ratio of either
    row to any row. The common part is min(R0, R1) - |R0 - R1| / (p - 1), of total mass gamma, and q_common the least
    number with R >= r Q0 + r Q1 + (common part) / q_common for every row R, where r = alpha p / q. It is at most q, and
    None where the common part is empty.
    """
    result = {}
    for x0, x1 in permutations(range(len(table)), 2):
        first, second = table[x0], table[x1]
        pairs = list(zip(first, second, strict=True))
        beta = sum((max(a - b, Fraction(0)) for a, b in pairs), start=Fraction(0))
        p = max(max(a / b, b / a) for a, b in pairs)
        q = max(max(a, b) / row[y] for y, (a, b) in enumerate(pairs) for row in table)
        if beta == 0:
            result[x0, x1] = RatioParameters(p, beta, q, None)
            continue
        # The spare mass is positive wherever the common part is, because R >= max(R0, R1) / q.
        q_common = Fraction(0)
        for y, (a, b) in enumerate(pairs):
            common = min(a, b) - abs(a - b) / (p - 1)
            if common:
                spare = min(row[y] for row in table) - p * abs(a - b) / ((p - 1) * q)
                q_common = max(q_common, common / spare)
        result[x0, x1] = RatioParameters(p, beta, q, q_common or None)
    return result
