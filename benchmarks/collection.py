"""Time and memory of whole collections: check, encode, shuffle, aggregate and report.

    .venv/bin/python benchmarks/collection.py [--rows 1e7] [--mechanism krr --options 1024] [--engine embedded]
                                              [--texts] [--master local[2]] [--directory DIR] [--json]

The data are written to a temporary file first. The collection runs in a process of its own, whose peak resident memory
is read from the system; for Spark it is that of the driver's Python only. Times are wall-clock times, and beside them,
because a machine is rarely idle, processor times of the process and the time of copying the input file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from alone import peak_megabytes

from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection.collect import collect
from shuffledp.collection.engine import open_engine
from shuffledp.mechanisms import catalogue
from shuffledp.planning.plan import Plan
from shuffledp.tasks import Frequency

BATCH = 1 << 20
BARS = {("krr", 10_000_000): (6.0, 500.0), ("krr", 100_000_000): (60.0, 1000.0)}
"""Seconds and megabytes, for 1024 options on the embedded engine."""


class Stopwatch(Progress):
    """Seconds of each step: wall clock, and processor time of this process."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, float]] = {}

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield lambda rows: None
        self.steps[name] = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def write_data(path: Path, rows: int, options: int, texts: bool) -> None:
    """Options as numbers, or as texts of a few letters; a few are frequent."""
    generator = np.random.default_rng(1)
    names = pa.array([f"option {number}" for number in range(options)])
    kind = pa.string() if texts else pa.int32()
    with pq.ParquetWriter(path, pa.schema([("value", kind)])) as file:
        for start in range(0, rows, BATCH):
            count = min(BATCH, rows - start)
            places = (options * generator.random(count) ** 3).astype(np.int32)
            file.write_table(pa.table({"value": names.take(pa.array(places)) if texts else pa.array(places)}))


def plan_of(mechanism: str, options: int, rows: int, texts: bool) -> Plan:
    task = Frequency([f"option {number}" for number in range(options)] if texts else options)
    return Plan(task, catalogue.build(mechanism, 4.0, {"options": options}), rows, 1.0, 1e-9)


def run_one(plan: Path, data: Path, out: Path, engine: str, master: str | None) -> dict[str, Any]:
    """One collection in this process."""
    base = peak_megabytes()
    watch = Stopwatch()
    with open_engine(engine, watch, master) as started:
        wall, cpu = time.perf_counter(), time.process_time()
        report = collect(plan, data, "value", out=out, engine=started)
        result = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {
        **result,
        "megabytes": peak_megabytes(),
        "megabytes_of_imports": base,
        "steps": watch.steps,
        "users": report.guarantee.users,
        "epsilon": report.guarantee.value.upper,
    }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Writes the data, runs a process on them, and compares the result with the bar."""
    rows = int(float(arguments.rows))
    with tempfile.TemporaryDirectory(dir=arguments.directory) as room:
        directory = Path(room)
        data, plan = directory / "data.parquet", directory / "plan.json"
        write_data(data, rows, arguments.options, arguments.texts)
        plan_of(arguments.mechanism, arguments.options, rows, arguments.texts).save(plan)
        begun = time.perf_counter()
        shutil.copyfile(data, directory / "copy")
        copying = time.perf_counter() - begun
        command = [sys.executable, __file__, "--run", plan, data, directory / "out", "--engine", arguments.engine]
        command += ["--master", arguments.master] if arguments.master else []
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        released = sum(path.stat().st_size for path in (directory / "out" / "messages").iterdir())
    found: dict[str, Any] = {
        "mechanism": arguments.mechanism,
        "options": arguments.options,
        "rows": rows,
        "input": "texts" if arguments.texts else "int32",
        "engine": arguments.engine,
        **json.loads(done.stdout),
        "cpu_of_all_processes": children.ru_utime + children.ru_stime,
        "copying_the_input": copying,
        "released_bytes": released,
        "load": os.getloadavg()[0],
    }
    bar = BARS.get((arguments.mechanism, rows)) if arguments.engine == "embedded" and not arguments.texts else None
    if bar is not None:
        met = found["seconds"] <= bar[0] and found["megabytes"] <= bar[1]
        found["bar"] = {"seconds": bar[0], "megabytes": bar[1], "met": met}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", default="1e7")
    parser.add_argument("--mechanism", default="krr")
    parser.add_argument("--options", type=int, default=1024)
    parser.add_argument("--engine", default="embedded")
    parser.add_argument("--master")
    parser.add_argument("--texts", action="store_true", help="categories as texts instead of numbers")
    parser.add_argument("--directory", help="where the temporary files go")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--run", nargs=3, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run_one(*arguments.run, arguments.engine, arguments.master)))
        return
    found = measure(arguments)
    if arguments.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:22} {value}")


if __name__ == "__main__":
    main()
