"""Gaussian differential privacy: the trade-off curve of two unit normals a distance μ apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.special import log_ndtr, ndtr, ndtri
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff, TradeOff, checked_errors

SCORES = np.linspace(-9.0, 9.0, 2001)
"""Where the polygon touches the curve, in standard deviations."""


def gaussian_delta(mu: Floats, epsilon: float) -> Floats:
    """D_{e^ε} of two unit normals at distance μ ≥ 0: Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), for any real ε.

    Theorem: Gaussian mechanism, exact privacy curve.
    Returns: floats; at μ = 0 the atom (1 − e^ε)_+.
    """
    mu = np.asarray(mu, dtype=np.float64)
    shift = np.where(mu > 0, mu, 1.0)
    first = log_ndtr(shift / 2 - epsilon / shift)
    second = epsilon + log_ndtr(-shift / 2 - epsilon / shift)
    # e^a − e^b = −e^a·expm1(b − a) keeps digits in the tails.
    found = -np.exp(first) * np.expm1(np.minimum(0.0, second - first))
    return np.where(mu > 0, found, max(0.0, -math.expm1(epsilon)))


@dataclass(frozen=True)
class GaussianTradeOff(TradeOff):
    """G_μ(x) = Φ(Φ⁻¹(1−x) − μ).

    Theorem: Gaussian differential privacy (Dong, Roth and Su).
    Requires: μ ≥ 0 and finite.
    Returns: the exact curve in floats.

    >>> from shuffledp.tradeoff.gaussian_trade_off import GaussianTradeOff
    >>> print(f"{float(GaussianTradeOff(1.0).fnr(0.05)):.4f}")
    0.7405
    """

    mu: float
    theorem: str = field(default="Gaussian differential privacy", init=False)
    guarantee: bool = field(default=True, init=False)
    certified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        mu = argument.non_negative("GaussianTradeOff", "mu", self.mu, up=True)
        if math.isinf(mu):
            raise ValueError("GaussianTradeOff: mu must be finite, got inf.")
        object.__setattr__(self, "mu", mu)

    def fnr(self, fpr: ArrayLike) -> Floats:
        return np.asarray(ndtr(-ndtri(checked_errors(fpr)) - self.mu))

    def tpr(self, fpr: ArrayLike) -> Floats:
        return np.asarray(ndtr(ndtri(checked_errors(fpr)) + self.mu))

    def delta(self, epsilon: float) -> float:
        return float(gaussian_delta(np.array(self.mu), argument.real("GaussianTradeOff", "epsilon", epsilon)))

    def knots(self) -> PiecewiseTradeOff:
        """The polygon through 2,001 points of the curve: above it, by less than 1e-5."""
        low, high = SCORES[:-1] - self.mu / 2, SCORES[1:] - self.mu / 2
        # Each interval is measured in the tail that it lies in.
        inner = np.where(high < 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high))
        null = np.concatenate([[ndtr(SCORES[0] - self.mu / 2)], inner, [ndtr(self.mu / 2 - SCORES[-1])]])
        theorem = f"{self.theorem}, through points of the curve"
        return PiecewiseTradeOff(null, null[::-1], theorem, from_points=True)

    def renyi(self, order: float) -> float:
        """order·μ²/2."""
        return order * self.mu**2 / 2

    def inverse(self) -> GaussianTradeOff:
        return self
