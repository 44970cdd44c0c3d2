"""The front door: which bound is taken, what is refused, and what colluding users cost."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from shuffledp import (
    KRR,
    OUE,
    Exponential,
    Laplace,
    NotApplicable,
    PaddedExponential,
    PlanarLaplace,
    VariationRatio,
    WitchHat,
    amplify,
    compose,
)
from shuffledp.bounds.amplify import ChosenInputsCurve, bound_names
from shuffledp.bounds.pointwise_minimum import BestCurve
from shuffledp.bounds.registry import BOUNDS_BY_NAME, best_curve
from shuffledp.privacy.curve import NumericCurve, PrivacyCurve
from shuffledp.privacy.dominating_pairs import HidingPair
from shuffledp.privacy.randomizer_interface import Randomizer

PARAMETERS = VariationRatio(math.e, (math.e - 1) / (math.e + 15), math.e, q_common=1.0)


def test_best_takes_the_variation_ratio_bound_for_raw_parameters() -> None:
    """For parameters alone the smallest certified guarantee is the sound variation-ratio bound."""
    for parameters in (PARAMETERS, VariationRatio.from_ldp(2.0), VariationRatio(math.inf, 0.5, 4.0)):
        for users in (5, 1000):
            curve = amplify(parameters, users, effort="quick")
            value, alone = curve.epsilon(1e-4), amplify(parameters, users, bound="variation-ratio").epsilon(1e-4)
            assert value.bound == "variation-ratio"
            assert value.upper == alone.upper
            assert curve.delta(0.1).upper == amplify(parameters, users, bound="variation-ratio").delta(0.1).upper


def test_best_is_the_default_and_a_name() -> None:
    """Asking for "best" is the same as asking for nothing."""
    assert amplify(PARAMETERS, 100, bound="best").epsilon(1e-3) == amplify(PARAMETERS, 100, effort="quick").epsilon(
        1e-3
    )
    assert bound_names()[0] == "best"
    assert set(bound_names()) == {"best", *BOUNDS_BY_NAME}


@pytest.mark.exhaustive("randomizer1-2000", "randomizer1-30", "randomizer2-30")
@pytest.mark.parametrize("users", [2, 30, 2000])
@pytest.mark.parametrize("randomizer", [PARAMETERS, VariationRatio.from_ldp(0.3), KRR(epsilon=2.0, options=8)])
def test_best_is_the_smallest_guarantee(randomizer: Any, users: int) -> None:
    """No guarantee is smaller than ``best``, and best is one of them; a quick answer leaves the slow ones out."""
    best, quick = (amplify(randomizer, users, effort=effort) for effort in ("full", "quick"))
    for delta in (1e-2, 1e-6):
        value, soon = best.epsilon(delta), quick.epsilon(delta)
        assert value.guarantee
        seen = {}
        for name, bound in BOUNDS_BY_NAME.items():
            try:
                seen[name] = amplify(randomizer, users, bound=name).epsilon(delta)
            except NotApplicable:
                continue
            if bound.guarantees and not bound.slow:
                assert soon.upper <= seen[name].upper + seen[name].slack + value.slack
            # A gain of less than 5e-4 is not looked for.
            if bound.guarantees:
                assert value.upper <= seen[name].upper * 1.0006 + seen[name].slack + value.slack
        assert value.bound in seen
        assert seen[value.bound].upper == value.upper


@pytest.mark.parametrize(("randomizer", "alike"), [(KRR(2.0, 16), True), (OUE(2.0, 16), False)])
@pytest.mark.parametrize("users", [1000, 100_000, 10**7])
def test_one_law_under_two_names_is_computed_once(
    randomizer: Any, alike: bool, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a law that is another one is not taken for the same, however close its value is."""
    curve = best_curve(randomizer, users)
    assert isinstance(curve, BestCurve)
    first, second = curve.curves
    values = [one.epsilon(1e-6).upper for one in curve.curves]
    assert (abs(values[1] / values[0] - 1) < 1e-9) == alike
    asked: list[str] = []
    real = NumericCurve._epsilon

    def noted(self: NumericCurve, delta: float) -> Any:
        asked.append(self.bound)
        return real(self, delta)

    monkeypatch.setattr(NumericCurve, "_epsilon", noted)
    assert curve.epsilon(1e-6).upper == values[0] == min(values[0], values[1] * (1 + 1e-9))
    assert asked == [first.bound] or (not alike and asked == [first.bound, second.bound])


def test_best_says_why_the_others_were_not_used() -> None:
    """Each bound is either used or refused with a reason; published ones are refused as no guarantee."""
    curve = best_curve(PARAMETERS, 100)
    if isinstance(curve, BestCurve):
        refused = dict(curve.rejected)
        used = {one.bound for one in curve.curves}
        assert set(refused) | used == set(BOUNDS_BY_NAME)
        assert not set(refused) & used
        assert "not a guarantee" in refused["variation-ratio-published"]
        assert "never better than" in refused["analytic"]
        assert all(reason.endswith(".") for reason in refused.values())


