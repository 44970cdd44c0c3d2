"""The same question to take home: the command to type, and the lines of Python."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from shuffledp.mechanisms import catalogue
from shuffledp.web.inquiry import TABLE, Inquiry

RAW = ("p", "beta", "q_common")
GIVEN = (
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
FIRST = "import shuffledp as sdp"
LOCAL = "local-epsilon"


class Name(str):
    """A name of Python, not a text."""


def command(inquiry: Inquiry) -> str:
    """What gives the same answer in a terminal."""
    return shlex.join(["shuffledp", *(word for word in inquiry.arguments if word != "--json")])


def of(operation: str, given: Mapping[str, Any]) -> str:
    """Lines that print the same number; empty where the operation has none."""
    given = {name: value for name, value in given.items() if value is not None}
    if operation in WHOLE:
        return "\n".join([FIRST, *WHOLE[operation](given), ""])
    made = {"amplify": _amplify, "compare": _compare, "tradeoff": _tradeoff, "sweep": _sweep}.get(operation)
    is_made = operation == "sweep" and given.get("against") == LOCAL
    randomizer = None if made is None else _randomizer(given | ({"epsilon_local": Name("epsilon")} if is_made else {}))
    if made is None or randomizer is None:
        return ""
    begun = ["", "def randomizer(epsilon):", f"    return {randomizer}", "", ""]
    return "\n".join([FIRST, "", *(begun if is_made else [f"randomizer = {randomizer}"]), *made(given), ""])


def _amplify(given: Mapping[str, Any]) -> list[str]:
    asked = f"epsilon(delta={_number(given['delta'])})" if "delta" in given else f"delta({_number(given['epsilon'])})"
    return [f"curve = {_curve(given)}", f"print(curve.{asked})"]


def _compare(given: Mapping[str, Any]) -> list[str]:
    return [f"print(sdp.compare(randomizer, {_named(given, 'users', 'delta', 'colluding', 'rounds', 'of', 'rate')}))"]


def _tradeoff(given: Mapping[str, Any]) -> list[str]:
    levels = given.get("fpr") or [0.01]
    return [
        f"curve = {_curve({**given, 'effort': 'quick'})}",
        "risk = sdp.AttackRisk(curve, sdp.trade_off(curve))",
        "print(risk.advantage().value)",
        f"print([risk.tpr(fpr).value for fpr in ({', '.join(_number(one) for one in levels)},)])",
    ]


def _sweep(given: Mapping[str, Any]) -> list[str]:
    over = given.get("against", "users")
    schedule = f"sdp.Schedule({_named(given, 'users', 'of', 'rate', 'rounds')})"
    rest = _named(given, "delta", "bound", "colluding")
    local = f", local={_number(given.get('epsilon_local'))}" if over == LOCAL else ""
    return [f"found = sdp.sweep(randomizer, {schedule}, over={over!r}, {rest}{local})", "print(found)"]


def _plan(given: Mapping[str, Any]) -> list[str]:
    """Of any task: the options as the command has them."""
    lists = {name: f"({', '.join(_number(one) for one in given[name])},)" for name in ("low", "high") if name in given}
    plain = {name: _number(given[name]) for name in GIVEN if given.get(name) is not None}
    several = f"questions_of({list(given.get('question') or [])!r}, None)" if given.get("question") else ""
    told = ", ".join(f"{name}={text}" for name, text in {**plain, **lists}.items())
    task = f"Survey({several})" if several else f'from_options("{given.get("task", "")}", Given({told}))'
    rest = _named(
        given, "users", "epsilon", "delta", "rounds", "of", "rate", "mechanism", "minimum", "colluding", "effort"
    )
    needed = ("from shuffledp.tasks.asked_questions import questions_of", "from shuffledp.tasks.survey import Survey")
    usual = ("from shuffledp.tasks.given import Given", "from shuffledp.tasks.task_list import from_options")
    return [*(needed if several else usual), "", f"ranking = sdp.plan({task}, {rest})", "print(ranking)"]


def _crowd(given: Mapping[str, Any]) -> list[str]:
    groups = given.get("group") or []
    made = [(_randomizer({**given, "epsilon_local": one["epsilon_local"]}), _number(one["users"])) for one in groups]
    members = ", ".join(f"{randomizer}: {users}" for randomizer, users in made)
    rest = _named(given, "colluding", "effort")
    return ["", f"groups = {{{members}}}", f"curve = sdp.amplify(sdp.Crowd(groups){', ' * bool(rest)}{rest})",
            f"print([curve.of(one).epsilon({_number(given.get('delta', 1e-8))}).upper for one in groups])"]  # fmt: skip


WHOLE = {"plan": _plan, "crowd": _crowd}


def _curve(given: Mapping[str, Any]) -> str:
    """Once for everybody, or as often, and of as many, as is told."""
    rest = _named(given, "bound", "colluding", "effort")
    schedule = _named(given, "users", "of", "rate", "rounds")
    if any(given.get(name) is not None for name in ("of", "rate")) or given.get("rounds") not in (None, 1, "1"):
        return f"sdp.Schedule({schedule}).curve(randomizer{', ' * bool(rest)}{rest})"
    return f"sdp.amplify(randomizer, {_named(given, 'users', 'bound', 'colluding', 'effort')})"


def _randomizer(given: Mapping[str, Any]) -> str | None:
    """As Python makes it; None where no short line does."""
    if given.get("table") is not None:
        return f'sdp.FromTable.from_csv("{TABLE}")'
    if given.get("mechanism") is not None:
        kind = catalogue.find(str(given["mechanism"]))
        if kind is None or not catalogue.can_be_named(kind) or kind.built_from_table:
            return None
        kept = {} if given.get("epsilon_local") is None else {"epsilon": given["epsilon_local"]}
        settings = {**kept, **(given.get("settings") or {})}
        return f"sdp.{kind.__name__}({_named(settings, *settings)})"
    if given.get("epsilon_local") is not None:
        local = _number(given["epsilon_local"])
        apart = given.get("delta_local")
        return f"sdp.ApproximateLDP({local}, {_number(apart)})" if apart else f"sdp.VariationRatio.of_ldp({local})"
    raw = [f"{name}={_number(given[name])}" for name in RAW if given.get(name) is not None]
    pair = given.get("q")
    asked = f"({_number(given['q0'])}, {_number(given['q1'])})" if pair is None else _number(pair)
    return f"sdp.VariationRatio({', '.join([*raw, f'q={asked}'])})"


def _named(given: Mapping[str, Any], *names: str) -> str:
    """Keywords of those that are given."""
    told = [(name, given.get(name)) for name in names]
    return ", ".join(f"{name}={_number(value)}" for name, value in told if value is not None)


def _number(value: Any) -> str:
    """As Python writes it; a text that is a number becomes one."""
    if isinstance(value, Name):
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
