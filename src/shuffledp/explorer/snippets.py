"""The command line and the lines of Python that give the result shown on the page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shuffledp.bounds.sweep import LOCAL_EPSILON, USERS
from shuffledp.explorer.requests import CATEGORIES_FILE, TABLE_FILE, TASK_NUMBERS, CommandRequest
from shuffledp.mechanisms import catalogue

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
            "from shuffledp.tasks.survey_parser import parse_questions",
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
