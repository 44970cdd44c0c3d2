"""Counts of items that few hold: a standard error that is as honest as the interval."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import counted

USUAL = 0.95
"""The confidence by which a standard error is told, whatever intervals are asked for."""


def counts(labels: tuple[str, ...], estimate: Estimate, confidence: float) -> Quantity:
    """How many users there are of each label."""
    low, high = estimate.interval(confidence)
    shape = counted(estimate.users, all_in_one=False)
    return Quantity("users", labels, estimate.value, standard_error(estimate), low, high, shape=shape)


def standard_error(estimate: Estimate) -> Floats:
    """Of each count: no less than the interval of 95% is wide, so that an estimate near 0 does not state too little."""
    return np.maximum(estimate.standard_error, estimate.margin(USUAL) / estimate.tails.reach(USUAL))
