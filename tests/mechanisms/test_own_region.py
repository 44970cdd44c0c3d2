"""Randomizers with a region for each input: their attacks are exact pairs of constructed datasets."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from shuffledp import amplify
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.frequency.hadamard_response import HadamardResponse
from shuffledp.mechanisms.frequency.subset_selection import Subset
from shuffledp.mechanisms.sets_and_key_values.privset import PrivSet
from shuffledp.numerics.positive_part import PositivePartMean
from tests.oracle.exact_enumeration import Row, positive_part_mean

CASES = [
    (Subset(1.0, 2), 0, 1, 0),
    (Subset(1.0, 6, 2), 0, 1, 2),
    (Subset(2.0, 5, 4), 0, 1, 2),
    (PrivSet(1.0, 6, 2, 2), (0, 1), (2, 3), (4, 5)),
    (PrivSet(1.0, 5, 2, 2), (0, 1), (2, 3), (0, 4)),
    (PrivSet(1.0, 5, 2, 1), (0, 1), (2, 3), (0, 4)),
    (PrivSet(1.0, 5, 3, 2), (0, 1, 2), (2, 3, 4), (0, 1, 2)),
    (HadamardResponse(1.0, 2), 0, 1, 0),
    (HadamardResponse(1.0, 5), 0, 1, 2),
    (HadamardResponse(1.0, 3, 2), 0, 1, 2),
    (HadamardResponse(1.0, 2, 2), 0, 1, 0),
    (HadamardResponse(1.0, 6, 2), 0, 3, 1),
    (HadamardResponse(1.0, 9, 4), 0, 3, 6),
    (HadamardResponse(1.0, 4, 4), 0, 1, 2),
]


def divergence(first: Row, second: Row, hiding: Row, users: int, ratio: Fraction) -> Fraction:
    """(1/n)·E(ΣG)_+ message by message, equal values of G merged."""
    weights: dict[Fraction, Fraction] = {}
    for x, y, w in zip(first, second, hiding, strict=True):
        value = (x - ratio * y) / w
        weights[value] = weights.get(value, Fraction(0)) + w
    return positive_part_mean(list(weights), list(weights.values()), users) / users


@pytest.mark.parametrize(("mechanism", "first", "second", "others"), CASES, ids=lambda part: str(part))
def test_attacks_are_datasets(mechanism: Mechanism, first: object, second: object, others: object) -> None:
    """Both directions equal the divergence of the named inputs, from the table; in a second attack, where there is one,
    the others hold the first input."""
    table = mechanism.table()
    places = [tuple(value) if isinstance(value, list) else value for value in table.inputs.tolist()]
    a, b, third = (table.probabilities[places.index(value)] for value in (first, second, others))
    pairs = mechanism.attacks()
    assert 1 <= len(pairs) <= 2
    levels = ((1, Fraction(5, 4)), (2, Fraction(3, 2)), (3, Fraction(11, 10)))
    for (pair, c), (users, ratio) in product(zip(pairs, (third, a), strict=False), levels):
        there, back = divergence(a, b, c, users, ratio), divergence(b, a, c, users, ratio)
        for way, truth in ((pair, there), (pair.swapped(), back)):
            claimed = PositivePartMean(way.law, users).bracket(math.log(ratio)).upper_float()
            assert claimed == pytest.approx(float(truth), rel=1e-9, abs=1e-15)
        assert not pair.symmetric or there == back


@pytest.mark.parametrize(
    "mechanism",
    [Subset(2.0, 128), PrivSet(2.0, 128, 4), HadamardResponse(2.0, 100), HadamardResponse(3.0, 100, 8)],
    ids=lambda part: part.name,
)
def test_attacks_are_close_to_the_bound(mechanism: Mechanism) -> None:
    """A lower bound below the upper one and not far from it."""
    epsilon = amplify(mechanism, 10_000, effort="quick").epsilon(1e-6)
    assert epsilon.lower is not None
    assert 0.8 * epsilon.upper < epsilon.lower <= epsilon.upper
