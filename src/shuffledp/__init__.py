"""shuffledp: the shuffle model of differential privacy, from certified numbers to running collections.

Every mechanism of the catalogue is here under its own name: ``shuffledp.KRR``, ``shuffledp.OUE``, …
"""

from typing import TYPE_CHECKING, Any

from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.compare import compare
from shuffledp.bounds.risk_target import RiskTarget, calibrate_local, calibrate_users
from shuffledp.composition.calibrate import Calibration, calibrate
from shuffledp.composition.gaussian_limit import gaussian_limit
from shuffledp.composition.renyi import renyi
from shuffledp.composition.sequential import compose
from shuffledp.composition.subsampling import poisson, subsample
from shuffledp.compression.compressed import Compressed
from shuffledp.errors import NotApplicable, NumericalError, ShuffledpError
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.mechanisms.mechanism import Estimate, Mechanism
from shuffledp.mechanisms.sent_point import SentPoint
from shuffledp.metric.amplified import AmplifiedMetric, MechanismMetric
from shuffledp.metric.solver import LocalMetricSolver
from shuffledp.privacy.attack_risk import AttackRisk
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.guaranteed import trade_off
from shuffledp.privacy.metric import Box, DistanceMatrix, Interval
from shuffledp.privacy.trade_off import PiecewiseTradeOff, TradeOff
from shuffledp.privacy.trade_off_curve import privacy_curve
from shuffledp.privacy.variation_ratio import VariationRatio

__version__ = "0.1.0"

_CATALOGUE = {kind.__name__: kind for kind in all_mechanisms().values()}
globals().update(_CATALOGUE)

__all__ = [
    "AmplifiedMetric",
    "AttackRisk",
    "BoundValue",
    "Box",
    "Calibration",
    "Compressed",
    "DistanceMatrix",
    "Estimate",
    "Interval",
    "LocalMetricSolver",
    "Mechanism",
    "MechanismMetric",
    "NotApplicable",
    "NumericalError",
    "PiecewiseTradeOff",
    "PrivacyCurve",
    "RiskTarget",
    "SentPoint",
    "ShuffledpError",
    "TradeOff",
    "VariationRatio",
    "amplify",
    "calibrate",
    "calibrate_local",
    "calibrate_users",
    "compare",
    "compose",
    "gaussian_limit",
    "poisson",
    "privacy_curve",
    "renyi",
    "subsample",
    "trade_off",
    *_CATALOGUE,
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
