"""The share of true values within their intervals, for every task, over repeated collections.

Data are skewed, with labels that hardly anybody holds, lists of different lengths and numbers at the ends of their
range. Truths are counted from the rows without using the package. A line is printed for each quantity of each task and
mechanism: the share of truths within 95% intervals (or those of --confidence) over all runs and labels, with its
standard error, and the label that is covered the least.

    .venv/bin/python benchmarks/coverage.py --repeat 400 --users 2000
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Any

import numpy as np
import pyarrow as pa

import shuffledp as sdp
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.sampling.random_sources import resolve_source
from shuffledp.tasks import (
    Count,
    Frequency,
    HeavyHitters,
    HittersAtOnce,
    ItemSets,
    KeyValue,
    Location,
    Marginals,
    Mean,
    OverTime,
    Ranges,
    Sum,
    Survey,
    Task,
    UnitVectorMean,
    Variance,
    VectorMean,
)
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import Intervals

Truth = dict[tuple[str, str, str], float]
"""What is true of each question, quantity and label."""
KEYS = ("tea", "milk", "wine", "beer", "rum")
SHARES = (0.5, 0.3, 0.15, 0.04, 0.01)
SIDES = Intervals((30, 2700), (60, 6300), ("bill", "mass"))
DAYS = tuple(f"2026-03-{day:02d}" for day in range(1, 21))


@dataclass(frozen=True)
class Study:
    """A task, people who answer it, what is true of them, and the mechanisms that are tried for so many users."""

    name: str
    task: Task
    rows: Callable[[np.random.Generator, int], dict[str, list[Any]]]
    truth: Callable[[Task, dict[str, list[Any]]], Truth]
    mechanisms: Callable[[int], Sequence[Mechanism]]


# --- people -------------------------------------------------------------------------------------------------------


def drinks(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    return {"value": rng.choice(KEYS, users, p=SHARES).tolist()}


def several(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    """Returns zero to two drinks for each person."""
    sizes = rng.integers(0, 3, users)
    return {"value": [rng.choice(KEYS, size, replace=False, p=SHARES).tolist() for size in sizes]}


def rated(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    """Returns zero to two drinks for each person, each with a rating, many of them at the ends of the range."""
    held = several(rng, users)["value"]
    middle = dict(zip(KEYS, (4.5, 1.0, 2.5, 5.0, 0.0), strict=True))
    return {"value": [[{"key": key, "value": float(np.clip(rng.normal(middle[key], 1), 0, 5))} for key in one]
                      for one in held]}  # fmt: skip


def ages(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    """Returns ages, most of them low and some at the upper end."""
    return {"value": np.clip(rng.gamma(2, 12, users), 0, 100).tolist()}


def answers(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    return {"value": (rng.random(users) < 0.03).tolist()}


def birds(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    bills, masses = np.clip(rng.normal(38, 6, users), 30, 60), np.clip(rng.normal(6000, 500, users), 2700, 6300)
    return {"bill": bills.tolist(), "mass": masses.tolist()}


def directions(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    drawn = rng.normal(0.7, 1, (users, 5))
    return {"value": (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).tolist()}


def incomes(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    return {"value": np.clip(rng.gamma(2, 4, users), 0, 31).astype(int).tolist()}


def events(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    return {"value": [DAYS[day] for day in np.clip(rng.normal(5, 4, users), 0, 19).astype(int)]}


def homes(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    return {"x": np.clip(rng.normal(2, 1.5, users), 0, 9.99).tolist(), "y": rng.uniform(0, 5.99, users).tolist()}


def people(rng: np.random.Generator, users: int) -> dict[str, list[Any]]:
    return {"drink": drinks(rng, users)["value"], "age": ages(rng, users)["value"],
            "hour": rng.choice(6, users, p=(0.5, 0.3, 0.1, 0.1, 0, 0)).tolist()}  # fmt: skip


# --- what is true of them -----------------------------------------------------------------------------------------


def counts(task: Task, rows: dict[str, list[Any]]) -> Truth:
    held = Counter(map(str, rows["value"]))
    labels = [task.domain.label(option) for option in range(task.domain.size or 0)]
    return {("", "users", label): float(held[label]) for label in labels}


def of_sets(task: Task, rows: dict[str, list[Any]]) -> Truth:
    held = Counter(key for row in rows["value"] for key in row)
    return {("", "users", key): float(held[key]) for key in KEYS}


def of_pairs(task: Task, rows: dict[str, list[Any]]) -> Truth:
    by_key = {key: [pair["value"] for row in rows["value"] for pair in row if pair["key"] == key] for key in KEYS}
    users = {("", "users", key): float(len(numbers)) for key, numbers in by_key.items()}
    return users | {("", "mean", key): fmean(numbers) for key, numbers in by_key.items() if numbers}


def of_numbers(task: Task, rows: dict[str, list[Any]]) -> Truth:
    numbers = [float(number) for number in rows["value"]]
    return {("", "mean", "mean"): fmean(numbers), ("", "sum", "sum"): math.fsum(numbers),
            ("", "variance", "variance"): pvariance(numbers), ("", "users", "yes"): math.fsum(numbers)}  # fmt: skip


def of_vectors(task: Task, rows: dict[str, list[Any]]) -> Truth:
    if "value" in rows:
        return {("", "mean", str(place)): fmean(one) for place, one in enumerate(zip(*rows["value"], strict=True))}
    return {("", "mean", name): fmean(numbers) for name, numbers in rows.items()}


def up_to(task: Task, rows: dict[str, list[Any]]) -> Truth:
    """Returns the count of every node, and of all values up to each one."""
    labels = [task.domain.label(option) for option in range(task.domain.size or 0)]
    places = [labels.index(str(value)) for value in rows["value"]]
    found: Truth = {}
    for first, low in enumerate(labels):
        for last in range(first, len(labels)):
            name = low if last == first else f"{low} … {labels[last]}"
            found["", "users", name] = float(sum(first <= place <= last for place in places)) if last < 32 else 0.0
        found["", "users up to", low] = float(sum(place <= first for place in places))
    return found


def in_cells(task: Task, rows: dict[str, list[Any]]) -> Truth:
    """Returns the counts of the cells of 2 × 2 on a map of 10 × 6."""
    held = Counter((int(x // 2), int(y // 2)) for x, y in zip(rows["x"], rows["y"], strict=True))
    return {("", "users", f"{2 * x + 1:.6g}, {2 * y + 1:.6g}"): float(held[x, y]) for x in range(5) for y in range(3)}


def of_questions(task: Task, rows: dict[str, list[Any]]) -> Truth:
    """Counts of the first column and of the third, of both together, and the mean of the second."""
    found: Truth = {("age", "mean", "mean"): fmean(rows["age"])}
    drink, hour = Counter(rows["drink"]), Counter(map(str, rows["hour"]))
    both = Counter(zip(rows["drink"], map(str, rows["hour"]), strict=True))
    hours = [str(one) for one in range(6)]
    found |= {("drink", "users", key): float(drink[key]) for key in KEYS}
    found |= {("hour", "users", one): float(hour[one]) for one in hours}
    return found | {("drink × hour", "users", f"{key} × {one}"): float(both[key, one]) for key in KEYS for one in hours}


# --- the studies --------------------------------------------------------------------------------------------------

ASKED = Survey([("drink", Frequency(KEYS)), ("age", Mean(0, 100)), ("hour", Frequency(6))])
MAP = Location(0, 10, 0, 6, 5, 3)
STUDIES = (
    Study("frequency", Frequency(KEYS), drinks, counts,
          lambda n: [sdp.KRR(2.0, 5), sdp.OUE(1.0, 5), sdp.LocalHash(2.0, 5), sdp.HadamardResponse(2.0, 5),
                     sdp.PoissonDUMP(5, 20.0, n), sdp.PureDUMP(5, 20)]),
    Study("sets", ItemSets(KEYS, 2), several, of_sets,
          lambda n: [sdp.PrivSet(3.0, 7, 2), sdp.SamplingRAPPOR(3.0, 7, 2), sdp.Wheel(3.0, 7, 2)]),
    Study("key-value", KeyValue(KEYS, 0, 5, items=2), rated, of_pairs,
          lambda n: [sdp.PCKV(4.0, 5, 2), sdp.PrivKV(4.0, 5, items=2), sdp.Collision(4.0, 7, 2)]),
    Study("mean", Mean(0, 100), ages, of_numbers,
          lambda n: [sdp.Laplace(2.0), sdp.Piecewise(2.0), sdp.Duchi(2.0, 1), sdp.Gaussian(1.0)]),
    Study("sum", Sum(0, 100), ages, of_numbers, lambda n: [sdp.Laplace(2.0), sdp.Piecewise(2.0)]),
    Study("count", Count(), answers, of_numbers, lambda n: [sdp.Laplace(2.0), sdp.Duchi(2.0, 1)]),
    Study("variance", Variance(0, 100), ages, of_numbers, lambda n: [sdp.Harmony(2.0, 2), sdp.Duchi(2.0, 2)]),
    Study("vector mean", VectorMean(2, SIDES), birds, of_vectors, lambda n: [sdp.Harmony(2.0, 2), sdp.Duchi(2.0, 2)]),
    Study("vectors of length 1", UnitVectorMean(5), directions, of_vectors,
          lambda n: [sdp.PrivUnit(3.0, 5), sdp.SQKR(3.0, 5), sdp.GaussianVector(2.0, 5)]),
    Study("location", MAP, homes, in_cells,
          lambda n: [sdp.KRR(3.0, 15), sdp.OUE(2.0, 15),
                     sdp.PlanarLaplace(3.0, east=10.0, north=6.0, columns=5, rows=3)]),
    Study("ranges", Ranges(32), incomes, up_to,
          lambda n: [sdp.RangeTree(32, 20.0, n), sdp.RangeQueries(3.0, 5), sdp.OUE(2.0, 32)]),
    Study("counts over time", OverTime(DAYS), events, up_to, lambda n: [sdp.RangeTree(20, 20.0, 0)]),
    Study("survey", ASKED, people, of_questions,
          lambda n: [sdp.AllAnswered([sdp.KRR(2.0, 5), sdp.Laplace(2.0), sdp.KRR(2.0, 6)]),
                     sdp.Parallel([sdp.KRR(2.0, 5), sdp.Laplace(2.0), sdp.KRR(2.0, 6)])]),
    Study("marginals", Marginals({"drink": KEYS, "hour": 6}, ways=2), people, of_questions,
          lambda n: [sdp.AllAnswered([sdp.OUE(2.0, 30)])]),
)  # fmt: skip


@dataclass(frozen=True)
class Covered:
    """The share of intervals of one quantity that contain the truth: runs × labels, without suppressed ones."""

    study: str
    mechanism: str
    quantity: str
    labels: tuple[str, ...]
    inside: Any
    told: Any

    @property
    def share(self) -> float:
        return float(self.inside.sum() / self.told.sum())

    @property
    def error(self) -> float:
        """The standard error of the share; labels of one run are correlated."""
        each = self.inside.sum(axis=1) / np.maximum(self.told.sum(axis=1), 1)
        return float(each.std() / math.sqrt(len(each)))

    @property
    def worst(self) -> tuple[str, float]:
        """The label that was covered the least, of those that were told in half of the runs."""
        often = self.told.sum(axis=0) >= len(self.told) / 2
        shares = np.where(often, self.inside.sum(axis=0) / np.maximum(self.told.sum(axis=0), 1), 1.0)
        place = int(shares.argmin())
        return self.labels[place], float(shares[place])


def covered(study: Study, mechanism: Mechanism, users: int, repeat: int, seed: int, confidence: float) -> list[Covered]:
    """Returns each quantity of one task by one mechanism, over repeated collections from the same people."""
    rng = np.random.default_rng(seed)
    rows = study.rows(rng, users)
    truth, names = (
        study.truth(study.task, rows),
        study.task.resolve_columns(() if study.task.questions else tuple(rows)),
    )
    arrays = [pa.array(rows[name]) for name in names]
    array = arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, list(names))
    column = ColumnReader(names, study.task, mechanism)
    found: dict[tuple[str, str], tuple[tuple[str, ...], list[Any], list[Any]]] = {}
    for _ in range(repeat):
        values = column.read_values(array, resolve_source(rng))
        total = mechanism.accumulate(mechanism.encode(values, rng))
        drawn = mechanism.draw_shuffler_messages(resolve_source(rng))
        total = total if drawn is None else total + mechanism.accumulate(drawn)
        for one in column.quantities(mechanism.finish(total, users), confidence):
            assert one.low is not None
            assert one.high is not None
            wanted = np.array([truth[one.question, one.name, label] for label in one.labels])
            _, inside, told = found.setdefault((one.question, one.name), (one.labels, [], []))
            told.append(~np.isnan(one.value))
            # What is exact is within rounding of the truth.
            slack = 1e-9 * np.maximum(np.abs(wanted), 1.0)
            inside.append(told[-1] & (one.low - slack <= wanted) & (wanted <= one.high + slack))
    return [Covered(study.name, mechanism.name, ": ".join(filter(None, name)), labels, np.array(inside), np.array(told))
            for name, (labels, inside, told) in found.items()]  # fmt: skip


def searches(repeat: int, confidence: float) -> Iterator[tuple[str, str, float]]:
    """Searches on made-up users, by the law of their counts: name, mechanism and what intervals of finds cover."""
    for task, rounds in ((HeavyHitters(bits=16), 3), (HittersAtOnce(bits=16), 1)):
        ranking = sdp.plan(task, users=100_000, epsilon=1.0, delta=1e-8, rounds=rounds, rests_on="shuffler")
        outcome = sdp.simulate(ranking.best.plan, repeats=repeat, confidence=confidence)
        yield task.name, ranking.best.plan.mechanism.name, outcome.covered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--task", nargs="*", help="only these")
    given = parser.parse_args()
    print("| task | mechanism | quantity | covered | ± | least covered label |\n|---|---|---|---|---|---|")
    for study in STUDIES:
        if given.task and study.name not in given.task:
            continue
        for mechanism in study.mechanisms(given.users):
            for one in covered(study, mechanism, given.users, given.repeat, given.seed, given.confidence):
                label, share = one.worst
                print(f"| {study.name} | {mechanism.name} | {one.quantity} | {one.share:.2%} | {one.error:.2%} "
                      f"| {label}: {share:.1%} |", flush=True)  # fmt: skip
    if not given.task or "search" in given.task:
        for name, mechanism_name, share in searches(min(given.repeat, 50), given.confidence):
            print(f"| {name} | {mechanism_name} | users | {share:.2%} | | |", flush=True)


if __name__ == "__main__":
    main()
