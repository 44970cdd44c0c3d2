"""Domains of any size: what is read for some options, and what is refused before any work."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base.estimator import SelectedOptions, SelectedOptionsEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms

HUGE = 1 << 48
MADE: dict[str, Callable[[int], Mechanism]] = {
    "krr": lambda d: sdp.KRR(20.0, d),
    "subset": lambda d: sdp.Subset(20.0, d, size=3),
    "local-hash": lambda d: sdp.LocalHash(4.0, d),
    "local-hash of two buckets": lambda d: sdp.LocalHash(1.0, d, length=2),
    "hadamard-response": lambda d: sdp.HadamardResponse(2.0, d),
    "hadamard-response in blocks": lambda d: sdp.HadamardResponse(3.0, d, blocks=8),
    "projective-geometry": lambda d: sdp.ProjectiveGeometry(4.0, d),
    "balls-into-bins": lambda d: sdp.BallsIntoBins(d, bins=61, share=0.5),
    "pure-dump": lambda d: sdp.PureDUMP(d, share=0.5),
    "mix-dump": lambda d: sdp.MixDUMP(d, flip=0.25),
    "cancelling-noise": lambda d: sdp.CancellingNoise(d, 0.45, 30.0, 0.93, honest=4 * d),
    "poisson-dump": lambda d: sdp.PoissonDUMP(d, 2.0, honest=4 * d),
}
"""With few messages at any size."""


@pytest.mark.parametrize("name", MADE)
def test_counts_in_a_huge_domain_are_unbiased_with_the_stated_variance(name: str) -> None:
    """400 of 1,000 users hold one option and none holds others: standard scores of 40 estimates stay below 6.5.

    A false alarm has probability below 40·8e-11 < 1e-8, as the counts are near normal or their noise is 0; the spread
    of 36 scores of empty options is within 0.5 and 1.6 of 1 but with probability below 1e-7.
    """
    mechanism = MADE[name](HUGE)
    rng = np.random.default_rng(7)
    values = np.concatenate([np.full(400, 123_456_789_012), np.full(100, 5), rng.integers(10, HUGE, 500)])
    asked = np.concatenate([[123_456_789_012, 5], rng.integers(10, HUGE, 38)])
    messages = mechanism.encode(values, rng)
    found = mechanism.estimate_some(messages, asked, len(values))
    reading = mechanism.build_estimator(asked)
    truth, variance = reading.truth(values), reading.variance(mechanism.check(values))
    assert truth[:2].tolist() == [400.0, 100.0]
    scores = (found.value - truth) / np.sqrt(np.maximum(variance, 1.0))
    assert np.abs(scores).max() < 6.5
    if variance[2] > 50:
        assert 0.5 < np.sqrt(np.mean(scores[2:] ** 2)) < 1.6
    np.testing.assert_allclose(found.variance[2:].mean(), variance[2:].mean(), rtol=0.2, atol=1.0)


@pytest.mark.parametrize("name", MADE)
def test_settings_law_wire_and_simulation_do_not_grow_with_the_domain(name: str) -> None:
    mechanism = MADE[name](HUGE)
    assert mechanism.to_document()["settings"]["options"] == HUGE
    assert mechanism.influence is not None
    messages = mechanism.encode([0, HUGE - 1], np.random.default_rng(0))
    np.testing.assert_array_equal(mechanism.unpack(mechanism.pack(messages)), messages)
    reading = mechanism.estimator.select(SelectedOptions(np.array([5, HUGE - 1])))
    assert isinstance(reading, SelectedOptionsEstimator)
    rng, held = np.random.default_rng(1), np.array([300, 0])
    drawn = np.array([reading.simulate(held, 1000, rng).value for _ in range(400)])
    spread = reading.variance_at_counts(held.astype(float), 1000)
    # 6 standard errors of a mean, false alarm 2e-9 each.
    assert (np.abs(drawn.mean(axis=0) - held) <= 6 * np.sqrt(spread / len(drawn)) + 1e-9).all()
    for call in (
        lambda: mechanism.estimate(messages, 2),
        lambda: mechanism.variance([0]),
        lambda: mechanism.truth([0]),
    ):
        with pytest.raises(ValueError, match=r"all 281,474,976,710,656 options at once would take .* bytes, where"):
            call()


TOO_LONG = [
    (lambda d: sdp.OUE(1.0, d), 1 << 32), (lambda d: sdp.RAPPOR(1.0, d), 1 << 32), (lambda d: sdp.Subset(1.0, d), HUGE),
    (lambda d: sdp.CheuZhilyaev(d, 0.1), 1 << 32), (lambda d: sdp.BalcerCheu(d, 0.9), 1 << 32),
    (lambda d: sdp.BalcerUniform(d), HUGE), (lambda d: sdp.PIRAPPOR(1.0, d), 1 << 32),
    (lambda d: sdp.LocalHash(8.0, d), 1 << 62), (lambda d: sdp.HadamardResponse(1.0, d), 1 << 62),
    (lambda d: sdp.ProjectiveGeometry(1.0, d), 1 << 62), (lambda d: sdp.CancellingNoise(d, 1.0, 4.0, 0.5, 10), 1 << 62),
    (lambda d: sdp.KRR(1.0, d), 1 << 63), (lambda d: sdp.BallsIntoBins(d, 61), 1 << 62),
]  # fmt: skip


@pytest.mark.parametrize(("make", "options"), TOO_LONG)
def test_what_cannot_be_sent_is_refused_when_it_is_made(make: Callable[[int], Mechanism], options: int) -> None:
    with pytest.raises(ValueError, match=r"^\w+: .* got .*\d.*\.$"):
        make(options)


def test_every_frequency_mechanism_counts_options() -> None:
    for kind in all_mechanisms().values():
        for example in kind.examples():
            assert (example.estimator.option_count is not None) >= (example.task == "frequency"), kind.name


def test_asked_options_in_expectation_by_brute_force_over_all_messages() -> None:
    """Every message of two users of a hash of 5 options, with exact chances: the mean is the truth, to 1e-9."""
    mechanism = sdp.LocalHash(1.0, 5, length=3)
    table = mechanism.table()
    asked, held = np.array([4, 0]), (4, 1)
    mean = np.zeros(2)
    total = Fraction(0)
    for first, second in product(range(len(table.messages)), repeat=2):
        chance = table.probabilities[held[0]][first] * table.probabilities[held[1]][second]
        supports = mechanism.estimator.count_supports(table.messages[[first, second]], SelectedOptions(asked))
        mean += float(chance) * mechanism.estimator.estimate_from_supports(supports, 2).value
        total += chance
    assert total == 1
    np.testing.assert_allclose(mean, [1.0, 0.0], atol=1e-9)


def test_options_that_are_not_there_are_refused() -> None:
    mechanism = sdp.KRR(1.0, 5)
    messages = mechanism.encode([1, 2, 3], np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"^KRR: values must be from 0 to 4, got 5\.$"):
        mechanism.estimate_some(messages, [5])
    with pytest.raises(ValueError, match=r"^KRR: expected at least one value, got none\.$"):
        mechanism.estimate_some(messages, [])
    with pytest.raises(ValueError, match=r"^Laplace: it does not count how many users hold each option"):
        sdp.Laplace(1.0).estimate_some(np.array([0]), [0])
    assert mechanism.estimate_some(messages, [3, 3]).value.shape == (2,)
