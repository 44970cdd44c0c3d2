"""shuffledp: the shuffle model of differential privacy, from certified numbers to running collections."""

from shuffledp.bounds.amplify import amplify
from shuffledp.errors import NotApplicable, NumericalError, ShuffledpError
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.variation_ratio import VariationRatio

__version__ = "0.1.0"

__all__ = [
    "BoundValue",
    "NotApplicable",
    "NumericalError",
    "PrivacyCurve",
    "ShuffledpError",
    "VariationRatio",
    "amplify",
]
