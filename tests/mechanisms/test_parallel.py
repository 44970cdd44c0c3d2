"""Parallel queries: a mixture of randomizers is a randomizer, and its worst case is made of theirs."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.mechanisms.combined._parallel_parts import Query
from shuffledp.mechanisms.combined.parallel import MixtureLaw, covering_parameters, mixture_pairs, normalize_weights
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.testing._mechanism_case import gain_law, gain_law_of_pair, is_below_in_convex_order
from tests.oracle import exact_enumeration
from tests.oracle.double_precision import delta_sound_float

RATIOS = (Fraction(21, 20), Fraction(3, 2))
MAX_INPUTS = 9

SINGLE = [
    pytest.param(example, id=f"{name}-{number}")
    for name, kind in all_mechanisms().items()
    for number, example in enumerate(kind.examples())
    if example.messages_per_user == 1 and example.has_table and math.isfinite(example.epsilon)
]


@dataclass(frozen=True)
class Vouching(Law):
    """A law whose every pair of inputs is among its blankets, so that it may vouch for them."""

    law: Law
    covers_mixtures = True

    def variation_ratio(self) -> sdp.VariationRatio:
        return self.law.variation_ratio()

    def blankets(self) -> Sequence[HidingPair]:
        return self.law.blankets()

    def attacks(self) -> Sequence[HidingPair]:
        return self.law.attacks()


@pytest.mark.parametrize("mechanism", SINGLE)
def test_what_covers_every_pair_in_convex_order(mechanism: Mechanism) -> None:
    """Every pair of inputs, equal ones included, is below one of the pairs that a mixture takes, exactly.

    For mechanisms that vouch for their blankets these, for all others the pair of the parameters.
    """
    rows = mechanism.table().probabilities[:MAX_INPUTS]
    floor = [min(column) for column in zip(*mechanism.table().probabilities, strict=True)]
    pairs = [covering_parameters(mechanism.law).pair(0.0)]
    if mechanism.law.covers_mixtures:
        pairs = [way for pair in mechanism.blankets() for way in (pair, pair.swapped())]
    for ratio in RATIOS:
        covers = [gain_law_of_pair(pair, ratio) for pair in pairs]
        for a, b in itertools.product(rows, repeat=2):
            law = gain_law(a, b, floor, ratio)
            assert any(is_below_in_convex_order(law, cover) for cover in covers)


def test_the_order_can_fail() -> None:
    """The check above is able to say no: a milder pair does not cover a stronger one, nor another mean."""
    mild, strong = sdp.KRR(0.5, 3).blankets()[0], sdp.KRR(1.0, 3).blankets()[0]
    ratio = Fraction(6, 5)
    assert not is_below_in_convex_order(gain_law_of_pair(strong, ratio), gain_law_of_pair(mild, ratio))
    assert is_below_in_convex_order(gain_law_of_pair(mild, ratio), gain_law_of_pair(strong, ratio))
    assert not is_below_in_convex_order(gain_law_of_pair(mild, ratio), gain_law_of_pair(mild, Fraction(5, 4)))


def test_the_bound_on_the_mean_variation_against_a_hand_sum() -> None:
    """β̄ is the weighted sum of the queries' total variations, and δ is that of an independent evaluation."""
    made = sdp.Parallel([sdp.KRR(1.0, 4), sdp.KRR(1.0, 32)], [1, 3])
    e = math.e
    beta = 0.25 * (e - 1) / (e + 3) + 0.75 * (e - 1) / (e + 31)
    assert made.variation_ratio().beta == pytest.approx(beta, rel=1e-12)
    value = sdp.amplify(made, 5_000, bound="variation-ratio").epsilon(1e-5).upper
    assert delta_sound_float(e, beta, e, e, 5_000, value) == pytest.approx(1e-5, rel=1e-5)
    assert sdp.amplify(made, 5_000, effort="quick").epsilon(1e-5).upper < value


def test_a_hierarchy_by_hand_is_the_ready_one() -> None:
    """Randomized responses on the levels of a tree, uniformly drawn: the numbers of RangeQueries."""
    by_hand = sdp.Parallel([sdp.KRR(1.0, 1 << level) for level in range(1, 7)])
    ready = sdp.RangeQueries(1.0, 6)
    for bound in ("variation-ratio", "optimal"):
        ours = sdp.amplify(by_hand, 10_000, bound=bound).epsilon(1e-6).upper
        assert ours == pytest.approx(sdp.amplify(ready, 10_000, bound=bound).epsilon(1e-6).upper, rel=1e-7)


