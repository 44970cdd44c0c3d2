"""Whoever has a cluster, and what comes out of it: ``python -m`` with a room, the shared directory and the master.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, functions as F

import shuffledp as sdp
from shuffledp.collection import batch_processing
from shuffledp.planning.plan import Plan
from shuffledp.spark import cluster_files as cluster_file, worker_tasks
from shuffledp.spark.engine import Spark
from shuffledp.spark.frame_table import FrameTable
from tests.collection import build_batch_spec, standalone_cluster

KEY = bytes(range(32))
ROWS = 30_000
TIMEOUT_SECONDS = 300
"""How long to wait for what must happen."""


def check_contract(engine: Spark, shared: Path) -> list[str]:
    """The suite that anybody can run, in the directory that all machines see."""
    checked = sdp.testing.check_engine(lambda: Spark(session=engine.session), directory=shared, raises=False)
    return [str(failure) for failure in checked.failures]


def can_see_driver_files(engine: Spark, room: Path) -> list[bool]:
    """Whether the driver, and then a worker, finds a file of the driver's."""
    path = str(room / "plan-krr-wide.json")

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"there": [os.path.exists(path)]})

    rows = worker_tasks.map_batches(engine.session.range(2), run, "there boolean").collect()
    return [os.path.exists(path), any(row[0] for row in rows)]


def write_data(engine: Spark, shared: Path) -> DataFrame:
    """Rows with a key, nearly all with one value, in files of different sizes; written by the cluster."""
    address = f"file:{shared}/data"
    number = F.col("id")
    value = F.when(number % 100 == 0, number % 40).otherwise(F.lit(7))
    engine.session.range(ROWS).select("id", value.cast("int").alias("value")).write.parquet(address)
    return engine.session.read.parquet(address)


@dataclass(frozen=True)
class TaskScenario:
    """A directory where tasks of one partition leave marks, and what happens to its first attempt.

    ``beside``: it does its work, and goes on until Spark ends it, as a second attempt was faster.
    ``killed``: it goes on until the process that runs it is killed; until then no other attempt does anything.
    """

    marks: str
    event: str
    partition: int = 1

    def wrap_task(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work with marks, by whichever attempts there are."""

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            task = TaskContext.get()
            assert task is not None
            if self.event == "plain" or task.partitionId() != self.partition:
                yield from work(batches)
            elif self._mark("first", [task.taskAttemptId(), task.stageId(), os.getpid(), _java_parent(os.getpid())]):
                yield from work(batches)
                _wait_until(lambda: False)
            else:
                if self.event == "killed":
                    _wait_until(lambda: self.read_mark("killed") is not None)
                yield from work(batches)
                first = self.read_mark("first") or []
                self._mark("second", [task.taskAttemptId(), task.stageId(), standalone_cluster.is_running(first[2])])

        return run

    def kill(self) -> None:
        """End the process that runs the first attempt, as soon as it has begun."""
        _wait_until(lambda: self.read_mark("first") is not None)
        process = (self.read_mark("first") or [])[3]
        os.kill(process, signal.SIGKILL)
        _wait_until(lambda: not standalone_cluster.is_running(process))
        self._mark("killed", [process])

    def _mark(self, name: str, told: list[Any]) -> bool:
        """Leave a mark, whole; whether it was not there yet."""
        unfinished = Path(self.marks, f".{name}-{os.getpid()}")
        unfinished.write_text(json.dumps(told), "utf-8")
        try:
            os.link(unfinished, Path(self.marks, name))
        except FileExistsError:
            return False
        return True

    def read_mark(self, name: str) -> list[Any] | None:
        """What a mark says, if it is there."""
        path = Path(self.marks, name)
        return json.loads(path.read_text("utf-8")) if path.exists() else None


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for did not happen")
        time.sleep(0.02)


def _java_parent(process: int) -> int:
    """The process of Java above this one."""
    while Path(f"/proc/{process}/comm").read_text().strip() != "java":
        process = standalone_cluster.parent_process(process)
    return process


def run_interrupted(plan: Plan, frame: DataFrame, scene: TaskScenario) -> DataFrame:
    """The messages of rows known by their key, by tasks to which something happens."""
    column = plan.column("value")
    work = worker_tasks.build_encode_task(batch_processing.Encoder(column, KEY), True)
    rows = FrameTable(frame, ("id",)).identify_rows(column)
    return worker_tasks.map_batches(rows, scene.wrap_task(work), worker_tasks.MESSAGES_SCHEMA)


def hash_shuffled_files(engine: Spark, plan: Plan, messages: DataFrame, address: Path) -> dict[str, str]:
    """Names and hashes of the files of shuffled messages."""
    cluster_file.write_shuffled(engine.session, messages, build_batch_spec(plan, ROWS), f"file:{address}")
    kept = (path for path in address.iterdir() if not path.name.endswith(".crc"))
    return {
        path.name: hashlib.sha256(path.read_bytes().replace(address.name.encode(), b"")).hexdigest() for path in kept
    }


def compare_shuffles(engine: Spark, plan: Plan, frame: DataFrame, shared: Path) -> dict[str, Any]:
    """The files of the same rows, also in other orders and partitions, with attempts side by side, and with a kill."""
    found: dict[str, Any] = {}
    mixed = frame.repartition(3).sort(F.desc("id"))
    for event, one in {"plain": frame, "beside": frame, "killed": mixed}.items():
        scene = TaskScenario(str(shared / f"marks-{event}"), event)
        Path(scene.marks).mkdir()
        # The settings that Spark itself looks at, for each stage anew.
        context: Any = engine.session.sparkContext
        quantile = standalone_cluster.SPECULATE_SOON if event == "beside" else standalone_cluster.NEVER_SPECULATE
        context._jsc.sc().conf().set(standalone_cluster.QUANTILE, quantile)
        killing = threading.Thread(target=scene.kill)
        if event == "killed":
            killing.start()
        files = hash_shuffled_files(engine, plan, run_interrupted(plan, one, scene), shared / f"files-{event}")
        if event == "killed":
            killing.join()
        found[event] = {"files": files} | {name: scene.read_mark(name) for name in ("first", "second", "killed")}
    return found


def run_collection(engine: Spark, plan: Plan, frame: DataFrame, room: Path, shared: Path) -> dict[str, Any]:
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


def main(room: Path, shared: Path, master: str) -> None:
    """All of it, in one session."""
    warnings.simplefilter("ignore", FutureWarning)
    engine = Spark(master=master)
    found: dict[str, Any] = {"failures": check_contract(engine, shared), "seen": can_see_driver_files(engine, room)}
    frame = write_data(engine, shared)
    for name in ("krr-wide", "oue"):
        plan = Plan.load(room / f"plan-{name}.json")
        found[name] = run_collection(engine, plan, frame, room, shared)
    found["same"] = compare_shuffles(engine, Plan.load(room / "plan-oue.json"), frame, shared)
    engine.close()
    (room / "found.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
