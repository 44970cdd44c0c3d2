"""Cancelling noise beside pure-dump: what a message costs client and server, in one run.

    .venv/bin/python benchmarks/cancelling.py [--users 1e6] [--collect 1e7]

Seconds of processor time, the least of several runs one after the other; what counts is the ratio. With ``--collect``
so many users are collected from end to end, and the most memory that took is shown.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

import shuffledp as sdp

REPEATS = 7


def least(work: Callable[[], object]) -> float:
    """The least processor time of several runs."""
    found = []
    for _ in range(REPEATS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def costs(mechanism: sdp.Mechanism, users: int) -> tuple[float, float]:
    """Nanoseconds a message: to encode it, and to read it."""
    values = np.random.default_rng(0).integers(0, mechanism.settings()["options"], users)
    messages = mechanism.encode(values)
    wire = mechanism.pack(messages)
    encoding = least(lambda: mechanism.encode(values))
    reading = least(lambda: mechanism.accumulate(mechanism.unpack(wire)))
    return 1e9 * encoding / len(messages), 1e9 * reading / len(messages)


def compared(users: int) -> Table:
    table = Table(box=MARKDOWN)
    for head in ("options", "messages a user", "encode, ns", "pure-dump", "ratio", "read, ns", "pure-dump", "ratio"):
        table.add_column(head, justify="right")
    for options in (16, 1 << 10, 1 << 20):
        # As many messages a user whatever the number of options: a hidden crowd of that many times more.
        honest = 1000 * options
        ours = sdp.CancellingNoise(options, rate=0.4, shape=30.0, ratio=0.9, honest=honest)
        own, other = costs(ours, users), costs(sdp.PureDUMP(options), users)
        sides = [cell for a, b in zip(own, other, strict=True) for cell in (f"{a:.1f}", f"{b:.1f}", f"{a / b:.2f}")]
        table.add_row(f"{options:,}", f"{ours.messages_per_user:.2f}", *sides)
    return table


def collected(users: int) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ranking = sdp.plan(
        sdp.tasks.Frequency(1024), users=users, epsilon=1.0, delta=1e-9, mechanism="cancelling-noise",
        rests_on="shuffler",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as room:
        path = Path(room) / "data.parquet"
        values = np.random.default_rng(1).integers(0, 1024, users)
        pq.write_table(pa.table({"value": values}), path)
        truth = np.bincount(values, minlength=1024)
        del values
        begun = time.process_time()
        report = sdp.collect(ranking.best.plan, path, "value", out=Path(room) / "out")
        spent = time.process_time() - begun
    error = float(np.sqrt(np.mean((report.estimate.value - truth) ** 2)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    promised = ranking.best.standard_error
    return f"{users:,} users: {spent:.1f} s, at most {memory:,.0f} MB; error {error:.3f}, promised {promised:.3f}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=float, default=1e6)
    parser.add_argument("--collect", type=float, default=0)
    asked = parser.parse_args()
    console = Console()
    console.print(compared(int(asked.users)))
    if asked.collect:
        console.print(collected(int(asked.collect)))


if __name__ == "__main__":
    main()
