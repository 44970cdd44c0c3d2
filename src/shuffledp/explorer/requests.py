"""The JSON requests of the page, the code that it shows for them, and their OpenAPI description.

Each request becomes one command with its options, so that page and command line give the same numbers. Only the options
listed here are accepted. A file that a command reads is sent as text and written under a fixed name into the command's
temporary directory: no request names a path.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shuffledp._core import __version__
from shuffledp._core.formatting import format_exact
from shuffledp.bounds.compare import LOCAL_EPSILON, USERS
from shuffledp.mechanisms import catalogue

MAX_TEXT_LENGTH, MAX_LIST_LENGTH, MAX_CATEGORIES = 200, 64, 100_000
PATHLESS_TEXT_PATTERN = re.compile(rf"[^/\\\x00-\x1f]{{0,{MAX_TEXT_LENGTH}}}")
"""Short text that cannot be a path."""
TABLE_FILE, PLAN_FILE, CLAIM_FILE, CATEGORIES_FILE = "table.csv", "plan.json", "certificate.json", "categories.txt"
TASK_NUMBERS = (
    *("domain", "items", "dimension", "west", "east", "south", "north", "columns", "strings", "bits", "reach", "ways"),
)
"""Options of tasks that are one number each."""

# --- Code snippets ---


IMPORT_LINE = "import shuffledp as sdp"
VARIATION_RATIO_PARAMETERS = ("p", "beta", "q_common")


class PythonName(str):
    """A Python name, written without quotes."""


class _NoSnippet(Exception):
    """The request has no short equivalent in Python."""


def format_command(command: CommandRequest) -> str:
    """Returns the command line that gives the same answer."""
    return shlex.join(["shuffledp", *(word for word in command.arguments if word != "--json")])


def format_python(operation: str, values: Mapping[str, Any]) -> str:
    """Returns Python code that prints the same number; empty if there is none for the request."""
    if operation not in SNIPPETS:
        return ""
    try:
        lines = SNIPPETS[operation]({name: value for name, value in values.items() if value is not None})
    except _NoSnippet:
        return ""
    return "\n".join([IMPORT_LINE, *lines, ""])


def _format_amplify(values: Mapping[str, Any]) -> list[str]:
    target = _format_target(values, "delta=")
    return [*_define_randomizer(values), f"curve = {_format_curve(values)}", f"print(curve.{target})"]


def _format_compare(values: Mapping[str, Any]) -> list[str]:
    arguments = _keyword_arguments(values, "users", "delta", "colluding", "rounds", "of", "rate")
    return [*_define_randomizer(values), f"print(sdp.compare(randomizer, {arguments}))"]


def _format_tradeoff(values: Mapping[str, Any]) -> list[str]:
    return [
        *_define_randomizer(values),
        f"curve = {_format_curve({**values, 'effort': 'quick'})}",
        "risk = sdp.AttackRisk(curve, sdp.trade_off(curve))",
        "print(risk.advantage().value)",
        f"print([risk.tpr(fpr).value for fpr in {_format_tuple(values.get('fpr') or [0.01])}])",
    ]


def _format_sweep(values: Mapping[str, Any]) -> list[str]:
    if "diameter" in values:
        raise _NoSnippet
    over = values.get("against", USERS)
    participation = _keyword_arguments(values, "users", "of", "rate", "rounds")
    local = {"local": values.get("epsilon_local")} if over == LOCAL_EPSILON else {}
    arguments = _keyword_arguments({**values, **local}, "delta", "bound", "colluding", *local)
    return [
        *_define_randomizer(values),
        f"found = sdp.sweep(randomizer, sdp.Participation({participation}), over={over!r}, {arguments})",
        "print(found)",
    ]


def _format_plan(values: Mapping[str, Any]) -> list[str]:
    if values.get("question"):
        imports = [
            "from shuffledp.tasks.question_parser import parse_questions",
            "from shuffledp.tasks.survey import Survey",
        ]
        task = f"Survey(parse_questions({values['question']!r}, None))"
    else:
        imports = [
            "from shuffledp.tasks.domain import TaskOptions",
            "from shuffledp.tasks.registry import from_options",
        ]
        options = [_keyword_arguments(values, *TASK_NUMBERS)]
        options += [f"{name}={_format_tuple(values[name])}" for name in ("low", "high") if name in values]
        if "categories" in values:
            imports.insert(0, "from pathlib import Path")
            options.append(f'categories=Path("{CATEGORIES_FILE}")')
        if values.get("degrees"):
            options.append("degrees=True")
        task = f'from_options("{values.get("task", "")}", TaskOptions({", ".join(filter(None, options))}))'
    arguments = _keyword_arguments(
        values,
        *("users", "epsilon", "delta", "rounds", "of", "rate", "mechanism", "minimum", "colluding", "effort"),
        *("max_bits", "max_messages", "local_epsilon_at_most", "rests_on"),
    )
    return [*imports, "", f"ranking = sdp.plan({task}, {arguments})", "print(ranking)"]


def _format_crowd(values: Mapping[str, Any]) -> list[str]:
    groups = [
        f"{_format_randomizer({**values, 'epsilon_local': group['epsilon_local']})}: {_format_literal(group['users'])}"
        for group in values.get("group", ())
    ]
    opt_outs = _format_literal(values.get("opt_outs", 0))
    members = "groups" if opt_outs in ("0", "0.0") else f"{{**groups, sdp.OptOut(next(iter(groups))): {opt_outs}}}"
    arguments = "".join(f", {each}" for each in [_keyword_arguments(values, "colluding", "effort")] if each)
    curve = "curve.group_curve(one)"
    if _has_rounds(values):
        curve = f"sdp.compose({curve}, {_format_literal(values['rounds'])})"
    return [
        "",
        f"groups = {{{', '.join(groups)}}}",
        f"curve = sdp.amplify(sdp.Crowd({members}){arguments})",
        f"print([{curve}.{_format_target(values)}.upper for one in groups])",
    ]


SNIPPETS: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "amplify": _format_amplify,
    "compare": _format_compare,
    "tradeoff": _format_tradeoff,
    "sweep": _format_sweep,
    "plan": _format_plan,
    "crowd": _format_crowd,
}


def _has_rounds(values: Mapping[str, Any]) -> bool:
    return values.get("rounds") not in (None, 1, "1")


def _format_target(values: Mapping[str, Any], keyword: str = "") -> str:
    """Returns the call of a curve's method: ε at the δ of the request, or δ at its ε."""
    if "delta" in values:
        return f"epsilon({keyword}{_format_literal(values['delta'])})"
    return f"delta({_format_literal(values['epsilon'])})"


