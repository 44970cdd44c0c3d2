"""Rényi divergences of a pair that is known by its hockey-stick divergences, as integrals over ε."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shuffledp.array import Floats
from shuffledp.errors import NumericalError

LARGEST, LEAST = 700.0, 1e-300
"""Where ε ends, and the δ below which nothing is known of the tail."""
FLAT = 1 - 1e-9
SCANNED, LOG_NEGLIGIBLE = 400, -45.0
NODES, FEWEST_PANELS, MOST_PANELS = 16, 32, 4096
TOLERANCE = 1e-9


def renyi_divergence(forward: Callable[[float], float], backward: Callable[[float], float], order: float) -> float:
    """D_order(P‖Q), at order 1 the Kullback–Leibler divergence, from δ(ε) of both directions.

    ``forward`` is D_{e^ε}(P‖Q), ``backward`` D_{e^ε}(Q‖P), for ε ≥ 0.

    Theorem: an f-divergence is the mixture ∫_1^∞ F''(x)·D_x(P‖Q) + x^(−3)·F''(1/x)·D_x(Q‖P) dx of hockey-stick
    divergences [Sason and Verdú 2016, Theorem 8]; with F(s) = s^α and x = e^ε the integral over ε ≥ 0 of
    α(α−1)·(e^((α−1)ε)·D_{e^ε}(P‖Q) + e^(−αε)·D_{e^ε}(Q‖P)) is E_Q (p/q)^α − 1, and KL for F(s) = s·log s.
    Requires: order ≥ 1; the two functions are smooth but for a few kinks.
    Returns: floats, to about 1e-9 of the integral; infinity where P has mass that Q does not have. A sentence
    (``NumericalError``) where values below 1e-300, or an ε above 700, would count.
    """
    end = _end(forward)
    if end == LARGEST and forward(LARGEST) >= FLAT * forward(LARGEST / 2):
        return math.inf

    def logs(points: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            there = np.log(np.array([max(0.0, forward(x)) for x in points.tolist()]))
            back = np.log(np.array([max(0.0, backward(x)) for x in points.tolist()]))
        return np.asarray(np.logaddexp((order - 1) * points + there, -order * points + back))

    scanned = np.linspace(0.0, end, SCANNED + 1)
    found = logs(scanned)
    top = float(found.max())
    if top == -math.inf:
        return 0.0
    unknown = (order - 1) * end + math.log(max(LEAST, forward(end)))
    if unknown > top + LOG_NEGLIGIBLE:
        raise NumericalError(f"divergence: at order {order:g} what counts of this curve is beyond the floats.")
    counted = np.flatnonzero(found > top + LOG_NEGLIGIBLE)
    low, high = scanned[max(0, counted[0] - 1)], scanned[min(SCANNED, counted[-1] + 1)]
    log_excess = top + math.log(_integral(lambda points: np.exp(logs(points) - top), float(low), float(high)))
    if order == 1:
        return math.exp(log_excess)
    return float(np.logaddexp(0.0, math.log(order * (order - 1)) + log_excess)) / (order - 1)


def _end(forward: Callable[[float], float]) -> float:
    """The first ε at which nothing is left that floats can hold, 700 where there is none."""
    if forward(LARGEST) >= LEAST:
        return LARGEST
    low, high = 0.0, LARGEST
    while high - low > 1e-15 * high and high > LEAST:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if forward(middle) >= LEAST else (low, middle)
    return high


def _integral(function: Callable[[Floats], Floats], low: float, high: float) -> float:
    """By Gauss and Legendre on more and more panels."""
    places, weights = np.polynomial.legendre.leggauss(NODES)
    before, panels = math.inf, FEWEST_PANELS
    while panels <= MOST_PANELS:
        edges = np.linspace(low, high, panels + 1)
        half = (high - low) / panels / 2
        points = ((edges[:-1] + half)[:, None] + half * places).ravel()
        found = half * float(np.sum(np.tile(weights, panels) * function(points)))
        if abs(found - before) <= TOLERANCE * abs(found):
            return found
        before, panels = found, 2 * panels
    raise NumericalError("divergence: the curve has too many kinks to be integrated.")
