"""Rényi, hockey-stick and f-divergences of trade-off functions and privacy curves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import NumericalError
from shuffledp._core.validation import Floats
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.privacy_loss import ROUNDING, LossMoments
from shuffledp.privacy.tradeoff import PiecewiseTradeOff, TradeOff, TradeOffCurve

RENYI, KL, CHI_SQUARE, POWER, TOTAL_VARIATION, HOCKEY_STICK = (
    "renyi", "kl", "chi-square", "power", "total-variation", "hockey-stick",
)  # fmt: skip
DIVERGENCE_KINDS = (RENYI, KL, CHI_SQUARE, POWER, TOTAL_VARIATION, HOCKEY_STICK)
ORDER_RANGES = {RENYI: "above 1", POWER: "above 1", HOCKEY_STICK: "at least 0"}
KL_ORDER = 1 + 1e-6
"""Rényi divergences grow with the order and equal KL at 1; at this order they exceed it by a millionth of the loss."""
MAX_LOG = 709.0


def divergence(curve: TradeOff | PrivacyCurve, kind: str, order: float | None = None) -> float:
    """Returns a divergence of P from Q for a trade-off curve T(P, Q), or for every pair that a privacy curve bounds.

    For a privacy curve both directions count. The divergence is infinite where P has mass that Q does not have, as
    under (ε, δ)-DP with δ > 0.

    Theorem: [FDP] Lemma B.4 and Corollary B.6, each curve by its own route: closed forms (Gaussian), sums over the
    segments (polygons), integrals of hockey-stick divergences (others), the dominating pair (privacy curves).
    Requires: laws, a formula, or lines below the curve: nothing follows from a curve known only at points, which
    is refused.

    Args:
        curve: Trade-off curve or privacy curve.
        kind: "renyi"; "power", E_Q (p/q)^order; "kl"; "chi-square"; "total-variation"; or "hockey-stick",
            ∫ (p − order·q)_+.
        order: Order of "renyi" and "power", above 1, or of "hockey-stick", at least 0; None for the others.

    Returns:
        The value in floats; an upper bound of it where the curve itself is a lower curve, or a privacy curve.

    Raises:
        TypeError: If ``curve`` is neither a trade-off curve nor a privacy curve.
        ValueError: If ``kind`` is unknown, or if ``order`` is missing, superfluous or out of range.
        NotApplicable: If the curve is known only at points.
        NumericalError: If the value is beyond the range of floats.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.from_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.divergence(coins, 'kl'):.4f} {sdp.divergence(coins, 'renyi', order=2):.4f}")
    0.5493 0.8473
    >>> sdp.divergence(sdp.tradeoff.GaussianTradeOff(3.0), "renyi", order=16)
    72.0
    """
    order = _order(kind, order)
    if isinstance(curve, TradeOff):
        if kind in (TOTAL_VARIATION, HOCKEY_STICK):
            return _hockey_stick(curve, order)
        return _from_renyi(kind, order, curve.renyi)
    if not isinstance(curve, PrivacyCurve):
        raise TypeError(f"divergence: expected a trade-off curve or a privacy curve, got {curve!r}.")
    if kind in (TOTAL_VARIATION, HOCKEY_STICK):
        if order >= 1:
            return curve.delta(math.log(order)).upper
        return 1.0 - order + order * curve.delta(-math.log(order)).upper if order > 0 else 1.0
    return _from_renyi(kind, order, lambda order: _renyi_of_rounds(curve, order))


def _order(kind: str, order: float | None) -> float:
    """Returns the order of a kind, after checking the argument."""
    if kind not in DIVERGENCE_KINDS:
        raise ValueError(f"divergence: kind must be one of {', '.join(DIVERGENCE_KINDS)}, got {kind!r}.")
    if kind not in ORDER_RANGES:
        if order is not None:
            raise ValueError(f"divergence: {kind} has no order, got {order!r}.")
        return {KL: 1.0, CHI_SQUARE: 2.0, TOTAL_VARIATION: 1.0}[kind]
    if order is None:
        raise ValueError(f"divergence: {kind} needs an order {ORDER_RANGES[kind]}.")
    found = validation.real("divergence", "order", order, up=kind != HOCKEY_STICK)
    if not (found >= 0 if kind == HOCKEY_STICK else found > 1) or math.isinf(found):
        raise ValueError(f"divergence: order of {kind} must be {ORDER_RANGES[kind]} and finite, got {found!r}.")
    return found


def _hockey_stick(curve: TradeOff, ratio: float) -> float:
    if isinstance(curve, PiecewiseTradeOff):
        curve.require_exact()
    return curve.inverse().delta(math.log(ratio)) if ratio > 0 else 1.0


def _from_renyi(kind: str, order: float, at: Callable[[float], float]) -> float:
    found = at(order)
    if kind in (RENYI, KL) or math.isinf(found):
        return found
    log_power = (order - 1) * found
    if log_power > MAX_LOG:
        raise NumericalError(
            f"divergence: {kind} is about e^{log_power:.6g}, more than a float holds; ask for kind='renyi'."
        )
    return math.expm1(log_power) if kind == CHI_SQUARE else math.exp(log_power)


def _renyi_of_rounds(curve: PrivacyCurve, order: float) -> float:
    """Returns the sum of the Rényi divergences of all rounds of a privacy curve."""
    return math.fsum(times * _renyi_of_round(part, order) for part, times in curve.rounds()) * (1 + ROUNDING)


def _renyi_of_round(curve: PrivacyCurve, order: float) -> float:
    if isinstance(curve, TradeOffCurve):
        return max(curve.trade_off.renyi(order), curve.trade_off.inverse().renyi(order))
    return LossMoments(curve).divergence(max(order, KL_ORDER))[0]


def f_divergence(
    curve: PiecewiseTradeOff, function: Callable[[Floats], Floats], at_zero: float, growth: float
) -> float:
    """Returns D_F(P‖Q) = E_Q F(p/q) of a polygon T(P, Q) for a given F; for a lower curve, an upper bound.

    Theorem: [FDP] Lemma B.4: ∫ F(1/|f'|)·|f'| dx + F(0)·(1 − f(0)) + τ_F·(1 − z_f).
    Requires: F convex; ``at_zero`` = lim F(s) at 0, ``growth`` = τ_F = lim F(s)/s at infinity; the polygon is the
    curve, not points of it.
    Deviates: print defines F(0) as lim F(s)/s, which is infinite for the total variation (docs/errata.md, FD-13).

    Args:
        curve: The polygon.
        function: F, applied to arrays of ratios above 0.
        at_zero: Limit of F(s) at 0.
        growth: Limit of F(s)/s at infinity.

    Returns:
        The value in floats.

    Raises:
        TypeError: If ``curve`` is not a polygon.
        NotApplicable: If the polygon goes through points of the actual curve.

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.from_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.f_divergence(coins, lambda s: (np.sqrt(s) - 1) ** 2, at_zero=1.0, growth=1.0):.4f}")
    0.2679
    """
    if not isinstance(curve, PiecewiseTradeOff):
        raise TypeError(f"f_divergence: expected a polygon, such as PiecewiseTradeOff.from_laws(p, q), got {curve!r}.")
    curve.require_exact()
    null, alternative = curve.null, curve.alternative
    both = (null > 0) & (alternative > 0)
    total = float(np.dot(alternative[both], function(null[both] / alternative[both])))
    # An infinite limit does not matter where it has no mass.
    for limit, mass in ((at_zero, alternative[null == 0].sum()), (growth, null[alternative == 0].sum())):
        total += limit * float(mass) if mass > 0 else 0.0
    return total


def curve_length(curve: PiecewiseTradeOff) -> float:
    """Returns the length of the curve's graph, a vertical start included: an F-divergence, between √2 and 2.

    Theorem: [FDP] Proposition B.7: F(y) = √(1 + y²).
    Deviates: print leaves out the vertical piece from (0, 1) to (0, f(0)), which F(0)·(1 − f(0)) counts.
    """
    return f_divergence(curve, lambda s: np.sqrt(1 + s * s), 1.0, 1.0)
