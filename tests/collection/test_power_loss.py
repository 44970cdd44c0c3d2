"""After a power loss at any moment, a collection and each role is complete and right, or absent and can go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from shuffledp import Plan, PoissonDUMP, collection
from shuffledp.collection import batch_processing, engine
from shuffledp.collection.collect import collect
from shuffledp.collection.message_files import Manifest
from shuffledp.ledger.ledger import Ledger
from shuffledp.tasks import OverTime
from tests.collection import random_column, read_encoded_file, read_messages, small_plan, write_table
from tests.collection.kill_points import CHUNK_ROWS, PART_CHUNKS
from tests.collection.power_loss import State, record_calls, restore, states_after_every_step

# Hundreds of collections by one plan have one guarantee.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

ROWS = 1000
PLAN = small_plan("krr", users=ROWS, epsilon_local=0.5, bound="efmrtt19")

COLLECT = """
import sys
import shuffledp.collection.report
from shuffledp.collection.collect import collect
from shuffledp.ledger.ledger import Ledger
from tests.collection.kill_points import small_parts
small_parts()
shuffledp.collection.report.plotting.has_matplotlib = lambda: False
plan, data, root = sys.argv[1:]
ledger = Ledger.create(f"{root}/ledger.sqlite")
ledger.register("test")
collect(plan, data, "value", out=f"{root}/out", ledger=f"{root}/ledger.sqlite")
"""
ROLES = """
import sys
import shuffledp.collection.report
from shuffledp import collection
from shuffledp.ledger.ledger import Ledger
shuffledp.collection.report.plotting.has_matplotlib = lambda: False
plan, data, root = sys.argv[1:]
ledger = Ledger.create(f"{root}/ledger.sqlite")
ledger.register("test")
collection.encode(plan, data, "value", out=f"{root}/ours.messages")
collection.shuffle([f"{root}/ours.messages"], out=f"{root}/shuffled", plan=plan, ledger=f"{root}/ledger.sqlite")
collection.estimate(plan, f"{root}/shuffled", out=f"{root}/result", ledger=f"{root}/ledger.sqlite")
"""
RELEASE = """
import sys
from shuffledp import collection
from shuffledp.ledger.ledger import Ledger
plan, ours, root = sys.argv[1:]
ledger = Ledger.create(f"{root}/ledger.sqlite")
ledger.register("test")
for day, files in enumerate([[ours], []]):
    collection.release(
        files, plan=plan, day=day, state=f"{root}/own", out=f"{root}/public", ledger=f"{root}/ledger.sqlite"
    )
"""


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """Where a run writes all that it writes, and what it is given."""
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(root / name.lower()))
    PLAN.save(tmp_path / "plan.json")
    data = write_table(tmp_path / "data.parquet", value=random_column("krr", ROWS))
    return root, [str(tmp_path / "plan.json"), str(data), str(root)]


def at(*parts: str) -> str:
    """Where something of the output stands in a state."""
    return "/".join(("", "out", *parts))


def ledger_of(root: Path) -> Ledger:
    """The ledger that a power loss left, or a new one where it was not made yet."""
    path = root / "ledger.sqlite"
    if path.exists() and path.stat().st_size:
        ledger = Ledger(path)
    else:
        path.unlink(missing_ok=True)
        shutil.rmtree(root / "xdg_state_home", ignore_errors=True)
        ledger = Ledger.create(path)
    if all(standing.population != "test" for standing in ledger.budget_statuses()):
        ledger.register("test")
    return ledger


def everything_is_there(directory: Path) -> bool:
    """Whether a finished collection's files are whole."""
    report = json.loads((directory / "report.json").read_text("utf-8"))
    return report["users"] == ROWS and len(csv.read_csv(directory / "estimates.csv")) == 4


