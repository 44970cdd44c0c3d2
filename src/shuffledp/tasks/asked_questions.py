"""The questions of a survey as somebody writes them down: a line each on the command line, or a small file.

A line is ``NAME:COLUMN:WEIGHT:OPTION=VALUE,…``, where NAME is a task (frequency, mean, …) or a mechanism (krr, …),
which then is the only one to plan with; several columns are joined by a plus sign. Weight and options may be left out.
A file is TOML with a table ``[[question]]`` for each, or JSON with a list ``"questions"``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.mechanisms import catalogue
from shuffledp.tasks.domain import TASK, WHO
from shuffledp.tasks.given import Given
from shuffledp.tasks.rehearsal import Searching
from shuffledp.tasks.survey import Question
from shuffledp.tasks.task_list import TASKS, from_options

FORM = "NAME:COLUMN:WEIGHT:OPTION=VALUE,…"
NOT_TYPED = ("questions", "ways", "labels", "called", "strings", "bits", "reach")
"""What a question cannot have: questions of its own, what is read from data, and what searches take."""
OPTIONS = tuple(field.name for field in fields(Given) if field.name not in NOT_TYPED)
JOINED = "+"
NAMES = tuple(
    kind.command_name() for kind in TASKS if "questions" not in kind.taken and not issubclass(kind, Searching)
)
"""The tasks that a question may be."""
WRITTEN = ("column", "task", "mechanism", "weight")
"""What a question of a file has besides the options of its task."""


def questions_of(texts: Sequence[str], file: Path | None) -> tuple[Question, ...]:
    """The questions of these lines and of this file; none where neither is given."""
    return (*map(from_text, texts), *(() if file is None else from_file(file)))


def from_text(text: str) -> Question:
    """One line; a sentence where it is none.

    >>> question = from_text("mean:age:0.3:low=0,high=120")
    >>> question.columns, question.task.domain, question.weight
    (('age',), Interval(low=0.0, high=120.0), 0.3)
    >>> from_text("krr:city:0.5:domain=16").mechanism
    'krr'
    """
    name, *rest = text.split(":", 3)
    if not name.strip() or not rest or not rest[0].strip():
        raise ValueError(f"{WHO}: a question is {FORM}, got {text!r}.")
    column, weight, options = (*rest, *("",) * (3 - len(rest)))
    given: dict[str, Any] = {}
    for part in filter(None, options.split(",")):
        key, found, value = part.partition("=")
        if not found or not value:
            raise ValueError(f"{WHO}: a question is {FORM}, got {part!r} among its options.")
        given[key.strip()] = value.strip()
    return _question(name.strip(), None, column.strip().split(JOINED), weight.strip() or 1.0, given)


def from_file(path: Path) -> tuple[Question, ...]:
    """The questions of a TOML or JSON file; files of categories that it names are looked for beside it."""
    told = _read(path)
    listed = told.get("questions", told.get("question")) if isinstance(told, Mapping) else told
    if not isinstance(listed, list) or not listed or not all(isinstance(one, Mapping) for one in listed):
        raise ValueError(f"{WHO}: expected a list of questions in {path}, got something else.")
    return tuple(_of_file(path, one) for one in listed)


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
        return json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"{WHO}: cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise ValueError(f"{WHO}: expected {kind} in {path}, got: {str(error).rstrip('.')}.") from None


def _of_file(path: Path, told: Mapping[str, Any]) -> Question:
    given = {key: value for key, value in told.items() if key not in WRITTEN}
    column, task, mechanism = told.get("column"), told.get("task"), told.get("mechanism")
    columns = [column] if isinstance(column, str) else column
    if not isinstance(columns, list) or not all(isinstance(one, str) for one in columns):
        raise ValueError(f"{WHO}: a question of {path} lacks the name of its column.")
    for word in (task, mechanism):
        if word is not None and not isinstance(word, str):
            raise ValueError(f"{WHO}: task and mechanism of a question are names, got {argument.shown(word)}.")
    name = task or mechanism
    if name is None:
        raise ValueError(f"{WHO}: the question {columns[0]!r} of {path} lacks its task.")
    if isinstance(given.get("categories"), str):
        given["categories"] = str(path.parent / given["categories"])
    return _question(name, mechanism, columns, told.get("weight", 1.0), given)


def _question(name: str, only: str | None, columns: list[str], weight: Any, options: Mapping[str, Any]) -> Question:
    title = " and ".join(columns)
    task = name.lower().replace("_", "-").replace(" ", "-")
    if task not in NAMES:
        only = only or name
        task = _task_of(name)
    try:
        number = float(weight) if isinstance(weight, str) else weight
    except ValueError:
        raise ValueError(f"{WHO}: question {title!r}: weight must be a number, got {weight!r}.") from None
    try:
        return Question(columns, from_options(task, _given(options)), number, only)
    except (ValueError, TypeError) as error:
        speaker, _, sentence = str(error).partition(": ")
        reason = sentence if speaker in (WHO, TASK, "input") else str(error)
        raise ValueError(f"{WHO}: question {title!r}: {reason.replace('--', '')}") from None


def _task_of(name: str) -> str:
    """What a mechanism estimates, as the command line calls it."""
    kind = catalogue.find(name)
    found = next((one.command_name() for one in TASKS if kind is not None and one.name == kind.task), None)
    if found is None or kind is None or not kind.built_from_numbers:
        raise ValueError(
            f"{WHO}: a question begins with a mechanism, such as krr, or with one of {', '.join(NAMES)}, got {name!r}."
        )
    return found


def _given(options: Mapping[str, Any]) -> Given:
    unknown = [key for key in options if key not in OPTIONS]
    if unknown:
        raise ValueError(f"{WHO}: options are {', '.join(OPTIONS)}, got {unknown[0]!r}.")
    return Given(**{key: _value(key, value) for key, value in options.items()})


def _value(key: str, value: Any) -> Any:
    """An option as its task wants it."""
    if key == "categories":
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        if not isinstance(value, str):
            raise ValueError(f"{WHO}: categories must be a list of texts or a file, got {argument.shown(value)}.")
        return Path(value)
    if key == "degrees":
        return str(value).lower() in ("1", "true", "yes") or None
    try:
        number = float(value) if isinstance(value, str) else argument.real(WHO, key, value)
    except ValueError:
        raise ValueError(f"{WHO}: {key} must be a number, got {value!r}.") from None
    # One end for all coordinates.
    return (number,) if key in ("low", "high") else number
