"""The sound variation-ratio bound against brute force: no dataset, pair of inputs or randomizer is above it."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from random import Random

import pytest
from mpmath import mp, mpf

from shuffledp import VariationRatio, amplify
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from tests.oracle.exact_enumeration import (
    Row,
    Table,
    add_one_message,
    hockey_stick,
    hockey_stick_of_counts,
    krr_table,
    positive_part_mean,
    random_extremal_table,
    random_table,
    shuffled_divergence,
    shuffled_law,
    variation_ratio_of_table,
    worst_divergence,
)
from tests.oracle.highprecision import delta_published, delta_sound

from .rounded_parameters import epsilon_below, float_above, rounded_parameters

RATIOS = (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(4))


def upper(parameters: VariationRatio, users: int, ratio: Fraction, bound: str = "variation-ratio") -> Fraction:
    """The bound's δ at an ε with e^ε at most the ratio: it must be at least every divergence at the ratio."""
    return Fraction(amplify(parameters, users, bound=bound).delta(epsilon_below(ratio)).upper)


def all_divergences(
    victim: tuple[Row, Row], others: list[list[Row]], ratio: Fraction
) -> list[tuple[Fraction, Fraction]]:
    """Both directions for every choice of one law for each other user."""
    result = []
    for rows in product(*others):
        crowd = shuffled_law(list(rows), len(victim[0]))
        first, second = (add_one_message(crowd, row) for row in victim)
        result.append((hockey_stick(first, second, ratio), hockey_stick(second, first, ratio)))
    return result


def check_table(table: Table, users: int) -> None:
    """Every dataset, ordered pair and ratio is at most the bound with plain, minimal-common and unequal ratios."""
    datasets = list(combinations_with_replacement(range(len(table)), users - 1))
    crowds = [shuffled_law([table[value] for value in others], len(table[0])) for others in datasets]
    for x0, x1 in permutations(range(len(table)), 2):
        if table[x0] == table[x1]:
            continue
        for ratio in RATIOS:
            laws = [(add_one_message(crowd, table[x0]), add_one_message(crowd, table[x1])) for crowd in crowds]
            worst = max(hockey_stick(first, second, ratio) for first, second in laws)
            for common, unequal in product((False, True), repeat=2):
                stated = rounded_parameters(table[x0], table[x1], table, common=common, unequal=unequal)
                assert worst <= upper(stated, users, ratio), (table, x0, x1, users, ratio, common, unequal)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("users", [1, 2, 3])
def test_random_tables_are_bounded(seed: int, users: int) -> None:
    """Random tables on three inputs: every dataset, pair, direction and ratio is at most the stated bound."""
    check_table(random_table(Random(seed), 3, 3), users)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("users", [2, 3, 4])
def test_extremal_tables_are_bounded(seed: int, users: int) -> None:
    """The same for tables with two values a column, which come close to the bound."""
    rng = Random(100 + seed)
    check_table(random_extremal_table(rng, 2 + seed % 2, 3, rng.choice((2, 3, 8))), users)


@pytest.mark.parametrize("seed", range(4))
def test_more_users_are_bounded(seed: int) -> None:
    """Five users with random and extremal tables on three inputs."""
    rng = Random(200 + seed)
    check_table(random_table(rng, 3, 3) if seed % 2 else random_extremal_table(rng, 3, 3, 4), 5)


@pytest.mark.parametrize("seed", range(12))
def test_users_with_different_randomizers_are_bounded(seed: int) -> None:
    """Each other user runs its own table and may hold any input; user 1's laws have zeros (p = ∞) in half the cases."""
    rng = Random(300 + seed)
    outputs, users = 3, rng.choice((2, 3, 4))
    first, second = random_table(rng, 2, outputs)
    if seed % 2:
        first = [Fraction(0), *random_table(rng, 1, outputs - 1)[0]]
        second = [Fraction(1, 3), Fraction(2, 3), Fraction(0)]
    others = [random_table(rng, 2, outputs) for _ in range(users - 1)]
    rows = [row for table in others for row in table]
    for ratio in RATIOS:
        worst = max(max(both) for both in all_divergences((first, second), others, ratio))
        for common, unequal in product((False, True), repeat=2):
            stated = rounded_parameters(first, second, rows, common=common, unequal=unequal)
            assert math.isinf(stated.p) == bool(seed % 2)
            assert worst <= upper(stated, users, ratio)


