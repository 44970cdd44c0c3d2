"""Split and mix beside pure-dump: what a user and the server spend, measured in one run.

    .venv/bin/python benchmarks/sums.py [--users 200000] [--repeats 5]

Processor time, medians; the settings are those of a plan for (1, 1e-8), or (1, 1e-6) for vectors.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

import shuffledp as sdp

PLANNED = 1_000_000
DIMENSION = 64


def mechanisms(users: int) -> Iterator[tuple[str, Any, Any, int]]:
    """Returns each mechanism with values of its users, and their number."""
    rng = np.random.default_rng(1)
    yield "pure-dump, 1,024 options", sdp.PureDUMP(options=1024), rng.integers(0, 1024, users), users
    design = next(sdp.SplitAndMix.designs({}, PLANNED, 1.0, 1e-8, 1))
    yield f"split-and-mix, n = {PLANNED:,}", sdp.SplitAndMix(**design), rng.uniform(0, 1, users), users
    facts, few = {"dimension": DIMENSION, "shape": "ball"}, max(1, users // 100)
    design = next(sdp.SplitAndMixVector.designs(facts, PLANNED, 1.0, 1e-6, 1))
    vectors = rng.standard_normal((few, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    yield f"split-and-mix-vector, d = {DIMENSION}", sdp.SplitAndMixVector(**design), vectors, few


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """The median of the processor time."""
    taken = []
    for _ in range(repeats):
        begun = time.process_time()
        run()
        taken.append(time.process_time() - begun)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=lambda text: int(float(text)), default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    table = Table(box=MARKDOWN)
    for title in (
        "mechanism",
        "messages a user",
        "client, ns a user",
        "ns a message",
        "server, ns a user",
        "ns a message",
    ):
        table.add_column(title)
    for name, mechanism, values, users in mechanisms(given.users):
        messages = mechanism.encode(values)
        each = mechanism.messages_per_user
        spent = [
            1e9 * seconds(run, given.repeats) / users
            for run in (lambda: mechanism.encode(values), lambda: mechanism.accumulate(messages))  # noqa: B023
        ]
        cells = [f"{cost:,.1f}" for one in spent for cost in (one, one / each)]
        table.add_row(name, f"{each:g}", *cells)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
