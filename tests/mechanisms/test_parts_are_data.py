"""Mechanisms of means, vectors, metric spaces and tables, and their parts, are data: they compare, hash and pickle."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms

MEANS = ["laplace", "piecewise", "duchi", "harmony", "privunit", "privunit-optimized", "privunit-g", "privhs", "sqkr"]
NAMES = [
    *MEANS,
    "gaussian-vector",
    "exponential",
    "padded-exponential",
    "planar-laplace",
    "witch-hat",
    "table",
    "density",
]
CASES = [
    pytest.param(name, number, id=f"{name}-{number}")
    for name in NAMES
    for number in range(len(all_mechanisms()[name].examples()))
]
every_example = pytest.mark.parametrize(("name", "number"), CASES)


def example(name: str, number: int) -> Mechanism:
    return all_mechanisms()[name].examples()[number]


def travelled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@every_example
def test_parts_compare_hash_and_pickle(name: str, number: int) -> None:
    """Two of a kind have equal parts; a part that was used and sent away comes back equal."""
    mechanism, twin = example(name, number), example(name, number)
    mechanism.estimate(mechanism.encode(mechanism.audit_pair(), rng=np.random.default_rng(1)))
    mechanism.variance(mechanism.audit_pair())
    for part in ("domain", "encoding", "estimator", "proposal"):
        mine, theirs = getattr(mechanism, part), getattr(twin, part)
        assert mine == theirs
        assert hash(mine) == hash(theirs)
        back = travelled(mine)
        assert back == mine
        assert hash(back) == hash(mine)


@every_example
def test_mechanisms_compare_hash_and_pickle(name: str, number: int) -> None:
    """Also after they were used; the one that comes back draws the same messages."""
    mechanism, twin = example(name, number), example(name, number)
    values = mechanism.audit_pair()
    messages = mechanism.encode(values, rng=np.random.default_rng(1))
    back = travelled(mechanism)
    for other in (twin, back):
        assert other == mechanism
        assert hash(other) == hash(mechanism)
    np.testing.assert_array_equal(back.encode(values, rng=np.random.default_rng(1)), messages)
    others = [one for one in all_mechanisms()[name].examples() if one != mechanism]
    assert len(others) == len(all_mechanisms()[name].examples()) - 1


@pytest.mark.parametrize("name", ["laplace", "exponential", "padded-exponential", "planar-laplace", "witch-hat"])
def test_laws_without_stored_pairs_are_data(name: str) -> None:
    law = example(name, 1).law
    law.variation_ratio()
    assert law == example(name, 1).law
    assert travelled(law) == law


@pytest.mark.parametrize("mechanism", [sdp.Laplace(1.0, grid=9), sdp.Laplace(1.0, grid=300)], ids=repr)
def test_classes_of_pairs_are_data(mechanism: sdp.Laplace) -> None:
    """What a pair computes its classes from is numbers, and gives the same classes after a journey."""
    twin = sdp.Laplace(mechanism.epsilon, grid=mechanism.grid)
    pairs = [*mechanism.blankets()[:1], *mechanism.attacks()]
    theirs = [*twin.blankets()[:1], *twin.attacks()]
    for pair, other in zip(pairs, theirs, strict=True):
        assert pair.classes == other.classes
        assert hash(pair.classes) == hash(other.classes)
        back = travelled(pair.classes)
        assert back == pair.classes
        assert [tuple(map(str, c)) for c in back()] == [tuple(map(str, c)) for c in pair.classes()]


def rising(x: float, y: Any) -> Any:
    return 1 + x * (y - 0.5)


def test_densities_are_the_objects_they_are() -> None:
    """Equal if the density is one object and the cells are the same; it travels where the density does."""

    def falling(x: float, y: Any) -> Any:
        return 1 + x * (y - 0.5)

    one = sdp.FromDensity(rising, [0.5, -0.5], 0.0, 1.0, 4)
    assert one == sdp.FromDensity(rising, (0.5, -0.5), 0.0, 1.0, 4)
    assert one != sdp.FromDensity(falling, [0.5, -0.5], 0.0, 1.0, 4)
    assert one != sdp.FromDensity(rising, [0.5, -0.5], 0.0, 1.0, 5)
    assert one != sdp.FromTable([[float(c) for c in row] for row in one.table().probabilities])
    assert travelled(one) == one
    sent = sdp.SentPoint(one, change=0.2)
    assert sent == sdp.SentPoint(sdp.FromDensity(rising, [0.5, -0.5], 0.0, 1.0, 4), change=0.2)
    assert sent != sdp.SentPoint(one, change=0.3)
    pair, other = sent.blankets()[0], travelled(sent).blankets()[0]
    assert pair.classes == other.classes
    assert pair.reverse_classes == other.reverse_classes


def test_tables_compare_by_their_numbers() -> None:
    rows = [[0.25, 0.75], [0.5, 0.5]]
    assert sdp.FromTable(rows) == sdp.FromTable(np.array(rows))
    assert sdp.FromTable(rows) != sdp.FromTable(rows[::-1])
    assert len({sdp.FromTable(rows), sdp.FromTable(np.array(rows))}) == 1
    with pytest.raises(ValueError, match="read-only"):
        travelled(sdp.FromTable(rows)).matrix[0, 0] = 1.0
    near, far = ([[0.0, d], [d, 0.0]] for d in (1.0, 2.0))
    assert sdp.Exponential(near) == sdp.Exponential(np.array(near))
    assert sdp.Exponential(near) != sdp.Exponential(far)
    assert sdp.Exponential(near) != sdp.PaddedExponential(near)


def test_a_saved_map_keeps_its_rows() -> None:
    """Rows that were chosen are a setting."""
    mechanism = sdp.PlanarLaplace(2.0, east=2.0, columns=4)
    assert mechanism.settings()["rows"] == 2
    assert sdp.PlanarLaplace(**mechanism.settings()) == mechanism
