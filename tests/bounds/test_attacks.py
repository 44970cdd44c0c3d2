"""Lower bounds: what attacks on real datasets attain."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import shuffledp as sdp
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.privacy.randomizer import HasOwnLoss, HasParts
from tests.oracle import exact


@pytest.mark.parametrize("options", [3, 16, 128])
@pytest.mark.parametrize("local", [0.5, 1.0, 3.0])
def test_randomized_response_is_tight(options: int, local: float) -> None:
    """At n = 1e4 the gap between guarantee and attack is far below half a percent."""
    value = sdp.amplify(sdp.KRR(local, options), 10_000, effort="quick").epsilon(1e-6)
    assert value.lower is not None
    assert value.lower <= value.upper <= value.lower * 1.001


def test_an_attack_is_the_exact_divergence_of_its_dataset() -> None:
    """For randomized response, everybody else on a third option gives exactly what brute force gives."""
    mechanism = sdp.KRR(math.log(2), 4)
    rows = [list(row) for row in mechanism.table().probabilities]
    for users in (2, 4, 6):
        truth = exact.shuffled_divergence([rows] * users, 0, 1, [2] * (users - 1), Fraction(5, 4))
        lower = sdp.amplify(mechanism, users, effort="quick").delta(math.log(1.25)).lower
        assert lower == pytest.approx(float(truth), rel=1e-9)


def test_binary_response_mixes_its_crowd() -> None:
    """With two options the best known crowd is mixed: it beats the crowd that agrees, as enumeration says it should."""
    users, ratio = 50, Fraction(135, 100)
    mechanism = sdp.KRR(1.0, 2)
    rows = [list(row) for row in mechanism.table().probabilities]
    same = exact.shuffled_divergence([rows] * users, 0, 1, [0] * (users - 1), ratio)
    other = exact.shuffled_divergence([rows] * users, 1, 0, [0] * (users - 1), ratio)
    lower = sdp.amplify(mechanism, users, effort="quick").delta(math.log(float(ratio))).lower
    assert lower is not None
    assert lower >= float(max(same, other)) * (1 - 1e-9)


@pytest.mark.parametrize("name", [name for name, kind in all_mechanisms().items() if kind.examples()])
def test_lower_is_below_upper_for_every_mechanism(name: str) -> None:
    """The attack's ε and δ never exceed the guarantee's."""
    for mechanism in all_mechanisms()[name].examples():
        curve = sdp.amplify(mechanism, 500, effort="quick")
        for value in (curve.epsilon(1e-6), curve.delta(0.1)):
            assert value.lower is None or value.lower <= value.upper


@pytest.mark.parametrize("name", [name for name, kind in all_mechanisms().items() if kind.examples()])
def test_every_mechanism_is_attacked_or_says_why_not(name: str) -> None:
    """Where noise has a law of its own, or parts have, these are what is attacked."""
    for mechanism in all_mechanisms()[name].examples():
        if not isinstance(mechanism, HasOwnLoss | HasParts):
            assert bool(mechanism.attacks()) != bool(mechanism.why_no_attack)


def test_why_there_is_no_attack_is_told() -> None:
    found = sdp.compare(sdp.PrivUnitOptimized(1.0, 8), users=1000, delta=1e-6)
    assert found.lower is None
    assert ("attack", "none known: " + found.why_no_attack.removesuffix(".")) in found.summary()
    assert sdp.compare(sdp.KRR(1.0, 4), users=1000, delta=1e-6).why_no_attack == ""
