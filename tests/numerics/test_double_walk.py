"""The walk over two counts: exact for laws with four values."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import assume, given, settings, strategies as st

from shuffledp.numerics import positive_part
from shuffledp.privacy.variation_ratio import VariationRatio

from .exact_law import KINDS, ExactLaw, encloses, laws, overlap, random_law, relative_width


@pytest.mark.parametrize("kind", KINDS)
def test_random_laws_are_enclosed(kind: str) -> None:
    """With every pair of counts visited the bracket holds the exact value and is narrow."""
    rng, tried = Random(kind), 0
    while tried < 60:
        law, count = random_law(rng, 4, kind), rng.randint(1, 10)
        if law.has_positive_value:
            tried += 1
            found = positive_part.bracket_by_double_recurrence(law.finite, count, -math.inf)
            assert encloses(found, law.positive_part_mean(count))
            assert relative_width(found) < 1e-15
            assert found.method == "double recurrence"


@settings(deadline=None, derandomize=True, max_examples=120)
@given(laws(4, 4), st.integers(1, 7))
def test_any_law_is_enclosed(law: ExactLaw, count: int) -> None:
    """No law that an adversary finds escapes its bracket."""
    assume(law.has_positive_value)
    assert encloses(
        positive_part.bracket_by_double_recurrence(law.finite, count, -math.inf), law.positive_part_mean(count)
    )


@pytest.mark.parametrize("log_mass", [-0.1, -2.0, -10.0, -40.0])
def test_what_the_windows_leave_out_is_added_to_the_upper_side(log_mass: float) -> None:
    """With windows that cut off real mass the bracket still holds the exact value."""
    rng = Random(23)
    for _ in range(50):
        law, count = random_law(rng, 4, rng.choice(KINDS)), rng.randint(1, 12)
        if law.has_positive_value:
            assert encloses(
                positive_part.bracket_by_double_recurrence(law.finite, count, log_mass), law.positive_part_mean(count)
            )


TIED = [
    ((1, -1, 0, -2), (Fraction(1, 4),) * 4),
    ((1, -1, 0, 0), (Fraction(1, 4),) * 4),
    ((1, -1, -1, 0), (Fraction(1, 4),) * 4),
    ((1, 1, -2, -2), (Fraction(1, 4),) * 4),
    ((2, -3, Fraction(-1, 2), Fraction(1, 2)), (Fraction(1, 6), Fraction(1, 3), Fraction(1, 3), Fraction(1, 6))),
]


@pytest.mark.parametrize(("values", "weights"), TIED)
@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_ties_count_nothing(values: tuple[Fraction, ...], weights: tuple[Fraction, ...], count: int) -> None:
    """Where many sums are exactly 0, or values coincide, the value is still exact and narrow."""
    law = ExactLaw(tuple(map(Fraction, values)), weights)
    found = positive_part.bracket_by_double_recurrence(law.finite, count, -math.inf)
    assert encloses(found, law.positive_part_mean(count))
    assert relative_width(found) < 1e-15


@pytest.mark.parametrize("gap", [Fraction(1, 10**k) for k in (15, 16, 17, 20, 40)])
@pytest.mark.parametrize("side", [-1, 1])
def test_values_that_round_to_one_float(gap: Fraction, side: int) -> None:
    """Values closer than a float can tell, in either order, must not cost the enclosure."""
    weights = (Fraction(3, 10), Fraction(1, 10), Fraction(2, 10), Fraction(4, 10))
    for values in (
        (Fraction(1), Fraction(-1) + side * gap, Fraction(-1), Fraction(0)),
        (Fraction(1), Fraction(1) + side * gap, Fraction(-3), Fraction(-1)),
        (Fraction(2), side * gap, Fraction(0), Fraction(-2)),
    ):
        law = ExactLaw(values, weights)
        for count in (1, 4, 7):
            assert encloses(
                positive_part.bracket_by_double_recurrence(law.finite, count, -math.inf), law.positive_part_mean(count)
            )


@pytest.mark.parametrize(("weight", "power"), [(5, 20), (12, 55), (22, 100), (60, 250)])
def test_tiny_results_keep_their_relative_digits(weight: int, power: int) -> None:
    """Results down to below 1e-250 are enclosed to 15 digits, against exact fractions."""
    tiny = Fraction(1, 10**weight)
    values = (Fraction(1), Fraction(-1), Fraction(-2, 7), Fraction(0))
    law = ExactLaw(values, (tiny, Fraction(2, 5) - tiny, Fraction(3, 5) - tiny**2, tiny**2))
    exact = law.positive_part_mean(20)
    assert 0 < exact < Fraction(1, 10**power)
    found = positive_part.bracket_by_double_recurrence(law.finite, 20, -math.inf)
    assert encloses(found, exact)
    assert relative_width(found) < 1e-15


def test_it_agrees_with_enumeration_on_a_real_pair() -> None:
    """Randomized response on 16 options: both exact routes give overlapping brackets, for several n and ε."""
    p = math.e
    parameters = VariationRatio(p=p, beta=(p - 1) / (p + 15), q=p, q_common=1.0)
    for users in (1, 2, 9, 25):
        for epsilon in (0.0, 0.2, 0.9):
            law = parameters.pair(epsilon).law(epsilon)
            if len(law.atoms()) == 4:
                by_walk = positive_part.bracket_by_double_recurrence(law, users, -math.inf)
                assert overlap(by_walk, positive_part.bracket_by_enumeration(law, users))
                assert relative_width(by_walk) < 1e-15
