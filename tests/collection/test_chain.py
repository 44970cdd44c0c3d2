"""A ledger that was edited, shortened, deleted, emptied, restored or replaced is noticed; damage is a sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from shuffledp.collection.collect import collect
from shuffledp.ledger import accounting
from shuffledp.ledger.collection_guarantee import Guarantee
from shuffledp.ledger.hash_chain import Head, LedgerError, chain_payloads
from shuffledp.ledger.ledger import Ledger
from shuffledp.ledger.rollback_guard import RollbackGuard, id_path
from shuffledp.ledger.storage import LedgerFile
from shuffledp.privacy.sampled_curve import SampledDeltas
from tests.collection import new_ledger, random_column
from tests.collection.test_ledger import DIGEST, USERS, alone

# Entries of a few plans.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

MUTATIONS = 1000


def used(path: Path) -> Ledger:
    """With two collections and a budget."""
    ledger = new_ledger(path)
    ledger.set_budget("test", 9.0, 1e-6)
    ledger.reserve("a", alone())
    ledger.settle("a", alone(), DIGEST)
    ledger.reserve("b", Guarantee(alone().plan, 2 * USERS))
    return ledger


def execute(path: Path, *statements: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def forge(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Write another history whose hashes are right."""
    rows = execute(path, "SELECT payload FROM event ORDER BY number")
    payloads = change([json.loads(text) for (text,) in rows])
    chain = list(chain_payloads("0" * 64, 0, payloads))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM event")
        connection.executemany("INSERT INTO event VALUES (?, ?, ?)", chain)
        connection.execute("UPDATE head SET number = ?, hash = ?", (chain[-1][0], chain[-1][2]))


# --- what the chain notices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET payload = replace(payload, '\"users\":1000', '\"users\":9000')",
        "UPDATE event SET payload = payload || ' ' WHERE number = 4",
        "UPDATE event SET hash = '00' || substr(hash, 3) WHERE number = 5",
        "UPDATE event SET number = number + 1 WHERE number = 7",
        "UPDATE event SET payload = CAST(payload AS BLOB) WHERE number = 2",
        "DELETE FROM event WHERE number = 3",
        "DELETE FROM event WHERE number = (SELECT max(number) FROM event)",
        "DELETE FROM event",
        "DELETE FROM head",
        "UPDATE head SET number = number - 1",
        "INSERT INTO head SELECT * FROM head",
        "INSERT INTO event SELECT number + 1, payload, hash FROM event WHERE number = 7",
        "DROP TABLE event",
        "DROP TABLE head",
        "ALTER TABLE event RENAME COLUMN payload TO load",
        "PRAGMA application_id = 1",
    ],
)
def test_an_edited_file_is_refused(tmp_path: Path, statement: str) -> None:
    """Even by who never saw it; and nothing is written to it any more."""
    original = used(tmp_path / "ledger.sqlite")
    ledger = Ledger(shutil.copy(original.path, tmp_path / "copy.sqlite"))
    assert ledger.head() == original.head()
    execute(ledger.path, statement)
    before = ledger.path.read_bytes()
    for use in (ledger.head, ledger.budget_statuses, lambda: ledger.reserve("c", alone()), ledger.accept):
        with pytest.raises(LedgerError, match=r"^ledger: .*\.$"):
            use()
    assert ledger.path.read_bytes() == before


def test_an_event_of_a_newer_version_is_a_sentence(tmp_path: Path) -> None:
    """And so is one that does not hold what it should."""
    ledger = used(tmp_path / "ledger.sqlite")
    RollbackGuard(ledger.path).path.unlink()
    forge(ledger.path, lambda events: [*events, {"kind": "merge", "time": "now"}])
    with pytest.raises(LedgerError, match="'merge', which this version does not know; use a newer one"):
        ledger.head()
    for broken in ({"kind": "settle", "time": "now"}, {"kind": "reserve", "time": "now", "id": "z"}):
        forge(ledger.path, lambda events, broken=broken: [*events[:7], broken])  # type: ignore[misc]
        with pytest.raises(LedgerError, match=r"entry 8 of .* is not what was written"):
            ledger.head()


# --- what is remembered -----------------------------------------------------------------------------------------------


