"""Local hashing: the hash family, the fast decoding, the law, and large instances."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.frequency.local_hash import LocalHash
from shuffledp.sampling import hash_supports, hashing
from shuffledp.sampling.hashing import LinearHash, best_prime, is_prime
from shuffledp.sampling.random_sources import SeededSource
from tests.oracle import exact_enumeration


def digits_of(seeds: np.ndarray, prime: int, degree: int) -> np.ndarray:
    return seeds[:, None] // prime ** np.arange(degree - 1, -1, -1) % prime


def naive_supports(messages: np.ndarray, prime: int, degree: int, options: int) -> np.ndarray:
    """Option by option, message by message."""
    seeds = digits_of(messages // prime, prime, degree)
    points = digits_of(np.arange(options), prime, degree)
    return ((seeds @ points.T - messages[:, None]) % prime == 0).sum(axis=0)


@pytest.mark.parametrize(("prime", "points"), [(2, 8), (3, 9), (5, 7), (7, 7)])
def test_two_options_collide_with_probability_exactly_one_in_l(prime: int, points: int) -> None:
    family = LinearHash(prime, points)
    seeds = digits_of(np.arange(prime**family.width), prime, family.width)
    values = family.evaluate(seeds, np.tile(np.arange(points), (len(seeds), 1)))
    for x, y in itertools.combinations(range(points), 2):
        assert (values[:, x] == values[:, y]).sum() * prime == len(seeds)


@pytest.mark.parametrize(("prime", "points", "independence"), [(2, 4, 3), (3, 9, 3), (5, 5, 3), (5, 5, 4), (2, 4, 4)])
def test_the_family_is_exactly_k_wise_independent(prime: int, points: int, independence: int) -> None:
    """With a common shift, any k points take all values equally often."""
    family = LinearHash(prime, points, independence)
    seeds = digits_of(np.arange(prime**family.width), prime, family.width)
    values = family.evaluate(seeds, np.tile(np.arange(points), (len(seeds), 1)))
    for chosen in itertools.combinations(range(points), independence):
        shifted = (values[:, None, list(chosen)] + np.arange(prime)[:, None]) % prime
        _, counts = np.unique(shifted.reshape(-1, independence), axis=0, return_counts=True)
        assert len(counts) == prime**independence
        assert len(set(counts.tolist())) == 1


@pytest.mark.parametrize("prime", [2, 3, 5, 11, 101, 1031, 1048573])
def test_supports_are_counted_alike_in_every_arithmetic(prime: int) -> None:
    """Single floats, double floats and integers: whatever the size of the field, the counts are exact."""
    family = LinearHash(prime, 40, 4)
    rng = np.random.default_rng(prime)
    seeds, values = rng.integers(0, prime, (700, family.width)), rng.integers(0, prime, 700)
    homes = family.evaluate(seeds, np.tile(np.arange(40), (700, 1)))
    for arc in {1, max(1, prime // 3)}:
        expected = ((values[:, None] - homes) % prime < arc).sum(axis=0)
        np.testing.assert_array_equal(family.support(seeds, values, arc), expected)


@pytest.mark.parametrize(
    ("length", "options"), [(2, 2), (2, 9), (3, 3), (3, 10), (3, 100), (5, 26), (7, 40), (11, 5), (13, 200)]
)
def test_fast_decoding_equals_naive_decoding(length: int, options: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = LocalHash(1.0, options, length)
    degree = mechanism.hash_messages.degree
    messages = np.random.default_rng(1).integers(0, mechanism.hash_messages.messages, 2000)
    expected = naive_supports(messages, length, degree, options)
    counts = mechanism.accumulate(messages)
    np.testing.assert_array_equal(hash_supports.hash_supports_of_counts(counts, length, degree, options), expected)
    for cells in (length, length**2, length**3):
        monkeypatch.setattr(hash_supports, "MAX_CELLS", cells)
        np.testing.assert_array_equal(hash_supports.supports_of_messages(messages, length, degree, options), expected)


def limit_cells(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    """Fewer counts are held at a time: for messages as they arrive, and while their sums are shared."""
    for module in (hashing, hash_supports):
        monkeypatch.setattr(module, "MAX_CELLS", cells)


def test_with_many_messages_batches_are_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = LocalHash(2.0, 300)
    messages = mechanism.encode(np.arange(300), rng=np.random.default_rng(3))
    counted = mechanism.estimate(messages)
    limit_cells(monkeypatch, 100)
    assert not mechanism.hash_messages.is_message_count
    assert mechanism.accumulate(messages).shape == (300,)
    np.testing.assert_array_equal(mechanism.estimate(messages).value, counted.value)


@pytest.mark.parametrize("count", [0, 1, 7, 60])
def test_a_few_messages_are_decoded_one_by_one(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By inner products with every option, where sharing sums would take longer."""
    mechanism = LocalHash(1.0, 2000, 251)
    messages = np.random.default_rng(5).integers(0, mechanism.hash_messages.messages, count)
    limit_cells(monkeypatch, 251**2)
    monkeypatch.setattr(hashing, "supports_of_messages", None)
    expected = naive_supports(messages, 251, mechanism.hash_messages.degree, 2000)
    np.testing.assert_array_equal(mechanism.accumulate(messages), expected)


