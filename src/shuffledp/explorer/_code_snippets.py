"""The command line and the Python code that give the same answer as a request of the page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from shuffledp.explorer.requests import TABLE_FILE, CommandRequest
from shuffledp.mechanisms import catalogue

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
