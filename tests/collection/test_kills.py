"""Killed before every step, a role is done again from where it stands: nothing is half, and nothing is spent twice."""

from __future__ import annotations

import errno
import fcntl
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shuffledp import collection
from shuffledp.collection import batch_processing, engine
from shuffledp.collection.collect import CollectionRequest, collect
from shuffledp.collection.engine import EngineError
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.tables import open_input
from shuffledp.ledger.ledger import Ledger
from shuffledp.planning.plan import Plan
from shuffledp.tasks.counts_and_frequencies import Frequency
from tests.collection import (
    expected_messages,
    list_paths,
    new_ledger,
    random_column,
    read_encoded_file,
    read_messages,
    small_plan,
    sort_messages,
    write_table,
)
from tests.collection.kill_points import CHUNK_ROWS, PART_CHUNKS, collect_request, run_and_kill_after, run_and_kill_at

# Hundreds of collections by one plan have one guarantee.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

ROWS = 1000
PLAN = small_plan("krr", users=ROWS, epsilon_local=0.5, bound="efmrtt19")


def encoding(directory: Path) -> None:
    collection.encode(PLAN, directory / "data.parquet", "value", out=directory / "ours.messages")


def shuffling(directory: Path) -> None:
    out, ledger = directory / "shuffled", directory / "ledger.sqlite"
    collection.shuffle([directory / "ours.messages"], out=out, plan=PLAN, ledger=ledger)


def estimating(directory: Path) -> None:
    out, ledger = directory / "result", directory / "ledger.sqlite"
    collection.estimate(PLAN, directory / "shuffled", out=out, ledger=ledger)


ROLES: dict[str, tuple[Callable[[Path], None], str]] = {
    "encode": (encoding, "ours.messages"),
    "shuffle": (shuffling, "shuffled"),
    "estimate": (estimating, "result"),
}


