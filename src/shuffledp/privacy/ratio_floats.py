"""The sound variation-ratio reduction for many parameters at once, in floats: for searching, and never a guarantee."""

from __future__ import annotations

import math

import numpy as np

from shuffledp.array import Floats
from shuffledp.numerics.main_peak import log_positive_part_means

NOTHING = 1e-14
"""A smaller common part is what rounding left of none."""


def log_divergences(log_p: Floats, beta: Floats, log_q0: Floats, log_q1: Floats, epsilon: Floats, count: int) -> Floats:
    """About log δ at ε of ``count`` messages, the larger of both directions, for parameters as in ``VariationRatio``.

    ``q_common`` is the larger of q0 and q1. No number (NaN) where floats give out.
    """
    there = _law(log_p, beta, log_q0, log_q1, epsilon)
    even = log_q0 == log_q1
    back = _law(*(each[~even] for each in (log_p, beta, log_q1, log_q0, epsilon)))
    values, weights = (np.concatenate(both) for both in zip(there, back, strict=True))
    if not weights[:, 2].any():
        values, weights = values[:, :2], weights[:, :2]
    found = log_positive_part_means(values, weights, count) - math.log(count)
    result = found[: len(even)]
    result[~even] = np.maximum(result[~even], found[len(even) :])
    return result


def _law(log_p: Floats, beta: Floats, log_q0: Floats, log_q1: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """The values of G, 0 apart, and their weights: a row for each law."""
    ratio, inverse_p = np.exp(epsilon), np.exp(-log_p)
    extreme = beta / -np.expm1(-log_p)
    common = 1 - beta / np.tanh(log_p / 2)
    common = np.where(common > NOTHING, common, 0.0)
    q0, q1 = np.exp(log_q0), np.exp(log_q1)
    q_common = np.maximum(q0, q1)
    q1 = np.maximum(q1, q_common * np.expm1(epsilon) / (ratio - inverse_p))
    values = (-q0 * np.expm1(epsilon - log_p), -q1 * (ratio - inverse_p), -q_common * np.expm1(epsilon))
    weights = (extreme / q0, extreme / q1, common / q_common)
    return np.stack(values, axis=1), np.stack(weights, axis=1)
