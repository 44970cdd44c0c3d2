"""What was planned for few users, of whom some collude, is what a collection promises, books and reports."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pytest

from shuffledp import KRR, amplify, collection, verify
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.collection.collect import collect
from shuffledp.ledger.collection_guarantee import CurveInputs, Guarantee
from shuffledp.planning.plan import Plan
from shuffledp.privacy.group_privacy import group
from shuffledp.tasks import Frequency
from tests.cli import run
from tests.collection import new_ledger

pytestmark = pytest.mark.usefixtures("no_pictures")

COLOURS = ["red", "green", "blue"]
CAREFUL = Plan(
    Frequency(COLOURS), KRR(2.0, 3), users=1000, epsilon=0.65, delta=1e-6, population="test", minimum=600, colluding=100
)


def rows(number: int) -> pa.Array:
    return pa.array((COLOURS * number)[:number])


def epsilon_of(users: int, colluding: int) -> float:
    return amplify(CAREFUL.mechanism, users, colluding=colluding, effort="quick").epsilon(1e-6).upper


def test_the_plan_of_these_tests_is_tight() -> None:
    """Met at the minimum with its colluding users, missed below it."""
    assert epsilon_of(600, 100) <= 0.65 < epsilon_of(400, 100)
    assert epsilon_of(400, 0) < 0.65


def test_colluding_users_hide_nobody(tmp_path: Path) -> None:
    """In the guarantee, the report in words and JSON, the ledger and the certificate."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    out = tmp_path / "out"
    report = collect(CAREFUL, rows(700), out=out, ledger=ledger.path)
    assert report.guarantee.value.upper == epsilon_of(700, 100) > epsilon_of(700, 0)
    document = json.loads((out / "report.json").read_text("utf-8"))
    assert (document["users"], document["guarantee"]["colluding"]) == (700, 100)
    assert document["guarantee"]["target"] == {"epsilon": 0.65, "delta": 1e-6, "users": 1000, "minimum": 600}
    assert (document["plan"]["minimum"], document["plan"]["colluding"]) == (600, 100)
    assert "It holds even if 100 of the users reveal their messages." in document["statement"]
    assert "The plan meets its target with 600 or more users." in document["statement"]
    words = (out / "report.md").read_text("utf-8")
    for line in ("| 700 of 1,000 planned, 600 at the least |", "| colluding | 100 users, who hide nobody |"):
        assert line in words
    told = dict(report.summary())
    assert (told["users"], told["colluding"]) == (
        "700 of 1,000 planned, 600 at the least",
        "100 users, who hide nobody",
    )
    (standing,) = ledger.budget_statuses("test", 1e-6)
    (entry,) = standing.entries
    assert (entry.recipe.users, entry.recipe.colluding, entry.minimum) == (700, 100, 600)
    assert (entry.document()["colluding"], entry.document()["minimum"]) == (100, 600)
    assert standing.epsilon == report.guarantee.value.upper
    shown = run("ledger", "show", "--ledger", str(ledger.path)).out
    assert "700 (100 colluding)" in " ".join(shown.split())
    checked = verify(out / "certificate.json")
    assert checked.verdict.value == "yes"
    assert json.loads((out / "certificate.json").read_text("utf-8"))["users"] == 600


@pytest.mark.exhaustive
def test_fewer_than_the_minimum_are_too_weak(tmp_path: Path) -> None:
    """Though without colluding users as many would do; the sentence names both, and nothing is released."""
    with pytest.raises(GuaranteeTooWeak) as caught:
        collect(CAREFUL, rows(400), out=tmp_path / "out")
    assert str(caught.value).startswith(
        "collect: 400 users took part, 100 of them colluding, where 1000 were planned, at least 600, which gives ε = "
    )
    assert "above the target 0.65; nothing was released" in str(caught.value)
    assert not (tmp_path / "out").exists()
    report = collect(CAREFUL, rows(400), out=tmp_path / "out", allow_weaker=True)
    assert report.guarantee.value.upper == epsilon_of(400, 100)


def test_nobody_is_left(tmp_path: Path) -> None:
    """As many colluding as there are users: one sentence, whatever is allowed."""
    sentence = r"^collect: 100 users took part, and the plan assumes that 100 users collude, .* nothing was released\.$"
    with pytest.raises(GuaranteeTooWeak, match=sentence):
        collect(CAREFUL, rows(100), out=tmp_path / "out", allow_weaker=True)
    assert not (tmp_path / "out").exists()


def test_a_mechanism_that_refuses_few_users_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is encoded."""

    def hiding(self: KRR, users: int) -> int:
        if users < 500:
            raise ValueError(f"KRR: expected at least 500 honest users, got {users}.")
        return users

    monkeypatch.setattr(KRR, "hiding_messages", hiding)
    with pytest.raises(ValueError, match=r"^KRR: expected at least 500 honest users, got 450\.$"):
        collect(CAREFUL, rows(550), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_whoever_colludes_does_so_with_all_their_rows() -> None:
    """Two rows a person: twice as many rows hide nobody."""
    held = Guarantee(CAREFUL, users=1200, per_person=2)
    expected = group(amplify(CAREFUL.mechanism, 1200, colluding=200, effort="quick"), 2).epsilon(1e-6).upper
    assert held.curve_inputs.colluding == 200
    assert held.value.upper == expected


@pytest.mark.exhaustive
def test_roles_apart_promise_the_same(tmp_path: Path) -> None:
    """Shuffler and estimator take the colluding users off, each with the plan alone."""
    plain = dataclasses.replace(CAREFUL, minimum=None, colluding=0)
    data, messages = rows(400), tmp_path / "mine.messages"
    collection.encode(plain, data, out=messages)
    with pytest.raises(GuaranteeTooWeak, match="100 of them colluding"):
        collection.shuffle([messages], out=tmp_path / "shuffled", plan=CAREFUL)
    collection.shuffle([messages], out=tmp_path / "shuffled", plan=CAREFUL, allow_weaker=True)
    with pytest.raises(GuaranteeTooWeak, match="100 of them colluding"):
        collection.estimate(CAREFUL, tmp_path / "shuffled", out=tmp_path / "out")
    report = collection.estimate(plain, tmp_path / "shuffled", out=tmp_path / "out")
    assert report.guarantee.value.upper == epsilon_of(400, 0)


def test_recipes_without_colluding_users_are_as_ever() -> None:
    """What is written for them finds the curves that are stored."""
    plain = dataclasses.replace(CAREFUL, colluding=0)
    document = CurveInputs.from_plan(plain, 700).to_document()
    assert document.keys() == {"mechanism", "users", "bound", "per_person"}
    assert CurveInputs.from_document(document) == CurveInputs.from_plan(plain, 700)
    careful = CurveInputs.from_plan(CAREFUL, 700)
    assert CurveInputs.from_document(careful.to_document()) == careful != CurveInputs.from_plan(plain, 700)
