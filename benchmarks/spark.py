"""Collections over data frames beside Spark's own counting: processor time, rows a second, memory of driver and worker.

    .venv/bin/python -m benchmarks.spark [--rows 1e7] [--mechanism krr|oue] [--options 1024] [--files 10000] [--json]

A standalone cluster on this machine: a master and two workers with a core each. The data are written by the cluster
first, and all is run once on a hundredth of them, as Java is slow at first. "plain" is ``groupBy().count()`` of the
same column in the same session; processor times are those of the driver, the workers and all that they started. With
``--files`` there are as many files, of a row each, instead.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions as F

import shuffledp as sdp
from shuffledp.spark.engine import BATCH_BYTES_SETTING
from tests.collection import standalone_cluster

BAR = 4.0
"""Processor times of KRR over those of plain counting, at the most."""


class Watch:
    """Processor time and memory of a process and all that it starts, by kind, looked at twice a second.

    The last that was seen of a process counts: some are ended by whoever does not wait for them.
    """

    KINDS = ("driver", "driver's Java", "executor", "executor's Python", "cluster")

    def __init__(self, workers: tuple[int, ...]) -> None:
        self._workers = workers
        self._seconds: dict[tuple[int, str], tuple[str, float]] = {}
        self.megabytes = dict.fromkeys(self.KINDS, 0.0)
        self._own = 0.0
        """Of the driver's processor time what looking took."""
        threading.Thread(target=self._go_on, daemon=True).start()

    def _go_on(self) -> None:
        while True:
            self.look()
            self._own = time.thread_time()
            time.sleep(0.5)

    def look(self) -> None:
        """Measures every process once."""
        stats: dict[int, list[str]] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, rest = path.read_text().partition("(")[2].rpartition(")")
                stats[int(path.parent.name)] = [name, *rest.split()]
        for process, (name, _, _, *fields) in stats.items():
            kind = None
            with contextlib.suppress(OSError):
                kind = self._kind(process, name, stats)
            if kind is not None:
                spent = (int(fields[9]) + int(fields[10])) / os.sysconf("SC_CLK_TCK")
                self._seconds[process, fields[17]] = (kind, spent)
                with contextlib.suppress(OSError, IndexError):
                    told = Path(f"/proc/{process}/status").read_text().split("VmHWM:")[1]
                    self.megabytes[kind] = max(self.megabytes[kind], int(told.split()[0]) / 1024)

    def _kind(self, process: int, name: str, stats: dict[int, list[str]]) -> str | None:
        """Returns the kind of a process by its parent; None for other processes."""
        above = [process]
        while above[-1] in stats and above[-1] != os.getpid():
            above.append(int(stats[above[-1]][2]))
        if above[-1] != os.getpid():
            return None
        if len(above) == 1:
            return "driver"
        if not set(self._workers).isdisjoint(above[1:]):
            return "executor" if name == "java" else "executor's Python"
        is_ours = process in self._workers or Path(f"/proc/{above[-2]}/cmdline").read_bytes().find(b"Master") > 0
        return "cluster" if is_ours else "driver's Java"

    def seconds(self) -> dict[str, float]:
        """The processor seconds of all processes so far, by kind."""
        self.look()
        found = dict.fromkeys(self.KINDS, 0.0)
        for kind, spent in list(self._seconds.values()):
            found[kind] += spent
        found["driver"] -= self._own
        return found


def timed(work: Callable[[], Any], watch: Watch) -> dict[str, Any]:
    """Wall clock and processor seconds."""
    wall, before = time.perf_counter(), watch.seconds()
    work()
    wall, after = time.perf_counter() - wall, watch.seconds()
    kinds = {kind: after[kind] - before[kind] for kind in watch.KINDS}
    return {"wall": wall, "cpu": sum(kinds.values()), "kinds": kinds}


def plan_of(mechanism: str, options: int, rows: int) -> sdp.Plan:
    """A plan whose bound costs next to nothing: it is not what is measured."""
    made: sdp.Mechanism = sdp.KRR(0.5, options) if mechanism == "krr" else sdp.OUE(0.5, options)
    return sdp.Plan(sdp.tasks.Frequency(options), made, users=rows, epsilon=8.0, delta=1e-8, bound="efmrtt19")


