"""Certified values computed elsewhere, met to the digits that they have."""

from __future__ import annotations

import json
import math
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


def small_enough(case: dict[str, Any]) -> bool:
    """A direct sum over the counts takes seconds: few users, and few of them in the counted classes."""
    return case["n"] <= 200 and (case["q_common"] > 1 or case["p"] > 3)


def positive_part(case: dict[str, Any], epsilon: float) -> mpmath.mpf:
    """D of the sound pair at ε by its own sum over (extreme, common) counts, positive terms only."""
    p, beta, q, shared, n = (mpmath.mpf(case[k]) for k in ("p", "beta", "q", "q_common", "n"))
    alpha, ratio, users = beta / (p - 1), mpmath.exp(mpmath.mpf(epsilon)), int(n)
    gamma, r = 1 - alpha - p * alpha, p * alpha / q
    up, down, common = (p * alpha - ratio * alpha) / r, (p * alpha * ratio - alpha) / r, shared * (ratio - 1)
    m = gamma / shared
    logs = [mpmath.mpf(0)]
    for k in range(1, users + 1):
        logs.append(logs[-1] + mpmath.log(k))
    rest = max(1 - 2 * r - m, mpmath.mpf(0))
    log_r, log_m, log_rest = mpmath.log(r), mpmath.log(m), mpmath.log(rest) if rest else mpmath.mpf(0)
    total = mpmath.mpf(0)
    for c in range(1, users + 1):
        for k in range(users - c + 1):
            a = int(mpmath.floor((c * down + k * common) / (up + down))) + 1
            left = users - c - k
            if a > c or (left and not rest):
                continue
            powers = [(a, log_r), (c - a, log_r), (k, log_m), (left, log_rest)]
            rough = math.lgamma(users + 1) + sum(j * float(x) - math.lgamma(j + 1) for j, x in powers)
            if rough < -55:
                continue
            chance = mpmath.exp(logs[users] + sum(j * x - logs[j] for j, x in powers))
            value = a * up - (c - a) * down - k * common
            while a <= c and chance > 1e-27:
                total += chance * value
                chance *= mpmath.mpf(c - a) / (a + 1)
                value += up + down
                a += 1
    return total / users


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in cases("sound") if small_enough(case.values[0])])
def test_the_sound_bound_at_its_own_size(case: dict[str, Any]) -> None:
    """At n = 200 the divergence at ε is at most δ, and at ε − slack at least δ: both sides of ε are true."""
    parameters = sdp.VariationRatio(case["p"], case["beta"], case["q"], case["q_common"])
    value = sdp.amplify(parameters, case["n"], bound="variation-ratio").epsilon(case["delta"])
    with mpmath.workdps(20):
        assert positive_part(case, value.upper) <= case["delta"] * (1 + mpmath.mpf("1e-15"))
        # Terms below e^-55 are left out of the sum, so it can only be too small.
        assert positive_part(case, value.upper - value.slack) >= case["delta"] * (1 - mpmath.mpf("1e-15"))
        assert value.slack < 1e-8 * value.upper
