"""Cancelling noise: its loss by brute force, its draws by their laws, its error by simulation, its prices."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

import shuffledp as sdp
from shuffledp.mechanisms.correlated_noise.cancelling_noise_design import (
    _geometric_sums,
    approximate_delta,
    design_noise,
    find_smallest_pairs,
    rate_from_deviation,
)
from shuffledp.mechanisms.correlated_noise.cancelling_noise_loss import CancellingNoiseLaw, CancellingNoiseLoss
from shuffledp.mechanisms.correlated_noise.counts_with_cancelling_noise import NoiseShare
from shuffledp.privacy.aggregate_noise import ApproximateLoss
from shuffledp.sampling.random_sources import SeededSource
from tests.oracle import cancelling_noise

SETTINGS = [(2.0, 1.5, 0.15), (1.5, 2.0, 0.1), (2.5, 0.7, 0.2), (1.8, 3.0, 0.12)]
CUT = 8


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(("users", "colluding"), [(2, 0), (3, 1), (3, 2)])
def test_the_loss_is_that_of_all_counts(settings: tuple[float, float, float], users: int, colluding: int) -> None:
    """Users' shares added up one by one, colluding ones taken off, all four counts enumerated: the same δ."""
    rate, shape, ratio = settings
    mechanism = sdp.CancellingNoise(options=4, rate=rate, shape=shape, ratio=ratio, honest=2)
    curve = sdp.amplify(mechanism, users, colluding=colluding, effort="quick")
    mp.dps = 30
    law = cancelling_noise.pair_law(min(2, users - colluding), 2, rate, shape, ratio, CUT)
    for epsilon in (0.3, 1.0, 2.0):
        low, high = cancelling_noise.divergence(law, epsilon, [1, -1])
        value = curve.delta(epsilon)
        assert low <= value.upper
        assert value.upper - value.slack <= high
        assert value.upper == pytest.approx((low + high) / 2, abs=2e-4 if ratio > 0.15 else 1e-4)
        assert value.lower is not None
        # Of fewer honest users than planned losses are told in bins.
        close = 1e-9 if users - colluding >= 2 else 1e-3
        assert value.lower <= value.upper <= value.lower * (1 + close)


@pytest.mark.parametrize("settings", SETTINGS)
def test_one_count_alone(settings: tuple[float, float, float]) -> None:
    rate, shape, ratio = settings
    loss = CancellingNoiseLoss(CancellingNoiseLaw(rate, shape, ratio), single=True)
    mp.dps = 30
    law = cancelling_noise.pair_law(1, 1, rate, shape, ratio, 12)
    for epsilon in (0.1, 0.5, 1.2):
        ways = [cancelling_noise.divergence(law, epsilon, [move]) for move in (1, -1)]
        (upper,), (lower,) = loss.profile(np.array([epsilon]))
        assert max(low for low, _ in ways) <= upper
        assert lower <= max(high for _, high in ways)
        assert upper == pytest.approx(max(ways)[0], abs=1e-5)


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_fewer_honest_users_hide_less(share: Fraction) -> None:
    """And a share of almost one gives what the law in one dimension gives, by another route."""
    points = np.linspace(0.0, 3.0, 7)
    whole = CancellingNoiseLoss(CancellingNoiseLaw(0.6, 12.0, 0.8)).profile(points)
    fewer = CancellingNoiseLoss(CancellingNoiseLaw(0.6, 12.0, 0.8, share)).profile(points)
    almost = CancellingNoiseLoss(CancellingNoiseLaw(0.6, 12.0, 0.8, 1 - Fraction(1, 10**12))).profile(points)
    assert (fewer[0] > whole[0]).all()
    np.testing.assert_allclose(almost[0], whole[0], rtol=1e-3)
    assert (almost[0] >= whole[1]).all()
    assert (almost[1] <= whole[0]).all()
    for (upper, lower), close in ((whole, 1e-9), (fewer, 1e-3), (almost, 1e-3)):
        assert (upper >= lower).all()
        np.testing.assert_allclose(upper, lower, rtol=close)


