"""Gaussian differential privacy: the trade-off curve of two unit normals a distance μ apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.numerics.special import log_ndtr, ndtr, ndtri
from shuffledp.privacy.curve import LARGEST_EPSILON
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff, TradeOff, checked_errors

TANGENTS, TAIL = 3001, 9.0
"""How many tangents stand for the curve, and how many standard deviations beyond either mean the last ones touch it."""
LOWERED = 1e-10
"""By how much a polygon is lowered, relatively: thousands of times what its floats are wrong."""


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
        """The polygon of 3,001 tangents: a lower curve of this one, by less than 1e-5.

        Theorem: a convex curve is above each of its tangents, so that a mixture of such polygons is a guarantee.
        Returns: every type I error before slope −1, and every type II error after it, lowered by 1e-10 of itself: more
        than all floats here, and those of a mixture, are wrong.
        """
        theorem = f"{self.theorem}, by tangents"
        if self.mu == 0:
            return PiecewiseTradeOff(np.ones(1), np.ones(1), theorem, guarantee=True)
        scores = np.linspace(-1.0, 1.0, TANGENTS) * min(TAIL + self.mu / 2, LARGEST_EPSILON / self.mu)
        null, ratios = self._tangents(scores), np.exp(-self.mu * scores)
        alternative = ratios * null
        tail = ndtr(scores[0] - self.mu / 2)
        beyond = max(0.0, float(ndtr(scores[0] + self.mu / 2) - ratios[0] * tail))
        null, alternative = null / (null.sum() + beyond), alternative / (alternative.sum() + beyond)
        middle = TANGENTS // 2
        for masses, lowered in ((null, slice(0, middle)), (alternative, slice(middle + 1, None))):
            masses[middle] += LOWERED * masses[lowered].sum()
            masses[lowered] *= 1 - LOWERED
        # What the steepest tangent leaves at a type I error of 0, and its mirror image.
        return PiecewiseTradeOff(
            np.concatenate([[0.0], null, [beyond]]),
            np.concatenate([[beyond], alternative, [0.0]]),
            theorem,
            guarantee=True,
        )

    def _tangents(self, scores: Floats) -> Floats:
        """The mass under P of each tangent's segment, steepest first; P and Q are centred at μ/2 and −μ/2.

        Between two tangents lies a mass n of P and a of Q; the steeper one, of ratio r, takes the u of P with
        r·u + r'·(n − u) = a, whose errors move the polygon along a tangent.
        """
        low, high = scores[:-1] - self.mu / 2, scores[1:] - self.mu / 2
        # Each interval is measured in the tail that it lies in.
        inner = np.where(high < 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steeper = (inner[::-1] * np.exp(self.mu * scores[1:]) - inner) / np.expm1(self.mu * np.diff(scores))
        steeper = np.clip(np.where(np.isfinite(steeper), steeper, inner / 2), 0.0, inner)
        ends = ndtr(scores[0] - self.mu / 2) * np.array([1.0, np.exp(-self.mu * scores[0])])
        return np.asarray(np.append(steeper, ends[1]) + np.append(ends[0], inner - steeper))

    def renyi(self, order: float) -> float:
        """order·μ²/2."""
        return order * self.mu**2 / 2

    def inverse(self) -> GaussianTradeOff:
        return self