def _format_curve(values: Mapping[str, Any]) -> str:
    """Returns the expression of the privacy curve: of one round, or with sampling or several rounds."""
    if not (_has_rounds(values) or "of" in values or "rate" in values):
        arguments = _keyword_arguments(values, "users", "bound", "colluding", "diameter", "effort")
        return f"sdp.amplify(randomizer, {arguments})"
    if "diameter" in values:
        raise _NoSnippet
    participation = _keyword_arguments(values, "users", "of", "rate", "rounds")
    arguments = "".join(f", {each}" for each in [_keyword_arguments(values, "bound", "colluding", "effort")] if each)
    return f"sdp.Participation({participation}).curve(randomizer{arguments})"


def _define_randomizer(values: Mapping[str, Any]) -> list[str]:
    """Returns the lines that define ``randomizer``: a function of the local ε if that is the axis of a sweep."""
    if values.get("against") != LOCAL_EPSILON:
        return ["", f"randomizer = {_format_randomizer(values)}"]
    randomizer = _format_randomizer({**values, "epsilon_local": PythonName("epsilon")})
    return ["", "", "def randomizer(epsilon):", f"    return {randomizer}", "", ""]


def _format_randomizer(values: Mapping[str, Any]) -> str:
    """Returns the expression that builds the randomizer."""
    if "table" in values:
        return f'sdp.FromTable.from_csv("{TABLE_FILE}")'
    local = values.get("epsilon_local")
    if "mechanism" in values:
        kind = catalogue.find(str(values["mechanism"]))
        if kind is None or not catalogue.is_buildable_by_name(kind) or kind.table_setting:
            raise _NoSnippet
        settings = {"epsilon": local, **(values.get("settings") or {})}
        return f"sdp.{kind.__name__}({_keyword_arguments(settings, *settings)})"
    if local is not None:
        if values.get("delta_local"):
            return f"sdp.ApproximateLDP({_format_literal(local)}, {_format_literal(values['delta_local'])})"
        return f"sdp.VariationRatio.from_ldp({_format_literal(local)})"
    if "q" not in values:
        pair = f"({_format_literal(values['q0'])}, {_format_literal(values['q1'])})"
        values = {**values, "q": PythonName(pair)}
    return f"sdp.VariationRatio({_keyword_arguments(values, *VARIATION_RATIO_PARAMETERS, 'q')})"


def _keyword_arguments(values: Mapping[str, Any], *names: str) -> str:
    """Returns those of these names that have a value, as keyword arguments."""
    return ", ".join(f"{name}={_format_literal(values[name])}" for name in names if values.get(name) is not None)


def _format_tuple(values: Iterable[Any]) -> str:
    return f"({''.join(f'{_format_literal(value)}, ' for value in values).rstrip()})"


def _format_literal(value: Any) -> str:
    """Returns a value as a Python literal; text that is a number becomes a number."""
    if isinstance(value, PythonName):
        return value
    plain = value.replace(",", "").replace("_", "").strip() if isinstance(value, str) else ""
    try:
        number = float(plain) if plain else value
    except ValueError:
        return repr(value)
    if not isinstance(number, float):
        return repr(value)
    if not math.isfinite(number):
        return f'float("{number}")'
    is_whole = number.is_integer() and not (plain and ("." in plain or "e" in repr(number)))
    return repr(int(number)) if is_whole else repr(number)


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
