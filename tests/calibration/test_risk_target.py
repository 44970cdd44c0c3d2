"""Calibration to an attack-risk target: what is returned meets it, and the next value does not."""

from __future__ import annotations

import pytest

from shuffledp import KRR, NotApplicable, RiskTarget, Target, VariationRatio, amplify, calibrate
from shuffledp.privacy.attack_risk import Risk

TARGETS = [
    RiskTarget(advantage=0.02),
    RiskTarget(tpr=3e-3, fpr=1e-3),
    RiskTarget(bayes_risk=0.29, prior=0.3),
    RiskTarget(ppv=0.02, fpr=0.01, prior=0.01),
]


def missed(target: RiskTarget, risk: Risk) -> float:
    """Above 0 where the risk is beyond the target, by plain numbers."""
    if target.bayes_risk is not None:
        return target.bayes_risk - risk.value
    return risk.value - (target.advantage or target.tpr or target.ppv or 0.0)


@pytest.mark.exhaustive("target1", "target3")
@pytest.mark.parametrize("target", TARGETS)
def test_the_largest_local_epsilon(target: RiskTarget) -> None:
    """The value meets the target by a curve made anew; 0.1% more does not."""
    found = calibrate(VariationRatio.from_ldp, users=300, target=target, effort="quick")
    again = target.evaluate(amplify(VariationRatio.from_ldp(found.value), 300, effort="quick"))
    assert missed(target, again) <= 0
    assert again.value == found.risk.value
    more = target.evaluate(amplify(VariationRatio.from_ldp(found.value * 1.001), 300, effort="quick"))
    assert missed(target, more) > 0


@pytest.mark.parametrize("target", TARGETS)
def test_the_smallest_crowd(target: RiskTarget) -> None:
    """The number meets the target, one less does not."""
    parameters = VariationRatio.from_ldp(2.5)
    found = calibrate(parameters, find="users", target=target, effort="quick")
    assert missed(target, target.evaluate(amplify(parameters, found.value, effort="quick"))) <= 0
    assert missed(target, target.evaluate(amplify(parameters, found.value - 1, effort="quick"))) > 0


@pytest.mark.exhaustive
def test_the_ends_of_the_search() -> None:
    """A target that one user meets, one that no ε of ours misses, and one that cannot be met."""
    assert (
        calibrate(VariationRatio.from_ldp(0.5), find="users", target=RiskTarget(advantage=0.5), effort="quick").value
        == 1
    )
    most = calibrate(VariationRatio.from_ldp, users=10, target=RiskTarget(advantage=0.9999999999), effort="quick")
    assert most.value == 20
    assert "not searched beyond 20" in most.limit
    with pytest.raises(NotApplicable, match=r"no epsilon from 0\.0001 to 20 is proved to give advantage at most"):
        calibrate(VariationRatio.from_ldp, users=1, target=RiskTarget(advantage=1e-9), effort="quick")
    with pytest.raises(NotApplicable, match="no users from 1 to"):
        calibrate(VariationRatio.from_ldp(15.0), find="users", target=RiskTarget(advantage=1e-12), effort="quick")


def test_a_mechanism_of_the_catalogue() -> None:
    """More options hide better, so more local ε is allowed than for any randomizer."""
    target = RiskTarget(advantage=0.05)
    any_randomizer = calibrate(VariationRatio.from_ldp, users=500, target=target, effort="quick")
    krr = calibrate(KRR, options=64, users=500, target=target, effort="quick")
    assert krr.value > any_randomizer.value
    assert krr.mechanism == KRR(krr.value, 64)


def test_a_bound_that_is_no_guarantee_is_refused() -> None:
    """Nothing is calibrated to the published pair where it is not an upper bound."""
    published = {"find": "users", "target": RiskTarget(advantage=0.05), "bound": "variation-ratio-published"}
    with pytest.raises(ValueError, match="must be a guarantee"):
        calibrate(KRR(2.0, options=64), **published, effort="quick")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "exactly one"),
        ({"advantage": 0.1, "tpr": 0.1, "fpr": 0.1}, "exactly one"),
        ({"tpr": 0.1}, "tpr needs fpr"),
        ({"advantage": 0.1, "prior": 0.5}, "does not take prior"),
        ({"bayes_risk": 1.2, "prior": 0.5}, "bayes_risk must be between 0 and 1"),
    ],
)
def test_bad_targets(settings: dict, message: str) -> None:
    """Refused in one sentence."""
    with pytest.raises(ValueError, match=message):
        RiskTarget(**settings)


