"""What a trusted curator would reach: the central model's error, against which plans are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffledp.calibration.target import Target
from shuffledp.numerics.root import find_crossing
from shuffledp.tasks.task import Sensitivity
from shuffledp.tradeoff.gaussian_trade_off import gaussian_delta

LEAST_DISTANCE, MOST_DISTANCE = 1e-9, 1e3


@dataclass(frozen=True)
class Yardstick:
    """The standard error of each component if a curator added noise to the exact result, and which noise."""

    standard_error: float
    noise: str


def yardstick(sensitivity: Sensitivity, target: Target, rounds: int) -> Yardstick:
    """Laplace or Gaussian noise, whichever is less, for the same target over all rounds.

    Theorem: Laplace mechanism, scale Δ₁·rounds/ε; Gaussian mechanism, the least σ whose exact privacy curve meets the
    target, where rounds add up to a distance √rounds·Δ₂/σ.
    Returns: floats, for comparison only.
    """
    laplace = math.sqrt(2.0) * sensitivity.sum * rounds / target.epsilon
    gaussian = sensitivity.root * math.sqrt(rounds) / _distance(target)
    return Yardstick(laplace, "Laplace") if laplace <= gaussian else Yardstick(gaussian, "Gaussian")


def _distance(target: Target) -> float:
    """The largest μ for which two unit normals μ apart are within the target."""

    def excess(log_distance: float) -> float:
        delta = float(gaussian_delta(np.array(math.exp(log_distance)), target.epsilon))
        return math.log(delta / target.delta) if delta > 0 else -math.inf

    found = find_crossing(excess, math.log(LEAST_DISTANCE), math.log(MOST_DISTANCE), absolute=1e-12)
    return math.exp(found.below)
