"""Every vector of counts visited: the measure of the other routes, measured itself against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from shuffledp.numerics import positive_part
from tests.oracle.exact_enumeration import compositions

from .exact_law import KINDS, ExactLaw, encloses, finite_law, laws, random_law, relative_width


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_random_laws_are_enclosed(kind: str, size: int) -> None:
    """The bracket holds the exact mean of the positive part, for random laws with ties and tiny weights."""
    rng = Random(f"{kind} {size}")
    for _ in range(12):
        law, count = random_law(rng, size, kind), rng.randint(1, 12 if size < 4 else 6)
        exact, found = law.positive_part_mean(count), positive_part.bracket_by_enumeration(law.finite, count)
        assert encloses(found, exact)
        assert relative_width(found) < 1e-30 or exact == 0
        assert found.method == "enumeration"


@settings(deadline=None, derandomize=True, max_examples=80)
@given(laws(), st.integers(1, 5))
def test_any_law_is_enclosed(law: ExactLaw, count: int) -> None:
    """No law that an adversary finds escapes its bracket."""
    assert encloses(positive_part.bracket_by_enumeration(law.finite, count), law.positive_part_mean(count))


def test_positive_means_are_enclosed_too() -> None:
    """The route does not rely on E[G] <= 0."""
    law = ExactLaw((Fraction(2), Fraction(1, 3), Fraction(-1)), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))
    for count in range(1, 8):
        assert encloses(positive_part.bracket_by_enumeration(law.finite, count), law.positive_part_mean(count))


def test_known_value() -> None:
    """A fair coin of +1 and -1 thrown four times: E(S)_+ = 3/4."""
    found = positive_part.bracket_by_enumeration(finite_law([1, -1], [Fraction(1, 2), Fraction(1, 2)]), 4)
    assert encloses(found, Fraction(3, 4))


def test_no_positive_value_gives_zero() -> None:
    """Where no sum is positive both sides are 0."""
    found = positive_part.bracket_by_enumeration(finite_law([0, -1, -2], [Fraction(1, 3)] * 3), 5)
    assert found.upper_float() == 0.0
    assert found.lower_float() == 0.0


@pytest.mark.parametrize(("values", "count"), [(1, 7), (2, 9), (3, 6), (4, 5), (6, 4)])
def test_size_counts_the_vectors(values: int, count: int) -> None:
    """The stated number of vectors is the number of compositions."""
    assert positive_part.count_vectors(values, count) == len(list(compositions(count, values)))
    assert positive_part.count_vectors(values, count) == math.comb(count + values - 1, count)