@pytest.mark.crash
def test_a_collection(traced: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Released once, with the messages of the first key wherever there was one, and in the ledger once."""
    root, arguments = traced
    record_calls(COLLECT, arguments, tmp_path / "log")
    wanted = read_messages(root / "out" / "messages", 1)
    monkeypatch.setattr(batch_processing, "CHUNK_ROWS", CHUNK_ROWS)
    monkeypatch.setattr(engine, "CHUNKS_PER_PART", PART_CHUNKS)
    states = finished = going_on = 0
    for state in states_after_every_step(tmp_path / "log", root):
        states += 1
        restore(state, root)
        had_key = any(path == at("work", "key") and content not in (b"", bytes(32)) for path, content in state)
        had_messages = (root / "out" / "work" / "shuffled").exists() or (root / "out" / "messages").exists()
        ledger = ledger_of(root)
        if (root / "out" / "report.json").exists():
            finished += 1
            assert everything_is_there(root / "out")
            if not (root / "out" / "work" / "job.json").exists():
                assert read_messages(root / "out" / "messages", 1) == wanted
                assert_booked_once(ledger)
                continue
        going_on += had_key or had_messages
        resume = (root / "out" / "work" / "job.json").exists()
        collect(PLAN, arguments[1], "value", out=root / "out", ledger=ledger.path, resume=resume)
        assert everything_is_there(root / "out")
        found = read_messages(root / "out" / "messages", 1)
        assert len(found) == Manifest.read(root / "out" / "messages").messages == ROWS
        if had_key or had_messages:
            assert found == wanted
        assert_booked_once(ledger)
    assert states > 100
    assert going_on > 30
    assert finished > 3


@pytest.mark.crash
def test_the_replay_finds_what_is_not_synced(traced: tuple[Path, list[str]], tmp_path: Path) -> None:
    """Without syncing, a finished collection may be nothing but names."""
    root, arguments = traced
    without = "from shuffledp.storage import durable_files\ndurable_files.sync = lambda descriptor: None\n"
    record_calls(without + COLLECT, arguments, tmp_path / "log")
    states = [dict(state) for state in states_after_every_step(tmp_path / "log", root)]
    for path in (at("report.json"), at("work", "job.json")):
        assert any(state.get(path) == b"" for state in states), path


@pytest.mark.crash
def test_each_role(traced: tuple[Path, list[str]], tmp_path: Path) -> None:
    """What has its name is whole; what is not there is made again, and costs nothing twice."""
    root, arguments = traced
    record_calls(ROLES, arguments, tmp_path / "log")
    wanted = read_encoded_file(root / "ours.messages")
    states = 0
    for state in states_after_every_step(tmp_path / "log", root):
        states += 1
        restore(state, root)
        assert_roles_end_well(state, root, Path(arguments[1]), wanted)
    assert states > 60


@pytest.mark.crash
def test_a_release_day_by_day(traced: tuple[Path, list[str]], tmp_path: Path) -> None:
    """What was ever public stays what it is; what is not is released again, as it was drawn; all is paid for once."""
    root, _ = traced
    plan, ours = tmp_path / "days.json", tmp_path / "day.messages"
    chosen = Plan(OverTime(2), PoissonDUMP(2, 20.0, 0), users=ROWS, epsilon=9.0, delta=1e-3, population="test")
    chosen.save(plan)
    collection.encode(chosen, pa.array([0] * 9), out=ours)
    record_calls(RELEASE, [str(plan), str(ours), str(root)], tmp_path / "log")
    wanted = [(root / "public" / f"day-0000{day}" / "_manifest.json").read_bytes() for day in range(2)]
    states = drawn = 0
    for state in states_after_every_step(tmp_path / "log", root):
        states += 1
        restore(state, root)
        ledger, kept = ledger_of(root), (root / "own" / "day-00000").exists() or (root / "own" / "day-00001").exists()
        drawn += kept
        for day, files in enumerate([[ours], []]):
            there = root / "public" / f"day-0000{day}"
            if there.exists():
                assert (there / "_manifest.json").read_bytes() == wanted[day]
                assert kept
                continue
            collection.release(files, plan=plan, day=day, state=root / "own", out=root / "public", ledger=ledger.path)
            assert not kept or (there / "_manifest.json").read_bytes() == wanted[day]
        collection.estimate(chosen, root / "public", out=root / "result", ledger=ledger.path)
        assert_booked_once(ledger)
    assert states > 60
    assert drawn > 20


def assert_roles_end_well(state: State, root: Path, data: Path, wanted: list[bytes]) -> None:
    ledger, bundle, shuffled, result = ledger_of(root), root / "ours.messages", root / "shuffled", root / "result"
    had_bundle = bundle.exists()
    if not had_bundle:
        assert not shuffled.exists()
        collection.encode(PLAN, data, "value", out=bundle)
    else:
        assert read_encoded_file(bundle) == wanted
        with pytest.raises(ValueError, match="exists already"):
            collection.encode(PLAN, data, "value", out=bundle)
    if not shuffled.exists():
        assert not result.exists()
        collection.shuffle([bundle], out=shuffled, plan=PLAN, ledger=ledger.path)
    assert read_messages(shuffled, 1) == sorted(read_encoded_file(bundle))
    assert_booked_once(ledger)
    if not result.exists():
        collection.estimate(PLAN, shuffled, out=result, ledger=ledger.path)
    assert everything_is_there(result)
    assert_booked_once(ledger)
    left = [path.name for path in root.iterdir() if "unfinished" in path.name and "ledger" not in path.name]
    assert left == [], state


def assert_booked_once(ledger: Ledger) -> None:
    (standing,) = ledger.budget_statuses("test")
    assert [(entry.users, entry.state) for entry in standing.entries] == [(ROWS, "released")]
