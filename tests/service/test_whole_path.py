"""The whole path with real servers that are killed: who came is who is counted, and the truth is where we say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shuffledp import CancellingNoise, Plan, tasks
from shuffledp.planning.planner import plan
from shuffledp.service.demo import run_demo
from tests.cli import run

# The shuffler, the clients and the analyst ask the same of one plan.
pytestmark = pytest.mark.usefixtures("each_curve_once")

CLIENTS = 10_000
WIDEST = 6.0
"""Standard errors that no estimate is off: 2e-9 for each, and there are a dozen."""


def plans() -> dict[str, tuple[Plan, np.ndarray]]:
    """Three mechanisms, and the values of their clients: ten thousand in all."""
    chance = np.random.default_rng(11)
    noisy = next(one for one in CancellingNoise.examples() if one.message_plan.has_shuffler_noise)
    settings = {"epsilon": 1.0, "delta": 1e-6}
    return {
        "krr": (
            plan(tasks.Frequency(4), 6000, mechanism="krr", minimum=5000, colluding=100, **settings).best.plan,
            chance.integers(0, 4, 6000),
        ),
        "piecewise": (
            plan(tasks.Mean(0, 10), 3000, mechanism="piecewise", **settings).best.plan,
            chance.beta(2, 5, 3000) * 2 - 1,
        ),
        "noise by the shuffler": (
            Plan(tasks.Frequency(noisy.options), noisy, users=1000, epsilon=20.0, delta=1e-2),
            chance.integers(0, noisy.options, 1000),
        ),
    }


@pytest.mark.exhaustive
def test_the_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """n in the report is n in the ledger is the number of clients; ε is that of this n; estimates are within bounds."""
    monkeypatch.setattr("shuffledp._core.plotting.has_matplotlib", lambda: False)
    clients, exact = 0, []
    for name, (chosen, values) in plans().items():
        room = tmp_path / name
        room.mkdir()
        done = run_demo(chosen, values, room)
        (entry,) = done.ledger.budget_statuses()[0].entries
        guarantee = done.report.guarantee
        assert guarantee.users == entry.users == done.received.users == len(values)
        assert entry.epsilon == guarantee.value.upper <= chosen.epsilon
        assert done.received.noise == ("shuffler" if chosen.mechanism.message_plan.has_shuffler_noise else "users")
        found, truth = done.report.estimate, chosen.mechanism.truth(values)
        off = np.abs(found.value - truth) / np.sqrt(found.variance)
        assert off.max() < WIDEST, name
        exact.append(not off.any())
        clients += len(values)
    # The shuffler's noise is nothing for all options once in twenty times; that of a thousand users never is.
    assert exact[:2] == [False, False]
    assert clients == CLIENTS


@pytest.mark.exhaustive
def test_the_demo(tmp_path: Path) -> None:
    """It says what was promised, what came out, and for whom; a directory that is there is not touched."""
    outcome = run("demo", "--users", "1500", "--json", "--out", str(tmp_path / "demo"))
    assert outcome.status == 0, outcome.err
    told = json.loads(outcome.out)
    assert (told["guarantee"]["users"], sum(told["truth"])) == (1500, 1500)
    assert (tmp_path / "demo" / "result" / "report.json").exists()
    again = run("demo", "--out", str(tmp_path / "demo"))
    assert (again.status, again.out) == (2, "")
    assert "give a new directory" in again.err
    assert "at least 1000" in run("demo", "--users", "10").err
