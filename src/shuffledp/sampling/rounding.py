"""Real values on a grid by exact, unbiased randomised rounding.

A value is first written as a whole number of units, 2^-53 of its range, by ordinary rounding to the nearest: a fixed
function of the value, so that privacy does not depend on it. From there on everything is exact: the coins are fair
bits compared with whole numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Integers
from shuffledp.sampling.random import RandomSource

UNIT_BITS = 53
WHOLE = 1 << UNIT_BITS
"""Units in the range."""
FIRST_BITS = 16
LATER_BITS = UNIT_BITS - FIRST_BITS
"""A coin is decided by 16 fair bits; in one case of 2^16 the other 37 are drawn too."""
HALF_BITS = 27
MOST_STEPS = 1 << 16
"""The finest grid."""


def units_of_interval(values: NDArray[np.float64], low: float, high: float) -> Integers:
    """Values of [low, high] in units; off by at most 2^-51 of the range, and by at most half a unit on [0, 1]."""
    share = (values - low) / (high - low)
    return np.minimum(np.rint(share * WHOLE), WHOLE).astype(np.int64)


def steps_within(size: float, low: float, high: float, steps: int) -> int:
    """How many steps apart ``to_grid`` can put two values of [low, high] that are at most ``size`` apart.

    Rounding both with one and the same coin puts them at most ⌈difference in steps⌉ apart; each keeps its law.
    The difference is that of the units, each of which is off by at most 2^-51 of the range.
    """
    share = Fraction(size) / (Fraction(high) - Fraction(low)) + Fraction(1, 1 << (UNIT_BITS - 4))
    return min(steps, math.ceil(share * steps))


def farthest_within(size: float, low: float, high: float) -> float:
    """The largest float of [low, high] that is at most ``size`` above low, exactly."""
    farthest = min(high, low + size)
    while Fraction(farthest) - Fraction(low) > Fraction(size):
        farthest = math.nextafter(farthest, -math.inf)
    return farthest


def units_of_signed(values: NDArray[np.float64]) -> Integers:
    """Values of [−1, 1] in units of 2^-52 above −1, rounded to the nearest."""
    return np.rint(values * (WHOLE // 2)).astype(np.int64) + WHOLE // 2


def coins(units: Integers, source: RandomSource) -> NDArray[np.bool_]:
    """Independent coins, each True with probability exactly units/2^53."""
    flat = units.reshape(-1)
    first = source.words(-(-flat.size // 4)).view(np.uint16)[: flat.size]
    threshold = (flat >> LATER_BITS).astype(np.int32)
    heads = np.asarray(first < threshold)
    undecided = np.flatnonzero(first == threshold)
    later = source.words(undecided.size) >> np.uint64(64 - LATER_BITS)
    heads[undecided] = later < (flat[undecided] & ((1 << LATER_BITS) - 1)).astype(np.uint64)
    return heads.reshape(units.shape)


def to_grid(units: Integers, steps: int, source: RandomSource) -> Integers:
    """A whole number from 0 to steps per value, with mean exactly units·steps/2^53."""
    whole, left = grid_position(units, steps)
    return np.asarray(whole + coins(left, source))


def grid_position(units: Integers, steps: int) -> tuple[Integers, Integers]:
    """units·steps/2^53 as whole steps and units left over; in two halves, so that 64 bits suffice up to 2^16 steps."""
    top, bottom = (units >> HALF_BITS) * steps, (units & ((1 << HALF_BITS) - 1)) * steps
    top += bottom >> HALF_BITS
    bottom &= (1 << HALF_BITS) - 1
    places = UNIT_BITS - HALF_BITS
    return top >> places, (top & ((1 << places) - 1)) << HALF_BITS | bottom


def grid_law(unit: int, steps: int) -> dict[int, Fraction]:
    """The law of ``to_grid`` for one value."""
    position = Fraction(unit * steps, WHOLE)
    below = int(position)
    up = position - below
    return {below: 1 - up, below + 1: up} if up else {below: Fraction(1)}


def grid_size(who: str, grid: object, at_least: int) -> int:
    """A size of grid for which all of this is exact."""
    size = argument.count(who, "grid", grid, at_least=at_least)
    if size > MOST_STEPS:
        raise ValueError(f"{who}: grid must be at most {MOST_STEPS}, got {size}.")
    return size
