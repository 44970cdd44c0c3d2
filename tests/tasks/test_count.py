"""How many users say yes: every way to say it, and a curator's error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp.planning.goal import Goal
from shuffledp.planning.mechanism_calibration import Candidate, Trial
from shuffledp.planning.plan import Plan
from shuffledp.tasks import Count


def plan_of(users: int) -> Plan:
    (offer,) = Trial("split-and-mix", sdp.SplitAndMix, Goal(Count(), users, sdp.Target(1.0, 1e-8))).run()
    assert isinstance(offer, Candidate)
    assert offer.curator_error_ratio < 1.05
    return offer.plan


SAID: dict[str, Any] = {
    "truth": pa.array([True, False, True, True]),
    "numbers": pa.array([1, 0, 1, 1]),
    "floats": pa.array([1.0, 0.0, 1.0, 1.0]),
    "texts": pa.array(["yes", "No", " TRUE ", "1"]),
    "large texts": pa.array(["yes", "no", "true", "1"], pa.large_string()),
}


@pytest.mark.parametrize("name", SAID)
def test_every_way_to_say_yes(name: str) -> None:
    column = plan_of(1000).column("answer")
    np.testing.assert_allclose(column.read_values(SAID[name]), [1, 0, 1, 1])


@pytest.mark.parametrize(
    "said", [pa.array(["yes", "maybe"]), pa.array([1, 2]), pa.array([0.5]), pa.array([float("inf")])]
)
def test_neither_is_refused(said: pa.Array) -> None:
    """By a count, never by what was said."""
    with pytest.raises(ValueError, match=r"expected yes, no, true, false, 1 or 0, got something else in 1 rows\.$"):
        plan_of(1000).column("answer").read_values(said)
    with pytest.raises(ValueError, match="expected yes or no in every row, got list"):
        plan_of(1000).column("answer").read_values(pa.array([[1]]))


def test_a_collection_counts(tmp_path: Path) -> None:
    plan = plan_of(2000)
    assert Plan.parse(plan.text()) == plan
    report = sdp.collect(plan, pa.array(np.arange(2000) % 4 == 0), out=tmp_path / "out")
    (quantity,) = report.quantities
    assert quantity.labels == ("yes",)
    assert abs(quantity.value[0] - 500) < 30
    assert report.guarantee.is_target_met
    found = sdp.simulate(plan, repeats=2000)
    assert found.ratio == pytest.approx(1, abs=0.1)
    assert 0.93 < found.covered < 0.97


def test_another_domain_is_refused() -> None:
    document = plan_of(1000).document()
    document["task"]["domain"]["high"] = 2.0
    with pytest.raises(ValueError, match="the task 'count' has the domain 0 to 1"):
        Plan.parse(json.dumps(document))


@pytest.mark.parametrize(("levels", "rate"), [(1, 1.0), (64, 0.02)])
def test_simulated_users_are_at_the_ends(levels: int, rate: float) -> None:
    """Half of them say yes: a number between no and yes would be rounded at random, and the error be larger."""
    mechanism = sdp.SplitAndMix(rate=rate, levels=levels, modulus=1 << 20, messages=3, honest=100)
    plan = Plan(Count(), mechanism, users=100, epsilon=10.0, delta=1e-2)
    outcome = sdp.simulate(plan, repeats=2000, seed=1)
    assert outcome.ratio == pytest.approx(1.0, abs=0.1)
    assert outcome.covered >= 0.93
