"""δ at many ε at once: certified, in agreement with one by one, and with exact enumeration of the shuffled counts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy.curve import largest_divergence
from tests.oracle.exact_enumeration import hockey_stick_of_counts

RANDOMIZERS = {
    "any LDP": sdp.VariationRatio.from_ldp(2.0),
    "two directions": sdp.VariationRatio(p=9.0, beta=0.6, q=(9.0, 3.0)),
    "raised": sdp.VariationRatio(p=9.0, beta=0.6, q=(9.0, 3.0), q_common=9.0),
    "disjoint": sdp.VariationRatio(p=math.inf, beta=1.0, q=16.0),
    "randomized response": sdp.KRR(epsilon=1.5, options=6),
    "unary": sdp.OUE(epsilon=2.0, options=20),
}


@pytest.mark.exhaustive("best-20-any LDP", "best-20-randomized response", "best-20-unary", "best-2000-any LDP")
@pytest.mark.parametrize("name", RANDOMIZERS)
@pytest.mark.parametrize("users", [20, 2000, 10**6])
@pytest.mark.parametrize("bound", ["best", "variation-ratio"])
def test_agrees_with_one_by_one(name: str, users: int, bound: str) -> None:
    """Both are certified, so they overlap; in any order of ε, beyond the cap, and at 0."""
    curve = sdp.amplify(RANDOMIZERS[name], users, bound=bound)
    most = curve.epsilon(1e-9).upper
    far = [800.0] if math.isinf(most) else [most, most * 1.7]
    points = np.array([*np.linspace(0.0, min(most, 5.0), 7)[::-1], *far])
    found = curve.profile(points)
    assert np.array_equal(found.epsilons, points)
    assert np.all(found.lower <= found.upper)
    for epsilon, upper, lower in zip(points, found.upper, found.lower, strict=True):
        value = curve.delta(float(epsilon))
        assert lower <= value.upper
        # One value alone leaves out a bound that takes long where it would hardly be smaller.
        assert upper >= (value.upper - value.slack) * (0.99 if bound == "best" else 1)
        assert upper <= value.upper * 1.002


def test_exact_enumeration_is_inside() -> None:
    """Eight users in exact rationals; the ratio is the float e^ε's own value, a hair from e^ε, so a hair is allowed."""
    parameters = sdp.VariationRatio(p=3.0, beta=0.5, q=3.0)
    curve = sdp.amplify(parameters, 8, bound="variation-ratio")
    points = [0.0, 0.1, 0.35, 0.8, 1.0]
    found = curve.profile(points)
    quarter = Fraction(1, 4)
    first, second, hiding = (3 * quarter, quarter, 0), (quarter, 3 * quarter, 0), (quarter, quarter, 1 - 2 * quarter)
    for place, epsilon in enumerate(points):
        exact = hockey_stick_of_counts(first, second, hiding, 8, Fraction(math.exp(epsilon)))
        assert found.lower[place] <= float(exact) * (1 + 1e-14)
        assert found.upper[place] >= float(exact) * (1 - 1e-14)


def test_skipping_by_chords_changes_nothing() -> None:
    """The largest of many divergences is the same whether or not chords decide which to look at."""
    curve = sdp.amplify(sdp.Laplace(epsilon=1.0), 2000, bound="optimal")
    divergences = curve._divergences  # type: ignore[attr-defined]
    points = np.linspace(0.0, curve.epsilon(1e-8).upper, 12)
    few = largest_divergence(divergences[:6], points, convex=True)
    all_of_them = largest_divergence(divergences[:6], points, convex=False)
    assert np.all(few[0] <= all_of_them[0])
    assert np.all(few[0] >= all_of_them[1])
    assert np.all(few[1] <= all_of_them[0])


def test_the_leader_may_change() -> None:
    """Divergences that cross: each is the larger somewhere, and neither is lost."""
    ways = [sdp.VariationRatio(p=3.0, beta=0.5, q=3.0), sdp.VariationRatio(p=60.0, beta=0.05, q=8.0)]
    families = [PositivePartMean(lambda x, way=way: way.pair(x).law(x), 500) for way in ways]  # type: ignore[misc]
    points = np.linspace(0.0, 1.0, 40)
    upper, lower = largest_divergence(families, points, convex=True)
    leaders = set()
    for place in range(0, 40, 3):
        values = [family.bracket(float(points[place])) for family in families]
        leaders.add(int(values[1].upper > values[0].upper))
        assert upper[place] >= max(value.lower_float() for value in values)
        assert lower[place] <= max(value.upper_float() for value in values)
    assert leaders == {0, 1}


@pytest.mark.parametrize("bad", [[-0.1], [math.nan], [math.inf], [[0.1, 0.2]]])
def test_nonsense_is_refused(bad: object) -> None:
    """One sentence for what is no row of ε."""
    curve = sdp.amplify(sdp.KRR(epsilon=1.0, options=4), 100, effort="quick")
    with pytest.raises(ValueError, match="epsilons must be a row of finite numbers"):
        curve.profile(bad)  # type: ignore[arg-type]