@pytest.mark.crash
@pytest.mark.parametrize("role", ROLES)
def test_a_role_killed_before_every_step(role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL before each change of a name and each look into the ledger; then the role is run again."""
    step, finished = 0, False
    work, output = ROLES[role]
    template = tmp_path / "template"
    template.mkdir()
    write_table(template / "data.parquet", value=random_column("krr", ROWS))
    new_ledger(template / "ledger.sqlite")
    for before, _ in ROLES.values():
        if before is work:
            break
        before(template)
    while not finished:
        step += 1
        directory = tmp_path / f"step{step}"
        # A machine of its own: one that saw the ledger go on takes the copy of before for what it is.
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"state{step}"))
        shutil.copytree(template, directory)
        ledger = Ledger(directory / "ledger.sqlite")
        finished = run_and_kill_at(step, directory, work, directory)
        whole = (directory / output).exists()
        if not whole:
            work(directory)
        else:
            with pytest.raises(ValueError, match=r"exists already|new or empty directory"):
                work(directory)
        assert_right(role, directory, ledger)
    assert step > {"encode": 3, "shuffle": 6, "estimate": 8}[role], step


def assert_right(role: str, directory: Path, ledger: Ledger) -> None:
    mine = read_encoded_file(directory / "ours.messages")
    assert len(mine) == ROWS
    booked = [entry.state for standing in ledger.budget_statuses() for entry in standing.entries]
    if role == "encode":
        assert booked == []
    else:
        assert read_messages(directory / "shuffled", 1) == sorted(mine)
        assert booked == ["released"]
    left = [name for name in list_paths(directory) if "unfinished" in name]
    assert len(left) <= 1, left
    for name in left:
        # Killed between its two names: the same file.
        assert (directory / name).samefile(directory / "ours.messages")


COLLECTIONS, KILLS_EACH, KILLS = 3, 25, 60


@pytest.mark.crash
def test_killed_again_and_again_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three collections, or more until 60 were killed by the clock: each is killed up to 25 times, goes on until it is
    done, and has the messages of its first key.

    Kills before every step are elsewhere; these are for moments between steps, of which nobody thought.
    """
    monkeypatch.setattr(batch_processing, "CHUNK_ROWS", CHUNK_ROWS)
    monkeypatch.setattr(engine, "CHUNKS_PER_PART", PART_CHUNKS)
    generator, kills, number = random.Random(4), 0, 0
    whole = 0.0
    for name in ("first", "second"):
        # The first one also starts what the others are forked from.
        request, start = (
            CollectionRequest(PLAN, open_input(random_column("krr", ROWS)), ("value",), tmp_path / name),
            time.monotonic(),
        )
        assert run_and_kill_after(100.0, collect_request, request)
        whole = time.monotonic() - start
    while number < COLLECTIONS or kills < KILLS:
        number += 1
        directory = tmp_path / f"run{number}"
        directory.mkdir()
        path = write_table(directory / "data.parquet", value=random_column("krr", ROWS))
        ledger = new_ledger(directory / "ledger.sqlite")
        request = CollectionRequest(PLAN, FileTable(path), ("value",), directory / "out", ledger.path, resume=True)
        keys, finished, killed = set[bytes](), False, 0
        while not finished and killed < KILLS_EACH:
            finished = run_and_kill_after(generator.uniform(0, whole), collect_request, request)
            killed += not finished
            key = directory / "out" / "work" / "key"
            if key.exists() and any(key.read_bytes()):
                keys.add(key.read_bytes())
            finished = finished or (directory / "out" / "report.json").exists()
        kills += killed
        if killed == 0:
            # The machine became faster since it was measured: moments within what it takes now.
            whole /= 2
        assert len(keys) <= 1
        if not (directory / "out" / "report.json").exists() or (directory / "out" / "work" / "job.json").exists():
            collect_request(request)
        found = read_messages(directory / "out" / "messages", 1)
        for known in keys:
            values = PLAN.column("value").read_values(random_column("krr", ROWS))
            wanted = expected_messages(PLAN.mechanism, values, known, CHUNK_ROWS * PART_CHUNKS)
            assert found == sort_messages(wanted)
        assert len(found) == ROWS
        (standing,) = ledger.budget_statuses("test")
        assert [entry.state for entry in standing.entries] == ["released"]


# --- what fails late ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("shuffledp.collection.report.write_estimates", ValueError("estimates: cannot be written.")),
        ("shuffledp.collection.report.Report.markdown", TypeError("report: no words.")),
        ("shuffledp.ledger.ledger.Ledger.settle", sqlite3.OperationalError("database is locked")),
        ("shuffledp.collection.resumable_job.Job.publish", OSError(errno.ENOSPC, "No space left on device")),
        ("shuffledp.collection.engine.EmbeddedEngine.shuffle", MemoryError()),
    ],
)
def test_what_fails_late_keeps_what_is_done(
    place: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same messages come out when it goes on."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    path, out = write_table(tmp_path / "data.parquet", value=random_column("krr", ROWS)), tmp_path / "out"

    def fails(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place, fails)
        with pytest.raises(EngineError, match="completed work is kept: continue with resume=True"):
            collect(PLAN, path, "value", out=out, ledger=ledger.path)
    before = read_messages(out / "work" / "shuffled", 1) if (out / "work" / "shuffled").exists() else None
    collect(PLAN, path, "value", out=out, ledger=ledger.path, resume=True)
    if before is not None:
        assert read_messages(out / "messages", 1) == before
    (standing,) = ledger.budget_statuses("test")
    assert [entry.state for entry in standing.entries] == ["released"]


def test_a_picture_that_cannot_be_drawn_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report does without, and does not point to it."""

    def fails(*_: Any) -> None:
        raise RuntimeError("no fonts")

    monkeypatch.setattr("shuffledp.collection.plots.draw_figure", fails)
    collect(PLAN, random_column("krr", ROWS), out=tmp_path / "out")
    assert not (tmp_path / "out" / "estimates.png").exists()
    assert "estimates.png" not in (tmp_path / "out" / "report.md").read_text("utf-8")


def test_only_a_bad_input_abandons_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes while it is read cannot be gone on with: nothing is left, and nothing is spent."""
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    path = write_table(tmp_path / "data.parquet", value=random_column("krr", ROWS))
    monkeypatch.setattr(Frequency, "read_values", _changing(Frequency.read_values))
    with pytest.raises(ValueError, match="not what it was"):
        collect(PLAN, path, "value", out=tmp_path / "out", ledger=ledger.path)
    assert not (tmp_path / "out").exists()
    assert all(not standing.entries for standing in ledger.budget_statuses())


def _changing(values: Any) -> Any:
    looks = 0

    def looked(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks > 1:
            raise ValueError("column 'value': it is not what it was.")
        return values(*arguments)

    return looked


def test_locks_are_on_files_that_are_open_for_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over NFS an exclusive lock on a file that is open for reading only fails with EBADF."""
    lock = fcntl.flock

    def over_nfs(file: Any, operation: int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        if operation & fcntl.LOCK_EX and fcntl.fcntl(descriptor, fcntl.F_GETFL) & 3 == 0:
            raise OSError(errno.EBADF, "Bad file descriptor")
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", over_nfs)
    collect(PLAN, random_column("krr", ROWS), out=tmp_path / "out")
    write_table(tmp_path / "data.parquet", value=random_column("krr", ROWS))
    encoding(tmp_path)


def test_another_ledger_does_not_go_on_with_a_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor none, nor one where there was none, nor a new one at the same place."""
    first, second = (new_ledger(tmp_path / f"{name}.sqlite") for name in ("first", "second"))
    path, out = write_table(tmp_path / "data.parquet", value=random_column("krr", ROWS)), tmp_path / "out"

    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shuffledp.collection.resumable_job.Job.publish", fails)
        with pytest.raises(EngineError, match="continue with resume=True"):
            collect(PLAN, path, "value", out=out, ledger=first.path)
    for wrong in (second.path, None):
        with pytest.raises(Exception, match="ledger"):
            collect(PLAN, path, "value", out=out, ledger=wrong, resume=True)
    collect(PLAN, path, "value", out=out, ledger=first.path, resume=True)


def test_a_damaged_job_is_a_sentence(tmp_path: Path) -> None:
    """Whatever is in its file."""
    work = tmp_path / "out" / "work"
    work.mkdir(parents=True)
    for content in ("", "{", "[]", "null", '{"id": "x"}', '{"id": "x", "plan": {}, "engine": "embedded"}'):
        (work / "job.json").write_text(content, "utf-8")
        with pytest.raises(ValueError, match=r"job\.json is damaged .*; delete .* and collect anew\.$"):
            collect(PLAN, random_column("krr", ROWS), out=tmp_path / "out", resume=True)


def test_a_plan_says_which_round(tmp_path: Path) -> None:
    """A round beyond the plan's is refused before anything is looked at."""
    plan = Plan(PLAN.task, PLAN.mechanism, users=ROWS, epsilon=PLAN.epsilon, delta=PLAN.delta, bound=PLAN.bound)
    with pytest.raises(ValueError, match="round must be at most 1"):
        collect(plan, random_column("krr", ROWS), out=tmp_path / "out", round_number=2)
    assert not (tmp_path / "out").exists()
