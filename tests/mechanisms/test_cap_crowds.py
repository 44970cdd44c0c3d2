"""Caps of a sphere: what three of them share, kinds that stand for all triples, and what the bound gains by it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betainc

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.mechanisms.vector.privunit import (
    CapClasses,
    CapOverlap,
    CapWorstDataset,
    Overlaps,
    build_cap_other_users,
)
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.sampling.spherical_caps_and_frames import Cap
from shuffledp.testing.mechanism_checks import is_below_a_mixture

CAPS = [Cap(3, 0.1), Cap(3, 0.45), Cap(4, 0.3), Cap(7, 0.2), Cap(64, 0.05)]
RATIO = 4.0


def share(cap: Cap) -> float:
    with precision(96):
        return float(cap.share())


def upper_tail(dimension: int, level: float) -> float:
    """How likely the first coordinate of a uniform point of the sphere is at least this."""
    if abs(level) >= 1:
        return float(level < 0)
    tail = float(betainc((dimension - 1) / 2, 0.5, 1 - level * level)) / 2
    return tail if level >= 0 else 1 - tail


def shared(cap: Cap, angle: float) -> float:
    """By the definition: height by height towards one centre."""
    d, h = cap.dimension, cap.height
    constant = math.exp(math.lgamma(d / 2) - math.lgamma((d - 1) / 2)) / math.sqrt(math.pi)

    def at(t: float) -> float:
        level = (h - t * math.cos(angle)) / (math.sqrt(1 - t * t) * math.sin(angle))
        return constant * (1 - t * t) ** ((d - 3) / 2) * upper_tail(d - 1, level)

    corner = 2 * h / (1 + math.cos(angle))
    return sum(
        quad(at, a, b, epsabs=1e-11, limit=200)[0] for a, b in ((h, min(1, corner)), (min(1, corner), 1)) if b > a
    )


@pytest.mark.parametrize("cap", CAPS, ids=str)
@pytest.mark.parametrize("beta", [0.4, 1.1, 2.0, 3.0])
def test_what_two_caps_share(cap: Cap, beta: float) -> None:
    """The integral of the closed form, beside the definition; from below, and the whole cap at the end."""
    overlap = CapOverlap(cap)
    with precision(96):
        found, whole = float(overlap.value(beta)), float(overlap.value(math.pi))
    assert found == pytest.approx(shared(cap, math.pi - beta), abs=2e-7)
    assert overlap.approximate(beta)[0] == pytest.approx(found, abs=1e-5)
    assert whole == pytest.approx(share(cap), rel=1e-8)
    assert whole <= share(cap) * (1 + 1e-12)


def arcs(height: float, angle: float, t: float) -> float:
    """Half of the arc, on the circle of points as high as t, of the cap around a centre at this angle."""
    rim = math.sqrt(1 - t * t) * math.sin(angle)
    level = (height - t * math.cos(angle)) / max(rim, 1e-12)
    return math.acos(min(1.0, max(-1.0, level)))


def common_arc(first: float, second: float, turn: float) -> float:
    """Of two arcs of these half lengths whose middles are ``turn`` apart, as a part of the circle."""
    one_way = max(0.0, min(first, turn + second) - max(-first, turn - second))
    around = max(0.0, first - (2 * math.pi + turn - second)) + max(0.0, turn + second - (2 * math.pi - first))
    return min(one_way + around, 2 * first, 2 * second) / (2 * math.pi)


def triple(height: float, angles: tuple[float, float], turn: float, steps: int = 4000) -> tuple[Floats, float]:
    """On a sphere in three dimensions: B − b, o_0 and o_1; and b."""
    places = (np.arange(steps) + 0.5) / steps * 2 - 1
    rows = np.array([[arcs(height, angle, t) for angle in angles] for t in places])
    both = np.array([common_arc(*row, turn) for row in rows])
    own = places >= height
    o = (rows / math.pi)[own].sum(axis=0) / steps
    return np.array([both[~own].sum() / steps, *o]), float(both[own].sum() / steps)


def law(cap: Cap, shares: Floats, common: float, ratio: float, epsilon: float) -> tuple[Floats, Floats]:
    """Of G for exact points, from the shares of three caps."""
    q, (pair, first, second), b = share(cap), shares, common
    low = 1 / (1 + q * (ratio - 1))
    high, c = ratio * low, math.exp(epsilon)
    cells = [
        (q - pair - first, high, low, low), (first - b, high, low, high), (q - pair - second, low, high, low),
        (second - b, low, high, high), (pair, high, high, low), (b, high, high, high),
        (q - first - second + b, low, low, high), (1 - 3 * q + pair + first + second, low, low, low),
    ]  # fmt: skip
    assert min(size for size, *_ in cells) > -1e-3
    kept = [(max(size, 0.0), *rest) for size, *rest in cells]
    return np.array([(f - c * g) / r for _, f, g, r in kept]), np.array([s * r for s, _, _, r in kept])


@pytest.mark.parametrize(("height", "ratio"), [(0.1, 1.5), (0.1, RATIO), (0.3, RATIO), (0.45, 20.0)])
def test_every_triple_is_below_the_kinds(height: float, ratio: float) -> None:
    """Random triples in three dimensions, and some on a great circle, by a linear program."""
    cap = Cap(3, height)
    gamma = 1 / (1 + share(cap) * (ratio - 1))
    family = build_cap_other_users(cap, Fraction(gamma), 0.0)
    assert family is not None
    source = np.random.default_rng(7)
    turns = [math.pi, math.pi, *source.uniform(0, math.pi, 6)]
    for epsilon in (0.02, 0.3):
        kinds = [kind.law(epsilon).floats() for kind in family.user_pairs]
        for turn in turns:
            angles = float(source.uniform(0.2, 3.1)), float(source.uniform(0.2, 3.1))
            shares, common = triple(height, angles, turn)
            values, chances = law(cap, shares, common, ratio, epsilon)
            # The midpoint rule is good to about 1e-4.
            mean = float(values @ chances)
            assert is_below_a_mixture((mean + (values - mean) * 0.998, chances), kinds)


def test_triples_are_above_those_of_a_great_circle() -> None:
    """B − b, o_0 and o_1 as k of three angles that sum to at least π."""
    cap, source = Cap(3, 0.25), np.random.default_rng(3)
    grid = np.linspace(0, math.pi, 4000)
    k = np.array([CapOverlap(cap).approximate(beta)[0] for beta in grid])
    for _ in range(40):
        angles = float(source.uniform(0.1, 3.1)), float(source.uniform(0.1, 3.1))
        shares, _ = triple(0.25, angles, float(source.uniform(0, math.pi)), 2000)
        assert np.interp(shares + 1e-3, k[k > 0], grid[k > 0]).sum() >= math.pi
    # On a great circle nothing is in all three.
    shares, common = triple(0.25, (2.0, 2.2), math.pi)
    assert common == 0
    assert shares[0] == pytest.approx(shared(cap, 2 * math.pi - 4.2), abs=1e-3)


@pytest.mark.parametrize("cap", [Cap(3, 0.1), Cap(64, 0.05), Cap(64, 0.145)], ids=str)
def test_kinds_are_below_every_triple(cap: Cap) -> None:
    """Each point of a triangle has no less than the mean of its corners' kinds; all kinds are laws."""
    crowds = CapWorstDataset(CapOverlap(cap), RATIO)
    kinds, q = crowds.kinds(), share(cap)
    assert all(min(kind) >= 0 and max(kind) <= 1 and 1 - q * float(3 - sum(kind)) > 0 for kind in kinds)
    assert {(b, y, x) for b, x, y in kinds} == set(kinds)
    source = np.random.default_rng(1)
    with precision(96):
        for triangle in crowds.triangles[::7]:
            corners: list[Overlaps] = list(crowds._corner_overlaps(triangle))
            weights = source.dirichlet(np.ones(3))
            place = weights @ np.array(triangle)
            mean = weights @ np.array([[float(each) for each in corner] for corner in corners])
            real = [float(CapOverlap(cap).value(crowds.overlap.lowest + crowds.width * w)) / q for w in place]
            assert (mean <= np.array(real) + 1e-9).all()


