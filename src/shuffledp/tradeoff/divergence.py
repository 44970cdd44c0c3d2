"""Divergences of a pair of laws, from its trade-off curve, or above all pairs of a privacy curve."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import NumericalError
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.loss_moment import ROUNDING, LossMoments
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff, TradeOff
from shuffledp.tradeoff.trade_off_curve import TradeOffCurve

RENYI, KL, CHI_SQUARE, POWER, TOTAL_VARIATION, HOCKEY_STICK = (
    "renyi", "kl", "chi-square", "power", "total-variation", "hockey-stick",
)  # fmt: skip
KINDS = (RENYI, KL, CHI_SQUARE, POWER, TOTAL_VARIATION, HOCKEY_STICK)
WITH_ORDER = {RENYI: "above 1", POWER: "above 1", HOCKEY_STICK: "at least 0"}
NEAR_ONE = 1 + 1e-6
"""Rényi divergences grow with the order, and at 1 they are KL: this one is above it, by a millionth of the loss."""
LARGEST_LOG = 709.0


def divergence(curve: TradeOff | PrivacyCurve, kind: str, order: float | None = None) -> float:
    """How far P is from Q, for a trade-off curve T(P, Q); of a privacy curve, both directions of every pair it bounds.

    ``kind`` is "renyi" or "power", E_Q (p/q)^order, of an ``order`` above 1; "kl"; "chi-square"; "total-variation";
    or "hockey-stick", ∫ (p − order·q)_+. It is infinite where P has mass that Q has not, as under (ε, δ)-DP with δ > 0.

    Theorem: [FDP] Lemma B.4 and Corollary B.6, each curve by its own route: closed forms (Gaussian), sums over the
    segments (polygons), integrals of hockey-stick divergences (others), the dominating pair (privacy curves).
    Requires: laws, a formula, or lines below the curve: of one that is known at points only nothing follows, and it is
    refused.
    Returns: the value in floats; an upper bound of it where the curve itself is a lower curve, or a privacy curve.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
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
    return _from_renyi(kind, order, lambda order: _of_rounds(curve, order))


def _order(kind: str, order: float | None) -> float:
    """The order that a kind has, or is given."""
    if kind not in KINDS:
        raise ValueError(f"divergence: kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    if kind not in WITH_ORDER:
        if order is not None:
            raise ValueError(f"divergence: {kind} has no order, got {order!r}.")
        return {KL: 1.0, CHI_SQUARE: 2.0, TOTAL_VARIATION: 1.0}[kind]
    if order is None:
        raise ValueError(f"divergence: {kind} needs an order {WITH_ORDER[kind]}.")
    found = argument.real("divergence", "order", order, up=kind != HOCKEY_STICK)
    if not (found >= 0 if kind == HOCKEY_STICK else found > 1) or math.isinf(found):
        raise ValueError(f"divergence: order of {kind} must be {WITH_ORDER[kind]} and finite, got {found!r}.")
    return found


def _hockey_stick(curve: TradeOff, ratio: float) -> float:
    if isinstance(curve, PiecewiseTradeOff):
        curve.demand_known()
    return curve.inverse().delta(math.log(ratio)) if ratio > 0 else 1.0


def _from_renyi(kind: str, order: float, at: Callable[[float], float]) -> float:
    found = at(order)
    if kind in (RENYI, KL) or math.isinf(found):
        return found
    log_power = (order - 1) * found
    if log_power > LARGEST_LOG:
        raise NumericalError(
            f"divergence: {kind} is about e^{log_power:.6g}, more than a float holds; ask for kind='renyi'."
        )
    return math.expm1(log_power) if kind == CHI_SQUARE else math.exp(log_power)


def _of_rounds(curve: PrivacyCurve, order: float) -> float:
    """The Rényi divergence of all rounds of a privacy curve: they add up."""
    return math.fsum(times * _of_round(part, order) for part, times in curve.rounds()) * (1 + ROUNDING)


def _of_round(curve: PrivacyCurve, order: float) -> float:
    if isinstance(curve, TradeOffCurve):
        return max(curve.trade_off.renyi(order), curve.trade_off.inverse().renyi(order))
    return LossMoments(curve).divergence(max(order, NEAR_ONE))[0]


def f_divergence(
    curve: PiecewiseTradeOff, function: Callable[[Floats], Floats], at_zero: float, growth: float
) -> float:
    """D_F(P‖Q) = E_Q F(p/q) of a polygon T(P, Q), for an F of one's own; of a lower curve, an upper bound.

    ``function`` is F, for arrays of ratios above 0.

    Theorem: [FDP] Lemma B.4: ∫ F(1/|f'|)·|f'| dx + F(0)·(1 − f(0)) + τ_F·(1 − z_f).
    Requires: F convex; ``at_zero`` = lim F(s) at 0, ``growth`` = τ_F = lim F(s)/s at infinity; the polygon is the
    curve, not points of it.
    Returns: the value in floats.
    Deviates: print defines F(0) as lim F(s)/s, which is infinite for the total variation (docs/errata.md, FD-13).

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.f_divergence(coins, lambda s: (np.sqrt(s) - 1) ** 2, at_zero=1.0, growth=1.0):.4f}")
    0.2679
    """
    if not isinstance(curve, PiecewiseTradeOff):
        raise TypeError(f"f_divergence: expected a polygon, such as PiecewiseTradeOff.of_laws(p, q), got {curve!r}.")
    curve.demand_known()
    null, alternative = curve.null, curve.alternative
    both = (null > 0) & (alternative > 0)
    total = float(np.dot(alternative[both], function(null[both] / alternative[both])))
    # An infinite limit costs nothing where no mass meets it.
    for limit, mass in ((at_zero, alternative[null == 0].sum()), (growth, null[alternative == 0].sum())):
        total += limit * float(mass) if mass > 0 else 0.0
    return total


def length(curve: PiecewiseTradeOff) -> float:
    """The length of the curve's graph, a vertical start included: an F-divergence, between √2 and 2.

    Theorem: [FDP] Proposition B.7: F(y) = √(1 + y²).
    Deviates: print leaves out the vertical piece from (0, 1) to (0, f(0)), which F(0)·(1 − f(0)) counts.
    """
    return f_divergence(curve, lambda s: np.sqrt(1 + s * s), 1.0, 1.0)