@pytest.mark.parametrize("bound", sorted(BOUNDS_BY_NAME))
def test_every_bound_is_reached_by_its_name(bound: str) -> None:
    """A curve carries the name, the theorem and the number of users of the bound that was asked for."""
    try:
        curve = amplify(VariationRatio.from_ldp(0.4), 5000, bound=bound)
        value = curve.epsilon(1e-4)
    except NotApplicable as error:
        assert any(words in error.reason for words in ("gives no", "has no noise", "asks one question"))  # noqa: PT017
        return
    assert curve.bound == bound == value.bound
    assert curve.theorem == BOUNDS_BY_NAME[bound].theorem == value.theorem
    assert (curve.users, curve.messages) == (5000, 5000)
    assert 0 < value.upper <= 0.4 + 1e-12


@pytest.mark.parametrize("bound", ["variation_ratio", "Best", "", "optimall"])
def test_an_unknown_bound_is_refused(bound: str) -> None:
    """The sentence lists every name that is known and shows the one that was given."""
    with pytest.raises(ValueError, match="bound must be one of") as caught:
        amplify(PARAMETERS, 100, bound=bound)
    for name in bound_names():
        assert name in str(caught.value)
    assert repr(bound) in str(caught.value)


@pytest.mark.parametrize("thing", [None, 3.0, "krr", object(), [PARAMETERS], {"p": 3}])
def test_what_is_no_randomizer_is_refused(thing: Any) -> None:
    """Anything that offers no parameters is refused with what was expected."""
    with pytest.raises(TypeError, match="expected a mechanism or VariationRatio"):
        amplify(thing, 100, effort="quick")


@pytest.mark.parametrize("thing", [VariationRatio, KRR])
def test_a_class_is_no_randomizer(thing: Any) -> None:
    """The class itself in place of an instance is refused with the same sentence."""
    with pytest.raises(TypeError, match="expected a mechanism or VariationRatio"):
        amplify(thing, 100, effort="quick")


def test_anything_that_gives_parameters_is_a_randomizer() -> None:
    """A bound asks what a randomizer offers, not for its class."""

    class Mine(Randomizer):
        def variation_ratio(self) -> VariationRatio:
            return PARAMETERS

        def blankets(self) -> list[HidingPair]:
            return []

        def attacks(self) -> list[HidingPair]:
            return []

    found, known = (amplify(one, 50, effort="quick").epsilon(1e-3) for one in (Mine(), PARAMETERS))
    assert found == replace(known, attack=None)
    assert found.lower is None


@pytest.mark.parametrize("bound", ["best", "variation-ratio", "stronger-clone", "analytic"])
def test_colluding_users_hide_nobody(bound: str) -> None:
    """With K colluding users the answer is that of n − K users."""
    parameters = VariationRatio.from_ldp(1.0)
    with_them = amplify(parameters, 5000, bound=bound, colluding=1000)
    without = amplify(parameters, 4000, bound=bound)
    assert (with_them.users, with_them.messages) == (5000, 4000)
    assert with_them.epsilon(1e-5) == without.epsilon(1e-5)
    assert amplify(parameters, 5000, bound=bound, colluding=0).epsilon(1e-5).upper < without.epsilon(1e-5).upper


def test_all_but_one_may_collude() -> None:
    """One honest user is left with its local guarantee."""
    curve = amplify(VariationRatio.from_ldp(1.0), 10, colluding=9, effort="quick")
    assert (curve.users, curve.messages) == (10, 1)
    assert curve.epsilon(1e-9).upper == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("colluding", "kind", "words"),
    [
        (10, ValueError, "colluding must be below users = 10, got 10"),
        (11, ValueError, "colluding must be below users = 10, got 11"),
        (-1, ValueError, "colluding must be at least 0, got -1"),
        (0.5, ValueError, "colluding must be a whole number"),
        (math.nan, ValueError, "colluding must be a whole number"),
        ("1", TypeError, "colluding must be a whole number, got '1'"),
        (None, TypeError, "colluding must be a whole number, got None"),
        (True, TypeError, "colluding must be a whole number, got True"),
    ],
)
def test_bad_colluding_is_refused(colluding: Any, kind: type[Exception], words: str) -> None:
    """The number of colluding users is a whole number from 0 to n − 1."""
    with pytest.raises(kind) as caught:
        amplify(PARAMETERS, 10, colluding=colluding, effort="quick")
    assert words in str(caught.value)