def test_every_law_within_the_error_is_below() -> None:
    """Laws that float arithmetic may have, at a large κ: E(G − t)_+ at every level."""
    cap, gamma, error, c = Cap(3, 0.3), 0.6, 0.05, math.exp(0.1)
    q = share(cap)
    overlaps = Fraction(1, 20), Fraction(1, 5), Fraction(1, 10)
    stands = HidingPair(CapClasses(cap, Fraction(gamma), error, overlaps), symmetric=False).law(0.1).floats()
    pair, first, second = (q * float(each) for each in overlaps)
    sizes = np.array([q - pair - first, first, q - pair - second, second, pair, q - first - second, 0.0])
    sizes[-1] = 1 - sizes.sum()
    inside = np.array([[1, 1, 0, 0, 1, 0, 0], [0, 0, 1, 1, 1, 0, 0], [0, 1, 0, 1, 0, 1, 0]]) / q
    source = np.random.default_rng(5)
    for _ in range(200):
        # Each cell in two halves; every law changes by factors within e^±κ, and still sums to 1.
        cells = np.tile(sizes / 2, 2)
        drawn = [cells, *(np.tile(row, 2) * cells for row in inside)]
        changed = []
        for one in drawn:
            other = one * np.exp(source.choice([-1, 1], len(one)) * error / 2)
            changed.append(other / other.sum())
        uniform, *caps = changed
        p, other, r = (gamma * uniform + (1 - gamma) * one for one in caps)
        values = (p - c * other) / r
        levels = np.concatenate([values, stands[0]])
        real = np.maximum(values - levels[:, None], 0.0) @ r
        assert (real <= np.maximum(stands[0] - levels[:, None], 0.0) @ stands[1] + 1e-12).all()


