"""Privacy curves: the two functions are inverse to each other, monotone, right at the ends, and refuse nonsense."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq
from mpmath import mp

from shuffledp import BoundValue, PrivacyCurve, VariationRatio, amplify
from shuffledp._core.errors import NotApplicable
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.privacy.curve import ClosedFormCurve, ClosedFormDeltaCurve, CurveSource, NumericCurve
from shuffledp.privacy.dominating_pairs import exact_pair
from shuffledp.privacy.lower_bounds import AttackCurve

SETTINGS: dict[str, VariationRatio] = {
    "any 1-LDP": VariationRatio.from_ldp(1.0),
    "any 5-LDP": VariationRatio.from_ldp(5.0),
    "randomized response": VariationRatio(p=math.e, beta=(math.e - 1) / (math.e + 15), q=math.e, q_common=1.0),
    "common part": VariationRatio(p=20.0, beta=0.5, q=20.0),
    "q unequal": VariationRatio(p=9.0, beta=0.6, q=(9.0, 3.0)),
    "q unequal, other way": VariationRatio(p=9.0, beta=0.6, q=(3.0, 9.0)),
    "disjoint": VariationRatio(p=math.inf, beta=1.0, q=16.0),
    "infinite ratio": VariationRatio(p=math.inf, beta=0.4, q=4.0),
    "tiny ratio": VariationRatio(p=1 + 1e-9, beta=4e-10, q=1.5),
}


def curve_of(parameters: VariationRatio, users: float) -> PrivacyCurve:
    """The sound bound alone, so that nothing else can be smaller."""
    return amplify(parameters, users, bound="variation-ratio")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("users", [1, 30, 1000, 10**6])
@pytest.mark.parametrize("delta", [0.2, 1e-3, 1e-10])
def test_delta_of_epsilon_is_the_inverse(name: str, users: int, delta: float) -> None:
    """δ(ε(δ)) ≤ δ, and a little below the exact ε the divergence is above δ: ε is neither too small nor too large."""
    curve = curve_of(SETTINGS[name], users)
    epsilon = curve.epsilon(delta)
    assert epsilon.slack >= 0
    if math.isinf(epsilon.upper):
        assert curve.delta(700.0).upper > delta
        return
    assert curve.delta(epsilon.upper).upper <= delta
    below = epsilon.upper - epsilon.slack * 1.001 - 1e-15
    if below > 0:
        assert curve.delta(below).upper >= delta
    else:
        assert epsilon.upper <= epsilon.slack * 1.001 + 1e-15


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("users", [2, 50, 5000])
@pytest.mark.parametrize("share", [0.02, 0.4])
def test_epsilon_of_delta_is_the_inverse(name: str, users: int, share: float) -> None:
    """ε(δ(ε)) is ε within the two slacks, where the curve is strictly decreasing."""
    curve = curve_of(SETTINGS[name], users)
    epsilon = share * min(SETTINGS[name].largest_log_ratio(), 2.0)
    delta = curve.delta(epsilon)
    if 1e-200 < delta.upper < 1 and delta.upper - delta.slack > 0 and curve.delta(epsilon * 1.01).upper < delta.upper:
        back = curve.epsilon(delta.upper)
        assert back.upper - back.slack <= epsilon * (1 + 1e-9) + 1e-12
        assert back.upper >= epsilon * (1 - 1e-6) - 1e-12


def test_both_directions_count_where_the_ratios_differ() -> None:
    """With q0 ≠ q1 the value is the larger of both directions, and exchanging the inputs changes nothing."""
    for epsilon in (0.0, 0.1, 0.5, 1.5):
        for users in (3, 40, 2000):
            one = curve_of(SETTINGS["q unequal"], users)
            other = curve_of(SETTINGS["q unequal, other way"], users)
            assert isinstance(one, NumericCurve)
            assert len(one.directions) == 2
            assert one.delta(epsilon).upper == pytest.approx(other.delta(epsilon).upper, rel=1e-9)
            sides = [family.bracket(epsilon).upper_float() for family in one._divergences]
            assert one.delta(epsilon).upper == max(sides)
    assert min(sides) < max(sides)


def uppers(values: list[BoundValue]) -> list[tuple[float, float]]:
    """(upper, slack) of each."""
    return [(value.upper, value.slack) for value in values]


def assert_falling(values: list[BoundValue]) -> None:
    """Each value is at most the one before it, up to their slacks."""
    pairs = uppers(values)
    for (before, slack_before), (after, slack_after) in pairwise(pairs):
        assert after - slack_after <= before + 1e-15 * before
        assert after <= before + slack_before + slack_after + 1e-15 * abs(before)


@pytest.mark.exhaustive("q unequal")
@pytest.mark.parametrize("name", SETTINGS)
def test_more_users_never_hurt(name: str) -> None:
    """ε at δ and δ at ε fall with n, across the changes of route."""
    numbers = [1, 2, 3, 10, 100, 400, 401, 4000, 20_000, 10**6, 10**9, 10**12]
    assert_falling([curve_of(SETTINGS[name], users).epsilon(1e-6) for users in numbers])
    # Below 1e-300 everything is the least float; far in the tail this is not the place to look.
    assert_falling([curve_of(SETTINGS[name], users).delta(0.01) for users in numbers[:-3]])


@pytest.mark.exhaustive("q unequal", "q unequal, other way")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_larger_delta_never_hurts(name: str) -> None:
    """ε falls as δ grows, from 1e-250 to nearly 1."""
    curve = curve_of(SETTINGS[name], 250)
    levels = [1e-250, 1e-60, 1e-12, 1e-6, 1e-3, 0.1, 0.999]
    assert_falling([curve.epsilon(delta) for delta in levels])


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("users", [2, 300, 10**5])
def test_a_larger_epsilon_never_hurts(name: str, users: int) -> None:
    """δ falls as ε grows, from 0 to beyond log p."""
    curve = curve_of(SETTINGS[name], users)
    assert_falling([curve.delta(epsilon) for epsilon in (0.0, 1e-12, 1e-6, 1e-3, 0.01, 0.05, 0.1, 0.4, 1.0, 3.0, 6.0)])


@pytest.mark.parametrize("q", [12.0, (12.0, 3.0), (3.0, 12.0)])
@pytest.mark.parametrize("p", [3.0, 12.0, 1000.0])
@pytest.mark.parametrize("users", [1, 5, 60, 3000])
def test_a_larger_beta_never_helps(q: float | tuple[float, float], p: float, users: int) -> None:
    """δ grows with β up to its maximum, whatever the two ratios are: an over-estimated β is sound."""
    betas = [(p - 1) / (p + 1) * share for share in (1.0, 0.999, 0.9, 0.6, 0.3, 0.05, 0.0)]
    for epsilon in (0.0, 0.1, 1.0):
        assert_falling([curve_of(VariationRatio(p, beta, q), users).delta(epsilon) for beta in betas])


@pytest.mark.parametrize("users", [1, 4, 50, 3000])
def test_a_larger_ratio_never_helps(users: int) -> None:
    """δ grows with p and with q, up to p = ∞."""
    ratios = [math.inf, 1e9, 1000.0, 50.0, 8.0, 3.0]
    for epsilon in (0.0, 0.2, 0.9):
        assert_falling([curve_of(VariationRatio(p, 0.4, 8.0), users).delta(epsilon) for p in ratios])
        assert_falling([curve_of(VariationRatio(9.0, 0.4, q), users).delta(epsilon) for q in (1e4, 50.0, 9.0, 2.0)])
        assert_falling([curve_of(VariationRatio(9.0, 0.4, 9.0, q), users).delta(epsilon) for q in (9.0, 4.0, 1.0)])


@pytest.mark.parametrize("name", ["any 1-LDP", "common part", "q unequal", "tiny ratio"])
@pytest.mark.parametrize("users", [1, 20, 10**4])
def test_nothing_is_left_beyond_log_p(name: str, users: int) -> None:
    """From log p (rounded up) on δ is exactly 0, and ε never exceeds it."""
    parameters = SETTINGS[name]
    largest, curve = parameters.largest_log_ratio(), curve_of(parameters, users)
    for epsilon in (largest, largest * 1.5, 800.0, math.inf):
        value = curve.delta(epsilon)
        assert (value.upper, value.slack) == (0.0, 0.0)
    assert curve.epsilon(1e-300).upper <= largest
    assert curve.delta(largest * (1 - 1e-6)).upper > 0


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_no_variation_is_no_loss(p: float) -> None:
    """β = 0: both functions are exactly 0."""
    curve = curve_of(VariationRatio(p, 0.0, 3.0), 10)
    assert curve.epsilon(1e-9).upper == 0.0
    assert curve.delta(0.0).upper == 0.0
    assert curve.delta(0.0).slack == 0.0


@pytest.mark.parametrize("name", SETTINGS)
def test_a_delta_of_at_least_the_total_variation_needs_no_epsilon(name: str) -> None:
    """Where δ ≥ δ(0) the answer is exactly ε = 0; just below δ(0) it is above 0."""
    for users in (1, 3, 100, 2000):
        curve = curve_of(SETTINGS[name], users)
        at_zero = curve.delta(0.0).upper
        if at_zero < 0.98:
            assert curve.epsilon(at_zero * 1.01).upper == 0.0
        assert curve.epsilon(at_zero * 0.9).upper > 0.0


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("users", [1, 3, 1000])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_asking_for_a_value_that_the_curve_gave(name: str, users: int, epsilon: float) -> None:
    """ε at exactly δ(ε), one float below it, or at its certified lower side has an answer."""
    curve = curve_of(SETTINGS[name], users)
    value = curve.delta(epsilon)
    for delta in (value.upper, math.nextafter(value.upper, 0), value.upper - value.slack):
        if 0 < delta < 1:
            found = curve.epsilon(delta)
            # A flat curve (one user, p = ∞) has no finite ε just below its value.
            assert math.isinf(found.upper) or found.upper - found.slack <= max(epsilon, 1e-9) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("parameters", "users"),
    [
        (VariationRatio(p=1.0000128551034957, beta=2.8902424180983365e-08, q=20.894172308677103), 100_000),
        (VariationRatio(p=1.0008731395848443, beta=0.00043637928240938687, q=(57.750329168, 200.528059032)), 1000),
    ],
)
def test_asking_for_the_value_at_zero(parameters: VariationRatio, users: int) -> None:
    """ε at δ(0), where the search runs down to 0 itself, has an answer: 0 within its slack."""
    curve = curve_of(parameters, users)
    value = curve.delta(0.0)
    for delta in (value.upper, value.upper - value.slack, math.nextafter(value.upper, 0)):
        found = curve.epsilon(delta)
        assert found.upper - found.slack <= 1e-9


def test_one_user_hides_behind_nobody() -> None:
    """n = 1: δ(ε) = max(0, pα − e^ε·α), δ(0) = β, and ε is the local one."""
    for p, beta in [(3.0, 0.5), (3.0, 0.25), (100.0, 0.7)]:
        curve = curve_of(VariationRatio(p, beta, p), 1)
        alpha = beta / (p - 1)
        for epsilon in (0.0, 0.4, 1.0):
            assert curve.delta(epsilon).upper == pytest.approx(alpha * (p - math.exp(epsilon)), rel=1e-14)
        assert curve.epsilon(beta / 2).upper == pytest.approx(math.log(p - beta / 2 / alpha), rel=1e-10)
    flat = curve_of(VariationRatio(math.inf, 0.25, 3.0), 1).delta(5.0)
    assert flat.upper - flat.slack <= 0.25 <= flat.upper <= 0.25 * (1 + 1e-14)


def test_a_trillion_users() -> None:
    """At n = 1e12 the pair is Gaussian to six digits: δ = μ·(φ(z) − z·Q(z)) at ε = μz, μ the noise-to-signal ratio."""
    curve = curve_of(VariationRatio.from_ldp(1.0), 10**12)
    mu = (math.e - 1) * math.sqrt(2 / ((math.e + 1) * 1e12))
    for z in (0.5, 3.0, 8.0, 20.0):
        with mp.workdps(40):
            density = mp.exp(-(mp.mpf(z) ** 2) / 2) / mp.sqrt(2 * mp.pi)
            delta = float(mu * (density - z * mp.erfc(z / mp.sqrt(2)) / 2))
        value = curve.epsilon(delta)
        assert value.upper == pytest.approx(mu * z, rel=1e-4)
        assert value.slack < 1e-8 * value.upper


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("users", [10**9, 10**12])
@pytest.mark.parametrize("name", ["any 1-LDP", "randomized response", "disjoint", "q unequal"])
def test_delta_of_many_users_at_any_epsilon(name: str, users: int, epsilon: float) -> None:
    """δ(ε) has an answer in [0, 1] for many users also where it is far below every float."""
    value = curve_of(SETTINGS[name], users).delta(epsilon)
    assert 0 <= value.upper - value.slack <= value.upper <= 1 or value.upper <= 1e-320


def test_rare_extremes_have_an_answer() -> None:
    """A total variation below one float of 1 is no reason to fail, for either function."""
    curve = curve_of(VariationRatio(math.inf, 1e-18, 2.0, q_common=1.0), 1000)
    assert curve.delta(0.1).upper <= 1e-18 * (1 + 1e-9)
    assert curve.epsilon(1e-30).upper >= 0
    assert curve.delta(10.0).upper <= 1e-18


@pytest.mark.parametrize("parameters", [VariationRatio(2.0, 0.3, 1e200), VariationRatio(1e300, 0.3, 1e10)])
def test_ratios_near_the_end_of_the_floats(parameters: VariationRatio) -> None:
    """Ratios whose squares are no floats give an answer, without a warning: nobody hides, the local ε remains."""
    value = curve_of(parameters, 100).epsilon(1e-9)
    assert value.upper == pytest.approx(math.log(parameters.p), rel=1e-6)


def test_a_local_ratio_beyond_the_largest_epsilon_that_is_searched() -> None:
    """p = 1e306: log p = 704.6 is a guarantee, so that the answer is never infinite."""
    parameters = VariationRatio(1e306, 0.5, 2.0)
    assert curve_of(parameters, 1).epsilon(1e-9).upper <= parameters.largest_log_ratio()


def test_an_almost_trivial_ratio() -> None:
    """p = 1 + 1e-9: values are tiny, right and have relative digits."""
    curve = curve_of(SETTINGS["tiny ratio"], 1)
    assert curve.delta(0.0).upper == pytest.approx(4e-10, rel=1e-12)
    assert curve.epsilon(2e-10).upper == pytest.approx(1e-9 - 2e-10 / 0.4, rel=1e-6)
    assert curve.epsilon(1e-9).upper == 0.0
    many = curve_of(SETTINGS["tiny ratio"], 10**6)
    assert 0 < many.delta(0.0).upper < 4e-10


def test_where_no_finite_epsilon_exists() -> None:
    """p = ∞: outcomes that one input alone can give have a probability of their own; below it ε is infinite."""
    curve = curve_of(VariationRatio(math.inf, 1.0, 2.0), 5)
    # Given input 0 the count b is 0 with probability (1/2)^4; under input 1 it never is.
    never = 2.0**-4
    assert curve.delta(700.0).upper == pytest.approx(never, rel=1e-12)
    assert curve.delta(1e9).upper == pytest.approx(never, rel=1e-12)
    assert curve.delta(math.inf).upper >= never * (1 - 1e-12)
    assert curve.epsilon(never * 0.99).upper == math.inf
    assert math.isfinite(curve.epsilon(never * 1.5).upper)
    finite = curve_of(VariationRatio(math.inf, 1.0, 2.0), 1000)
    assert finite.epsilon(1e-9).upper < 1


def test_the_fields_of_a_value() -> None:
    """A value is a float, names its bound and theorem, says that it is certified, and is above an attack."""
    value = curve_of(VariationRatio.from_ldp(1.0), 100).epsilon(1e-3)
    assert float(value) == value.upper
    assert value.bound == "variation-ratio"
    assert "variation-ratio" in value.theorem
    assert value.certified is True
    assert value.guarantee is True
    assert value.lower is not None
    assert 0 < value.lower <= value.upper


def test_counts_may_be_floats_and_numpy_integers() -> None:
    """1e6, np.int64(10**6) and 10**6 users are the same number."""
    parameters = VariationRatio.from_ldp(1.0)
    reference = curve_of(parameters, 10**6)
    for users in (1e6, np.int64(10**6), np.int32(10**6), np.float64(1e6), np.uint32(10**6)):
        curve = curve_of(parameters, users)
        assert curve.users == 10**6
        assert curve.epsilon(1e-6) == reference.epsilon(1e-6)


@pytest.mark.parametrize(
    ("delta", "kind", "words"),
    [
        (0.0, ValueError, "both excluded, got 0.0"),
        (1.0, ValueError, "both excluded, got 1.0"),
        (-0.1, ValueError, "got -0.1"),
        (1.5, ValueError, "got 1.5"),
        (math.nan, ValueError, "NaN"),
        (math.inf, ValueError, "got inf"),
        ("1e-6", TypeError, "got '1e-6'"),
        (None, TypeError, "got None"),
        (True, TypeError, "got True"),
    ],
)
def test_a_bad_delta_is_refused(delta: Any, kind: type[Exception], words: str) -> None:
    """δ must be a number strictly between 0 and 1; the sentence says so and shows the value."""
    with pytest.raises(kind) as caught:
        curve_of(VariationRatio.from_ldp(1.0), 100).epsilon(delta)
    assert "delta must be" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("epsilon", "kind", "words"),
    [
        (-1e-9, ValueError, "at least 0, got -1e-09"),
        (math.nan, ValueError, "NaN"),
        (-math.inf, ValueError, "got -inf"),
        ("0.5", TypeError, "got '0.5'"),
        (None, TypeError, "got None"),
        (False, TypeError, "got False"),
    ],
)
def test_a_bad_epsilon_is_refused(epsilon: Any, kind: type[Exception], words: str) -> None:
    """ε must be a number of at least 0; the sentence says so and shows the value."""
    with pytest.raises(kind) as caught:
        curve_of(VariationRatio.from_ldp(1.0), 100).delta(epsilon)
    assert "epsilon must be" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("users", "kind", "words"),
    [
        (0, ValueError, "at least 1, got 0"),
        (-5, ValueError, "at least 1, got -5"),
        (10.5, ValueError, "whole number of at least 1, got 10.5"),
        (math.nan, ValueError, "whole number"),
        (math.inf, ValueError, "whole number"),
        ("100", TypeError, "whole number, got '100'"),
        (None, TypeError, "whole number, got None"),
        (True, TypeError, "whole number, got True"),
    ],
)
def test_bad_users_are_refused(users: Any, kind: type[Exception], words: str) -> None:
    """The number of users must be a whole number of at least 1; the sentence says so and shows the value."""
    with pytest.raises(kind) as caught:
        curve_of(VariationRatio.from_ldp(1.0), users)
    assert "users" in str(caught.value)
    assert words in str(caught.value)


def test_an_integer_beyond_the_floats_is_no_crash() -> None:
    """10**400 users are a whole number: either an answer or a sentence, never an overflow."""
    try:
        assert curve_of(VariationRatio.from_ldp(1.0), 10**400).users == 10**400
    except ValueError as error:
        assert "users" in str(error)  # noqa: PT017


def test_attacks_are_lower_bounds_computed_on_demand() -> None:
    """The lower value is that of the strongest given dataset, in the same unit, and never above the upper one."""
    p, n = fmpq(3), 20
    pair = exact_pair([(p / 4, 1 / fmpq(4), 1 / fmpq(4)), (1 / fmpq(4), p / 4, p / 4)], symmetric=False)
    curve = curve_of(VariationRatio(3.0, 0.5, 3.0), n).with_attack(AttackCurve((pair,), n))
    for epsilon in (0.0, 0.3, 0.8):
        value = curve.delta(epsilon)
        assert value.lower is not None
        assert 0 < value.lower <= value.upper
    at = curve.epsilon(1e-3)
    assert at.lower is not None
    assert 0 < at.lower <= at.upper
    assert curve.delta(at.lower * 0.999).lower > 1e-3


def closed(formula: Any, largest: float = math.inf) -> ClosedFormCurve:
    """A curve of a formula ε(δ)."""
    return ClosedFormCurve(CurveSource("test", "none", 10), formula, largest)


def test_a_closed_form_is_rounded_up_and_capped() -> None:
    """ε is the formula's ball rounded up, at least 0 and at most the cap."""
    third = closed(lambda delta: arb(1) / 3).epsilon(1e-3)
    assert Fraction(third.upper) >= Fraction(1, 3)
    assert Fraction(third.upper) - Fraction(third.slack) <= Fraction(1, 3)
    assert closed(lambda delta: arb(-5)).epsilon(1e-3).upper == 0.0
    assert closed(lambda delta: arb(5), largest=2.0).epsilon(1e-3).upper == 2.0