def test_counts_may_be_whole_floats() -> None:
    """1e4 users of whom 1e3 collude, as floats or numpy numbers."""
    for users, colluding in [(1e4, 1e3), (np.int64(10**4), np.int32(1000)), (10**4, np.float64(1000))]:
        assert amplify(PARAMETERS, users, colluding=colluding, effort="quick").messages == 9000


LINE = PaddedExponential([[abs(a - b) / 2 for a in range(5)] for b in range(5)])  # type: ignore[arg-type]
METRIC: dict[str, tuple[Any, tuple[Any, Any], float]] = {
    "padded-exponential": (LINE, (0, 4), 1.0),
    "exponential": (Exponential(LINE.space.matrix), (0, 3), 1.0),
    "planar-laplace": (PlanarLaplace(2.0, columns=3), ((0.1, 0.1), (0.9, 0.9)), 0.4),
    "laplace": (Laplace(2.0, grid=8), (0.0, 1.0), 0.3),
    "witch-hat": (WitchHat(2.0, scale=0.5, grid=8), (-1.0, 0.3), 0.5),
}


@cache
def for_all_inputs(name: str, effort: str, colluding: int) -> PrivacyCurve:
    return amplify(METRIC[name][0], 300, effort=effort, colluding=colluding)


@pytest.mark.exhaustive("laplace")
@pytest.mark.parametrize("chosen", ["pair", "diameter"])
@pytest.mark.parametrize(
    ("effort", "name", "colluding"),
    [*(("quick", name, 0) for name in METRIC), ("quick", "laplace", 100), ("full", "padded-exponential", 100)],
)
def test_chosen_inputs_are_never_above_all_inputs(effort: str, name: str, chosen: str, colluding: int) -> None:
    """ε at every δ, δ at every ε, and many δ at once, for each metric mechanism."""
    mechanism, pair, diameter = METRIC[name]
    inputs: dict[str, Any] = {"pair": pair} if chosen == "pair" else {"diameter": diameter}
    curve, whole = (
        amplify(mechanism, 300, effort=effort, colluding=colluding, **inputs),
        for_all_inputs(name, effort, colluding),
    )
    for delta in (1e-3, 1e-8) if effort == "quick" else (1e-6,):
        value = curve.epsilon(delta)
        assert value.upper <= whole.epsilon(delta).upper
        assert value.guarantee
        assert value.certified
        assert value.lower is None or value.lower <= value.upper
    for epsilon in (0.0, 0.1) if effort == "quick" else (0.2,):
        assert curve.delta(epsilon).upper <= whole.delta(epsilon).upper
    epsilons = [0.05, 0.1, 0.3] if effort == "quick" else [0.2]
    profile = curve.profile(epsilons)
    assert (profile.upper <= whole.profile(epsilons).upper).all()
    assert (profile.lower <= profile.upper).all()


@pytest.mark.exhaustive
def test_what_is_proved_for_all_inputs_counts_for_a_pair() -> None:
    """Five points of a line, the two ends: 0.429 by their own bounds, 0.327 by that of all inputs.

    The attack stays that on the pair: it is known from their own laws, whichever bound is the smaller one.
    """
    curve, whole = amplify(LINE, 300, pair=(0, 4)), for_all_inputs("padded-exponential", "full", 0)
    assert isinstance(curve, ChosenInputsCurve)
    value = curve.epsilon(1e-6)
    assert value.upper == whole.epsilon(1e-6).upper < 0.8 * curve.chosen_inputs_curve.epsilon(1e-6).upper
    assert value.bound == "all-crowds"
    assert value.theorem.endswith("for all inputs and hence for these")
    alone = amplify(LINE.neighbours_between(0, 4), 300, effort="quick")
    assert value.lower == alone.epsilon(1e-6).lower
    near = amplify(LINE, 300, pair=(0, 1))
    assert near.epsilon(1e-6).lower == amplify(LINE.neighbours_between(0, 1), 300, effort="quick").epsilon(1e-6).lower
    assert near.epsilon(1e-6).upper < value.lower  # an attack on all inputs is none on this pair
    assert curve.source.chosen_inputs_only
    quick = amplify(LINE, 300, pair=(0, 4), effort="quick"), for_all_inputs("padded-exponential", "quick", 0)
    composed = [compose(one, 10).epsilon(1e-6).upper for one in quick]
    assert composed[0] <= composed[1] * (1 + 1e-4)


def test_only_guarantees_are_compared_for_chosen_inputs() -> None:
    """A published formula for a pair stays what it is; a bound that all inputs lack leaves the pair's."""
    assert not isinstance(amplify(LINE, 300, pair=(0, 4), bound="variation-ratio-published"), ChosenInputsCurve)
    named = amplify(LINE, 300, pair=(0, 4), bound="clone").epsilon(1e-6)
    assert named.upper <= amplify(LINE, 300, bound="clone").epsilon(1e-6).upper
    assert named.bound == "clone"
