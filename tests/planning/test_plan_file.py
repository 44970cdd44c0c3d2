"""The plan file: written, read back, and refused with a sentence where it is not a plan."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from shuffledp import (
    KRR,
    OUE,
    PIRAPPOR,
    Compressed,
    Duchi,
    Harmony,
    Laplace,
    Piecewise,
    PlanarLaplace,
    PrivKV,
    PrivSet,
    PureDUMP,
    RangeQueries,
    Subset,
)
from shuffledp._core import __version__
from shuffledp.mechanisms import catalogue
from shuffledp.planning.plan import Plan
from shuffledp.tasks import Frequency, ItemSets, KeyValue, Location, Mean, Ranges, UnitVectorMean, VectorMean

COLOURS = ("red", "green", "blue")
PLAN = Plan(
    Frequency(COLOURS),
    KRR(epsilon=4.0, options=3),
    users=100_000,
    epsilon=1.0,
    delta=1e-8,
    population="visitors",
    promise={"standard_error": 12.5},
)
OTHERS = [
    Plan(Mean(-20, 40.5), Laplace(1.0, grid=64), 1e4, 0.5, 1e-6),
    Plan(Frequency(COLOURS), PureDUMP(3, 9), 1e4, 0.5, 1e-6),
    Plan(Mean(0, 1), Piecewise(1.0), 1e4, 0.5, 1e-6, bound="optimal", rounds=12),
    Plan(Mean(0, 1), Harmony(1.0, 1), 1e4, 0.5, 1e-6),
    Plan(Frequency(128), OUE(2.0, 128), 1e6, 0.5, 1e-9),
    Plan(Frequency(30), Subset(2.0, 30), 1e6, 0.5, 1e-9),
    Plan(Frequency(100), PIRAPPOR(3.0, 100), 1e6, 0.5, 1e-9),
    Plan(Frequency(300), Compressed(OUE(1.0, 300)), 1e6, 0.5, 1e-9),
    Plan(ItemSets(9, 2), PrivSet(2.0, 9, 2), 1e6, 0.5, 1e-9),
    Plan(VectorMean(3, -1, 1), Duchi(2.0, 3), 1e6, 0.5, 1e-9),
    Plan(UnitVectorMean(3), Duchi(2.0, 3), 1e6, 0.5, 1e-9),
    Plan(KeyValue(COLOURS, 0, 5, items=1), PrivKV(2.0, 3), 1e6, 0.5, 1e-9),
    Plan(Location(0, 1, 0, 1, 3), PlanarLaplace(1.0, columns=3), 1e6, 0.5, 1e-9),
    Plan(Ranges(13), RangeQueries(1.0, 4), 1e6, 0.5, 1e-9),
]


@pytest.mark.parametrize("plan", [PLAN, *OTHERS], ids=lambda plan: f"{plan.task.name} {plan.mechanism.name}")
def test_a_plan_survives_its_file(plan: Plan, tmp_path: Path) -> None:
    """What is saved is what is loaded: the users' task, down to its parameters, and the mechanism."""
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert hash(again) == hash(plan)
    assert again.task == plan.task
    assert type(again.task) is type(plan.task)
    assert again.mechanism.to_document() == plan.mechanism.to_document()
    assert again.mechanism.local_epsilon == plan.mechanism.local_epsilon
    assert again.software == plan.software == {"shuffledp": __version__}


def test_the_mechanism_is_that_of_the_package() -> None:
    """A plan adds nothing of its own to the mechanism."""
    assert Plan.parse(PLAN.text()).mechanism == KRR(epsilon=4.0, options=3)
    assert Plan.parse(OTHERS[0].text()).mechanism == Laplace(epsilon=1.0, grid=64)


def test_a_mean_stays_a_mean() -> None:
    """Whatever task the mechanism says it has."""
    plan = Plan(Mean(0, 10), Harmony(1.0, 1), 1e4, 0.5, 1e-6)
    assert plan.document()["task"] == {"name": "mean", "domain": {"low": 0.0, "high": 10.0}}
    with pytest.raises(ValueError, match=r"harmony has dimension = 3, but the task has dimension = 1\.$"):
        Plan(Mean(0, 10), Harmony(1.0, 3), 1e4, 0.5, 1e-6)


