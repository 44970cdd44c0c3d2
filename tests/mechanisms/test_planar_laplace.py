"""Planar Laplace on a map: private for the distance, close to the density, in the plane and in degrees."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.privacy.metric_space import great_circle
from tests.mechanisms.test_metric_table import assert_private

CITY = {"west": 4.80, "east": 4.95, "south": 52.33, "north": 52.40, "coordinates": "degrees"}


@pytest.mark.parametrize(
    "mechanism",
    [
        sdp.PlanarLaplace(8.0, columns=5),
        sdp.PlanarLaplace(30.0, columns=6, rows=3),
        sdp.PlanarLaplace(1e-3, columns=3),
        sdp.PlanarLaplace(4.0, columns=9, rows=1),
        sdp.PlanarLaplace(10.0, columns=6, **CITY),
    ],
    ids=str,
)
def test_the_executed_table_is_private_for_the_distance(mechanism: sdp.PlanarLaplace) -> None:
    assert_private(mechanism)
    assert mechanism.space.diameter == mechanism.epsilon
    step = mechanism.epsilon / mechanism.reach
    for a, b in mechanism.space.pairs():
        if mechanism.coordinates == "plane":
            wanted = step * math.dist(mechanism.centres[a], mechanism.centres[b])
            assert mechanism.space.matrix[a, b] == pytest.approx(wanted, rel=1e-12)


def test_the_law_is_planar_laplace() -> None:
    """Given that it is inside, the message falls off as e^(−rate·distance), also far away."""
    mechanism = sdp.PlanarLaplace(20.0, columns=7)
    rows = mechanism.unit_table.units[:, :-1] / mechanism.unit_table.total_units
    for a in (0, 24, 48):
        for b in range(49):
            distance = math.dist(mechanism.centres[a], mechanism.centres[b])
            assert rows[a, b] / rows[a, a] == pytest.approx(math.exp(-mechanism.rate * distance), rel=1e-6)


def test_messages_are_near_and_decoded() -> None:
    """Half a million draws from the middle: the mean distance is that of the table within 5 standard deviations."""
    mechanism = sdp.PlanarLaplace(12.0, columns=9)
    points = np.full((500_000, 2), 0.5)
    messages = mechanism.encode(points, rng=np.random.default_rng(4))
    places = mechanism.decode(messages)
    inside = messages < 81
    assert np.isnan(places[~inside]).all()
    distances = np.hypot(*(places[inside] - 0.5).T)
    law = mechanism.unit_table.units[40, :-1] / mechanism.unit_table.units[40, :-1].sum()
    apart = np.hypot(*(mechanism.centres - 0.5).T)
    mean, spread = float(law @ apart), math.sqrt(float(law @ apart**2) - float(law @ apart) ** 2)
    assert abs(distances.mean() - mean) < 5 * spread / math.sqrt(inside.sum())


def test_degrees_are_metres() -> None:
    """ε per metre; the map's distances agree with the great circle within 1 in 1000 over a city."""
    mechanism = sdp.PlanarLaplace.per_unit(math.log(4) / 2000, columns=8, **CITY)
    assert mechanism.rate == pytest.approx(math.log(4) / 2000, rel=1e-12)
    for a, b in ((0, 7), (0, len(mechanism.centres) - 1), (3, 20)):
        metres = great_circle(mechanism.centres[a], mechanism.centres[b])
        assert mechanism.space.matrix[a, b] / mechanism.rate == pytest.approx(metres, rel=1e-3)
    latitude, longitude = mechanism.centres[0]
    assert 52.33 < latitude < 52.40
    assert 4.80 < longitude < 4.95
    assert mechanism.grid.find_cells(mechanism.check(mechanism.centres)).tolist() == list(range(len(mechanism.centres)))


def test_near_places_are_better_protected() -> None:
    """A pair, a diameter and the whole map, in this order; each attacked from below."""
    mechanism = sdp.PlanarLaplace(8.0, columns=6)
    users, delta = 20_000, 1e-6
    pair = sdp.amplify(mechanism, users, pair=((0.1, 0.1), (0.3, 0.1)), effort="quick").epsilon(delta)
    near = sdp.amplify(mechanism, users, diameter=0.15, effort="quick").epsilon(delta)
    whole = sdp.amplify(mechanism, users, effort="quick").epsilon(delta)
    assert pair.lower is not None
    assert 0 < pair.lower <= pair.upper <= near.upper <= whole.upper <= 8.0
    same = sdp.amplify(mechanism, users, pair=((0.1, 0.1), (0.11, 0.1)), effort="quick").epsilon(delta)
    assert same.upper < 1e-6


