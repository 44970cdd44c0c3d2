"""The plan file: written, read back, and refused with a sentence where it is not a plan."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from shuffledp import KRR, Laplace, amplify
from shuffledp.planner.plan_file import Plan
from shuffledp.tasks.domain import Categories, Interval, KeyedInterval, Options

COLOURS = Categories(("red", "green", "blue"))
PLAN = Plan(
    task="frequency",
    mechanism_name="krr",
    epsilon_local=4.0,
    settings={"options": 3},
    domain=COLOURS,
    users=100_000,
    epsilon=1.0,
    delta=1e-8,
    population="visitors",
    promise={"standard_error": 12.5},
)
OTHERS = [
    Plan("mean", "laplace", 1.0, Interval(-20, 40.5), 1e4, 0.5, 1e-6, settings={"grid": 64}),
    Plan("frequency", "pure-dump", None, COLOURS, 1e4, 0.5, 1e-6, settings={"options": 3, "dummies": 9}),
    Plan("mean", "piecewise", 1.0, Interval(0, 1), 1e4, 0.5, 1e-6, bound="optimal", rounds=12),
    Plan("frequency", "oue", 2.0, Options(128), 1e6, 0.5, 1e-9, settings={"options": 128}),
    Plan("set-valued", "privset", 2.0, Options(9), 1e6, 0.5, 1e-9, settings={"options": 9, "items": 2}),
    Plan("vector mean", "duchi", 2.0, Interval(-1, 1), 1e6, 0.5, 1e-9, settings={"dimension": 3}),
    Plan(
        "key-value",
        "privkv",
        2.0,
        KeyedInterval(COLOURS, Interval(0, 5)),
        1e6,
        0.5,
        1e-9,
        settings={"keys": 3},
    ),
]


@pytest.mark.parametrize("plan", [PLAN, *OTHERS], ids=lambda plan: plan.mechanism_name)
def test_a_plan_survives_its_file(plan: Plan, tmp_path: Path) -> None:
    """What is saved is what is loaded, down to the mechanism."""
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert again.mechanism == plan.mechanism
    assert again.mechanism.local_epsilon == plan.epsilon_local


def test_the_mechanism_and_the_curve_are_those_of_the_package() -> None:
    """A plan adds nothing of its own to the mechanism or its privacy."""
    assert PLAN.mechanism == KRR(epsilon=4.0, options=3)
    assert OTHERS[0].mechanism == Laplace(epsilon=1.0, grid=64)
    direct = amplify(KRR(epsilon=4.0, options=3), 5000).epsilon(1e-8)
    assert PLAN.curve(5000).epsilon(1e-8).upper == direct.upper


def test_what_has_a_default_may_be_left_out() -> None:
    """A plan written by hand needs the target, the users, the task, the mechanism and the domain."""
    document = PLAN.document()
    for name in ("bound", "population", "rounds", "promise"):
        del document[name]
    plan = Plan.parse(json.dumps(document))
    assert (plan.bound, plan.population, plan.rounds, dict(plan.promise)) == ("best", "everyone", 1, {})


def test_an_infinite_local_epsilon_is_a_text() -> None:
    """Infinity is the text "inf", as everywhere in our JSON."""
    document = PLAN.document()
    document["mechanism"]["epsilon"] = "inf"
    with pytest.raises(ValueError, match=r"plan: KRR: epsilon .*inf"):
        Plan.parse(json.dumps(document))
    assert math.isinf(float(document["mechanism"]["epsilon"]))


def changed(**changes: Any) -> str:
    return json.dumps(PLAN.document() | changes)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "expected JSON"),
        ("[1]", "something else"),
        ("{}", "something else"),
        (changed(version=2), "version 1, got 2"),
        (changed(extra=1), "unknown field 'extra'"),
        (json.dumps({k: v for k, v in PLAN.document().items() if k != "users"}), "lacks the field 'users'"),
        (changed(users=0), "users must be at least 1"),
        (changed(users="many"), "users must be a whole number"),
        (changed(users=1.5), "users must be a whole number"),
        (changed(rounds=0), "rounds must be at least 1"),
        (changed(epsilon=0), "epsilon must be above 0"),
        (changed(delta=1), "delta must be between 0 and 1"),
        (changed(delta=math.nan), "NaN is not a number"),
        (changed(bound="bset"), "bound must be one of best"),
        (changed(population=""), "population must be a text"),
        (changed(task="mean"), "the task is 'mean', but krr is a mechanism for 'frequency'"),
        (changed(mechanism="krr"), "mechanism must be an object"),
        (changed(mechanism={"name": "krr", "epsilon": 1, "settings": {}}), "setting options is missing"),
        (changed(mechanism={"name": "krr", "epsilon": "1", "settings": {}}), "epsilon must be a number"),
        (changed(mechanism={"name": "kr", "epsilon": 1, "settings": {}}), "mechanism must be one of"),
        (changed(mechanism={"name": "krr", "epsilon": 1, "settings": {"options": 4}}), "domain has 3 options"),
        (changed(mechanism={"name": "krr", "epsilon": 1, "settings": [4]}), "settings must be an object"),
        (changed(domain={"low": 0, "high": 1}), "needs a domain of options, got numbers"),
        (changed(domain={"low": 1, "high": 1}), "low must be below high"),
        (changed(domain={"count": 1}), "count must be at least 2"),
        (changed(domain={"categories": "rgb"}), "categories must be a list"),
        (changed(domain={"categories": ["a", 1, "b"]}), "categories must be texts, got 1"),
        (changed(domain={"categories": ["a", "b", "a"]}), "'a' twice"),
        (changed(domain={"categories": ["a"]}), "at least 2"),
        (changed(domain={"options": 3}), "domain must have categories"),
        (changed(domain=3), "domain must have categories"),
        (changed(promise={"standard_error": "small"}), "standard_error"),
    ],
)
def test_what_is_not_a_plan_is_refused_with_a_sentence(text: str, part: str) -> None:
    """One sentence that begins with the word plan."""
    with pytest.raises((ValueError, TypeError)) as caught:
        Plan.parse(text)
    message = str(caught.value)
    assert message.startswith("plan: ")
    assert message.endswith(".")
    assert part in message


def test_a_file_that_cannot_be_read_or_written_is_a_sentence(tmp_path: Path) -> None:
    """Missing, not text, a directory."""
    with pytest.raises(ValueError, match=r"^plan: cannot read .*: No such file or directory\.$"):
        Plan.load(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"is not text\.$"):
        Plan.load(tmp_path / "bytes.json")
    with pytest.raises(ValueError, match=r"^plan: cannot write "):
        PLAN.save(tmp_path)