def test_a_plan_runs_with_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written before a default changes, loaded after: the mechanism is the one that was planned."""
    text = Plan(Mean(0, 1), Laplace(1.0), 1e4, 0.5, 1e-6).text()
    before = Laplace(1.0).grid
    fields = Laplace.__init__.__defaults__
    assert fields is not None
    monkeypatch.setattr(Laplace.__init__, "__defaults__", (*fields[:-1], before * 2))
    assert Laplace(1.0).grid == before * 2
    assert Plan.parse(text).mechanism == Laplace(1.0, grid=before)


def test_whole_numbers_stay_whole() -> None:
    """Beyond where floats are exact, no digit is lost."""
    prime = 9007199254740993  # 2^53 + 1, which is no float
    document = {"name": "pi-rappor", "epsilon": 1.0, "settings": {"options": 5, "prime": prime}}
    with pytest.raises(ValueError, match=str(prime)):
        catalogue.from_document(document)


def test_a_plan_is_read_by_people() -> None:
    """Printed in a few lines; in a notebook as a table in which no name is taken for a tag."""
    assert str(PLAN).splitlines() == [
        "Plan: frequency",
        "  users           100,000 (visitors)",
        "  target          ε = 1, δ = 1e-8",
        "  mechanism       krr (options = 3)",
        "  local ε         4",
        "  sends           2 bits a user",
        "  expected error  12.5 users",
    ]
    named = Plan(Frequency(2), KRR(1.0, 2), 10, 1.0, 1e-6, population="<b>")
    assert "&lt;b&gt;" in named._repr_html_()
    assert "<b>" not in named._repr_html_()


# --- by hand, and bad ---------------------------------------------------------------------------------------------


def test_what_has_a_default_may_be_left_out() -> None:
    """A plan written by hand needs the target, the users, the task, the mechanism and the domain."""
    document = PLAN.document()
    for name in ("bound", "population", "rounds", "promise", "software"):
        del document[name]
    plan = Plan.parse(json.dumps(document))
    assert (plan.bound, plan.population, plan.rounds, dict(plan.promise)) == ("best", "everyone", 1, {})
    assert plan.software == {}


def test_an_infinite_local_epsilon_is_a_text() -> None:
    """Infinity is the text "inf", as everywhere in our JSON."""
    document = PLAN.document()
    document["mechanism"]["epsilon"] = "inf"
    with pytest.raises(ValueError, match=r"plan: KRR: epsilon .*inf"):
        Plan.parse(json.dumps(document))
    assert math.isinf(float(document["mechanism"]["epsilon"]))


def changed(**changes: Any) -> str:
    return json.dumps(PLAN.document() | changes)


def about(domain: Any, **changes: Any) -> str:
    """The plan with another domain."""
    return changed(task=PLAN.task.to_document() | {"domain": domain} | changes)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "expected JSON"),
        ("[1]", "something else"),
        ("{}", "something else"),
        (changed(version=1), "expected version 2, got 1."),
        (changed(version=3), "expected version 2, got 3; upgrade shuffledp, which is "),
        (changed(version=[2]), "expected version 2, got [2]."),
        (changed(version=True), "expected version 2, got True."),
        (changed(extra=1), "unknown field 'extra'"),
        (json.dumps({k: v for k, v in PLAN.document().items() if k != "users"}), "lacks the field 'users'"),
        (changed(users=0), "users must be at least 1"),
        (changed(users="many"), "users must be a whole number"),
        (changed(users=1.5), "users must be a whole number"),
        (changed(rounds=0), "rounds must be at least 1"),
        (changed(epsilon=0), "epsilon must be above 0"),
        (changed(delta=1), "delta must be between 0 and 1"),
        (changed(delta=math.nan), "expected JSON, got: NaN, which is not a number"),
        (changed(bound="bset"), "bound must be one of best"),
        (changed(population=""), "population must be a text"),
        (about({"low": 0, "high": 1}, name="mean"), "the task is 'mean', but krr is a mechanism for 'frequency'"),
        (changed(task="frequency"), "task must be an object"),
        (changed(task={}), "the task lacks the field 'name'"),
        (changed(task={"name": "frequency"}), "the task lacks the field 'domain'"),
        (about({"count": 3}, items=2), "the task has the unknown field 'items'"),
        (about({"count": 3}, name="guess"), "expected a plan for frequency, mean"),
        (about({"low": 0, "high": 1}, name="vector mean", dimension=2, shape="ring"), "shape must be 'box' or 'ball'"),
        (about({"low": 0, "high": 1}, name="vector mean", dimension=2, shape="ball"), "coordinates from -1 to 1"),
        (changed(mechanism={"name": "krr", "epsilon": 1, "settings": {"options": "many"}}), "options must be a number"),
        (changed(mechanism="krr"), "mechanism must be an object"),
        (changed(mechanism={"name": "krr", "epsilon": 1, "settings": {}}), "setting options is missing"),
        (changed(mechanism={"name": "krr", "epsilon": "1", "settings": {}}), "epsilon must be a number"),
        (changed(mechanism={"name": "kr", "epsilon": 1, "settings": {}}), "mechanism must be one of"),
        (changed(mechanism={"name": "krr", "epsilon": 1, "settings": {"options": 4}}), "domain has 3 options"),
        (changed(mechanism={"name": "krr", "epsilon": 1, "settings": [4]}), "settings must be an object"),
        (about({"low": 0, "high": 1}), "needs a domain of options, got numbers"),
        (about({"low": 1, "high": 1}), "low must be below high"),
        (about({"count": 1}), "count must be at least 2"),
        (about({"categories": "rgb"}), "categories must be a list"),
        (about({"categories": ["a", 1, "b"]}), "categories must be texts, got 1"),
        (about({"categories": ["a", "b", "a"]}), "'a' twice"),
        (about({"categories": ["a"]}), "at least 2"),
        (about({"options": 3}), "domain must have categories"),
        (about(3), "domain must have categories"),
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


def test_a_plan_may_quote_a_ledger() -> None:
    """It is written and read again, and changes neither the plan nor its messages; anything else is a sentence."""
    head = {"id": "ab" * 16, "entry": 3, "head": "cd" * 32}
    quoting = dataclasses.replace(PLAN, ledger=head)
    assert Plan.parse(quoting.text()).ledger == head
    assert (quoting, quoting.identity()) == (PLAN, PLAN.identity())
    assert "ledger" not in PLAN.document()
    for wrong in ({"id": "x"}, head | {"entry": True}, head | {"more": 1}, head | {"head": None}):
        with pytest.raises(ValueError, match="plan: ledger must have"):
            Plan.parse(json.dumps(PLAN.document() | {"ledger": wrong}))
    with pytest.raises(ValueError, match="plan: ledger must be an object"):
        Plan.parse(json.dumps(PLAN.document() | {"ledger": "x"}))


def test_the_old_name_of_the_participation_is_deprecated() -> None:
    """It still works, with a warning that names the new one."""
    with pytest.warns(DeprecationWarning, match=r"^Plan\.schedule is now called Plan\.participation\.$"):
        assert PLAN.schedule == PLAN.participation
