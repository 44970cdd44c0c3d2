"""Somebody's own bound: used where it is passed and nowhere else, and the answer says whose it is."""

from __future__ import annotations

import math
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp.bounds.base import Bound
from shuffledp.bounds.blanket import OptimalBound
from shuffledp.bounds.pointwise_minimum import BestCurve
from shuffledp.bounds.registry import BOUNDS, BOUNDS_BY_NAME
from shuffledp.privacy.curve import ClosedFormCurve, CurveSource, PrivacyCurve

KRR = sdp.KRR(2.0, 16)


class Tiny(Bound):
    """A bound that promises far too much."""

    name = "tiny"
    theorem = "a dream"
    summary = "an example"
    guarantees = True
    epsilon = 1e-3

    def curve(self, randomizer: Any, users: int) -> PrivacyCurve:
        return ClosedFormCurve(self.source(users), lambda delta: delta * 0 + self.epsilon, math.inf)


class Modest(Tiny):
    """One that says nothing about being a guarantee."""

    name = "modest"
    guarantees = Bound.guarantees
    epsilon = 2e-3


class Loose(Tiny):
    """One that is never the smallest."""

    name = "loose"
    epsilon = 1.5


class Nameless(Bound):
    """One that says nothing of itself."""

    def curve(self, randomizer: Any, users: int) -> PrivacyCurve:
        raise NotImplementedError


class Spoof(Tiny):
    """One whose curve pretends to be one of ours."""

    name = "spoof"

    def curve(self, randomizer: Any, users: int) -> PrivacyCurve:
        source = CurveSource("optimal", BOUNDS_BY_NAME["optimal"].theorem, users, guarantee=True)
        return ClosedFormCurve(source, lambda delta: delta * 0 + self.epsilon, math.inf)


def test_a_bound_that_nobody_passed_changes_no_answer() -> None:
    """Defined, alive and far below the truth, it counts neither in an answer nor in a list."""
    assert Tiny.__subclasses__()
    value = sdp.amplify(KRR, 1000, effort="quick").epsilon(1e-6)
    assert value.upper > 0.1
    assert value.bound in BOUNDS_BY_NAME
    assert (value.note, value.origin) == ("", "")
    rows = sdp.compare(KRR, 1000, 1e-6).rows
    assert {row.bound for row in rows} == set(BOUNDS_BY_NAME)
    assert not any(isinstance(bound, Tiny) for bound in BOUNDS)
    local = sdp.calibrate(sdp.KRR, options=16, users=1000, epsilon=1.0, delta=1e-6, effort="quick").mechanism.epsilon
    assert sdp.amplify(sdp.KRR(local, 16), 1000, bound="optimal").epsilon(1e-6).upper <= 1.0
    assert sdp.amplify(sdp.KRR(local * 1.01, 16), 1000, effort="quick").epsilon(1e-6).upper > 1.0
    with pytest.raises(ValueError, match="bound must be one of"):
        sdp.amplify(KRR, 1000, bound="tiny")


def test_passed_by_hand_it_counts_and_is_named() -> None:
    """The smallest guarantee among just those that were passed; its note and its origin say whose it is."""
    for bound in ([Tiny()], Tiny(), ["optimal", Tiny()], ["best", Tiny()], [Tiny(), Modest(), "clone"]):
        curve = sdp.amplify(KRR, 1000, bound=bound)
        value = curve.epsilon(1e-6)
        assert value.upper == pytest.approx(1e-3)
        assert (value.bound, value.theorem) == ("tiny", "a dream")
        assert (value.guarantee, value.certified) == (True, True)
        said = f"Tiny is from the module `{__name__}`, not from shuffledp; its guarantee is its author's."
        assert value.note == said
        assert said in curve.note
        assert value.origin == f"Tiny of the module `{__name__}`"
        assert value.origin in curve.source.origin


def test_values_of_ours_beside_it_stay_ours() -> None:
    """Where one of ours is smaller the value is as without the other one; the curve still says what it rests on."""
    curve = sdp.amplify(KRR, 1000, bound=["optimal", Loose()])
    value, alone = curve.epsilon(1e-6), sdp.amplify(KRR, 1000, bound="optimal").epsilon(1e-6)
    assert (value.upper, value.bound, value.note, value.origin) == (alone.upper, "optimal", "", "")
    assert "Loose is from the module" in curve.note
    assert isinstance(curve, BestCurve)


