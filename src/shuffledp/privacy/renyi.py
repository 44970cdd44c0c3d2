"""Rényi differential privacy of shuffled messages, and the ε at a δ that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.privacy_loss import ROUNDING, LossMoments

_RENYI = "renyi"
ORDERS = tuple(1 + 2.0**k for k in np.arange(-6.0, 14.5, 0.5).tolist())
THEOREM = "Rényi divergence of the dominating pair; conversion [Canonne, Kamath, Steinke 2020, Prop. 12]"


@dataclass(frozen=True)
class RenyiCurve(ValueObject):
    """Certified Rényi divergences by order: the larger of both directions, summed over all rounds."""

    curve: PrivacyCurve

    def divergence(self, order: float) -> BoundValue:
        """Returns the Rényi divergence of the curve's rounds at one order.

        Theorem: with F(x) = D_x(P‖Q) and its symmetric extension, E_Q[(P/Q)^α] − 1 is the integral over ε ≥ 0 of
        α(α−1)·(e^((α−1)ε) + e^(−αε))·F(e^ε); for the piecewise linear F with slopes jumping by q_j at ε_j it is
        Σ_j q_j·(1 − e^(−(α−1)ε_j))·(e^(αε_j) − 1). Divergences of rounds add up.
        Requires: order > 1.

        Args:
            order: Rényi order, above 1 and finite.

        Returns:
            An upper value from the chords and, for ``slack``, a lower value from functions below the curve; infinity
            where the loss is infinite with positive probability. Where the order is so high that values of δ below
            1e-280 matter, floats underflow and the upper value is loose, as ``slack`` says.

        Raises:
            ValueError: If ``order`` is not above 1 and finite.
        """
        alpha = validation.real(_RENYI, "order", order, up=True)
        if not 1.0 < alpha < math.inf:
            raise ValueError(f"{_RENYI}: order must be above 1 and finite, got {alpha!r}.")
        upper = lower = 0.0
        for moments, times in self._moments:
            above, below = moments.divergence(alpha)
            upper += times * above
            lower += times * below
        upper, lower = upper * (1 + ROUNDING), lower * (1 - ROUNDING)
        return self._value(upper, upper - lower if math.isfinite(upper) else math.inf)

    def epsilon(self, delta: float) -> BoundValue:
        """Returns the smallest ε that the divergences at ORDERS prove for this δ; larger than ``curve.epsilon(delta)``.

        Theorem: [Canonne, Kamath, Steinke 2020] Proposition 12: D_α + log((α−1)/α) − (log δ + log α)/(α−1).
        Requires: 0 < δ < 1.

        Args:
            delta: The δ of the guarantee.

        Returns:
            A certified upper bound; ``slack`` is of the divergence at the order used.

        Raises:
            ValueError: If ``delta`` is not between 0 and 1, both excluded.
        """
        delta = validation.open_probability(_RENYI, "delta", delta)
        best = self._value(math.inf, math.inf)
        for order in ORDERS:
            offset = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            if offset > best.upper:
                continue
            value = self.divergence(order)
            # Divergences grow with the order.
            if value.upper - value.slack > best.upper:
                break
            upper = max(0.0, value.upper + offset + ROUNDING * (value.upper + abs(offset)))
            if upper < best.upper:
                best = self._value(upper, min(value.slack, upper))
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
    """Returns the Rényi divergences of a curve by order, for accounting in Rényi differential privacy.

    Args:
        curve: Curve of ``amplify``, ``subsample`` or ``compose``; the divergences of rounds add up.

    Returns:
        An object with ``divergence(order)`` and the ``epsilon(delta)`` that the divergences prove.

    Raises:
        TypeError: If ``curve`` is not a privacy curve.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> sdp.renyi(curve).divergence(order=2.0).upper < 0.00037
    True
    """
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"{_RENYI}: expected a privacy curve as amplify returns it, got {curve!r}.")
    return RenyiCurve(curve)
