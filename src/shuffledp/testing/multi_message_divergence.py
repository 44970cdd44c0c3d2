"""Exact divergences of small protocols in which a user sends several messages, straight from the definition.

An oracle for bounds and laws: it shares no code with them and imports nothing of the package.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from math import lcm
from typing import Any

Multiset = frozenset[tuple[Any, int]]
Law = dict[Multiset, Fraction]
"""Law of a multiset of messages: the messages in it, and how often each."""
Units = dict[int, int]
Steps = Sequence[tuple[int, int]]
"""Each report as the number added to that of a multiset, with its probability in units."""

EMPTY_MULTISET_LAW: Law = {frozenset(): Fraction(1)}


def report_laws(table: Any) -> list[Law]:
    """Returns, for each input, the law of a user's messages regardless of order, from a table of ordered reports."""
    keys = [frozenset(Counter(bytes(message.tobytes()) for message in report).items()) for report in table.messages]
    laws: list[Law] = []
    for row in table.probabilities:
        law: Law = {}
        for key, chance in zip(keys, row, strict=True):
            if chance:
                law[key] = law.get(key, Fraction(0)) + chance
        laws.append(law)
    return laws


def union_law(first: Law, second: Law) -> Law:
    """Returns the law of the union of two independent multisets."""
    result: Law = {}
    for one, chance in first.items():
        for other, weight in second.items():
            key = frozenset((Counter(dict(one)) + Counter(dict(other))).items())
            result[key] = result.get(key, Fraction(0)) + chance * weight
    return result


def hockey_stick(first: Law, second: Law, ratio: Fraction) -> Fraction:
    """Returns the sum of max(0, P − ratio·Q) over all multisets."""
    zero = Fraction(0)
    return sum((max(zero, p - ratio * second.get(key, zero)) for key, p in first.items()), start=zero)


def dataset_divergences(laws: Sequence[Law], others: Sequence[int], ratio: Fraction) -> list[Fraction]:
    """Returns the divergence of all shuffled messages for every ordered pair of the target user's inputs."""
    others_law = EMPTY_MULTISET_LAW
    for value in others:
        others_law = union_law(others_law, laws[value])
    shuffled = [union_law(others_law, law) for law in laws]
    return [hockey_stick(first, second, ratio) for first, second in permutations(shuffled, 2)]


def worst_divergence(laws: Sequence[Law], users: int, ratio: Fraction) -> Fraction:
    """Returns the largest divergence over all datasets and all ordered pairs of inputs.

    It equals the largest of ``dataset_divergences``, but counts in integer units of 1/denominator^users, which is exact
    and many times faster than fractions. A multiset is one number, whose digits are the multiplicities of the messages.
    """
    unit = lcm(*(chance.denominator for law in laws for chance in law.values()))
    base = 1 + users * max(sum(count for _, count in key) for law in laws for key in law)
    places = {message: base**place for place, message in enumerate({m for law in laws for key in law for m, _ in key})}
    rows = [
        [(sum(count * places[message] for message, count in key), int(chance * unit)) for key, chance in law.items()]
        for law in laws
    ]
    up, down = Fraction(ratio).as_integer_ratio()
    worst = 0
    for others_law in _dataset_laws({0: 1}, rows, users - 1):
        shuffled = [_add_units(others_law, row) for row in rows]
        for first, second in permutations(shuffled, 2):
            gains = (down * p - up * second.get(key, 0) for key, p in first.items())
            worst = max(worst, sum(gain for gain in gains if gain > 0))
    return Fraction(worst, down * unit**users)


def _dataset_laws(law: Units, rows: Sequence[Steps], users: int) -> Iterator[Units]:
    """Yields ``law`` with so many more users, for every multiset of their inputs."""
    if users == 0:
        yield law
        return
    for place, row in enumerate(rows):
        yield from _dataset_laws(_add_units(law, row), rows[place:], users - 1)


def _add_units(law: Units, report: Steps) -> Units:
    """Returns ``union_law`` in integer units."""
    result: Units = {}
    for multiset, units in law.items():
        for step, chance in report:
            after = multiset + step
            result[after] = result.get(after, 0) + units * chance
    return result
