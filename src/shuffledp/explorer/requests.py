"""The JSON requests of the page and their OpenAPI description.

Each request becomes one command with its options, so that page and command line give the same numbers. Only the options
listed here are accepted. A file that a command reads comes as text and is written under a fixed name into the command's
temporary directory: no request names a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shuffledp._core.formatting import format_exact
from shuffledp._core.version import __version__

MAX_TEXT_LENGTH, MAX_LIST_LENGTH = 200, 64
PATHLESS_TEXT_PATTERN = re.compile(r"[^/\\\x00-\x1f]*")
"""Text that cannot be a path."""
TABLE_FILE, PLAN_FILE, CLAIM_FILE, CATEGORIES_FILE = "table.csv", "plan.json", "certificate.json", "categories.txt"


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
    schema: Mapping[str, Any]
    description: str = ""


def _build_error(inquiry: CommandRequest, name: str, expected: str) -> ValueError:
    return ValueError(f"{inquiry.operation}: {name} must be {expected}.")


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def format_number(inquiry: CommandRequest, name: str, value: Any) -> str:
    """Returns a number as text; text such as 5,000,000, 1e6 or 2% is passed on."""
    if isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH and PATHLESS_TEXT_PATTERN.fullmatch(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _build_error(inquiry, name, "a number")
    return str(value) if isinstance(value, int) else format_exact(value)


def _check_text(inquiry: CommandRequest, name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH or not PATHLESS_TEXT_PATTERN.fullmatch(value):
        raise _build_error(inquiry, name, f"a text of at most {MAX_TEXT_LENGTH} characters without slashes")
    return value


def _check_list(inquiry: CommandRequest, name: str, value: Any, most: int = MAX_LIST_LENGTH) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise _build_error(inquiry, name, f"a list of at most {most:,}")
    return value


def _add_number(inquiry: CommandRequest, name: str, value: Any) -> None:
    inquiry.arguments.append(f"{_option_name(name)}={format_number(inquiry, name, value)}")


def _add_numbers(inquiry: CommandRequest, name: str, value: Any) -> None:
    for one in _check_list(inquiry, name, value):
        _add_number(inquiry, name, one)


def _add_text(inquiry: CommandRequest, name: str, value: Any) -> None:
    inquiry.arguments.append(f"{_option_name(name)}={_check_text(inquiry, name, value)}")


def _add_texts(inquiry: CommandRequest, name: str, value: Any) -> None:
    for one in _check_list(inquiry, name, value):
        _add_text(inquiry, name, one)


def _add_flag(inquiry: CommandRequest, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise _build_error(inquiry, name, "true or false")
    inquiry.arguments += [_option_name(name)] * value


def _add_settings(inquiry: CommandRequest, name: str, value: Any) -> None:
    if not isinstance(value, dict) or len(value) > MAX_LIST_LENGTH:
        raise _build_error(inquiry, name, 'an object of settings, such as {"options": 16}')
    for key, one in value.items():
        inquiry.arguments.append(f"--set={_check_text(inquiry, name, key)}={format_number(inquiry, key, one)}")


def _add_groups(inquiry: CommandRequest, name: str, value: Any) -> None:
    """Adds the local ε and the users of each group."""
    for one in _check_list(inquiry, name, value):
        if not isinstance(one, dict) or one.keys() != {"epsilon_local", "users"}:
            raise _build_error(inquiry, name, "a list of objects with epsilon_local and users")
        local, users = (format_number(inquiry, key, one[key]) for key in ("epsilon_local", "users"))
        inquiry.arguments.append(f"--group={local}:{users}")


def _add_table(inquiry: CommandRequest, name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _build_error(inquiry, name, "the text of a CSV file")
    inquiry.files[TABLE_FILE] = value
    inquiry.arguments.append(f"--table={TABLE_FILE}")


def _add_categories(inquiry: CommandRequest, name: str, value: Any) -> None:
    texts = [_check_text(inquiry, name, one) for one in _check_list(inquiry, name, value, 100_000)]
    inquiry.files[CATEGORIES_FILE] = "\n".join(texts)
    inquiry.arguments.append(f"--categories={CATEGORIES_FILE}")


def _build_file_filler(file: str) -> ParameterFiller:
    """Returns a filler for a JSON object that the command reads from a file."""

    def fill(inquiry: CommandRequest, name: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise _build_error(inquiry, name, "a JSON object")
        inquiry.files[file] = json.dumps(value)
        inquiry.arguments.append(file)

    return fill


def _add_report_format(inquiry: CommandRequest, name: str, value: Any) -> None:
    if value not in ("md", "html"):
        raise _build_error(inquiry, name, "md or html")
    inquiry.arguments.append(f"--report=statement.{value}")
    inquiry.written = (f"statement.{value}",)


_NUMBER_SCHEMA = {"type": ["number", "string"], "maxLength": MAX_TEXT_LENGTH}
_TEXT_SCHEMA = {"type": "string", "maxLength": MAX_TEXT_LENGTH, "pattern": r"^[^/\\]*$"}


def _number_parameter(words: str = "") -> RequestParameter:
    return RequestParameter(_add_number, _NUMBER_SCHEMA, words)


def _text_parameter(words: str = "") -> RequestParameter:
    return RequestParameter(_add_text, _TEXT_SCHEMA, words)


RANDOMIZER_PARAMETERS: Mapping[str, RequestParameter] = {
    "mechanism": _text_parameter("A name of the catalogue."),
    "epsilon_local": _number_parameter("Local ε0; alone: any ε0-LDP randomizer."),
    "delta_local": _number_parameter("δ0 of an (ε0, δ0)-LDP randomizer."),
    "settings": RequestParameter(
        _add_settings, {"type": "object", "maxProperties": MAX_LIST_LENGTH}, "The mechanism's settings."
    ),
    "table": RequestParameter(_add_table, {"type": "string"}, "CSV of a randomizer: a row per input, no header."),
    **{name: _number_parameter() for name in ("p", "beta", "q", "q0", "q1", "q_common")},
}
PARTICIPATION_PARAMETERS: Mapping[str, RequestParameter] = {
    "users": _number_parameter("How many take part, the one to protect included."),
    "of": _number_parameter("The users of each round are drawn, secretly, out of so many."),
    "rate": _number_parameter("Instead of users: a secret coin for each of `of`."),
    "rounds": _number_parameter(),
    "colluding": _number_parameter("Users who tell the analyst their messages."),
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
    "task": _text_parameter("What to estimate."),
    "categories": RequestParameter(
        _add_categories, {"type": "array", "items": {"type": "string"}, "maxItems": 100_000}
    ),
    **{
        name: _number_parameter()
        for name in (
            "domain",
            "items",
            "dimension",
            "west",
            "east",
            "south",
            "north",
            "columns",
            "strings",
            "bits",
            "reach",
            "ways",
        )
    },
    **{
        name: RequestParameter(_add_numbers, {"type": "array", "items": _NUMBER_SCHEMA, "maxItems": MAX_LIST_LENGTH})
        for name in ("low", "high")
    },
    "degrees": RequestParameter(_add_flag, {"type": "boolean"}),
    "question": RequestParameter(
        _add_texts,
        {"type": "array", "items": _TEXT_SCHEMA, "maxItems": MAX_LIST_LENGTH},
        "Questions of a survey, such as frequency:city:0.5:domain=16.",
    ),
}


@dataclass(frozen=True)
class Operation:
    """A command that the page offers: its words, its parameters, and the files that it writes."""

    name: str
    summary: str
    parameters: Mapping[str, RequestParameter]
    command_words: tuple[str, ...] = ()
    output_files: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    is_long: bool = False
    """True if it may take more than a moment; long operations have workers of their own."""

    def build_request(self, given: Any) -> CommandRequest:
        """Returns the command for the given parameters; raises ValueError if they are not accepted."""
        made = CommandRequest(self.name, [*(self.command_words or (self.name,))], written=self.output_files)
        if not isinstance(given, dict):
            raise ValueError(f"{self.name}: expected a JSON object of options.")
        for name in self.required:
            if name not in given:
                raise ValueError(f"{self.name}: {name} must be given.")
        for name, value in given.items():
            if name not in self.parameters:
                raise ValueError(f"{self.name}: expected {', '.join(self.parameters)}, got {str(name)[:40]!r}.")
            if value is not None:
                self.parameters[name].fill(made, name, value)
        made.arguments.append("--json")
        return made


OPERATIONS: Mapping[str, Operation] = {
    each.name: each
    for each in (
        Operation("amplify", "The central (ε, δ) guarantee of shuffled messages, certified.", AMPLIFY_PARAMETERS),
        Operation(
            "compare",
            "Every bound side by side, and the best known attack.",
            {**RANDOMIZER_PARAMETERS, **PARTICIPATION_PARAMETERS, "delta": TARGET_PARAMETERS["delta"]},
            is_long=True,
        ),
        Operation(
            "tradeoff",
            "What any attack on the shuffled messages can do, certified.",
            {
                **RANDOMIZER_PARAMETERS,
                **PARTICIPATION_PARAMETERS,
                "bound": _text_parameter(),
                "prior": _number_parameter(),
                "points": _number_parameter(),
                "fpr": RequestParameter(
                    _add_numbers, {"type": "array", "items": _NUMBER_SCHEMA, "maxItems": MAX_LIST_LENGTH}
                ),
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
            "A claim that `shuffledp verify` proves again.",
            AMPLIFY_PARAMETERS,
            ("amplify", f"--certificate={CLAIM_FILE}"),
            (CLAIM_FILE,),
            is_long=True,
        ),
        Operation(
            "statement",
            "The guarantee told to people, as Markdown or HTML.",
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
            "The guarantee of a user of each group of a mixed crowd.",
            {
                "mechanism": RANDOMIZER_PARAMETERS["mechanism"],
                "settings": RANDOMIZER_PARAMETERS["settings"],
                "group": RequestParameter(
                    _add_groups,
                    {
                        "type": "array",
                        "maxItems": MAX_LIST_LENGTH,
                        "items": {
                            "type": "object",
                            "required": ["epsilon_local", "users"],
                            "additionalProperties": False,
                            "properties": {"epsilon_local": _NUMBER_SCHEMA, "users": _NUMBER_SCHEMA},
                        },
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
            "Mechanisms that meet a target, ranked by error; a plan.",
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
            "Try a plan on made-up users: is the error as promised?",
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
    400: "It is not JSON, or nested too deeply.",
    408: "It did not come whole.",
    413: "It is too large.",
    415: "It is of another type.",
    422: "The command refuses, in a sentence; or it would take more time or memory than a question may.",
    503: "Many are waiting already; try again.",
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
            name: {**each.schema, **({"description": each.description} if each.description else {})}
            for name, each in operation.parameters.items()
        },
    }


def _describe_post(operation: Operation) -> dict[str, Any]:
    good = {"200": {"description": "The command's own document.", "content": ANSWER_CONTENT}}
    refused = {
        str(status): {"description": words, "content": PROBLEM_CONTENT} for status, words in ERROR_DESCRIPTIONS.items()
    }
    return {
        "post": {
            "operationId": operation.name,
            "summary": operation.summary,
            "description": "Accept application/x-ndjson to be told how far it is, and what is known first, a line "
            "each, before the answer; closing the connection cancels it.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": _build_schema(operation)}}},
            "responses": good | refused,
        }
    }


def _describe_get(identifier: str, summary: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    told = {"200": {"description": "As it is now.", "content": content}}
    return {"get": {"operationId": identifier, "summary": summary, "responses": told}}


OPENAPI_DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "shuffledp explorer",
        "version": __version__,
        "description": "Each operation is a command of shuffledp; its answer is what the command prints with --json.",
    },
    "paths": {
        "/api/openapi.json": _describe_get("openapi", "This."),
        "/api/tasks": _describe_get("tasks", "What can be planned for, and the options that tell each."),
        "/api/watched": _describe_get("watched", "Where the watched collections and campaigns stand."),
        **{f"/api/{name}": _describe_post(each) for name, each in OPERATIONS.items()},
    },
    "components": {
        "schemas": {
            "Answer": {
                "type": "object",
                "required": ["command", "python", "answer", "files"],
                "properties": {
                    "command": {"type": "string", "description": "What to type for the same answer."},
                    "python": {"type": "string", "description": "The same in Python; empty where there is none."},
                    "answer": {"type": "object", "description": "What the command prints with --json."},
                    "files": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "Problem": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
        }
    },
}