def data(session: SparkSession, rows: int, options: int, place: str) -> DataFrame:
    """Numbers of options, written by the cluster."""
    value = F.pmod(F.xxhash64("id"), F.lit(options)).cast("int")
    session.range(0, rows, 1, 16).select(value.alias("value")).write.parquet(place)
    return session.read.parquet(place)


def small_files(session: SparkSession, rows: int, options: int, place: Path) -> DataFrame:
    """A row a file, as a stream that nobody tidied up leaves them."""
    place.mkdir()
    for number in range(rows):
        table = pa.table({"value": pa.array([number % options], pa.int32())})
        pq.write_table(table, place / f"{number:06d}.parquet")
    return session.read.parquet(f"file:{place}")


def measured(
    cluster: standalone_cluster.Cluster, mechanism: str, options: int, rows: int, room: Path, is_small: bool
) -> dict[str, Any]:
    """Plain counting, the three roles, and a whole collection."""
    engine = sdp.spark.Spark(master=cluster.master)
    # As docs/spark.md says of sessions for numbers; ``collect`` sets it by itself.
    engine.session.conf.set(BATCH_BYTES_SETTING, str((1 << 31) - 1))
    watch = Watch(cluster.workers)
    found: dict[str, Any] = {"mechanism": mechanism, "options": options, "rows": rows}
    for name, size in (("first", max(1000, rows // 100)), ("all", rows)):
        if is_small and name == "all":
            frame = small_files(engine.session, size, options, cluster.shared / name)
        else:
            frame = data(engine.session, size, options, f"file:{cluster.shared}/{name}")
        plan = plan_of(mechanism, options, size)

        def plain(frame: DataFrame = frame) -> None:
            frame.groupBy("value").count().collect()

        def roles(frame: DataFrame = frame, plan: sdp.Plan = plan) -> None:
            sdp.spark.estimate(sdp.spark.shuffle(sdp.spark.encode(frame, plan, "value")), plan)

        def whole(frame: DataFrame = frame, plan: sdp.Plan = plan, name: str = name) -> None:
            out, state = f"file:{cluster.shared}/out-{name}", room / f"state-{name}"
            report = sdp.spark.collect(frame, plan, "value", out=out, state=state, engine=engine)
            assert report.guarantee.users == plan.users, "everybody once"

        for step in (plain, roles, whole):
            found[step.__name__] = told = timed(step, watch)
            # What was measured is known even if the rest takes too long.
            print(f"{size:,} rows: {step.__name__} {told} {watch.megabytes}", file=sys.stderr, flush=True)
        found |= {f"MB, {name}": dict(watch.megabytes)}
    engine.close()
    return found


def main() -> int:
    """Prints the measurements; returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--mechanism", choices=("krr", "oue"), default="krr")
    parser.add_argument("--options", type=int, default=0)
    parser.add_argument("--files", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    options = given.options or {"krr": 1024, "oue": 128}[given.mechanism]
    with tempfile.TemporaryDirectory() as name:
        room, hidden = Path(name, "cluster"), Path(name, "driver")
        room.mkdir()
        hidden.mkdir()
        with standalone_cluster.run_cluster(room, hidden) as cluster:
            os.environ |= {"SPARK_CONF_DIR": str(cluster.configuration), "SPARK_LOCAL_IP": "127.0.0.1"}
            rows = given.files or int(given.rows)
            found = measured(cluster, given.mechanism, options, rows, hidden, bool(given.files))
    ratio = found["roles"]["cpu"] / found["plain"]["cpu"]
    if given.json:
        print(json.dumps(found | {"ratio": ratio}))
    else:
        print(f"{found['mechanism']}-{options}, {found['rows']:,} rows")
        for step in ("plain", "roles", "whole"):
            wall, cpu = found[step]["wall"], found[step]["cpu"]
            print(f"{step:6} {wall:8.1f} s  {cpu:8.1f} s of processors  {found['rows'] / wall:14,.0f} rows a second")
            print(" ".join(f"{kind} {spent:.1f} s" for kind, spent in found[step]["kinds"].items()))
        print(f"roles over plain: {ratio:.2f} (bar for krr: {BAR:g})")
        memory = (f"{kind} {most:,.0f} MB" for kind, most in found["MB, all"].items())
        print(f"largest process: {', '.join(memory)}")
    return int(given.mechanism == "krr" and not given.files and ratio > BAR)


if __name__ == "__main__":
    sys.exit(main())
