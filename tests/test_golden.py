"""Certified values computed elsewhere, met to the digits that they have."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import flint
import mpmath
import pytest
from flint import arb

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


def small_enough(case: dict[str, Any]) -> bool:
    """A direct sum over the counts takes seconds: few users, and few of them in the counted classes."""
    return case["n"] <= 200 and (case["q_common"] > 1 or case["p"] > 3)


def positive_part(case: dict[str, Any], epsilon: float) -> arb:
    """D of the sound pair at ε by its own sum over (extreme, common) counts, positive terms only."""
    p, beta, q, shared = (arb(case[k]) for k in ("p", "beta", "q", "q_common"))
    alpha, ratio, users = beta / (p - 1), arb(epsilon).exp(), int(case["n"])
    gamma, r = 1 - alpha - p * alpha, p * alpha / q
    up, down, common = (p * alpha - ratio * alpha) / r, (p * alpha * ratio - alpha) / r, shared * (ratio - 1)
    m = gamma / shared
    logs = [arb(0)]
    for k in range(1, users + 1):
        logs.append(logs[-1] + arb(k).log())
    rest = 1 - 2 * r - m
    nobody = not rest > 0
    log_r, log_m, log_rest = r.log(), m.log(), arb(0) if nobody else rest.log()
    rough_r, rough_m, rough_rest = float(log_r), float(log_m), float(log_rest)
    total = arb(0)
    for c in range(1, users + 1):
        for k in range(users - c + 1):
            a = math.floor(float((c * down + k * common) / (up + down))) + 1
            left = users - c - k
            if a > c or (left and nobody):
                continue
            rough = c * rough_r + k * rough_m + left * rough_rest + math.lgamma(users + 1)
            rough -= math.lgamma(a + 1) + math.lgamma(c - a + 1) + math.lgamma(k + 1) + math.lgamma(left + 1)
            if rough < -55:
                continue
            log_chance = logs[users] - logs[a] - logs[c - a] - logs[k] - logs[left]
            chance = (log_chance + c * log_r + k * log_m + left * log_rest).exp()
            value = a * up - (c - a) * down - k * common
            while a <= c and chance > 1e-27:
                total += chance * value
                chance *= arb(c - a) / (a + 1)
                value += up + down
                a += 1
    return total / users


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [case for case in cases("sound") if small_enough(case.values[0])])
def test_the_sound_bound_at_its_own_size(case: dict[str, Any]) -> None:
    """At n = 200 the divergence at ε is at most δ, and at ε − slack at least δ: both sides of ε are true."""
    parameters = sdp.VariationRatio(case["p"], case["beta"], case["q"], case["q_common"])
    value = sdp.amplify(parameters, case["n"], bound="variation-ratio").epsilon(case["delta"])
    with flint.ctx.workprec(100):
        assert positive_part(case, value.upper) <= arb(case["delta"]) * (1 + arb("1e-15"))
        # Terms below e^-55 are left out of the sum, so it can only be too small.
        assert positive_part(case, value.upper - value.slack) >= arb(case["delta"]) * (1 - arb("1e-15"))
    assert value.slack < 1e-8 * value.upper
