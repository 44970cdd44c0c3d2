"""The dominating pair in count form: the law of G, its directions, and where the divergence vanishes."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from flint import arb, fmpq

from shuffledp import FromTable
from shuffledp.numerics.ball_arithmetic import precision, to_rational
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy.dominating_pairs import HidingPair, MessageClass, exact_pair
from tests.numerics.exact_law import contains, encloses
from tests.oracle.exact_enumeration import hockey_stick_of_counts, positive_part_mean, random_table


def pair_of(first: list[Fraction], second: list[Fraction], hiding: list[Fraction]) -> HidingPair:
    """The pair with these three laws, the revealed rest filled in."""
    triples = [tuple(map(to_rational, triple)) for triple in zip(first, second, hiding, strict=True)]
    return exact_pair(triples, symmetric=False)


def test_the_law_of_g() -> None:
    """G = (first − e^ε·second)/hiding with the weight of its hiding probability; at ε = 0 exactly."""
    pair = pair_of([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 3), Fraction(1, 2)])
    with precision(128):
        (top, top_weight), (bottom, bottom_weight), (nothing, rest) = pair.law(0.0).atoms()
        assert contains(top, Fraction(3, 2))
        assert contains(bottom, Fraction(-1))
        assert nothing.is_zero()
        assert contains(top_weight, Fraction(1, 3))
        assert contains(bottom_weight, Fraction(1, 2))
        assert contains(rest, Fraction(1, 6))
        at_one = pair.law(1.0).atoms()
        assert (at_one[0][0] - (arb(3) / 4 - arb(1).exp() / 4) * 3).contains(0)


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-17, 0.1, 3.0])
def test_the_mean_of_g(epsilon: float) -> None:
    """E[G] = 1 − e^ε, even where ε is too small for e^ε to differ from 1 in floats."""
    pair = pair_of(*random_table(Random(1), 3, 4))
    with precision(200):
        mean = sum((value * weight for value, weight in pair.law(epsilon).atoms()), arb(0))
        assert mean.overlaps(-arb(epsilon).expm1())


def test_classes_that_say_nothing_are_one() -> None:
    """Classes with G = 0 are merged into one atom; a class that nobody is ever in is dropped."""
    quarter, zero = fmpq(1, 4), fmpq(0)
    pair = exact_pair(
        [
            (quarter * 2, quarter, quarter),
            (quarter, quarter * 2, quarter),
            (quarter, quarter, quarter),
            (zero, zero, quarter / 2),
            (zero, zero, zero),
        ],
        symmetric=True,
    )
    with precision(128):
        atoms = pair.law(0.0).atoms()
        assert len(atoms) == 3
        assert atoms[-1][0].is_zero()
        assert contains(atoms[-1][1], Fraction(1, 2))
        assert len(pair.law(0.5).atoms()) == 4
        assert contains(sum((weight for _, weight in atoms), arb(0)), Fraction(1))


def test_hiding_probabilities_beyond_one_are_refused() -> None:
    """Hiding probabilities that sum to more than 1 are refused with the sum."""
    with pytest.raises(ValueError, match=r"at most 1, got 1\.25"):
        exact_pair([(fmpq(1), fmpq(1), fmpq(5, 4))], symmetric=True)


@pytest.mark.parametrize("seed", range(4))
def test_both_directions_equal_the_divergence_of_the_counts(seed: int) -> None:
    """E(S)_+ / n is the divergence of the counts, each direction by swapping, for random laws in fractions."""
    rng = Random(seed)
    first, second, hiding = random_table(rng, 3, 3)
    hiding = [weight * Fraction(rng.randint(5, 10), 10) for weight in hiding]
    pair = pair_of(first, second, hiding)
    for users in (1, 2, 4):
        forward = hockey_stick_of_counts(first, second, hiding, users, 1)
        assert encloses(PositivePartMean(pair.law, users).bracket(0.0), forward)
        backward = hockey_stick_of_counts(second, first, hiding, users, 1)
        assert encloses(PositivePartMean(pair.swapped().law, users).bracket(0.0), backward)


def test_swapping_twice_is_the_identity() -> None:
    """Swapping exchanges user 1's two laws, in balls and in rationals, and leaves the hiding law."""
    pair = pair_of(*random_table(Random(9), 3, 3))
    with precision(128):
        for one, other, back in zip(
            pair.classes(), pair.swapped().classes(), pair.swapped().swapped().classes(), strict=True
        ):
            assert one.first.overlaps(other.second)
            assert one.second.overlaps(other.first)
            assert one.hiding.overlaps(other.hiding)
            assert one.first.overlaps(back.first)
    assert pair.exact is not None
    assert pair.swapped().exact == tuple((second, first, hiding) for first, second, hiding in pair.exact)
    assert HidingPair(lambda: pair.classes(), False).swapped().exact is None


