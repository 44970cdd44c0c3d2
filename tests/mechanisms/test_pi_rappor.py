"""PI-RAPPOR: both variants, the prime, the closed forms and the fast decoding, each against enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.frequency.pi_rappor import DELETION, PIRAPPOR, REPLACEMENT
from shuffledp.sampling import hashing
from tests.mechanisms.test_own_region import divergence

SMALL = [
    PIRAPPOR(1.0, 5, prime=5),
    PIRAPPOR(0.3, 2, prime=13),
    PIRAPPOR(0.3, 3, prime=13),
    PIRAPPOR(0.2, 4, prime=23),
    PIRAPPOR(2.0, 4, DELETION, 11),
    PIRAPPOR(0.5, 5, DELETION, 19),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=str)
def test_the_algorithm_as_printed_has_this_law(mechanism: PIRAPPOR) -> None:
    """Algorithm 2 of [LC], all its draws enumerated: the table's probabilities exactly."""
    prime, arc = mechanism.field_size, mechanism.arc
    a0 = Fraction(math.ceil(prime / (math.exp(_bit_epsilon(mechanism)) + 1)), prime)
    a1 = Fraction(1, 2) if mechanism.variant == REPLACEMENT else 1 - a0
    assert a0 == Fraction(arc, prime)
    for x, row in enumerate(mechanism.table().probabilities):
        law = [Fraction(0)] * prime**2
        for slope in range(prime):
            for height in range(prime):
                offset = (height - x * slope) % prime
                chance = a1 / arc if height < arc else (1 - a1) / (prime - arc)
                law[slope * prime + offset] += chance / prime
        assert list(row) == law


def _bit_epsilon(mechanism: PIRAPPOR) -> float:
    return mechanism.epsilon if mechanism.variant == REPLACEMENT else mechanism.epsilon / 2


@pytest.mark.parametrize("mechanism", SMALL, ids=str)
def test_lines_through_every_region_are_counted(mechanism: PIRAPPOR) -> None:
    """The closed form against all lines."""
    lines = np.arange(mechanism.field_size**2)
    every = np.logical_and.reduce(
        [mechanism.proposal.in_response_set(np.full_like(lines, x), lines) for x in range(mechanism.options)]
    )
    assert mechanism._common_line_count == every.sum()


@pytest.mark.parametrize("mechanism", SMALL, ids=str)
def test_the_attack_is_the_divergence_of_a_real_dataset(mechanism: PIRAPPOR) -> None:
    """From the table: options 0 and 2 where all others hold 1; with two options, 0 and 1 where they hold 0."""
    rows = mechanism.table().probabilities
    first, second, third = (rows[0], rows[2], rows[1]) if len(rows) > 2 else (rows[0], rows[1], rows[0])
    (attack,) = mechanism.attacks()
    assert attack.exact is not None
    classes = [tuple(Fraction(int(p.p), int(p.q)) for p in triple) for triple in attack.exact]
    for users, ratio in ((2, Fraction(9, 8)), (3, Fraction(5, 4))):
        claimed = divergence(*([c[i] for c in classes] for i in range(3)), users, ratio)
        assert claimed == divergence(first, second, third, users, ratio)


def test_the_deletion_variant_takes_the_deletion_epsilon() -> None:
    """Every law is within e^ε of the uniform one, two laws within e^{2ε}, which is what is amplified."""
    mechanism = PIRAPPOR.deletion(1.0, 5, 101)
    assert mechanism.epsilon == 2.0
    assert mechanism.estimator.false_support == Fraction(math.ceil(101 / (math.e + 1)), 101)
    assert mechanism.estimator.true_support == 1 - mechanism.estimator.false_support
    a0 = float(mechanism.estimator.false_support)
    assert mechanism.proposal.deletion_epsilon == pytest.approx(math.log((1 - a0) / a0), rel=1e-14)
    assert mechanism.proposal.deletion_epsilon <= 1.0
    assert mechanism.variation_ratio().p == pytest.approx(((1 - a0) / a0) ** 2, rel=1e-14)
    uniform = Fraction(1, 101**2)
    for row in mechanism.table().probabilities:
        assert max(max(row) / uniform, uniform / min(row)) <= Fraction(
            math.exp(mechanism.proposal.deletion_epsilon) * (1 + 1e-14)
        )


@pytest.mark.parametrize(("epsilon", "options"), [(1.0, 1024), (0.1, 1024), (5.0, 1024), (2.0, 10), (8.0, 3)])
@pytest.mark.parametrize("variant", [REPLACEMENT, DELETION])
def test_the_prime_costs_at_most_one_percent(epsilon: float, options: int, variant: str) -> None:
    """Total variance of the executed law against that with a real arc of exactly 1/(e^ε+1) of the circle."""
    mechanism = PIRAPPOR(epsilon, options, variant)
    a0 = 1 / (math.exp(_bit_epsilon(mechanism)) + 1)
    a1 = 0.5 if variant == REPLACEMENT else 1 - a0
    ideal = (1 - a0 - a1) / (a1 - a0) + options * a0 * (1 - a0) / (a1 - a0) ** 2
    assert mechanism.field_size >= options
    assert mechanism.variance(np.zeros(1000, dtype=np.int64)).sum() <= 1000 * ideal * 1.0101
    assert mechanism.message_bits == 2 * math.ceil(math.log2(mechanism.field_size))


