"""F-divergences of a pair of laws, read off its trade-off curve."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.tradeoff.trade_off import TradeOff


def f_divergence(curve: TradeOff, function: Callable[[Floats], Floats], at_zero: float, growth: float) -> float:
    """D_F(P‖Q) = E_Q F(p/q) of a curve T(P, Q); of a curve that is a guarantee, an upper bound.

    ``function`` is F, for arrays of ratios above 0.

    Theorem: [FDP] Lemma B.4: ∫ F(1/|f'|)·|f'| dx + F(0)·(1 − f(0)) + τ_F·(1 − z_f).
    Requires: F convex; ``at_zero`` = lim F(s) at 0, ``growth`` = τ_F = lim F(s)/s at infinity.
    Returns: the value for the curve's knots, in floats.
    Deviates: print defines F(0) as lim F(s)/s, which is infinite for the total variation (docs/errata.md, FD-13).

    >>> import numpy as np
    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.f_divergence(coins, lambda s: (np.sqrt(s) - 1) ** 2, at_zero=1.0, growth=1.0):.4f}")
    0.2679
    """
    known = curve.knots()
    null, alternative = known.null, known.alternative
    both = (null > 0) & (alternative > 0)
    total = float(np.dot(alternative[both], function(null[both] / alternative[both])))
    # An infinite limit costs nothing where no mass meets it.
    for limit, mass in ((at_zero, alternative[null == 0].sum()), (growth, null[alternative == 0].sum())):
        total += limit * float(mass) if mass > 0 else 0.0
    return total


def total_variation(curve: TradeOff) -> float:
    """Half of ∫|p − q|: the advantage of the best test.

    ``curve`` is T(P, Q), taken by its knots, in floats; where these lie below the true curve, an upper bound.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.total_variation(coins):.4f}")
    0.5000
    """
    return f_divergence(curve, lambda s: np.abs(s - 1) / 2, 0.5, 0.5)


def kullback_leibler(curve: TradeOff) -> float:
    """KL(P‖Q) = ∫ p·log(p/q).

    ``curve`` is T(P, Q), taken by its knots, in floats; where these lie below the true curve, an upper bound.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.kullback_leibler(coins):.4f}")
    0.5493
    """
    # s·log s − s + 1 is never negative, so that no digits cancel; the added terms integrate to 0.
    return f_divergence(curve, lambda s: s * np.log(s) - s + 1, 1.0, math.inf)


def chi_square(curve: TradeOff) -> float:
    """χ²(P‖Q) = ∫ (p − q)²/q.

    ``curve`` is T(P, Q), taken by its knots, in floats; where these lie below the true curve, an upper bound.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.chi_square(coins):.4f}")
    1.3333
    """
    return f_divergence(curve, lambda s: (s - 1) ** 2, 1.0, math.inf)


def power(curve: TradeOff, order: float) -> float:
    """E_Q (p/q)^order, for an order above 1: the exponential of (order − 1) times the Rényi divergence.

    ``curve`` is T(P, Q), taken by its knots, in floats; where these lie below the true curve, an upper bound.

    Theorem: [FDP] Corollary B.6.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.power(coins, order=2):.4f}")
    2.3333
    """
    order = argument.real("power", "order", order, up=True)
    if not 1 < order < math.inf:
        raise ValueError(f"power: order must be above 1 and finite, got {order!r}.")
    return f_divergence(curve, lambda s: s**order, 0.0, math.inf)


def renyi(curve: TradeOff, order: float) -> float:
    """The Rényi divergence of P from Q of an order above 1.

    ``curve`` is T(P, Q), taken by its knots, in floats; where these lie below the true curve, an upper bound.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.renyi(coins, order=2):.4f}")
    0.8473
    """
    order = argument.real("renyi", "order", order, up=True)
    with argument.said_by("renyi", "power"):
        return math.log(power(curve, order)) / (order - 1)


def hockey_stick(curve: TradeOff, ratio: float) -> float:
    """D_ratio(P‖Q) = ∫ (p − ratio·q)_+ for a ratio of at least 0.

    ``curve`` is T(P, Q), taken by its knots, in floats; where these lie below the true curve, an upper bound.
    With ratio = e^ε it is δ(ε) of this direction, ``curve.inverse().delta(ε)``.

    >>> import shuffledp as sdp
    >>> coins = sdp.tradeoff.PiecewiseTradeOff.of_laws({"heads": 0.75, "tails": 0.25}, {"heads": 0.25, "tails": 0.75})
    >>> print(f"{sdp.tradeoff.hockey_stick(coins, ratio=2.0):.4f}")
    0.2500
    """
    ratio = argument.non_negative("hockey_stick", "ratio", ratio)
    return f_divergence(curve, lambda s: np.maximum(0.0, s - ratio), 0.0, 1.0)


def length(curve: TradeOff) -> float:
    """The length of the curve's graph, a vertical start included: an F-divergence, between √2 and 2.

    Theorem: [FDP] Proposition B.7: F(y) = √(1 + y²).
    Deviates: print leaves out the vertical piece from (0, 1) to (0, f(0)), which F(0)·(1 − f(0)) counts.
    """
    return f_divergence(curve, lambda s: np.sqrt(1 + s * s), 1.0, 1.0)
