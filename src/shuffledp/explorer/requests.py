"""The JSON requests of the page and their OpenAPI description.

Each request becomes one command with its options, so that page and command line give the same numbers. Only the options
listed here are accepted. A file that a command reads comes as text and is written under a fixed name into the command's
temporary directory: no request names a path.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shuffledp._core.formatting import format_exact
from shuffledp._core.version import __version__
from shuffledp.mechanisms import catalogue

# --- Code snippets ---


VARIATION_RATIO_PARAMETERS = ("p", "beta", "q_common")
TASK_ARGUMENTS = (
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
IMPORT_LINE = "import shuffledp as sdp"
LOCAL_AXIS = "local-epsilon"


class PythonName(str):
    """A Python name, written without quotes."""


def format_command(inquiry: CommandRequest) -> str:
    """Returns the command line that gives the same answer."""
    return shlex.join(["shuffledp", *(word for word in inquiry.arguments if word != "--json")])


def format_python(operation: str, given: Mapping[str, Any]) -> str:
    """Returns Python code that prints the same number; empty if there is none for the operation."""
    given = {name: value for name, value in given.items() if value is not None}
    if operation in WHOLE_SNIPPETS:
        return "\n".join([IMPORT_LINE, *WHOLE_SNIPPETS[operation](given), ""])
    made = {
        "amplify": _format_amplify,
        "compare": _format_compare,
        "tradeoff": _format_tradeoff,
        "sweep": _format_sweep,
    }.get(operation)
    is_made = operation == "sweep" and given.get("against") == LOCAL_AXIS
    randomizer = (
        None
        if made is None
        else _format_randomizer(given | ({"epsilon_local": PythonName("epsilon")} if is_made else {}))
    )
    if made is None or randomizer is None:
        return ""
    begun = ["", "def randomizer(epsilon):", f"    return {randomizer}", "", ""]
    return "\n".join([IMPORT_LINE, "", *(begun if is_made else [f"randomizer = {randomizer}"]), *made(given), ""])


def _format_amplify(given: Mapping[str, Any]) -> list[str]:
    asked = (
        f"epsilon(delta={_format_literal(given['delta'])})"
        if "delta" in given
        else f"delta({_format_literal(given['epsilon'])})"
    )
    return [f"curve = {_format_curve(given)}", f"print(curve.{asked})"]


def _format_compare(given: Mapping[str, Any]) -> list[str]:
    return [
        f"print(sdp.compare(randomizer, "
        f"{_keyword_arguments(given, 'users', 'delta', 'colluding', 'rounds', 'of', 'rate')}))"
    ]


def _format_tradeoff(given: Mapping[str, Any]) -> list[str]:
    levels = given.get("fpr") or [0.01]
    return [
        f"curve = {_format_curve({**given, 'effort': 'quick'})}",
        "risk = sdp.AttackRisk(curve, sdp.trade_off(curve))",
        "print(risk.advantage().value)",
        f"print([risk.tpr(fpr).value for fpr in ({', '.join(_format_literal(one) for one in levels)},)])",
    ]


def _format_sweep(given: Mapping[str, Any]) -> list[str]:
    over = given.get("against", "users")
    schedule = f"sdp.Participation({_keyword_arguments(given, 'users', 'of', 'rate', 'rounds')})"
    rest = _keyword_arguments(given, "delta", "bound", "colluding")
    local = f", local={_format_literal(given.get('epsilon_local'))}" if over == LOCAL_AXIS else ""
    return [f"found = sdp.sweep(randomizer, {schedule}, over={over!r}, {rest}{local})", "print(found)"]


def _format_plan(given: Mapping[str, Any]) -> list[str]:
    """Returns the code that plans for any task."""
    lists = {
        name: f"({', '.join(_format_literal(one) for one in given[name])},)"
        for name in ("low", "high")
        if name in given
    }
    plain = {name: _format_literal(given[name]) for name in TASK_ARGUMENTS if given.get(name) is not None}
    several = f"parse_questions({list(given.get('question') or [])!r}, None)" if given.get("question") else ""
    told = ", ".join(f"{name}={text}" for name, text in {**plain, **lists}.items())
    task = f"Survey({several})" if several else f'from_options("{given.get("task", "")}", TaskOptions({told}))'
    rest = _keyword_arguments(
        given, "users", "epsilon", "delta", "rounds", "of", "rate", "mechanism", "minimum", "colluding", "effort"
    )
    needed = (
        "from shuffledp.tasks.question_parser import parse_questions",
        "from shuffledp.tasks.survey import Survey",
    )
    usual = ("from shuffledp.tasks.domain import TaskOptions", "from shuffledp.tasks.registry import from_options")
    return [*(needed if several else usual), "", f"ranking = sdp.plan({task}, {rest})", "print(ranking)"]


def _format_crowd(given: Mapping[str, Any]) -> list[str]:
    groups = given.get("group") or []
    made = [
        (_format_randomizer({**given, "epsilon_local": one["epsilon_local"]}), _format_literal(one["users"]))
        for one in groups
    ]
    members = ", ".join(f"{randomizer}: {users}" for randomizer, users in made)
    rest = _keyword_arguments(given, "colluding", "effort")
    return [
        "",
        f"groups = {{{members}}}",
        f"curve = sdp.amplify(sdp.Crowd(groups){', ' * bool(rest)}{rest})",
        f"print([curve.group_curve(one).epsilon({_format_literal(given.get('delta', 1e-8))}).upper for one in groups])",
    ]


WHOLE_SNIPPETS = {"plan": _format_plan, "crowd": _format_crowd}


def _format_curve(given: Mapping[str, Any]) -> str:
    """Returns the expression of the privacy curve: of one round, or of a schedule with sampling or several rounds."""
    rest = _keyword_arguments(given, "bound", "colluding", "effort")
    schedule = _keyword_arguments(given, "users", "of", "rate", "rounds")
    if any(given.get(name) is not None for name in ("of", "rate")) or given.get("rounds") not in (None, 1, "1"):
        return f"sdp.Participation({schedule}).curve(randomizer{', ' * bool(rest)}{rest})"
    return f"sdp.amplify(randomizer, {_keyword_arguments(given, 'users', 'bound', 'colluding', 'effort')})"


def _format_randomizer(given: Mapping[str, Any]) -> str | None:
    """Returns the expression that builds the randomizer; None if there is no short one."""
    if given.get("table") is not None:
        return f'sdp.FromTable.from_csv("{TABLE_FILE}")'
    if given.get("mechanism") is not None:
        kind = catalogue.find(str(given["mechanism"]))
        if kind is None or not catalogue.is_buildable_by_name(kind) or kind.table_setting:
            return None
        kept = {} if given.get("epsilon_local") is None else {"epsilon": given["epsilon_local"]}
        settings = {**kept, **(given.get("settings") or {})}
        return f"sdp.{kind.__name__}({_keyword_arguments(settings, *settings)})"
    if given.get("epsilon_local") is not None:
        local = _format_literal(given["epsilon_local"])
        apart = given.get("delta_local")
        return (
            f"sdp.ApproximateLDP({local}, {_format_literal(apart)})"
            if apart
            else f"sdp.VariationRatio.from_ldp({local})"
        )
    raw = [
        f"{name}={_format_literal(given[name])}" for name in VARIATION_RATIO_PARAMETERS if given.get(name) is not None
    ]
    pair = given.get("q")
    asked = (
        f"({_format_literal(given['q0'])}, {_format_literal(given['q1'])})" if pair is None else _format_literal(pair)
    )
    return f"sdp.VariationRatio({', '.join([*raw, f'q={asked}'])})"


def _keyword_arguments(given: Mapping[str, Any], *names: str) -> str:
    """Returns the keyword arguments of the given names."""
    told = [(name, given.get(name)) for name in names]
    return ", ".join(f"{name}={_format_literal(value)}" for name, value in told if value is not None)


def _format_literal(value: Any) -> str:
    """Returns a value as a Python literal; text that is a number becomes a number."""
    if isinstance(value, PythonName):
        return value
    if not isinstance(value, str):
        return repr(int(value)) if isinstance(value, float) and value == int(value) else repr(value)
    plain = value.replace(",", "").replace("_", "").strip()
    try:
        number = float(plain)
    except ValueError:
        return repr(value)
    if number in (float("inf"), float("-inf")) or number != number:
        return f'float("{plain}")'
    return repr(int(number)) if number == int(number) and "e" not in repr(number) and "." not in plain else repr(number)


# --- Requests ---


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
