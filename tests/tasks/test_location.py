"""Maps: cells are options to every frequency mechanism, and places go to their cells before they are randomized."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import KRR, OUE, Compressed, PlanarLaplace, PureDUMP
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning.goal import Goal
from shuffledp.planning.plan import Plan
from shuffledp.planning.planner import plan
from shuffledp.planning.simulation import simulate
from shuffledp.tasks import Frequency, Location
from tests.planning.goals import small_goal

TOWN = Location(west=4.8, east=5.0, south=52.3, north=52.4, columns=3, coordinates="degrees")
SQUARE = Location(0, 3, 0, 2, columns=3, rows=2)


def plan_with(task: Location, mechanism: Mechanism) -> Plan:
    return Plan.parse(Plan(task, mechanism, 1000, 1.0, 1e-6).text())


@pytest.mark.parametrize(
    "mechanism", [KRR(2.0, 6), OUE(2.0, 6), PureDUMP(6, 3), Compressed(OUE(2.0, 6))], ids=lambda m: m.name
)
def test_a_frequency_mechanism_counts_cells(mechanism: Mechanism) -> None:
    """Its plan survives its file; places become cells, numbered from the south-west, with their centres as labels."""
    column = plan_with(SQUARE, mechanism).column("place")
    places = pa.array([[0.5, 0.5], [2.9, 0.1], [0.0, 1.0], [3.0, 2.0], [1.0, 0.0]])
    cells = column.read_values(places)
    assert cells.tolist() == [0, 2, 3, 5, 1]
    truth = mechanism.truth(cells)
    assert truth.tolist() == [1, 1, 1, 1, 0, 1]
    (quantity,) = column.quantities(mechanism.estimate(mechanism.encode(np.repeat(cells, 100))), 0.95)
    assert quantity.labels == ("0.5, 0.5", "1.5, 0.5", "2.5, 0.5", "0.5, 1.5", "1.5, 1.5", "2.5, 1.5")


@pytest.mark.parametrize("task", [TOWN, SQUARE], ids=["degrees", "plane"])
def test_cells_are_those_of_the_map(task: Location) -> None:
    """For places anywhere the same cell, and the same labels, as the mechanism for places has."""
    settings = {name: value for name, value in task.mechanism_settings.items() if name != "options"}
    metric = PlanarLaplace(30.0, **settings)
    assert task.cells == metric.columns * metric.rows
    x = np.random.default_rng(2).uniform(0, 1, (500, 2))
    low, high = [task.area.west, task.area.south], [task.area.east, task.area.north]
    places = np.array(low) + x * (np.array(high) - low)
    array = pa.array((places if task is SQUARE else places[:, ::-1]).tolist())
    by_place, by_cell = (plan_with(task, m).column("place") for m in (metric, KRR(2.0, task.cells)))
    counted = np.bincount(by_cell.read_values(array), minlength=task.cells)
    assert counted.tolist() == metric.truth(by_place.read_values(array)).tolist()
    np.testing.assert_array_equal(task.grid.centres, metric.centres)


def test_a_place_off_the_map_is_refused_without_telling_it() -> None:
    """As by the mechanism for places."""
    column = plan_with(SQUARE, KRR(2.0, 6)).column("place")
    for bad in ([3.1, 0.0], [0.0, -0.1], [float("nan"), 0.0]):
        with pytest.raises(ValueError, match=r"^column 'place': (location: |expected a value in every row)") as caught:
            column.read_values(pa.array([[1.0, 1.0], bad]))
        assert "3.1" not in str(caught.value)
        assert "-0.1" not in str(caught.value)
    with pytest.raises(ValueError, match="expected two coordinates in every row"):
        column.read_values(pa.array([[1.0, 1.0, 1.0]]))


def test_as_many_options_as_cells() -> None:
    """Any other number is refused, and so is a mechanism for something else."""
    with pytest.raises(ValueError, match=r"^plan: krr has options = 7, but the map has 6 cells\.$"):
        plan_with(SQUARE, KRR(2.0, 7))
    with pytest.raises(ValueError, match="has another north than the domain"):
        plan_with(SQUARE, PlanarLaplace(1.0, east=3.0, columns=3))


def test_the_error_of_thirty_six_cells() -> None:
    """20,000 users at (1, 1e-7): within ten users by randomized response, which keeps a local ε; and simulated so."""
    task = Location(0, 1, 0, 1)
    ranking = plan(task, users=2e4, epsilon=1, delta=1e-7, mechanism="krr")
    assert task.cells == 36
    assert ranking.best.has_local_epsilon
    assert 9.5 < ranking.best.standard_error <= 10
    # 36·200 squared errors: the ratio is within 5% but for one chance in 1e7.
    assert 0.95 < simulate(ranking.best.plan, repeats=200).ratio < 1.05


def test_everything_that_can_count_cells_is_tried() -> None:
    """Frequency mechanisms, the mechanism for places, and what is built around them."""
    names = {name for name, _ in small_goal("location").usable_mechanisms()}
    assert {"krr", "pure-dump", "oue", "compressed-oue", "planar-laplace"} <= names
    assert "laplace" not in names


def test_only_metric_mechanisms_promise_distances() -> None:
    """The table says so, wherever there is another one."""
    metric, flat = PlanarLaplace(1.0), KRR(1.0, 36)
    assert SQUARE.ranking_remark([flat, metric]).startswith("Only planar-laplace hides near places better")
    assert SQUARE.ranking_remark([flat]).startswith("No mechanism hides near places better than distant ones")
    assert SQUARE.ranking_remark([metric]) == ""
    shown = plan(SQUARE, users=2e4, epsilon=1, delta=1e-6, mechanism="krr")
    assert "No mechanism hides near places better than distant ones" in " ".join(str(shown).split())
    assert shown.document()["caveat"] == SQUARE.ranking_remark([flat])


def test_the_curator_of_a_map_is_that_of_as_many_options() -> None:
    """Cells are options to a curator too."""
    target = small_goal("location").target
    cells, options = (Goal(task, 1000, target).central_baseline for task in (SQUARE, Frequency(6)))
    assert cells == options


@pytest.mark.parametrize(
    ("edges", "part"),
    [
        ((0, 1, 0, 1e9), "expected at most 1,048,576 cells, got 6 columns and 1,000,000,000 rows; give fewer columns"),
        ((0, 1e-300, 0, 1e300), "expected at most 1,048,576 cells"),
    ],
)
def test_too_many_cells_are_a_sentence(edges: tuple[float, ...], part: str) -> None:
    """Where a map is far from square, nearly square cells are many."""
    with pytest.raises(ValueError, match=f"^task: {part}"):
        Location(*edges)  # type: ignore[arg-type]


@pytest.mark.parametrize("edges", [(0, 361, 0, 1), (0, 1, -91, 1), (0, 1, 89, 91)])
def test_degrees_are_those_of_the_earth(edges: tuple[float, ...]) -> None:
    """The whole earth is a map; more is not."""
    assert Location(-180, 180, -90, 90, coordinates="degrees").cells == 18
    with pytest.raises(ValueError, match=r"^task: a map in degrees must lie between latitudes -90 and 90"):
        Location(*edges, coordinates="degrees")  # type: ignore[misc]