def test_a_closed_form_is_inverted_where_it_applies() -> None:
    """δ(ε) inverts ε(δ) = log(1/δ)/100, also where the formula refuses small δ; where nothing is proved it is 1."""

    def formula(delta: arb) -> arb:
        if delta < 1e-8:
            raise NotApplicable("test", "needs δ ≥ 1e-8.")
        return -delta.log() / 100

    curve = closed(formula)
    for epsilon in (0.01, 0.05, 0.15):
        value = curve.delta(epsilon)
        assert value.upper == pytest.approx(math.exp(-100 * epsilon), rel=1e-9)
        assert curve.epsilon(value.upper).upper <= epsilon
    # Below its regime the formula proves no smaller δ, however large ε is.
    assert curve.delta(3.0).upper == pytest.approx(1e-8, rel=1e-9)
    assert curve.delta(0.0).upper == 1.0
    assert closed(lambda delta: arb(1), largest=2.0).delta(2.0).upper == 0.0

    def never(delta: arb) -> arb:
        raise NotApplicable("test", "never applies.")

    assert closed(never).delta(1.0).upper == 1.0


def test_a_delta_form_is_inverted() -> None:
    """A curve given as δ(ε) has the inverse ε(δ) on the proved side, and is capped by 1 and by its largest ε."""
    curve = ClosedFormDeltaCurve(CurveSource("test", "none", 100), lambda epsilon: 4 * (-50 * epsilon).exp(), 1.0)
    assert curve.delta(0.0).upper == 1.0
    assert curve.delta(0.001).upper == 1.0
    assert curve.delta(0.5).upper == pytest.approx(4 * math.exp(-25), rel=1e-12)
    assert curve.delta(1.0).upper == 0.0
    for delta in (0.5, 1e-3, 1e-9):
        value = curve.epsilon(delta)
        assert curve.delta(value.upper).upper <= delta
        assert value.upper == pytest.approx(math.log(4 / delta) / 50, rel=1e-8)
    assert curve.epsilon(1e-60).upper == 1.0


