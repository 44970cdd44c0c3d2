"""f-DP: trade-off functions of false positives against false negatives, their mixtures, and bounds on attacks."""

from shuffledp.privacy.attack_risk import AttackRisk as AttackRisk, Risk as Risk
from shuffledp.privacy.divergences import divergence as divergence, f_divergence as f_divergence
from shuffledp.privacy.guaranteed_tradeoff import GuaranteedTradeOff as GuaranteedTradeOff, trade_off as trade_off
from shuffledp.privacy.random_initialization import (
    CustomGradient as CustomGradient,
    Gradient as Gradient,
    LeastSquares as LeastSquares,
    Logistic as Logistic,
    NoisyStep as NoisyStep,
)
from shuffledp.privacy.shuffled_tradeoff import shuffled_trade_off as shuffled_trade_off
from shuffledp.privacy.tradeoff import (
    GaussianTradeOff as GaussianTradeOff,
    PiecewiseTradeOff as PiecewiseTradeOff,
    TradeOff as TradeOff,
    TradeOffCurve as TradeOffCurve,
    lowest as lowest,
    privacy_curve as privacy_curve,
)
from shuffledp.privacy.tradeoff_mixtures import (
    advanced_joint_concavity as advanced_joint_concavity,
    averaged as averaged,
    exchanged as exchanged,
    exchanged_bound as exchanged_bound,
    highest as highest,
    mixed as mixed,
    mixed_unequally as mixed_unequally,
    subsampled as subsampled,
)
