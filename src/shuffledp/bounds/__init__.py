"""Amplification bounds: one family of theorems per file, and the one list of those that a guarantee may rest on."""

from shuffledp.bounds.all_crowds import AllCrowdsBound
from shuffledp.bounds.blanket import (
    BlanketBennettBound,
    BlanketHoeffdingBound,
    GenericBennettBound,
    GenericHoeffdingBound,
    OptimalBound,
)
from shuffledp.bounds.bound import Bound
from shuffledp.bounds.clone import (
    CloneAnalyticBound,
    CloneBound,
    Efmrtt19Bound,
    StrongerCloneAnalyticBound,
    StrongerCloneBound,
)
from shuffledp.bounds.clone_mixture import MixtureBound
from shuffledp.bounds.closed_form import AnalyticBound, AsymptoticBound, PublishedAnalyticBound
from shuffledp.bounds.composed_parts import ComposedPartsBound
from shuffledp.bounds.exact_binary import ExactBinaryBound
from shuffledp.bounds.noisy_crowd import NoisyCrowdBound
from shuffledp.bounds.own_noise import OwnNoiseBound
from shuffledp.bounds.protocol import ProtocolPublishedBound
from shuffledp.bounds.reduction import PublishedVariationRatioBound, VariationRatioBound

BOUNDS: tuple[Bound, ...] = (
    AllCrowdsBound(),
    AnalyticBound(),
    PublishedAnalyticBound(),
    AsymptoticBound(),
    BlanketBennettBound(),
    GenericBennettBound(),
    BlanketHoeffdingBound(),
    GenericHoeffdingBound(),
    CloneBound(),
    CloneAnalyticBound(),
    ComposedPartsBound(),
    Efmrtt19Bound(),
    ExactBinaryBound(),
    MixtureBound(),
    NoisyCrowdBound(),
    OptimalBound(),
    OwnNoiseBound(),
    ProtocolPublishedBound(),
    StrongerCloneBound(),
    StrongerCloneAnalyticBound(),
    VariationRatioBound(),
    PublishedVariationRatioBound(),
)
"""Every bound of the package, by name in alphabetical order; of equal ones ``best`` names the first."""

BOUND_OF: dict[str, Bound] = {bound.name: bound for bound in BOUNDS}
"""The same by name."""

__all__ = ["BOUNDS", "BOUND_OF", "Bound"]
