"""A killed collection goes on with the same messages: nothing is ever encoded twice with different randomness."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp.collection import batch_processing, engine as embedded
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import EngineError, create_engine
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.resumable_job import Job, JobArguments
from shuffledp.ledger.ledger import Ledger
from shuffledp.planning.plan import Plan
from shuffledp.spark.engine import Spark, _build_encode_task
from shuffledp.spark.worker_tasks import map_batches
from tests.collection import (
    build_batch_spec,
    expected_messages,
    list_paths,
    new_ledger,
    random_column,
    read_messages,
    small_plan,
    sort_messages,
    write_table,
)
from tests.collection.kill_points import CHUNK_ROWS, PART_CHUNKS, run_and_kill

# Hundreds of collections by one plan have one guarantee.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

ROWS = 1000
CHEAP = {"epsilon_local": 0.5, "bound": "efmrtt19"}
"""A bound that costs no time: the tests below are not about it."""


def request_in(directory: Path, name: str = "krr", **changes: object) -> tuple[CollectionRequest, pa.Array]:
    array = random_column(name, ROWS)
    path = write_table(directory / "data.parquet", value=array)
    plan, table = small_plan(name, users=ROWS, **CHEAP), FileTable(path)
    ledger = directory / "ledger.sqlite"
    if not ledger.exists():
        new_ledger(ledger)
    request = CollectionRequest(plan, table, ("value",), directory / "out", ledger)
    return dataclasses.replace(request, **changes), array  # type: ignore[arg-type]


def start_of(request: CollectionRequest) -> JobArguments:
    """What a collection of this request begins with."""
    head = None if request.ledger is None else Ledger(request.ledger).head().to_document()
    return JobArguments(request.plan, 1, ("value",), request.table.fingerprint(), ROWS, head)


def key_in(out: Path) -> bytes | None:
    path = out / "work" / "key"
    return path.read_bytes() if path.exists() else None


def assert_finished(request: CollectionRequest, key: bytes | None, array: pa.Array, part_rows: int | None) -> None:
    """The messages are those of the key where there was one; one entry in the ledger; no secret left."""
    mechanism = request.plan.mechanism
    found = read_messages(request.out / "messages", mechanism.message_bytes)
    assert len(found) == ROWS
    assert found == sorted(found)
    if key is not None:
        values = request.plan.column("value").read_values(array)
        assert found == sort_messages(expected_messages(mechanism, values, key, part_rows))
    assert (request.out / "report.json").exists()
    assert not (request.out / "work").exists()
    assert request.ledger is not None
    (standing,) = Ledger(request.ledger).budget_statuses("test")
    assert [entry.state for entry in standing.entries] == ["released"]


@pytest.mark.crash
def test_killed_before_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever step SIGKILL comes before, --resume ends with the messages of the first key."""
    monkeypatch.setattr(batch_processing, "CHUNK_ROWS", CHUNK_ROWS)
    monkeypatch.setattr(embedded, "CHUNKS_PER_PART", PART_CHUNKS)
    keys_seen = step = 0
    finished = False
    while not finished:
        step += 1
        directory = tmp_path / f"step{step}"
        directory.mkdir()
        request, array = request_in(directory, resume=True)
        finished = run_and_kill(request, step)
        key = key_in(request.out)
        if key is not None and any(key):
            keys_seen += 1
        else:
            key = None
        if not finished and not (request.out / "report.json").exists():
            shuffled = request.out / "work" / "shuffled"
            before = read_messages(shuffled, 1) if shuffled.exists() else None
            run_collection(request, create_engine("embedded"))
            if before is not None:
                assert read_messages(request.out / "messages", 1) == before
        elif not finished:
            # Killed while tidying up: all is released, and another run ends that or says so.
            with contextlib.suppress(ValueError):
                run_collection(request, create_engine("embedded"))
        assert_finished(request, key, array, CHUNK_ROWS * PART_CHUNKS)
    assert step > 50, step
    assert keys_seen > 8