@pytest.mark.parametrize("names", [["clone"], ["clone", "stronger-clone"], ["analytic", "efmrtt19", "clone-analytic"]])
def test_a_list_of_names_is_the_smallest_of_just_these(names: list[str]) -> None:
    """No other bound is looked at; those that do not apply are left out."""
    mechanism = sdp.KRR(0.4, 4)
    each = [sdp.amplify(mechanism, 5000, bound=name).epsilon(1e-4) for name in names]
    value = sdp.amplify(mechanism, 5000, bound=names).epsilon(1e-4)
    assert value.upper == min(one.upper for one in each)
    assert value.bound in names


def test_no_guarantee_among_them_is_no_guarantee() -> None:
    """A guarantee wins over a smaller number that is none; without one the smallest is given and says so."""
    assert sdp.amplify(KRR, 1000, bound=[Modest(), "clone"]).epsilon(1e-6).bound == "clone"
    published = sdp.amplify(KRR, 1000, bound=["variation-ratio-published", "clone"])
    assert (published.bound, published.guarantee) == ("clone", True)
    for bound in ([Modest()], [Modest(), "variation-ratio-published"]):
        curve = sdp.amplify(KRR, 1000, bound=bound)
        value = curve.epsilon(1e-6)
        assert (value.bound, value.guarantee, curve.guarantee) == ("modest", False, False)
        assert "its numbers are its author's, and no guarantee." in value.note


def test_it_cannot_pass_for_one_of_ours() -> None:
    """A curve under another name is given the bound's own; a name of ours is refused."""
    value = sdp.amplify(KRR, 1000, bound=[Spoof()]).epsilon(1e-6)
    assert value.bound == "spoof"
    assert "Spoof is from the module" in value.note

    class Optimal(Tiny):
        name = "optimal"

    class Best(Tiny):
        name = "best"

    for bound in (Optimal(), Best()):
        with pytest.raises(ValueError, match=r"must not be one of shuffledp's, got .* with the name"):
            sdp.amplify(KRR, 1000, bound=["clone", bound])
    assert not sdp.amplify(KRR, 1000, bound=[OptimalBound()]).note


@pytest.mark.parametrize(
    ("bound", "kind", "words"),
    [
        ([], ValueError, "at least one bound"),
        ([Tiny(), Tiny()], ValueError, "expected each bound once, got 'tiny' 2 times"),
        ([Nameless()], TypeError, "Nameless must have a name, a text"),
        ([Tiny], TypeError, "must be a name, a Bound object or a list"),
        ([3], TypeError, "must be a name, a Bound object or a list"),
        (["clone", "nothing"], ValueError, "bound must be one of"),
    ],
)
def test_what_is_no_choice_of_bounds_is_refused(bound: Any, kind: type[Exception], words: str) -> None:
    """One sentence each."""
    with pytest.raises(kind, match=words):
        sdp.amplify(KRR, 1000, bound=bound)


def test_whose_it_is_goes_along() -> None:
    """Composed, sampled: the origin and the note stay."""
    own = sdp.amplify(KRR, 1000, bound=[Tiny()])
    for curve in (sdp.compose(own, 3), sdp.subsample(own, 10_000), sdp.poisson(KRR, 1000, 0.5, bound=[Tiny()])):
        assert "Tiny is from the module" in curve.note
        assert "Tiny of the module" in curve.source.origin
        assert "Tiny of the module" in curve.delta(1e-4).origin


def test_nothing_is_a_guarantee_or_certified_by_default() -> None:
    """A source, a curve class and a bound that say nothing promise nothing."""

    class Quiet(PrivacyCurve):
        def _epsilon(self, delta: float) -> sdp.BoundValue:
            return self._value(1.0, 0.0)

        def _delta(self, epsilon: float) -> sdp.BoundValue:
            return self._value(1e-9, 0.0)

    curve = Quiet(CurveSource("quiet", "none", 10))
    value = curve.epsilon(1e-6)
    assert (value.guarantee, value.certified, Bound.guarantees) == (False, False, False)
    together = sdp.compose([sdp.amplify(KRR, 10, effort="quick"), curve])
    assert (together.guarantee, together.certified) == (False, False)


class Borrowed(Bound):
    """One that hands on a guarantee of ours, for another randomizer, and says nothing about being one itself."""

    name = "borrowed"
    theorem = "none"
    summary = "an example"

    def curve(self, randomizer: Any, users: int) -> PrivacyCurve:
        return sdp.amplify(sdp.VariationRatio.from_ldp(0.1), users, effort="quick")


def test_a_curve_of_ours_does_not_vouch_for_a_bound_of_ones_own() -> None:
    """Only what the bound says of itself does."""
    value = sdp.amplify(KRR, 1000, bound=[Borrowed()]).epsilon(1e-6)
    assert (value.guarantee, value.certified) == (False, False)
    assert sdp.amplify(KRR, 1000, bound=[Borrowed(), "clone"]).epsilon(1e-6).bound == "clone"
