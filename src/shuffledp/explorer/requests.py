"""The JSON requests of the page, and their OpenAPI description.

Each request becomes one command with its options, so that page and command line give the same numbers. Only the options
listed here are accepted. A file that a command reads is sent as text and written under a fixed name into the command's
temporary directory: no request names a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shuffledp._core import __version__
from shuffledp._core.formatting import format_exact

MAX_TEXT_LENGTH, MAX_LIST_LENGTH, MAX_CATEGORIES = 200, 64, 100_000
PATHLESS_TEXT_PATTERN = re.compile(rf"[^/\\\x00-\x1f]{{0,{MAX_TEXT_LENGTH}}}")
"""Short text that cannot be a path."""
TABLE_FILE, PLAN_FILE, CLAIM_FILE, CATEGORIES_FILE = "table.csv", "plan.json", "certificate.json", "categories.txt"
TASK_NUMBERS = (
    *("domain", "items", "dimension", "west", "east", "south", "north", "columns", "strings", "bits", "reach", "ways"),
)
"""Options of tasks that are one number each."""


# --- Requests ---


@dataclass
class CommandRequest:
    """The arguments of a command, and the files that it reads and writes."""

    operation: str
    arguments: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    written: tuple[str, ...] = ()


ParameterFiller = Callable[[CommandRequest, str, Any], None]
"""Adds the value of one parameter to a command; raises ValueError if it has the wrong type."""


@dataclass(frozen=True)
class RequestParameter:
    """One parameter of a request: the function that turns it into an option, and its JSON schema."""

    fill: ParameterFiller
    schema: dict[str, Any]
    description: str = ""


def _build_error(command: CommandRequest, name: str, expected: str) -> ValueError:
    return ValueError(f"{command.operation}: {name} must be {expected}.")


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _add_option(command: CommandRequest, name: str, text: str) -> None:
    command.arguments.append(f"{_option_name(name)}={text}")


def _is_short_text(value: Any) -> bool:
    return isinstance(value, str) and PATHLESS_TEXT_PATTERN.fullmatch(value) is not None


def format_number(command: CommandRequest, name: str, value: Any) -> str:
    """Returns a number as text; text such as 5,000,000, 1e6 or 2% is passed on."""
    if _is_short_text(value):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _build_error(command, name, "a number")
    return str(value) if isinstance(value, int) else format_exact(value)


def _check_text(command: CommandRequest, name: str, value: Any) -> str:
    if not _is_short_text(value):
        raise _build_error(command, name, f"a text of at most {MAX_TEXT_LENGTH} characters without slashes")
    return str(value)


def _check_list(command: CommandRequest, name: str, value: Any, most: int = MAX_LIST_LENGTH) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise _build_error(command, name, f"a list of at most {most:,}")
    return value


def _add_number(command: CommandRequest, name: str, value: Any) -> None:
    _add_option(command, name, format_number(command, name, value))


def _add_numbers(command: CommandRequest, name: str, value: Any) -> None:
    for number in _check_list(command, name, value):
        _add_number(command, name, number)


def _add_text(command: CommandRequest, name: str, value: Any) -> None:
    _add_option(command, name, _check_text(command, name, value))


def _add_texts(command: CommandRequest, name: str, value: Any) -> None:
    for text in _check_list(command, name, value):
        _add_text(command, name, text)


def _add_flag(command: CommandRequest, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise _build_error(command, name, "true or false")
    command.arguments += [_option_name(name)] * value


def _add_settings(command: CommandRequest, name: str, value: Any) -> None:
    if not isinstance(value, dict) or len(value) > MAX_LIST_LENGTH:
        raise _build_error(command, name, 'an object of settings, such as {"options": 16}')
    for key, number in value.items():
        _add_option(command, "set", f"{_check_text(command, name, key)}={format_number(command, key, number)}")


def _add_groups(command: CommandRequest, name: str, value: Any) -> None:
    for group in _check_list(command, name, value):
        if not isinstance(group, dict) or group.keys() != {"epsilon_local", "users"}:
            raise _build_error(command, name, "a list of objects with epsilon_local and users")
        local, users = (format_number(command, key, group[key]) for key in ("epsilon_local", "users"))
        _add_option(command, name, f"{local}:{users}")


def _add_table(command: CommandRequest, name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _build_error(command, name, "the text of a CSV file")
    command.files[TABLE_FILE] = value
    _add_option(command, name, TABLE_FILE)


def _add_categories(command: CommandRequest, name: str, value: Any) -> None:
    categories = [_check_text(command, name, each) for each in _check_list(command, name, value, MAX_CATEGORIES)]
    command.files[CATEGORIES_FILE] = "\n".join(categories)
    _add_option(command, name, CATEGORIES_FILE)


def _build_file_filler(file: str) -> ParameterFiller:
    """Returns a filler for a JSON object that the command reads from a file."""

    def fill(command: CommandRequest, name: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise _build_error(command, name, "a JSON object")
        command.files[file] = json.dumps(value)
        command.arguments.append(file)

    return fill


def _add_report_format(command: CommandRequest, name: str, value: Any) -> None:
    if value not in ("md", "html"):
        raise _build_error(command, name, "md or html")
    command.written = (f"statement.{value}",)
    _add_option(command, "report", command.written[0])


_NUMBER_SCHEMA = {"type": ["number", "string"], "maxLength": MAX_TEXT_LENGTH}
_TEXT_SCHEMA = {"type": "string", "maxLength": MAX_TEXT_LENGTH, "pattern": r"^[^/\\]*$"}


def _number_parameter(words: str = "") -> RequestParameter:
    return RequestParameter(_add_number, _NUMBER_SCHEMA, words)


def _text_parameter(words: str = "") -> RequestParameter:
    return RequestParameter(_add_text, _TEXT_SCHEMA, words)


def _list_parameter(fill: ParameterFiller, items: dict[str, Any], words: str = "") -> RequestParameter:
    return RequestParameter(fill, {"type": "array", "items": items, "maxItems": MAX_LIST_LENGTH}, words)


RANDOMIZER_PARAMETERS: Mapping[str, RequestParameter] = {
    "mechanism": _text_parameter("A name of the catalogue."),
    "epsilon_local": _number_parameter("Local ε0; alone: any ε0-LDP randomizer."),
    "delta_local": _number_parameter("δ0 of an (ε0, δ0)-LDP randomizer."),
    "settings": RequestParameter(
        _add_settings, {"type": "object", "maxProperties": MAX_LIST_LENGTH}, "The mechanism's settings."
    ),
    "table": RequestParameter(_add_table, {"type": "string"}, "CSV of a randomizer: one row per input, no header."),
    **{name: _number_parameter() for name in ("p", "beta", "q", "q0", "q1", "q_common")},
}
PARTICIPATION_PARAMETERS: Mapping[str, RequestParameter] = {
    "users": _number_parameter("Number of users, the protected one included."),
    "of": _number_parameter("Number of people from whom the users of each round are secretly drawn."),
    "rate": _number_parameter("Instead of users: probability with which each of `of` takes part, by a secret coin."),
    "rounds": _number_parameter(),
    "colluding": _number_parameter("Number of users who reveal their messages to the analyst."),
}
TARGET_PARAMETERS: Mapping[str, RequestParameter] = {
    "delta": _number_parameter("Target δ; the answer is ε."),
    "epsilon": _number_parameter("Target ε."),
}
EFFORT_PARAMETER: Mapping[str, RequestParameter] = {"effort": _text_parameter("quick, or full.")}
AMPLIFY_PARAMETERS = {
    **RANDOMIZER_PARAMETERS,
    **PARTICIPATION_PARAMETERS,
    **TARGET_PARAMETERS,
    **EFFORT_PARAMETER,
    "bound": _text_parameter(),
    "diameter": _number_parameter(),
}
TASK_PARAMETERS: Mapping[str, RequestParameter] = {
    "task": _text_parameter("Task to estimate."),
    "categories": RequestParameter(
        _add_categories, {"type": "array", "items": {"type": "string"}, "maxItems": MAX_CATEGORIES}
    ),
    **{name: _number_parameter() for name in TASK_NUMBERS},
    **{name: _list_parameter(_add_numbers, _NUMBER_SCHEMA) for name in ("low", "high")},
    "degrees": RequestParameter(_add_flag, {"type": "boolean"}),
    "question": _list_parameter(
        _add_texts, _TEXT_SCHEMA, "Questions of a survey, such as frequency:city:0.5:domain=16."
    ),
}


@dataclass(frozen=True)
class Operation:
    """An operation of the page: its command, its parameters, and the files that it writes."""

    name: str
    summary: str
    parameters: Mapping[str, RequestParameter]
    command_words: tuple[str, ...] = ()
    output_files: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    is_long: bool = False
    """True if it may take more than a moment; long operations have workers of their own."""

    def build_request(self, values: Any) -> CommandRequest:
        """Returns the command for a JSON document of parameters; raises ValueError if they are not accepted."""
        command = CommandRequest(self.name, [*(self.command_words or (self.name,))], written=self.output_files)
        if not isinstance(values, dict):
            raise ValueError(f"{self.name}: expected a JSON object of options.")
        for name in self.required:
            if name not in values:
                raise ValueError(f"{self.name}: {name} must be given.")
        for name, value in values.items():
            if name not in self.parameters:
                raise ValueError(f"{self.name}: expected {', '.join(self.parameters)}, got {str(name)[:40]!r}.")
            if value is not None:
                self.parameters[name].fill(command, name, value)
        command.arguments.append("--json")
        return command


OPERATIONS: Mapping[str, Operation] = {
    each.name: each
    for each in (
        Operation(
            "amplify", "Compute the certified central (ε, δ) guarantee of shuffled messages.", AMPLIFY_PARAMETERS
        ),
        Operation(
            "compare",
            "Compare every bound, and the best known attack.",
            {**RANDOMIZER_PARAMETERS, **PARTICIPATION_PARAMETERS, "delta": TARGET_PARAMETERS["delta"]},
            is_long=True,
        ),
        Operation(
            "tradeoff",
            "Certified limits of every attack on the shuffled messages.",
            {
                **RANDOMIZER_PARAMETERS,
                **PARTICIPATION_PARAMETERS,
                "bound": _text_parameter(),
                "prior": _number_parameter(),
                "points": _number_parameter(),
                "fpr": _list_parameter(_add_numbers, _NUMBER_SCHEMA),
            },
        ),
        Operation(
            "sweep",
            "ε along one axis, as CSV.",
            {**AMPLIFY_PARAMETERS, "against": _text_parameter("users, rounds, local-epsilon or epsilon.")},
            ("amplify", "--curve=curve.csv"),
            ("curve.csv",),
            is_long=True,
        ),
        Operation(
            "certificate",
            "A certificate that `shuffledp verify` proves again.",
            AMPLIFY_PARAMETERS,
            ("amplify", f"--certificate={CLAIM_FILE}"),
            (CLAIM_FILE,),
            is_long=True,
        ),
        Operation(
            "statement",
            "The guarantee as a statement for people, in Markdown or HTML.",
            {**AMPLIFY_PARAMETERS, "form": RequestParameter(_add_report_format, {"enum": ["md", "html"]})},
            ("amplify",),
            required=("form",),
            is_long=True,
        ),
        Operation(
            "verify",
            "Prove a certificate's claim by an independent route.",
            {"certificate": RequestParameter(_build_file_filler(CLAIM_FILE), {"type": "object"})},
            required=("certificate",),
            is_long=True,
        ),
        Operation(
            "crowd",
            "The guarantee of a user of each group of a mixed population.",
            {
                "mechanism": RANDOMIZER_PARAMETERS["mechanism"],
                "settings": RANDOMIZER_PARAMETERS["settings"],
                "group": _list_parameter(
                    _add_groups,
                    {
                        "type": "object",
                        "required": ["epsilon_local", "users"],
                        "additionalProperties": False,
                        "properties": {"epsilon_local": _NUMBER_SCHEMA, "users": _NUMBER_SCHEMA},
                    },
                ),
                "opt_outs": _number_parameter(),
                "colluding": PARTICIPATION_PARAMETERS["colluding"],
                "rounds": PARTICIPATION_PARAMETERS["rounds"],
                **TARGET_PARAMETERS,
                **EFFORT_PARAMETER,
            },
            is_long=True,
        ),
        Operation(
            "plan",
            "Rank the mechanisms that meet a target by their error, and write a plan.",
            {
                **TASK_PARAMETERS,
                **PARTICIPATION_PARAMETERS,
                **TARGET_PARAMETERS,
                **EFFORT_PARAMETER,
                "minimum": _number_parameter(),
                "max_bits": _number_parameter(),
                "max_messages": _number_parameter(),
                "local_epsilon_at_most": _number_parameter(),
                "mechanism": RANDOMIZER_PARAMETERS["mechanism"],
                "rests_on": _text_parameter(),
            },
            is_long=True,
        ),
        Operation(
            "simulate",
            "Simulate a plan: is the error as promised?",
            {
                "plan": RequestParameter(_build_file_filler(PLAN_FILE), {"type": "object"}),
                "users": PARTICIPATION_PARAMETERS["users"],
                "repeat": _number_parameter(),
                "seed": _number_parameter(),
            },
            required=("plan",),
            is_long=True,
        ),
        Operation("mechanisms", "The catalogue of mechanisms, or those of a task.", {"task": TASK_PARAMETERS["task"]}),
    )
}


# --- OpenAPI 3.1 description, built from the same list as the routes ---


ERROR_DESCRIPTIONS = {
    400: "The body is not JSON, or is nested too deeply.",
    408: "The body did not arrive completely in time.",
    413: "The body is too large.",
    415: "The body is not of type application/json.",
    422: "The command refused the request, or would exceed the limit of time or memory.",
    503: "Too many requests are waiting; try again.",
}
ANSWER_CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}},
          "application/x-ndjson": {"schema": {"type": "string"}}}  # fmt: skip
PROBLEM_CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def _build_schema(operation: Operation) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(operation.required),
        "properties": {
            name: parameter.schema | ({"description": parameter.description} if parameter.description else {})
            for name, parameter in operation.parameters.items()
        },
    }


def _describe_post(operation: Operation) -> dict[str, Any]:
    answer = {"200": {"description": "The command's own document.", "content": ANSWER_CONTENT}}
    errors = {
        str(status): {"description": words, "content": PROBLEM_CONTENT} for status, words in ERROR_DESCRIPTIONS.items()
    }
    return {
        "post": {
            "operationId": operation.name,
            "summary": operation.summary,
            "description": "With Accept: application/x-ndjson, progress and early parts of the answer come first, one "
            "per line; closing the connection cancels the computation.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": _build_schema(operation)}}},
            "responses": answer | errors,
        }
    }


def _describe_get(identifier: str, summary: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    answer = {"200": {"description": "The current state.", "content": content}}
    return {"get": {"operationId": identifier, "summary": summary, "responses": answer}}


OPENAPI_DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "shuffledp explorer",
        "version": __version__,
        "description": "Each operation is a command of shuffledp; its answer is the command's output with --json.",
    },
    "paths": {
        "/api/openapi.json": _describe_get("openapi", "This description."),
        "/api/tasks": _describe_get("tasks", "The tasks that can be planned for, and the options of each."),
        "/api/watched": _describe_get("watched", "The state of the watched collections and campaigns."),
        **{f"/api/{name}": _describe_post(each) for name, each in OPERATIONS.items()},
    },
    "components": {
        "schemas": {
            "Answer": {
                "type": "object",
                "required": ["command", "python", "answer", "files"],
                "properties": {
                    "command": {"type": "string", "description": "The command line that gives the same answer."},
                    "python": {"type": "string", "description": "The same in Python; empty if there is none."},
                    "answer": {"type": "object", "description": "The output of the command with --json."},
                    "files": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "Problem": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
        }
    },
}