def test_more_users_and_the_shuffler() -> None:
    """More users than planned keep the promise; the shuffler's noise does not depend on who is there."""
    by_users = sdp.CancellingNoise(options=9, rate=0.4, shape=30.0, ratio=0.92, honest=1000)
    by_shuffler = sdp.CancellingNoise(options=9, rate=0.4, shape=30.0, ratio=0.92, honest=0)
    planned = sdp.amplify(by_users, 1000, effort="quick").epsilon(1e-6).upper
    assert sdp.amplify(by_users, 5000, effort="quick").epsilon(1e-6).upper == planned
    assert sdp.amplify(by_users, 5000, colluding=4000, effort="quick").epsilon(1e-6).upper == planned
    assert sdp.amplify(by_users, 500, effort="quick").epsilon(1e-6).upper > planned
    for users, colluding in ((1, 0), (10, 9), (10**9, 0)):
        assert sdp.amplify(by_shuffler, users, colluding=colluding, effort="quick").epsilon(1e-6).upper == planned


def test_two_rounds_by_the_composition_engine() -> None:
    """Two rounds of one count are two losses of each kind: composed by the engine, and enumerated."""
    rate, shape, ratio = 2.2, 1.0, 0.05
    curve = sdp.compose(sdp.amplify(sdp.CancellingNoise(4, rate, shape, ratio, honest=0), 1, effort="quick"), 2)
    mp.dps = 20
    law = cancelling_noise.pair_law(1, 1, rate, shape, ratio, 2)
    low, high = cancelling_noise.divergence(law, 3.0, [1, -1, 1, -1])
    assert low <= curve.delta(3.0).upper
    assert curve.delta(3.0).upper - curve.delta(3.0).slack <= high


# --- draws --------------------------------------------------------------------------------------------------------


def test_a_share_has_its_law() -> None:
    """What one user sends for and against one option: two counts, against the law from its generating function."""
    noise, users = CancellingNoiseLaw(0.9, 5.0, 0.6), 300_000
    part = NoiseShare(noise, 3, Fraction(1, 4))
    owners, messages = part.draw_by_user(SeededSource(np.random.default_rng(3)), users)
    plus = np.bincount(owners[messages == 2], minlength=users)
    minus = np.bincount(owners[messages == 3], minlength=users)
    cut = 7
    mp.dps = 20
    law = cancelling_noise.pair_law(1, 4, 0.9, 5.0, 0.6, cut + 6)
    inside = (plus <= cut) & (minus <= cut)
    seen = np.bincount((plus * (cut + 1) + minus)[inside], minlength=(cut + 1) ** 2)
    told = np.array([float(law.get(divmod(place, cut + 1), 0)) for place in range((cut + 1) ** 2)]) * users
    often = told > 10
    statistic = float(np.sum((seen[often] - told[often]) ** 2 / told[often]))
    assert stats.chi2.sf(statistic, int(often.sum())) > 1e-4


def test_shares_drawn_together_add_up_to_the_same_law() -> None:
    noise = CancellingNoiseLaw(0.9, 5.0, 0.6)
    part, source = NoiseShare(noise, 2, Fraction(1, 8)), SeededSource(np.random.default_rng(4))
    draws = np.array([np.bincount(part.draw(source, 8), minlength=4) for _ in range(4000)])
    q = math.exp(-0.9)
    mean = q / (1 - q) + 5 * 0.6 / 0.4
    variance = q / (1 - q) ** 2 + 5 * 0.6 / 0.4**2
    np.testing.assert_allclose(draws.mean(axis=0), mean, rtol=0.05)
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.12)
    difference = draws[:, 0] - draws[:, 1]
    assert difference.var() == pytest.approx(2 * q / (1 - q) ** 2, rel=0.12)
    assert np.cov(draws[:, 0], draws[:, 2])[0, 1] == pytest.approx(0, abs=0.1 * variance)


def test_messages_on_average() -> None:
    mechanism = sdp.CancellingNoise(options=64, rate=0.5, shape=20.0, ratio=0.9, honest=20_000)
    sent = mechanism.encode(np.zeros(20_000, dtype=np.int64), np.random.default_rng(1))
    assert len(sent) / 20_000 == pytest.approx(mechanism.messages_per_user, rel=0.02)
    drawn = sdp.CancellingNoise(64, 0.5, 20.0, 0.9, honest=0).draw_shuffler_messages(
        SeededSource(np.random.default_rng(2))
    )
    assert drawn is not None
    assert len(drawn) / 20_000 == pytest.approx(mechanism.messages_per_user - 1, rel=0.05)


