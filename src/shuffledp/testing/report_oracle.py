"""Exact divergences of small protocols in which a user sends several messages, straight from the definition.

An oracle to check bounds and laws against: it shares no code with them, and of the package it imports the oracle of one
message only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from math import lcm
from typing import Any

from shuffledp.testing.oracle import worst_of_units

Multiset = frozenset[tuple[Any, int]]
Law = dict[Multiset, Fraction]
"""Law of a multiset of messages: which messages are there, and how often each."""

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
    return Fraction(1, unit**users) * worst_of_units(rows, users, Fraction(ratio))