ATTACKS = [(0.5, (0.2171, 2.0462), 0.015437), (1.0, (0.4849, 1.5123), 0.034830), (3.0, (0.9537, 1.1329), 0.195084)]
"""For exact points: angles of a triple on a great circle, and what it attains, n = 10,000, δ = 1e-6."""


@pytest.mark.exhaustive("angles1")
@pytest.mark.parametrize(("local", "angles", "attained"), ATTACKS)
def test_near_what_exact_points_attain(local: float, angles: tuple[float, float], attained: float) -> None:
    """Below what any region gives, and hardly above a crowd of real caps; which is more than opposite caps attain."""
    mechanism = sdp.PrivUnitOptimized(epsilon=local, dimension=64)
    cap, gamma = mechanism.report.cap, mechanism.response.uniform_share
    q = share(cap)

    def delta(pair: float, first: float) -> float:
        shares = [shared(cap, math.pi - beta) if beta else 0.0 for beta in (pair, first, math.pi - pair - first)]
        overlaps = tuple(Fraction(each / q) for each in shares)
        kind = HidingPair(CapClasses(cap, gamma, 0.0, (overlaps[0], overlaps[1], overlaps[2])), symmetric=False)
        return float(PositivePartMean(kind.law, 9999).brackets([attained])[0].upper)

    assert delta(*angles) == pytest.approx(1e-6, rel=2e-3)
    assert delta(0.0, math.pi / 2) < 0.9e-6
    found = sdp.amplify(mechanism, 10_000, bound="all-crowds").epsilon(1e-6).upper
    assert attained * (1 - 1e-5) < found < attained * 1.002


def test_where_any_region_counts() -> None:
    """Three disjoint caps, many dimensions, arcs that cover the circle: the regions' family."""
    for epsilon, dimension in ((8.0, 5), (1.0, 1 << 14), (1.0, 2)):
        mechanism = sdp.PrivUnitOptimized(epsilon=epsilon, dimension=dimension)
        (found,) = mechanism.other_users()
        assert found.signature == frozenset(
            mechanism.response.extreme_pairs(mechanism.response.share, Fraction(0), mechanism.response)
        )
