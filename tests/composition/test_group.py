"""A person with several values: never below the exact divergence of small datasets, and the formula where it is one."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

import shuffledp as sdp
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.group_privacy import GroupCurve, group
from tests.oracle.composition import divergence
from tests.oracle.exact_enumeration import krr_table, shuffled_law

from .known_curves import SOURCE, TableCurve, shuffled_counts

LOPSIDED = [[Fraction(3, 5), Fraction(3, 10), Fraction(1, 10)],
            [Fraction(1, 10), Fraction(3, 5), Fraction(3, 10)],
            [Fraction(3, 10), Fraction(3, 10), Fraction(2, 5)]]  # fmt: skip
EPSILONS = (0.0, 0.2, 0.7, 1.5, 3.0)


def worst(table: list[list[Fraction]], users: int, held: int, epsilon: float) -> mpf:
    """The largest divergence of the counts over all datasets that differ in the first ``held`` values."""
    laws = {
        tuple(sorted(data)): shuffled_law([table[x] for x in data], len(table[0]))
        for data in itertools.combinations_with_replacement(range(len(table)), users)
    }
    found = mpf(0)
    for rest in itertools.combinations_with_replacement(range(len(table)), users - held):
        own = list(itertools.combinations_with_replacement(range(len(table)), held))
        for one, other in itertools.permutations(own, 2):
            first, second = laws[tuple(sorted(rest + one))], laws[tuple(sorted(rest + other))]
            keys = set(first) | set(second)
            pair = [(first.get(key, Fraction(0)), second.get(key, Fraction(0))) for key in keys]
            found = max(found, divergence(pair, epsilon))
    return found


@pytest.mark.parametrize("held", [2, 3])
@pytest.mark.parametrize("case", ["krr-2", "krr-3", "lopsided"])
def test_every_small_dataset_is_covered(case: str, held: int) -> None:
    """All datasets, all values of one person, exactly: the curve is above, by every way to ask it."""
    users = 5 if case == "krr-2" else 4
    table = {"krr-2": krr_table(2, 3), "krr-3": krr_table(3, 4), "lopsided": LOPSIDED}[case]
    mechanism = {
        "krr-2": sdp.KRR(epsilon=math.log(3), options=2),
        "krr-3": sdp.KRR(epsilon=math.log(4), options=3),
        "lopsided": sdp.FromTable(LOPSIDED),
    }[case]
    curve = group(sdp.amplify(mechanism, users, effort="quick"), held)
    for epsilon in EPSILONS:
        truth = worst(table, users, held, epsilon)
        assert truth <= curve.delta(epsilon).upper * (1 + 1e-12)
        assert truth <= curve.profile([epsilon]).upper[0] * (1 + 1e-12)
        if 0 < truth < 1:
            assert worst(table, users, held, curve.epsilon(float(truth)).upper) <= float(truth) * (1 + 1e-9)
    # One value more is a larger change: the bound for one alone would not do.
    assert worst(table, users, held, 0.2) > sdp.amplify(mechanism, users, effort="quick").delta(0.2).upper


@pytest.mark.parametrize("held", [2, 3, 7])
def test_the_formula(held: int) -> None:
    """Σ e^(iε/K)·δ(ε/K) of an exact pair, to many digits, and the side it is rounded to."""
    pair = tuple(shuffled_counts(*krr_table(3, 4)[:2], krr_table(3, 4)[2], 6))
    curve = group(TableCurve(SOURCE, (pair,)), held)
    for epsilon in (0.1, 0.5, 1.3):
        with mp.workdps(40):
            step = mpf(epsilon) / held
            exact = max(divergence(pair, float(step)), divergence([(b, a) for a, b in pair], float(step)))
            wanted = exact * sum(mp.exp(i * step) for i in range(held))
        assert isinstance(curve, GroupCurve)
        sides = curve.bracket(epsilon)
        assert sides.lower_float() <= float(wanted) * (1 + 1e-15)
        assert float(wanted) * (1 - 1e-15) <= sides.upper_float() <= float(wanted) * (1 + 1e-12)
        # Where a smaller ε proves less, its value is told.
        assert curve.delta(epsilon).upper <= sides.upper_float()
        assert curve.profile([epsilon]).upper[0] <= sides.upper_float() * (1 + 1e-11)


def test_both_directions_of_the_question_agree() -> None:
    """ε(δ) is where δ(ε) falls to δ."""
    curve = group(sdp.amplify(sdp.KRR(epsilon=2.0, options=16), 10_000, effort="quick"), 3)
    for delta in (1e-3, 1e-8):
        value = curve.epsilon(delta)
        assert curve.delta(value.upper).upper <= delta
        assert curve.delta((value.upper - value.slack) * (1 - 1e-6)).upper > delta
        assert value.slack < 1e-6
    assert curve.epsilon(0.999999).upper == 0.0


def test_what_is_possible_with_any_epsilon_does_not_grow_with_it() -> None:
    """One outcome gives a value away with probability 1e-9: the sum grows with ε, the curve does not, composed too."""
    gap = Fraction(1, 10**9)
    half = (1 - gap) / 2
    curve = group(TableCurve(SOURCE, (((gap, Fraction(0)), (half, half + gap), (half, half)),)), 2)
    values = [curve.delta(epsilon).upper for epsilon in (0.001, 1.0, 10.0, 50.0, 600.0, 1000.0)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 3e-9
    profile = curve.profile([0.001, 1.0, 10.0, 50.0, 600.0, 1000.0])
    np.testing.assert_allclose(profile.upper, values, rtol=1e-9)
    assert curve.epsilon(1e-10).upper == math.inf
    assert curve.epsilon(1e-8).upper < 0.01
    assert sdp.compose(curve, 3).delta(1.0).upper < 1e-8


def test_rounds_of_a_person_with_several_values() -> None:
    """Composed like any curve: above one round, and below the sum."""
    curve = group(sdp.amplify(sdp.KRR(epsilon=1.0, options=8), 5000, effort="quick"), 2)
    one, many = curve.epsilon(1e-6).upper, sdp.compose(curve, 4).epsilon(1e-6).upper
    assert one < many < 4 * one


def test_one_value_is_the_curve_itself() -> None:
    """And what cannot be asked is a sentence."""
    curve = sdp.amplify(sdp.KRR(epsilon=1.0, options=4), 1000, effort="quick")
    assert group(curve, 1) is curve
    held = sdp.group(curve, 4.0)
    assert isinstance(held, GroupCurve)
    assert (held.size, held.users, held.guarantee, held.certified) == (4, 1000, True, True)
    assert "group privacy of 4 values of one person" in held.theorem
    # An attack on one value is an attack on four.
    lower = held.epsilon(1e-6).lower
    assert lower is not None
    assert lower <= held.epsilon(1e-6).upper
    with pytest.raises(ValueError, match=r"^group: size must be at least 1, got 0\.$"):
        group(curve, 0)
    with pytest.raises(TypeError, match=r"^group: expected a privacy curve"):
        group("curve", 2)  # type: ignore[arg-type]
    assert isinstance(held, PrivacyCurve)
