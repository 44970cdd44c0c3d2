"""Planned errors, stated beside those of a trusted curator, against the errors of real collections.

    .venv/bin/python benchmarks/curator.py [--goals 1,3] [--engine embedded|spark|both|none] [--collections N]
                                           [--minutes 3] [--json FILE]

A row for each goal. Four columns have the errors found by ``simulate``; from real messages that were encoded, packed,
unpacked and added up, with no collection around them, which are many; by whole collections in this process; and on
Spark. Each tells the root mean square error over the promised one, how many 95% intervals hold the truth, and from
how many collections. Users and truth are made up here, the former evenly spread, as the promise is stated.

± is one standard deviation: the spread of single collections, as simulated, over the root of their number. Below the
table stands what is off by more than two of them: a ratio beyond 0.95 … 1.05, or a share beyond 93% … 97%.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import shuffledp as sdp
from shuffledp._core.validation import Array, Floats
from shuffledp.collection import batch_processing
from shuffledp.collection.engine import ENGINE_NAMES, Engine, open_engine
from shuffledp.collection.report import Report
from shuffledp.planning.mechanism_calibration import Candidate
from shuffledp.tasks.base import Task

CONFIDENCE = 0.95
MASTER = "local[1]"
SEED = 1
BEAT = 5.0
"""Seconds between two signs of life."""
SIDE = 6
"""Cells of the map along each axis."""
WIDE, LOW, HIGH, DEVIATIONS = 0.05, 0.93, 0.97, 2.0
"""How far a ratio may be from 1, between what a share may be, and how sure we are that it is not."""
HEADS = ("goal", "mechanism", "× curator", "messages", "simulated", "messages alone", *ENGINE_NAMES)


@dataclass(frozen=True)
class Goal:
    """A plan, and the number of its collections."""

    words: str
    task: Task
    users: int
    epsilon: float
    delta: float
    mechanism: str
    alone: int
    embedded: int
    spark: int
    asked: Mapping[str, Any] = field(default_factory=lambda: {"rests_on": "shuffler"})
    simulated: int = 1000

    def offer(self) -> Candidate:
        """The winner."""
        return sdp.plan(
            self.task, users=self.users, epsilon=self.epsilon, delta=self.delta, mechanism=self.mechanism, **self.asked
        ).best


def goals() -> dict[int, Goal]:
    """Returns the goals with these numbers."""
    tasks, few, local = sdp.tasks, {"rests_on": "shuffler", "max_messages": 1.7}, {"rests_on": "local"}
    mean, wide, vectors = tasks.Mean(0, 1), tasks.Ranges(1024), tasks.UnitVectorMean(64)
    places = tasks.Location(0, 1, 0, 1, SIDE)
    made = (
        Goal("mean, 1e6 users", mean, 10**6, 1, 1e-8, "split-and-mix", 1000, 5, 2, simulated=4000),
        Goal("mean, 1e4 users", mean, 10**4, 1, 1e-8, "split-and-mix", 2000, 300, 40, simulated=4000),
        Goal("1,024 options, 1e6 users", tasks.Frequency(1024), 10**6, 1, 1e-9, "cancelling-noise", 100, 20, 3, few),
        Goal("104 options, 327,346 users", tasks.Frequency(104), 327_346, 1, 1e-8, "cancelling-noise", 200, 40, 5),
        Goal("ranges of 1,024, 1e7 users", wide, 10**7, 4, 1e-14, "cancelling-tree", 100, 20, 1),
        Goal("the same, few messages", wide, 10**7, 4, 1e-14, "cancelling-noise", 300, 30, 1, few),
        Goal("64-d vectors, 1e5 users", vectors, 10**5, 1, 1e-6, "split-and-mix-vector", 20, 3, 1, simulated=20),
        Goal("36 places, 2e4 users, local ε", places, 20_000, 1, 1e-7, "mix-dump", 1000, 40, 5, local),
        Goal("ranges of 64, 2e4 users, local ε", tasks.Ranges(64), 20_000, 1, 1e-7, "mix-dump", 1000, 40, 5, local),
    )  # fmt: skip
    return dict(enumerate(made, 1))


# --- users, and the truth about them --------------------------------------------------------------------------------


def people(goal: Goal) -> tuple[pa.Array, Floats]:
    """A row for each user, evenly spread, and what there is to find."""
    rng, users, task = np.random.default_rng(SEED), goal.users, goal.task
    if isinstance(task, sdp.tasks.UnitVectorMean):
        vectors = rng.standard_normal((users, task.dimension))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return lists(vectors), vectors.mean(axis=0)
    if isinstance(task, sdp.tasks.Location):
        places = rng.random((users, 2))
        x, y = np.floor(SIDE * places.T).astype(np.int64)
        return lists(places), np.bincount(SIDE * y + x, minlength=SIDE**2).astype(np.float64)
    if isinstance(task, sdp.tasks.Frequency):
        options = rng.integers(0, task.count, users, dtype=np.int32)
        return pa.array(options), np.bincount(options, minlength=task.count).astype(np.float64)
    numbers = rng.random(users)
    return pa.array(numbers), np.array([numbers.mean()])


def lists(values: Array) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


# --- what is found --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One collection: its mean squared error over the promised one, and the share of intervals that hold the truth."""

    square: float
    inside: float

    @classmethod
    def of(cls, errors: Floats, margins: Floats, promised: float) -> Trial:
        return cls(float(np.mean((errors / promised) ** 2)), float(np.mean(np.abs(errors) <= margins)))


