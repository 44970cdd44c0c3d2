"""Dummies together with the others' own noise."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from tests.oracle import multi_message_divergence

PROTOCOLS: list[Any] = [
    sdp.MixDUMP(options=3, flip=0.5),
    sdp.MixDUMP(options=2, flip=0.25, share=0.5),
    sdp.CheuZhilyaev(options=2, flip=0.25),
    sdp.CheuZhilyaev(options=2, flip=0.4, dummies=2),
]


@pytest.mark.parametrize("mechanism", PROTOCOLS, ids=repr)
def test_the_noise_is_there_whatever_the_value(mechanism: Any) -> None:
    """Every real message's law is at least λ times that of a dummy, exactly, and for no larger λ."""
    _, chance = mechanism.count_noisy_messages(mechanism.hiding_messages(5))
    table = mechanism.message_table()
    ratios = [real / dummy for row in table.rows for real, dummy in zip(row, table.dummy, strict=True) if dummy]
    # A blank is no real message; a uniform message hides at least as well as one that may be blank.
    filled = mechanism.dummy_law.filled if isinstance(mechanism, sdp.MixDUMP) else 1
    kept = [ratio * filled for ratio in ratios if ratio]
    assert min(kept) == chance


@pytest.mark.parametrize("mechanism", PROTOCOLS, ids=repr)
def test_no_dataset_is_above_it(mechanism: Any) -> None:
    """Two and three users, every dataset, every pair."""
    laws = multi_message_divergence.report_laws(mechanism.table())
    for users in (2, 3):
        if users == 3 and len(mechanism.table().messages) > 20:
            continue
        for ratio in (Fraction(9, 8), Fraction(2), Fraction(5)):
            truth = float(multi_message_divergence.worst_divergence(laws, users, ratio))
            value = sdp.amplify(mechanism, users, bound="noisy-crowd").delta(math.log(ratio))
            assert value.upper >= truth * (1 - 1e-12)


@pytest.mark.exhaustive("30")
@pytest.mark.parametrize(
    ("mechanism", "users"),
    [
        (sdp.MixDUMP(options=3, flip=0.3), 40),
        (sdp.MixDUMP(options=5, flip=0.2, dummies=2, share=0.5), 30),
        (sdp.CheuZhilyaev(options=6, flip=0.3), 30),
    ],
    ids=repr,
)
def test_it_is_the_mixture_over_the_size_of_the_crowd(mechanism: Any, users: int) -> None:
    """δ is E[D_{M+H}], summed here term by term, within its slack; ε likewise."""
    messages = mechanism.hiding_messages(users)
    others, chance = mechanism.count_noisy_messages(messages)
    assert others == users - 1
    points = [0.0, 0.2, 0.7, 1.5, 2.5]
    profile = sdp.amplify(mechanism, users, bound="noisy-crowd").profile(points)
    for place, epsilon in enumerate(points):
        truth = math.fsum(
            comb(others, extra)
            * float(chance) ** extra
            * float(1 - chance) ** (others - extra)
            * sdp.bounds.blanket.OptimalBound().curve(mechanism, messages + extra).delta(epsilon).upper
            for extra in range(others + 1)
        )
        value = sdp.amplify(mechanism, users, bound="noisy-crowd").delta(epsilon)
        assert value.upper - value.slack <= truth * (1 + 1e-9)
        assert truth <= value.upper * (1 + 1e-9)
        assert profile.lower[place] * (1 - 1e-9) <= truth <= profile.upper[place] * (1 + 1e-9)
        if epsilon == 0 or truth == 0:
            continue
        found = sdp.amplify(mechanism, users, bound="noisy-crowd").epsilon(truth)
        assert found.upper >= epsilon * (1 - 1e-9)
        assert found.upper - found.slack <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("users", "slack"), [(100, 0.02), (1000, 0.01), (10**4, 0.003), (10**6, 0.001)])
def test_strata_leave_little_room(users: int, slack: float) -> None:
    """ε is near the mixture's own, which its slack says; δ at that ε is the target's."""
    curve = sdp.amplify(sdp.MixDUMP(options=16, flip=0.5), users, bound="noisy-crowd")
    value = curve.epsilon(1e-6)
    assert value.slack <= slack * value.upper
    assert curve.delta(value.upper).upper == pytest.approx(1e-6, rel=0.02)


@pytest.mark.parametrize("users", [500, 10**5, 10**8])
def test_it_is_tighter_and_never_below_the_attack(users: int) -> None:
    """With a third of the real messages noise, and one dummy each, ε is nearly that of a third more dummies."""
    mechanism = sdp.MixDUMP(options=16, flip=0.3125)
    assert float(mechanism.uniform_share) == pytest.approx(1 / 3)
    value = sdp.amplify(mechanism, users, effort="quick").epsilon(1e-6)
    plain = sdp.amplify(mechanism, users, bound="optimal").epsilon(1e-6)
    assert value.bound == "noisy-crowd"
    assert value.lower is not None
    assert value.lower <= value.upper < plain.upper
    more = sdp.amplify(mechanism, users * 4 // 3, bound="optimal").epsilon(1e-6)
    assert more.upper <= value.upper * (1 + 1e-2)
    assert value.upper <= more.upper * (1 + 4 / math.sqrt(users))


def test_many_epsilons_at_once() -> None:
    """A profile encloses the single values: never below what they prove from below, never far above."""
    curve = sdp.amplify(sdp.MixDUMP(options=16, flip=0.3), 3000, bound="noisy-crowd")
    points = [0.0, 0.05, 0.2, 0.4, 1.0]
    profile = curve.profile(points)
    for epsilon, upper, lower in zip(points, profile.upper, profile.lower, strict=True):
        value = curve.delta(epsilon)
        assert lower <= value.upper
        assert value.upper - value.slack <= upper <= max(value.upper * 1.02, 1e-120)


def test_where_it_does_not_apply() -> None:
    """Randomizers without dummies, real messages without noise, and a user alone are refused by name."""
    for mechanism, users, reason in (
        (sdp.KRR(1.0, 4), 100, "KRR gives no noise"),
        (sdp.PureDUMP(options=4), 100, "PureDUMP gives no noise"),
        (sdp.MixDUMP(options=4, flip=0.2), 1, "needs other users"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            sdp.amplify(mechanism, users, bound="noisy-crowd")


def test_tiny_targets_stay_sound() -> None:
    """At δ far below the floats' middle range the value is still finite and at most that of dummies alone."""
    mechanism = sdp.MixDUMP(options=16, flip=0.3)
    for delta in (1e-100, 1e-295):
        value = sdp.amplify(mechanism, 10**6, bound="noisy-crowd").epsilon(delta)
        plain = sdp.amplify(mechanism, 10**6, bound="optimal").epsilon(delta)
        assert 0 < value.upper <= plain.upper * 1.001


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_epsilon_and_delta_are_two_views_of_one_curve(delta: float) -> None:
    """The ε that is given has a δ that is proved, and nothing below its slack has."""
    curve = sdp.amplify(sdp.MixDUMP(64, flip=0.05, dummies=1), 20_000, bound="noisy-crowd")
    found = curve.epsilon(delta)
    assert curve.delta(found.upper).upper <= delta
    below = found.upper - found.slack
    assert curve.delta(below).upper >= delta * (1 - 1e-6)
