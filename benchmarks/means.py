"""Means of vectors in the unit ball: how fast vectors are encoded and added up, how large the error is, what is sent.

    python benchmarks/means.py [--dimension D] [--users N] [--json FILE]

Processor time, medians of alternating runs. Drawing d normal numbers a user with numpy's own generator is measured in
the same rounds: no sampler of points on a sphere does with less, and the last column says how many times that is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.mechanisms.combined.repeated import Repeated
from shuffledp.mechanisms.vector.privunit import PrivUnit, PrivUnitOptimized
from shuffledp.mechanisms.vector.privunit_g_and_privhs import PrivHS, PrivUnitG
from shuffledp.mechanisms.vector.sqkr import SQKR

EPSILONS = (1.0, 4.0, 8.0)
SLOW = 8
"""SQKR and PrivUnitG, which try again and again, get this many times fewer users."""


@dataclass(frozen=True)
class Row:
    """One mechanism at one ε; rates are users per second of processor time."""

    mechanism: str
    epsilon: float
    error_over_dimension: float
    message_bytes: int
    encodes: float
    accumulates: float
    times_the_normal_numbers: float


def seconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def instances(epsilon: float, dimension: int) -> list[tuple[Any, int]]:
    """Returns each mechanism, and the factor by which it is measured with fewer users."""
    return [
        (PrivUnitOptimized(epsilon, dimension), 1),
        (PrivUnit(epsilon, dimension), 1),
        (PrivHS(epsilon, dimension), 1),
        (Repeated(PrivHS(epsilon / 4, dimension), 4), 4),
        (PrivUnitG(epsilon, dimension), SLOW),
        (SQKR(epsilon, dimension), SLOW),
    ]


def measure(mechanism: Any, values: Any, rounds: int) -> Row:
    rng = np.random.default_rng(2)
    numbers = np.empty((64, values.shape[1]))
    messages = mechanism.encode(values[:64])
    steps: dict[str, Callable[[], Any]] = {
        "encode": lambda: mechanism.encode(values),
        "normal": lambda: [rng.standard_normal(out=numbers) for _ in range(-(-len(values) // 64))],
        "accumulate": lambda: mechanism.accumulate(messages),
    }
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, action in steps.items():
            found[name].append(seconds(action))
    middle = {name: statistics.median(times) for name, times in found.items()}
    error = float(mechanism.variance(values[:1]).sum()) / values.shape[1]
    rates = len(values) / middle["encode"], 64 / max(middle["accumulate"], 1e-9)
    times = middle["encode"] / middle["normal"]
    return Row(mechanism.name, mechanism.epsilon, error, mechanism.message_bytes, *rates, times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and error of the means of vectors in the unit ball.")
    parser.add_argument("--dimension", type=int, default=1024)
    parser.add_argument("--users", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    choice = parser.parse_args()
    vectors = np.random.default_rng(1).normal(size=(choice.users, choice.dimension))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    print("| mechanism | ε | error/d | bytes | encodes/s | added up/s | × the normal numbers |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for epsilon in EPSILONS:
        for mechanism, fewer in instances(epsilon, choice.dimension):
            row = measure(mechanism, vectors[: max(64, choice.users // fewer)], choice.rounds)
            rows.append(row)
            print(
                f"| {row.mechanism} | {row.epsilon:g} | {row.error_over_dimension:.4g} | {row.message_bytes:,} "
                f"| {row.encodes:,.0f} | {row.accumulates:,.0f} | {row.times_the_normal_numbers:.2g} |",
                flush=True,
            )
    if choice.json:
        choice.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")


if __name__ == "__main__":
    main()