def test_more_buckets_than_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prime beyond the counts held at a time: all messages one by one, however many there are."""
    mechanism = LocalHash(1.0, 3, 251)
    messages = np.random.default_rng(6).integers(0, mechanism.hash_messages.messages, 500)
    expected = naive_supports(messages, 251, mechanism.hash_messages.degree, 3)
    limit_cells(monkeypatch, 250)
    np.testing.assert_array_equal(mechanism.accumulate(messages), expected)


@pytest.mark.parametrize(
    ("epsilon", "options", "length"), [(1.0, 1000, 3), (2.0, 50, 7), (1.0, 10**6, 2), (9.0, 90, None)]
)
def test_the_hash_of_a_truthful_message_is_that_of_the_option(epsilon: float, options: int, length: int | None) -> None:
    """By table and by multiplication: what encode computes is the inner product of digits."""
    mechanism = LocalHash(epsilon, options, length)
    rng = np.random.default_rng(8)
    seeds = rng.integers(0, mechanism.hash_messages.messages // mechanism.buckets, 500)
    values = rng.integers(0, options, 500)
    l, m = mechanism.buckets, mechanism.hash_messages.degree
    expected = (digits_of(seeds, l, m) * digits_of(values, l, m)).sum(axis=1) % l
    np.testing.assert_array_equal(
        mechanism.hash_messages.compute_messages(seeds, values), seeds * mechanism.buckets + expected
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0, 2.0, 3.3, 5.0])
def test_the_default_length_has_the_least_variance(epsilon: float) -> None:
    def variance(length: int) -> Fraction:
        mechanism = LocalHash(epsilon, 200, length)
        s, r = mechanism.estimator.true_support, mechanism.estimator.false_support
        return r * (1 - r) / (s - r) ** 2

    primes = [length for length in range(2, 2 * best_prime(epsilon, 1) + 10) if is_prime(length)]
    assert LocalHash(epsilon, 200).buckets == min(primes, key=variance)


def test_total_variation_is_that_of_the_theory() -> None:
    """Erratum ME-2: 0.4537 at l = 3, ε = 2, not 0.6805."""
    beta = LocalHash(2.0, 9, 3).variation_ratio().beta
    assert beta == pytest.approx(0.4537, abs=5e-5)
    assert beta == pytest.approx((1 - 1 / 3) * (math.exp(2) - 1) / (math.exp(2) + 2), rel=1e-12)


@pytest.mark.parametrize(
    ("mechanism", "number", "third"),
    [
        (LocalHash(1.0, 2, 3), 0, 0),
        (LocalHash(1.0, 4, 5), 0, 2),
        (LocalHash(2.0, 5, 3), 0, 2),
        (LocalHash(2.0, 5, 3), 1, 3),
        (LocalHash(2.0, 4, 2), 0, 2),
    ],
)
def test_attacks_are_real_datasets(mechanism: LocalHash, number: int, third: int) -> None:
    """Options 0 and 1 among others who hold a third: merged by likelihoods, the same divergence as the full table."""
    rows = mechanism.table().probabilities
    pair = mechanism.attacks()[number]
    classes = [tuple(Fraction(str(float(part.mid()))) for part in c) for c in pair.classes()]
    merged: dict[tuple[Fraction, ...], Fraction] = {}
    for a, b, h in zip(rows[0], rows[1], rows[third], strict=True):
        merged[a / h, b / h] = merged.get((a / h, b / h), Fraction(0)) + h
    found: dict[tuple[float, ...], float] = {}
    for a, b, h in classes:
        key = (round(float(a / h), 9), round(float(b / h), 9))
        found[key] = found.get(key, 0.0) + float(h)
    expected = {(round(float(a), 9), round(float(b), 9)): float(h) for (a, b), h in merged.items()}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("options", "length"), [(10**6, None), (10**6, 101), (128, None)])
def test_large_instances_have_curves(options: int, length: int | None) -> None:
    mechanism = LocalHash(2.0, options, length)
    epsilon = amplify(mechanism, 10_000, effort="quick").epsilon(1e-6)
    assert 0 < epsilon.lower <= epsilon.upper < 0.3


def test_many_options_are_estimated() -> None:
    """Two of 10^5 options are held: all errors are within six standard deviations (false alarm 2e-4)."""
    mechanism = LocalHash(1.0, 10**5)
    values = np.repeat([7, 99_999], 20_000)
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(4)))
    errors = (estimate.value - mechanism.truth(values)) / np.sqrt(mechanism.variance(values))
    assert np.abs(errors).max() < 6


def test_chunks_join() -> None:
    """Users beyond one chunk get messages too, all of them valid."""
    mechanism = LocalHash(1.0, 20)
    messages = mechanism.randomize(np.arange(20_000) % 20, SeededSource(np.random.default_rng(2)))
    assert messages.shape == (20_000,)
    assert messages.min() >= 0
    assert messages.max() < mechanism.hash_messages.messages
    assert len(np.unique(messages[-3000:])) > 50


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"epsilon": 0.0, "options": 3}, "LocalHash: epsilon must be above 0 and finite, got 0.0."),
        ({"epsilon": 1.0, "options": 1}, "LocalHash: options must be at least 2, got 1."),
        ({"epsilon": 1.0, "options": 9, "length": 1}, "LocalHash: length must be at least 2, got 1."),
        (
            {"epsilon": 1.0, "options": 9, "length": 8},
            "LocalHash: length must be a prime number such as 7 or 11, got 8.",
        ),
    ],
)
def test_bad_settings_are_refused(arguments: dict, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        LocalHash(**arguments)
    assert str(caught.value) == sentence


def test_settings_that_need_too_long_messages_are_refused() -> None:
    with pytest.raises(ValueError, match=r"LocalHash: options and length must give fewer than 2\^63 messages, got"):
        LocalHash(1.0, 10**18, 1_000_003)


def test_other_bytes_are_refused() -> None:
    mechanism = LocalHash(1.0, 5, 3)
    with pytest.raises(ValueError, match="LocalHash: expected messages below 27, got others"):
        mechanism.unpack(np.array([[27]], dtype=np.uint8))


def test_the_exact_protocol_is_below_the_blanket() -> None:
    """Two users, all datasets: the curve is an upper bound of the real divergence."""
    mechanism = LocalHash(2.0, 3, 2)
    rows = [list(row) for row in mechanism.table().probabilities]
    for ratio in (Fraction(9, 8), Fraction(3)):
        truth = exact_enumeration.worst_divergence(rows, 2, ratio)
        assert amplify(mechanism, 2, effort="quick").delta(math.log(ratio)).upper >= float(truth) * (1 - 1e-12)
