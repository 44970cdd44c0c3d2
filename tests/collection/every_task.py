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
from shuffledp import figure
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
from tests import shared
from tests.told_once import told_once

USERS = 600
CITIES = ("Zürich", "東京", "القاهرة", "दिल्ली", "서울", "🚀 base", "$100", "=a|b <i>")
KEYS = ("ATL", "BOS", "LAX")
DAYS = tuple(str(np.datetime64("2026-01-01") + day) for day in range(20))
SIDES = Intervals((30, 2700), (60, 6300), ("bill (mm)", "mass (g)"))


@dataclass(frozen=True)
class Case:
    """A task with a mechanism, and people who answer it."""

    task: Task
    mechanism: sdp.Mechanism
    data: Callable[[np.random.Generator], Any]
    columns: tuple[str, ...] = ("value",)
    rounds: int = 1


def one(name: str, draw: Callable[[np.random.Generator], Any]) -> Callable[[np.random.Generator], Any]:
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
CASES: dict[str, Case] = {
    "frequency": Case(Frequency(CITIES), sdp.KRR(3.0, 8), one("value", lambda rng: rng.choice(CITIES, USERS))),
    "numbers": Case(Frequency(24), sdp.KRR(3.0, 24), one("value", lambda rng: rng.integers(0, 24, USERS))),
    "many": Case(Frequency(200), sdp.OUE(3.0, 200), one("value", lambda rng: rng.integers(0, 200, USERS))),
    "sets": Case(ItemSets(KEYS, 2), sdp.PrivSet(3.0, 5, 2), one("value", _sets)),
    "pairs": Case(KeyValue(KEYS, 0, 5, items=2), sdp.PCKV(5.0, 3, 2), one("value", _pairs)),
    "mean": Case(Mean(0, 100), sdp.Laplace(3.0), one("value", lambda rng: rng.uniform(20, 60, USERS))),
    "sum": Case(Sum(0, 100), sdp.Laplace(3.0), one("value", lambda rng: rng.uniform(20, 60, USERS))),
    "count": Case(Count(), sdp.Laplace(3.0), one("value", lambda rng: rng.random(USERS) < 0.3)),
    "variance": Case(Variance(0, 100), sdp.Harmony(3.0, 2), one("value", lambda rng: rng.uniform(20, 60, USERS))),
    "vector": Case(
        VectorMean(2, SIDES), sdp.Harmony(3.0, 2),
        lambda rng: pa.table({"bill": rng.uniform(40, 50, USERS), "mass": rng.uniform(4000, 5000, USERS)}),
        ("bill", "mass"),
    ),
    "long vector": Case(
        VectorMean(50, -1, 1), sdp.Harmony(3.0, 50), one("value", lambda rng: list(rng.uniform(-1, 1, (USERS, 50))))
    ),
    "map": Case(
        Location(0, 10, 40, 50, 3, 3, "degrees"), sdp.KRR(3.0, 9),
        lambda rng: pa.table({"lat": rng.uniform(40, 50, USERS), "lon": rng.uniform(0, 5, USERS)}), ("lat", "lon"),
    ),
    "large map": Case(
        Location(0, 10, 0, 10, 12, 12), sdp.OUE(3.0, 144),
        lambda rng: pa.table({"x": rng.uniform(0, 5, USERS), "y": rng.uniform(0, 10, USERS)}), ("x", "y"),
    ),
    "ranges": Case(Ranges(64), sdp.RangeTree(64, 40.0, USERS), one("value", lambda rng: rng.integers(0, 40, USERS))),
    "time": Case(OverTime(DAYS), sdp.RangeTree(20, 40.0, 0), one("value", lambda rng: rng.choice(DAYS, USERS))),
    "search": Case(
        HeavyHitters(bits=8, room=64, keep=30.0, show=40.0, rounds=2), sdp.PoissonDUMP(64, 40.0, USERS),
        one("value", lambda rng: np.where(rng.random(USERS) < 0.5, 77, rng.integers(0, 256, USERS))), rounds=2,
    ),
    "survey": Case(
        Survey([("sex", Frequency(["f", "m"])), ("age", Mean(0, 120)), ("hour", Frequency(HOURS))]),
        sdp.AllAnswered([sdp.KRR(3.0, 2), sdp.Laplace(3.0), sdp.KRR(3.0, 24)]), _table, (),
    ),
    "marginals": Case(
        Marginals({"sex": ["f", "m"], "hour": HOURS}, ways=2), sdp.AllAnswered([sdp.OUE(4.0, 48)]), _table, (),
    ),
}  # fmt: skip


FOLDERS: list[Path] = []
"""Where the processes of a run leave these for each other; tests/collection/conftest.py says it."""


@cache
def report_of(name: str, post: str | None = None, confidence: float = 0.95) -> Report:
    """The report of one of these; it is not changed by whoever looks at it."""

    def collected() -> Report:
        case = CASES[name]
        plan = sdp.Plan(case.task, case.mechanism, users=USERS, epsilon=500.0, delta=1e-3, rounds=case.rounds,
                        effort="quick")  # fmt: skip
        data, columns = case.data(np.random.default_rng(1)), case.columns or None
        # Whoever wants a picture draws it.
        with tempfile.TemporaryDirectory() as room, mock.patch.object(figure, "can_draw", return_value=False):
            return sdp.collect(
                plan, data, columns, out=f"{room}/out", post=post, confidence=confidence, allow_weaker=True
            )

    with told_once():
        return shared.once(FOLDERS[0] / f"report of {name} {post} {confidence}", collected)
