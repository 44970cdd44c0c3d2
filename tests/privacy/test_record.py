"""Values are data: pairs, curves, numbers, comparisons and trade-offs pickle, and compare by what they hold."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from shuffledp.bounds.compare_metric import build_attack_pair
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.input_pairs import build_attack, neighbours_from_pair
from shuffledp.privacy.lower_bounds import AttackCurve
from shuffledp.privacy.random_initialization import LeastSquares, NoisyStep

USERS, DELTA = 25, 1e-6
EXAMPLES = {name: list(kind.examples()) for name, kind in all_mechanisms().items()}
FIRST = [pytest.param(examples[0], id=name) for name, examples in EXAMPLES.items()]
PARAMETERS = [
    sdp.VariationRatio.from_ldp(1.0),
    sdp.VariationRatio(4.0, 0.3, (4.0, 5.0), q_common=6.0),
    sdp.VariationRatio(math.inf, 0.5, 4.0),
]


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def assert_data(thing: Any) -> None:
    """A copy that went through a pickle is equal, has the same hash, and is another object."""
    copy = again(thing)
    assert copy == thing
    assert hash(copy) == hash(thing)
    assert copy is not thing


@pytest.mark.parametrize("name", EXAMPLES)
def test_curves_of_every_example(name: str) -> None:
    """Made twice they are equal; for other users they are not."""
    for mechanism in EXAMPLES[name]:
        curve = sdp.amplify(mechanism, USERS, effort="quick")
        assert_data(curve)
        assert curve == sdp.amplify(mechanism, USERS, effort="quick")
        assert curve != sdp.amplify(mechanism, USERS + 1, effort="quick")


@pytest.mark.exhaustive("all-answered", "cheu-zhilyaev", "gaussian", "privkv", "privunit]")
@pytest.mark.parametrize("randomizer", [*FIRST, *PARAMETERS])
def test_curves_of_every_mechanism_and_bound(randomizer: Any) -> None:
    """The copy is equal before and after it is used, and gives the same number to the last bit.

    The default is the smallest of the quick bounds here: the others are looked at one by one, at an ε of its size.
    """
    some = sdp.amplify(randomizer, USERS, effort="quick").epsilon(DELTA).upper / 4

    def asked(curve: sdp.PrivacyCurve) -> sdp.BoundValue:
        return curve.epsilon(DELTA) if name == "best" else curve.delta(some)

    for name in ("best", *BOUNDS_BY_NAME):
        try:
            curve = sdp.amplify(randomizer, USERS, bound=name, effort="quick")
            value = asked(curve)
        except NotApplicable:
            continue
        copy = again(curve)
        assert copy == curve == sdp.amplify(randomizer, USERS, bound=name, effort="quick")
        found = asked(copy)
        assert found == value == again(value)
        assert (found.upper, found.slack) == (value.upper, value.slack)
        assert copy == curve
        if name == "best":
            assert again(value).lower == found.lower == value.lower
            assert again(curve.source.attack) == curve.source.attack


CURVE = sdp.amplify(sdp.KRR(2.0, 8), 500, effort="quick")


@pytest.mark.exhaustive("composed", "poisson")
@pytest.mark.parametrize(
    "curve",
    [
        sdp.compose(CURVE, 5),
        sdp.compose([CURVE, sdp.amplify(sdp.VariationRatio.from_ldp(1.0), 300, effort="quick")]),
        sdp.subsample(CURVE, 5000),
        sdp.poisson(sdp.KRR(1.0, 4), 2000, 0.1, bound="optimal"),
        sdp.gaussian_limit(CURVE),
        sdp.privacy_curve(sdp.trade_off(CURVE, points=20)),
        sdp.amplify(sdp.KRR(2.0, 8), 500, bound=["clone", "optimal"]),
    ],
    ids=["composed", "two rounds", "sampled", "poisson", "limit", "trade-off", "list"],
)
def test_curves_made_of_curves(curve: sdp.PrivacyCurve) -> None:
    """Composed, sampled, in the limit, from a trade-off curve."""
    value = curve.epsilon(1e-5)
    copy = again(curve)
    assert copy == curve
    assert copy.epsilon(1e-5) == value
    assert copy.epsilon(1e-5).lower == value.lower
    assert_data(curve)
    assert_data(value)


@pytest.mark.parametrize(
    "thing",
    [
        sdp.compare(sdp.KRR(1.0, 4), 500, 1e-5),
        sdp.renyi(CURVE),
        sdp.trade_off(CURVE, points=20),
        sdp.trade_off(CURVE, points=20).to_piecewise(),
        sdp.tradeoff.PiecewiseTradeOff([0.2, 0.8], [0.7, 0.3]),
        NoisyStep(LeastSquares()),
        sdp.AttackRisk(CURVE),
        sdp.AttackRisk(CURVE).advantage(),
        sdp.metric.DistanceMatrix(np.array([[0.0, 1.0], [1.0, 0.0]])),
        sdp.metric.AmplifiedMetric(sdp.metric.DistanceMatrix(np.array([[0.0, 1.0], [1.0, 0.0]])), 1000, 1e-6),
        sdp.metric.LocalMetricSolver(sdp.metric.DistanceMatrix(np.array([[0.0, 1.0], [1.0, 0.0]])), 1000, 1e-6),
        CURVE.profile([0.1, 0.2]),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_is_computed_from_curves(thing: Any) -> None:
    """Comparisons, trade-off curves, risks, metrics: data as well."""
    assert_data(thing)


def test_caches_are_no_part_of_a_value() -> None:
    """What was computed on the way enters neither pickles nor comparisons."""
    fresh, used = (sdp.amplify(sdp.KRR(2.0, 8), 500, bound="optimal") for _ in range(2))
    before = pickle.dumps(used)
    value = used.epsilon(1e-6)
    assert value.lower is not None
    assert used == fresh
    assert pickle.dumps(used) == before
    assert "lower" not in value.__getstate__()
    assert set(vars(again(used))) == {"source", "directions", "largest_epsilon", "has_fixed_pairs"}


def test_arrays_stay_read_only() -> None:
    """A copy cannot be written to either."""
    copy = again(sdp.trade_off(CURVE, points=20))
    with pytest.raises(ValueError, match="read-only"):
        copy.deltas[0] = 0.0


def test_exact_pairs_are_rationals() -> None:
    """Equal classes, equal pairs; swapping twice is the same pair; other classes or signs are another pair."""
    classes = [(fmpq(3, 4), fmpq(1, 4), fmpq(1, 4)), (fmpq(1, 4), fmpq(3, 4), fmpq(1, 4))]
    pair = exact_pair(classes, symmetric=True)
    assert pair == exact_pair(list(classes), symmetric=True)
    assert pair != exact_pair(classes, symmetric=False)
    assert pair != pair.swapped()
    assert pair.swapped().swapped() == pair
    assert_data(pair)
    assert_data(AttackCurve((pair,), 100))


@dataclass(frozen=True)
class Triples:
    """Classes that are computed from data."""

    triples: tuple[tuple[Fraction, Fraction, Fraction], ...]

    def __call__(self) -> Classes:
        return [MessageClass(*(arb(x.numerator) / x.denominator for x in triple)) for triple in self.triples]


def triples(number: int) -> Triples:
    """As many classes as wanted, each law summing to 1 and the hiding one to less."""
    first = [Fraction(k + 1, number * (number + 1) // 2) for k in range(number)]
    return Triples(tuple((a, b, min(a, b) / 2) for a, b in zip(first, reversed(first), strict=True)))


@pytest.mark.parametrize("number", [3, 200])
def test_pairs_of_chosen_inputs_are_data_where_their_classes_are(number: int) -> None:
    """Few classes and many, the blanket and the attack: the same classes at every precision."""
    for make in (
        lambda: neighbours_from_pair(triples(number), [build_attack(triples(number))]),
        lambda: build_attack(triples(number)),
    ):
        one, other = make(), make()
        assert one == other
        assert_data(one)
    (pair,) = neighbours_from_pair(triples(number)).blankets()
    with precision(256):
        for mine, theirs in zip(pair.classes(), again(pair).classes(), strict=True):
            assert [x.str(60) for x in mine] == [x.str(60) for x in theirs]
    assert_data(pair.swapped())
    assert pair.swapped().swapped() == pair


def test_a_function_made_on_the_spot_is_no_data() -> None:
    """It still works, but only equals itself."""
    pair = HidingPair(lambda: triples(3)(), symmetric=False)
    assert pair == HidingPair(pair.classes, symmetric=False)
    assert pair != HidingPair(lambda: triples(3)(), symmetric=False)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(pair)


def test_the_attacked_pair_of_a_metric_is_data() -> None:
    """The padded mechanism on three inputs, from its distances."""
    space = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [3.0]])
    assert_data(build_attack_pair(space, 0, 1))