@pytest.mark.parametrize("seed", range(10))
def test_an_overestimated_parameter_is_sound(seed: int) -> None:
    """The true laws stay below the bound when p, β, q or q_common are stated too large, alone or together."""
    rng = Random(400 + seed)
    table, users = random_table(rng, 2, 3), 3
    true = rounded_parameters(table[0], table[1], table, common=True, unequal=bool(seed % 2))
    q0, q1 = true.q_pair
    assert true.q_common is not None
    for ratio in RATIOS:
        worst = max(
            max(shuffled_divergence([table] * users, *pair, others, ratio) for pair in ((0, 1), (1, 0)))
            for others in combinations_with_replacement(range(2), users - 1)
        )
        for more_p, more_beta, more_q, more_common in product((False, True), repeat=4):
            p = true.p * 3 if more_p else true.p
            most = (p - 1) / (p + 1)
            beta = (true.beta + most) / 2 if more_beta else true.beta
            scale = 1.7 if more_q else 1.0
            # q_common was minimal for the stated p: a larger p makes the common part larger, so state q there.
            common = max(q0, q1) * scale if more_p or more_common else true.q_common * scale
            try:
                stated = VariationRatio(p, beta, (q0 * scale, q1 * scale), q_common=common)
            except ValueError as error:
                assert more_beta, error  # noqa: PT017
                continue
            assert worst <= upper(stated, users, ratio)


@pytest.mark.parametrize(
    ("p", "beta", "q0", "q1", "q_common"),
    [
        (3.0, 0.25, 3.0, 3.0, 3.0),
        (3.0, 0.25, 3.0, 3.0, 1.0),
        (8.0, 0.5, 4.0, 4.0, 2.0),
        (math.inf, 0.5, 4.0, 4.0, 4.0),
        (math.inf, 1.0, 4.0, 2.0, 4.0),
        (5.0, 0.4, 2.0, 5.0, 2.0),
        (1.25, 0.0625, 1.25, 1.25, 1.25),
    ],
)
@pytest.mark.parametrize("users", [1, 2, 6])
@pytest.mark.parametrize("epsilon", [0.0, 0.125, 0.75])
def test_it_equals_the_reduction_at_small_n(
    p: float, beta: float, q0: float, q1: float, q_common: float, users: int, epsilon: float
) -> None:
    """δ equals the direct sum over all counts at 50 digits, to 1e-12, from above; slack covers the rest."""
    parameters = VariationRatio(p, beta, (q0, q1), q_common=q_common)
    value = amplify(parameters, users, bound="variation-ratio").delta(epsilon)
    with mp.workdps(50):
        exact = max(delta_sound(p, beta, *q, q_common, users, epsilon) for q in ((q0, q1), (q1, q0)))
        raised = any(pair.raised_q1(epsilon) is not None for pair in (parameters, parameters.swapped()))
        assert mpf(value.upper) >= exact
        if not raised or (math.isinf(p) and beta == 1):
            assert abs(mpf(value.upper) - exact) <= mpf("1e-12") * max(exact, mpf("1e-3"))
            assert mpf(value.upper) - mpf(value.slack) <= exact


def test_it_equals_the_counts_in_fractions() -> None:
    """At ε = 0 everything is rational: δ is the exact divergence of the counts, rounded up."""
    p, beta, q, q_common = Fraction(5), Fraction(1, 2), Fraction(4), Fraction(2)
    alpha = beta / (p - 1)
    gamma, r = 1 - alpha - p * alpha, p * alpha / q
    first, second = [p * alpha, alpha, gamma], [alpha, p * alpha, gamma]
    for users in (1, 2, 5, 9):
        exact = hockey_stick_of_counts(first, second, [r, r, gamma / q_common], users, 1)
        value = amplify(VariationRatio(5.0, 0.5, 4.0, q_common=2.0), users, bound="variation-ratio").delta(0.0)
        assert exact <= Fraction(value.upper) <= exact * (1 + Fraction(1, 10**14))
        assert Fraction(value.upper) - Fraction(value.slack) <= exact


