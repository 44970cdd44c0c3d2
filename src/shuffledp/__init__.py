"""shuffledp: the shuffle model of differential privacy, from certified numbers to running collections.

Every mechanism of the catalogue is here under its own name: ``shuffledp.KRR``, ``shuffledp.OUE``, …
"""

from typing import TYPE_CHECKING, Any

from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.compare import compare
from shuffledp.calibration.calibrate import Calibration, calibrate
from shuffledp.calibration.risk_target import RiskTarget
from shuffledp.calibration.target import Target
from shuffledp.composition.gaussian_limit import gaussian_limit
from shuffledp.composition.renyi import renyi
from shuffledp.composition.sequential import compose
from shuffledp.composition.subsampling import poisson, subsample
from shuffledp.errors import NotApplicable, NumericalError, ShuffledpError
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.given.sent_point import SentPoint
from shuffledp.mechanisms.mechanism import Estimate, Mechanism
from shuffledp.metric.amplified import AmplifiedMetric, MechanismMetric
from shuffledp.metric.solver import LocalMetricSolver
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.space import Box, DistanceMatrix, Segment
from shuffledp.privacy.value import BoundValue
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.tradeoff.guaranteed import trade_off
from shuffledp.tradeoff.risk import AttackRisk
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff, TradeOff
from shuffledp.tradeoff.trade_off_curve import privacy_curve
from shuffledp.version import __version__ as __version__

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
    "Segment",
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
    "Target",
    "TradeOff",
    "VariationRatio",
    "amplify",
    "calibrate",
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