def test_parts_that_are_there_are_not_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was materialised is used as it is, even where encoding would fail."""
    monkeypatch.setattr(batch_processing, "CHUNK_ROWS", 100)
    monkeypatch.setattr(embedded, "CHUNKS_PER_PART", 1)
    request, _ = request_in(tmp_path)
    column, table, engine = request.plan.column("value"), request.table, create_engine("embedded")
    engine.encode(table, column, bytes(32), build_batch_spec(request.plan, ROWS), tmp_path / "encoded")
    before = read_messages(tmp_path / "encoded", 1)
    (tmp_path / "encoded" / "part-00001.parquet").unlink()
    engine.encode(table, column, bytes(32), build_batch_spec(request.plan, ROWS), tmp_path / "encoded")
    assert read_messages(tmp_path / "encoded", 1) == before

    def fail(*_: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr(batch_processing.Encoder, "encode", fail)
    engine.encode(table, column, bytes(32), build_batch_spec(request.plan, ROWS), tmp_path / "encoded")


def test_the_key_is_secret_and_short_lived(tmp_path: Path) -> None:
    """Only its owner can read it, it is not in a repr, and it is overwritten and gone with the order of messages."""
    job = Job.begin(tmp_path / "out", JobArguments(small_plan("krr"), 1, ("value",), {}, 10, None), "embedded")
    key = job.load_key()
    assert job.load_key() == key
    assert len(key) == 32
    path = job.work_directory / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(job.work_directory.stat().st_mode) == 0o700
    encoder = batch_processing.Encoder(job.plan.column("value"), key)
    assert repr(key) not in repr(encoder)
    (job.encoded_directory).mkdir()
    (tmp_path / "link").hardlink_to(path)
    job.forget_order()
    assert (tmp_path / "link").read_bytes() == bytes(32)
    assert list_paths(job.work_directory) == ["forgotten", "job.json"]
    assert (job.work_directory / "forgotten").read_bytes() == b""
    (job.encoded_directory).mkdir()
    with pytest.raises(ValueError, match="has messages but no key"):
        job.load_key()


def test_what_cannot_be_gone_on_with_is_a_sentence(tmp_path: Path) -> None:
    """An unfinished collection needs --resume, and the same plan, input, column and engine."""
    request, _ = request_in(tmp_path)
    engine = create_engine("embedded")
    Job.begin(request.out, start_of(request), "embedded")
    with pytest.raises(ValueError, match="continue with resume=True"):
        run_collection(request, engine)
    for change in ({"plan": small_plan("krr", users=5)}, {"columns": ("other",)}):
        with pytest.raises(ValueError, match=f"the {next(iter(change)).rstrip('s')} is not the one"):
            run_collection(dataclasses.replace(request, resume=True, **change), engine)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the engine is not the one"):
        run_collection(dataclasses.replace(request, resume=True), Spark(engine.progress))
    assert_known_by_content(tmp_path / "data.parquet", request)


def assert_known_by_content(path: Path, request: CollectionRequest) -> None:
    """Other bytes of the same size and time are another input; the same bytes at another time are not."""
    engine, content, status = create_engine("embedded"), path.read_bytes(), path.stat()
    path.write_bytes(content[:30] + bytes([content[30] ^ 1]) + content[31:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ValueError, match="the input is not the one"):
        run_collection(dataclasses.replace(request, resume=True), engine)
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert run_collection(dataclasses.replace(request, resume=True), engine).guarantee.users == ROWS


def test_only_one_process_works_on_a_job(tmp_path: Path) -> None:
    """The second one is told so."""
    job = Job.begin(tmp_path / "out", JobArguments(small_plan("krr"), 1, ("value",), {}, 10, None), "embedded")
    with job.lock(), pytest.raises(ValueError, match="another process is collecting"), job.lock():
        raise AssertionError("two at once")
    with pytest.raises(ValueError, match="another process is collecting"):
        Job.begin(tmp_path / "out", JobArguments(small_plan("krr"), 1, ("value",), {}, 10, None), "embedded")
    assert Job.find_unfinished(tmp_path / "out") == job


def test_a_full_or_finished_directory_is_left_alone(tmp_path: Path) -> None:
    """Neither other files nor an earlier collection are overwritten."""
    request, _ = request_in(tmp_path)
    engine = create_engine("embedded")
    request.out.mkdir()
    (request.out / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"expected an empty directory, but .* has 'mine.txt'"):
        run_collection(request, engine)
    (request.out / "mine.txt").unlink()
    run_collection(request, engine)
    before = list_paths(tmp_path)
    for resume in (False, True):
        with pytest.raises(ValueError, match="already holds a finished collection"):
            run_collection(dataclasses.replace(request, resume=resume), engine)
    assert list_paths(tmp_path) == before


# --- Spark --------------------------------------------------------------------------------------------------------


SCHEMA = "message binary"


class Stopped(BaseException):
    """Stands for a kill, inside a process that goes on."""


@pytest.mark.spark
@pytest.mark.parametrize("point", ["encode", "shuffle", "aggregate", "publish"])
@pytest.mark.parametrize("after", [False, True])
def test_spark_goes_on_after_every_stage(
    spark: Spark, point: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before or after a stage, the rest gives the messages of the first key."""
    request, array = request_in(tmp_path, resume=True)
    owner = Job if point == "publish" else Spark
    original = getattr(owner, point)

    def stop(*arguments: object, **named: object) -> None:
        if after:
            original(*arguments, **named)
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(owner, point, stop)
        with pytest.raises(Stopped):
            run_collection(request, spark)
    key = key_in(request.out)
    assert (key is None) == (point in ("aggregate", "publish"))
    if (request.out / "report.json").exists():
        assert (point, after) == ("publish", True)
    else:
        run_collection(request, spark)
    assert_finished(request, key, array, None)


