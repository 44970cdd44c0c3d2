"""Rényi divergences of a curve's dominating pair, for users whose accounting is in Rényi differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.composition.sequential import REACH, SURVEYED
from shuffledp.numerics.hull import Kinked
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.loss import LossGrid, Survey, round_step
from shuffledp.privacy.record import Record
from shuffledp.privacy.value import BoundValue

_WHO = "renyi"
ACCURACY = 1e-4
UNIMPORTANT = 1e-5
ROUNDING = 1e-11
"""More than the relative rounding of a sum of some thousand positive terms and of its logarithm."""
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
    def _moments(self) -> tuple[tuple[_Moments, int], ...]:
        return tuple((_Moments(curve), times) for curve, times in self.curve.rounds())

    def _value(self, upper: float, slack: float) -> BoundValue:
        curve = self.curve
        theorem = f"{THEOREM}; {curve.theorem}"
        return BoundValue(
            upper, slack, curve.bound, theorem, curve.certified, curve.guarantee, curve.note, curve.source.origin
        )


class _Moments:
    """E_Q[(P/Q)^α] of one round."""

    def __init__(self, curve: PrivacyCurve) -> None:
        self.survey = Survey(curve, SURVEYED)
        self.grid = LossGrid(curve, round_step(math.sqrt(6 * ACCURACY * self.survey.variance)), self.survey.floor)

    def divergence(self, order: float) -> tuple[float, float]:
        """(upper, lower)."""
        if self.survey.floor > 0:
            return math.inf, 0.0
        variance = self.survey.variance
        fine = (order - 1) * variance + REACH * math.sqrt(variance)

        def negligible(epsilon: Floats) -> Floats:
            """What a chord may be off by: its share of the moment is at most about UNIMPORTANT."""
            return np.asarray(UNIMPORTANT * variance * np.exp(-np.minimum((order - 1) * epsilon, 700.0)) / epsilon)

        # A relative error of the moment is divided by α − 1 in the divergence, which is about α·variance/2.
        rough = min(1.0, max(0.01, 1e-3 * (order - 1) * min(1.0, order * variance / 2)))
        above, below = self.grid.pairs(fine, 0.0, negligible, rough=rough)
        if above.rest > 0:
            return math.inf, _divergence(below, order) * (1 - ROUNDING)
        return _divergence(above, order) * (1 + ROUNDING), _divergence(below, order) * (1 - ROUNDING)


def _divergence(function: Kinked, order: float) -> float:
    """The Rényi divergence of the pair of a piecewise linear function that vanishes at infinity."""
    kinks = function.kinks
    # The mass at −ε_j is the jump at ε_j.
    used = (kinks.indices < 0) & (kinks.masses > 0)
    jumps, losses = kinks.masses[used], -kinks.places[used]
    if not len(jumps):
        return 0.0
    logs = (
        np.log(jumps) + np.log(-np.expm1(-(order - 1) * losses)) + order * losses + np.log1p(-np.exp(-order * losses))
    )
    top = float(logs.max())
    log_excess = top + math.log(float(np.sum(np.exp(logs - top))))
    return float(np.logaddexp(0.0, log_excess)) / (order - 1)


def renyi(curve: PrivacyCurve) -> RenyiCurve:
    """The Rényi divergences of a curve, by order, and what they prove.

    ``curve`` is one of ``amplify``, ``subsample`` or ``compose``; rounds add up.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> sdp.renyi(curve).divergence(order=2.0).upper < 0.00037
    True
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"{_WHO}: expected a privacy curve as amplify gives it, got {curve!r}.")
    return RenyiCurve(curve)
