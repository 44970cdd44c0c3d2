"""Intervals of counts whose error grows with the count: every count that would not be surprised by the estimate.

Theorem: [Wilson 1927], for randomized messages: an estimate v of a count θ has variance V(θ) = V(0) + slope·θ, and the
interval holds the θ with (v − θ)² ≤ z²·V(θ). Where few messages speak of an option, v ± z·√V(v) holds the truth too
rarely: an estimate that is too small states an error that is too small.
"""

from __future__ import annotations

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import counted

USUAL = 0.95
"""The confidence by which a standard error is told, whatever intervals are asked for."""


def slope_of(mechanism: Mechanism, one: Array) -> float:
    """How much more variance a user adds to a count that she is in; ``one`` holds the first options, not the last."""
    spread = np.atleast_2d(mechanism.variance(one))[0]
    return float(spread[0] - spread[-1])


def counts(labels: tuple[str, ...], estimate: Estimate, slope: float, confidence: float) -> Quantity:
    """How many users there are of each label, with such intervals."""
    low, high = interval(estimate, slope, confidence)
    shape = counted(estimate.users, all_in_one=False)
    return Quantity("users", labels, estimate.value, standard_error(estimate, slope), low, high, shape=shape)


def standard_error(estimate: Estimate, slope: float) -> Floats:
    """Of each count: no less than the interval of 95% is wide, so that an estimate near 0 does not state too little."""
    low, high = interval(estimate, slope, USUAL)
    return np.maximum(estimate.standard_error, (high - low) / (2 * estimate.tails.reach(USUAL)))


def interval(estimate: Estimate, slope: float, confidence: float) -> tuple[Floats, Floats]:
    """The counts within reach, per component; the variance of the estimate is that of the count it tells."""
    z = estimate.tails.reach(argument.open_probability("interval", "confidence", confidence, up=True))
    value, told = estimate.value, np.clip(estimate.value, 0.0, estimate.users)
    # With θ = v + d: d² − z²·slope·d − z²·V(v) ≤ 0.
    half, here = z**2 * slope / 2, estimate.variance + slope * (value - told)
    root = np.sqrt(np.maximum(half**2 + z**2 * here, 0.0))
    return value + half - root, value + half + root