def test_one_query_is_the_mechanism_itself() -> None:
    """Nothing is gained or lost."""
    once = sdp.amplify(sdp.Parallel([sdp.KRR(2.0, 8)]), 1_000, effort="quick").epsilon(1e-5).upper
    assert once == pytest.approx(sdp.amplify(sdp.KRR(2.0, 8), 1_000, effort="quick").epsilon(1e-5).upper, rel=1e-9)


def test_a_query_whose_law_cannot_be_written_down() -> None:
    """A vector in the unit ball beside a category: there is no table, everything else works."""
    made = sdp.Parallel([sdp.PrivUnit(2.0, dimension=4), sdp.KRR(2.0, 3)], [2, 1])
    assert not made.has_table
    rng = np.random.default_rng(8)
    vectors = np.tile([0.6, 0.0, -0.8, 0.0], (20_000, 1))
    found = made.estimate(made.encode([vectors, np.ones(20_000, dtype=np.int64)], rng=rng))
    vector, counts = made.queries(found)
    # Seven numbers within 5.5 estimated errors: a false alarm has a chance of about 3e-7.
    assert (np.abs(vector.value - vectors[0]) < 5.5 * vector.standard_error).all()
    assert (np.abs(counts.value - [0, 20_000, 0]) < 5.5 * counts.standard_error).all()
    assert sdp.amplify(made, 20_000, effort="quick").epsilon(1e-6).upper < 2.0


def test_parallel_queries_nest() -> None:
    """A query may itself be several: the law is that of all of them with the product of the weights."""
    inner = sdp.Parallel([sdp.KRR(1.0, 4), sdp.OUE(1.0, 3)], [1, 2])
    nested = sdp.Parallel([inner, sdp.KRR(0.5, 2)], [3, 1])
    flat = sdp.Parallel([sdp.KRR(1.0, 4), sdp.OUE(1.0, 3), sdp.KRR(0.5, 2)], [1, 2, 1])
    assert nested.law.covers_mixtures
    for bound in ("variation-ratio", "optimal"):
        values = [sdp.amplify(made, 1_000, bound=bound).epsilon(1e-5).upper for made in (nested, flat)]
        assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_every_combination_of_lopsided_pairs() -> None:
    """Parts with several pairs that differ by direction: the mixtures reach the worst of all pairs of the whole."""
    tables = ([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.1, 0.6, 0.3]], [[0.7, 0.3], [0.4, 0.6]])
    parts = [sdp.FromTable(np.array(table)) for table in tables]
    made = sdp.Parallel(parts, [2, 1])
    assert isinstance(made.law, MixtureLaw)
    assert not made.law.covers_mixtures
    law = MixtureLaw(tuple(Vouching(part) for part in made.law.laws), made.shares)
    assert law.covers_mixtures
    rows = made.table().probabilities
    floor = [min(column) for column in zip(*rows, strict=True)]
    pairs = law.blankets()
    assert len(pairs) > 1
    for users, ratio in ((1, Fraction(5, 4)), (2, Fraction(11, 10)), (3, Fraction(21, 20))):
        truth = Fraction(0)
        for a, b in itertools.permutations(rows, 2):
            values = gain_law(a, b, floor, ratio)
            mean = exact_enumeration.positive_part_mean(list(values), list(values.values()), users)
            truth = max(truth, mean / users)
        epsilon = math.log(ratio)
        ways = [way for pair in pairs for way in ([pair] if pair.symmetric else [pair, pair.swapped()])]
        claimed = max(PositivePartMean(way.law, users).bracket(epsilon).upper_float() for way in ways)
        assert claimed == pytest.approx(float(truth), rel=1e-9)


def test_too_many_combinations_fall_back_to_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what is looked at one by one the parameters' pair stands in: one pair, not below the true one."""
    parts = [Vouching(sdp.FromTable(np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])).law)] * 2
    shares = normalize_weights("test", None, 2)
    full = mixture_pairs(parts, shares)
    monkeypatch.setattr("shuffledp.mechanisms.combined.parallel.MAX_COMBINATIONS", 2)
    (simple,) = mixture_pairs(parts, shares)

    def worst(pairs: Any) -> float:
        ways = [way for pair in pairs for way in (pair, pair.swapped())]
        return max(PositivePartMean(way.law, 3).bracket(0.1).upper_float() for way in ways)

    assert worst([simple]) >= worst(full)


def test_attacks_are_real_datasets() -> None:
    """For two and three users, the attack attains no more than the worst dataset, and something."""
    made = sdp.Parallel([sdp.KRR(1.0, 3), sdp.KRR(1.0, 2)])
    rows = [list(row) for row in made.table().probabilities]
    for users in (2, 3):
        truth = exact_enumeration.worst_divergence(rows, users, Fraction(9, 8))
        attained = sdp.amplify(made, users, effort="quick").delta(math.log(9 / 8)).lower
        assert attained is not None
        assert 0 < attained <= float(truth) * (1 + 1e-12)


