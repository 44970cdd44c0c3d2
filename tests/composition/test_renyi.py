"""Rényi divergences: both sides hold the exact value of explicit pairs, and the conversion is sound."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from shuffledp.privacy import renyi as renyi_module
from shuffledp.privacy.composition import GaussianLimit
from tests.oracle.composition import gaussian_delta, merge_ratios, renyi

from .known_curves import SOURCE, GaussianCurve, TableCurve, shuffled_counts


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("order", [1.05, 2.0, 7.0, 60.0])
def test_explicit_pairs(seed: int, order: float) -> None:
    """Random symmetric pairs in exact rationals; a few atoms off the grid are the hardest case for it."""
    rng = Random(f"renyi {seed}")
    laws = [[Fraction(rng.randint(1, 30)) for _ in range(4)] for _ in range(2)]
    first, second = ([x / sum(law) for x in law] for law in laws)
    pair = [(a / 2, b / 2) for a, b in zip(first, second, strict=True)]
    pair += [(b, a) for a, b in pair]
    found = sdp.renyi(TableCurve(SOURCE, (tuple(pair),))).divergence(order)
    truth = renyi(merge_ratios(pair), order)
    assert found.upper - found.slack <= truth <= found.upper <= truth * 1.01
    assert found.slack <= 0.03 * found.upper


def test_shuffled_counts() -> None:
    """A shuffled protocol of six users, every count vector, in exact rationals; rounds add up."""
    quarter = Fraction(1, 4)
    first, second = (3 * quarter, quarter, Fraction(0)), (quarter, 3 * quarter, Fraction(0))
    counts = merge_ratios(shuffled_counts(first, second, (quarter, quarter, 2 * quarter), 6))
    curve = sdp.amplify(sdp.VariationRatio(p=3.0, beta=0.5, q=3.0), 6, bound="variation-ratio")
    for order in (1.5, 4.0, 20.0):
        found, thrice = sdp.renyi(curve).divergence(order), sdp.renyi(sdp.compose(curve, 3)).divergence(order)
        truth = renyi(counts, order)
        assert found.upper - found.slack <= truth <= found.upper <= truth * 1.005
        assert thrice.upper == pytest.approx(3 * found.upper, rel=1e-9)


@pytest.mark.parametrize("users", [10**4, 10**8, 10**12])
def test_many_users_approach_the_gaussian(users: int) -> None:
    """α·μ²/2 in the limit, to a relative error even where the divergence is 1e-11."""
    curve = sdp.amplify(sdp.VariationRatio.from_ldp(1.0), users, bound="stronger-clone")
    mu = curve.loss_deviation()
    assert mu == pytest.approx((math.e - 1) * math.sqrt(2 / ((math.e + 1) * users)), rel=1e-12)
    found = sdp.renyi(curve).divergence(3.0)
    assert found.upper == pytest.approx(1.5 * mu**2, rel=2e-3)
    assert found.slack < 1e-3 * found.upper


def test_the_conversion_is_sound_and_not_far_off() -> None:
    """What the divergences prove is above the composed curve, within what such a conversion loses."""
    curve = sdp.compose(sdp.amplify(sdp.VariationRatio.from_ldp(2.0), 10_000, bound="stronger-clone"), 100)
    exact, proved = curve.epsilon(1e-6).upper, sdp.renyi(curve).epsilon(1e-6)
    assert exact < proved.upper < 1.12 * exact
    assert proved.guarantee
    assert proved.certified


@pytest.mark.parametrize("order", [1.5, 3.0, 20.0])
def test_the_conversion_at_one_order(order: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposition 12 in its other form: δ = e^((α−1)(D−ε))·(1 − 1/α)^α/(α − 1), solved for δ instead of ε."""
    monkeypatch.setattr(renyi_module, "ORDERS", (order,))
    moments, delta = sdp.renyi(GaussianCurve(SOURCE, 1.0)), 1e-5
    reached, divergence = moments.epsilon(delta).upper, moments.divergence(order).upper
    promised = math.exp((order - 1) * (divergence - reached)) * (1 - 1 / order) ** order / (order - 1)
    assert promised == pytest.approx(delta, rel=1e-6)


def test_infinite_losses() -> None:
    """Where a message reveals the input, no order is finite."""
    curve = sdp.amplify(sdp.VariationRatio(p=math.inf, beta=1.0, q=4.0), 10, bound="variation-ratio")
    assert math.isinf(sdp.renyi(curve).divergence(2.0).upper)
    assert math.isinf(sdp.renyi(curve).epsilon(1e-6).upper)


@pytest.mark.parametrize("order", [1.0, 0.5, math.inf])
def test_orders_out_of_range(order: float) -> None:
    """One sentence."""
    curve = sdp.amplify(sdp.KRR(epsilon=1.0, options=4), 100, effort="quick")
    with pytest.raises(ValueError, match="order must be above 1 and finite"):
        sdp.renyi(curve).divergence(order)


def test_the_gaussian_limit_is_labelled() -> None:
    """theory.md §2: 1.221 against the true 1.49824: an approximation from below, and it says so."""
    curve = sdp.amplify(sdp.VariationRatio.from_ldp(4.0), 1000, bound="stronger-clone")
    limit = sdp.gaussian_limit(curve)
    value = limit.epsilon(1e-5)
    assert value.upper == pytest.approx(1.221, abs=5e-4)
    assert value.upper < curve.epsilon(1e-5).upper - 0.2
    assert not value.guarantee
    assert not value.certified
    assert "not an upper bound" in limit.note
    assert isinstance(limit, GaussianLimit)
    assert not sdp.compose([limit, curve]).epsilon(1e-5).guarantee


@pytest.mark.parametrize("rounds", [1, 50])
def test_the_gaussian_limit_is_the_closed_form(rounds: int) -> None:
    """δ(ε) to ten digits, and close to the composed curve where there are many users."""
    curve = sdp.compose(sdp.amplify(sdp.KRR(epsilon=1.0, options=10), 10**7, effort="quick"), rounds)
    limit = sdp.gaussian_limit(curve)
    epsilon = limit.epsilon(1e-6).upper
    assert float(gaussian_delta(limit.mu, epsilon)) == pytest.approx(1e-6, rel=1e-9)
    assert epsilon == pytest.approx(curve.epsilon(1e-6).upper, rel=2e-3)


def test_a_curve_without_a_limit() -> None:
    """A closed form does not know its loss."""
    with pytest.raises(NotApplicable, match="is not known"):
        sdp.gaussian_limit(GaussianCurve(SOURCE, 0.3))
