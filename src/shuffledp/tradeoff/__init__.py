"""f-DP: trade-off functions of false positives against false negatives, and what an attacker can do."""

from shuffledp.tradeoff.divergence import divergence as divergence, f_divergence as f_divergence
from shuffledp.tradeoff.gaussian_trade_off import GaussianTradeOff as GaussianTradeOff
from shuffledp.tradeoff.guaranteed import GuaranteedTradeOff as GuaranteedTradeOff, trade_off as trade_off
from shuffledp.tradeoff.mixture import (
    advanced as advanced,
    averaged as averaged,
    exchanged as exchanged,
    exchanged_bound as exchanged_bound,
    highest as highest,
    mixed as mixed,
    mixed_unequally as mixed_unequally,
    subsampled as subsampled,
)
from shuffledp.tradeoff.noisy_step import (
    Gradient as Gradient,
    LeastSquares as LeastSquares,
    Logistic as Logistic,
    NoisyStep as NoisyStep,
    OwnGradient as OwnGradient,
)
from shuffledp.tradeoff.risk import AttackRisk as AttackRisk, Risk as Risk
from shuffledp.tradeoff.shuffled import shuffled_trade_off as shuffled_trade_off
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff as PiecewiseTradeOff, TradeOff as TradeOff, lowest as lowest
from shuffledp.tradeoff.trade_off_curve import TradeOffCurve as TradeOffCurve, privacy_curve as privacy_curve
