"""Numbers of every type that says exactly which one it is are taken at their word, or on the safe side of it."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core import validation
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms

FLOATS = (np.float16, np.float32, np.float64, np.longdouble)
WHOLE = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
NO_NUMBERS: list[Any] = [
    True,
    np.True_,
    math.nan,
    np.float32("nan"),
    Decimal("nan"),
    Decimal("snan"),
    1j,
    np.complex64(1),
    np.timedelta64(1, "ns"),
    np.array([1.0]),
    np.array(True),
    np.ma.masked,
    "1",
    b"1",
    [1],
]


def forms(number: float) -> Iterator[Any]:
    """The same number in every type that can hold it."""
    yield from (Fraction(number), Decimal(number), np.array(number), np.array(Fraction(number)))
    for kind in FLOATS:
        with np.errstate(over="ignore", under="ignore"):
            made = kind(number)
        if float(made) == number:
            yield from (made, np.array(made))
    if number == int(number):
        yield from (int(number), float(number))
        yield from (kind(number) for kind in WHOLE if np.iinfo(kind).min <= number <= np.iinfo(kind).max)


def test_a_number_between_floats_goes_to_the_side_that_is_asked_for() -> None:
    """Exactly the neighbouring floats, for fractions, decimals, long doubles and large whole numbers."""
    rng = random.Random(3)
    given: list[Any] = [Fraction(1, 3), Decimal("0.1"), 2**53 + 1, 10**400, -(10**400), Fraction(1, 10**400)]
    given += [Fraction(rng.getrandbits(200), 1 + rng.getrandbits(190)) for _ in range(200)]
    given += [Decimal(rng.getrandbits(99)).scaleb(-rng.randrange(60)) for _ in range(200)]
    for number in given:
        low, high = validation.real("t", "x", number), validation.real("t", "x", number, up=True)
        assert low <= number <= high
        assert high == math.nextafter(low, math.inf) or low == high == number
    long = np.longdouble(1) + np.finfo(np.longdouble).eps
    assert validation.real("t", "x", long) == 1.0 <= long <= validation.real("t", "x", long, up=True)


def test_a_decimal_of_any_exponent_costs_nothing() -> None:
    """No number is written out in full."""
    huge, tiny = Decimal("1e999999999"), Decimal("1e-999999999")
    assert validation.real("t", "x", huge) == np.finfo(np.float64).max
    assert validation.real("t", "x", huge, up=True) == math.inf
    assert validation.real("t", "x", tiny) == 0.0 < validation.real("t", "x", tiny, up=True)
    for check in (validation.count, validation.exact):
        for number in (huge, tiny):
            with pytest.raises(ValueError, match="x must be"):
                check("t", "x", number)


def test_a_refused_number_is_shown_in_short() -> None:
    """Also one that Python would not write."""
    with pytest.raises(ValueError, match="at least 1, got a number of thousands of digits"):
        validation.count("t", "x", -(10**9999))
    with pytest.raises(ValueError, match=r"got 0\.10000000149011612"):
        validation.count("t", "x", np.float32(0.1))
    with pytest.raises(TypeError, match=r"t: x must be a number, got '1111.{10,60}…\."):
        validation.real("t", "x", "1" * 1000)


def test_whole_numbers_and_exact_ones() -> None:
    """Counts take whole numbers of any type; what can be kept exact is."""
    for number in (7, 1_000_000, 2**52):
        assert {validation.count("t", "x", form) for form in forms(number)} == {number}
    assert validation.exact("t", "x", Decimal("0.1")) == Fraction(1, 10)
    assert validation.exact("t", "x", np.float32(0.1)) == Fraction(float(np.float32(0.1)))


def test_rows_of_numbers() -> None:
    """Each entry as it would be on its own."""
    given = [Fraction(1, 3), Decimal("0.1"), None, 2, np.float32(0.5)]
    low, high = validation.reals("t", "x", given), validation.reals("t", "x", given, up=True)
    assert (low[[0, 1]] < high[[0, 1]]).all()
    assert low[3] == high[3] == 2.0
    assert np.isnan(low[2])
    assert np.isnan(high[2])
    assert validation.reals("t", "x", np.array([2**53 + 1]), up=True)[0] == 2**53 + 2
    for bad in (["1"], [True], [1j], [Fraction(1, 3), "x"]):
        with pytest.raises(TypeError, match="t: x must be"):
            validation.reals("t", "x", bad)


def own_settings(mechanism: Mechanism) -> dict[str, Any]:
    """What its constructor was told, or has chosen."""
    named = [field.name for field in dataclasses.fields(mechanism) if field.init]  # type: ignore[arg-type]
    return {name: getattr(mechanism, name) for name in named}


def numeric(settings: dict[str, Any]) -> list[str]:
    return [name for name, value in settings.items() if type(value) in (int, float)]


@pytest.mark.parametrize("name", sorted(all_mechanisms()))
def test_the_catalogue_takes_every_type_of_number(name: str) -> None:
    """The same document as with plain numbers, whatever type each setting has."""
    kind, rng = all_mechanisms()[name], random.Random(name)
    for example in kind.examples()[:3]:
        settings = own_settings(example)
        for key in numeric(settings):
            for form in forms(settings[key]):
                assert repr(kind(**{**settings, key: form}).to_document()) == repr(example.to_document())
        for _ in range(20):
            drawn = {key: rng.choice(list(forms(settings[key]))) for key in numeric(settings)}
            assert repr(kind(**{**settings, **drawn}).to_document()) == repr(example.to_document())


@pytest.mark.parametrize("name", sorted(all_mechanisms()))
def test_the_catalogue_refuses_what_is_no_number_by_its_own_sentence(name: str) -> None:
    """Truth values, NaN, spans of time, texts and rows, for each setting."""
    kind = all_mechanisms()[name]
    settings = own_settings(kind.examples()[0])
    for key in numeric(settings):
        for bad in NO_NUMBERS:
            with pytest.raises((TypeError, ValueError), match=f"^{kind.__name__}: .*\\.$"):
                kind(**{**settings, key: bad})


@pytest.mark.parametrize("name", [name for name, kind in all_mechanisms().items() if "epsilon" in str(kind.tunable)])
def test_a_local_epsilon_that_is_no_float_is_never_exceeded(name: str) -> None:
    """The float below it: what is built keeps what was asked for."""
    kind = all_mechanisms()[name]
    settings = own_settings(kind.examples()[0])
    for asked in (Fraction(4, 3), Decimal("1.1"), np.longdouble("1.7")):
        made = kind(**{**settings, "epsilon": asked})
        assert made.epsilon <= asked < math.nextafter(made.epsilon, math.inf)


KRR = sdp.KRR(2.0, 16)
ANY = sdp.VariationRatio.from_ldp(1.0)
CURVE = sdp.amplify(ANY, 20, bound="variation-ratio")
PLACES = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
NORMAL = sdp.tradeoff.GaussianTradeOff(1.0)
CALLS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "amplify, users": (lambda x: sdp.amplify(ANY, x, effort="quick").epsilon(1e-3), 20),
    "amplify, colluding": (lambda x: sdp.amplify(ANY, 20, colluding=x, effort="quick").epsilon(1e-3), 8),
    "amplify, diameter": (lambda x: sdp.amplify(sdp.Laplace(2.0), 20, diameter=x, effort="quick").epsilon(1e-3), 0.25),
    "epsilon": (CURVE.epsilon, 2.0**-20),
    "delta": (CURVE.delta, 0.25),
    "profile": (lambda x: CURVE.profile([x]).upper, 0.25),
    "compare, users": (lambda x: sdp.compare(ANY, users=x, delta=1e-3).lower, 10),
    "compare, delta": (lambda x: sdp.compare(ANY, users=10, delta=x).lower, 0.125),
    "calibrate, epsilon": (
        lambda x: sdp.calibrate(sdp.KRR, options=4, users=9, epsilon=x, delta=0.1, effort="quick").value,
        0.5,
    ),
    "calibrate, delta": (
        lambda x: sdp.calibrate(sdp.KRR, options=4, users=9, epsilon=0.5, delta=x, effort="quick").value,
        0.125,
    ),
    "calibrate, users": (
        lambda x: sdp.calibrate(sdp.KRR, options=4, users=x, epsilon=0.5, delta=0.1, effort="quick").value,
        9,
    ),
    "calibrate, options": (
        lambda x: sdp.calibrate(sdp.KRR, options=x, users=9, epsilon=0.5, delta=0.1, effort="quick").value,
        4,
    ),
    "certify, users": (lambda x: sdp.certify(KRR, x, delta=1e-3, effort="quick"), 50),
    "certify, delta": (lambda x: sdp.certify(KRR, 50, delta=x, effort="quick"), 2.0**-10),
    "certify, epsilon": (lambda x: sdp.certify(KRR, 50, epsilon=x, effort="quick"), 0.25),
    "certify, colluding": (lambda x: sdp.certify(KRR, 50, epsilon=0.25, colluding=x, effort="quick"), 5),
    "compose": (lambda x: sdp.compose(CURVE, x).delta(0.5), 2),
    "renyi": (lambda x: sdp.renyi(CURVE).divergence(x), 2),
    "subsample": (lambda x: sdp.subsample(CURVE, x).delta(0.1), 5000),
    "poisson, rate": (lambda x: sdp.poisson(ANY, 40, x, bound="variation-ratio").delta(0.1).upper, 0.125),
    "p": (lambda x: sdp.VariationRatio(p=x, beta=0.25, q=4.0), 4),
    "beta": (lambda x: sdp.VariationRatio(p=4.0, beta=x, q=4.0), 0.25),
    "q": (lambda x: sdp.VariationRatio(p=4.0, beta=0.25, q=(x, 5.0), q_common=x), 4),
    "from_ldp": (sdp.VariationRatio.from_ldp, 1.5),
    "target": (lambda x: sdp.Target(x, x), 0.25),
    "risk target": (lambda x: sdp.RiskTarget(ppv=x, fpr=x, prior=x), 0.25),
    "tpr": (lambda x: sdp.AttackRisk(CURVE).tpr(x), 0.25),
    "bayes_risk": (lambda x: sdp.AttackRisk(CURVE).bayes_risk(x), 0.25),
    "ppv": (lambda x: sdp.AttackRisk(CURVE).ppv(x, x), 0.25),
    "GaussianTradeOff": (lambda x: sdp.tradeoff.GaussianTradeOff(x).delta(x), 0.5),
    "segments' delta": (NORMAL.to_piecewise().delta, 0.5),
    "conjugate": (NORMAL.conjugate, -0.5),
    "privacy_curve": (lambda x: sdp.privacy_curve(NORMAL, users=x).epsilon(1e-5), 10),
    "divergence": (lambda x: sdp.divergence(NORMAL, "renyi", x), 2),
    "mixed": (lambda x: sdp.tradeoff.mixed([NORMAL, NORMAL], [x, x]).delta(0.1), 0.5),
    "averaged": (lambda x: sdp.tradeoff.averaged([NORMAL, NORMAL], [x, x]).delta(0.1), 0.5),
    "noisy step": (
        lambda x: sdp.tradeoff.NoisyStep(sdp.tradeoff.LeastSquares(x, clip=x), noise=x).delta_upper(x),
        0.5,
    ),
    "AmplifiedMetric": (lambda x: sdp.metric.AmplifiedMetric(PLACES, users=100, delta=x).at_epsilon_local(x), 0.125),
    "lower_bound": (lambda x: sdp.metric.lower_bound(PLACES, 0, 1, users=x, delta=1e-3), 16),
    "Segment": (lambda x: sdp.metric.Segment(x, 8, rate=x, cap=x).pair_distances(x, 2), 0.25),
    "Box": (lambda x: sdp.metric.Box(x, x, rate=x).pair_distances((0, 0), (x, x)), 0.25),
    "DistanceMatrix": (lambda x: sdp.metric.DistanceMatrix([[0, x], [x, 0]]).matrix, 0.25),
    "Frequency": (lambda x: sdp.tasks.Frequency(x), 4),
    "KeyValue": (lambda x: sdp.tasks.KeyValue(["a", "b", "c"], 0, x, items=x), 2),
    "VectorMean": (lambda x: sdp.tasks.VectorMean(x, 0, x), 2),
    "Location": (lambda x: sdp.tasks.Location(0, x, 0, x, columns=x, rows=x), 4),
    "Plan": (lambda x: sdp.Plan(sdp.tasks.Frequency(16), KRR, x, epsilon=x, delta=1e-6, rounds=x).document(), 2),
    "simulate": (
        lambda x: (
            sdp.simulate(sdp.Plan(sdp.tasks.Frequency(16), KRR, 9, 1, 1e-6), users=x, repeats=x, seed=x).simulated_error
        ),
        8,
    ),
    "audit": (lambda x: sdp.audit(KRR, claimed=x, samples=200, confidence=x).claimed, 0.5),
    "interval": (lambda x: KRR.estimate(np.arange(16)).interval(x), 0.5),
    "FromTable": (lambda x: sdp.FromTable([[x, 0.75], [0.75, x]]).to_document(), 0.25),
    "weights": (lambda x: sdp.Parallel([KRR, KRR], weights=[x, 1]).settings(), 0.25),
    "Compressed": (lambda x: sdp.Compressed(KRR, x).to_document(), 0.25),
    "SentPoint": (lambda x: sdp.SentPoint(sdp.FromDensity(_density, [-0.5, 0.5], 0, 1, 4), x, x).epsilon, 0.25),
}


def _density(x: Any, y: Any) -> Any:
    return 1 + x * np.sin(2 * np.pi * y)


@pytest.mark.exhaustive("amplify, diameter")
@pytest.mark.parametrize("name", CALLS)
def test_functions_take_every_type_of_number(name: str) -> None:
    """The same answer to the last digit; what is no number is refused by one sentence of ours."""
    call, number = CALLS[name]
    plain = repr(call(number))
    for form in random.Random(name).sample(list(forms(number)), 4):
        assert repr(call(form)) == plain, type(form)
    for bad in (True, math.nan, Decimal("nan"), 1j, np.timedelta64(1, "ns"), "1"):
        if name in ("DistanceMatrix", "weights", "FromTable", "profile") and (bad is True or bad == "1"):
            continue  # numpy made a number of a truth value before we saw it; weights may be written as text
        with pytest.raises((TypeError, ValueError), match=r"^[\w. ]+: .*\.$"):
            call(bad)


def test_what_states_a_loss_is_rounded_up_and_what_limits_one_down() -> None:
    """Parameters of a law, distances and rates of alarm up; targets and the local ε of what is built down."""
    third = Fraction(1, 3)
    for number in (sdp.VariationRatio(4, third, 4).beta, sdp.metric.Segment(0, 1, rate=third, cap=third).cap):
        assert number == math.nextafter(float(third), 1.0) > third
    assert sdp.metric.DistanceMatrix([[0, third], [third, 0]]).diameter > third
    assert sdp.VariationRatio.from_ldp(third).p > sdp.VariationRatio.from_ldp(float(third)).p
    for number in (
        sdp.Target(third, third).epsilon,
        sdp.Target(third, third).delta,
        sdp.RiskTarget(advantage=third).limit,
    ):
        assert number == float(third) < third
    assert sdp.RiskTarget(tpr=0.5, fpr=third).fpr > third > sdp.RiskTarget(ppv=0.5, fpr=third, prior=0.5).fpr
    assert sdp.RiskTarget(bayes_risk=0.1, prior=third).prior < third
    assert sdp.RiskTarget(bayes_risk=0.1, prior=1 - third).prior > 1 - third
