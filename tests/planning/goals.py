"""Small tasks of every kind, for the tests of plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shuffledp.calibration.targets import Target
from shuffledp.planning.goal import Goal, Limits
from shuffledp.planning.ranking import Ranking, build_trials, run_jobs
from shuffledp.tasks import (
    Categories,
    Count,
    Frequency,
    ItemSets,
    KeyValue,
    Location,
    Mean,
    Ranges,
    Sum,
    Task,
    UnitVectorMean,
    Variance,
    VectorMean,
)
from tests import shared_results

LETTERS = Categories(("a", "b", "c", "d", "e"))
TASKS: dict[str, Task] = {
    "frequency": Frequency(9),
    "mean": Mean(-20.0, 60.0),
    "sum": Sum(-20.0, 60.0),
    "count": Count(),
    "variance": Variance(-20.0, 60.0),
    "set-valued": ItemSets(9, 2),
    "key-value": KeyValue(LETTERS, 0.0, 10.0, items=2),
    "vector mean": UnitVectorMean(4),
    "boxed vectors": VectorMean(3, 0.0, 10.0),
    "location": Location(0.0, 2.0, 0.0, 1.0, 4, 2),
    "range queries": Ranges(13),
}


def small_goal(name: str, users: int = 20_000, epsilon: float = 1.0, delta: float = 1e-6, **changes: Any) -> Goal:
    """A goal for one of the tasks."""
    return Goal(TASKS[name], users, Target(epsilon, delta), changes.get("rounds", 1), changes.get("limits", Limits()))


def small_ranking(name: str, shared_folder: Path) -> Ranking:
    """The mechanisms of a small task: all but those that are slow, or that the same options have elsewhere."""

    def ranked() -> Ranking:
        goal = small_goal(name)
        return Ranking.from_outcomes(
            goal, run_jobs([trial for trial in build_trials(goal) if not is_skipped(name, trial.name)])
        )

    return shared_results.compute_once(shared_folder / f"ranking of {name}", ranked)


def is_skipped(task: str, mechanism: str) -> bool:
    """Means have slow mechanisms with two messages. Sums and counts are told to mechanisms as means are, and cells of a
    map as options: for these a few of each kind are enough, with one message, with several and of vectors."""
    slow = {"mean": ("duchi", "harmony")}
    few = {
        "sum": ("piecewise", "split-and-mix", "gaussian-vector"),
        "count": ("piecewise", "split-and-mix", "gaussian-vector"),
        "location": ("planar-laplace", "krr", "local-hash", "pure-dump"),
    }
    return mechanism in slow.get(task, ()) or mechanism not in few.get(task, (mechanism,))