def recreated(path: Path) -> None:
    path.unlink()
    Ledger.create(path).path.touch()


def restored(path: Path) -> None:
    shutil.copy(path.with_name("old.sqlite"), path)


def forged(path: Path) -> None:
    forge(path, lambda events: [event for event in events if event.get("id") != "a"])


def shortened(path: Path) -> None:
    forge(path, lambda events: events[:-1])


@pytest.mark.parametrize("change", [recreated, restored, forged, shortened])
def test_another_ledger_is_refused_until_it_is_accepted(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """The acceptance stays in the ledger, and every report tells it."""
    path = tmp_path / "ledger.sqlite"
    new_ledger(path)
    shutil.copy(path, tmp_path / "old.sqlite")
    path.unlink()
    RollbackGuard(path).path.unlink()
    before = used(path).head()
    change(path)
    ledger = Ledger(path)
    for use in (
        ledger.head,
        ledger.budget_statuses,
        lambda: ledger.register("x"),
        lambda: ledger.book(alone(), DIGEST),
    ):
        with pytest.raises(LedgerError, match=rf"not the ledger last seen there, of {before.entries} entries"):
            use()
    ledger.accept()
    ledger.register("test")
    report = collect(alone().plan, random_column("krr", USERS), out=tmp_path / "out", ledger=path, round_number=1)
    words = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "This ledger was replaced or restored on 20" in words
    assert "earlier collections may be missing" in words
    assert len(report.document()["ledger"]["accepted"]) == 1
    (accepted,) = [event for event in ledger._file.read_events() if event.kind == "accept"]
    assert Head.from_document("test", accepted.payload["last"]) == before
    with pytest.raises(LedgerError, match="nothing to accept"):
        ledger.accept()
    with pytest.raises(LedgerError):
        ledger.check_contains(before.to_document(), "report")


def test_a_deleted_ledger_is_missed(tmp_path: Path) -> None:
    """It is not just one that was never created; and an emptied one is not an empty one."""
    ledger = used(tmp_path / "ledger.sqlite")
    os.truncate(ledger.path, 0)
    with pytest.raises(LedgerError, match="emptied"):
        ledger.head()
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="though there was one with 7 entries: restore it; create it by"):
        ledger.head()


def test_what_is_remembered_follows_the_file_and_not_its_name(tmp_path: Path) -> None:
    """A link is the same ledger; what cannot be read is a sentence; without a witness the chain still counts."""
    ledger = used(tmp_path / "ledger.sqlite")
    (tmp_path / "link").symlink_to(ledger.path)
    assert RollbackGuard(tmp_path / "link").read_last_head() == ledger.head()
    witness = RollbackGuard(ledger.path)
    witness.path.write_text("{}")
    with pytest.raises(LedgerError, match=r"the last known head of .* cannot be read from .*ledger accept`\.$"):
        ledger.head()
    ledger.accept()
    assert Ledger(ledger.path).head() == witness.read_last_head()
    witness.path.unlink()
    assert ledger.head() == witness.read_last_head()


def test_a_machine_that_remembers_nothing_can_be_worked_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    ledger = used(tmp_path / "ledger.sqlite")
    assert len(ledger.budget_statuses("test")[0].entries) == 2


