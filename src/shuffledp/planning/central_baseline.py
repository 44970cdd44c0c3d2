"""The error that a trusted curator, who sees the raw data, would have under the same guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffledp.calibration.targets import Target
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.tradeoff import gaussian_delta
from shuffledp.tasks.base import Sensitivity

MIN_GAUSSIAN_DISTANCE, MAX_GAUSSIAN_DISTANCE = 1e-9, 1e3
"""Range of the search for the distance between two unit normals."""


@dataclass(frozen=True)
class CentralBaseline:
    """The standard error of each component if a trusted curator adds noise to the exact result."""

    standard_error: float
    noise: str
    """The kind of noise."""


def compute_central_baseline(sensitivity: Sensitivity, target: Target, rounds: int) -> CentralBaseline:
    """Returns the error of Laplace or Gaussian noise, whichever is smaller, for the same target over all rounds.

    Theorem: Laplace mechanism, scale Δ₁·rounds/ε; Gaussian mechanism, the smallest σ whose exact privacy curve meets
        the target, where rounds add up to a distance √rounds·Δ₂/σ.
    Returns: floats, for comparison only.
    """
    laplace = math.sqrt(2.0) * sensitivity.l1 * rounds / target.epsilon
    gaussian = sensitivity.l2 * math.sqrt(rounds) / _gaussian_distance(target)
    return CentralBaseline(laplace, "Laplace") if laplace <= gaussian else CentralBaseline(gaussian, "Gaussian")


def _gaussian_distance(target: Target) -> float:
    """Returns the largest μ for which two unit normals μ apart are within the target."""

    def excess(log_distance: float) -> float:
        delta = float(gaussian_delta(np.array(math.exp(log_distance)), target.epsilon))
        return math.log(delta / target.delta) if delta > 0 else -math.inf

    found = find_crossing(excess, math.log(MIN_GAUSSIAN_DISTANCE), math.log(MAX_GAUSSIAN_DISTANCE), absolute=1e-12)
    return math.exp(found.below)
