"""Post-processing against other solvers, and against the truth: never farther from it than the estimate was."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize

import shuffledp as sdp
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.tasks import Frequency, Marginals, OverTime, Ranges
from shuffledp.tasks.base import (
    ADDS_UP,
    CONSISTENT,
    COORDINATES,
    NON_NEGATIVE,
    NUMBERS,
    Quantity,
    Shape,
    are_labels_ordered,
    check_post_processing,
    count_shape,
    post_process_quantity,
    project_to_simplex,
)
from shuffledp.tasks.marginals import one_way_counts, project_to_consistent_tables

Floats = NDArray[np.float64]


def by_programme(value: Floats, sums: Floats, totals: Floats) -> Floats:
    """The nearest numbers of at least 0 with these sums: a quadratic programme, solved by scipy."""
    found = minimize(
        lambda x: 0.5 * float(((x - value) ** 2).sum()), np.maximum(value, 0.0), jac=lambda x: x - value,
        constraints=[LinearConstraint(sums, totals, totals)], bounds=[(0.0, None)] * len(value), method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )  # fmt: skip
    return np.asarray(found.x)


def by_every_support(value: Floats, total: float) -> Floats:
    """The same by brute force: whichever numbers are above 0, all of them are moved by the same."""
    best, least = np.zeros(0), np.inf
    for size in range(1, len(value) + 1):
        for kept in map(list, combinations(range(len(value)), size)):
            found = np.zeros(len(value))
            found[kept] = value[kept] + (total - value[kept].sum()) / size
            distance = float(((found - value) ** 2).sum())
            if (found >= 0).all() and distance < least:
                best, least = found, distance
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=1, max_size=7),
    st.floats(0.01, 1e4),
)
def test_the_nearest_counts_are_those_of_brute_force(values: list[float], total: float) -> None:
    """Every choice of counts above 0 is tried."""
    given_ = np.array(values)
    np.testing.assert_allclose(project_to_simplex(given_, total), by_every_support(given_, total), atol=1e-7)


def test_the_nearest_counts_are_those_of_a_quadratic_programme() -> None:
    """A solver that knows nothing of simplices."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        value = rng.normal(10, 30, 9)
        np.testing.assert_allclose(
            project_to_simplex(value, 90.0), by_programme(value, np.ones((1, 9)), np.array([90.0])), atol=1e-4
        )


def test_nobody_holds_anything() -> None:
    """Of no users every count is 0."""
    assert project_to_simplex(np.array([3.0, -1.0]), 0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("way", [NON_NEGATIVE, ADDS_UP, CONSISTENT])
def test_what_each_way_promises(way: str) -> None:
    """No count below 0; all add up; both."""
    quantity = Quantity(
        "users", ("a", "b", "c"), np.array([60.0, 50.0, -20.0]), shape=count_shape(100, all_in_one=True)
    )
    found = post_process_quantity(quantity, way)
    assert found is not None
    assert (way == ADDS_UP) or found.min() >= 0
    assert (way == NON_NEGATIVE) or found.sum() == pytest.approx(100.0)


def test_a_way_that_says_nothing_of_a_quantity_leaves_it() -> None:
    """Means may be below 0, and sets add up to nothing that is known."""
    mean = Quantity("mean", ("x",), np.array([-3.0]), shape=Shape(NUMBERS, -1.0, 1.0))
    sets = Quantity("users", ("x",), np.array([-3.0]), shape=count_shape(10, all_in_one=False))
    assert post_process_quantity(mean, NON_NEGATIVE) is None
    assert post_process_quantity(sets, ADDS_UP) is None
    found = post_process_quantity(mean, CONSISTENT)
    assert found is not None
    assert found.tolist() == [-1.0]
    both = Shape(COORDINATES, np.array([0.0, 10.0]), np.array([1.0, 20.0]))
    moved = post_process_quantity(Quantity("mean", ("x", "y"), np.array([2.0, 5.0]), shape=both), CONSISTENT)
    assert moved is not None
    assert moved.tolist() == [1.0, 10.0]


def test_what_cannot_be_asked_for_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"^collect: post must be non-negative, .* or consistent, got 'round'\.$"):
        check_post_processing("collect", "round", (CONSISTENT,), "mean")
    with pytest.raises(ValueError, match=r"^collect: post='adds-up' does not go with the task 'mean', .*\.$"):
        check_post_processing("collect", ADDS_UP, (CONSISTENT,), "mean")


# --- never farther from the truth ---------------------------------------------------------------------------------


def test_frequencies_are_never_farther_from_the_truth() -> None:
    """Of every one of 200 simulated collections: the projection brings no two points farther apart."""
    rng, task, mechanism = np.random.default_rng(2), Frequency(12), sdp.KRR(1.0, 12)
    held = np.array([500, 300, 100, 50, 20, 10, 5, 5, 5, 5, 0, 0])
    better = 0
    for _ in range(200):
        estimate = mechanism.estimator.simulate(held, int(held.sum()), rng)
        (quantity,) = task.quantities(mechanism, estimate, 0.95)
        for way in task.post:
            (found,) = task.post_process(mechanism, estimate, [quantity], way)
            before, after = ((one - held) @ (one - held) for one in (quantity.value, found))
            assert after <= before * (1 + 1e-12)
            better += after < 0.9 * before
    assert better > 200