def test_the_published_theorem_is_below_the_truth_and_ours_is_not() -> None:
    """Four options, e^ε0 = 2, n = 10, the others on option 3, e^ε = 3/2: 0.00094 published, 0.00113 true."""
    table, users, ratio = krr_table(4, 2), 10, Fraction(3, 2)
    true = shuffled_divergence([table] * users, 0, 1, [3] * 9, ratio)
    assert round(float(true), 10) == 0.0011326976
    for q_common in (None, 1.0):
        parameters = VariationRatio(2.0, float_above(Fraction(1, 5)), 2.0, q_common=q_common)
        published = amplify(parameters, users, bound="variation-ratio-published")
        assert round(published.delta(math.log(1.5)).upper, 10) == 0.0009434624
        assert Fraction(published.delta(math.log(1.5)).upper) < true
        assert not published.guarantee
        assert upper(parameters, users, ratio) >= true
        assert upper(parameters, users, ratio, "best") >= true


@pytest.mark.parametrize(
    ("p", "users", "ratio", "true", "published", "sound", "blanket"),
    [
        (3, 6, Fraction(2), 0.012924, 0.009838, 0.033016, 0.015668),
        (8, 6, Fraction(3), 0.190393, 0.189775, 0.248705, 0.193026),
        (4, 7, Fraction(5, 4), 0.165289, 0.165262, 0.165842, 0.165298),
    ],
)
def test_small_cases_of_randomized_response(
    p: int, users: int, ratio: Fraction, true: float, published: float, sound: float, blanket: float
) -> None:
    """Known values on four options: true worst dataset, published, sound with q_common = q and = 1."""
    beta = float_above(Fraction(p - 1, p + 3))
    epsilon = math.log(ratio)
    plain = VariationRatio(float(p), beta, float(p))
    shared = VariationRatio(float(p), beta, float(p), q_common=1.0)
    assert round(amplify(plain, users, bound="variation-ratio-published").delta(epsilon).upper, 6) == published
    assert round(amplify(plain, users, bound="variation-ratio").delta(epsilon).upper, 6) == sound
    assert round(amplify(shared, users, bound="variation-ratio").delta(epsilon).upper, 6) == blanket
    worst = worst_divergence(krr_table(4, p), users, ratio)
    assert round(float(worst), 6) == true
    assert upper(plain, users, ratio) >= upper(shared, users, ratio) >= worst > Fraction(published)


def krr(epsilon_local: float, options: int, q_common: float | None = None) -> VariationRatio:
    """Randomized response by its parameters."""
    p = math.exp(epsilon_local)
    return VariationRatio(p, (p - 1) / (p + options - 1), p, q_common=q_common)


@pytest.mark.parametrize(
    ("epsilon_local", "published", "sound", "blanket", "clone"),
    [(1.0, 0.03562, 0.03572, 0.03563, 0.0825), (3.0, 0.32653, 0.33386, 0.32675, 0.436)],
)
def test_the_cost_of_soundness(
    epsilon_local: float, published: float, sound: float, blanket: float, clone: float
) -> None:
    """Randomized response on 16 options, n = 3000, δ = 1e-6: published, sound, blanket and any-LDP ε."""
    plain, shared = krr(epsilon_local, 16), krr(epsilon_local, 16, 1.0)
    assert round(amplify(plain, 3000, bound="variation-ratio-published").epsilon(1e-6).upper, 5) == published
    assert round(amplify(plain, 3000, bound="variation-ratio").epsilon(1e-6).upper, 5) == sound
    assert round(amplify(shared, 3000, bound="variation-ratio").epsilon(1e-6).upper, 5) == blanket
    assert amplify(plain, 3000, bound="stronger-clone").epsilon(1e-6).upper == pytest.approx(clone, abs=6e-4)


