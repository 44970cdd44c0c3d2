"""Moments of the privacy loss of one curve: Rényi divergences of its dominating pair, from above and from below."""

from __future__ import annotations

import math

import numpy as np

from shuffledp.array import Floats
from shuffledp.numerics.hull import Kinked
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.loss import LossGrid, LossSurvey, round_step

ACCURACY = 1e-4
UNIMPORTANT = 1e-5
SURVEYED = 1e-12
REACH = 4.0
"""Standard deviations of the loss, beyond where the moment shifts it, in which every grid point is used."""
ROUNDING = 1e-11
"""More than the relative rounding of a sum of some thousand positive terms and of its logarithm."""


class LossMoments:
    """E_Q[(P/Q)^α] of one round, as Rényi divergences."""

    def __init__(self, curve: PrivacyCurve) -> None:
        self.survey = LossSurvey(curve, SURVEYED)
        self.grid = LossGrid(curve, round_step(math.sqrt(6 * ACCURACY * self.survey.variance)), self.survey.floor)

    def divergence(self, order: float) -> tuple[float, float]:
        """(upper, lower)."""
        if self.survey.floor > 0:
            return math.inf, 0.0
        variance = self.survey.variance
        fine = (order - 1) * variance + REACH * math.sqrt(variance)

        def negligible(epsilon: Floats) -> Floats:
            """What a chord may be off by: its share of the moment is at most about UNIMPORTANT."""
            return np.asarray(UNIMPORTANT * variance * np.exp(-np.minimum((order - 1) * epsilon, 700.0)) / epsilon)

        # A relative error of the moment is divided by α − 1 in the divergence, which is about α·variance/2.
        rough = min(1.0, max(0.01, 1e-3 * (order - 1) * min(1.0, order * variance / 2)))
        above, below = self.grid.pairs(fine, 0.0, negligible, rough=rough)
        if above.rest > 0:
            return math.inf, _divergence(below, order) * (1 - ROUNDING)
        return _divergence(above, order) * (1 + ROUNDING), _divergence(below, order) * (1 - ROUNDING)


def _divergence(function: Kinked, order: float) -> float:
    """The Rényi divergence of the pair of a piecewise linear function that vanishes at infinity."""
    kinks = function.kinks
    # The mass at −ε_j is the jump at ε_j.
    used = (kinks.indices < 0) & (kinks.masses > 0)
    jumps, losses = kinks.masses[used], -kinks.places[used]
    if not len(jumps):
        return 0.0
    logs = (
        np.log(jumps) + np.log(-np.expm1(-(order - 1) * losses)) + order * losses + np.log1p(-np.exp(-order * losses))
    )
    top = float(logs.max())
    log_excess = top + math.log(float(np.sum(np.exp(logs - top))))
    return float(np.logaddexp(0.0, log_excess)) / (order - 1)
