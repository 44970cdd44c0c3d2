"""Small tasks of every kind, for the tests of plans."""

from __future__ import annotations

from typing import Any

from shuffledp.calibration.target import Target
from shuffledp.planner.goal import Goal, Limits
from shuffledp.tasks import task as tasks
from shuffledp.tasks.domain import Area, Categories, Interval, KeyedInterval, Options
from shuffledp.tasks.task import Task

LETTERS = Categories(("a", "b", "c", "d", "e"))
TASKS: dict[str, Task] = {
    "frequency": tasks.Frequency(Options(9)),
    "mean": tasks.Mean(Interval(-20.0, 60.0)),
    "set-valued": tasks.ItemSets(Options(9), 2),
    "key-value": tasks.KeyValue(KeyedInterval(LETTERS, Interval(0.0, 10.0)), 2),
    "vector mean": tasks.UnitVectorMean(dimension=4),
    "boxed vectors": tasks.BoxedVectorMean(Interval(0.0, 10.0), 3),
    "location": tasks.Location(Area(0.0, 2.0, 0.0, 1.0), 4, 2),
    "range queries": tasks.Ranges(Options(13)),
}


def goal_of(name: str, users: int = 20_000, epsilon: float = 1.0, delta: float = 1e-6, **changes: Any) -> Goal:
    """A goal for one of the tasks."""
    return Goal(TASKS[name], users, Target(epsilon, delta), changes.get("rounds", 1), changes.get("limits", Limits()))
