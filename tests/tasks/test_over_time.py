"""Counts over time: only what is over is used, errors are exact, and intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.tasks import OverTime
from shuffledp.tasks.running_counts import RunningRelease

TREES = [(2, 2), (9, 2), (16, 2), (30, 3), (31, 4), (7, 7)]


@pytest.mark.parametrize(("days", "fan_out"), TREES)
def test_running_counts_are_least_squares_of_what_is_over(days: int, fan_out: int) -> None:
    """Against dense least squares on the nodes whose last day is over, value and variance, for every day."""
    tree = ValueTree(days, fan_out)
    incidence = tree.sum_leaves(np.eye(days)).T
    value = np.random.default_rng(days).normal(50.0, 9.0, tree.node_count)
    release = RunningRelease(tree, 3.0)
    found = release.estimate(sdp.Estimate(value, np.full(tree.node_count, 3.0), 777))
    for day in range(days - 1):
        over = [place for place in range(tree.node_count) if not incidence[place, day + 1 :].any()]
        solve = np.linalg.pinv(incidence[over][:, : day + 1])
        weights = solve.sum(axis=0)
        assert found.value[day] == pytest.approx(weights @ value[over], rel=1e-9)
        assert found.variance[day] == pytest.approx(3.0 * (weights**2).sum(), rel=1e-9)
    assert (found.value[-1], found.variance[-1]) == (777, 0)


@pytest.mark.parametrize(("days", "fan_out"), TREES)
def test_days_so_far_need_nothing_that_is_not_over(days: int, fan_out: int) -> None:
    """Whatever stands for the other nodes; on the last day nobody says how many users there are."""
    tree = ValueTree(days, fan_out)
    incidence = tree.sum_leaves(np.eye(days)).T
    assert tree.last_values.tolist() == [int(np.flatnonzero(row)[-1]) for row in incidence]
    value = np.random.default_rng(days).normal(50.0, 9.0, tree.node_count)
    release = RunningRelease(tree, 3.0)
    for count in range(1, days + 1):
        seen = np.where(tree.last_values < count, value, -1e9)
        found = release.running_counts(sdp.Estimate(seen, np.full(tree.node_count, 3.0), 777), count)
        over = np.flatnonzero(tree.last_values < count)
        weights = np.linalg.pinv(incidence[over][:, :count]).sum(axis=0)
        assert len(found.value) == len(found.variance) == count
        assert found.value[-1] == pytest.approx(weights @ value[over], rel=1e-9)
        assert found.variance[-1] == pytest.approx(3.0 * (weights**2).sum(), rel=1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [sdp.RangeTree(30, 40.0, 500), sdp.RangeTree(30, 40.0, 0, fan_out=4), sdp.CancellingTree(30, 0.5, 4.0, 0.8, 500)],
    ids=["poisson", "by the shuffler", "cancelling"],
)
def test_intervals_of_every_day_hold(mechanism: sdp.Mechanism) -> None:
    """300 collections drawn by their law: the error is as promised (5%), and 93–97% of the truths are inside."""
    task = OverTime(30)
    held = task.true_counts(mechanism, 500)
    rng = np.random.default_rng(2)
    square, inside = [], []
    assert isinstance(mechanism, sdp.RangeTree | sdp.CancellingTree)
    for _ in range(300):
        errors, margins = task.compute_errors_and_margins(
            mechanism, mechanism.estimator.simulate(held, 500, rng), held.astype(float), 0.95
        )
        square.append(np.mean(errors**2))
        inside.append(np.abs(errors[:-1]) <= margins[:-1])
    assert math.sqrt(np.mean(square)) == pytest.approx(task.standard_error(mechanism, 500), rel=0.05)
    assert 0.93 <= np.mean(inside) <= 0.97


def test_only_noise_that_stands_for_itself_can_be_released_early() -> None:
    """Randomized response is read with how many users there are, a histogram whose total is known with all of it."""
    kinds = all_mechanisms()
    usable = [name for name, kind in kinds.items() if OverTime.can_use(kind)]
    assert usable == ["cancelling-tree", "poisson-dump", "range-tree"]
    with pytest.raises(ValueError, match="cannot release one count before the others"):
        OverTime(8).standard_error(sdp.KRR(1.0, 8), 10)


def test_a_finished_collection_tells_every_day(tmp_path: object) -> None:
    """From the command's task to the report: labels are days, and the last one is everybody."""
    import pyarrow as pa

    days = [f"2024-03-{day:02}" for day in range(1, 32)]
    plan = sdp.Plan(OverTime(days), sdp.RangeTree(31, 60.0, 600), users=600, epsilon=4.0, delta=1e-6)
    assert sdp.Plan.parse(plan.text()) == plan
    report = sdp.collect(plan, pa.array([days[k * k % 31] for k in range(600)]), out=f"{tmp_path}/out")
    (quantity,) = report.quantities
    assert quantity.labels == tuple(days)
    assert quantity.value[-1] == 600
    truth = np.cumsum(np.bincount(np.arange(600) ** 2 % 31, minlength=31))
    assert quantity.standard_error is not None
    assert (np.abs(quantity.value - truth) <= 6 * quantity.standard_error + 1e-9).all()
    assert report.range(days[0], days[-1]).value == 600
