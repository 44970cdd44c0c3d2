"""Intervals hold the truth whatever admissible data users hold: the longest lists, none at all, extremes, doubles.

From the cells of a table, read as a collection reads them, to the report's quantities; the truth is counted from the
same cells by plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.tasks import ItemSets, KeyValue, Task
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.value_parsing import Rules

pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

USERS, REPEATS = 600, 150
FALSE_ALARM = 1e-7
LEAST = 0.93
"""What intervals of normal errors may cover at the least, where they say 0.95."""

DRINKS = ("tea", "milk", "wine", "beer", "rum")
SETS = {
    "none": lambda place: [],
    "all full": lambda place: [DRINKS[(place + step) % 5] for step in range(3)],
    "all the same": lambda place: ["tea", "rum", "wine"],
    "one or none": lambda place: ["tea"] if place % 2 else [],
    "doubles": lambda place: ["tea", "tea", "milk", "tea"] if place % 3 else ["beer"] * 7,
    "any length": lambda place: list(DRINKS[: place % 4]),
}
FILLED: dict[str, Mechanism] = {
    "privset": sdp.PrivSet(3.0, 8, 3),
    "wheel": sdp.Wheel(3.0, 8, 3),
    "sampling-rappor": sdp.SamplingRAPPOR(3.0, 8, 3),
    "cancelling-sets": sdp.CancellingSets(5, 3, 0.5, 3.5, 0.8, USERS),
}
PAIRS = {
    "none": lambda place: [],
    "full, at the ends": lambda place: [("tea", 10.0 * (place % 2)), ("milk", 0.0)],
    "one key, all at the top": lambda place: [("rum", 10.0)],
    "any length": lambda place: [(DRINKS[(place + step) % 4], float(place % 11)) for step in range(place % 3)],
}
KEYED: dict[str, Mechanism] = {
    "privkv": sdp.PrivKV(4.0, 5, items=2),
    "pckv": sdp.PCKV(4.0, 5, 2),
    "collision": sdp.Collision(4.0, 7, 2),
}


def covered(task: Task, mechanism: Mechanism, array: pa.Array, truth: dict[str, Any], repeats: int) -> dict[str, float]:
    """The share of truths in their intervals, of each quantity; what is not told is not counted."""
    column = ColumnReader(("cell",), task, mechanism)
    values, rng = column.read_values(array), np.random.default_rng(5)
    inside, told = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    for _ in range(repeats):
        estimate = mechanism.estimate(mechanism.randomize(values, random_source(rng)), len(array))
        for quantity in column.quantities(estimate, 0.95):
            low, high, right = quantity.low, quantity.high, truth[quantity.name]
            assert low is not None
            assert high is not None
            known = ~np.isnan(quantity.value) & ~np.isnan(right)
            inside[quantity.name] += int(((low <= right) & (right <= high))[known].sum())
            told[quantity.name] += int(known.sum())
    return {name: inside[name] / told[name] for name in truth if told[name]}


def random_source(rng: np.random.Generator) -> Any:
    from shuffledp.sampling.random_sources import resolve_source

    return resolve_source(rng)


def enough(shares: dict[str, float], trials: int) -> bool:
    """Estimates of one collection hang together: as many independent trials as collections are counted."""
    least = binom.ppf(FALSE_ALARM, trials, LEAST) / trials
    return all(share >= least for share in shares.values())


def sets_case(rows: Callable[[int], list[str]]) -> tuple[pa.Array, dict[str, Any]]:
    lists = [rows(place) for place in range(USERS)]
    counts = [float(sum(drink in each for each in lists)) for drink in DRINKS]
    return pa.array(lists, pa.list_(pa.string())), {"users": np.array(counts)}


def pairs_case(rows: Callable[[int], list[tuple[str, float]]]) -> tuple[pa.Array, dict[str, Any]]:
    lists = [rows(place) for place in range(USERS)]
    held = [[value for each in lists for key, value in each if key == drink] for drink in DRINKS]
    means = np.array([np.mean(values) if values else np.nan for values in held])
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())]))
    array = pa.array([[{"key": key, "value": value} for key, value in each] for each in lists], kind)
    return array, {"users": np.array([float(len(values)) for values in held]), "mean": means}


@pytest.mark.exhaustive("privset", "sampling-rappor", "wheel")
@pytest.mark.parametrize("name", FILLED)
def test_sets_of_any_length_are_covered(name: str) -> None:
    """False-alarm rate 1e-7 for each kind of data; mechanisms for full sets are filled up with dummies."""
    task = ItemSets(DRINKS, 3)
    for rows in SETS.values():
        array, truth = sets_case(rows)
        assert enough(covered(task, FILLED[name], array, truth, REPEATS), REPEATS)


@pytest.mark.exhaustive("collision")
@pytest.mark.parametrize("name", KEYED)
def test_pairs_of_any_length_are_covered(name: str) -> None:
    """Counts and means; a mean is told only where its count is above its error."""
    task = KeyValue(DRINKS, 0, 10, items=2)
    for rows in PAIRS.values():
        array, truth = pairs_case(rows)
        assert enough(covered(task, KEYED[name], array, truth, REPEATS), REPEATS)


@pytest.mark.parametrize(
    ("task", "name"), [(ItemSets(DRINKS, 1), "privset"), (KeyValue(DRINKS, 0, 10, items=1), "pckv")]
)
def test_longer_lists_are_refused_or_drawn_from(task: Task, name: str) -> None:
    """Each entry of a list of four is drawn with chance 1/4 (6 standard deviations), by the source of its chunk."""
    mechanism = sdp.PrivSet(3.0, 6, 1) if name == "privset" else sdp.PCKV(3.0, 5, 1)
    cells = ["tea;milk;wine;beer"] * 4000 if name == "privset" else ["tea:1;milk:1;wine:1;beer:1"] * 4000
    with pytest.raises(ValueError, match="expected at most 1 items in every row, got more in 4,000 of 4,000 rows"):
        ColumnReader(("cell",), task, mechanism).read_values(pa.array(cells))
    column = ColumnReader(("cell",), task, mechanism, Rules(longer="sample"))
    drawn = column.read_values(pa.array(cells), random_source(np.random.default_rng(1)))
    counts = np.bincount(drawn.reshape(4000, -1)[:, 0].astype(int), minlength=5)
    assert (np.abs(counts[:4] - 1000) < 6 * np.sqrt(750)).all()
    assert counts[4] == 0
    assert column.count_changes(pa.array(cells)).shortened == 4000
    assert (column.read_values(pa.array(cells)) == column.read_values(pa.array(cells))).all()


def test_counts_of_which_few_messages_speak_are_covered() -> None:
    """Thirty messages an option, as of lists of 47 out of 104: 95% in the score interval, which is no wider for it."""
    task, users = ItemSets(100, 45), 4000
    mechanism = sdp.PrivSet(5.0, 145, 45)
    held = np.random.default_rng(2).random((users, 100)) < np.linspace(0.02, 0.3, 100)
    rows = np.where(np.arange(145) < 45, 100 + np.arange(145), 0)[:45] + np.zeros((users, 45), dtype=np.int64)
    for user, own in enumerate(held):
        options = np.flatnonzero(own)[:45]
        rows[user, : len(options)] = options
    values, truth = mechanism.check(rows), mechanism.truth(rows)[:100]
    shares = []
    for seed in range(30):
        estimate = mechanism.estimate(mechanism.randomize(values, random_source(np.random.default_rng(seed))), users)
        (quantity,) = task.quantities(mechanism, estimate, 0.95)
        assert quantity.low is not None
        assert quantity.high is not None
        shares.append(np.mean((quantity.low <= truth) & (truth <= quantity.high)))
    # 3,000 intervals, nearly independent: the standard deviation of the share is 0.004.
    assert 0.95 - 6 * 0.004 < np.mean(shares) < 0.95 + 6 * 0.004
