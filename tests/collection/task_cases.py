"""One small collection of every task, each run once: for tests of what is told of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import shuffledp as sdp
from shuffledp._core import plotting
from shuffledp.collection.report import Report
from shuffledp.tasks import (
    Count,
    Frequency,
    HeavyHitters,
    Intervals,
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
    Variance,
    VectorMean,
)
from tests import shared_results
from tests.cached_curves import cache_curves

USERS = 600
CITIES = ("Zürich", "東京", "القاهرة", "दिल्ली", "서울", "🚀 base", "$100", "=a|b <i>")
KEYS = ("ATL", "BOS", "LAX")
DAYS = tuple(str(np.datetime64("2026-01-01") + day) for day in range(20))
TABLE_AXES = Intervals((30, 2700), (60, 6300), ("bill (mm)", "mass (g)"))


@dataclass(frozen=True)
class TaskCase:
    """A task with a mechanism, and people who answer it."""

    task: Task
    mechanism: sdp.Mechanism
    data: Callable[[np.random.Generator], Any]
    columns: tuple[str, ...] = ("value",)
    rounds: int = 1


def single_column(name: str, draw: Callable[[np.random.Generator], Any]) -> Callable[[np.random.Generator], Any]:
    return lambda rng: pa.table({name: draw(rng)})


def _sets(rng: np.random.Generator) -> list[list[str]]:
    return [list(rng.choice(KEYS, 2, replace=False)) for _ in range(USERS)]


def _pairs(rng: np.random.Generator) -> list[str]:
    two = [rng.choice(KEYS, 2, replace=False) for _ in range(USERS)]
    return [f"{a}:{rng.uniform(0, 5):.2f};{b}:{rng.uniform(0, 5):.2f}" for a, b in two]


def _table(rng: np.random.Generator) -> Any:
    return pa.table({
        "sex": rng.choice(["f", "m"], USERS), "age": rng.uniform(20, 60, USERS), "hour": rng.integers(0, 24, USERS),
    })  # fmt: skip


HOURS = tuple(map(str, range(24)))
CASES: dict[str, TaskCase] = {
    "frequency": TaskCase(
        Frequency(CITIES), sdp.KRR(3.0, 8), single_column("value", lambda rng: rng.choice(CITIES, USERS))
    ),
    "numbers": TaskCase(
        Frequency(24), sdp.KRR(3.0, 24), single_column("value", lambda rng: rng.integers(0, 24, USERS))
    ),
    "many": TaskCase(
        Frequency(200), sdp.OUE(3.0, 200), single_column("value", lambda rng: rng.integers(0, 200, USERS))
    ),
    "sets": TaskCase(ItemSets(KEYS, 2), sdp.PrivSet(3.0, 5, 2), single_column("value", _sets)),
    "pairs": TaskCase(KeyValue(KEYS, 0, 5, items=2), sdp.PCKV(5.0, 3, 2), single_column("value", _pairs)),
    "mean": TaskCase(Mean(0, 100), sdp.Laplace(3.0), single_column("value", lambda rng: rng.uniform(20, 60, USERS))),
    "sum": TaskCase(Sum(0, 100), sdp.Laplace(3.0), single_column("value", lambda rng: rng.uniform(20, 60, USERS))),
    "count": TaskCase(Count(), sdp.Laplace(3.0), single_column("value", lambda rng: rng.random(USERS) < 0.3)),
    "variance": TaskCase(
        Variance(0, 100), sdp.Harmony(3.0, 2), single_column("value", lambda rng: rng.uniform(20, 60, USERS))
    ),
    "vector": TaskCase(
        VectorMean(2, TABLE_AXES),
        sdp.Harmony(3.0, 2),
        lambda rng: pa.table({"bill": rng.uniform(40, 50, USERS), "mass": rng.uniform(4000, 5000, USERS)}),
        ("bill", "mass"),
    ),
    "long vector": TaskCase(
        VectorMean(50, -1, 1),
        sdp.Harmony(3.0, 50),
        single_column("value", lambda rng: list(rng.uniform(-1, 1, (USERS, 50)))),
    ),
    "map": TaskCase(
        Location(0, 10, 40, 50, 3, 3, "degrees"),
        sdp.KRR(3.0, 9),
        lambda rng: pa.table({"lat": rng.uniform(40, 50, USERS), "lon": rng.uniform(0, 5, USERS)}),
        ("lat", "lon"),
    ),
    "large map": TaskCase(
        Location(0, 10, 0, 10, 12, 12),
        sdp.OUE(3.0, 144),
        lambda rng: pa.table({"x": rng.uniform(0, 5, USERS), "y": rng.uniform(0, 10, USERS)}),
        ("x", "y"),
    ),
    "ranges": TaskCase(
        Ranges(64), sdp.RangeTree(64, 40.0, USERS), single_column("value", lambda rng: rng.integers(0, 40, USERS))
    ),
    "time": TaskCase(
        OverTime(DAYS), sdp.RangeTree(20, 40.0, 0), single_column("value", lambda rng: rng.choice(DAYS, USERS))
    ),
    "search": TaskCase(
        HeavyHitters(bits=8, room=64, keep=30.0, show=40.0, rounds=2),
        sdp.PoissonDUMP(64, 40.0, USERS),
        single_column("value", lambda rng: np.where(rng.random(USERS) < 0.5, 77, rng.integers(0, 256, USERS))),
        rounds=2,
    ),
    "survey": TaskCase(
        Survey([("sex", Frequency(["f", "m"])), ("age", Mean(0, 120)), ("hour", Frequency(HOURS))]),
        sdp.AllAnswered([sdp.KRR(3.0, 2), sdp.Laplace(3.0), sdp.KRR(3.0, 24)]),
        _table,
        (),
    ),
    "marginals": TaskCase(
        Marginals({"sex": ["f", "m"], "hour": HOURS}, ways=2),
        sdp.AllAnswered([sdp.OUE(4.0, 48)]),
        _table,
        (),
    ),
}


REPORT_FOLDERS: list[Path] = []
"""Where the processes of a run leave these for each other; tests/collection/conftest.py says it."""


@cache
def collect_report(name: str, post: str | None = None, confidence: float = 0.95) -> Report:
    """The report of one of these; it is not changed by whoever looks at it."""

    def collected() -> Report:
        case = CASES[name]
        plan = sdp.Plan(case.task, case.mechanism, users=USERS, epsilon=500.0, delta=1e-3, rounds=case.rounds,
                        effort="quick")  # fmt: skip
        data, columns = case.data(np.random.default_rng(1)), case.columns or None
        # Whoever wants a picture draws it.
        with tempfile.TemporaryDirectory() as room, mock.patch.object(plotting, "has_matplotlib", return_value=False):
            return sdp.collect(
                plan, data, columns, out=f"{room}/out", post=post, confidence=confidence, allow_weaker=True
            )

    with cache_curves():
        return shared_results.compute_once(REPORT_FOLDERS[0] / f"report of {name} {post} {confidence}", collected)
