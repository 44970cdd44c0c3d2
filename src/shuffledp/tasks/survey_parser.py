"""Parser of the questions of a survey, from the command line or from a file.

On the command line a question is ``NAME:COLUMN:WEIGHT:OPTION=VALUE,…``. NAME is a task (frequency, mean, …), or a
mechanism (krr, …) as the only one to plan with; several columns are joined by a plus sign. Weight and options may be
omitted. A file is TOML with a table ``[[question]]`` for each question, or JSON with a list ``"questions"``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from shuffledp._core import validation
from shuffledp._core.errors import error_phrase
from shuffledp._core.message_phrases import write_option
from shuffledp.mechanisms import catalogue
from shuffledp.tasks.domain import PLAN_PREFIX, TASK_PREFIX, TaskOptions
from shuffledp.tasks.heavy_hitters_search import ValueSearch
from shuffledp.tasks.registry import TASKS, from_options
from shuffledp.tasks.survey import Question

QUESTION_FORMAT = "NAME:COLUMN:WEIGHT:OPTION=VALUE,…"
EXCLUDED_OPTIONS = ("questions", "ways", "labels", "called", "strings", "bits", "reach")
"""Options that a question cannot have: further questions, those read from data, and those of searches."""
QUESTION_OPTIONS = tuple(field.name for field in fields(TaskOptions) if field.name not in EXCLUDED_OPTIONS)
COLUMN_SEPARATOR = "+"
QUESTION_TASK_NAMES = tuple(
    kind.command_name()
    for kind in TASKS
    if "questions" not in kind.accepted_options and not issubclass(kind, ValueSearch)
)
"""The tasks that a question may have."""
FILE_FIELDS = ("column", "task", "mechanism", "weight")
"""Fields of a question in a file, besides the options of its task."""


def parse_questions(texts: Sequence[str], file: Path | None) -> tuple[Question, ...]:
    """Returns the questions of these texts and of this file."""
    return (*map(parse_question, texts), *(() if file is None else read_questions_file(file)))


def parse_question(text: str) -> Question:
    """Parses one question of the command line; raises ValueError if it is invalid.

    >>> question = parse_question("mean:age:0.3:low=0,high=120")
    >>> question.columns, question.task.domain, question.weight
    (('age',), Interval(low=0.0, high=120.0), 0.3)
    >>> parse_question("krr:city:0.5:domain=16").mechanism
    'krr'
    """
    name, *rest = text.split(":", 3)
    if not name.strip() or not rest or not rest[0].strip():
        raise ValueError(f"{PLAN_PREFIX}: a question is {QUESTION_FORMAT}, got {text!r}.")
    column, weight, options = (*rest, *("",) * (3 - len(rest)))
    named: dict[str, Any] = {}
    for part in filter(None, options.split(",")):
        key, _, value = part.partition("=")
        if not value:
            raise ValueError(f"{PLAN_PREFIX}: a question is {QUESTION_FORMAT}, got {part!r} among its options.")
        named[key.strip()] = value.strip()
    return _build_question(name.strip(), None, column.strip().split(COLUMN_SEPARATOR), weight.strip() or 1.0, named)


def read_questions_file(path: Path) -> tuple[Question, ...]:
    """Reads the questions of a TOML or JSON file; files of categories are looked up in the same directory."""
    document = _read_document(path)
    entries = document.get("questions", document.get("question")) if isinstance(document, Mapping) else document
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError(f"{PLAN_PREFIX}: expected a list of questions in {path}, got something else.")
    return tuple(_parse_file_entry(path, entry) for entry in entries)


def _read_document(path: Path) -> Any:
    is_json = path.suffix.lower() == ".json"
    try:
        text = path.read_text(encoding="utf-8-sig")
        return json.loads(text) if is_json else tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"{PLAN_PREFIX}: cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "TOML"
        raise ValueError(f"{PLAN_PREFIX}: expected {kind} in {path}, got: {str(error).rstrip('.')}.") from None


def _parse_file_entry(path: Path, entry: Mapping[str, Any]) -> Question:
    options = {key: value for key, value in entry.items() if key not in FILE_FIELDS}
    column, task, mechanism = entry.get("column"), entry.get("task"), entry.get("mechanism")
    columns = [column] if isinstance(column, str) else column
    if not isinstance(columns, list) or not all(isinstance(one, str) for one in columns):
        raise ValueError(f"{PLAN_PREFIX}: a question of {path} lacks the name of its column.")
    for word in (task, mechanism):
        if word is not None and not isinstance(word, str):
            raise ValueError(
                f"{PLAN_PREFIX}: task and mechanism of a question are names, got {validation.format_value(word)}."
            )
    name = task or mechanism
    if name is None:
        raise ValueError(f"{PLAN_PREFIX}: the question {columns[0]!r} of {path} lacks its task.")
    if isinstance(options.get("categories"), str):
        options["categories"] = str(path.parent / options["categories"])
    return _build_question(name, mechanism, columns, entry.get("weight", 1.0), options)


def _build_question(
    name: str, only: str | None, columns: list[str], weight: Any, options: Mapping[str, Any]
) -> Question:
    title = " and ".join(columns)
    task = name.lower().replace("_", "-").replace(" ", "-")
    if task not in QUESTION_TASK_NAMES:
        only = only or name
        task = _find_task_name(name)
    try:
        number = float(weight) if isinstance(weight, str) else weight
    except ValueError:
        raise ValueError(f"{PLAN_PREFIX}: question {title!r}: weight must be a number, got {weight!r}.") from None
    try:
        return Question(columns, from_options(task, _parse_options(options)), number, only)
    except (ValueError, TypeError) as error:
        # The options of a question are written without dashes.
        message = error_phrase(error).write(lambda argument: write_option(argument).removeprefix("--"))
        prefix, _, sentence = message.partition(": ")
        reason = sentence if prefix in (PLAN_PREFIX, TASK_PREFIX, "input") else message
        raise ValueError(f"{PLAN_PREFIX}: question {title!r}: {reason}") from None


def _find_task_name(name: str) -> str:
    """Returns the command-line name of a mechanism's task."""
    kind = catalogue.find(name)
    task = next((one.command_name() for one in TASKS if kind is not None and one.name == kind.task), None)
    if task is None or kind is None or not kind.has_numeric_settings:
        raise ValueError(
            f"{PLAN_PREFIX}: a question begins with a mechanism, such as krr, or with one of "
            f"{', '.join(QUESTION_TASK_NAMES)}, got {name!r}."
        )
    return task


def _parse_options(options: Mapping[str, Any]) -> TaskOptions:
    unknown = [key for key in options if key not in QUESTION_OPTIONS]
    if unknown:
        raise ValueError(f"{PLAN_PREFIX}: options are {', '.join(QUESTION_OPTIONS)}, got {unknown[0]!r}.")
    return TaskOptions(**{key: _parse_value(key, value) for key, value in options.items()})


def _parse_value(key: str, value: Any) -> Any:
    """Converts an option to the type that its task expects."""
    if key == "categories":
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        if not isinstance(value, str):
            raise ValueError(
                f"{PLAN_PREFIX}: categories must be a list of texts or a file, got {validation.format_value(value)}."
            )
        return Path(value)
    if key == "degrees":
        return str(value).lower() in ("1", "true", "yes") or None
    try:
        number = float(value) if isinstance(value, str) else validation.real(PLAN_PREFIX, key, value)
    except ValueError:
        raise ValueError(f"{PLAN_PREFIX}: {key} must be a number, got {value!r}.") from None
    # A single end holds for all coordinates.
    return (number,) if key in ("low", "high") else number