@pytest.mark.parametrize(
    ("parameters", "users", "delta"),
    [
        ((1.000000000000169, 8.448797217396728e-14, (1.0000000000173304, 1.00007236), 1.000000000001213), 6, 2e-98),
        ((1.000000000000048, 2.3980817331902807e-14, (1.0001924866789884, 21.03064930760997), None), 1260, 8e-64),
        ((1.0000000000000384, 2.278964928036716e-15, (4.273508007215018, 1.0000000000040143), None), 129, 2e-87),
    ],
)  # fmt: skip
def test_ratios_a_hair_above_one(parameters: tuple[Any, ...], users: int, delta: float) -> None:
    """At ε = log p, rounded up, the largest value is below 0 by less than 1e-29: it is not taken for a positive one.

    By the other route, the largest ε is log p from both sides: below it user 1's likeliest message alone gives more.
    """
    curve = amplify(VariationRatio(*parameters), users, bound="variation-ratio")
    value = curve.epsilon(delta)
    with precision(200):
        largest = arb(parameters[0]).log()
        assert largest * (1 - arb(1e-9)) <= arb(value.upper) <= largest * (1 + arb(1e-12))
    assert curve.delta(value.upper).upper <= delta
    assert curve.delta(value.upper * (1 - 1e-6)).upper > delta
