"""Exact divergences of small protocols in which a user sends several messages, straight from the definition.

An oracle to check bounds and laws against: it shares no code with them and imports nothing of the package.
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
"""Law of a multiset of messages: which messages are there, and how often each."""
Units = dict[int, int]
Steps = Sequence[tuple[int, int]]
"""What a report adds to the number that stands for a multiset, and its units."""

NOTHING: Law = {frozenset(): Fraction(1)}


def laws_of(table: Any) -> list[Law]:
    """For each input, the law of a user's messages with their order forgotten, from a table of ordered reports."""
    keys = [frozenset(Counter(bytes(message.tobytes()) for message in report).items()) for report in table.messages]
    laws: list[Law] = []
    for row in table.probabilities:
        law: Law = {}
        for key, chance in zip(keys, row, strict=True):
            if chance:
                law[key] = law.get(key, Fraction(0)) + chance
        laws.append(law)
    return laws


def together(first: Law, second: Law) -> Law:
    """Law of the union of two independent multisets."""
    result: Law = {}
    for one, chance in first.items():
        for other, weight in second.items():
            key = frozenset((Counter(dict(one)) + Counter(dict(other))).items())
            result[key] = result.get(key, Fraction(0)) + chance * weight
    return result


def hockey_stick(first: Law, second: Law, ratio: Fraction) -> Fraction:
    """Sum of max(0, P − ratio·Q) over all multisets."""
    zero = Fraction(0)
    return sum((max(zero, p - ratio * second.get(key, zero)) for key, p in first.items()), start=zero)


def dataset_divergences(laws: Sequence[Law], others: Sequence[int], ratio: Fraction) -> list[Fraction]:
    """For every ordered pair of the victim's inputs, the divergence of all shuffled messages."""
    crowd = NOTHING
    for value in others:
        crowd = together(crowd, laws[value])
    shuffled = [together(crowd, law) for law in laws]
    return [hockey_stick(first, second, ratio) for first, second in permutations(shuffled, 2)]


def worst_divergence(laws: Sequence[Law], users: int, ratio: Fraction) -> Fraction:
    """Largest divergence over all datasets and all ordered pairs of inputs: of ``dataset_divergences`` of each.

    Counted in whole units of 1/denominator^users, which is exact and many times faster than fractions. A multiset is
    one number, whose digits are how often each message is there.
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
    for crowd in _crowds({0: 1}, rows, users - 1):
        shuffled = [_add_units(crowd, row) for row in rows]
        for first, second in permutations(shuffled, 2):
            gains = (down * p - up * second.get(key, 0) for key, p in first.items())
            worst = max(worst, sum(gain for gain in gains if gain > 0))
    return Fraction(worst, down * unit**users)


def _crowds(law: Units, rows: Sequence[Steps], users: int) -> Iterator[Units]:
    """What ``law`` becomes with so many more users, for every multiset of their inputs."""
    if users == 0:
        yield law
        return
    for place, row in enumerate(rows):
        yield from _crowds(_add_units(law, row), rows[place:], users - 1)


def _add_units(law: Units, report: Steps) -> Units:
    """``together`` in whole units."""
    result: Units = {}
    for multiset, units in law.items():
        for step, chance in report:
            after = multiset + step
            result[after] = result.get(after, 0) + units * chance
    return result