def test_a_published_epsilon_that_an_attack_exceeds() -> None:
    """16 options, ε0 = 5, n = 100, δ = 1e-4: published 3.990; all others on one third option attain 4.367."""
    parameters, users, delta = krr(5.0, 16), 100, 1e-4
    published = amplify(parameters, users, bound="variation-ratio-published")
    assert round(published.epsilon(delta).upper, 3) == 3.990
    assert not published.guarantee
    with mp.workdps(30):
        p = mp.exp(5)
        w = 1 / (p + 15)
        classes = [(p * w, w, w), (w, p * w, w), (w, w, p * w), (13 * w, 13 * w, 13 * w)]

        def attained(epsilon: float) -> mpf:
            """D of the counts of user 1's two options and the rest, by direct sum over the counts that matter."""
            gains = [((a - mp.exp(epsilon) * b) / h, h) for a, b, h in classes]
            total = mpf(0)
            for top in range(1, 14):
                for bottom in range(14):
                    for own in range(max(0, users - top - bottom - 20), users - top - bottom + 1):
                        rest = users - top - bottom - own
                        value = sum(k * g for k, (g, _) in zip((top, bottom, own, rest), gains, strict=True))
                        if value > 0:
                            ways = mp.factorial(users)
                            for k, (_, h) in zip((top, bottom, own, rest), gains, strict=True):
                                ways *= h**k / mp.factorial(k)
                            total += ways * value
            return total / users

        assert attained(4.3665) > delta
        assert attained(3.990) > delta
    assert amplify(parameters, users, bound="variation-ratio").epsilon(delta).upper >= 4.3665
    assert amplify(krr(5.0, 16, 1.0), users, bound="variation-ratio").epsilon(delta).upper >= 4.3665


@pytest.mark.parametrize(
    ("parameters", "guarantee"),
    [
        (VariationRatio.from_ldp(1.0), True),
        (VariationRatio(3.0, 0.5, 3.0), True),
        (VariationRatio(3.0, 0.5 * (1 - 1e-13), 3.0), True),
        (VariationRatio(3.0, 0.5 * (1 - 1e-11), 3.0), False),
        (VariationRatio(3.0, 0.1, 3.0), False),
        (VariationRatio(math.inf, 1.0, 3.0), True),
        (VariationRatio(math.inf, 0.9, 3.0), False),
        (VariationRatio(3.0, 0.0, 3.0), False),
    ],
)
def test_the_published_bound_is_a_guarantee_only_without_a_common_part(
    parameters: VariationRatio, guarantee: bool
) -> None:
    """``guarantee`` is False exactly where γ > 0; then the note says why and ``best`` never uses it."""
    curve = amplify(parameters, 50, bound="variation-ratio-published")
    assert curve.guarantee is guarantee
    assert curve.delta(0.1).guarantee is guarantee
    assert curve.epsilon(0.01).guarantee is guarantee
    assert bool(curve.note) is not guarantee
    assert ("not an upper bound" in curve.note) is not guarantee
    assert amplify(parameters, 50, bound="variation-ratio").guarantee is True
    assert amplify(parameters, 50, effort="quick").guarantee is True
    assert BOUNDS_BY_NAME["variation-ratio-published"].guarantees is False


def test_without_a_common_part_both_are_one() -> None:
    """At γ = 0 the published and the sound bound are the same number."""
    for parameters in (
        VariationRatio.from_ldp(2.0),
        VariationRatio(math.inf, 1.0, 16.0),
        VariationRatio(9.0, 0.8, 30.0),
    ):
        for users in (1, 7, 500, 10**5):
            one = amplify(parameters, users, bound="variation-ratio-published").delta(0.05)
            other = amplify(parameters, users, bound="variation-ratio").delta(0.05)
            assert one.upper == pytest.approx(other.upper, rel=1e-9)


def test_the_published_value_is_that_of_its_pair() -> None:
    """Both directions of the published pair, against a direct sum at 50 digits, q0 ≠ q1 included."""
    for p, beta, q0, q1 in [(3.0, 0.25, 3.0, 3.0), (9.0, 0.5, 3.0, 6.0), (math.inf, 0.5, 4.0, 2.0)]:
        parameters = VariationRatio(p, beta, (q0, q1))
        for users, epsilon in [(1, 0.1), (5, 0.0), (12, 0.4)]:
            value = amplify(parameters, users, bound="variation-ratio-published").delta(epsilon).upper
            exact = max(delta_published(p, beta, *q, users, epsilon) for q in ((q0, q1), (q1, q0)))
            assert value == pytest.approx(float(exact), rel=1e-12)
            assert mpf(value) >= exact