def test_ranges_are_consistent_and_never_farther_from_the_truth() -> None:
    """Each node is the sum of those within it, running counts rise to all users, no value has fewer than 0."""
    rng, task, mechanism = np.random.default_rng(3), Ranges(16), sdp.RangeTree(16, 200.0, 1000)
    held = np.array([300, 200, 100, 0, 0, 0, 0, 0, 200, 100, 100, 0, 0, 0, 0, 0])
    values = np.repeat(np.arange(16), held)
    for _ in range(20):
        estimate = mechanism.estimate(mechanism.encode(values, rng), users=1000)
        found = task.quantities(mechanism, estimate, 0.95)
        nodes, below = task.post_process(mechanism, estimate, found, CONSISTENT)
        told = dict(zip(found[0].labels, nodes, strict=True))
        assert nodes.min() >= 0
        assert told["0 … 7"] == pytest.approx(sum(told[str(value)] for value in range(8)))
        assert (np.diff(below) >= -1e-9).all()
        assert below[-1] == pytest.approx(1000.0)
        singles = np.array([told[str(value)] for value in range(16)])
        raw = task.range_estimator(mechanism).value_counts(estimate)[:16]
        assert ((singles - held) ** 2).sum() <= ((raw - held) ** 2).sum() * (1 + 1e-12)


def test_running_counts_never_fall() -> None:
    """The nearest such, against a programme that forbids every fall."""
    task, mechanism = OverTime(6), sdp.RangeTree(6, 100.0, 0)
    value = np.array([-5.0, 20.0, 10.0, 40.0, 30.0, 100.0])
    quantity = Quantity("users up to", tuple("abcdef"), value, shape=count_shape(100, all_in_one=False))
    (found,) = task.post_process(mechanism, Estimate(value, value, 100), [quantity], CONSISTENT)
    rises = np.diff(np.eye(6), axis=0)
    wanted = minimize(
        lambda x: float(((x - value) ** 2).sum()), np.sort(np.clip(value, 0, 100)), bounds=[(0, 100)] * 6,
        constraints=[LinearConstraint(rises, 0.0, np.inf)], method="SLSQP", options={"ftol": 1e-14},
    ).x  # fmt: skip
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_tables_agree_and_are_the_nearest() -> None:
    """Three tables of three columns, against a programme over all their cells."""
    rng, sizes, users = np.random.default_rng(4), (2, 3, 2), 100.0
    places = list(combinations(range(3), 2))
    shapes = [(sizes[a], sizes[b]) for a, b in places]
    tables = [rng.normal(users / (a * b), 15, (a, b)) for a, b in shapes]
    starts = np.cumsum([0, *(a * b for a, b in shapes)])
    rows, totals = [], []
    for start, (a, b) in zip(starts, shapes, strict=False):
        row = np.zeros(starts[-1])
        row[start : start + a * b] = 1.0
        rows.append(row)
        totals.append(users)
    for column in range(3):
        having = [
            (start, two, shape) for start, two, shape in zip(starts, places, shapes, strict=False) if column in two
        ]
        for value in range(sizes[column]):
            row = np.zeros(starts[-1])
            for sign, (start, two, shape) in zip((1.0, -1.0), having, strict=True):
                mask = np.zeros(shape)
                np.moveaxis(mask, two.index(column), 0)[value] = sign
                row[start : start + mask.size] = mask.reshape(-1)
            rows.append(row)
            totals.append(0.0)
    # Rows that follow from others would make the solver stumble.
    _, independent = np.unique(np.round(np.array(rows), 12), axis=0, return_index=True)
    kept: list[int] = []
    for row in sorted(independent):
        if np.linalg.matrix_rank(np.array([rows[i] for i in [*kept, row]])) > len(kept):
            kept.append(int(row))
    flat = np.concatenate([table.reshape(-1) for table in tables])
    wanted = by_programme(flat, np.array([rows[i] for i in kept]), np.array([totals[i] for i in kept]))
    found = project_to_consistent_tables(tables, places, users)
    np.testing.assert_allclose(np.concatenate([one.reshape(-1) for one in found]), wanted, atol=1e-3)
    for column, one in enumerate(one_way_counts(found, places, 3)):
        assert one.sum() == pytest.approx(users)
        for table, two in zip(found, places, strict=True):
            if column in two:
                np.testing.assert_allclose(table.sum(axis=1 - two.index(column)), one, atol=1e-5)


def test_marginals_stay_consistent_with_each_other() -> None:
    """From the task: no cell below 0, and the columns' counts are the tables' sums."""
    task = Marginals({"a": 2, "b": 3, "c": 2}, ways=2)
    mechanism = sdp.AllAnswered([sdp.OUE(1.0, 6), sdp.OUE(1.0, 4), sdp.OUE(1.0, 6)])
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(0, 2, 300), rng.choice(3, 300, p=[0.9, 0.1, 0.0]), np.zeros(300, dtype=int)
    values = mechanism.check([a * 3 + b, a * 2 + c, b * 2 + c])
    estimate = mechanism.estimate(mechanism.encode(values, rng))
    found = task.quantities(mechanism, estimate, 0.95)
    after = task.post_process(mechanism, estimate, found, CONSISTENT)
    assert min(one.min() for one in after) >= 0
    np.testing.assert_allclose(after[3].reshape(2, 3).sum(axis=1), after[0], atol=1e-4)
    np.testing.assert_allclose(after[3].reshape(2, 3).sum(axis=0), after[1], atol=1e-4)
    truth = (
        np.bincount(a * 3 + b, minlength=6),
        np.bincount(a * 2 + c, minlength=4),
        np.bincount(b * 2 + c, minlength=6),
    )
    errors = [sum(((one - held) ** 2).sum() for one, held in zip(given, truth, strict=True))
              for given in (after[3:], [quantity.value for quantity in found[3:]])]  # fmt: skip
    assert errors[0] <= errors[1]


def test_labels_with_an_order_of_their_own() -> None:
    assert are_labels_ordered(None)
    assert are_labels_ordered(("2026-01", "2026-02"))
    assert not are_labels_ordered(("2", "1"))
    assert not are_labels_ordered(("2026-02", "2026-01"))
