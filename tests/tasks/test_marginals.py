"""Marginals: tables that agree with each other, by least squares, and intervals that hold."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Floats, Integers
from shuffledp.mechanisms.base.estimator import ConcatenatedErrorLaw, Estimate
from shuffledp.tasks import registry
from shuffledp.tasks.marginals import PairDomain

SMALL = {"sex": 2, "age": 3, "city": 4}
ADULT = {"workclass": 9, "education": 16, "marital": 7, "occupation": 15, "relationship": 6, "race": 5, "sex": 2,
         "country": 42}  # fmt: skip
USERS = 30_000


def people(sizes: dict[str, int], users: int, classes: int = 6) -> dict[str, Integers]:
    """Skewed columns that hang together: each person is of one of a few classes, which has laws of its own."""
    rng = np.random.default_rng(7)
    latent = rng.choice(classes, users, p=rng.dirichlet(np.full(classes, 2.0)))
    result = {}
    for name, size in sizes.items():
        base = 1 / np.arange(1, size + 1) ** 1.2
        laws = [rng.dirichlet(8 * rng.permutation(base) / base.sum() + 0.02) for _ in range(classes)]
        drawn = np.stack([rng.choice(size, users, p=law) for law in laws])
        result[name] = drawn[latent, np.arange(users)]
    return result


def held_by(columns: dict[str, Integers], sizes: dict[str, int]) -> dict[str, Integers]:
    """The truth of every table."""
    result = {name: np.bincount(columns[name], minlength=size) for name, size in sizes.items()}
    for a, b in combinations(sizes, 2):
        result[f"{a} × {b}"] = np.bincount(columns[a] * sizes[b] + columns[b], minlength=sizes[a] * sizes[b])
    return result


def joined(parts: list[Estimate]) -> Estimate:
    value, variance = (np.concatenate([getattr(one, name) for one in parts]) for name in ("value", "variance"))
    tails = ConcatenatedErrorLaw(tuple(one.error_law for one in parts), tuple(one.value.size for one in parts))
    return Estimate(value, variance, parts[0].users, tails)


def test_the_tables_are_those_of_least_squares() -> None:
    """Against a dense solver: of all tables with common sums and the known total, the nearest in weighted squares."""
    task = sdp.tasks.Marginals(SMALL, ways=2)
    parts = [
        sdp.PoissonDUMP(q.task.domain.size or 0, mean, honest=100)
        for q, mean in zip(task.asked, (4.0, 9.0, 25.0), strict=True)
    ]
    made = sdp.AllAnswered(parts)
    rng = np.random.default_rng(2)
    raw = [Estimate(rng.normal(20, 9, part.options), np.full(part.options, part.mean), 100) for part in parts]
    raw = [Estimate(one.value + (100 - one.value.sum()) / one.value.size, one.variance, 100) for one in raw]
    found = {one.question: one.value for one in task.quantities(made, joined(raw), 0.95)}
    expected = nearest([one.value for one in raw], [part.mean for part in parts])
    for name, table in zip(task.names, expected, strict=True):
        assert found[name] == pytest.approx(table, abs=1e-8)
    for a, b in combinations(SMALL, 2):
        table = found[f"{a} × {b}"].reshape(SMALL[a], SMALL[b])
        assert table.sum(axis=1) == pytest.approx(found[a], abs=1e-9)
        assert table.sum(axis=0) == pytest.approx(found[b], abs=1e-9)


def nearest(tables: list[Floats], noise: list[float]) -> list[Floats]:
    """The KKT system, written out: every pair of tables with a column in common has the same sums of it."""
    sizes, pairs = list(SMALL.values()), list(combinations(range(3), 2))
    starts = np.cumsum([0] + [sizes[a] * sizes[b] for a, b in pairs])
    total = int(starts[-1])
    rows = []
    for k in range(len(pairs)):
        row = np.zeros(total)
        row[starts[k] : starts[k + 1]] = 1
        rows.append((row, 100.0))
    sums: dict[int, list[np.ndarray]] = {0: [], 1: [], 2: []}
    for k, (a, b) in enumerate(pairs):
        for side, column in enumerate((a, b)):
            block = np.zeros((sizes[column], total))
            cells = np.arange(sizes[a] * sizes[b]).reshape(sizes[a], sizes[b])
            for value in range(sizes[column]):
                block[value, starts[k] + np.take(cells, value, axis=side)] = 1
            sums[column].append(block)
    for blocks in sums.values():
        rows += [(row, 0.0) for row in blocks[0] - blocks[1]]
    constraints, right = np.array([row for row, _ in rows]), np.array([value for _, value in rows])
    raw = np.concatenate(tables)
    spread = np.concatenate([np.full(starts[k + 1] - starts[k], one) for k, one in enumerate(noise)])
    middle = constraints * spread
    solved = raw - spread * (
        constraints.T @ np.linalg.lstsq(middle @ constraints.T, constraints @ raw - right, rcond=None)[0]
    )
    return [solved[starts[k] : starts[k + 1]] for k in range(len(pairs))]


@pytest.mark.parametrize("noise", ["users", "shuffler", "responses"])
def test_adult_like_marginals_are_within_their_intervals(noise: str) -> None:
    """Eight columns, 28 pairs, 8 collections: 816 and 31,856 numbers.

    Numbers of one collection are nearly independent; those of a column are in seven tables. As if only the 102 numbers
    of single columns were independent, 816 of them are off 95% by 4.1 points once in 1e7; those of two by 1.1.
    """
    task = sdp.tasks.Marginals(ADULT, ways=2)
    makers = {
        "users": lambda d: sdp.CancellingNoise(d, rate=0.05, shape=30.0, ratio=0.99, honest=USERS),
        "shuffler": lambda d: sdp.CancellingNoise(d, rate=0.3, shape=30.0, ratio=0.9, honest=0),
        "responses": lambda d: sdp.KRR(6.0, d),
    }
    parts = [makers[noise](question.task.domain.size or 0) for question in task.asked]
    made, truth, rng = sdp.AllAnswered(parts), held_by(people(ADULT, USERS), ADULT), np.random.default_rng(11)
    held = [truth[name] for name in task.names]
    inside: dict[bool, list[Any]] = {True: [], False: []}
    for _ in range(8):
        drawn = [part.estimator.simulate(counts, USERS, rng) for part, counts in zip(parts, held, strict=True)]
        for one in task.quantities(made, joined(drawn), 0.95):
            assert one.low is not None
            inside[one.question in ADULT].append((one.low <= truth[one.question]) & (truth[one.question] <= one.high))
    single, together = (np.concatenate(inside[alone]).mean() for alone in (True, False))
    assert abs(single - 0.95) < 0.041
    # Whole numbers with noise of a few have intervals that hold a little more.
    assert 0.939 < together < (0.97 if noise == "shuffler" else 0.961)


def test_columns_are_read_together() -> None:
    task = sdp.tasks.Marginals({"sex": ["f", "m"], "age": 3, "city": ["Rome", "Oslo"]}, ways=2)
    made = sdp.AllAnswered([sdp.KRR(3.0, size) for size in (6, 4, 6)])
    plan = sdp.Plan(task, made, users=2, epsilon=30.0, delta=1e-2)
    names = task.resolve_columns(())
    assert names == ("sex", "age", "city")
    rows = pa.StructArray.from_arrays([pa.array(["m", "f"]), pa.array([2, 0]), pa.array(["Rome", "Oslo"])], list(names))
    assert plan.column(*names).read_values(rows).tolist() == [[5, 2, 4], [0, 1, 1]]
    bad = pa.StructArray.from_arrays([pa.array(["m", "x"]), pa.array([2, 3]), pa.array(["Rome", "Oslo"])], list(names))
    with pytest.raises(ValueError, match="column 'sex': expected one of the plan's 2 categories"):
        plan.column(*names).read_values(bad)
    assert PairDomain(*(values for _, values in task.domains[:2])).label(5) == "m × 2"


def test_it_is_written_down_and_read() -> None:
    for task in (sdp.tasks.Marginals(SMALL), sdp.tasks.Marginals({"a": ["x", "y"], "b": 5}, ways=2)):
        assert registry.read_task(json.loads(json.dumps(task.to_document()))) == task
    assert sdp.tasks.Marginals(SMALL).names == ("sex", "age", "city")


@pytest.mark.parametrize(
    ("columns", "ways", "sentence"),
    [
        ({}, 1, "ways = 1 needs at least as many columns, got 0"),
        ({"a": 3}, 2, "ways = 2 needs at least as many columns, got 1"),
        ({"a": 3, "b": 2}, 3, "ways must be at most 2, got 3"),
        ([("a", 3), ("a", 2)], 1, "expected each column once"),
        ({"a": 1}, 1, "count must be at least 2"),
        ({"a": 300, "b": 300}, 2, "expected at most 16,384 cells, got 90,000 of 'a' and 'b'"),
    ],
)
def test_what_is_no_table(columns: Any, ways: int, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        sdp.tasks.Marginals(columns, ways)
    assert sentence in str(caught.value)


def test_only_what_everybody_answers_is_made_consistent() -> None:
    task = sdp.tasks.Marginals(SMALL, ways=2)
    with pytest.raises(ValueError, match="not known if only some users answer 'sex × age'"):
        task.check_mechanism(sdp.Parallel([sdp.KRR(1.0, question.task.domain.size or 0) for question in task.asked]))