def test_a_diameter_counts_points_at_the_edges_of_cells() -> None:
    """Two points may be near and yet in cells whose centres are far: the diameter covers every such pair."""
    mechanism = sdp.PlanarLaplace(6.0, columns=4)
    users, delta = 5_000, 1e-6
    near = sdp.amplify(mechanism, users, diameter=0.02, effort="quick").epsilon(delta).upper
    across = sdp.amplify(mechanism, users, pair=((0.249, 0.249), (0.251, 0.251)), effort="quick").epsilon(delta).upper
    assert across <= near


def test_counts_are_estimated() -> None:
    """Unbiased, with the stated variance: every cell within 6 standard deviations (false alarm below 1e-6)."""
    mechanism = sdp.PlanarLaplace(10.0, columns=4)
    generator = np.random.default_rng(9)
    points = generator.beta(2, 5, (200_000, 2))
    estimate = mechanism.estimate(mechanism.encode(points, rng=generator))
    assert (np.abs(estimate.value - mechanism.truth(points)) < 6 * np.sqrt(mechanism.variance(points))).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"epsilon": 100.0}, "epsilon must be from 1e-09 to 36, got 100.0"),
        ({"epsilon": 1.0, "west": 2.0}, "west must be below east"),
        ({"epsilon": 1.0, "columns": 64}, "expected 2 to 1024 cells, got 64 columns and 64 rows"),
        ({"epsilon": 1.0, "columns": 1, "rows": 1}, "expected 2 to 1024 cells"),
        ({"epsilon": 1.0, "coordinates": "feet"}, "coordinates must be plane or degrees, got 'feet'"),
        ({"epsilon": 1.0, "coordinates": "degrees", "north": 89.0}, "between latitudes -85 and 85"),
    ],
)
def test_bad_settings(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"PlanarLaplace: .*{sentence}"):
        sdp.PlanarLaplace(**settings)


def test_bad_points() -> None:
    mechanism = sdp.PlanarLaplace(1.0, columns=2)
    with pytest.raises(ValueError, match=r"points must lie in the region, got \[2.0, 0.0\]"):
        mechanism.encode([[0.0, 0.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match="expected two coordinates per user, got 3"):
        mechanism.encode([[0.0, 0.0, 0.0]])


@pytest.mark.parametrize("diameter", [0.1, 0.25, 0.3, 0.5, 1e-300])
def test_a_diameter_is_attacked_with_places_that_are_that_near(diameter: float) -> None:
    """Alone in a row of four cells: the largest total variation over all places of a fine lattice that are so near.

    Cells are half open: with a diameter of one cell, no two places of the first and the third are near enough.
    """
    mechanism = sdp.PlanarLaplace(2.0, columns=4, rows=1)
    lattice = np.linspace(0.0, 1.0, 4 * 16 + 1)
    places = np.sort(np.concatenate([lattice, np.nextafter(lattice[1:-1], 0.0)]))
    cells = mechanism.grid.find_cells(np.stack([places, np.full(len(places), 0.5)], axis=1))
    rows = mechanism.unit_table.units / mechanism.unit_table.total_units
    held = list(zip(map(Fraction, places.tolist()), cells.tolist(), strict=True))
    pairs = {(a, b) for x, a in held for y, b in held if 0 <= y - x <= Fraction(diameter)}
    truth = max(float(np.maximum(rows[a] - rows[b], 0).sum()) for a, b in pairs)
    found = sdp.amplify(mechanism, 1, diameter=diameter, effort="quick").delta(0.0)
    if diameter == 1e-300:
        assert found.lower is None
    else:
        assert found.lower == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [
        sdp.PlanarLaplace(2.0, columns=4, rows=2),
        sdp.PlanarLaplace(2.0, columns=5, **CITY),
        sdp.PlanarLaplace(2.0, west=-3.0, east=1e3, south=1e5, north=1e5 + 1, columns=7, rows=3),
    ],
    ids=str,
)
def test_places_on_both_sides_of_an_edge(mechanism: sdp.PlanarLaplace) -> None:
    """They lie in the cells asked for, and are as far apart as the cells are."""
    region = mechanism.grid
    for a, b in mechanism.space.pairs():
        points = region.nearest_points(a, b)
        assert region.find_cells(points).tolist() == [a, b]
        assert region.distance(points) == pytest.approx(region.least_distance(a, b), rel=1e-6, abs=1e-7)
