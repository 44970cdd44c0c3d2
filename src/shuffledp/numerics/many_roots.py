"""Many searches at once for the sign change of increasing functions, for functions that numpy evaluates together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Floats

Places = NDArray[np.int64]
MOST_STEPS = 200
HALVING = 3
"""Every so many steps an interval is halved, whatever its ends say."""


def find_crossings(
    f: Callable[[Floats, Places], Floats], low: Floats, high: Floats, relative: float
) -> tuple[Floats, Floats]:
    """For each function a point below its sign change, with a value of at most 0, and one above, ``relative`` apart.

    ``f(x, places)`` are the values of the functions at ``places``, each at its own x. The ends are not evaluated: the
    caller knows that f(low) ≤ 0 < f(high). Secants, with the value of an end that stays put halved (Illinois).
    """
    below, above = low.copy(), high.copy()
    f_below, f_above = np.full_like(below, -np.inf), np.full_like(above, np.inf)
    for step in range(MOST_STEPS):
        (places,) = np.nonzero(above - below > relative * np.abs(above))
        if not len(places):
            break
        left, right = below[places], above[places]
        x = 0.5 * (left + right)
        if step % HALVING:
            with np.errstate(invalid="ignore", divide="ignore"):
                secant = left - f_below[places] * (right - left) / (f_above[places] - f_below[places])
            # A hair beyond, so that both ends close in.
            hair = 0.4 * relative * np.abs(right)
            secant += np.where(np.abs(f_below[places]) < np.abs(f_above[places]), hair, -hair)
            x = np.where((secant > left) & (secant < right), secant, x)
        value = f(x, places)
        down = value <= 0
        f_above[places[down]] *= 0.5
        f_below[places[~down]] *= 0.5
        below[places[down]], f_below[places[down]] = x[down], value[down]
        above[places[~down]], f_above[places[~down]] = x[~down], value[~down]
    return below, above
