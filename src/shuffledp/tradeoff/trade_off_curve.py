"""A trade-off curve as a privacy curve δ(ε), so that it can be composed, compared and calibrated like any other."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shuffledp import argument
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.value import BoundValue
from shuffledp.tradeoff.trade_off import TradeOff

NAME = "trade-off"
RELATIVE = 1e-12


@dataclass(frozen=True)
class TradeOffCurve(PrivacyCurve):
    """δ(ε) = 1 + f*(−e^ε), the larger of both directions.

    ``trade_off`` is the curve f; ``privacy_curve(f)`` makes one of these.

    Theorem: [FDP] Lemma A.3.
    Returns: values as sure as the trade-off curve's own: certified only where that is.

    >>> import shuffledp as sdp
    >>> curve = sdp.privacy_curve(sdp.tradeoff.GaussianTradeOff(1.0))
    >>> isinstance(curve, sdp.tradeoff.TradeOffCurve), curve.certified
    (True, False)
    >>> print(f"{curve.delta(1.0).upper:.4f}")
    0.1269
    """

    trade_off: TradeOff

    @property
    def certified(self) -> bool:
        return self.trade_off.certified

    def _delta(self, epsilon: float) -> BoundValue:
        return self._value(self.trade_off.divergence(epsilon), 0.0)

    def _epsilon(self, delta: float) -> BoundValue:
        def excess(epsilon: float) -> float:
            value = self.trade_off.divergence(epsilon)
            # In logs, as δ falls by many powers of ten.
            return math.log(delta / value) if value > 0 else math.inf

        if self.trade_off.divergence(0.0) <= delta:
            return self._value(0.0, 0.0)
        if self.trade_off.divergence(LARGEST_EPSILON) > delta:
            return self._value(math.inf, 0.0)
        found = find_crossing(excess, 0.0, LARGEST_EPSILON, guess=1.0, relative=RELATIVE)
        upper = found.below if excess(found.below) == 0.0 else found.above
        return self._value(upper, upper - found.below)


def privacy_curve(trade_off: TradeOff, users: int = 1) -> TradeOffCurve:
    """The privacy curve of a trade-off curve, so that it composes and compares; ``users`` is only carried along.

    >>> import shuffledp as sdp
    >>> from shuffledp.tradeoff.gaussian_trade_off import GaussianTradeOff
    >>> sdp.privacy_curve(GaussianTradeOff(1.0)).epsilon(delta=1e-5).upper < 4.378
    True
    """
    count = argument.count("privacy_curve", "users", users)
    return TradeOffCurve(Source(NAME, trade_off.theorem, count, trade_off.guarantee), trade_off)
