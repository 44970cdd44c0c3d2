"""The walk over one count: exact for laws with two or three values, at every n and however small the result."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import assume, given, settings, strategies as st
from mpmath import mp, mpf

from shuffledp.numerics import positive_part
from shuffledp.privacy.variation_ratio import VariationRatio

from .exact_law import (
    KINDS,
    ExactLaw,
    encloses,
    finite_law,
    laws,
    lower_end,
    random_law,
    relative_width,
    upper_end,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3])
def test_random_laws_are_enclosed(kind: str, size: int) -> None:
    """With every count visited the bracket holds the exact value and is as narrow as promised."""
    rng = Random(f"{kind} {size}")
    tried = 0
    while tried < 60:
        law, count = random_law(rng, size, kind), rng.randint(1, 12)
        if law.has_positive_value:
            tried += 1
            found = positive_part.bracket_by_recurrence(law.finite, count, -math.inf)
            assert encloses(found, law.positive_part_mean(count))
            assert relative_width(found) < 1e-15
            assert found.method == "recurrence"


@pytest.mark.exhaustive
@settings(deadline=None, derandomize=True, max_examples=150)
@given(laws(2, 3), st.integers(1, 9))
def test_any_law_is_enclosed(law: ExactLaw, count: int) -> None:
    """No law that an adversary finds escapes its bracket."""
    assume(law.has_positive_value)
    assert encloses(positive_part.bracket_by_recurrence(law.finite, count, -math.inf), law.positive_part_mean(count))


@pytest.mark.parametrize("log_mass", [-0.1, -2.0, -10.0, -40.0])
def test_what_a_window_leaves_out_is_added_to_the_upper_side(log_mass: float) -> None:
    """With a window that cuts off real mass the bracket is wider but still holds the exact value."""
    rng = Random(17)
    widest = 0.0
    for _ in range(60):
        law, count = random_law(rng, 3, rng.choice(KINDS)), rng.randint(1, 30)
        if law.has_positive_value:
            found = positive_part.bracket_by_recurrence(law.finite, count, log_mass)
            assert encloses(found, law.positive_part_mean(count))
            widest = max(widest, relative_width(found))
    assert widest > 1e-9 or log_mass < -5


TIED = [
    ((2, -1), (Fraction(1, 3), Fraction(2, 3))),
    ((1, -1, 0), (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))),
    ((3, -2, 1), (Fraction(1, 5), Fraction(3, 5), Fraction(1, 5))),
    ((Fraction(1, 3), Fraction(-2, 3), Fraction(-1, 6)), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))),
    ((1, -1, -1), (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))),
    ((1, -3, 1), (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4))),
]


@pytest.mark.parametrize(("values", "weights"), TIED)
@pytest.mark.parametrize("count", [1, 2, 3, 6, 12, 30])
def test_ties_count_nothing(values: tuple[Fraction, ...], weights: tuple[Fraction, ...], count: int) -> None:
    """Where many sums are exactly 0, or two of the three values coincide, the value is still exact and narrow."""
    law = ExactLaw(tuple(map(Fraction, values)), weights)
    found = positive_part.bracket_by_recurrence(law.finite, count, -math.inf)
    assert encloses(found, law.positive_part_mean(count))
    assert relative_width(found) < 1e-15


@pytest.mark.parametrize("gap", [Fraction(1, 10**k) for k in (10, 16, 17, 25)])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(("base", "far"), [(-1, 1), (1, -3)])
@pytest.mark.parametrize("side", [-1, 1])
def test_two_values_that_round_to_one_float(gap: Fraction, order: int, base: int, far: int, side: int) -> None:
    """Two values closer than a float can tell, in either order, must not cost the enclosure."""
    near = [Fraction(base) + side * gap, Fraction(base)]
    values = (Fraction(far), *(near if order else near[::-1]))
    weights = (Fraction(3, 10), Fraction(3, 10), Fraction(4, 10))
    law = ExactLaw(values, weights)
    for count in (1, 4, 7, 10):
        assert encloses(
            positive_part.bracket_by_recurrence(law.finite, count, -math.inf), law.positive_part_mean(count)
        )


@pytest.mark.parametrize(("count", "weight", "power"), [(60, 6, 40), (60, 18, 100), (100, 26, 250)])
def test_tiny_results_keep_their_relative_digits(count: int, weight: int, power: int) -> None:
    """Results down to below 1e-250 are enclosed to 15 digits, against exact fractions."""
    tiny = Fraction(1, 10**weight)
    law = ExactLaw((Fraction(3), Fraction(-1), Fraction(-2, 7)), (tiny, Fraction(3, 5) - tiny, Fraction(2, 5)))
    exact = law.positive_part_mean(count)
    assert 0 < exact < Fraction(1, 10**power)
    found = positive_part.bracket_by_recurrence(law.finite, count, -math.inf)
    assert encloses(found, exact)
    assert relative_width(found) < 1e-15


def precise_divergence(p: mpf, q: mpf, users: int, epsilon: mpf) -> mpf:
    """E(S)_+ of the pair at the largest beta, every positive sum by itself, at the precision in force."""
    r, ratio = p / ((p + 1) * q), mp.exp(epsilon)
    up, down = q * (p - ratio) / p, q * (p * ratio - 1) / p
    total = mpf(0)
    for c in range(1, users + 1):
        a = int(mp.floor(c * down / (up + down))) + 1
        if a > c:
            continue
        ways = mp.loggamma(users + 1) - mp.loggamma(a + 1) - mp.loggamma(c - a + 1) - mp.loggamma(users - c + 1)
        chance = mp.exp(ways + c * mp.log(r) + (users - c) * mp.log(1 - 2 * r))
        part = mpf(0)
        while a <= c and chance * (a * up) > part * mp.eps:
            part += chance * (a * up - (c - a) * down)
            chance *= mpf(c - a) / (a + 1)
            a += 1
        total += part
    return total


@pytest.mark.exhaustive("0.601")
@pytest.mark.parametrize(("epsilon", "power"), [(0.601, 100), (0.963, 250)])
def test_tiny_divergences_agree_with_high_precision(epsilon: float, power: int) -> None:
    """A real pair's divergence near 1e-100 and 1e-250, against a sum of its positive terms at 40 digits."""
    users = 2000
    p = VariationRatio.from_ldp(1.0).p
    found = positive_part.bracket_by_recurrence(
        VariationRatio.from_ldp(1.0).pair(epsilon).law(epsilon), users, -math.inf
    )
    with mp.workdps(40):
        exact = precise_divergence(mpf(p), mpf(p), users, mpf(epsilon))
        assert mpf(10) ** (-power - 3) < exact / users < mpf(10) ** (-power + 3)
        low, high = lower_end(found.lower), upper_end(found.upper)
        assert mpf(low.numerator) / low.denominator <= exact <= mpf(high.numerator) / high.denominator
    assert relative_width(found) < 1e-15


def test_the_window_may_be_as_small_as_the_result_allows() -> None:
    """A window that leaves out e^-40 of a tiny result costs no digit that matters."""
    parameters = VariationRatio.from_ldp(1.0)
    law = parameters.pair(0.5).law(0.5)
    whole = positive_part.bracket_by_recurrence(law, 600, -math.inf)
    part = positive_part.bracket_by_recurrence(law, 600, whole.log_upper() - math.log(600 * 3) - 40)
    assert part.lower <= whole.upper
    assert whole.lower <= part.upper
    assert relative_width(part) < 1e-14
    assert positive_part.recurrence_steps(law, 600, whole.log_upper() - 50) <= positive_part.recurrence_steps(
        law, 600, -math.inf
    )


def test_two_values_only() -> None:
    """A law without a middle value walks over a single count: a fair coin thrown ten times."""
    found = positive_part.bracket_by_recurrence(finite_law([1, -1], [Fraction(1, 2), Fraction(1, 2)]), 10, -30.0)
    exact = sum(Fraction(math.comb(10, a), 2**10) * max(0, 2 * a - 10) for a in range(11))
    assert encloses(found, exact)
