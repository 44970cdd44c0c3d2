"""The worst of all crowds is never below the worst dataset: random tables against brute force."""

from __future__ import annotations

import math

import pytest

from .worst_dataset_enumeration import SIZES, TABLE_GENERATORS, find_unsound_bounds

PLACES = 3
TABLES = math.lcm(len(TABLE_GENERATORS), len(SIZES), PLACES)
"""Every kind of table in every size at every ε once."""
SHARP = 6


@pytest.mark.usefixtures("few_pieces")
@pytest.mark.parametrize("number", range(TABLES))
def test_never_below_the_worst_dataset(number: int) -> None:
    """Every pair of inputs, both ways, and every crowd, mixed ones too; a few pieces of each simplex, one ε a table."""
    assert list(find_unsound_bounds(number, [number % PLACES])) == []


def test_nor_where_it_is_as_sharp_as_can_be() -> None:
    """Some of the tables, with all pieces."""
    assert [wrong for number in range(SHARP) for wrong in find_unsound_bounds(number, [number % PLACES])] == []