# --- estimates ----------------------------------------------------------------------------------------------------


def columns(users: int, rng: np.random.Generator) -> list[Any]:
    return [rng.integers(0, 8, users) ** 2 // 8, rng.random(users) ** 2, rng.uniform(-1, 1, (users, 3))]


@pytest.mark.exhaustive
def test_end_to_end_estimates_lie_within_their_error() -> None:
    """Counts, a mean and a vector mean from one collection: 12 numbers within 5.5 exact errors (false alarm 5e-7)."""
    made = sdp.Parallel([sdp.KRR(2.0, 8), sdp.Laplace(2.0), sdp.Harmony(2.0, 3)], [5, 3, 2])
    rng = np.random.default_rng(20_240_513)
    values = columns(40_000, rng)
    wire = made.pack(made.encode(values, rng=rng))
    found = made.estimate(made.unpack(wire))
    few = [column[:400] for column in values]
    assert (np.abs(found.value - made.truth(values)) <= 5.5 * np.sqrt(made.variance(values))).all()
    counts, mean, vector = made.queries(found)
    assert (counts.value.shape, mean.value.shape, vector.value.shape) == ((8,), (1,), (3,))
    np.testing.assert_allclose(counts.value, found.value[:8])
    # The estimated variance is near the exact one, or above it where a mean's users are taken at the extreme.
    exact_variance = made.variance(values)
    np.testing.assert_allclose(counts.variance, exact_variance[:8], rtol=0.1)
    assert (found.variance[8:] >= 0.9 * exact_variance[8:]).all()
    assert made.truth(few).shape == (12,)


def test_queries_are_drawn_by_their_weights() -> None:
    """60,000 users, weights 1 : 2 : 3, within 6 deviations (4e-9 a query)."""
    made = sdp.Parallel([sdp.KRR(1.0, 2)] * 3, [1, 2, 3])
    assert made.shares == (Fraction(1, 6), Fraction(1, 3), Fraction(1, 2))
    messages = made.encode([np.zeros(60_000, dtype=np.int64)] * 3, rng=np.random.default_rng(3))
    counts = np.bincount(messages[:, 0], minlength=3)
    for count, share in zip(counts, (1 / 6, 1 / 3, 1 / 2), strict=True):
        assert abs(count - 60_000 * share) < 6 * math.sqrt(60_000 * share * (1 - share))


def test_what_a_mechanism_estimates_is_found_out() -> None:
    """Sums, counts and means are told apart by what the truth does when users double."""

    def query(mechanism: Mechanism) -> Query:
        return sdp.Parallel([mechanism, mechanism]).estimator.queries[0]

    assert query(sdp.KRR(1.0, 3)).is_count
    assert query(sdp.PrivSet(1.0, 6, 2)).is_count
    assert query(sdp.Laplace(1.0)).is_mean
    assert query(sdp.Piecewise(1.0)).is_mean
    assert query(sdp.Duchi(1.0, 2)).is_mean
    key_value = query(sdp.PCKV(1.0, 4, 1))
    assert not key_value.is_mean
    assert not key_value.is_count


def test_weights_are_exact_and_sum_to_one() -> None:
    """Whole numbers and fractions as they are; floats too; what is too long is rounded and still sums to 1."""
    assert normalize_weights("test", [1, Fraction(1, 3)], 2) == (Fraction(3, 4), Fraction(1, 4))
    decimal = normalize_weights("test", [0.7, 0.2, 0.1], 3)
    assert sum(decimal) == 1
    assert decimal[0] == Fraction(0.7) / (Fraction(0.7) + Fraction(0.2) + Fraction(0.1))
    long = normalize_weights("test", [math.pi, 1e-30, math.e], 3)
    assert sum(long) == 1
    assert long[1] == Fraction(1, 1 << 62)
    assert float(long[0]) == pytest.approx(math.pi / (math.pi + math.e))


def test_what_it_is_made_of_is_data() -> None:
    """The same queries give equal parts, which survive being sent elsewhere; a plan's settings say every weight."""
    made, again = (sdp.Parallel([sdp.KRR(1.0, 3), sdp.KRR(2.0, 4)]) for _ in range(2))
    assert made.settings()["weights"] == (Fraction(1, 2), Fraction(1, 2))
    assert sdp.Parallel(**made.settings()) == made
    other = sdp.Parallel([sdp.KRR(1.0, 3), sdp.KRR(2.0, 4)], [1, 2])
    for name in ("domain", "encoding", "estimator"):
        part = getattr(made, name)
        assert part == getattr(again, name)
        assert pickle.loads(pickle.dumps(part)) == part
    assert made.estimator != other.estimator
    messages = made.encode([[0, 1, 2], [3, 2, 1]], rng=np.random.default_rng(4))
    sent = pickle.loads(pickle.dumps(made.estimator))
    np.testing.assert_array_equal(sent.accumulate(messages), made.accumulate(messages))


def test_the_law_says_what_its_parts_say() -> None:
    """Only where every part vouches for its pairs does the whole; it is tight only where all are."""
    krr, table = sdp.KRR(1.0, 3), sdp.FromTable(np.array([[0.7, 0.3], [0.4, 0.6]]))
    assert sdp.Parallel([krr, krr]).law.covers_mixtures
    assert sdp.Parallel([krr, krr]).law.tight
    assert not sdp.Parallel([krr, table]).law.covers_mixtures
    assert not sdp.Parallel([krr, table]).law.tight
    assert not sdp.Parallel([krr, sdp.Compressed(krr)]).law.tight


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanisms", "weights", "sentence"),
    [
        ([], None, "expected 1 to 256 mechanisms"),
        (sdp.KRR(1.0, 3), None, "expected 1 to 256 mechanisms"),
        ([sdp.KRR], None, "expected mechanisms such as"),
        ([sdp.FromTable(np.array([[1.0, 0.0], [0.5, 0.5]]))], None, "finite local epsilon"),
        ([sdp.PureDUMP(options=4)], None, "must send one message a user"),
        ([sdp.KRR(1.0, 3)], [1, 2], "a weight for each of 1 mechanisms, got 2"),
        ([sdp.KRR(1.0, 3)], [0], "weights must be above 0"),
        ([sdp.KRR(1.0, 3)], [math.nan], "weights must be finite numbers"),
        ([sdp.KRR(1.0, 3)], ["x"], "weights must be finite numbers"),
    ],
)
def test_bad_settings_are_a_sentence(mechanisms: Any, weights: Any, sentence: str) -> None:
    """Raised where the object is built."""
    with pytest.raises((ValueError, TypeError), match=sentence):
        sdp.Parallel(mechanisms, weights)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([[0, 1]], "a column of values for each of 2 queries, got 1"),
        ([[0, 1], [0]], "columns of one length"),
        ([[0, 5], [0, 1]], "query 0: KRR: values must be from 0 to 2, got 5"),
        (np.array([[0.5, 1.0]]), "query 0: KRR: values must be whole numbers"),
        (np.array([[0, 1, 1]]), "rows of 2 numbers"),
    ],
)
def test_bad_values_are_a_sentence(values: Any, sentence: str) -> None:
    """Nothing is partly encoded."""
    with pytest.raises((ValueError, TypeError), match=f"Parallel: .*{sentence}"):
        sdp.Parallel([sdp.KRR(1.0, 3), sdp.KRR(1.0, 2)]).encode(values)