def columns(trials: list[Trial]) -> tuple[list[float], list[float]]:
    """All squares, and all shares."""
    return [each.square for each in trials], [each.inside for each in trials]


@dataclass(frozen=True)
class Found:
    """Several trials, and the spread of one."""

    ratio: float
    ratio_deviation: float
    covered: float
    covered_deviation: float
    collections: int

    @classmethod
    def of(cls, trials: list[Trial], like: list[Trial]) -> Found:
        """The spread is that of ``find_similar_population``: many trials of the same law."""
        root = math.sqrt(len(trials))
        square, covered = (float(np.mean(each)) for each in columns(trials))
        usual, _ = (float(np.mean(each)) for each in columns(like))
        squares, shares = (float(np.std(each, ddof=1)) for each in columns(like))
        # Half as much, relatively, as the squares.
        doubt = squares / root / 2 / math.sqrt(usual)
        return cls(math.sqrt(square), doubt, covered, shares / root, len(trials))

    def cell(self) -> str:
        ratio, share = f"{self.ratio:.3f} ± {self.ratio_deviation:.3f}", f"{self.covered:.1%}"
        return f"{ratio}; {share} ± {100 * self.covered_deviation:.1f}; {self.collections:,}"

    def complaints(self) -> list[str]:
        """Returns the deviations that are not due to chance."""
        far = abs(self.ratio - 1) - WIDE > DEVIATIONS * self.ratio_deviation
        beyond = max(LOW - self.covered, self.covered - HIGH) > DEVIATIONS * self.covered_deviation
        return ["the error is not the promised one"] * far + ["intervals do not hold what they promise"] * beyond


def in_report(report: Report, truth: Floats, promised: float) -> Trial:
    """One collection, read from its report."""
    task, told = report.guarantee.plan.task, report.quantities[0]
    if isinstance(task, sdp.tasks.Ranges):
        # The ranges for which the error is stated; their ends are not in them.
        asked = [report.range(low, high - 1) for low, high in task.sample_ranges]
        margins = np.array([(each.high - each.low) / 2 for each in asked])
        counts = [truth[low:high].sum() for low, high in task.sample_ranges]
        return Trial.of(np.array([each.value for each in asked]) - counts, margins, promised)
    assert told.low is not None, "all of these have intervals"
    assert told.high is not None
    return Trial.of(told.value - truth, (told.high - told.low) / 2, promised)


def simulated(offer: Candidate, seed: int) -> Trial:
    outcome = sdp.simulate(offer.plan, repeats=1, seed=seed)
    # Where fewer users are simulated than were planned, against what is expected of so many.
    return Trial(outcome.ratio**2, outcome.covered)


def alone(offer: Candidate, values: Array, truth: Floats) -> Trial:
    """Messages without a collection: the operating system's randomness, through bytes and back."""
    mechanism, total = offer.mechanism, None
    step = batch_processing.rows_per_chunk(mechanism)
    for start in range(0, len(values), step):
        wire = mechanism.pack(mechanism.encode(values[start : start + step]))
        part = mechanism.accumulate(mechanism.unpack(wire))
        total = part if total is None else total + part
    assert total is not None, "there are users"
    estimate = mechanism.finish(total, len(values))
    # All these tasks count in the unit of the mechanism.
    return Trial.of(
        *offer.goal.task.compute_errors_and_margins(mechanism, estimate, truth, CONFIDENCE), offer.standard_error
    )


