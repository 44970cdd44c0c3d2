"""Users of several groups in one shuffle, against every dataset of a few users and against real attacks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.bounds.mixed_populations import MixedDivergence, ScoreLaw, ScoreSum
from shuffledp.privacy.randomizer_interface import HasMixedUsers

Rows = Sequence[Sequence[Fraction]]
Row = Sequence[tuple[int, int]]
Law = dict[int, int]
RATIOS = (Fraction(21, 20), Fraction(3, 2))
SHARP = 2e-3


def added(law: Law, row: Row) -> Law:
    """The counts of messages after one more user."""
    result: Law = {}
    for counts, units in law.items():
        for message, own in row:
            result[counts + message] = result.get(counts + message, 0) + units * own
    return result


def crowds(law: Law, groups: Sequence[tuple[Sequence[Row], int]]) -> Iterator[Law]:
    """The counts of messages with all others of these groups, for everything that they may hold."""
    if not groups:
        yield law
        return
    (rows, users), *more = groups
    if users == 0:
        yield from crowds(law, more)
        return
    for place, row in enumerate(rows):
        yield from crowds(added(law, row), [(rows[place:], users - 1), *more])


def truth(own: Rows, groups: Sequence[tuple[Rows, int]], ratio: Fraction) -> Fraction:
    """The largest divergence over all datasets and both inputs of the one user besides ``groups``.

    In whole units; the counts of all messages are one number, whose digits they are.
    """
    users = 1 + sum(count for _, count in groups)
    unit = math.lcm(
        *(chance.denominator for rows in (own, *(rows for rows, _ in groups)) for row in rows for chance in row)
    )

    def whole(rows: Rows) -> list[Row]:
        steps = [(users + 1) ** message for message in range(len(own[0]))]
        return [[(step, int(chance * unit)) for step, chance in zip(steps, row, strict=True) if chance] for row in rows]

    worst = 0
    for law in crowds({0: 1}, [(whole(rows), count) for rows, count in groups]):
        sent = [added(law, row) for row in whole(own)]
        for first, second in itertools.permutations(sent, 2):
            gains = (ratio.denominator * p - ratio.numerator * second.get(key, 0) for key, p in first.items())
            worst = max(worst, sum(gain for gain in gains if gain > 0))
    return Fraction(worst, ratio.denominator * unit**users)


def rows_of(group: HasMixedUsers) -> Rows:
    """The exact output law of everything that a user of the group may hold."""
    if isinstance(group, sdp.OptOut):
        table = group.mechanism.table().probabilities
        own = group.mechanism
        if isinstance(own, sdp.KRR):
            return [[Fraction(1, own.options)] * own.options]
        assert isinstance(own, sdp.OUE)
        other = own.law.bits.false_probability
        ones = [number.bit_count() for number in range(len(table[0]))]
        return [[other**k * (1 - other) ** (own.options - k) for k in ones]]
    assert isinstance(group, sdp.Mechanism)
    return group.table().probabilities


def directions(group: sdp.Mechanism, groups: Sequence[HasMixedUsers], counts: Sequence[int], lost: int = 0) -> list:
    found = group.mixed_other_users(groups)
    assert found
    ways = [way for one in found for way in ([one] if one.symmetric else [one, one.swapped()])]
    return [MixedDivergence(way, tuple(counts), lost) for way in ways]


TABLES = (
    sdp.FromTable([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]),
    sdp.FromTable([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]]),
    sdp.FromTable([[0.1, 0.1, 0.8], [0.3, 0.4, 0.3]]),
)
K2, K3 = [sdp.KRR(e, options=2) for e in (0.5, 1.0, 3.0)], [sdp.KRR(e, options=3) for e in (0.5, 1.0, 3.0)]
FEW = [
    (K2[:2], (2, 3)), (K2[1:], (3, 2)), (K2[:2], (1, 4)), (K2, (1, 2, 2)), (K3[:2], (2, 2)), (K3[1:], (1, 3)),
    (K3, (1, 1, 1)), (TABLES[:2], (2, 2)), (TABLES[1:], (1, 2)), (TABLES, (1, 1, 1)),
    ([K3[1], sdp.OptOut(K3[1])], (2, 3)), ([sdp.OptOut(K2[0]), K2[2]], (3, 2)),
    ([sdp.OUE(1.0, options=3), sdp.OUE(2.0, options=3)], (1, 2)),
    ([sdp.RAPPOR(1.0, options=2), sdp.RAPPOR(2.0, options=2)], (2, 2)),
    ([sdp.OUE(1.0, options=3), sdp.OptOut(sdp.OUE(1.0, options=3))], (1, 2)),
    ([sdp.Subset(1.0, options=4, size=2), sdp.Subset(2.0, options=4, size=2)], (1, 2)),
    ([sdp.HadamardResponse(1.0, options=3), sdp.HadamardResponse(2.0, options=3)], (1, 2)),
    ([sdp.PIRAPPOR(1.0, options=3, prime=3), sdp.PIRAPPOR(2.0, options=3, prime=3)], (1, 1)),
    ([sdp.LocalHash(1.0, options=3, length=3), sdp.LocalHash(2.0, options=3, length=3)], (1, 1)),
]  # fmt: skip
"""Groups, and how many others there are of each: n ≤ 6."""


@pytest.mark.usefixtures("few_pieces")
@pytest.mark.parametrize(("groups", "counts"), FEW, ids=lambda each: str(each)[:40])
def test_every_dataset_of_a_few_users(groups: Sequence[HasMixedUsers], counts: Sequence[int]) -> None:
    """Nothing that anybody holds is told apart better than is said; an attack attains no more than there is."""
    others = [(rows_of(group), count) for group, count in zip(groups, counts, strict=True)]
    for group in groups:
        if not isinstance(group, sdp.Mechanism):
            continue
        ways = directions(group, groups, counts)
        for ratio in RATIOS:
            epsilon = math.log(ratio)
            worst = truth(rows_of(group), others, ratio)
            said = max(way.bracket(epsilon, SHARP).upper_float() for way in ways)
            attained = max(way.attack_delta(epsilon) for way in ways)
            assert said >= float(worst) * (1 - 1e-9)
            assert attained <= float(worst) * (1 + 1e-9)


def drawn_table(rng: Random, inputs: int) -> sdp.FromTable:
    rows = [[rng.choice([1, 1, 2, 5, 9]) for _ in range(3)] for _ in range(inputs)]
    return sdp.FromTable([[Fraction(entry, sum(row)) for entry in row] for row in rows])


@pytest.mark.usefixtures("few_pieces")
@pytest.mark.parametrize("number", range(8))
def test_random_tables_of_two_and_three_groups(number: int) -> None:
    rng = Random(7_100 + number)
    groups = [drawn_table(rng, rng.choice([2, 3])) for _ in range(rng.choice([2, 3]))]
    counts = [rng.choice([1, 2]) for _ in groups]
    own = groups[0]
    if len({tuple(row) for row in rows_of(own)}) == 1:
        pytest.fail("a table of one law is no test; choose another seed")
    others = [(rows_of(group), count) for group, count in zip(groups, counts, strict=True)]
    ways = directions(own, groups, counts)
    for ratio in RATIOS:
        worst = float(truth(rows_of(own), others, ratio))
        assert max(way.bracket(math.log(ratio), SHARP).upper_float() for way in ways) >= worst * (1 - 1e-9)
        assert max(way.attack_delta(math.log(ratio)) for way in ways) <= worst * (1 + 1e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("groups", "counts"), [FEW[0], FEW[7]], ids=lambda each: str(each)[:40])
def test_nor_where_it_is_as_sharp_as_can_be(groups: Sequence[HasMixedUsers], counts: Sequence[int]) -> None:
    """Two of them with all pieces."""
    test_every_dataset_of_a_few_users(groups, counts)


@pytest.mark.parametrize("lost", [1, 2])
def test_whoever_colludes_may_be_of_any_group(lost: int) -> None:
    """The bound is above that of every crowd from which so many are gone."""
    groups, counts = K3[:2], (3, 2)
    ways = directions(groups[0], groups, counts, lost)
    for ratio in RATIOS:
        said = max(way.bracket(math.log(ratio), SHARP).upper_float() for way in ways)
        for gone in range(lost + 1):
            left = counts[0] - gone, counts[1] - lost + gone
            others = [(rows_of(group), count) for group, count in zip(groups, left, strict=True)]
            assert said >= float(truth(rows_of(groups[0]), others, ratio)) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("epsilons", "users", "said"),
    [((1.0, 3.0), (5_000, 5_000), (0.04674, 0.09632)), ((0.5, 4.0), (9_000, 1_000), (0.01712, 0.07509))],
)
def test_the_figures_that_were_promised(
    epsilons: tuple[float, float], users: tuple[int, int], said: tuple[float, float]
) -> None:
    """At most those of a float prototype, and within 1% of an attack."""
    groups = [sdp.KRR(epsilon, options=2) for epsilon in epsilons]
    curve = sdp.amplify(sdp.Crowd(dict(zip(groups, users, strict=True))))
    for group, most in zip(groups, said, strict=True):
        value = curve.group_curve(group).epsilon(delta=1e-6)
        assert value.certified
        assert value.guarantee
        assert value.upper <= most
        assert value.attack is not None
        attained = value.attack.epsilon(1e-6)
        assert attained <= value.upper <= 1.01 * attained
    assert curve.epsilon(delta=1e-6).upper == curve.group_curve(groups[1]).epsilon(delta=1e-6).upper


def test_where_all_agree_it_is_the_uniform_value() -> None:
    krr, nearly = sdp.KRR(1.0, options=16), sdp.KRR(1.0 + 1e-12, options=16)
    uniform = sdp.amplify(krr, users=10_000).epsilon(delta=1e-6).upper
    assert sdp.amplify(sdp.Crowd({krr: 10_000})).epsilon(delta=1e-6).upper == pytest.approx(uniform, rel=1e-9)
    mixed = sdp.amplify(sdp.Crowd({krr: 6_000, nearly: 4_000}))
    for group in (krr, nearly):
        assert mixed.group_curve(group).epsilon(delta=1e-6).upper == pytest.approx(uniform, rel=5e-4)


@pytest.mark.exhaustive
def test_others_hide_and_the_better_the_less_they_say() -> None:
    krr = sdp.KRR(1.0, options=16)

    def found(*more: HasMixedUsers) -> float:
        crowd = sdp.Crowd({krr: 5_000, **dict.fromkeys(more, 5_000)})
        return sdp.amplify(crowd).group_curve(krr).epsilon(delta=1e-6).upper

    alone, among_loud, among_quiet = found(), found(sdp.KRR(4.0, options=16)), found(sdp.KRR(0.5, options=16))
    assert alone > among_loud > among_quiet > found(sdp.OptOut(krr))


@pytest.mark.exhaustive
def test_many_values_are_those_of_one() -> None:
    curve = sdp.amplify(sdp.Crowd({sdp.KRR(1.0, options=4): 3_000, sdp.KRR(2.0, options=4): 3_000}))
    quiet = curve.group_curve(sdp.KRR(1.0, options=4))
    points = np.linspace(0.0, 0.06, 18)
    many = quiet.profile(points)
    for epsilon, upper, lower in list(zip(points, many.upper, many.lower, strict=True))[::3]:
        one = quiet.delta(float(epsilon))
        assert lower <= one.upper
        assert one.upper - one.slack <= upper <= one.upper * 1.05 + 1e-12
    four, once = sdp.compose(quiet, 4).epsilon(delta=1e-6).upper, quiet.epsilon(delta=1e-6).upper
    assert 1.8 * once < four < 2.3 * once


def test_bits_that_differ_too_much_hide_little_and_it_is_said_truly() -> None:
    """Rows of unary encodings with other probabilities are told apart by how many bits are 1."""
    quiet, loud = sdp.OUE(0.5, options=64), sdp.OUE(5.0, options=64)
    curve = sdp.amplify(sdp.Crowd({quiet: 3_000, loud: 3_000}))
    alone = sdp.amplify(quiet, users=3_000).epsilon(delta=1e-6).upper
    assert 0.9 * alone <= curve.group_curve(quiet).epsilon(delta=1e-6).upper <= alone * (1 + 1e-9)


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ({}, "a mapping"),
        ({sdp.KRR(1.0, 4): 10, sdp.KRR(1.0, 5): 10}, "different forms"),
        ({sdp.KRR(1.0, 4): 10, sdp.OUE(1.0, 4): 10}, "different forms"),
        ({sdp.KRR(1.0, 4): 0}, "at least 1"),
        ({sdp.VariationRatio.from_ldp(1.0): 10}, "amplify it alone"),
        ({sdp.OptOut(sdp.KRR(1.0, 4)): 10}, "opt-outs only"),
        ({sdp.PureDUMP(options=4, dummies=2): 10, sdp.PureDUMP(options=4, dummies=3): 10}, "one message"),
    ],
)
def test_what_is_no_crowd(groups: dict, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        sdp.Crowd(groups)


def test_what_goes_with_a_crowd() -> None:
    crowd = sdp.Crowd({sdp.KRR(1.0, options=4): 100})
    for wrong in ({"users": 5}, {"bound": "clone"}, {"pair": (0, 1)}, {"colluding": 100}):
        with pytest.raises(ValueError, match="amplify: "):
            sdp.amplify(crowd, **wrong)
    with pytest.raises(ValueError, match="defines no message of a user who does not answer"):
        sdp.OptOut(sdp.Laplace(1.0))


@pytest.mark.parametrize("values", [(0, 1), (-1, 1), (-3, 2)])
def test_sums_of_scores_against_binomials(values: tuple[int, int]) -> None:
    """Two scores are a count: convolved directly, in other code."""
    chances, users, own = (0.3, 0.9), (400, 700), 0.75
    law = np.array([1.0])
    for chance, count in zip(chances, users, strict=True):
        law = np.convolve(law, binom.pmf(np.arange(count + 1), count, chance))
    first, second = np.convolve(law, [1 - own, own]), np.convolve(law, [own, 1 - own])
    scores = [ScoreLaw(values, (1 - chance, chance)) for chance in (own, 1 - own, *chances)]
    found = ScoreSum(scores[0], scores[1], tuple(zip(scores[2:], users, strict=True)))
    for epsilon in (0.0, 0.05, 0.2):
        expected = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
        bracket = found.bracket(epsilon)
        assert bracket.lower_float() <= expected * (1 + 1e-9) + 1e-13
        assert bracket.upper_float() >= expected * (1 - 1e-9) - 1e-13
        assert bracket.upper_float() - bracket.lower_float() < 1e-7


def test_the_corners_hold_every_composition() -> None:
    """Whoever is lost, the shares of the groups are between those of the corners."""
    groups = K3[:2]
    (way,) = directions(groups[0], groups, (50, 30))
    for lost in (0, 1, 7):
        corners = way.corners(lost)
        assert np.all(corners.sum(axis=1) == 1.0)
        first = corners[:, :3].sum(axis=1)
        for gone in range(lost + 1):
            for of_first in range(gone + 1):
                share = (50 - of_first) / (80 - gone)
                assert first.min() <= share <= first.max()
