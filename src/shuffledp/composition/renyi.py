"""Rényi divergences of a curve's dominating pair, for users whose accounting is in Rényi differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shuffledp import argument
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.loss_moment import ROUNDING, LossMoments
from shuffledp.privacy.record import Record
from shuffledp.privacy.value import BoundValue

_WHO = "renyi"
ORDERS = tuple(1 + 2.0**k for k in np.arange(-6.0, 14.5, 0.5).tolist())
THEOREM = "Rényi divergence of the dominating pair; conversion [Canonne, Kamath, Steinke 2020, Prop. 12]"


@dataclass(frozen=True)
class RenyiCurve(Record):
    """Certified Rényi divergences by order, the larger of both directions, all rounds added up."""

    curve: PrivacyCurve

    def divergence(self, order: float) -> BoundValue:
        """D_order of the curve's rounds.

        Theorem: with F(x) = D_x(P‖Q) and its symmetric extension, E_Q[(P/Q)^α] − 1 is the integral over ε ≥ 0 of
        α(α−1)·(e^((α−1)ε) + e^(−αε))·F(e^ε); for the piecewise linear F with slopes jumping by q_j at ε_j it is
        Σ_j q_j·(1 − e^(−(α−1)ε_j))·(e^(αε_j) − 1). Divergences of rounds add up.
        Requires: order > 1.
        Returns: an upper value from the chords and, for ``slack``, a lower value from functions below the curve;
        infinity where the loss is infinite with positive probability. Where an order is so high that values of δ
        below 1e-280 matter, floats end and the upper value is loose, as ``slack`` says.
        """
        alpha = argument.real(_WHO, "order", order, up=True)
        if not 1.0 < alpha < math.inf:
            raise ValueError(f"{_WHO}: order must be above 1 and finite, got {alpha!r}.")
        upper = lower = 0.0
        for moments, times in self._moments:
            above, below = moments.divergence(alpha)
            upper += times * above
            lower += times * below
        upper, lower = upper * (1 + ROUNDING), lower * (1 - ROUNDING)
        return self._value(upper, upper - lower if math.isfinite(upper) else math.inf)

    def epsilon(self, delta: float) -> BoundValue:
        """The smallest ε that the divergences at ORDERS prove for this δ; larger than ``curve.epsilon(delta)``.

        Theorem: [Canonne, Kamath, Steinke 2020] Proposition 12: D_α + log((α−1)/α) − (log δ + log α)/(α−1).
        Requires: 0 < δ < 1.
        Returns: a certified upper bound; ``slack`` is of the divergence at the order used.
        """
        delta = argument.open_probability(_WHO, "delta", delta)
        best = self._value(math.inf, math.inf)
        for order in ORDERS:
            offset = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            if offset > best.upper:
                continue
            found = self.divergence(order)
            # Divergences grow with the order.
            if found.upper - found.slack > best.upper:
                break
            upper = max(0.0, found.upper + offset + ROUNDING * (found.upper + abs(offset)))
            if upper < best.upper:
                best = self._value(upper, min(found.slack, upper))
        return replace(best, delta=delta)

    @cached_property
    def _moments(self) -> tuple[tuple[LossMoments, int], ...]:
        return tuple((LossMoments(curve), times) for curve, times in self.curve.rounds())

    def _value(self, upper: float, slack: float) -> BoundValue:
        curve = self.curve
        theorem = f"{THEOREM}; {curve.theorem}"
        return BoundValue(
            upper, slack, curve.bound, theorem, curve.certified, curve.guarantee, curve.note, curve.source.origin
        )


def renyi(curve: PrivacyCurve) -> RenyiCurve:
    """The Rényi divergences of a curve, by order, and what they prove.

    ``curve`` is one of ``amplify``, ``subsample`` or ``compose``; rounds add up.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> sdp.renyi(curve).divergence(order=2.0).upper < 0.00037
    True
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"{_WHO}: expected a privacy curve as amplify gives it, got {curve!r}.")
    return RenyiCurve(curve)