def collected(offer: Candidate, engine: Engine, data: Path, truth: Floats, number: int) -> Trial:
    """One whole collection."""
    out = data.with_name(f"out-{number}")
    try:
        report = sdp.collect(offer.plan, data, "value", out=out, engine=engine)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return in_report(report, truth, offer.standard_error)


# --- the table ------------------------------------------------------------------------------------------------------


def repeated(name: str, work: Callable[[int], Trial], times: int, minutes: float) -> list[Trial]:
    """Returns this many trials, or as many as the time allows, but at least two if two are wanted."""
    found: list[Trial] = []
    begun = told = time.monotonic()
    while len(found) < times and (len(found) < 2 or time.monotonic() - begun < 60 * minutes):
        found.append(work(len(found)))
        now = time.monotonic()
        last = len(found) == times or now - begun >= 60 * minutes
        if last or now - told > BEAT:
            told = now
            line = f"{name}: {len(found):,} of {times:,}, {now - begun:.0f} s"
            print(f"\r{line:60}", end="\n" if last else "", file=sys.stderr, flush=True)
    return found


def measured(number: int, goal: Goal, engines: Mapping[str, Engine], asked: argparse.Namespace) -> dict[str, Any]:
    """All that is found out about one goal."""
    offer = goal.offer()
    users, truth = people(goal)
    values = offer.plan.column("value").read_values(users)
    works: dict[str, tuple[Callable[[int], Trial], int]] = {
        "simulated": (lambda seed: simulated(offer, seed), goal.simulated),
        "alone": (lambda _: alone(offer, values, truth), goal.alone),
    }
    with tempfile.TemporaryDirectory(prefix="shuffledp-") as room:
        data = Path(room) / "data.parquet"
        pq.write_table(pa.table({"value": users}), data)
        for name, engine in engines.items():
            times = getattr(goal, name) if asked.collections is None else asked.collections
            works[name] = (partial(collected, offer, engine, data, truth), times)
        trials = {
            name: repeated(f"{number}, {name}", work, times, asked.minutes) for name, (work, times) in works.items()
        }
    return {
        "number": number,
        "goal": goal.words,
        "mechanism": offer.name,
        "standard_error": offer.standard_error,
        "times_curator": offer.curator_error_ratio,
        "messages": offer.messages,
        "found": {name: Found.of(each, trials["simulated"]) for name, each in trials.items() if each},
    }


def row(found: Mapping[str, Any]) -> str:
    kinds = ("simulated", "alone", *ENGINE_NAMES)
    cells = [found["found"][kind].cell() if kind in found["found"] else "–" for kind in kinds]
    known = [f"{found['times_curator']:.3f}", f"{found['messages']:.2f}"]
    return " | ".join(["", f"{found['number']}. {found['goal']}", found["mechanism"], *known, *cells, ""]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goals", default=",".join(map(str, goals())), help="their numbers")
    parser.add_argument("--engine", choices=[*ENGINE_NAMES, "both", "none"], default="both")
    parser.add_argument("--collections", type=int, help="how many on each engine; by default each goal's own number")
    parser.add_argument("--minutes", type=float, default=3.0, help="most for each number of a row")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    names = {"both": ENGINE_NAMES, "none": ()}.get(asked.engine, (asked.engine,))
    print(row_of_heads := "| " + " | ".join(HEADS) + " |", "|---" * row_of_heads.count(" | ") + "|---|", sep="\n")
    told, off = [], []
    with open_engine("embedded") as here, open_engine("spark", master=MASTER) as spark:
        engines = {name: {"embedded": here, "spark": spark}[name] for name in names}
        for number in map(int, asked.goals.split(",")):
            found = measured(number, goals()[number], engines, asked)
            print(row(found), flush=True)
            for kind, each in found["found"].items():
                off += [f"{number}, {kind}: {complaint}." for complaint in each.complaints()]
            told.append(found | {"found": {kind: vars(each) for kind, each in found["found"].items()}})
            if asked.json:
                asked.json.write_text(json.dumps(told, indent=1) + "\n")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("", *(off or ["Nothing is off."]), f"At most {memory:,.0f} MB, without Spark's own.", sep="\n")


if __name__ == "__main__":
    main()
