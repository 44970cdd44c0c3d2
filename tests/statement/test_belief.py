"""How sure somebody can become, against the exact posterior of finite pairs in fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from shuffledp.statement import Belief


def random_law(rng: random.Random, size: int) -> list[Fraction]:
    weights = [rng.choice((0, 1, 1, 2, 5, 100)) for _ in range(size)]
    weights[rng.randrange(size)] += 1
    return [Fraction(weight, sum(weights)) for weight in weights]


def hockey_stick(p: list[Fraction], q: list[Fraction], factor: Fraction) -> Fraction:
    return sum((max(a - factor * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def test_nobody_becomes_surer_but_with_the_told_probability() -> None:
    """For random laws of what is seen: the exact chance of a posterior above what is told, whatever was said."""
    rng = random.Random(1)
    checked = 0
    for _ in range(400):
        size = rng.randint(2, 6)
        p, q = random_law(rng, size), random_law(rng, size)
        epsilon, before = rng.choice((0.01, 0.3, 1.0, 2.5)), rng.choice((0.5, 0.1, 0.9))
        delta = float(hockey_stick(p, q, Fraction(math.exp(epsilon)))) * (1 + 1e-9)
        told = Belief.from_guarantee(epsilon, delta, before)
        prior, after = Fraction(before), Fraction(told.posterior)
        surer = [a * prior > after * (a * prior + b * (1 - prior)) for a, b in zip(p, q, strict=True)]
        for law in (p, q):
            chance = sum((mass for mass, is_surer in zip(law, surer, strict=True) if is_surer), Fraction(0))
            assert chance <= told.exception_probability
            checked += chance > 0
    assert checked > 50


@pytest.mark.parametrize(
    ("epsilon", "after"), [(0.0, 0.501), (0.296, 0.575), (1.0, 0.732), (math.log(3) - 0.01, 0.749)]
)
def test_what_is_told_is_near_the_posterior_of_epsilon(epsilon: float, after: float) -> None:
    """e^ε/(1 + e^ε) for even odds, in tenths of a percent, with a little room."""
    told = Belief.from_guarantee(epsilon, 1e-9)
    assert told.posterior == after
    assert 0 <= told.posterior - 1 / (1 + math.exp(-epsilon)) <= 0.0021
    assert 1e-9 <= told.exception_probability <= 251e-9


def test_next_to_nothing_is_said_to_be_that() -> None:
    for epsilon in (10.0, 700.0, math.inf):
        assert "next to nothing" in Belief.from_guarantee(epsilon, 1e-6).sentence()


def test_the_sentence() -> None:
    assert Belief.from_guarantee(0.296, 1e-8).sentence() == (
        "Anyone who is 50% sure of a person's value beforehand, and knows everybody else's, is at most 57.5% sure of "
        "it afterwards, except with probability 1.6e-6; this exception is a consequence of ε and δ = 1e-8, not an "
        "additional one."
    )
    assert "except" not in Belief.from_guarantee(0.3, 0.0).sentence()
