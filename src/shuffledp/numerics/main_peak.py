"""log E[(G_1 + … + G_n)_+] for many finite laws of G at once, in floats: what steers a search, and proves nothing.

The integral of ``contour`` without its smoothing, on the peak around the real axis alone: the other peaks hold what a
lattice adds, which is little unless few messages decide. All laws go through numpy together, at microseconds each.
"""

from __future__ import annotations

import math

import numpy as np

from shuffledp.array import Floats

NODES, STEP = 13, 0.5
"""Nodes from the saddle on, and their distance in standard deviations: beyond, a peak is below e^-18 of its height."""
ROUNDS, CLOSE = 40, 0.02
"""Steps towards a saddle, and how near is near enough: the integral does not depend on where it crosses the axis."""
FARTHEST = 3.0
"""The most by which one step changes a tilt."""
ROWS = 4096
SMALLEST = 1e-300


def log_positive_part_means(values: Floats, weights: Floats, count: int) -> Floats:
    """A row for each law: its values other than 0 and their weights, positive; what these lack to 1 is 0's weight.

    Minus infinity where no value is positive, no number (NaN) where floats give out.
    """
    result = np.full(len(values), -np.inf)
    (rising,) = np.nonzero(values.max(axis=1) > 0)
    with np.errstate(all="ignore"):
        for start in range(0, len(rising), ROWS):
            rows = rising[start : start + ROWS]
            top = values[rows].max(axis=1)
            result[rows] = _log_means(values[rows] / top[:, None], weights[rows], count) + np.log(top)
    return result


def _log_means(values: Floats, weights: Floats, count: int) -> Floats:
    """The same where the largest value is 1."""
    tilt = _saddles(values, weights, count)
    tilted, mass = _tilted(values, weights, tilt)
    deviation = np.sqrt(count * _variance(values, tilted))
    u = (STEP / deviation)[:, None] * np.arange(NODES)
    real, imaginary = np.zeros_like(u), np.zeros_like(u)
    for value, weight in zip(values.T[:, :, None], tilted.T[:, :, None], strict=True):
        half = 0.5 * u * value
        sine = np.sin(half)
        real -= 2 * weight * sine**2
        imaginary += 2 * weight * sine * np.cos(half)
    size = 0.5 * np.log1p(2 * real + real**2 + imaginary**2)
    turn, share = np.arctan2(imaginary, 1 + real), u / tilt[:, None]
    terms = np.exp(count * size) * np.cos(count * turn - 2 * np.arctan(share)) / (1 + share**2)
    total = 2 * terms.sum(axis=1) - terms[:, 0]
    height = count * _log_moment(values, weights, tilt, mass) - 2 * np.log(tilt)
    return np.asarray(height + np.log(STEP / (2 * math.pi * deviation)) + np.log(np.maximum(total, SMALLEST)))


def _saddles(values: Floats, weights: Floats, count: int) -> Floats:
    """About the minimum of count·log M(t) − 2·log t over t > 0, which is convex: Newton's steps, none too long."""
    mean, square = (weights * values).sum(axis=1), (weights * values**2).sum(axis=1)
    tilt = (np.sqrt(mean**2 + 8 * square / count) - mean) / (2 * square)
    for _ in range(ROUNDS):
        tilted, _ = _tilted(values, weights, tilt)
        slope = count * (tilted * values).sum(axis=1) * tilt - 2
        curvature = count * _variance(values, tilted) * tilt**2 + 2
        change = np.clip(1 - slope / curvature, 1 / FARTHEST, FARTHEST)
        tilt = tilt * change
        if not (np.abs(change - 1) > CLOSE).any():
            break
    return np.asarray(tilt)


def _tilted(values: Floats, weights: Floats, tilt: Floats) -> tuple[Floats, Floats]:
    """The weights under e^(t·G), without that of 0, and M(t)·e^-t."""
    raw = weights * np.exp(tilt[:, None] * (values - 1))
    mass = raw.sum(axis=1) + (1 - weights.sum(axis=1)) * np.exp(-tilt)
    return raw / mass[:, None], mass


def _variance(values: Floats, tilted: Floats) -> Floats:
    mean = (tilted * values).sum(axis=1)
    return np.asarray((tilted * values**2).sum(axis=1) - mean**2)


def _log_moment(values: Floats, weights: Floats, tilt: Floats, mass: Floats) -> Floats:
    """log M(t); near 0 from M − 1, so that count may be large."""
    excess = (weights * np.expm1(tilt[:, None] * values)).sum(axis=1)
    near = (tilt <= 1) & (excess > -0.5)
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), tilt + np.log(mass))
