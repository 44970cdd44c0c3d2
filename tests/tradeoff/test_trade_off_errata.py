"""The counter-examples of docs/errata.md, section [FDP], on the shipped code, where no other test here has them.

FD-1, 2, 3, 7, 8: test_mixture.py; FD-4: bounds/test_clone_mixture.py; FD-9, 10: test_noisy_step.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.privacy.divergences import divergence
from shuffledp.privacy.shuffled_tradeoff import CloneErrors
from shuffledp.privacy.tradeoff import PiecewiseTradeOff
from shuffledp.privacy.tradeoff_mixtures import advanced_joint_concavity, mixed_unequally
from tests.oracle.tradeoff import shuffled_extremes, tradeoff_curve, value_at


def curve(first: list[float], second: list[float]) -> PiecewiseTradeOff:
    return PiecewiseTradeOff(np.array(first), np.array(second))


@pytest.mark.parametrize("users", [2, 5])
def test_the_type_two_error_falls_with_the_threshold(users: int) -> None:
    """FD-5: fnr_0 is 1 − F_i(s_i+1): it falls while fpr_0 rises, and both are on the exact curve of the extremes."""
    first, second, _ = shuffled_extremes(users, Fraction(3))
    exact = tradeoff_curve(first, second)
    fpr, fnr = CloneErrors(math.log(3), users).inner_errors([0.01, 1 / 3, 0.5, 1.0, 2.0, 3.0])
    assert np.all(np.diff(fpr) >= 0)
    assert np.all(np.diff(fnr) <= 0)
    for x, y in zip(fpr.tolist(), fnr.tolist(), strict=True):
        near = min(exact, key=lambda point: abs(float(point[0]) - x))
        assert float(near[0]) == pytest.approx(x, abs=1e-14)
        assert float(value_at(exact, near[0])) == pytest.approx(y, abs=1e-14)


def test_the_middle_of_the_symmetrisation() -> None:
    """FD-6: between (x̄, f(x̄)) and its mirror image the curve is x̄ + f(x̄) − x, never negative."""
    one = curve([0.05, 0.15, 0.3, 0.5], [0.2, 0.3, 0.3, 0.2])
    whole = one.symmetrised()
    steep = one.alternative > one.null
    x = float(one.null[steep].sum())
    y = 1 - float(one.alternative[steep].sum())
    assert x < y
    for place in np.linspace(x, y, 7).tolist():
        assert float(whole.fnr(place)) == pytest.approx(x + y - place, abs=1e-15)
        assert x - y - place < 0 <= float(whole.fnr(place))


def test_slopes_are_inverse_thresholds() -> None:
    """FD-11: rejecting where p < t·q the slope is −1/t; it is what δ(log 1/t) touches."""
    one = curve([1 / 12, 2 / 12, 3 / 12, 6 / 12], [6 / 12, 3 / 12, 2 / 12, 1 / 12])
    slopes = np.diff(one.fnr_knots) / np.diff(one.fpr_knots)
    assert slopes.tolist() == pytest.approx([-6, -1.5, -2 / 3, -1 / 6])
    for slope, x, y in zip(slopes.tolist(), one.fpr_knots.tolist(), one.fnr_knots.tolist(), strict=False):
        assert one.delta(math.log(-slope)) == pytest.approx(1 - y + slope * x, abs=1e-15)


def test_unequal_weights_do_not_share_a_level() -> None:
    """FD-12: at equal weights ours is below the printed average at one level by more than 0.02 somewhere."""
    one, two = curve([0.75, 0.25], [0.25, 0.75]), curve([0.9, 0.1], [0.1, 0.9])
    x = np.linspace(0, 1, 65)
    found = mixed_unequally(((one, one), (two, two)), [0.5, 0.5], [0.5, 0.5])
    assert np.max((one.fnr(x) + two.fnr(x)) / 2 - found.fnr(x)) > 0.02


def test_mass_where_the_first_law_has_none() -> None:
    """FD-13: (0, 1) against (½, ½): total variation ½, KL log 2, both finite."""
    one = curve([0.0, 1.0], [0.5, 0.5])
    assert divergence(one, "total-variation") == pytest.approx(0.5, abs=1e-16)
    assert divergence(one, "kl") == pytest.approx(math.log(2), rel=1e-15)


def test_the_crossed_pairs() -> None:
    """FD-14: δ of the lemma's curve is ½, that of the mixtures, not ⅜."""
    same, apart = curve([1.0, 0.0], [1.0, 0.0]), curve([1.0, 0.0], [0.0, 1.0])
    found = advanced_joint_concavity(((same, apart), (same, apart)), 0.5, 0.0, 0.75)
    assert found.delta(math.log(3)) == pytest.approx(0.5, abs=1e-15)
    assert advanced_joint_concavity(((same, same), (apart, apart)), 0.5, 0.0, 0.75).delta(math.log(3)) == pytest.approx(
        3 / 8
    )