@pytest.mark.parametrize("options", [2, 3, 40])
@pytest.mark.parametrize("honest", [0, 500, 2000])
def test_the_error_and_the_intervals(options: int, honest: int) -> None:
    """By the exact law of the counts, for as many users as planned, four times as many, and the shuffler."""
    mechanism = sdp.CancellingNoise(options, 0.35, 20.0, 0.9, honest)
    rng = np.random.default_rng(7)
    held = rng.multinomial(2000, np.full(options, 1 / options))
    found = [mechanism.estimator.simulate(held, 2000, rng) for _ in range(6000 // options + 500)]
    errors = np.array([one.value - held for one in found])
    assert errors.std() == pytest.approx(found[0].standard_error[0], rel=0.06)
    assert 0.93 <= np.mean(np.abs(errors) <= found[0].margin(0.95)[0]) <= 0.975
    assert errors.sum(axis=1) == pytest.approx(0, abs=1e-8)


def test_messages_give_what_the_simulation_gives() -> None:
    mechanism = sdp.CancellingNoise(options=5, rate=0.4, shape=10.0, ratio=0.85, honest=300)
    rng, values = np.random.default_rng(9), np.arange(300) % 5
    errors = [mechanism.estimate(mechanism.encode(values, rng), 300).value - 60 for _ in range(400)]
    assert np.std(errors) == pytest.approx(math.sqrt(mechanism.variance(values)[0]), rel=0.06)


# --- padded reports -----------------------------------------------------------------------------------------------


def test_padded_reports_tell_nothing_by_their_number() -> None:
    mechanism = sdp.CancellingNoise(options=6, rate=0.5, shape=8.0, ratio=0.8, honest=1000, places=64)
    assert mechanism.messages_per_user == 64
    values = np.arange(1200) % 6
    sent = mechanism.encode(values, np.random.default_rng(5)).reshape(1200, 64)
    assert (sent[:, 0] == 2 * values).all()
    found = mechanism.estimate(sent.reshape(-1))
    assert found.users == 1200
    plain = sdp.amplify(sdp.CancellingNoise(6, 0.5, 8.0, 0.8, honest=1000), 1200, effort="quick")
    padded = sdp.amplify(mechanism, 1200, effort="quick")
    loss = mechanism.aggregate_loss(1200)
    assert isinstance(loss, ApproximateLoss)
    assert loss.distance > 0
    misfit = (1 + math.e) * loss.distance
    assert padded.delta(1.0).upper == pytest.approx(plain.delta(1.0).upper + misfit, rel=1e-12)
    assert "exceeds their places" in padded.delta(1.0).note
    assert padded.delta(1.0).lower is None


@pytest.mark.parametrize("shape", [0.02, 0.2, 1.0])
@pytest.mark.parametrize("colluding", [0, 1])
def test_padded_reports_by_brute_force(shape: float, colluding: int) -> None:
    """Two places: a user's own message and the first of her noise. All reports enumerated: never above the bound.

    The first message of a share is (option, +) of a flooding cluster, if there is one, or of a single one, for or
    against; a uniform option each.
    """
    rate, ratio, users = 3.0, 0.2, 3
    mechanism = sdp.CancellingNoise(2, rate, shape, ratio, honest=2, places=2)
    flood, single = 2 * shape / 2 * -math.log1p(-ratio), 2 * 2 / 2 * -math.log1p(-math.exp(-rate))
    flooded = -math.expm1(-flood)
    other = math.exp(-flood) * -math.expm1(-single)
    noise = {0: flooded / 2 + other / 4, 2: flooded / 2 + other / 4, 1: other / 4, 3: other / 4}
    noise[4] = 1 - sum(noise.values())

    def law(own: int) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}
        for drawn in itertools.product(noise, repeat=users - colluding):
            counts = np.bincount([2 * own, *drawn], minlength=5)
            place = tuple(int(count) for count in counts)
            found[place] = found.get(place, 0.0) + math.prod(noise[one] for one in drawn)
        return found

    first, second = law(0), law(1)
    seen = np.array([(first.get(place, 0.0), second.get(place, 0.0)) for place in first.keys() | second.keys()])
    curve = sdp.amplify(mechanism, users, colluding=colluding, effort="quick")
    for epsilon in (0.0, 0.5, 1.5, 3.0, 5.0):
        truth = float(np.maximum(seen[:, 0] - math.exp(epsilon) * seen[:, 1], 0.0).sum())
        assert curve.delta(epsilon).upper >= truth * (1 - 1e-12)
    sent = mechanism.encode(np.zeros(60_000, dtype=np.int64), np.random.default_rng(2)).reshape(-1, 2)[:, 1]
    share = np.bincount(sent, minlength=5) / 60_000
    assert share == pytest.approx(np.array([noise[k] for k in range(5)]), abs=0.012)


def test_the_chance_that_noise_does_not_fit() -> None:
    """Against how often it happens."""
    part = NoiseShare(CancellingNoiseLaw(0.6, 6.0, 0.7), 5, Fraction(1, 20))
    owners, _ = part.draw_by_user(SeededSource(np.random.default_rng(6)), 200_000)
    counts = np.bincount(owners, minlength=200_000)
    for most in (0, 3, 10, 25):
        told = float(part.overflow_probability(most))
        assert np.mean(counts > most) == pytest.approx(told, abs=5 * math.sqrt(told / 200_000))


# --- prices -------------------------------------------------------------------------------------------------------

PRICES = {
    (1.0, 1e-8): (1816, 992, 472, 287),
    (1.0, 1e-9): (2211, 1196, 563, 340),
    (0.5, 1e-6): (1864, 1073, 543, 345),
    (2.0, 1e-9): (1170, 630, 289, 173),
}


@pytest.mark.parametrize("target", PRICES)
def test_the_price_of_an_error(target: tuple[float, float]) -> None:
    """Noise messages an option for 1.05, 1.1, 1.25 and 1.5 times ε/2's noise: the published figures or fewer."""
    epsilon, delta = target
    for times, price in zip((1.05, 1.1, 1.25, 1.5), PRICES[target], strict=True):
        flood = find_smallest_pairs(epsilon / (2 * times), epsilon, delta)
        assert flood is not None
        assert 0.9 * price < flood.messages < 1.01 * price


def test_a_design_is_certified() -> None:
    for single, losses in ((False, 2), (True, 1)):
        found = design_noise(1.2, 1.0, 1e-7, 1, losses)
        assert found is not None
        rate, flood = found
        assert rate == pytest.approx(rate_from_deviation(1.2 * math.sqrt(2) * losses), rel=1e-12)
        (upper,), _ = CancellingNoiseLoss(CancellingNoiseLaw(rate, flood.shape, flood.ratio), single).profile(
            np.array([1.0])
        )
        assert 0.99e-7 < upper <= 1e-7
        assert approximate_delta(rate, flood.shape, flood.ratio, 1.0, 1e-7, single) == pytest.approx(upper, rel=1e-6)


def test_rounds_are_designed_together() -> None:
    found = design_noise(1.3, 1.0, 1e-6, 4)
    assert found is not None
    rate, flood = found
    mechanism = sdp.CancellingNoise(8, rate, flood.shape, flood.ratio, honest=0)
    together = sdp.compose(sdp.amplify(mechanism, 1, effort="quick"), 4).epsilon(1e-6).upper
    assert 0.97 < together <= 1.0


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ratio": 1.0}, "ratio must be"),
        ({"ratio": 0.99999999}, "ratio must be at most"),
        ({"rate": 0.0}, "rate must be"),
        ({"shape": -1.0}, "shape must be"),
        ({"honest": -1}, "honest must be"),
        ({"honest": 0, "places": 4}, "places are for noise that users draw"),
        ({"options": 1}, "options must be"),
    ],
)
def test_bad_settings(changed: dict[str, float], sentence: str) -> None:
    settings = {"options": 4, "rate": 0.5, "shape": 8.0, "ratio": 0.8, "honest": 100} | changed
    with pytest.raises(ValueError, match=f"CancellingNoise: {sentence}"):
        sdp.CancellingNoise(**settings)  # type: ignore[arg-type]


def test_the_number_of_users_must_be_said() -> None:
    mechanism = sdp.CancellingNoise(options=4, rate=0.5, shape=8.0, ratio=0.8, honest=100)
    sent = mechanism.encode(np.zeros(100, dtype=np.int64))
    with pytest.raises(ValueError, match="say how many users there are"):
        mechanism.estimate(sent)
    assert mechanism.estimate(sent, users=100).users == 100


@pytest.mark.parametrize("ratio", [0.0, 1e-200, 0.3, 0.999])
@pytest.mark.parametrize("length", [1, 2, 7, 300])
def test_sums_that_fade_are_those_of_one_step_after_another(ratio: float, length: int) -> None:
    terms = np.exp(-0.3 * np.arange(length) ** 1.5 / 10)
    wanted, held = [], 0.0
    for term in terms:
        held = float(term) + ratio * held
        wanted.append(held)
    np.testing.assert_allclose(_geometric_sums(terms, ratio), wanted, rtol=1e-13)
