"""Estimates as people read them: which are shown, in what order, and with which digits."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from shuffledp.collection.estimate_tables import format_estimate, format_lines, format_tables, select_values
from shuffledp.tasks.base import COORDINATES, NUMBERS, Quantity, Shape, count_shape, cumulative_shape


def quantity(values: list[float], shape: Shape, name: str = "users") -> Quantity:
    value = np.array(values)
    labels = tuple(f"l{place}" for place in range(len(values)))
    return Quantity(name, labels, value, None, value - 1.234, value + 1.234, shape=shape)


@pytest.mark.parametrize("value", [0.0, -3.21456, 7e8, 1.5e-7])
@pytest.mark.parametrize("reach", [3e-9, 0.0214, 1.0, 9.9995, 4321.0])
def test_ends_are_rounded_outwards_and_little(value: float, reach: float) -> None:
    """As decimals, without the package: what is written holds the interval, and is at most 2% wider."""
    low, high = value - reach, value + reach
    _, told = format_estimate(value, low, high)
    least, most = (Decimal(part.replace(",", "")) for part in told.split(" … "))
    assert least <= Decimal(low)
    assert most >= Decimal(high)
    # Twelve places behind the point are the most that are written, and floats of this size have no more digits.
    slack = Decimal("2e-12") + Decimal(abs(value)) * Decimal("1e-14")
    assert most - least <= (Decimal(high) - Decimal(low)) * Decimal("1.02") + slack


def test_what_is_shown_and_in_which_order() -> None:
    """Counts by size; ordered ones in their order if all have room; coordinates always; running counts to the last."""
    values = [5.0, 9.0, 7.0]
    assert select_values(quantity(values, count_shape(9, all_in_one=True)), 2) == ([1, 2], "largest")
    assert select_values(quantity(values, count_shape(9, all_in_one=True)), 3) == ([1, 2, 0], "")
    assert select_values(quantity(values, count_shape(9, all_in_one=True, ordered=True)), 3) == ([0, 1, 2], "")
    assert select_values(quantity(values, count_shape(9, all_in_one=True, ordered=True)), 2) == ([1, 2], "largest")
    assert select_values(quantity(values, Shape(COORDINATES, ordered=True)), 2) == ([0, 1], "first")
    assert select_values(quantity(values, cumulative_shape(9)), 2) == ([1, 2], "last")
    assert select_values(quantity([5.0, np.nan, 7.0], count_shape(9, all_in_one=False)), 3)[0] == [2, 0]


def test_means_stand_beside_the_counts_of_their_keys() -> None:
    """In a terminal on the same line, on a page in the same order; of keys that hardly anybody has, no mean."""
    told = [quantity([5.0, 9.0, 7.0], count_shape(9, all_in_one=False)),
            quantity([1.0, np.nan, 3.0], Shape(NUMBERS), "mean")]  # fmt: skip
    found = format_lines(told, "95%")
    assert found[0] == ("intervals", "95%, of each estimate by itself")
    assert found[1] == ("l1", "9.00 (7.76 … 10.24)")
    assert found[2] == ("l2", "7.00 (5.76 … 8.24), mean 3.00 (1.76 … 4.24)")
    users, means = format_tables(told)
    assert [line.split(" | ")[0] for line in users.splitlines()[2:]] == ["| l1", "| l2", "| l0"]
    assert [line.split(" | ")[0] for line in means.splitlines()[2:4]] == ["| l2", "| l0"]
    assert "1 more not shown" in means
