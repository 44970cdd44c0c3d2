"""Messages that are nearly those of a known loss: δ(ε) + (1 + e^ε)·η, and no more than at a smaller ε."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from shuffledp._core.validation import Floats
from shuffledp.privacy.aggregate_noise import (
    MAX_SEARCH_EPSILON,
    AggregateNoiseCurve,
    AggregateNoiseLoss,
    ApproximateLoss,
    distance_delta,
    turning_point,
)


@dataclass(frozen=True)
class Falling(AggregateNoiseLoss):
    """δ = e^{−rate·ε}."""

    rate: float

    @property
    def theorem(self) -> str:
        return "made up"

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper = np.exp(-self.rate * epsilons)
        return upper, upper


def curve_of(loss: AggregateNoiseLoss) -> AggregateNoiseCurve:
    from shuffledp.privacy.curve import CurveSource

    return AggregateNoiseCurve(CurveSource("made-up", loss.theorem, 10, True, ""), loss)


@pytest.mark.parametrize(("rate", "distance"), [(3.0, 1e-14), (10.0, 1e-3), (0.5, 1e-9), (1.0, 0.3), (8.0, 1e-30)])
def test_the_sum_never_rises(rate: float, distance: float) -> None:
    """At every ε the least of the sum up to there, whatever cuts it off at 1; the search is not misled by that."""
    loss = ApproximateLoss(Falling(rate), distance, "something fails")
    grid = np.linspace(0.0, 80.0, 8001)
    turn = max(0.0, math.log(rate / distance) / (rate + 1))
    before = np.minimum(grid, turn)
    least = np.minimum(np.exp(-rate * before) + (1 + np.exp(before)) * distance, 1.0)
    upper, lower = loss.profile(grid)
    assert np.all(upper >= least * (1 - 1e-9))
    assert np.all(upper <= least * (1 + 1e-4))
    assert np.all(lower <= upper)
    if least[-1] < 0.9:
        # An ε is found for a δ that is a little above the least.
        assert curve_of(loss).epsilon(1.01 * least[-1]).upper <= turn


def test_where_it_turns() -> None:
    """Against the derivative's root; a function that falls to the end turns there."""
    found = turning_point(lambda x: min(1.0, math.exp(-3 * x) + 1e-6 * math.exp(x)), MAX_SEARCH_EPSILON)
    assert found == pytest.approx(math.log(3e6) / 4, abs=1e-3)
    assert turning_point(lambda x: -x, 5.0) == 5.0


def test_the_distance_part_is_rounded_up() -> None:
    from fractions import Fraction

    assert Fraction(distance_delta(0.1, 0.0)) >= 2 * Fraction(0.1)
    assert distance_delta(1e-9, 1.0) == pytest.approx((1 + math.e) * 1e-9, rel=1e-15)