def reduction(
    p: Fraction | None, beta: Fraction, q0: Fraction, q1: Fraction, q_common: Fraction, users: int, ratio: Fraction
) -> Fraction:
    """D(P‖Q) of the reduction with no ratio raised, exactly; p = None is infinity."""
    alpha = Fraction(0) if p is None else beta / (p - 1)
    own = beta if p is None else p * alpha
    gamma = 1 - own - alpha
    classes = [(own, alpha, own / q0), (alpha, own, own / q1), (gamma, gamma, gamma / q_common)]
    classes = [c for c in classes if c[2]]
    gains, weights = [(a - ratio * b) / h for a, b, h in classes], [h for *_, h in classes]
    assert sum(weights) <= 1
    return positive_part_mean([*gains, Fraction(0)], [*weights, 1 - sum(weights)], users) / users


# p (None is infinity), smaller β, larger β, q0, q1, n, e^ε: the reduction as it stands falls from one β to the other.
FALLING = [
    (Fraction(100), Fraction(693, 1010), Fraction(891, 1010), Fraction(20), Fraction(1), 4, Fraction(50)),
    (Fraction(1000), Fraction(2997, 5005), Fraction(8991, 10010), Fraction(20), Fraction(1), 4, Fraction(25)),
    (None, Fraction(1, 5), Fraction(4, 5), Fraction(5), Fraction(1), 4, Fraction(25)),
]


@pytest.mark.parametrize(("p", "low", "high", "q0", "q1", "users", "ratio"), FALLING)
def test_q1_is_raised_where_the_reduction_would_fall_with_beta(
    p: Fraction | None, low: Fraction, high: Fraction, q0: Fraction, q1: Fraction, users: int, ratio: Fraction
) -> None:
    """One direction as it stands is smaller at the larger β; a true count protocol at the smaller β is above it.

    That protocol is real: user 1 sends one of three messages, the others' messages have one fixed law. Its exact
    divergence in this direction exceeds the unraised value at the larger (over-estimated) β, not the pair's.
    """
    true = reduction(p, low, q0, q1, q0, users, ratio)
    unraised = reduction(p, high, q0, q1, q0, users, ratio)
    assert true > unraised
    epsilon = epsilon_below(ratio)
    p_float = math.inf if p is None else float(p)
    previous = Fraction(0)
    for beta in (low, (low + high) / 2, high):
        stated = VariationRatio(p_float, float_above(beta), (float(q0), float(q1)))
        curve = amplify(stated, users, bound="variation-ratio")
        one_way = Fraction(curve._divergences[0].bracket(epsilon).upper_float())
        assert one_way >= true
        assert one_way >= previous
        assert Fraction(curve.delta(epsilon).upper) >= one_way
        previous = one_way


# With a common ratio above both others the falling reduction is that of both directions: p, β's, q, q_common, n, e^ε.
FALLING_BOTH_WAYS = [
    (Fraction(20), Fraction(19, 42), Fraction(57, 70), Fraction(2), Fraction(40), 5, Fraction(50, 3)),
    (Fraction(10), Fraction(9, 22), Fraction(36, 55), Fraction(3, 2), Fraction(150), 5, Fraction(5)),
    (None, Fraction(3, 10), Fraction(9, 10), Fraction(2), Fraction(200), 5, Fraction(4)),
    (Fraction(100), Fraction(198, 505), Fraction(99, 101), Fraction(2), Fraction(40), 5, Fraction(5)),
]


@pytest.mark.parametrize(("p", "low", "high", "q", "q_common", "users", "ratio"), FALLING_BOTH_WAYS)
def test_a_common_ratio_above_the_others(
    p: Fraction | None, low: Fraction, high: Fraction, q: Fraction, q_common: Fraction, users: int, ratio: Fraction
) -> None:
    """The whole unraised bound at an over-estimated β is below a true count protocol's divergence; ours is not.

    Every bound that calls itself a guarantee must be at least the truth here, the published one and the clones too.
    """
    true = reduction(p, low, q, q, q_common, users, ratio)
    assert true > reduction(p, high, q, q, q_common, users, ratio)
    epsilon = epsilon_below(ratio)
    p_float = math.inf if p is None else float(p)
    for beta in (low, high):
        stated = VariationRatio(p_float, float_above(beta), (float(q), float(q)), q_common=float(q_common))
        assert Fraction(amplify(stated, users, bound="variation-ratio").delta(epsilon).upper) >= true
        assert Fraction(amplify(stated, users, effort="quick").delta(epsilon).upper) >= true


