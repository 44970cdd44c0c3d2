"""Hats on a line: pairs that move apart spread G, a few kinds stand for all; checked one by one in convex order."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound
from shuffledp.mechanisms.mean.witch_hat import HatKind, HatWorstDataset
from shuffledp.testing.bounds import build_trial, compare_bounds
from shuffledp.testing.mechanism_checks import is_below_a_mixture

LINE = np.arange(-60, 61)
Law = tuple[Floats, Floats]


def weights(steps: Floats, *points: int) -> Floats:
    """What the laws of some points have in common, from the definition."""
    far = np.max([np.abs(LINE - point) for point in points], axis=0)
    return np.asarray(steps[np.minimum(far, len(steps) - 1)])


def law(steps: Floats, first: int, second: int, thirds: tuple[int, ...], c: float) -> Law:
    """Of G on a long line, in units; what is revealed has G = 0."""
    hiding = weights(steps, *thirds)
    values = (weights(steps, first) - c * weights(steps, second)) / hiding
    rest = weights(steps, thirds[0]).sum() - hiding.sum()
    return np.append(values, 0.0), np.append(hiding, rest)


def is_below(one: Law, other: Law) -> bool:
    levels = np.unique(np.concatenate([one[0], other[0]]))
    left, right = (np.maximum(v - levels[:, None], 0.0) @ w for v, w in (one, other))
    return bool((left <= right + 1e-9 * np.abs(right).max()).all())


def test_raising_the_second_spreads_whatever_the_weights() -> None:
    """Any weights that fall; the other user not above the second."""
    source = np.random.default_rng(2)
    for _ in range(60):
        steps = np.sort(source.uniform(0.1, 1.0, source.integers(2, 9)))[::-1]
        b, c = int(source.integers(1, 12)), float(source.uniform(1.0, 3.0))
        x, end = (int(each) for each in source.integers(-8, b + 1, 2))
        for thirds in ((x,), (min(x, end), max(x, end))):
            assert is_below(law(steps, 0, b, thirds, c), law(steps, 0, b + 1, thirds, c))


@pytest.mark.parametrize("reach", [2, 5, 9])
def test_lowering_the_first_spreads_where_others_hide_as_the_second(reach: int) -> None:
    """With what P_b and P_x have in common, x above b."""
    rate = 0.2
    steps = np.exp(-rate * np.minimum(np.arange(reach + 1), reach - 0.4))
    for b in range(1, 14):
        for x in range(b, b + 14):
            for part in (0.0, 0.3, 0.9):
                c = math.exp(part * min(b * rate, (reach - 0.4) * rate))
                assert is_below(law(steps, 0, b, (b, x), c), law(steps, -1, b, (b, x), c))


MECHANISMS = [
    sdp.WitchHat(1.0, grid=12, scale=1.0), sdp.WitchHat(3.0, grid=12, scale=1.0), sdp.WitchHat(2.0, grid=40, scale=0.5),
    sdp.WitchHat(2.0, grid=90, scale=0.8),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_every_pair_and_other_user_is_below_some_kind(mechanism: sdp.WitchHat, epsilon: float) -> None:
    (family,) = mechanism.other_users()
    kinds = [kind.law(epsilon).floats() for kind in family.user_pairs]
    hat, c = mechanism.hat, math.exp(epsilon)
    some = range(0, hat.grid + 1, max(1, hat.grid // 7))
    for a, b in permutations(some, 2):
        first, second = hat.weights(a) / hat.total_units, hat.weights(b) / hat.total_units
        if (first <= c * second).all():
            continue
        for x in some:
            hiding = hat.weights(x) / hat.total_units
            one = (first - c * second) / hiding, hiding
            assert any(is_below(one, kind) for kind in kinds) or is_below_a_mixture(one, kinds)


@pytest.mark.parametrize("kind", [HatKind(0, 90, (0, 3)), HatKind(5, 90, (-2, 0)), HatKind(0, 80, (80, 93))], ids=str)
def test_messages_that_are_told_as_others_tell_more(kind: HatKind) -> None:
    crowds = HatWorstDataset(sdp.WitchHat(4.0, grid=90, scale=0.6).hat)
    assert crowds._stride > 1
    first, second = (crowds._law(point) / crowds.hat.total_units for point in kind[:2])
    hiding = crowds._law(*kind.third_range) / crowds.hat.total_units
    pair = crowds.pair(kind)
    assert len(pair.classes()) < len(hiding)
    for epsilon in (0.0, 0.2):
        values = np.append((first - math.exp(epsilon) * second) / hiding, 0.0)
        told = pair.law(epsilon).floats()
        assert is_below((values, np.append(hiding, 1 - hiding.sum())), told)
        assert sum(told[1]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("mechanism", [*sdp.WitchHat.examples(), sdp.WitchHat(3.0, grid=2, scale=2.0)], ids=str)
def test_against_all_datasets(mechanism: sdp.WitchHat) -> None:
    found = list(compare_bounds([WorstDatasetBound(fewest=1)], build_trial(mechanism)))
    assert found
    assert [wrong for _, wrong in found if wrong] == []


@pytest.mark.exhaustive
def test_near_the_attack() -> None:
    """Far below the blanket, and hardly more than two ends attain; for a narrow hat all of it is there."""
    for local, loss in ((1.0, 1.002), (2.0, 1.008)):
        found = sdp.amplify(sdp.WitchHat(local), 10_000, bound="all-crowds").epsilon(1e-6)
        assert found.lower is not None
        assert found.lower <= found.upper <= loss * found.lower
    assert found.upper < 0.94 * sdp.amplify(sdp.WitchHat(2.0), 10_000, effort="quick").epsilon(1e-6).upper


def test_where_nothing_is_said() -> None:
    """Many messages."""
    assert list(sdp.WitchHat(1.0, grid=1 << 14).other_users()) == []
