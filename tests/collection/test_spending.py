"""What the ledger keeps of curves: the same answers in little time, never under the lock, and never on trust."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shuffledp.ledger import accounting
from shuffledp.ledger.accounting import build_ledger_state
from shuffledp.ledger.collection_guarantee import CurveInputs, Guarantee, composed_epsilon, compute_entry_curve
from shuffledp.ledger.hash_chain import chain_payloads, verify_events
from shuffledp.ledger.ledger import Ledger
from shuffledp.privacy.sampled_curve import SampledDeltas, fingerprint
from tests.collection import new_ledger, small_plan
from tests.collection.test_ledger import DIGEST, alone

FEW = 6


def mixed(count: int) -> list[Guarantee]:
    """Different mechanisms and numbers of users, by bounds that cost little."""
    bounds = ("efmrtt19", "clone-analytic", "analytic")
    return [
        Guarantee(
            small_plan("krr", epsilon_local=0.3 + 0.001 * (k % 100), bound=bounds[k % 3], delta=1e-8), 5000 + 7 * k
        )
        for k in range(count)
    ]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a budget, so that every reservation is added up."""
    found = new_ledger(tmp_path_factory.mktemp("original") / "ledger.sqlite")
    found.set_budget("test", 1000.0, 1e-8)
    for number, guarantee in enumerate(mixed(FEW)):
        found.reserve(str(number), guarantee)
    return found.path


