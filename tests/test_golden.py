"""Certified values computed elsewhere, met to the digits that they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpmath
import pytest

import shuffledp as sdp
from tests.oracle import highprecision

GOLDEN = Path(__file__).parent / "golden"


def cases(name: str) -> list[Any]:
    document = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return [pytest.param(case, id=f"{case['name']} n={case['n']}") for case in document["cases"]]


@pytest.mark.parametrize("case", cases("published_pair"))
def test_the_published_pair(case: dict[str, Any]) -> None:
    """The published formula to 1e-9, never below the certified twelve digits, flagged exactly where γ > 0."""
    parameters = sdp.VariationRatio(float(case["p"]), case["beta"], (case["q0"], case["q1"]))
    value = sdp.amplify(parameters, case["n"], bound="variation-ratio-published").epsilon(case["delta"])
    assert value.upper == pytest.approx(case["epsilon"], rel=1e-9)
    assert value.upper >= case["epsilon"] * (1 - 1e-12)
    assert value.upper - value.slack <= case["epsilon"] * (1 + 1e-12)
    assert value.guarantee == (case["gamma"] == 0.0)


@pytest.mark.parametrize("case", cases("sound"))
def test_the_sound_bound(case: dict[str, Any]) -> None:
    """The sound bound to 1e-6, never below the eight digits that are known."""
    parameters = sdp.VariationRatio(case["p"], case["beta"], case["q"], case["q_common"])
    value = sdp.amplify(parameters, case["n"], bound="variation-ratio").epsilon(case["delta"])
    assert value.upper == pytest.approx(case["epsilon"], rel=1e-6)
    assert value.upper >= case["epsilon"] * (1 - 1e-8)
    assert value.guarantee


@pytest.mark.parametrize("users", [10, 40])
@pytest.mark.parametrize("case", cases("sound")[:3])
def test_the_sound_bound_in_many_digits(case: dict[str, Any], users: int) -> None:
    """With fewer users, δ at a given ε encloses the value of direct sums in fifty digits."""
    parameters = sdp.VariationRatio(case["p"], case["beta"], case["q"], case["q_common"])
    value = sdp.amplify(parameters, users, bound="variation-ratio").delta(0.1)
    with mpmath.workdps(50):
        truth = highprecision.delta_sound(
            case["p"], case["beta"], case["q"], case["q"], case["q_common"], users, mpmath.mpf(0.1)
        )
        assert mpmath.mpf(value.upper) >= truth >= mpmath.mpf(value.upper) - mpmath.mpf(value.slack)