def copied(place: Path | str, name: str) -> Path | str:
    """A copy of the ledger as it is, at another place."""
    if isinstance(place, Path):
        return Path(shutil.copy(place, place.with_name(f"{name}.sqlite")))
    parts = urlsplit(place)
    other = parts._replace(path=f"{parts.path}_{name}").geturl()
    with psycopg.connect(parts._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {parts.path[1:]}_{name} TEMPLATE {parts.path[1:]}".encode())
    return other


def test_a_copy_that_was_left_behind_is_no_fresh_budget(place: Path | str) -> None:
    """Whatever its place is: the ledger is known by its id. A copy that is as far is the ledger itself."""
    new_ledger(place)
    ledger = Ledger(place)
    ledger.reserve("a", alone())
    behind = copied(place, "behind")
    ledger.reserve("b", alone())
    even = copied(place, "even")
    copy = Ledger(behind)
    for use in (
        copy.head,
        copy.budget_statuses,
        lambda: copy.reserve("c", alone()),
        lambda: copy.book(alone(), DIGEST),
    ):
        with pytest.raises(LedgerError, match=r"is a copy of a ledger that has gone on since, to 5 entries at .*; use"):
            use()
    assert Ledger(even).head() == ledger.head()
    assert [len(one.budget_statuses("test")[0].entries) for one in (Ledger(even), ledger)] == [2, 2]
    # From here on that is the ledger, and the one it was copied from is behind.
    Ledger(even).reserve("c", alone())
    with pytest.raises(LedgerError, match="has gone on since, to 6 entries at"):
        ledger.reserve("d", alone())
    copy.accept()
    copy.reserve("c", alone())
    assert len(copy.budget_statuses("test")[0].accepted_times) == 1
    for one in (ledger, Ledger(even)):
        with pytest.raises(LedgerError, match="has gone on since"):
            one.head()


def test_a_look_at_a_copy_does_not_put_it_ahead(tmp_path: Path) -> None:
    """Readers keep what they compute in the ledger: not in a copy, which would leave the ledger behind."""
    path = tmp_path / "ledger.sqlite"
    ledger = used(path)
    copy = Ledger(copied(path, "copy"))
    head = ledger.head()
    # At another bound: curves that nobody has computed yet.
    other = dataclasses.replace(alone().plan, bound="best")
    assert copy.warnings(other, ahead=True) == []
    assert copy.budget_statuses("test", 1e-7)[0].entries
    assert ledger.head() == copy.head() == head


def test_places_remembered_by_older_versions_count(tmp_path: Path) -> None:
    """They remembered the place only, which tells which ledger was there."""
    path = tmp_path / "ledger.sqlite"
    new_ledger(path)
    copy = Ledger(copied(path, "copy"))
    ledger = Ledger(path)
    ledger.reserve("a", alone())
    id_path(ledger.head().ledger).unlink()
    with pytest.raises(LedgerError, match="has gone on since, to 4 entries"):
        copy.head()
    assert ledger.head().entries == 4
    assert id_path(ledger.head().ledger).exists()


# --- what others quote ------------------------------------------------------------------------------------------------


def test_a_plan_is_collected_only_with_the_ledger_it_quotes(tmp_path: Path) -> None:
    """Also after that ledger has gone on; in any other, nothing is written."""
    ledger, other = used(tmp_path / "ledger.sqlite"), used(tmp_path / "other.sqlite")
    plan = dataclasses.replace(alone().plan, ledger=ledger.head().to_document())
    ledger.register("more")
    ledger.reserve("c", Guarantee(plan, USERS))
    before = other.head()
    for use in (lambda: other.reserve("c", Guarantee(plan, USERS)), lambda: other.book(Guarantee(plan, USERS), "ee")):
        with pytest.raises(LedgerError, match=r"^plan: expected the ledger .*… with the 7 entries that it had, but"):
            use()
    assert other.head() == before
    ledger.check_contains(plan.ledger, "collect")
    for wrong in ({}, {"id": "x", "entry": 1, "head": "y"}, None, plan.ledger | {"entry": True}):  # type: ignore[operator]
        with pytest.raises(ValueError, match=r"^collect: expected a ledger's"):
            ledger.check_contains(wrong, "collect")
    report = collect(plan, random_column("krr", USERS), out=tmp_path / "out", ledger=ledger.path, round_number=1)
    ledger.check_contains(report.document()["ledger"]["head"], "report")


# --- durability -------------------------------------------------------------------------------------------------------


def test_what_is_written_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new ledger's content before its name, and its name before it is used; SQLite itself waits for the disk."""
    calls: list[str] = []
    fsync, link = os.fsync, os.link

    def synced(descriptor: int) -> None:
        calls.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name.split('.unfinished')[0]}")
        fsync(descriptor)

    def linked(source: Any, target: Any) -> None:
        calls.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    first = calls.index("fsync ledger.sqlite")
    assert calls[first : first + 3] == ["fsync ledger.sqlite", "link", f"fsync {tmp_path.name}"]
    assert calls[first + 3].startswith("fsync ")  # what is remembered
    with ledger._file._writing() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


# --- damage -----------------------------------------------------------------------------------------------------------