def test_the_divergence_vanishes_beyond_the_largest_log_ratio() -> None:
    """Beyond log max(first/second), rounded up, no value of G is positive; just before it one is."""
    first, second = [Fraction(5, 8), Fraction(1, 4), Fraction(1, 8)], [Fraction(1, 8), Fraction(1, 4), Fraction(5, 8)]
    pair = pair_of(first, second, [Fraction(1, 4)] * 3)
    largest = pair.largest_log_ratio()
    with precision(200):
        assert arb(largest) >= arb(5).log()
    assert largest == pytest.approx(math.log(5), rel=1e-14)
    assert PositivePartMean(pair.law, 3).bracket(largest).upper_float() == 0.0
    assert PositivePartMean(pair.law, 3).bracket(largest * (1 - 1e-9)).lower_float() > 0.0


def test_an_impossible_class_makes_the_ratio_infinite() -> None:
    """Where the second law is 0 and the first is not, no ε hides the difference; 0 against 0 does not count."""
    half, zero = fmpq(1, 2), fmpq(0)
    assert exact_pair([(half, zero, half), (half, fmpq(1), half)], symmetric=False).largest_log_ratio() == math.inf
    unused = exact_pair([(half, half, half / 2), (half, half, half), (zero, zero, half / 2)], symmetric=True)
    assert 0.0 <= unused.largest_log_ratio() < 1e-15


def test_classes_follow_the_working_precision() -> None:
    """Asked at a higher precision the law of G has more digits."""
    pair = pair_of(*random_table(Random(2), 3, 3))
    with precision(64):
        coarse = pair.law(0.3).atoms()[0][0].rad()
    with precision(512):
        fine = pair.law(0.3).atoms()[0][0].rad()
    assert fine < coarse * 1e-100


def test_a_message_class_is_three_probabilities() -> None:
    """The fields are first, second and hiding, in this order."""
    assert MessageClass._fields == ("first", "second", "hiding")


@pytest.mark.parametrize("rows", [[[0.3, 0.1, 0.6], [0.2, 0.4, 0.4]], [[1 / 3, 1 / 3, 1 / 3], [0.25, 0.5, 0.25]]])
def test_outputs_that_say_the_same_up_to_rounding(rows: list[list[float]]) -> None:
    """A table with two proportional columns, rounded: every pair's value is enclosed, from both sides, at ε = 0."""
    table = FromTable(rows)
    for pair in [*table.attacks(), *table.blankets()]:
        for way in (pair, pair.swapped()):
            assert way.exact is not None
            exact = [[Fraction(int(x.p), int(x.q)) for x in triple] for triple in way.exact]
            gains, weights = [(a - b) / h for a, b, h in exact], [h for *_, h in exact]
            for users in (2, 6, 10):
                truth = positive_part_mean(gains, weights, users) / users
                assert encloses(PositivePartMean(way.law, users).bracket(0.0), truth), (rows, users)


def test_the_number_of_values_does_not_depend_on_the_precision() -> None:
    """At ε = 0 classes that tell nothing are one value, 0, whether their balls happen to be exact or not."""
    flip = to_rational(0.05)
    keep = 1 - flip
    pair = exact_pair(
        [
            (keep * keep, flip * flip, flip * keep),
            (flip * flip, keep * keep, flip * keep),
            (flip * keep, flip * keep, keep * keep),
            (flip * keep, flip * keep, flip * flip),
        ],
        symmetric=True,
    )
    for way in (pair, pair.swapped()):
        for bits in (53, 96, 512):
            with precision(bits):
                assert len(way.law(0.0).atoms()) == 3
                assert len(way.law(1e-9).atoms()) == 4
    for users in (100, 10_001):
        zero, near = (PositivePartMean(pair.law, users).bracket(epsilon) for epsilon in (0.0, 1e-9))
        assert zero.upper >= near.lower
        assert float(zero.upper) == pytest.approx(float(near.upper), rel=1e-4)
