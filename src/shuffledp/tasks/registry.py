"""The list of all tasks, and lookups in it by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument, phrase
from shuffledp.tasks.base import Task
from shuffledp.tasks.counts_and_frequencies import Count, Frequency, ItemSets
from shuffledp.tasks.domain import PLAN_PREFIX, TaskOptions
from shuffledp.tasks.heavy_hitters import HeavyHitters, HittersAtOnce
from shuffledp.tasks.key_value import KeyValue
from shuffledp.tasks.location import Location
from shuffledp.tasks.marginals import Marginals
from shuffledp.tasks.means import Mean, Sum, Variance, VectorMean
from shuffledp.tasks.ranges import Ranges
from shuffledp.tasks.running_counts import OverTime
from shuffledp.tasks.survey import Survey

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
    """Returns the names of the tasks on the command line."""
    return [kind.command_name() for kind in TASKS]


def from_options(name: str, given: TaskOptions) -> Task:
    """Builds the task with this command-line name; raises ValueError if an option is missing or superfluous."""
    kind = find_by_command_name(name)
    extra = given.find_superfluous(kind.accepted_options)
    if extra:
        selected = Argument("task", repr(kind.command_name()))
        raise InvalidArgument(
            PLAN_PREFIX, phrase("does not go with {task}", task=selected), parameter=Argument(extra[0])
        )
    return kind.from_options(given)


def find_by_command_name(name: str) -> type[Task]:
    """Returns the class with this command-line name; raises ValueError if there is none."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    kind = next((kind for kind in TASKS if kind.command_name() == plain), None)
    if kind is None:
        near = difflib.get_close_matches(plain, command_names(), 1)
        meant = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{PLAN_PREFIX}: task must be one of {', '.join(command_names())}, got {name!r}{meant}")
    return kind


def find_task_class(name: Any) -> type[Task]:
    """Returns the class with this name in a plan; raises ValueError if there is none."""
    for kind in TASKS:
        if kind.name == name:
            return kind
    names = ", ".join(kind.name for kind in TASKS)
    raise ValueError(f"{PLAN_PREFIX}: expected a plan for {names}, got one for {name!r}.")


def read_task(document: Mapping[str, Any]) -> Task:
    """Reads a task from its document; raises ValueError if it is invalid."""
    fields = dict(document)
    if "name" not in fields:
        raise ValueError(f"{PLAN_PREFIX}: the task lacks the field 'name'.")
    kind = find_task_class(fields.pop("name"))
    expected = kind.document_fields()
    for key in expected:
        if key not in fields:
            raise ValueError(f"{PLAN_PREFIX}: the task lacks the field {key!r}.")
    for key in fields:
        if key not in expected:
            raise ValueError(f"{PLAN_PREFIX}: the task has the unknown field {key!r}.")
    return kind.from_document(fields, read_task)
