"""Post-processing of estimates, on request: the nearest values that the true ones could be, by what everybody knows.

Theorem: the true values lie in a closed convex set that is known beforehand, so that the nearest point of that set is
never farther from them than the estimate is, whatever the data and the noise: the projection onto a convex set brings
no two points farther apart. It costs no privacy, and gives up what the estimates are: unbiased, each with an interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shuffledp.array import Floats
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import COORDINATES, NUMBERS

NON_NEGATIVE, ADDS_UP, CONSISTENT = "non-negative", "adds-up", "consistent"
WAYS = {
    NON_NEGATIVE: "counts below 0 are moved to 0",
    ADDS_UP: "all counts are moved by the same, so that they add up to the users",
    CONSISTENT: "they are the nearest values that such users could have: none below the least or above the largest, "
    "and what must add up does",
}
"""What each way does, in words."""


def demand(who: str, way: str, possible: Sequence[str], task: str) -> None:
    """Stop where there is no such way, or not for this task."""
    if way not in WAYS:
        raise ValueError(f"{who}: --post must be {', '.join(list(WAYS)[:-1])} or {CONSISTENT}, got {way!r}.")
    if way not in possible:
        raise ValueError(
            f"{who}: --post {way} does not go with the task {task!r}, whose estimates are not bound so; "
            f"take --post {' or '.join(possible)}."
        )


def nearest(quantity: Quantity, way: str) -> Floats | None:
    """The values of one quantity by itself after post-processing; None where this way says nothing of them."""
    shape, value = quantity.shape, quantity.value
    if way == CONSISTENT:
        return np.clip(value, shape.least, shape.most) if shape.total is None else on_simplex(value, shape.total)
    if way == ADDS_UP:
        return None if shape.total is None else np.asarray(value + (shape.total - value.sum()) / len(value))
    return None if shape.kind in (NUMBERS, COORDINATES) else np.maximum(value, 0.0)


def on_simplex(value: Floats, total: float) -> Floats:
    """The nearest numbers of at least 0 that add up to ``total``: all less the same, and none below 0.

    >>> on_simplex(np.array([60.0, 50.0, -20.0]), 100.0).tolist()
    [55.0, 45.0, 0.0]
    """
    falling = np.sort(value)[::-1]
    taken = (np.cumsum(falling) - total) / np.arange(1, len(value) + 1)
    # The last of the largest that would still be above 0.
    last = int(np.flatnonzero(falling > taken)[-1]) if total > 0 else 0
    return np.maximum(value - taken[last], 0.0) if total > 0 else np.zeros_like(value)
