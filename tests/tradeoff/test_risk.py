"""What a privacy curve says of an attack: never less than the best test does, and hardly more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shuffledp import KRR, AttackRisk, VariationRatio, amplify, privacy_curve, trade_off
from shuffledp.privacy.shuffled_tradeoff import shuffled_trade_off
from shuffledp.privacy.tradeoff import GaussianTradeOff

CASES = [
    (VariationRatio.from_ldp(1.0), 40),
    (VariationRatio.from_ldp(3.0), 200),
    (VariationRatio(math.inf, 1.0, 4.0), 30),
]


@pytest.mark.parametrize(("parameters", "users"), CASES)
@pytest.mark.parametrize("fpr", [1e-6, 1e-3, 0.05, 0.4, 0.5, 0.8, 0.999])
def test_the_power_of_the_best_test(parameters: VariationRatio, users: int, fpr: float) -> None:
    """The bound is above the exact pair's power and, optimised over ε, within 0.1% of it."""
    exact = float(shuffled_trade_off(parameters.pair(0.0), users).tpr(fpr))
    risk = AttackRisk(amplify(parameters, users, effort="quick")).tpr(fpr)
    assert exact <= risk.value * (1 + 1e-13)
    assert risk.value <= exact * 1.001
    assert risk.certified
    assert risk.guarantee


def test_a_known_trade_off_guides_the_search() -> None:
    """The same numbers to 1e-4, never below the exact pair's."""
    parameters = VariationRatio.from_ldp(2.0)
    curve = amplify(parameters, 100, effort="quick")
    exact = shuffled_trade_off(parameters.pair(0.0), 100)
    guided, plain = AttackRisk(curve, trade_off(curve)), AttackRisk(curve)
    for fpr in (1e-5, 0.01, 0.5, 0.9):
        assert float(exact.tpr(fpr)) <= guided.tpr(fpr).value * (1 + 1e-13)
        assert guided.tpr(fpr).value == pytest.approx(plain.tpr(fpr).value, rel=1e-4)


def test_the_ends() -> None:
    """At FPR 0 nothing can be told where p is finite; at 1 everything is rejected."""
    risk = AttackRisk(amplify(VariationRatio.from_ldp(1.0), 50, effort="quick"))
    assert risk.tpr(0.0).value == 0.0
    assert risk.tpr(1.0).value == 1.0
    revealing = VariationRatio(math.inf, 1.0, 4.0)
    exact = shuffled_trade_off(revealing.pair(0.0), 10).tpr(0.0)
    assert AttackRisk(amplify(revealing, 10, effort="quick")).tpr(0.0).value == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize(("parameters", "users"), CASES)
@pytest.mark.parametrize("prior", [0.01, 0.3, 0.5, 0.9])
def test_the_bayes_risk_of_the_best_guess(parameters: VariationRatio, users: int, prior: float) -> None:
    """Σ min((1−π)·p, π·q) over all outcomes of the exact pair, from below and tight to 1e-11."""
    pair = shuffled_trade_off(parameters.pair(0.0), users)
    exact = float(np.minimum((1 - prior) * pair.null, prior * pair.alternative).sum())
    found = AttackRisk(amplify(parameters, users, effort="quick")).bayes_risk(prior).value
    assert found <= exact + 1e-14
    assert found == pytest.approx(exact, abs=1e-11)


def test_identities() -> None:
    """Advantage = δ(0); even prior: (1 − advantage)/2; PPV from its definition; float() of a risk."""
    curve = amplify(VariationRatio.from_ldp(2.0), 500, effort="quick")
    risk = AttackRisk(curve)
    advantage = risk.advantage()
    assert float(advantage) == curve.delta(0.0).upper
    assert risk.bayes_risk(0.5).value == pytest.approx((1 - advantage.value) / 2, rel=1e-15)
    power = risk.tpr(0.01).value
    assert risk.ppv(0.01, 0.1).value == pytest.approx(0.1 * power / (0.1 * power + 0.9 * 0.01), rel=1e-14)
    assert risk.ppv(0.0, 0.1).value == 1.0
    assert 0.1 < risk.ppv(0.01, 0.1).value < 0.2


def test_an_attack_on_a_real_dataset_attains_some() -> None:
    """Where an attack is known its advantage is shown, below the bound; many options: the two nearly agree."""
    advantage = AttackRisk(amplify(KRR(2.0, options=64), 1000, effort="quick")).advantage()
    assert advantage.attained is not None
    assert advantage.attained <= advantage.value <= 1.001 * advantage.attained


def test_a_gaussian_step() -> None:
    """Through the trade-off's privacy curve: Φ(Φ⁻¹(x) + μ), from above; not certified."""
    gauss = GaussianTradeOff(1.0)
    risk = AttackRisk(privacy_curve(gauss))
    for fpr in (1e-4, 0.1, 0.7):
        found = risk.tpr(fpr)
        assert float(gauss.tpr(fpr)) <= found.value * (1 + 1e-12)
        assert found.value == pytest.approx(float(gauss.tpr(fpr)), rel=1e-3)
        assert not found.certified


@pytest.mark.parametrize("call", [lambda r: r.tpr(1.5), lambda r: r.bayes_risk(0.0), lambda r: r.ppv(0.1, 1.0)])
def test_bad_input(call) -> None:
    """Refused in one sentence that names who asked."""
    with pytest.raises(ValueError, match=r"AttackRisk: .* got"):
        call(AttackRisk(amplify(VariationRatio.from_ldp(1.0), 10, effort="quick")))