@pytest.mark.spark
def test_a_spark_stage_that_runs_again_gives_the_same_messages(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluated twice, and with a task that dies the first time, a lazy stage gives each row the same message."""
    rows = 3000
    path = tmp_path / "data.parquet"
    array = random_column("krr", rows)
    # Row groups are what Spark divides a file by.
    pq.write_table(pa.table({"value": array}), path, row_group_size=300, compression="none", use_dictionary=False)
    column = small_plan("krr").column("value")
    encoder = batch_processing.Encoder(column, bytes(32))
    spark.session.conf.set("spark.sql.files.maxPartitionBytes", "4000")
    try:
        data = spark._read_input(FileTable(path), column)
        work = _build_encode_task(encoder)
        lazy = map_batches(data, work, SCHEMA)
        parts = lazy.rdd.getNumPartitions()
        first = [bytes(row[0]) for row in lazy.collect()]
        assert [bytes(row[0]) for row in lazy.collect()] == first
        assert [bytes(row[0]) for row in map_batches(data, _dying_once(work), SCHEMA).collect()] == first
    finally:
        spark.session.conf.unset("spark.sql.files.maxPartitionBytes")
    assert parts > 3
    assert len(first) == rows
    # Each part has a stream of its own: no two begin with the same messages.
    whole = [row.tobytes() for row in expected_messages(column.mechanism, column.read_values(array), bytes(32))]
    assert first != whole


def _dying_once(work: Any) -> Any:
    """Fails at the end of each task's first attempt, after its messages were made."""

    def run(batches: Any) -> Iterator[Any]:
        from pyspark import TaskContext

        yield from work(batches)
        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() == 0:
            raise RuntimeError("the worker died")

    return run


VICTIM = """
import sys
from pathlib import Path
from shuffledp.collection.collect import collect
from shuffledp.collection.engine import open_engine
plan, path, out, ledger = map(Path, sys.argv[1:])
with open_engine("spark", master="local[2]") as engine:
    collect(plan, path, "value", out=out, ledger=ledger, engine=engine)
"""


@pytest.mark.spark
@pytest.mark.crash
def test_spark_really_killed_while_it_encodes(spark: Spark, tmp_path: Path) -> None:
    """SIGKILL while Spark's tasks are writing: the rest gives the messages of the first key."""
    request, array = request_in(tmp_path, resume=True)
    request.plan.save(tmp_path / "plan.json")
    command = [
        sys.executable,
        "-c",
        VICTIM,
        tmp_path / "plan.json",
        tmp_path / "data.parquet",
        request.out,
        request.ledger,
    ]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    work = request.out / "work"
    deadline = time.monotonic() + 300
    while not list(work.glob("encoded*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    key = key_in(request.out)
    assert key is not None
    assert Plan.load(tmp_path / "plan.json") == request.plan
    run_collection(request, spark)
    assert_finished(request, key, array, None)


def test_a_machine_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is a sentence; what was encoded stays, and so does the reservation."""
    request, array = request_in(tmp_path, resume=True)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(embedded.EmbeddedEngine, "shuffle", full)
        with pytest.raises(
            EngineError, match=r"No space left on device; completed work is kept: continue with resume=True\.$"
        ):
            run_collection(request, create_engine("embedded"))
    key = key_in(request.out)
    assert key is not None
    run_collection(request, create_engine("embedded"))
    assert_finished(request, key, array, None)


def test_leftovers_of_an_unknown_job_are_not_adopted(tmp_path: Path) -> None:
    """Messages of another plan must not go out under this plan's promise."""
    request, _ = request_in(tmp_path)
    engine = create_engine("embedded")
    (request.out / "work").mkdir(parents=True)
    column, table = small_plan("krr", users=ROWS, epsilon_local=8.0).column("value"), request.table
    engine.encode(table, column, bytes(32), build_batch_spec(request.plan, ROWS), request.out / "work" / "encoded")
    for resume in (False, True):
        with pytest.raises(ValueError, match="holds work without a description; delete it"):
            run_collection(dataclasses.replace(request, resume=resume), engine)
    assert request.ledger is not None
    assert Ledger(request.ledger).budget_statuses("test")[0].entries == ()


def test_a_directory_that_filled_up_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run finished there between the first look and the beginning."""
    request, _ = request_in(tmp_path)
    other = dataclasses.replace(request, ledger=None)
    engine, check = create_engine("embedded"), embedded.EmbeddedEngine.check

    def slow_check(self: embedded.EmbeddedEngine, *arguments: object) -> int:
        monkeypatch.setattr(embedded.EmbeddedEngine, "check", check)
        run_collection(other, create_engine("embedded"))
        return check(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(embedded.EmbeddedEngine, "check", slow_check)
    with pytest.raises(ValueError, match="is no longer empty"):
        run_collection(request, engine)
    assert (request.out / "report.json").exists()
    assert not (request.out / "work").exists()
    assert request.ledger is not None
    assert Ledger(request.ledger).budget_statuses("test")[0].entries == ()


def test_messages_that_were_taken_away_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while publishing, and the messages moved: another key would be a second randomisation."""
    request, _ = request_in(tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Job, "publish", stop)
        with pytest.raises(KeyboardInterrupt):
            run_collection(request, create_engine("embedded"))
    (request.out / "work" / "shuffled").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="cannot be made again"):
        run_collection(dataclasses.replace(request, resume=True), create_engine("embedded"))
    assert not (request.out / "messages").exists()


def test_more_collections_than_planned_are_told(tmp_path: Path) -> None:
    """Each of two plans keeps its target; the report says what all of them come to."""
    for number in range(2):
        request, _ = request_in(tmp_path)
        plan = small_plan("krr", users=ROWS, **(CHEAP | {"epsilon_local": 0.5 - number / 10}))
        report = run_collection(
            dataclasses.replace(request, plan=plan, out=tmp_path / f"out{number}"), create_engine("embedded")
        )
        told = "2 collections from these people, but the plan counts 1" in report.statement()
        assert told == (number == 1)