@pytest.fixture
def ledger(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A copy, at a place where nobody has seen it."""
    # A machine of its own, which has not seen the copies of other tests go on.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Ledger(shutil.copy(original, tmp_path / "ledger.sqlite"))


@contextlib.contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The curves that are computed meanwhile."""
    seen: list[Any] = []
    of = SampledDeltas.from_curve.__func__  # type: ignore[attr-defined]

    def slow(cls: type[SampledDeltas], curve: Any) -> SampledDeltas:
        seen.append(curve)
        return of(cls, curve)  # type: ignore[no-any-return]

    with monkeypatch.context() as patched:
        patched.setattr(SampledDeltas, "from_curve", classmethod(slow))
        yield seen


def tampered(path: Path, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def rows_of(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT number, payload, hash FROM event").fetchall()


def test_a_kept_answer_is_the_computed_one_to_the_last_bit(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file, and from nothing."""
    with counted(monkeypatch) as seen:
        (kept,) = Ledger(ledger.path).budget_statuses("test")
    assert seen == []
    recipes = [entry.recipe for entry in kept.entries]
    with counted(monkeypatch) as seen:
        fresh = accounting.PrivacyAccountant(lambda keys: {}).epsilon(recipes, 1e-8, {})
    assert len(seen) == FEW
    assert kept.epsilon == fresh
    exact = composed_epsilon([guarantee.curve for guarantee in mixed(FEW)], 1e-8)
    assert kept.epsilon == pytest.approx(exact, rel=1.5e-4)


@pytest.mark.parametrize("change", ["bytes", "other", "gone", "short", "text"])
def test_an_edited_curve_is_computed_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Whatever stands in the file, only what the chain vouches for is believed."""
    before = ledger.budget_statuses("test")[0].epsilon
    key = accounting.curve_key(mixed(1)[0].curve_inputs)
    (content,) = Ledger(ledger.path)._file.read_curves([key]).values()
    other = SampledDeltas.from_bytes(content)
    better = dataclasses.replace(other, upper=other.upper / 2)
    value = {"bytes": bytes([content[0] ^ 1]) + content[1:], "other": better.to_bytes(), "short": content[:-8],
             "text": "dots"}  # fmt: skip
    if change == "gone":
        tampered(ledger.path, "DELETE FROM curve WHERE key = ?", key)
    else:
        tampered(ledger.path, "UPDATE curve SET content = ? WHERE key = ?", value[change], key)
    reader = Ledger(ledger.path)
    with counted(monkeypatch) as seen:
        assert reader.budget_statuses("test")[0].epsilon == before
    assert len(seen) == 1
    reader.register("others")  # whatever is written next mends it
    with counted(monkeypatch) as seen:
        assert Ledger(ledger.path).budget_statuses("test")[0].epsilon == before
    assert seen == []


def test_another_version_computes_anew(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in one version's numbers does not outlive it."""
    monkeypatch.setattr(accounting, "__version__", "0.0.0")
    with counted(monkeypatch) as seen:
        Ledger(ledger.path).budget_statuses("test")
    assert len(seen) == FEW


def test_a_reader_without_a_budget_leaves_what_it_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report's standing is computed before its collection is settled: that keeps the curves."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    for number, guarantee in enumerate(mixed(3)):
        with counted(monkeypatch) as seen:
            ledger = Ledger(ledger.path)
            ledger.reserve(str(number), guarantee)
            ledger.budget_statuses("test", 1e-8)
            ledger.settle(str(number), guarantee, DIGEST)
        # The first alone needs none.
        assert len(seen) == (0, 2, 1)[number]
    with counted(monkeypatch) as seen:
        Ledger(ledger.path).budget_statuses("test", 1e-8)
    assert seen == []


def test_rounds_of_one_plan_fit_the_budget_they_were_planned_for(tmp_path: Path) -> None:
    """To the last digit: all alike are composed as the planner does."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    one = Guarantee(small_plan("krr", epsilon_local=0.5, bound="analytic"), 5000)
    ledger.set_budget("test", composed_epsilon([one.curve] * 4, 1e-6), 1e-6)
    for number in range(4):
        ledger.reserve(str(number), one)
    assert ledger.budget_statuses("test")[0].remaining == 0.0


def test_nobody_waits_while_another_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run reserves while this one adds up; this one notices and adds up again."""
    path = tmp_path / "ledger.sqlite"
    ledger, asked = new_ledger(path), []
    ledger.set_budget("test", composed_epsilon([alone().curve] * 2, 1e-6), 1e-6)
    monkeypatch.setattr("shuffledp.ledger.storage.SQLITE_WAIT_SECONDS", 0.0)
    compose = accounting.composed_epsilon

    def slow(curves: Any, delta: float) -> float:
        asked.append(len(curves))
        if len(asked) == 1:
            Ledger(path).reserve("other", alone())
            Ledger(path).register("somebody")
        return compose(curves, delta)

    monkeypatch.setattr(accounting, "composed_epsilon", slow)
    ledger.reserve("mine", alone())
    # Mine alone; the other alone; mine after the other. What "somebody" gives is not asked again.
    assert asked == [1, 1, 2]
    assert [entry.id for entry in ledger.budget_statuses("test")[0].entries] == ["other", "mine"]


def test_a_look_at_two_hundred_entries_is_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under five seconds of processor time, with a smooth curve of hundreds of dots for each; none is computed."""
    path = tmp_path / "ledger.sqlite"
    ledger = new_ledger(path)
    smooth = SampledDeltas.from_curve(compute_entry_curve(CurveInputs.from_plan(small_plan("krr"), 5000)))
    assert len(smooth.indices) > 250
    ledger.reserve("first", alone())
    payload = json.loads(rows_of(path)[-1][1])
    payloads, contents = [], {}
    for number in range(200):
        recipe = dataclasses.replace(alone().curve_inputs, users=5000 + number)
        dots = dataclasses.replace(smooth, upper=smooth.upper * (1 - number / 1e4))
        key, content = accounting.curve_key(recipe), dots.to_bytes()
        told = {"id": str(number), "recipe": recipe.to_document(), "curves": {key: fingerprint(content)}}
        payloads.append(payload | told)
        contents[key] = content
    assert ledger._file.append_events(ledger.head(), payloads, contents)
    ledger.give_back("first")
    with counted(monkeypatch) as seen:
        began = time.process_time()
        (standing,) = Ledger(path).budget_statuses("test")
        assert time.process_time() - began < 5.0
    assert seen == []
    assert len(standing.entries) == 200
    assert 0 < standing.epsilon < 50


def test_thousands_of_entries_are_proved_quickly(tmp_path: Path) -> None:
    """Less than a millisecond each."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    ledger.reserve("a", alone())
    rows = rows_of(ledger.path)
    payload = json.loads(rows[-1][1])
    more = [payload | {"id": str(number)} for number in range(3000)]
    rows += list(chain_payloads(rows[-1][2], rows[-1][0], more))
    began = time.process_time()
    account = build_ledger_state("here", verify_events("here", rows))
    assert time.process_time() - began < 3.0
    assert len(account.entries) == 3001
