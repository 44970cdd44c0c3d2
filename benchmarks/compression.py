"""Speed of encoding and reading short messages: PI-RAPPOR, projective geometry response, compressed randomizers.

    .venv/bin/python benchmarks/compression.py [--users 1e6] [--vectors 4000] [--json FILE]

Times are processor time, medians over repetitions; the compared programs alternate in one run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

import shuffledp as sdp
from shuffledp.sampling import hashing

SEED = 1


@dataclass(frozen=True)
class Line:
    """One measured quantity, and the bar that it is held against."""

    what: str
    value: float
    unit: str
    bar: str = ""
    met: bool | None = None


def alternating(steps: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median processor seconds of each step, the steps taking turns; a first round warms up and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repetitions + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if turn:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def pi_rappor(users: int, repetitions: int) -> list[Line]:
    mechanism = sdp.PIRAPPOR(epsilon=2.0, options=1024)
    values = np.random.default_rng(SEED).integers(0, 1024, users)
    messages = mechanism.encode(values)
    naive = (mechanism.field_size, mechanism.arc, mechanism.options)
    took = alternating(
        {
            "encode": lambda: mechanism.encode(values),
            "decode": lambda: mechanism.estimate(messages),
            "one": lambda: mechanism.estimate_some(messages, [5]),
            "naive": lambda: hashing.supports_of_lines(messages, *naive),
        },
        repetitions,
    )
    rate, ratio = users / took["encode"] / 1e6, took["naive"] / took["decode"]
    return [
        Line(f"PI-RAPPOR, 1024 options, {mechanism.message_bits} bits: encode", rate, "M/s", "≥ 10", rate >= 10),
        Line("PI-RAPPOR: whole histogram", took["decode"] * 1e3, "ms", "≤ 50", took["decode"] <= 0.05),
        Line("PI-RAPPOR: whole histogram against line by line", ratio, "times", "≥ 20", ratio >= 20),
        Line("PI-RAPPOR: one option", took["one"] * 1e3, "ms"),
    ]


def projective_geometry(users: int, repetitions: int) -> list[Line]:
    mechanism = sdp.ProjectiveGeometry(epsilon=5.0, options=22_000)
    values = np.random.default_rng(SEED).integers(0, 22_000, users)
    messages = mechanism.encode(values)
    took = alternating(
        {"encode": lambda: mechanism.encode(values), "decode": lambda: mechanism.estimate(messages)}, repetitions
    )
    what = f"Projective geometry, 22,000 options, {mechanism.message_bits} bits"
    return [
        Line(f"{what}: encode", users / took["encode"] / 1e6, "M/s"),
        Line(f"{what}: whole histogram", took["decode"] * 1e3, "ms", "≤ 60", took["decode"] <= 0.06),
    ]


def seeds_of_vectors(vectors: int, repetitions: int) -> list[Line]:
    compressed = sdp.Compressed(sdp.PrivUnitG(epsilon=4.0, dimension=1024))
    values = np.random.default_rng(SEED).normal(size=(vectors, 1024))
    values /= np.linalg.norm(values, axis=1)[:, None]
    seeds = compressed.encode(values)
    took = alternating(
        {"encode": lambda: compressed.encode(values), "decode": lambda: compressed.estimate(seeds)}, repetitions
    )
    rate, expected = vectors / took["encode"], compressed.inner_proposal.ratio
    what = f"Compressed PrivUnitG, ε = 4, d = 1024, {compressed.message_bits} bits, about {expected:.0f} tries"
    return [
        Line(f"{what}: encode", rate, "/s", "≥ 3,000", rate >= 3000),
        Line(f"{what}: expand and add up", vectors / took["decode"], "/s"),
    ]


def runs_of_seeds(vectors: int, repetitions: int) -> list[Line]:
    once = sdp.Compressed(sdp.PrivUnitG(epsilon=8.0, dimension=1024))
    twice = sdp.Repeated(sdp.Compressed(sdp.PrivUnitG(epsilon=4.0, dimension=1024)), runs=2)
    values = np.random.default_rng(SEED).normal(size=(vectors, 1024))
    values /= np.linalg.norm(values, axis=1)[:, None]
    lines = []
    for what, mechanism, bar in (("one run", once, None), ("two runs", twice, 0.2177)):
        error = float(mechanism.variance(values[:1]).sum() / 1024)
        met = None if bar is None else error <= bar
        name = f"Compressed PrivUnitG, ε = 8, d = 1024, {what}, {mechanism.message_bits} bits: error over d"
        lines.append(Line(name, error, "", "" if bar is None else f"≤ {bar}", met))
    took = alternating({"once": lambda: once.encode(values), "twice": lambda: twice.encode(values)}, repetitions)
    ratio = took["once"] / took["twice"]
    return [
        *lines,
        Line("One run: encode", vectors / took["once"], "/s"),
        Line("Two runs: encode", vectors / took["twice"], "/s"),
        Line("Two runs: encode, against one run", ratio, "times faster", "≥ 5", ratio >= 5),
    ]


def seeds_of_bits(users: int, repetitions: int) -> list[Line]:
    lines = []
    values = np.random.default_rng(SEED).integers(0, 1024, users)
    for prg in ("aes-ctr", "chacha20", "shake128"):
        compressed = sdp.Compressed(sdp.RAPPOR(epsilon=2.0, options=1024), prg=prg)
        short = sdp.Compressed(sdp.PIRAPPOR(epsilon=2.0, options=1024), prg=prg)
        for what, wrapped in (("RAPPOR, 1024 options", compressed), ("PI-RAPPOR, 1024 options", short)):
            took = alternating({"encode": lambda wrapped=wrapped: wrapped.encode(values)}, repetitions)
            bits = wrapped.message_bits
            lines.append(Line(f"Compressed {what}, {prg}, {bits} bits: encode", users / took["encode"], "/s"))
    return lines


def show(lines: list[Line]) -> None:
    table = Table("what", "measured", "bar", "", box=MARKDOWN)
    for line in lines:
        verdict = "" if line.met is None else "met" if line.met else "NOT MET"
        digits = 1 if line.unit else 4
        table.add_row(line.what, f"{line.value:,.{digits}f} {line.unit}".rstrip(), line.bar, verdict)
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=float, default=1e6)
    parser.add_argument("--vectors", type=float, default=4000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the measurements here too")
    asked = parser.parse_args()
    users, vectors = int(asked.users), int(asked.vectors)
    lines = pi_rappor(users, asked.repetitions) + projective_geometry(users, asked.repetitions)
    lines += seeds_of_vectors(vectors, asked.repetitions)
    lines += runs_of_seeds(max(1, vectors // 10), asked.repetitions)
    lines += seeds_of_bits(max(1, users // 100), asked.repetitions)
    show(lines)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(line) for line in lines], ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
