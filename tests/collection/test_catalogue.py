"""Every mechanism of the catalogue that numbers can build is collected from a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import PlanarLaplace, RangeQueries
from shuffledp.collection import batch_processing
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.planning.plan import Plan
from shuffledp.tasks import Frequency, ItemSets, KeyValue, Location, Mean, Options, Ranges, Task, VectorMean

KINDS = {
    name: kind
    for name, kind in all_mechanisms().items()
    # A search in one round hashes what a column holds: tests/tasks/test_heavy_hitters.py collects it.
    if kind.has_numeric_settings and kind.task != "several tables"
}


def pairs_for(settings: dict[str, Any]) -> Task:
    """Mechanisms call the most pairs of a user items or padding, and may be padded beyond the number of keys."""
    keys = [f"key {key}" for key in range(settings.get("keys", settings.get("options")))]
    items = settings["items"] if "items" in settings else settings["padding"]
    return KeyValue(keys, -1, 1, items=min(items, len(keys)))


def task_for(mechanism: Mechanism) -> Task:
    """A task that fits a small instance."""
    settings: dict[str, Any] = mechanism.settings()
    low, high = mechanism.value_range
    tasks: dict[str, Callable[[], Task]] = {
        "frequency": lambda: Frequency(settings["options"]),
        "range queries": lambda: Ranges(settings["options"] if "options" in settings else 1 << settings["height"]),
        "mean": lambda: Mean(low, high),
        "vector mean": lambda: VectorMean(settings["dimension"], low, high),
        "set-valued": lambda: ItemSets(settings["options"], settings["items"]),
        "location": lambda: Location(**{name: value for name, value in settings.items() if name != "epsilon"}),
        "key-value": lambda: pairs_for(settings),
    }
    return tasks[mechanism.task]()


def table_of(mechanism: Mechanism, values: Any) -> pa.Array:
    """The same values as a column."""
    if mechanism.task == "key-value":
        rows = [[{"key": f"key {key:.0f}", "value": value} for key, value in row if key >= 0] for row in values]
        return pa.array(rows, pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())])))
    return pa.array(values.tolist())


@pytest.mark.parametrize("name", KINDS)
def test_a_table_of_the_mechanisms_own_values(name: str) -> None:
    """The column gives the values that the table was made of; all that follows runs, with a label for each estimate."""
    mechanism = next(
        example for example in KINDS[name].examples() if example.settings().get("keys", 2) >= 2
    )  # a domain has at least two options
    plan = Plan(task_for(mechanism), mechanism, 1000, 1.0, 1e-6)
    plan = Plan.parse(plan.text())
    assert plan.mechanism.to_document() == mechanism.to_document()
    column = plan.column("value")
    values = np.concatenate([mechanism.audit_pair()] * 200)
    array = table_of(mechanism, values)
    np.testing.assert_allclose(column.read_values(array), mechanism.check(values), rtol=1e-12, atol=1e-12)
    wires = list(batch_processing.Encoder(column, bytes(32)).encode_part(iter([array]), 0))
    found = batch_processing.accumulate(mechanism, wires)
    assert found is not None
    users = len(values)
    assert mechanism.message_plan.is_variable or mechanism.count_users(found.messages) == users
    first, *_ = column.quantities(mechanism.finish(found.statistic, users), 0.95)
    assert len(first.labels) == len(first.value)
    assert first.low is not None
    assert first.high is not None
    assert (first.low <= first.value).all()
    assert (first.value <= first.high).all()


def test_ranges_are_named_by_their_ends() -> None:
    """Halves, then quarters, as far as the domain goes; each with the estimate of its own node."""
    letters = tuple("abcde")
    plan = Plan(Ranges(letters), RangeQueries(30.0, 3), 9, 1.0, 1e-6)
    column = plan.column("value")
    array = pa.array(list("aabbbde") * 3000)
    wires = list(batch_processing.Encoder(column, bytes(32)).encode_part(iter([array]), 0))
    found = batch_processing.accumulate(plan.mechanism, wires)
    assert found is not None
    quantity, up_to = column.quantities(plan.mechanism.finish(found.statistic, len(array)), 0.95)
    assert up_to.labels == letters
    assert up_to.value[-1] == len(array)
    assert quantity.labels == ("a … d", "e", "a … b", "c … d", "e", "a", "b", "c", "d", "e")
    wanted = np.array([6, 1, 5, 1, 1, 2, 3, 0, 1, 1]) * 3000
    # Which level a user answers on is all that is left to chance at this local ε; five standard errors.
    assert quantity.standard_error is not None
    assert (np.abs(quantity.value - wanted) <= 5 * quantity.standard_error + 1e-6).all()


def test_a_map_must_be_the_plans() -> None:
    """A plan whose domain is not the mechanism's region is refused, and a map of something else."""
    with pytest.raises(ValueError, match="has another north than the domain"):
        Plan(Location(0, 1, 0, 2), PlanarLaplace(1.0), 100, 1.0, 1e-6)
    with pytest.raises(ValueError, match="needs a domain of places, got options"):
        Location.from_domain(Options(5), {"columns": 2, "rows": 1, "coordinates": "plane"})


def test_a_domain_must_fit_into_the_tree() -> None:
    """More options than leaves are refused."""
    with pytest.raises(ValueError, match="has room for 4 options, but the domain has 5"):
        Plan(Ranges(5), RangeQueries(1.0, 2), 100, 1.0, 1e-6)


@pytest.mark.parametrize("value", [5, 6, 7, -1])
def test_ranges_refuse_what_only_fills_the_tree(value: int) -> None:
    """Five values in a tree of eight leaves: the other three are no values."""
    plan = Plan(Ranges(5), RangeQueries(3.0, 3), 9, 1.0, 1e-6)
    column = plan.column("value")
    assert column.read_values(pa.array([0, 4])).tolist() == [0, 4]
    with pytest.raises(ValueError, match="expected whole numbers from 0 to 4, got something else in 1 of 3"):
        column.read_values(pa.array([1, value, 2]))