def test_the_variance_is_that_of_the_lemma() -> None:
    """[LC] Lemma B.2, for options held by many, few and no users."""
    mechanism = PIRAPPOR(1.5, 6, prime=47)
    values = np.repeat([0, 1, 2], [700, 20, 1])
    a0, a1 = float(mechanism.estimator.false_support), float(mechanism.estimator.true_support)
    counts = np.array([700, 20, 1, 0, 0, 0])
    lemma = counts * (1 - a0 - a1) / (a1 - a0) + 721 * a0 * (1 - a0) / (a1 - a0) ** 2
    np.testing.assert_allclose(mechanism.variance(values), lemma, rtol=1e-12)


@pytest.mark.parametrize("mechanism", [PIRAPPOR(1.0, 300), PIRAPPOR(3.0, 50, DELETION), PIRAPPOR(0.1, 7)], ids=str)
def test_the_fast_decoding_equals_the_naive_one(mechanism: PIRAPPOR) -> None:
    """Whole histogram by windows, line by line, one option at a time, and by plain loops: the same numbers."""
    rng = np.random.default_rng(11)
    messages = mechanism.encode(rng.integers(0, mechanism.options, 3000), rng=rng)
    prime, arc, options = mechanism.field_size, mechanism.arc, mechanism.options
    plain = np.zeros(options, dtype=np.int64)
    for message in messages:
        slope, offset = divmod(int(message), prime)
        plain += (offset + slope * np.arange(options)) % prime < arc
    counts = np.bincount(messages, minlength=prime**2)
    np.testing.assert_array_equal(hashing.line_supports_of_counts(counts, prime, arc, options), plain)
    np.testing.assert_array_equal(hashing.supports_of_lines(messages, prime, arc, options), plain)
    whole = mechanism.estimate(messages)
    asked = np.array([options - 1, 0, 1])
    np.testing.assert_array_equal(hashing.supports_of_line_options(messages, prime, arc, asked), plain[asked])
    some = mechanism.estimate_some(messages, asked)
    assert some.value.tolist() == whole.value[asked].tolist()
    assert some.variance.tolist() == whole.variance[asked].tolist()


def test_large_primes_are_decoded_line_by_line() -> None:
    """Too many lines to count: the statistic is per option, and adds up as well (six standard errors)."""
    mechanism = PIRAPPOR(1.0, 100, prime=1_000_003)
    assert not mechanism.estimator.counts_messages
    values = np.repeat(np.arange(100), 30)
    messages = mechanism.encode(values, rng=np.random.default_rng(8))
    np.testing.assert_array_equal(mechanism.unpack(mechanism.pack(messages)), messages)
    parts = mechanism.accumulate(messages[:1000]) + mechanism.accumulate(messages[1000:])
    estimate = mechanism.finish(parts, len(messages))
    np.testing.assert_array_equal(estimate.value, mechanism.estimate(messages).value)
    assert (np.abs(estimate.value - 30) < 6 * estimate.standard_error).all()


def test_bounds_apply_to_a_large_instance() -> None:
    """The blanket and an attack, for 1024 options and a million users."""
    for mechanism in (PIRAPPOR(2.0, 1024), PIRAPPOR.deletion(1.0, 1024)):
        value = amplify(mechanism, 1_000_000, effort="quick").epsilon(1e-8)
        assert value.lower is not None
        assert 0 < value.lower <= value.upper < 0.05


def test_bad_settings_are_refused() -> None:
    """Each with one sentence."""
    with pytest.raises(ValueError, match=r"^PIRAPPOR: variant must be replacement or deletion, got 'both'\.$"):
        PIRAPPOR(1.0, 5, "both")
    with pytest.raises(ValueError, match=r"^PIRAPPOR: prime must be at least 10, got 7\.$"):
        PIRAPPOR(1.0, 10, prime=7)
    with pytest.raises(ValueError, match=r"^PIRAPPOR: prime must be below 2\^31, got 2147483659\.$"):
        PIRAPPOR(1.0, 10, prime=2_147_483_659)
    with pytest.raises(ValueError, match=r"^PIRAPPOR: options must be below 2\^31"):
        PIRAPPOR(1.0, 2**31)
    with pytest.raises(
        ValueError, match=r"^PIRAPPOR: epsilon is too small for the 7 numbers modulo the prime, got 0\.01"
    ):
        PIRAPPOR(0.01, 5, prime=7)
    with pytest.raises(ValueError, match=r"^PIRAPPOR: epsilon is too small for the .* got 1e-15\.$"):
        PIRAPPOR(1e-15, 5)
    mechanism = PIRAPPOR(1.0, 5, prime=5)
    with pytest.raises(
        ValueError, match=r"^PIRAPPOR: expected numbers below the prime 5, got others in 1 of 1 rows\.$"
    ):
        mechanism.unpack(np.array([[6]], dtype=np.uint8))
    with pytest.raises(ValueError, match=r"^PIRAPPOR: values must be from 0 to 4, got 5\.$"):
        mechanism.estimate_some(np.array([1, 2]), [5])
    with pytest.raises(ValueError, match=r"^PIRAPPOR: expected at least one message"):
        mechanism.estimate_some(np.array([], dtype=np.int64), [1])
