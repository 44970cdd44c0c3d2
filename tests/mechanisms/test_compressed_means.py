"""Compressed means of vectors: seeds that stand for normal vectors and points of the sphere."""

from __future__ import annotations

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.combined.compressed import Compressed
from tests.mechanisms.test_compressed import at_most_e_to
from tests.mechanisms.toy_mechanisms import SEEDS, ToyGenerator, largest_ratio, seed_law


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_the_seeds_keep_the_local_epsilon_of_the_randomizer(epsilon: float) -> None:
    """The randomizer leaves room for its acceptance being inexact, which is all that compression spends."""
    compressed = Compressed(sdp.PrivUnitG(epsilon, 1024))
    assert epsilon * (1 - 1e-5) <= compressed.epsilon <= epsilon + 1e-12
    assert compressed.message_bits == 128
    assert compressed.tries < np.exp(epsilon) * np.log(1e9)
    assert compressed.total_variation < 1e-9 + 1e-5


@pytest.mark.parametrize("kind", ["random", "bad"])
def test_no_generator_can_break_the_fallback(kind: str) -> None:
    """The exact law of 256 seeds, for directions, a shorter vector and the vector 0."""
    compressed = Compressed(sdp.PrivUnitG(2.0, 2), 0.01, ToyGenerator(kind))
    fallback = compressed.guarantee.unconditional_guarantee
    assert fallback is not None
    values = compressed.check([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [0.3, -0.2], [0.0, 0.0]])
    laws = [seed_law(compressed, value) for value in values]
    for law in laws:
        assert at_most_e_to(max(law) * SEEDS, fallback.deletion_epsilon)
        for other in laws:
            assert at_most_e_to(largest_ratio(law, other), fallback.replacement_epsilon)


@pytest.mark.parametrize("mechanism", [sdp.PrivUnitG(3.0, 6), sdp.PrivHS(2.0, 5)], ids=str)
def test_expanded_vectors_have_the_law_of_uncompressed_ones(mechanism: sdp.Mechanism) -> None:
    """Heights along the user's vector: two samples of 4,000, Kolmogorov–Smirnov, false alarm 1e-7."""
    from scipy.stats import ks_2samp

    compressed = Compressed(mechanism)
    x = np.zeros(mechanism.settings()["dimension"])
    x[:2] = 0.6, -0.8
    values = np.repeat(x[None, :], 4000, axis=0)
    seeds = compressed.encode(values, rng=np.random.default_rng(1))
    plain = mechanism.encode(values, rng=np.random.default_rng(2))
    for direction in (x, np.roll(x, 1)):
        assert ks_2samp(compressed.expand(seeds) @ direction, plain @ direction).pvalue > 1e-7


def test_the_mean_is_estimated_from_seeds() -> None:
    """Within six standard errors in every coordinate (false alarm below 1e-6), shorter vectors included."""
    compressed = Compressed(sdp.PrivUnitG(4.0, 32))
    rng = np.random.default_rng(7)
    values = rng.normal(size=(3000, 32)) + 2
    values *= (rng.random(3000) / np.linalg.norm(values, axis=1))[:, None]
    estimate = compressed.estimate(compressed.encode(values, rng=rng))
    error = np.abs(estimate.value - compressed.truth(values))
    assert (error < 6 * np.sqrt(compressed.variance(values))).all()
    assert np.sqrt(compressed.variance(values)).max() < 0.1
