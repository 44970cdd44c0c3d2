"""One pair of inputs as an object: parameters from exact laws, and classes put together on the safe side."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from flint import arb, fmpq

from shuffledp.bounds.amplify import amplify
from shuffledp.mechanisms.mean.laplace import Laplace
from shuffledp.mechanisms.mean.witch_hat import WitchHat
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy import input_pairs
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, MessageClass
from shuffledp.privacy.input_pairs import (
    build_attack,
    identical_neighbours,
    neighbours_from_pair,
    neighbours_from_parameters,
)
from shuffledp.privacy.randomizer_interface import HasNeighbours

Triple = tuple[Fraction, Fraction, Fraction]


def random_triples(seed: int, size: int) -> list[Triple]:
    """Two random laws and one below both."""
    rng = Random(seed)
    laws = []
    for _ in range(2):
        numbers = [rng.randint(20, 99) for _ in range(size)]
        laws.append([Fraction(number, sum(numbers)) for number in numbers])
    return [(a, b, min(a, b) * Fraction(rng.randint(3, 9), 10)) for a, b in zip(*laws, strict=True)]


def balls(triples: list[Triple]) -> Classes:
    return [MessageClass(*(arb(fmpq(x.numerator, x.denominator)) for x in triple)) for triple in triples]


@pytest.mark.parametrize("seed", range(5))
def test_parameters_are_the_exact_ones(seed: int) -> None:
    triples = random_triples(seed, 6)
    found = neighbours_from_pair(lambda: balls(triples)).variation_ratio()
    assert found.p == pytest.approx(float(max(max(a / b, b / a) for a, b, _ in triples)), rel=1e-15)
    assert found.beta == pytest.approx(float(sum(max(a - b, Fraction(0)) for a, b, _ in triples)), rel=1e-15)
    q0 = max(a / h for a, b, h in triples if a >= b)
    q1 = max(b / h for a, b, h in triples if b >= a)
    assert found.q_pair == pytest.approx((float(q0), float(q1)), rel=1e-15)
    assert Fraction(found.p) >= max(max(a / b, b / a) for a, b, _ in triples)
    assert Fraction(found.q_pair[0]) >= q0


def divergence(pair: HidingPair, users: int, epsilon: float) -> float:
    return PositivePartMean(pair.law, users).bracket(epsilon).upper_float()


@pytest.mark.parametrize("lines", [6, 12, 40])
def test_fewer_classes_are_on_the_safe_side(monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    """With 200 classes put together the divergence can only grow, at every ε and n; with many lines by little."""
    triples = random_triples(7, 200)
    monkeypatch.setattr(input_pairs, "MAX_CLASSES", 1000)
    (plain,) = neighbours_from_pair(lambda: balls(triples)).blankets()
    monkeypatch.setattr(input_pairs, "MAX_CLASSES", 100)
    monkeypatch.setattr(input_pairs, "MAX_LINES", lines)
    (thinned,) = neighbours_from_pair(lambda: balls(triples)).blankets()
    attack = build_attack(lambda: [MessageClass(c.first, c.second, (c.first + c.second) / 2) for c in balls(triples)])
    monkeypatch.setattr(input_pairs, "MAX_CLASSES", 1000)
    exact = build_attack(lambda: [MessageClass(c.first, c.second, (c.first + c.second) / 2) for c in balls(triples)])
    for users in (30, 1000):
        for epsilon in (0.0, 0.05, 0.2):
            true, more = divergence(plain, users, epsilon), divergence(thinned, users, epsilon)
            assert more >= true * (1 - 1e-6)
            assert lines < 40 or true < 1e-8 or more <= 1.01 * true
            assert divergence(attack, users, epsilon) <= divergence(exact, users, epsilon) * (1 + 1e-6) + 1e-15


def test_equal_ratios_share_lines() -> None:
    """Many messages of few kinds: lines are drawn beside each kind, and nothing is lost."""
    kinds = random_triples(3, 5)
    triples = [(a / 60, b / 60, h / 60) for a, b, h in kinds for _ in range(60)]
    (thinned,) = neighbours_from_pair(lambda: balls(triples)).blankets()
    (plain,) = neighbours_from_pair(lambda: balls(kinds)).blankets()
    for epsilon in (0.01, 0.2):
        # The contour, which evaluates many values, is this wide at so few users.
        assert divergence(thinned, 500, epsilon) == pytest.approx(divergence(plain, 500, epsilon), rel=1e-3)


def test_identical_inputs_and_bare_parameters() -> None:
    assert amplify(identical_neighbours(), 1000, effort="quick").epsilon(1e-6).upper < 1e-12
    bare = neighbours_from_parameters(math.e, 0.3, 3.0)
    value = amplify(bare, 1000, effort="quick").epsilon(1e-6)
    assert 0 < value.upper < 1
    assert value.upper == amplify(bare.variation_ratio(), 1000, bound="variation-ratio").epsilon(1e-6).upper


@pytest.mark.parametrize(
    ("mechanism", "users", "delta", "first", "second"),
    [
        (Laplace(0.0011834331276411776), 100, 3.6e-12, 0.42890323046835643, 0.3624112397520619),
        (Laplace(0.004372881246219136, grid=1), 100, 9.7e-07, 0.8016644306001379, 0.8016644306001381),
        (Laplace(0.021464996318781956), 10**9, 4.8e-09, 0.7747047459120164, 0.636866668393508),
        (Laplace(0.0394738528154252), 10**9, 0.0024, 0.020157603021425663, 0.020157792195417922),
        (Laplace(0.0034543676678930493), 10**6, 0.029, 0.6457374231841371, 0.9522450127538733),
        (WitchHat(0.006665462654681107, 0.2493, 0.391, 2), 100, 0.0118, -0.032998958461164137, -0.03299895846110495),
    ],
    ids=str,
)
def test_inputs_that_can_hardly_be_told_apart(
    mechanism: HasNeighbours, users: int, delta: float, first: float, second: float
) -> None:
    """Small distances, many grid points: no digit is lost, and the attack stays below."""
    value = amplify(mechanism, users, pair=(first, second), effort="quick").epsilon(delta)
    assert 0 <= value.upper < 0.04
    assert value.lower is None or value.lower <= value.upper
