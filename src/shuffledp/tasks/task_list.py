"""The tasks: one explicit list, and what is found in it by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from shuffledp.tasks.count import Count
from shuffledp.tasks.domain import WHO
from shuffledp.tasks.frequency import Frequency
from shuffledp.tasks.given import Given
from shuffledp.tasks.heavy_hitters import HeavyHitters
from shuffledp.tasks.hitters_at_once import HittersAtOnce
from shuffledp.tasks.itemsets import ItemSets
from shuffledp.tasks.key_value import KeyValue
from shuffledp.tasks.location import Location
from shuffledp.tasks.marginals import Marginals
from shuffledp.tasks.mean import Mean
from shuffledp.tasks.over_time import OverTime
from shuffledp.tasks.ranges import Ranges
from shuffledp.tasks.sum import Sum
from shuffledp.tasks.survey import Survey
from shuffledp.tasks.task import Task
from shuffledp.tasks.variance import Variance
from shuffledp.tasks.vector_mean import VectorMean

TASKS: tuple[type[Task], ...] = (
    Frequency,
    Mean,
    Sum,
    Count,
    Variance,
    ItemSets,
    KeyValue,
    VectorMean,
    Location,
    Ranges,
    OverTime,
    HeavyHitters,
    HittersAtOnce,
    Survey,
    Marginals,
)


def command_names() -> list[str]:
    """What the command line calls the tasks."""
    return [kind.command_name() for kind in TASKS]


def from_options(name: str, given: Given) -> Task:
    """The task of this name on the command line, or a sentence that says what is missing or too much."""
    kind = by_command_name(name)
    extra = given.beyond(kind.taken)
    if extra:
        raise ValueError(f"{WHO}: --{extra[0]} does not go with --task {kind.command_name()}.")
    return kind.from_options(given)


def by_command_name(name: str) -> type[Task]:
    """The task that the command line calls so, or a sentence."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    kind = next((kind for kind in TASKS if kind.command_name() == plain), None)
    if kind is None:
        near = difflib.get_close_matches(plain, command_names(), 1)
        meant = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{WHO}: task must be one of {', '.join(command_names())}, got {name!r}{meant}")
    return kind


def named(name: Any) -> type[Task]:
    """The task of this name in a plan."""
    for kind in TASKS:
        if kind.name == name:
            return kind
    raise ValueError(f"{WHO}: expected a plan for {', '.join(kind.name for kind in TASKS)}, got one for {name!r}.")


def read(document: Mapping[str, Any]) -> Task:
    """The task of a ``Task.document()``; a sentence if it is none."""
    given = dict(document)
    if "name" not in given:
        raise ValueError(f"{WHO}: the task lacks the field 'name'.")
    kind = named(given.pop("name"))
    expected = kind.fields()
    for key in expected:
        if key not in given:
            raise ValueError(f"{WHO}: the task lacks the field {key!r}.")
    for key in given:
        if key not in expected:
            raise ValueError(f"{WHO}: the task has the unknown field {key!r}.")
    return kind.of_document(given, read)