@pytest.mark.parametrize("row", [[2, 0, 0], [0, 1, 1], [0, 3, 0]])
def test_bytes_that_are_no_message_are_refused(row: list[int]) -> None:
    """An unknown query, a message with something behind it, a message of another mechanism."""
    made = sdp.Parallel([sdp.KRR(1.0, 3), sdp.KRR(1.0, 300)])
    with pytest.raises(
        ValueError, match="Parallel: expected messages of queries below 2, with zeros after them, got others"
    ):
        made.unpack(np.array([row], dtype=np.uint8))


def test_a_query_nobody_answered() -> None:
    """Its estimate is 0, which is unbiased over the draw, and its variance is not known."""
    made = sdp.Parallel([sdp.KRR(1.0, 3), sdp.Laplace(1.0)])
    counts, mean = made.queries(made.estimate(np.array([[0, 1, 0, 0]], dtype=np.uint8)[:, : made.message_bytes]))
    assert np.isfinite(counts.variance).all()
    assert mean.value == 0
    assert np.isinf(mean.variance).all()


def test_what_a_query_assumes_all_assume() -> None:
    """A compressed query is private only if its generator is; the curve of all queries says so, once."""
    compressed = sdp.Compressed(sdp.RAPPOR(1.0, 4))
    note = sdp.amplify(sdp.Parallel([compressed, sdp.KRR(1.0, 3), compressed]), 100, effort="quick").note
    assert note == compressed.assumption
    assert sdp.amplify(sdp.Parallel([sdp.KRR(1.0, 3), sdp.KRR(1.0, 2)]), 100, effort="quick").note == ""
