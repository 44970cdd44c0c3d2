"""The worst of all crowds: against brute force, real attacks, and the shortcuts that are not true."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest

import shuffledp as sdp
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.privacy.dominating_pairs import ListedOtherUsers
from shuffledp.privacy.variation_ratio import other_users_from_ratios
from shuffledp.testing.bounds import build_trial, compare_bounds, draw_random_trial
from tests.oracle import exact_enumeration

ANY_CROWD = WorstDatasetBound(fewest=1)
"""Brute force reaches a few users only."""


def epsilon_of(mechanism: sdp.Randomizer, users: float, delta: float = 1e-6) -> float:
    return sdp.amplify(mechanism, users, bound="all-crowds").epsilon(delta).upper


# --- against the truth ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_tables_against_all_datasets(seed: int) -> None:
    """Every pair of inputs, every crowd, in fractions: never below."""
    found = list(compare_bounds([ANY_CROWD], draw_random_trial(seed, extremal=seed % 2 == 0)))
    assert found
    assert [wrong for _, wrong in found if wrong] == []


@pytest.mark.parametrize(
    "mechanism",
    [
        sdp.KRR(1.0, 3),
        sdp.Subset(1.0, 4, size=2),
        sdp.OUE(1.0, 2),
        sdp.RAPPOR(1.5, 3),
        sdp.LocalHash(1.0, 4),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_mechanisms_against_all_datasets(mechanism: Mechanism) -> None:
    found = list(compare_bounds([ANY_CROWD], build_trial(mechanism)))
    assert found
    assert [wrong for _, wrong in found if wrong] == []


@pytest.mark.parametrize("seed", range(8))
def test_any_randomizer_with_this_ratio(seed: int) -> None:
    """What holds for all ε0-LDP randomizers holds for random tables with that ratio, extremal ones too."""
    rng = Random(seed)
    ratio = Fraction(rng.choice([3, 4, 8]), 2)
    table = exact_enumeration.random_extremal_table(rng, rng.choice([2, 3]), rng.choice([2, 3]), ratio)
    parameters = sdp.VariationRatio.from_ldp(math.nextafter(math.log(ratio), math.inf))
    users = rng.choice([2, 3, 4])
    for e in (Fraction(21, 20), 1 + (ratio - 1) / 3):
        truth = exact_enumeration.worst_divergence(table, users, e)
        bound = ANY_CROWD.curve(parameters, users).delta(math.nextafter(math.log(e), 0.0)).upper
        assert bound >= float(truth) * (1 - 1e-12)


# --- how sharp it is ------------------------------------------------------------------------------------------

SHARP: list[tuple[Mechanism, float]] = [
    (sdp.RAPPOR(0.5, 128), 0.011316),
    (sdp.RAPPOR(1.0, 128), 0.026496),
    (sdp.RAPPOR(3.0, 128), 0.168608),
    (sdp.OUE(0.5, 128), 0.011396),
    (sdp.OUE(1.0, 128), 0.026899),
    (sdp.OUE(3.0, 128), 0.151568),
    (sdp.Subset(0.5, 128), 0.011449),
    (sdp.Subset(1.0, 128), 0.027033),
    (sdp.Subset(3.0, 128), 0.152374),
    (sdp.Harmony(0.5, 16), 0.016188),
    (sdp.Harmony(1.0, 16), 0.035676),
    (sdp.Harmony(3.0, 16), 0.16956),
]


@pytest.mark.parametrize(("mechanism", "before"), SHARP, ids=lambda one: getattr(one, "name", f"{one}"))
def test_within_a_thousandth_of_a_real_crowd(mechanism: Mechanism, before: float) -> None:
    """No more than what a first, independent computation gave, and hardly more than an attack attains."""
    found = sdp.amplify(mechanism, 10_000, bound=["best", "all-crowds"]).epsilon(1e-6)
    assert found.bound == "all-crowds"
    assert found.upper <= before
    assert found.lower is not None
    assert found.lower <= found.upper <= found.lower * 1.001


@pytest.mark.parametrize(
    ("local", "known", "attained"),
    [(0.5, 0.016183, 0.016181), (1.0, 0.038005, 0.037998), (2.0, 0.107713, 0.107663), (3.0, 0.220720, 0.220425)],
)
def test_any_local_randomizer(local: float, known: float, attained: float) -> None:
    """Between what three or two options attain and an independent computation."""
    found = epsilon_of(sdp.VariationRatio.from_ldp(local), 10_000)
    assert attained <= found <= known * 1.0002
    options = 2 if local <= math.log(2) else 3
    attack = sdp.amplify(sdp.KRR(local, options), 10_000, effort="quick").epsilon(1e-6).lower
    assert attack is not None
    assert attack <= found
    older = sdp.amplify(sdp.VariationRatio.from_ldp(local), 10_000, bound="stronger-clone").epsilon(1e-6).upper
    assert found < older


@pytest.mark.parametrize("users", [1e6, 1e9, 1e12])
def test_kinds_that_hardly_vary_do_no_harm(users: float) -> None:
    """Where the two inputs have one law G is nearly constant, and its sums do not oscillate away."""
    found = epsilon_of(sdp.VariationRatio.from_ldp(1.0), users)
    attack = sdp.amplify(sdp.KRR(1.0, 3), users, effort="quick").epsilon(1e-6).lower
    assert attack is not None
    assert attack <= found <= attack * 1.0005


@pytest.mark.parametrize("users", [300, 1e6, 1e9, 1e12])
def test_at_other_sizes(users: float) -> None:
    """Never above the privacy blanket by more than the lost users cost, and near the attack where many take part."""
    for mechanism in (sdp.RAPPOR(1.0, 16), sdp.Harmony(2.0, 4)):
        found = epsilon_of(mechanism, users)
        blanket = sdp.amplify(mechanism, users, bound="optimal").epsilon(1e-6)
        assert blanket.lower is not None
        assert blanket.lower <= found <= blanket.upper
        if users > 1000:
            assert found <= blanket.lower * 1.0005


def test_rounds_compose() -> None:
    """Against an independent computation of the same bound, rounded up a little."""
    curve = sdp.amplify(sdp.Harmony(1.0, 16), 10_000, bound="all-crowds")
    for rounds, known in ((10, 0.1219), (100, 0.4166)):
        assert known * 0.998 <= sdp.compose(curve, rounds).epsilon(1e-6).upper <= known * 1.003


@pytest.mark.exhaustive
def test_many_at_once_are_above_each_one() -> None:
    curve = sdp.amplify(sdp.OUE(1.0, 16), 5_000, bound="all-crowds")
    points = [0.001 * k for k in range(60)]
    many = curve.profile(points)
    for k in range(0, 60, 7):
        alone = curve.delta(points[k])
        assert many.upper[k] >= (alone.upper - alone.slack) * (1 - 1e-9)
        assert many.upper[k] <= alone.upper * 1.05
        assert many.lower[k] <= alone.upper


def test_directions_that_end_at_different_ratios() -> None:
    """The first row is at most 1 + 1e-6 times the second, the second up to 1.009 times the first: both count."""
    whole = 4611686018427387902
    rows = [[62950239745245, 4610142828323281714], [63504205958967, 4610137476795763107]]
    table = sdp.FromTable([[Fraction(x, whole) for x in (*row, whole - sum(row))] for row in rows])
    for epsilon in (1e-6, 1e-5, 2e-5, 4e-5):
        blanket = sdp.amplify(table, 1982, bound="optimal").delta(epsilon)
        assert blanket.lower is not None
        assert sdp.amplify(table, 1982, bound="all-crowds").delta(epsilon).upper >= blanket.lower > 0


def test_what_is_promised_of_others_is_checked() -> None:
    """No word for a yes, and no common part of nothing."""
    kinds = other_users_from_ratios(to_rational(2.0), to_rational(2.0), to_rational(2.0)).user_pairs
    with pytest.raises(ValueError, match="0 < gamma <= 1"):
        ListedOtherUsers(0.0, symmetric=True, listed_pairs=kinds)
    with pytest.raises(ValueError, match="expected some laws"):
        ListedOtherUsers(0.5, symmetric=True, listed_pairs=())
    with pytest.raises(TypeError, match="local must be True or False"):
        sdp.VariationRatio(p=3.0, beta=0.4, q=3.0, local="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="local needs a finite p"):
        sdp.VariationRatio(p=math.inf, beta=0.4, q=3.0, local=True)


def test_a_quick_answer_leaves_it_out() -> None:
    """It is asked for by name, alone or beside the others, or by effort."""
    mechanism = sdp.OUE(1.0, 16)
    alone, beside = (
        sdp.amplify(mechanism, 5_000, bound=bound).epsilon(1e-6) for bound in ("all-crowds", ["best", "all-crowds"])
    )
    assert beside.upper == alone.upper
    assert beside.bound == "all-crowds"
    usual = sdp.amplify(mechanism, 5_000, effort="quick").epsilon(1e-6)
    assert usual.bound == "optimal"
    assert usual.upper > alone.upper
    full = sdp.amplify(mechanism, 5_000, effort="full").epsilon(1e-6)
    assert (full.upper, full.bound) == (alone.upper, alone.bound)
    with pytest.raises(ValueError, match="effort must be 'full' or 'quick', got 'more'"):
        sdp.amplify(mechanism, 5_000, effort="more")


def test_full_effort_calibrates_further() -> None:
    """More local ε for the same target, and the value found is checked by the sharper bound."""
    quick, full = (
        sdp.calibrate(sdp.OUE, options=16, users=5_000, epsilon=0.1, delta=1e-6, effort=effort)
        for effort in ("quick", "full")
    )
    assert full.value > quick.value * 1.03
    assert full.epsilon.upper <= 0.1
    assert full.epsilon.bound == "all-crowds"
    again = sdp.amplify(sdp.OUE(full.value * 1.001, 16), 5_000, effort="full").epsilon(1e-6)
    assert again.upper > 0.1


@pytest.mark.exhaustive
def test_full_effort_finds_more_rounds() -> None:
    quick, full = (
        sdp.calibrate(sdp.Harmony(1.0, 4), find="rounds", users=10_000, epsilon=0.3, delta=1e-6, effort=effort)
        for effort in ("quick", "full")
    )
    assert full.value > quick.value * 1.3
    assert full.epsilon.upper <= 0.3


def test_it_is_not_looked_at_where_it_cannot_win() -> None:
    """Few users and a large local ε: the lost users cost more than the blanket does."""
    mechanism = sdp.KRR(6.0, 16)
    quick, full = (sdp.amplify(mechanism, 300, effort=effort).epsilon(1e-6) for effort in ("quick", "full"))
    assert full.upper == quick.upper
    assert full.bound == quick.bound


def test_where_it_does_not_apply() -> None:
    with pytest.raises(sdp.NotApplicable, match="at least 16 others, got 9"):
        sdp.amplify(sdp.KRR(1.0, 3), 10, bound="all-crowds")
    with pytest.raises(sdp.NotApplicable, match="does not give all laws of the others"):
        sdp.amplify(sdp.VariationRatio(p=3.0, beta=0.4, q=3.0), 1000, bound="all-crowds")
    with pytest.raises(sdp.NotApplicable):
        sdp.amplify(sdp.PureDUMP(options=4), 1000, bound="all-crowds")


# --- the lemmas -----------------------------------------------------------------------------------------------


def spread(
    first: Sequence[Fraction | int], second: Sequence[Fraction | int], law: Sequence[Fraction | int], e: Fraction
) -> list[Fraction | int]:
    """E(G − t)_+ = Σ(p − e·q − t·r)_+ at many t: larger everywhere with the same mean is larger in convex order.

    In whole units of 1/(8·denominator of e) of those of the laws; t goes by eighths.
    """
    up, down = e.as_integer_ratio()
    gains = [(8 * (down * p - up * q), down * r) for p, q, r in zip(first, second, law, strict=True)]
    return [sum(max(gain - t * r, 0) for gain, r in gains) for t in range(-64, 65)]


@pytest.mark.parametrize("ratio", [Fraction(3, 2), Fraction(3), Fraction(20)])
def test_regions_that_share_less_are_worse(ratio: Fraction) -> None:
    """The exchange in ``TwoLevelResponse.others``, for all regions of two or three of six messages, at small and large
    ε."""
    for size in (2, 3):
        regions = [frozenset(one) for one in itertools.combinations(range(6), size)]

        def law(region: frozenset[int]) -> list[int]:
            return [ratio.numerator if y in region else ratio.denominator for y in range(6)]

        for first, second in [(regions[0], regions[1]), (regions[0], regions[2])]:
            y, z = min(first & second), min(set(range(6)) - first - second)
            moved = second - {y} | {z}
            for third in regions:
                other = third - {z} | {y} if z in third and y not in third else third
                for e in (Fraction(21, 20), Fraction(3, 2), Fraction(5)):
                    before = spread(law(first), law(second), law(third), e)
                    after = spread(law(first), law(moved), law(other), e)
                    assert all(a >= b for a, b in zip(after, before, strict=True))


def test_the_corners_of_all_triples() -> None:
    """All basic solutions of the three equations over the rays {1, p}³: the kinds, and two that are below others."""
    p = Fraction(5, 2)
    rays = list(itertools.product((Fraction(1), p), repeat=3))
    found = set()
    for number in (1, 2, 3):
        for chosen in itertools.combinations(rays, number):
            weights = solved(chosen)
            if weights is not None and all(weight > 0 for weight in weights):
                found.add(frozenset(zip(chosen, weights, strict=True)))
    kinds = set()
    for kind in other_users_from_ratios(to_rational(p), to_rational(p), to_rational(p)).user_pairs:
        assert kind.exact is not None
        triples = [tuple(Fraction(int(x.p), int(x.q)) for x in triple) for triple in kind.exact]
        kinds.add(frozenset((tuple(x / min(t) for x in t), min(t)) for t in triples))
    same_law = {one for one in found if all(ray[0] == ray[1] for ray, _ in one)}
    plain = {frozenset((tuple(x / min(ray) for x in ray), w * min(ray)) for ray, w in one) for one in found}
    normal = {frozenset((tuple(x / min(ray) for x in ray), w * min(ray)) for ray, w in one) for one in found - same_law}
    assert normal <= kinds <= plain
    for one in same_law:
        first, second, law = ([w * ray[k] for ray, w in one] for k in range(3))
        for e in (Fraction(21, 20), Fraction(2)):
            below = spread(first, second, law, e)
            alike = next(iter(k for k in normal if len(k) == 2 and all(r[0] == r[2] for r, _ in k)))
            above = spread(*([w * ray[k] for ray, w in alike] for k in range(3)), e)
            assert all(a >= b for a, b in zip(above, below, strict=True))


def solved(rays: Sequence[tuple[Fraction, ...]]) -> list[Fraction] | None:
    """Weights with which the rays add up to (1, 1, 1), where they are unique; Gauss's elimination."""
    rows = [[*(ray[k] for ray in rays), Fraction(1)] for k in range(3)]
    columns = len(rays)
    for column in range(columns):
        pivot = next((r for r in range(column, 3) if rows[r][column] != 0), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [x / rows[column][column] for x in rows[column]]
        for r in range(3):
            if r != column:
                rows[r] = [x - rows[r][column] * y for x, y in zip(rows[r], rows[column], strict=True)]
    if any(rows[r][columns] != 0 for r in range(columns, 3)):
        return None
    return [rows[r][columns] for r in range(columns)]


# --- shortcuts that are not true ------------------------------------------------------------------------------


def shuffled(table: exact_enumeration.Table, first: int, second: int, others: Sequence[int], e: Fraction) -> Fraction:
    return exact_enumeration.shuffled_divergence([table] * (len(others) + 1), first, second, others, e)


def absent(table: exact_enumeration.Table, first: int, second: int, others: Sequence[int], e: Fraction) -> Fraction:
    """E(ΣG)_+/m, the divergence where one of the others, nobody knows who, is absent."""
    sums = {Fraction(0): Fraction(1)}
    for other in others:
        after: dict[Fraction, Fraction] = {}
        for total, chance in sums.items():
            for p, q, r in zip(table[first], table[second], table[other], strict=True):
                after[total + (p - e * q) / r] = after.get(total + (p - e * q) / r, Fraction(0)) + chance * r
        sums = after
    return sum((max(total, Fraction(0)) * chance for total, chance in sums.items()), Fraction(0)) / len(others)


def test_nobody_lost_is_no_bound() -> None:
    """D ≤ B without the lost users fails."""
    table = [
        [Fraction(x, 12) for x in (10, 1, 1)],
        [Fraction(1, 3)] * 3,
        [Fraction(x, 21) for x in (1, 10, 10)],
    ]
    e = Fraction(3, 2)
    real, bound = shuffled(table, 1, 2, (0, 0, 2), e), absent(table, 1, 2, (0, 0, 2), e)
    assert (real, bound) == (Fraction(565, 3528), Fraction(773, 10584))
    assert real > bound


def test_the_worst_crowd_need_not_be_constant() -> None:
    table = exact_enumeration.krr_table(2, 2)
    found = [shuffled(table, 0, 1, others, Fraction(21, 20)) for others in ((0, 0), (0, 1), (1, 1))]
    assert found == [Fraction(19, 135), Fraction(89, 540), Fraction(73, 540)]
    assert found[1] > max(found[0], found[2])


def test_a_crowd_drawn_from_the_mean_law_is_not_the_worst() -> None:
    table = exact_enumeration.krr_table(2, 3)
    e = Fraction(21, 20)
    mean = [(a + b) / 2 for a, b in zip(*table, strict=True)]
    drawn = exact_enumeration.hockey_stick_of_counts(table[0], table[1], mean, 3, e)
    assert drawn == Fraction(37, 160)
    assert shuffled(table, 0, 1, (0, 1), e) == Fraction(189, 640)
    assert drawn < Fraction(189, 640)


def test_one_law_above_all_others_is_the_blanket() -> None:
    """Binary, e^ε0 = 3, e^ε = 3/2: the least law above both G in convex order is the blanket's, and gains nothing."""
    (first, second), e = exact_enumeration.krr_table(2, 3), Fraction(3, 2)
    common = [min(a, b) for a, b in zip(first, second, strict=True)]
    blanket = spread([*first, Fraction(0)], [*second, Fraction(0)], [*common, 1 - sum(common)], e)
    both = [max(found) for found in zip(spread(first, second, first, e), spread(first, second, second, e), strict=True)]
    assert both == blanket
