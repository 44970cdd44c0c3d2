"""Whoever has a cluster, and what comes out of it: ``python -m`` with a room, the shared directory, master and workers.

A process of its own, as one process has one Spark; what was found is written to ``found.json`` in the room.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, functions as F

import shuffledp as sdp
from shuffledp.collection import kernel
from shuffledp.collection.cluster import cluster_file, message_frame
from shuffledp.collection.cluster.frame_table import FrameTable
from shuffledp.collection.engine.spark_engine import Spark
from shuffledp.planner.plan_file import Plan
from tests.collection import lot_of, standalone

KEY = bytes(range(32))
ROWS = 30_000
SLOW = 1.5


def contract(engine: Spark, shared: Path) -> list[str]:
    """The suite that anybody can run, in the directory that all machines see."""
    checked = sdp.testing.check_engine(lambda: Spark(session=engine.session), directory=shared, raises=False)
    return [str(failure) for failure in checked.failures]


def seen(engine: Spark, room: Path) -> list[bool]:
    """Whether the driver, and then a worker, finds a file of the driver's."""
    path = str(room / "plan-krr-wide.json")

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"there": [os.path.exists(path)]})

    rows = message_frame.mapped(engine.session.range(2), run, "there boolean").collect()
    return [os.path.exists(path), any(row[0] for row in rows)]


def data(engine: Spark, shared: Path) -> DataFrame:
    """Rows with a key, nearly all with one value, in files of different sizes; written by the cluster."""
    address = f"file:{shared}/data"
    number = F.col("id")
    value = F.when(number % 100 == 0, number % 40).otherwise(F.lit(7))
    engine.session.range(ROWS).select("id", value.cast("int").alias("value")).write.parquet(address)
    return engine.session.read.parquet(address)


def interrupted(plan: Plan, frame: DataFrame, marks: Path) -> DataFrame:
    """The messages of rows known by their key, by tasks of which some are slow the first time, and all leave a mark."""
    column = plan.column("value")
    work = message_frame.encoding(kernel.Encoder(column, KEY), True)
    rows = FrameTable(frame, ("id",)).identified(column)
    return message_frame.mapped(rows, _marking(work, str(marks)), message_frame.SCHEMA)


def _marking(work: Callable[..., Any], marks: str) -> Callable[..., Any]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        Path(marks, f"{task.partitionId()}-{task.attemptNumber()}-{task.taskAttemptId()}").touch()
        if task.partitionId() % 32 == 5 and task.attemptNumber() == 0:
            time.sleep(SLOW)
        yield from work(batches)

    return run


def written(engine: Spark, plan: Plan, messages: DataFrame, address: Path) -> dict[str, str]:
    """Names and hashes of the files of shuffled messages."""
    cluster_file.write(engine.session, messages, lot_of(plan, ROWS), f"file:{address}")
    kept = (path for path in address.iterdir() if not path.name.endswith(".crc"))
    return {
        path.name: hashlib.sha256(path.read_bytes().replace(address.name.encode(), b"")).hexdigest() for path in kept
    }


def killer(workers: tuple[int, ...], marks: Path) -> threading.Thread:
    """Kills a process that runs tasks as soon as one task has begun."""

    def run() -> None:
        deadline = time.monotonic() + 120
        while not any(marks.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(standalone.children(workers)[0], signal.SIGKILL)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def same(engine: Spark, plan: Plan, frame: DataFrame, shared: Path, workers: tuple[int, ...]) -> dict[str, Any]:
    """The files of the same rows in other orders and partitions, with attempts side by side, and with a kill."""
    found: dict[str, Any] = {}
    frames = {"plain": frame, "killed": frame.repartition(7).sort(F.desc("id"))}
    for name, one in frames.items():
        marks = shared / f"marks-{plan.mechanism.name}-{name}"
        marks.mkdir()
        killing = killer(workers, marks) if name == "killed" else None
        found[name] = written(
            engine, plan, interrupted(plan, one, marks), shared / f"files-{plan.mechanism.name}-{name}"
        )
        if killing is not None:
            killing.join()
        found[f"{name} again"] = sum(path.name.split("-")[1] != "0" for path in marks.iterdir())
    return found


def collected(engine: Spark, plan: Plan, frame: DataFrame, room: Path, shared: Path) -> dict[str, Any]:
    """A whole collection into the shared directory, by its address."""
    name = plan.mechanism.name
    out = shared / f"out-{name}"
    report = sdp.spark.collect(
        frame, plan, "value", out=f"file:{out}", state=room / f"state-{name}", allow_weaker=True, engine=engine
    )
    messages = engine.session.read.parquet(f"file:{out}/messages")
    return {
        "users": report.guarantee.users,
        "messages": messages.count(),
        "names": sorted(path.name for path in out.iterdir()),
        "left": (room / f"state-{name}").exists(),
        "seven": [float(report.estimate.value[7]), float(report.estimate.standard_error[7])],
    }


def main(room: Path, shared: Path, master: str, *workers: str) -> None:
    """All of it, in one session."""
    warnings.simplefilter("ignore", FutureWarning)
    pids = tuple(map(int, workers))
    engine = Spark(master=master)
    found: dict[str, Any] = {"failures": contract(engine, shared), "seen": seen(engine, room)}
    frame = data(engine, shared)
    for name in ("krr-wide", "oue"):
        plan = Plan.load(room / f"plan-{name}.json")
        found[name] = collected(engine, plan, frame, room, shared)
    found["same"] = same(engine, Plan.load(room / "plan-oue.json"), frame, shared, pids)
    engine.close()
    (room / "found.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