def mutated(content: bytes, rng: random.Random) -> bytes:
    """One of the ways in which a file goes wrong."""
    place, size = rng.randrange(len(content)), rng.choice((1, 2, 8, 64))
    page = 4096
    first, second = (page * rng.randrange(len(content) // page) for _ in range(2))
    kind = rng.randrange(8)
    if kind in (0, 1):
        return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
    if kind == 2:
        return content[:place] + rng.randbytes(size) + content[place + size :]
    if kind == 3:
        return content[:place] + bytes(size) + content[place + size :]
    if kind == 4:
        return content[:place]
    if kind == 5:
        return content[:place] + content[place + size :]
    if kind == 6:
        return content[:first] + content[second : second + page] + content[first + page :]
    # The heads of the pages say how many rows there are and where.
    place = first + rng.randrange(16)
    return content[:place] + rng.randbytes(1) + content[place + 1 :]


@pytest.mark.exhaustive
def test_damage_is_a_sentence_or_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand mutations of a ledger that nobody has seen before: none is accepted with another meaning."""
    original = used(tmp_path / "original.sqlite")
    content = original.path.read_bytes()
    compose, of = accounting.composed_epsilon, SampledDeltas.from_curve
    answers: dict[Any, float] = {}
    dots: dict[int, SampledDeltas] = {}

    def composed(curves: Any, delta: float) -> float:
        question = delta, *(curve.samples.to_bytes() for curve in curves)
        if question not in answers:
            answers[question] = compose(curves, delta)
        return answers[question]

    def dots_of(curve: Any) -> SampledDeltas:
        if curve.users not in dots:
            dots[curve.users] = of(curve)
        return dots[curve.users]

    monkeypatch.setattr(accounting, "composed_epsilon", composed)
    monkeypatch.setattr(SampledDeltas, "from_curve", dots_of)
    monkeypatch.setattr(RollbackGuard, "record_head", lambda *_: None)
    wanted = original.head(), original.budget_statuses("test", 1e-6)
    rng, outcomes = random.Random(15), {"sentence": 0, "same": 0}
    path = tmp_path / "ledger.sqlite"
    for number in range(MUTATIONS):
        changed = mutated(content, rng)
        path.write_bytes(changed)
        try:
            ledger = Ledger(path)
            found = ledger.head(), ledger.budget_statuses("test", 1e-6)
        except LedgerError as error:
            outcomes["sentence"] += str(error).startswith("ledger: ") and str(error).endswith(".")
        else:
            assert found == wanted, f"mutation {number}"
            outcomes["same"] += 1
    assert sum(outcomes.values()) == MUTATIONS
    assert min(outcomes.values()) > MUTATIONS / 10, outcomes


def test_a_failed_write_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All events of a booking or none."""
    ledger = used(tmp_path / "ledger.sqlite")
    before = ledger.head()
    monkeypatch.setattr("shuffledp.ledger.storage._append_to_file", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ledger.book(alone(), "ee")
    assert LedgerFile(ledger.path).read_events()[-1].hash == before.hash


def test_a_record_that_another_process_writes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger was recorded for the first time after its records were looked for: no error, and nothing is lost."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    ledger.reserve("a", alone())
    recorded = id_path(ledger.head().ledger)
    before = recorded.read_bytes()
    monkeypatch.setattr(RollbackGuard, "find_records", lambda guard, ledger: [])
    assert Ledger(ledger.path).head().entries == json.loads(before)["last"]["entry"]
    assert recorded.read_bytes() == before
    recorded.unlink()
    Ledger(ledger.path).head()
    assert recorded.read_bytes() == before


def test_a_copy_that_is_recorded_meanwhile_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ledgers that parted are looked at for the first time at once: the longer one does not hide the other."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    recorded, first = id_path(ledger.head().ledger), ledger.head()
    ledger.reserve("a", alone())
    other = dataclasses.replace(first, hash="0" * 64)
    RollbackGuard(tmp_path / "copy.sqlite").record_head(other)
    before = recorded.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(RollbackGuard, "find_records", lambda guard, ledger: [])
        Ledger(ledger.path).head()
    assert recorded.read_bytes() == before
    with pytest.raises(LedgerError, match="is a copy of a ledger that has gone on"):
        Ledger(ledger.path).head()
