"""Calibration to an attack-risk target: what is returned meets it, and the next value does not."""

from __future__ import annotations

import pytest

from shuffledp import KRR, NotApplicable, RiskTarget, VariationRatio, amplify, calibrate_local, calibrate_users

TARGETS = [
    RiskTarget(advantage=0.02),
    RiskTarget(tpr=3e-3, fpr=1e-3),
    RiskTarget(bayes_risk=0.29, prior=0.3),
    RiskTarget(ppv=0.02, fpr=0.01, prior=0.01),
]


@pytest.mark.parametrize("target", TARGETS)
def test_the_largest_local_epsilon(target: RiskTarget) -> None:
    """The value meets the target by a curve made anew; 0.1% more does not."""
    found = calibrate_local(VariationRatio.of_ldp, 300, target)
    again = target.risk(amplify(VariationRatio.of_ldp(found.value), 300))
    assert target.excess(again) <= 0
    assert again.value == found.risk.value
    more = target.risk(amplify(VariationRatio.of_ldp(found.value * 1.001), 300))
    assert target.excess(more) > 0


@pytest.mark.parametrize("target", TARGETS)
def test_the_smallest_crowd(target: RiskTarget) -> None:
    """The number meets the target, one less does not."""
    parameters = VariationRatio.of_ldp(2.5)
    found = calibrate_users(parameters, target)
    assert target.excess(target.risk(amplify(parameters, found.value))) <= 0
    assert target.excess(target.risk(amplify(parameters, found.value - 1))) > 0


def test_the_ends_of_the_search() -> None:
    """A target that one user meets, one that no ε of ours misses, and one that cannot be met."""
    assert calibrate_users(VariationRatio.of_ldp(0.5), RiskTarget(advantage=0.5)).value == 1
    assert calibrate_local(VariationRatio.of_ldp, 10, RiskTarget(advantage=0.9999999999)).value == pytest.approx(20)
    with pytest.raises(NotApplicable, match="no local ε"):
        calibrate_local(VariationRatio.of_ldp, 1, RiskTarget(advantage=1e-9))
    with pytest.raises(NotApplicable, match="lower the local ε"):
        calibrate_users(VariationRatio.of_ldp(15.0), RiskTarget(advantage=1e-12))


def test_a_mechanism_of_the_catalogue() -> None:
    """More options hide better, so more local ε is allowed than for any randomizer."""
    target = RiskTarget(advantage=0.05)
    any_randomizer = calibrate_local(VariationRatio.of_ldp, 500, target)
    krr = calibrate_local(lambda local: KRR(local, options=64), 500, target)
    assert krr.value > any_randomizer.value
    assert isinstance(krr.randomizer, KRR)


def test_a_bound_that_is_no_guarantee_is_refused() -> None:
    """Nothing is calibrated to the published pair where it is not an upper bound."""
    with pytest.raises(NotApplicable, match="not a guarantee"):
        calibrate_users(KRR(2.0, options=64), RiskTarget(advantage=0.05), bound="variation-ratio-published")


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