@pytest.mark.parametrize(("p", "low", "high", "q", "q_common", "users", "ratio"), FALLING_BOTH_WAYS)
def test_the_published_bound_does_not_promise_more_than_it_holds(
    p: Fraction | None, low: Fraction, high: Fraction, q: Fraction, q_common: Fraction, users: int, ratio: Fraction
) -> None:
    """Where the published value at a β stated too large is below the truth its curve is not flagged a guarantee."""
    true = reduction(p, low, q, q, q_common, users, ratio)
    p_float = math.inf if p is None else float(p)
    stated = VariationRatio(p_float, float_above(high), (float(q), float(q)), q_common=float(q_common))
    published = amplify(stated, users, bound="variation-ratio-published")
    value = Fraction(published.delta(epsilon_below(ratio)).upper)
    assert value >= true or not published.guarantee


@pytest.mark.exhaustive
def test_random_count_protocols_stay_below_an_overestimated_beta() -> None:
    """1,000 random count protocols with unequal ratios: the bound at any larger β is at least their divergence."""
    rng, tried = Random(77), 0
    while tried < 1000:
        p = rng.choice((None, *map(Fraction, (2, 3, 5, 10, 20, 100, 1000))))
        most = Fraction(1) if p is None else (p - 1) / (p + 1)
        q1 = Fraction(rng.choice((2, 3, 4, 6)), rng.choice((1, 2)))
        q0 = q1 * rng.choice((1, Fraction(3, 2), 2, 5, 20, 100))
        if rng.random() < 0.5:
            q0, q1 = q1, q0
        q_common = max(q0, q1) * rng.choice((1, 1, 3, 20))
        users, ratio = rng.randint(1, 3), Fraction(rng.choice((2, 3, 4, 5, 10, 50)), rng.choice((1, 2, 3)))
        if ratio <= 1 or (p is not None and ratio >= p):
            continue
        low, high = sorted((most * Fraction(rng.randint(1, 9), 10), most * Fraction(rng.randint(1, 10), 10)))
        if p is None and high == 1:
            # At p = ∞ a β of 1 is the statement that the two laws are disjoint, not an over-estimate.
            continue
        try:
            p_float = math.inf if p is None else float(p)
            stated = VariationRatio(p_float, float_above(high), (float(q0), float(q1)), q_common=float(q_common))
            VariationRatio(p_float, float_above(low), (float(q0), float(q1)), q_common=float(q_common))
        except ValueError:
            continue
        tried += 1
        true = max(reduction(p, low, *q, q_common, users, ratio) for q in ((q0, q1), (q1, q0)))
        assert upper(stated, users, ratio) >= true


def test_a_beta_just_below_one_is_not_disjoint() -> None:
    """At p = ∞ a β within 1e-12 of 1 becomes 1, which must not lose what the common part of mass 1e-12 adds."""
    beta, q, q_common, users, ratio = 1 - 9e-13, Fraction(2), Fraction(2000), 10, Fraction(20)
    true = reduction(None, Fraction(beta), q, q, q_common, users, ratio)
    stated = VariationRatio(math.inf, beta, 2.0, q_common=2000.0)
    assert upper(stated, users, ratio) >= true


def test_the_exact_parameters_of_the_oracle_agree() -> None:
    """The careful user's floats are the oracle's exact parameters, rounded up by less than one part in 1e15."""
    for seed in range(5):
        table = random_table(Random(seed), 3, 3)
        for (x0, x1), exact in variation_ratio_of_table(table).items():
            stated = rounded_parameters(table[x0], table[x1], table, common=True, unequal=False)
            assert 0 <= Fraction(stated.p) - exact.p <= exact.p * Fraction(1, 10**15)
            assert 0 <= Fraction(stated.beta) - exact.beta <= exact.beta * Fraction(1, 10**15)
            assert 0 <= Fraction(stated.q_pair[0]) - exact.q <= exact.q * Fraction(1, 10**15)
            assert exact.q_common is not None
            assert stated.q_common == pytest.approx(float(max(exact.q_common, Fraction(1))), rel=1e-9)
