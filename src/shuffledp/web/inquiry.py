"""What may be asked over JSON: each request is one command with its options, so that both give the same numbers.

Only options that are listed here can be given. What a command takes as a file comes as text, and is written beside the
command under a fixed name: no request names a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shuffledp.document import typed

LONGEST_TEXT, LONGEST_LIST = 200, 64
PLAIN = re.compile(r"[^/\\\x00-\x1f]*")
"""Words without a place in the file system."""
TABLE, PLAN, CLAIM, CATEGORIES = "table.csv", "plan.json", "certificate.json", "categories.txt"


@dataclass
class Inquiry:
    """A command line, and the files that it reads and writes."""

    operation: str
    arguments: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    written: tuple[str, ...] = ()


Filler = Callable[[Inquiry, str, Any], None]
"""Adds what was given for one name to a command; a sentence where it is nothing of the kind."""


@dataclass(frozen=True)
class Parameter:
    """One thing that may be given: how it becomes an option, and its schema in the description."""

    fill: Filler
    schema: Mapping[str, Any]
    words: str = ""


def _refuse(inquiry: Inquiry, name: str, expected: str) -> ValueError:
    return ValueError(f"{inquiry.operation}: {name} must be {expected}.")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def number_text(inquiry: Inquiry, name: str, value: Any) -> str:
    """A number, or the text of one as people write it: 5,000,000, 1e6, 2%."""
    if isinstance(value, str) and len(value) <= LONGEST_TEXT and PLAIN.fullmatch(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(inquiry, name, "a number")
    return str(value) if isinstance(value, int) else typed(value)


def _plain_text(inquiry: Inquiry, name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not PLAIN.fullmatch(value):
        raise _refuse(inquiry, name, f"a text of at most {LONGEST_TEXT} characters without slashes")
    return value


def _listed(inquiry: Inquiry, name: str, value: Any, most: int = LONGEST_LIST) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise _refuse(inquiry, name, f"a list of at most {most:,}")
    return value


def _number(inquiry: Inquiry, name: str, value: Any) -> None:
    inquiry.arguments.append(f"{_option(name)}={number_text(inquiry, name, value)}")


def _numbers(inquiry: Inquiry, name: str, value: Any) -> None:
    for one in _listed(inquiry, name, value):
        _number(inquiry, name, one)


def _text(inquiry: Inquiry, name: str, value: Any) -> None:
    inquiry.arguments.append(f"{_option(name)}={_plain_text(inquiry, name, value)}")


def _texts(inquiry: Inquiry, name: str, value: Any) -> None:
    for one in _listed(inquiry, name, value):
        _text(inquiry, name, one)


def _flag(inquiry: Inquiry, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise _refuse(inquiry, name, "true or false")
    inquiry.arguments += [_option(name)] * value


def _settings(inquiry: Inquiry, name: str, value: Any) -> None:
    if not isinstance(value, dict) or len(value) > LONGEST_LIST:
        raise _refuse(inquiry, name, 'an object of settings, such as {"options": 16}')
    for key, one in value.items():
        inquiry.arguments.append(f"--set={_plain_text(inquiry, name, key)}={number_text(inquiry, key, one)}")


def _groups(inquiry: Inquiry, name: str, value: Any) -> None:
    """Local ε and users of each group."""
    for one in _listed(inquiry, name, value):
        if not isinstance(one, dict) or one.keys() != {"epsilon_local", "users"}:
            raise _refuse(inquiry, name, "a list of objects with epsilon_local and users")
        local, users = (number_text(inquiry, key, one[key]) for key in ("epsilon_local", "users"))
        inquiry.arguments.append(f"--group={local}:{users}")


def _table(inquiry: Inquiry, name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _refuse(inquiry, name, "the text of a CSV file")
    inquiry.files[TABLE] = value
    inquiry.arguments.append(f"--table={TABLE}")


def _categories(inquiry: Inquiry, name: str, value: Any) -> None:
    texts = [_plain_text(inquiry, name, one) for one in _listed(inquiry, name, value, 100_000)]
    inquiry.files[CATEGORIES] = "\n".join(texts)
    inquiry.arguments.append(f"--categories={CATEGORIES}")


def _document_as(file: str) -> Filler:
    """A JSON object that the command reads as its file."""

    def fill(inquiry: Inquiry, name: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise _refuse(inquiry, name, "a JSON object")
        inquiry.files[file] = json.dumps(value)
        inquiry.arguments.append(file)

    return fill


def _form(inquiry: Inquiry, name: str, value: Any) -> None:
    if value not in ("md", "html"):
        raise _refuse(inquiry, name, "md or html")
    inquiry.arguments.append(f"--report=statement.{value}")
    inquiry.written = (f"statement.{value}",)


_COUNT = {"type": ["number", "string"], "maxLength": LONGEST_TEXT}
_WORD = {"type": "string", "maxLength": LONGEST_TEXT, "pattern": r"^[^/\\]*$"}


def _numeric(words: str = "") -> Parameter:
    return Parameter(_number, _COUNT, words)


def _worded(words: str = "") -> Parameter:
    return Parameter(_text, _WORD, words)


RANDOMIZER: Mapping[str, Parameter] = {
    "mechanism": _worded("A name of the catalogue."),
    "epsilon_local": _numeric("Local ε0; alone: any ε0-LDP randomizer."),
    "delta_local": _numeric("δ0 of an (ε0, δ0)-LDP randomizer."),
    "settings": Parameter(_settings, {"type": "object", "maxProperties": LONGEST_LIST}, "The mechanism's settings."),
    "table": Parameter(_table, {"type": "string"}, "CSV of a randomizer: a row per input, no header."),
    **{name: _numeric() for name in ("p", "beta", "q", "q0", "q1", "q_common")},
}
AROUND: Mapping[str, Parameter] = {
    "users": _numeric("How many take part, the one to protect included."),
    "of": _numeric("The users of each round are drawn, secretly, out of so many."),
    "rate": _numeric("Instead of users: a secret coin for each of `of`."),
    "rounds": _numeric(),
    "colluding": _numeric("Users who tell the analyst their messages."),
}
LIMIT: Mapping[str, Parameter] = {"delta": _numeric("Target δ; the answer is ε."), "epsilon": _numeric("Target ε.")}
EFFORT: Mapping[str, Parameter] = {"effort": _worded("quick, or full.")}
AMPLIFY = {**RANDOMIZER, **AROUND, **LIMIT, **EFFORT, "bound": _worded(), "diameter": _numeric()}
TASK: Mapping[str, Parameter] = {
    "task": _worded("What to estimate."),
    "categories": Parameter(_categories, {"type": "array", "items": {"type": "string"}, "maxItems": 100_000}),
    **{name: _numeric() for name in ("domain", "items", "dimension", "west", "east", "south", "north", "columns",
                                     "strings", "bits", "reach", "ways")},
    **{name: Parameter(_numbers, {"type": "array", "items": _COUNT, "maxItems": LONGEST_LIST})
       for name in ("low", "high")},
    "degrees": Parameter(_flag, {"type": "boolean"}),
    "question": Parameter(_texts, {"type": "array", "items": _WORD, "maxItems": LONGEST_LIST},
                          "Questions of a survey, such as frequency:city:0.5:domain=16."),
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """A command that may be asked for: its words, what may be given, what it writes, and how long it may take."""

    name: str
    summary: str
    parameters: Mapping[str, Parameter]
    words: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    is_long: bool = False
    """Whether it may take longer than a moment, and has workers of its own."""

    def inquiry(self, given: Any) -> Inquiry:
        """The command for what was given; a sentence where it is nothing that can be asked."""
        made = Inquiry(self.name, [*(self.words or (self.name,))], written=self.written)
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


OPERATIONS: Mapping[str, Operation] = {each.name: each for each in (
    Operation("amplify", "The central (ε, δ) guarantee of shuffled messages, certified.", AMPLIFY),
    Operation("compare", "Every bound side by side, and the best known attack.",
              {**RANDOMIZER, **AROUND, "delta": LIMIT["delta"]}, is_long=True),
    Operation("tradeoff", "What any attack on the shuffled messages can do, certified.",
              {**RANDOMIZER, **AROUND, "bound": _worded(), "prior": _numeric(), "points": _numeric(),
               "fpr": Parameter(_numbers, {"type": "array", "items": _COUNT, "maxItems": LONGEST_LIST})}),
    Operation("sweep", "ε along one axis, as CSV.",
              {**AMPLIFY, "against": _worded("users, rounds, local-epsilon or epsilon.")},
              ("amplify", "--curve=curve.csv"), ("curve.csv",), is_long=True),
    Operation("certificate", "A claim that `shuffledp verify` proves again.", AMPLIFY,
              ("amplify", f"--certificate={CLAIM}"), (CLAIM,), is_long=True),
    Operation("statement", "The guarantee told to people, as Markdown or HTML.",
              {**AMPLIFY, "form": Parameter(_form, {"enum": ["md", "html"]})}, ("amplify",), required=("form",),
              is_long=True),
    Operation("verify", "Prove a certificate's claim by an independent route.",
              {"certificate": Parameter(_document_as(CLAIM), {"type": "object"})}, required=("certificate",),
              is_long=True),
    Operation("crowd", "The guarantee of a user of each group of a mixed crowd.",
              {"mechanism": RANDOMIZER["mechanism"], "settings": RANDOMIZER["settings"],
               "group": Parameter(_groups, {"type": "array", "maxItems": LONGEST_LIST, "items": {
                   "type": "object", "required": ["epsilon_local", "users"], "additionalProperties": False,
                   "properties": {"epsilon_local": _COUNT, "users": _COUNT}}}),
               "opt_outs": _numeric(), "colluding": AROUND["colluding"], "rounds": AROUND["rounds"], **LIMIT, **EFFORT},
              is_long=True),
    Operation("plan", "Mechanisms that meet a target, ranked by error; a plan.",
              {**TASK, **AROUND, **LIMIT, **EFFORT, "minimum": _numeric(), "max_bits": _numeric(),
               "max_messages": _numeric(), "local_epsilon_at_most": _numeric(), "mechanism": RANDOMIZER["mechanism"],
               "rests_on": _worded()}, is_long=True),
    Operation("simulate", "Try a plan on made-up users: is the error as promised?",
              {"plan": Parameter(_document_as(PLAN), {"type": "object"}),
               "users": AROUND["users"], "repeat": _numeric(), "seed": _numeric()}, required=("plan",), is_long=True),
    Operation("mechanisms", "The catalogue of mechanisms, or those of a task.", {"task": TASK["task"]}),
)}  # fmt: skip
