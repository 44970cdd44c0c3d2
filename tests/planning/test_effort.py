"""Plans by all bounds: less noise for the same promise, which the collection keeps."""

from __future__ import annotations

import pytest

import shuffledp as sdp
from shuffledp.ledger.collection_guarantee import CurveInputs, Guarantee
from shuffledp.planning.plan import Plan
from shuffledp.tasks.counts_and_frequencies import Frequency


def test_the_winner_has_less_noise_and_the_same_promise() -> None:
    quick, full = (
        sdp.plan(Frequency(16), users=10_000, epsilon=0.1, delta=1e-6, mechanism="oue", effort=effort).best
        for effort in ("quick", "full")
    )
    assert full.proof.bound == "all-crowds"
    assert full.proof.upper <= 0.1
    assert full.mechanism.epsilon > 1.02 * quick.mechanism.epsilon
    assert full.standard_error < 0.98 * quick.standard_error
    plan = full.plan
    assert plan.effort == "full"
    assert Plan.parse(plan.text()) == plan
    # The quick bounds would not let this collection go.
    held = Guarantee(plan, 10_000)
    assert held.value.upper <= 0.1 < sdp.amplify(plan.mechanism, 10_000, effort="quick").epsilon(1e-6).upper
    assert CurveInputs.from_document(held.curve_inputs.to_document()) == held.curve_inputs


def test_a_quick_plan_is_the_file_that_it_ever_was() -> None:
    plan = sdp.plan(Frequency(4), users=1000, epsilon=1, delta=1e-6, mechanism="krr").best.plan
    assert plan.effort == "quick"
    assert "effort" not in plan.document()
    assert "effort" not in Guarantee(plan, 1000).curve_inputs.to_document()


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="plan: effort must be 'full' or 'quick', got 'most'"):
        sdp.plan(Frequency(4), users=1000, epsilon=1, delta=1e-6, effort="most")