# As they came out of a search of its own for each kind of target: the one search must not move them.
PINNED = {
    "advantage": (RiskTarget(advantage=0.02), 0.7310848361673126, 7548),
    "tpr": (RiskTarget(tpr=3e-3, fpr=1e-3), 2.8637917610602965, 193),
    "error": (RiskTarget(bayes_risk=0.29, prior=0.3), 3.9211713862375093, 60),
    "precision": (RiskTarget(ppv=0.02, fpr=0.01, prior=0.01), 2.5995597940470168, 266),
}


@pytest.mark.exhaustive("precision", "tpr")
@pytest.mark.parametrize("name", PINNED)
def test_the_values_stay_what_they_were(name: str) -> None:
    """300 users of any randomizer; the fewest users at local ε = 2.5."""
    target, local, users = PINNED[name]
    assert calibrate(VariationRatio.from_ldp, users=300, target=target, effort="quick").value == pytest.approx(
        local, rel=1e-13
    )
    assert calibrate(VariationRatio.from_ldp(2.5), find="users", target=target, effort="quick").value == users


@pytest.mark.exhaustive
def test_colluding_users_and_rounds_count_for_risk_targets_too() -> None:
    """One search for every target: what collude come on top, and rounds add up."""
    target, made = RiskTarget(advantage=0.1), KRR(1.0, 4)
    alone = calibrate(made, find="users", target=target, effort="quick")
    assert calibrate(made, find="users", target=target, colluding=50, effort="quick").value == alone.value + 50
    found = calibrate(made, find="rounds", users=2_000, target=target, effort="quick")
    assert found.value > 1
    assert found.risk.value <= 0.1
    assert found.curve.delta(0.0).upper == found.risk.value


def test_each_kind_of_target_says_what_it_reached() -> None:
    """The number that is limited, rounded towards the safe side, and a sentence where the other kind is asked for."""
    risk = calibrate(
        VariationRatio.from_ldp(2.0), find="users", target=RiskTarget(bayes_risk=0.4, prior=0.5), effort="quick"
    )
    assert "error at least 0.4 at prior 0.5" in str(risk)
    shown = float(str(risk).partition("error = ")[2].split()[0])
    assert risk.risk.value * (1 - 1e-6) <= shown <= risk.risk.value
    with pytest.raises(AttributeError, match="names no δ"):
        _ = risk.epsilon
    plain = calibrate(KRR(2.0, 4), find="users", target=Target(1.0, 1e-6), effort="quick")
    assert plain.epsilon.upper <= 1.0
    assert "ε = 1 at δ = 1e-6" in str(plain)
    assert ">ε = 1 at δ = 1e-6</td>" in plain._repr_html_()
    with pytest.raises(AttributeError, match="limits ε"):
        _ = plain.risk


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "give a target, or epsilon and delta"),
        ({"epsilon": 1.0}, "give a target, or epsilon and delta"),
        ({"target": Target(1.0, 1e-6), "delta": 1e-6}, "not both"),
    ],
)
def test_a_target_is_given_once(arguments: dict, sentence: str) -> None:
    """As an object or in short form."""
    with pytest.raises(ValueError, match=sentence):
        calibrate(KRR, options=4, users=100, **arguments, effort="quick")
    with pytest.raises(TypeError, match="expected Target"):
        calibrate(KRR, options=4, users=100, target=(1.0, 1e-6), effort="quick")


def test_values_that_are_too_large_for_a_mechanism_end_the_search() -> None:
    """Refused above 3 and taken below: the answer is below, not a refusal."""

    def build(local: float) -> KRR:
        if local > 3.0:
            raise ValueError("Timid: epsilon must be at most 3.")
        return KRR(local, 4)

    assert calibrate(build, users=10**6, epsilon=1.0, delta=1e-6, effort="quick").value == pytest.approx(3.0, rel=1e-3)
