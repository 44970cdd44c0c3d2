"""Vectors by split and mix: the noise's bound against enumeration, lengths of rounded vectors, estimates and limits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from shuffledp.mechanisms.correlated_noise.split_and_mix_vector import (
    SkellamSum,
    SplitAndMixVector,
    VectorChange,
    skellam_tail,
)
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Candidate, Trial
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.random_sources import resolve_source

REACH = 400


def logs(variance: float, shift: int) -> np.ndarray:
    z = np.arange(-REACH, REACH + 1)
    # e^−μ·I_|z|(μ): the difference of two Poissons of mean μ/2 each.
    return np.asarray(stats.skellam.logpmf(z - shift, variance / 2, variance / 2))


@pytest.mark.parametrize(("variance", "shift"), [(1, 1), (4, 1), (4, 3), (20, 5), (50, 2), (100, 10)])
def test_one_coordinate_by_enumeration(variance: int, shift: int) -> None:
    """The published divergence, and the δ made of it, are never below the truth."""
    noise = SkellamSum(Fraction(variance), Fraction(shift**2), Fraction(shift))
    here, there = logs(variance, 0), logs(variance, shift)
    known = np.isfinite(here) & np.isfinite(there) & (here > -600) & (there > -600)
    for order in (2, 3, 5, 9):
        truth = logsumexp(order * here[known] + (1 - order) * there[known]) / (order - 1)
        assert truth <= float(noise.divergence(order))
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        truth = np.maximum(np.exp(here) - np.exp(epsilon + there), 0.0).sum()
        assert truth <= noise.delta(epsilon)[0]


@pytest.mark.parametrize("change", [(1, 1), (3, 4), (6, 0), (5, 5)])
def test_two_coordinates_by_enumeration(change: tuple[int, int]) -> None:
    variance = 60
    square, total = sum(one**2 for one in change), sum(change)
    noise = SkellamSum(Fraction(variance), Fraction(square), Fraction(total))
    here = np.exp(logs(variance, 0))[:, None] * np.exp(logs(variance, 0))
    there = np.exp(logs(variance, change[0]))[:, None] * np.exp(logs(variance, change[1]))
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        truth = np.maximum(here - math.exp(epsilon) * there, 0.0).sum()
        upper, lower = noise.delta(epsilon)
        assert truth <= upper
        assert lower <= upper


def test_much_noise_is_nearly_normal() -> None:
    """Within a tenth of the exact Gaussian deviation."""
    from shuffledp.privacy.tradeoff import gaussian_delta

    for epsilon in (0.5, 1.0, 3.0):
        exact = float(gaussian_delta(np.array(1 / 4.5), epsilon))
        assert exact <= SkellamSum(Fraction(20250000), Fraction(10**6), Fraction(8000)).delta(epsilon)[0]
        wider = SkellamSum(Fraction(20250000) * Fraction(122, 100), Fraction(10**6), Fraction(8000))
        assert epsilon < 1 or wider.delta(epsilon)[0] <= exact


def test_the_tail_is_above_the_truth() -> None:
    for variance, beyond in ((5, 10), (100, 60), (1000, 200)):
        truth = 2 * stats.skellam.sf(beyond - 1, variance / 2, variance / 2)
        assert truth <= float(skellam_tail(Fraction(variance), beyond)) <= 200 * truth


@pytest.mark.parametrize("shape", ["ball", "box"])
def test_no_rounded_vectors_are_further_apart_than_is_said(shape: str) -> None:
    """The farthest ends, rounded all ways that rounding goes."""
    rng, levels = np.random.default_rng(0), 5
    for dimension in (2, 3, 7):
        bound = VectorChange(levels, dimension, shape)
        vectors = rng.standard_normal((4000, dimension))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) if shape == "ball" else np.abs(vectors).max()
        whole, left = rounding_and_digits.grid_position(rounding_and_digits.signed_to_units(vectors), 2 * levels)
        low, high = whole - levels, whole - levels + (left > 0)
        far = np.maximum(np.abs(low), np.abs(high))
        assert ((2 * far) ** 2).sum(axis=1).max() <= bound.length**2
        assert (2 * far).sum(axis=1).max() <= bound.absolute_sum


def test_fewer_users_add_less_noise() -> None:
    mechanism = SplitAndMixVector(dimension=2, scale=400.0, levels=32, modulus=1 << 22, messages=10, honest=10_000)
    found = [
        sdp.amplify(mechanism, users=users, effort="quick").epsilon(delta=1e-6).upper
        for users in (20_000, 10_000, 5_000)
    ]
    assert found == sorted(found)
    assert found[0] < 0.8 * found[1]
    noise, mixing = mechanism.delta_parts(found[1], 10_000)
    assert noise + mixing == pytest.approx(1e-6, rel=1e-3)


def test_a_plan_is_at_a_curators_error() -> None:
    goal = Goal(sdp.tasks.UnitVectorMean(64), 100_000, sdp.Target(1.0, 1e-6))
    (offer,) = Trial("split-and-mix-vector", SplitAndMixVector, goal).run()
    assert isinstance(offer, Candidate)
    assert offer.proof.upper <= 1.0
    assert offer.standard_error <= 1.2 * goal.central_baseline.standard_error
    assert offer.standard_error >= goal.central_baseline.standard_error


@pytest.mark.parametrize("shape", ["ball", "box"])
def test_intervals_cover_what_they_say(shape: str) -> None:
    mechanism = SplitAndMixVector(4, scale=50.0, levels=16, modulus=1 << 18, messages=2, honest=60, shape=shape)
    rng = np.random.default_rng(2)
    values = rng.uniform(-0.5, 0.5, (60, 4))
    truth, inside, errors = mechanism.truth(values), 0, []
    for _ in range(500):
        found = mechanism.estimate(mechanism.encode(values, rng=rng))
        low, high = found.interval(0.95)
        inside += int(((low <= truth) & (truth <= high)).sum())
        errors.append(found.value - truth)
    assert 0.93 <= inside / 2000 <= 0.97
    spread = np.square(errors).mean() / mechanism.variance(values).mean()
    assert 0.85 <= spread <= 1.15


def test_messages_say_which_coordinate_they_are_of() -> None:
    mechanism = SplitAndMixVector(3, scale=1e-3, levels=4, modulus=1 << 10, messages=3, honest=1)
    sent = mechanism.randomize(mechanism.check([[0.0, 0.5, -0.75]]), resolve_source(np.random.default_rng(0)))
    places, shares = np.divmod(sent, 1 << 10)
    assert places.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert (shares.reshape(3, 3).sum(axis=1) % (1 << 10)).tolist() == [0, 2, (1 << 10) - 3]


def test_a_sum_that_may_wrap_around_is_refused() -> None:
    mechanism = SplitAndMixVector(2, scale=10.0, levels=10, modulus=1 << 12, messages=4, honest=100)
    with pytest.raises(NotApplicable, match=r"a sum of 200 users may wrap around modulo 4096"):
        sdp.amplify(mechanism, users=200, effort="quick")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dimension": 1}, "dimension must be at least 2"),
        ({"scale": 0.0}, "scale must be above 0"),
        ({"scale": 1e12}, "scale must be from"),
        ({"scale": 1e6}, "one user's share of the noise must have a variance of at most 1048576, got 1e\\+10"),
        ({"modulus": 1 << 60}, "modulus·dimension must be at most"),
        ({"modulus": 16}, "modulus must be above"),
        ({"shape": "cube"}, "shape must be 'ball' or 'box'"),
    ],
)
def test_bad_settings_are_refused_by_a_sentence(settings: dict[str, float], sentence: str) -> None:
    good = {"dimension": 3, "scale": 9.0, "levels": 10, "modulus": 1 << 16, "messages": 4, "honest": 100}
    with pytest.raises(ValueError, match=f"^SplitAndMixVector: {sentence}"):
        SplitAndMixVector(**(good | settings))  # type: ignore[arg-type]
