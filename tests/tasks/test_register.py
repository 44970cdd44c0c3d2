"""A new task is one class: put into the register, it is planned, simulated and collected, and nothing else changes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp._core.validation import Array
from shuffledp.collection.collect import collect
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning.plan import Plan
from shuffledp.planning.planner import plan
from shuffledp.planning.simulation import simulate
from shuffledp.tasks import TASKS, Options, Task, Values
from shuffledp.tasks.base import Quantity, Sensitivity
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import TaskOptions
from tests.cli import run
from tests.collection import write_table


@dataclass(frozen=True)
class Approval(Task):
    """How many users said yes."""

    question: str

    name = "approval"
    mechanism_tasks = ("frequency",)
    data_description = "as many who say yes as no"
    unit = "users"
    parameters = ("question",)
    accepted_options = ()

    @property
    def domain(self) -> Values:
        return Options(2)

    @property
    def mechanism_settings(self) -> Mapping[str, Any]:
        return {"options": 2}

    def representative_values(self, mechanism: Mechanism) -> Array:
        return np.arange(2)

    def sensitivity(self, users: int) -> Sensitivity:
        return Sensitivity(1.0, math.sqrt(1.0))

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        return column.read_option_numbers(array, ("false", "true"))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        yes = Estimate(estimate.value[1:], estimate.variance[1:], estimate.users)
        return [Quantity.from_estimate("users", (self.question,), yes, confidence)]

    @classmethod
    def from_domain(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        return cls(**parameters)

    @classmethod
    def from_options(cls, given: TaskOptions) -> Task:
        return cls("Yes?")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shuffledp.tasks.registry.TASKS", (*TASKS, Approval))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("registered")
def test_a_task_is_planned_simulated_and_collected(tmp_path: Path) -> None:
    """From Python, through the plan's file."""
    asked = Approval("More trees?")
    ranking = plan(asked, users=2000, epsilon=1.0, delta=1e-6, mechanism="krr")
    ranking.best.plan.save(tmp_path / "plan.json")
    chosen = Plan.load(tmp_path / "plan.json")
    assert chosen == ranking.best.plan
    assert chosen.task == asked
    assert 0.7 < simulate(chosen, repeats=200).ratio < 1.3
    report = collect(chosen, pa.array([True, False] * 1000), out=tmp_path / "out")
    (quantity,) = report.quantities
    assert quantity.labels == ("More trees?",)
    assert quantity.standard_error is not None
    # Six standard errors: once in 1e8.
    assert abs(quantity.value[0] - 1000) < 6 * quantity.standard_error[0]
    with pytest.raises(ValueError, match="column 'value': expected one of the plan's 2 categories"):
        collect(chosen, pa.array([1, 0] * 1000), out=tmp_path / "out2")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("registered")
def test_a_task_is_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned, simulated and collected as typed, from a CSV file."""
    monkeypatch.chdir(tmp_path)
    target = ("--users", "2000", "--epsilon", "1", "--delta", "1e-6", "--mechanism", "krr")
    assert run("plan", "--task", "approval", *target, "--out", "plan.json").err == ""
    assert run("simulate", "plan.json", "--json").status == 0
    write_table(tmp_path / "data.csv", answer=pa.array([True, False] * 1000))
    done = run(
        "collect", "plan.json", "--input", "data.csv", "--column", "answer", "--out", "out", "--no-ledger", "--json"
    )
    assert done.err == ""
    assert [row["label"] for row in json.loads(done.out)["estimates"]] == ["Yes?"]
    assert (
        "--domain does not go with --task approval" in run("plan", "--task", "approval", "--domain", "3", *target).err
    )


def subclasses_of(kind: type[Task]) -> set[type[Task]]:
    direct = set(kind.__subclasses__())
    return direct.union(*map(subclasses_of, direct))


def test_every_task_of_the_package_is_registered() -> None:
    """One name each; the variant of a task is reached through the task."""
    # No plan is made of a part of another task, of what searches have in common, or of a variant.
    left_out = {"SearchTask", "UnitVectorMean"}
    defined = {
        kind.__name__
        for kind in subclasses_of(Task)
        if kind.__module__.startswith("shuffledp.tasks.") and not kind.__name__.startswith("_")
    }
    missing = defined - {kind.__name__ for kind in TASKS} - left_out
    assert not missing, f"add {', '.join(sorted(missing))} to TASKS in shuffledp/tasks/registry.py"
    assert len({kind.name for kind in TASKS}) == len(TASKS)


SEVERAL_ROUNDS_OR_QUESTIONS = {"heavy-hitters", "heavy-hitters-at-once", "survey", "marginals", "counts-over-time"}
"""Tasks whose plans have tests of their own."""


def test_every_task_is_in_the_lists_that_other_tests_go_through() -> None:
    """Tests of planning, of offers and of reports take their tasks from these lists."""
    from tests.collection.task_cases import CASES
    from tests.planning.goals import TASKS as GOALS

    planned = {type(task) for task in GOALS.values()}
    collected = {type(case.task) for case in CASES.values()}
    missing = [
        f"add a small {kind.__name__} to TASKS in tests/planning/goals.py (and to `few` in is_skipped there, if "
        "mechanisms treat it as a mean), and its data to data_for in tests/collection/test_offers.py"
        for kind in TASKS
        if kind.command_name() not in SEVERAL_ROUNDS_OR_QUESTIONS and kind not in planned
    ]
    missing += [
        f"add a {kind.__name__} to CASES in tests/collection/task_cases.py"
        for kind in TASKS
        if kind.command_name() != "heavy-hitters-at-once" and kind not in collected
    ]
    assert not missing, "; ".join(missing)
