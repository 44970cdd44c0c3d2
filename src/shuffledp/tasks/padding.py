"""Users who hold fewer items than a mechanism is made for: dummies fill their places, and are left out of the estimate.

Dummies are options of their own behind those of the domain, as many as there are places, so that no user needs one
twice. Nobody's real options are touched: each one's estimate is what it would be if everybody held as many.
"""

from __future__ import annotations

import numpy as np

from shuffledp.array import Array
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.tasks.column import Column

EMPTY = -1
"""What stands in a place without an item."""


def filled(column: Column, options: Array, count: int, items: int) -> Array:
    """Rows of option numbers whose empty places, if the mechanism wants none, hold dummies: ``count`` and those after.

    A mechanism that has no more options than the domain takes full rows only.
    """
    mechanism = column.mechanism
    if not mechanism.values.fills:
        return options
    empty = options == EMPTY
    if mechanism.settings().get("options", count) == count and empty.any():
        short = empty.any(axis=1)
        raise column.refuse(f"expected {items} items in every row, got fewer in {int(short.sum()):,} rows", short)
    return np.where(empty, count + np.arange(options.shape[1]), options)


def first_of(estimate: Estimate, count: int) -> Estimate:
    """The estimate without that of the dummies."""
    return estimate.some((..., slice(count)))
