"""calibrate never returns a value that misses its target, and hardly ever less than could be had."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from shuffledp.calibration.calibrate import JUMP_FACTORS, CalibrationSearch, search
from shuffledp.calibration.targets import Target
from shuffledp.mechanisms.base.mechanism import Mechanism, TunableParameter
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.privacy.curve import BoundValue, CurveSource, NumericCurve, PrivacyCurve
from tests.cli.test_catalogue_commands import SETTINGS
from tests.oracle.double_precision import epsilon_published_float

MORE = 1.001


def numbers(name: str) -> dict[str, Any]:
    """The settings of a catalogue mechanism as arguments: numbers where they are numbers."""

    def value(text: str) -> Any:
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text)
        return text

    return {key: value(text) for key, text in (setting.split("=") for setting in SETTINGS[name])}


def assert_calibrated(found: sdp.Calibration, users: int, epsilon: float, delta: float) -> None:
    """The mechanism itself, amplified afresh, meets the target and the curve says so."""
    again = sdp.amplify(found.mechanism, users, effort="quick").epsilon(delta).upper
    assert again <= epsilon
    assert found.curve.epsilon(delta).upper == found.epsilon.upper == again
    assert found.curve.messages == users


def test_the_bar_randomized_response() -> None:
    """128 options, 1e5 users, (1, 1e-8): meets the target, and 0.1% more does not."""
    found = sdp.calibrate(sdp.KRR, options=128, users=100_000, epsilon=1.0, delta=1e-8, effort="quick")
    assert found.mechanism == sdp.KRR(found.value, 128)
    assert found.setting == "epsilon_local"
    assert found.limit == ""
    assert_calibrated(found, 100_000, 1.0, 1e-8)
    assert sdp.amplify(sdp.KRR(found.value * MORE, 128), 100_000, effort="quick").epsilon(1e-8).upper > 1.0


LOCAL = [name for name in sorted(SETTINGS) if all_mechanisms()[name].tunable[0].name == "epsilon"]


@pytest.mark.parametrize("name", LOCAL)
def test_every_mechanism_of_the_catalogue(name: str) -> None:
    """The largest local ε meets the target, 0.1% more misses it."""
    kind = all_mechanisms()[name]
    users, epsilon, delta = 3_000, 0.25, 1e-6
    found = sdp.calibrate(kind, users=users, epsilon=epsilon, delta=delta, **numbers(name), effort="quick")
    assert_calibrated(found, users, epsilon, delta)
    assert found.value > epsilon
    beyond: Any = kind(found.value * MORE, **numbers(name))  # type: ignore[call-arg]
    assert sdp.amplify(beyond, users, effort="quick").epsilon(delta).upper > epsilon


OTHERS = [
    pytest.param(name, tuning, id=f"{name}-{tuning.name}")
    for name in sorted(SETTINGS)
    for tuning in all_mechanisms()[name].tunable
    if tuning.name != "epsilon"
]


@pytest.mark.exhaustive(
    "cancelling-sets-shape", "cancelling-tree-shape", "cheu-zhilyaev", "mix-dump-share", "multiplier"
)
@pytest.mark.parametrize(("name", "tuning"), OTHERS)
def test_every_other_setting_that_a_mechanism_lists(name: str, tuning: TunableParameter) -> None:
    """Dummies, flips, coins: the value meets the target; the next one misses it, unless it is the end of the search."""
    kind, users, epsilon, delta = all_mechanisms()[name], 2_000, 0.5, 1e-5
    settings = {key: value for key, value in numbers(name).items() if key != tuning.name}
    found = sdp.calibrate(kind, find=tuning.name, users=users, epsilon=epsilon, delta=delta, **settings, effort="quick")
    made: Any = kind(**settings, **{tuning.name: found.value})
    assert sdp.amplify(made, users, effort="quick").epsilon(delta).upper <= epsilon
    if found.limit:
        # The end may be cut off where a probability is practically 0.
        assert found.value == pytest.approx(
            tuning.minimum if tuning.more_is_more_private else tuning.maximum, abs=1e-15
        )
        return
    direction = -1 if tuning.more_is_more_private else 1
    beyond = found.value + direction if tuning.is_integer else found.value * MORE**direction
    made = kind(**settings, **{tuning.name: min(beyond, tuning.maximum)})
    assert sdp.amplify(made, users, effort="quick").epsilon(delta).upper > epsilon


@pytest.mark.parametrize(("users", "epsilon", "delta"), [(500, 0.5, 1e-5), (20_000, 0.1, 1e-7), (10**6, 1.0, 1e-9)])
def test_any_local_randomizer_against_the_oracle(users: int, epsilon: float, delta: float) -> None:
    """VariationRatio.from_ldp: an independent evaluation of the clone pair crosses the target where we say."""
    found = sdp.calibrate(sdp.VariationRatio.from_ldp, users=users, epsilon=epsilon, delta=delta, effort="quick")
    for factor, meets in ((1 - 1e-6, True), (1 + 1e-4, False)):
        p = math.exp(found.value * factor)
        assert (epsilon_published_float(p, (p - 1) / (p + 1), p, users, delta) <= epsilon) is meets


@pytest.mark.parametrize("colluding", [0, 500])
def test_the_fewest_users(colluding: int) -> None:
    """One user less misses the target; colluding users come on top."""
    made = sdp.KRR(2.0, 16)
    found = sdp.calibrate(made, find="users", epsilon=0.2, delta=1e-6, colluding=colluding, effort="quick")
    assert isinstance(found.value, int)
    curve = sdp.amplify(made, found.value, colluding=colluding, effort="quick")
    assert curve.epsilon(1e-6).upper <= 0.2
    assert sdp.amplify(made, found.value - 1, colluding=colluding, effort="quick").epsilon(1e-6).upper > 0.2
    same = sdp.calibrate(sdp.KRR, epsilon_local=2.0, options=16, find="users", epsilon=0.2, delta=1e-6, effort="quick")
    assert same.value == found.value - colluding


@pytest.mark.exhaustive
def test_the_most_rounds() -> None:
    """One round more misses the target, by the composed curve itself."""
    made = sdp.KRR(1.0, 16)
    found = sdp.calibrate(made, find="rounds", users=10_000, epsilon=0.3, delta=1e-6, effort="quick")
    assert isinstance(found.value, int)
    assert found.value > 10
    once = sdp.amplify(made, 10_000, effort="quick")
    assert sdp.compose(once, found.value).epsilon(1e-6).upper <= 0.3
    assert sdp.compose(once, found.value + 1).epsilon(1e-6).upper > 0.3


def test_no_round_is_within_a_target_that_one_round_misses() -> None:
    """The least is one round; where that is too much there is no answer."""
    with pytest.raises(NotApplicable, match="no rounds from 1 to 1e"):
        sdp.calibrate(sdp.KRR(3.0, 4), find="rounds", users=100, epsilon=0.3, delta=1e-6, effort="quick")


@pytest.mark.exhaustive
def test_the_local_epsilon_of_several_rounds() -> None:
    """With rounds given, all of them together meet the target."""
    found = sdp.calibrate(sdp.KRR, options=8, users=10_000, rounds=20, epsilon=0.5, delta=1e-6, effort="quick")
    once = sdp.amplify(found.mechanism, 10_000, effort="quick")
    assert found.curve.epsilon(1e-6).upper == sdp.compose(once, 20).epsilon(1e-6).upper <= 0.5
    beyond = sdp.amplify(sdp.KRR(found.value * MORE, 8), 10_000, effort="quick")
    assert sdp.compose(beyond, 20).epsilon(1e-6).upper > 0.5
    assert found.value < sdp.calibrate(sdp.KRR, options=8, users=10_000, epsilon=0.5, delta=1e-6, effort="quick").value


def test_one_user_is_enough_where_the_local_guarantee_is() -> None:
    """The fewest users may be one: the end of what is searched is checked like any value."""
    assert sdp.calibrate(sdp.KRR(0.5, 4), find="users", epsilon=0.6, delta=1e-9, effort="quick").value == 1


def test_without_a_crowd_the_local_epsilon_is_the_target() -> None:
    """One user: nothing hides, so the local ε is the central one, rounding included."""
    found = sdp.calibrate(sdp.KRR, options=2, users=1, epsilon=0.7, delta=1e-12, effort="quick")
    assert 0.7 * (1 - 1e-4) <= found.value <= 0.7 * (1 + 1e-9)
    assert found.epsilon.upper <= 0.7


def test_other_bounds() -> None:
    """A closed form that stops to apply ends the search there; a looser bound allows less."""
    tight = sdp.calibrate(sdp.KRR, options=16, users=100_000, epsilon=0.5, delta=1e-6, effort="quick")
    loose = sdp.calibrate(sdp.KRR, options=16, users=100_000, epsilon=0.5, delta=1e-6, bound="efmrtt19")
    assert loose.value < tight.value
    assert loose.curve.bound == "efmrtt19"
    assert loose.value <= 0.5
    with pytest.raises(NotApplicable, match="efmrtt19"):
        sdp.amplify(sdp.KRR(0.51, 16), 100_000, bound="efmrtt19").epsilon(1e-6)


def test_what_is_no_guarantee_is_refused() -> None:
    """A bound for reproduction cannot meet a target."""
    with pytest.raises(ValueError, match="bound must be a guarantee"):
        sdp.calibrate(sdp.KRR, options=9, users=1000, epsilon=1.0, delta=1e-5, bound="variation-ratio-published")


def test_a_printed_analysis_is_searched_and_says_that_it_is_no_guarantee() -> None:
    """The flips, dummies and users that the protocols' own papers ask for, against their printed conditions by hand."""
    users, target, delta = 100_000, 0.5, 1e-7
    found = sdp.calibrate(
        sdp.CheuZhilyaev, options=16, users=users, epsilon=target, delta=delta, bound="protocol-published"
    )
    need = 33 / 5 / math.tanh(target / 2) ** 2 * math.log(4 / delta)
    assert found.value == pytest.approx((1 - math.sqrt(1 - 4 * need / users)) / 2, rel=1e-4)
    assert not found.epsilon.guarantee
    assert not found.curve.guarantee
    assert "NOT a guarantee" in str(found)
    least = sdp.calibrate(
        sdp.BallsIntoBins(options=100, bins=13), find="users", epsilon=1.0, delta=1e-6, bound="protocol-published"
    )
    assert least.value == math.ceil(32 * 13 * math.log(2e6))


def test_a_target_beyond_all_values_says_where_it_stopped() -> None:
    """Where even the largest local ε that is searched meets the target, that one is returned and the limit named."""
    found = sdp.calibrate(sdp.KRR, options=4, users=10, epsilon=70.0, delta=1e-3, effort="quick")
    assert found.value == Mechanism.tunable[0].maximum
    assert "was not searched beyond 64" in found.limit


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"options": 4, "epsilon": 1e-12, "users": 2}, "no epsilon from 1e-06 to 64 is proved to give"),
        ({"options": 1, "epsilon": 1.0, "users": 2}, "options must be at least 2, got 1"),
        ({"options": 4, "epsilon": 0.0, "users": 2}, "epsilon must be above 0"),
        ({"options": 4, "epsilon": 1.0}, "users must be given"),
        ({"options": 4, "epsilon": 1.0, "find": "users"}, "epsilon_local must be given"),
        (
            {"options": 4, "epsilon": 1.0, "users": 2, "find": "users", "epsilon_local": 1.0},
            "users is the searched setting",
        ),
        ({"options": 4, "epsilon": 1.0, "users": 2, "find": "coins"}, "must be one of epsilon_local, users, rounds"),
        ({"options": 4, "epsilon": 1.0, "users": 2, "epsilon_local": 1.0}, "epsilon_local is the searched setting"),
        ({"options": 4, "epsilon": 1.0, "users": 2, "colluding": 2}, "users must be at least 3, got 2"),
        ({"options": 4, "epsilon": 1.0, "users": 2, "bound": "none"}, "bound must be one of"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    """Impossible targets and bad arguments are a ValueError with the reason."""
    with pytest.raises(ValueError, match=sentence):
        sdp.calibrate(sdp.KRR, delta=1e-9, **arguments, effort="quick")


def test_a_finished_mechanism_leaves_only_users_to_find() -> None:
    """Its settings are what they are."""
    with pytest.raises(ValueError, match="leaves only users"):
        sdp.calibrate(sdp.KRR(1.0, 4), users=10, epsilon=1.0, delta=1e-5, effort="quick")
    with pytest.raises(ValueError, match="no further settings"):
        sdp.calibrate(sdp.KRR(1.0, 4), find="users", options=5, epsilon=1.0, delta=1e-5, effort="quick")


# --- the search itself, on curves that are made up --------------------------------------------------------------


@dataclass(frozen=True)
class Fixed(PrivacyCurve):
    """A curve with one ε at every δ, and δ = 10^-6 exactly there."""

    central: float

    def _epsilon(self, delta: float) -> BoundValue:
        return self._value(self.central, 0.0)

    def _delta(self, epsilon: float) -> BoundValue:
        return self._value(min(1.0, 1e-6 ** (epsilon / self.central)), 0.0)


def made_up(central: Any, tuning: TunableParameter, epsilon: float) -> Any:
    def curve_at(value: float) -> PrivacyCurve:
        return Fixed(CurveSource("made-up", "none", 1, guarantee=True), central(value))

    return CalibrationSearch(curve_at, lambda value: math.log(central(value)), tuning, Target(epsilon, 1e-6)).run()


@pytest.mark.parametrize("aim", [0.013, 1.0, 7.3, 123.4])
def test_settings_of_either_direction(aim: float) -> None:
    """Real and whole settings, of more and of less privacy, end next to the exact crossing."""
    less, more = TunableParameter("less", False, False, 1e-4, 1e4), TunableParameter("more", False, True, 1e-4, 1e4)
    assert made_up(lambda value: value**1.5, less, aim).value == pytest.approx(aim ** (1 / 1.5), rel=3e-5)
    assert made_up(lambda value: 1 / value, more, aim).value == pytest.approx(1 / aim, rel=3e-5)
    count, dummies = (
        TunableParameter("count", True, False, 1, math.inf),
        TunableParameter("dummies", True, True, 0, math.inf),
    )
    assert made_up(lambda value: value / 1000, count, aim).value == math.floor(1000 * aim + 1e-9)
    assert made_up(lambda value: 1000 / (value + 1), dummies, aim).value == math.ceil(1000 / aim - 1e-9) - 1


@pytest.mark.parametrize("least", [0.1, 1e-4, 1e-9])
def test_a_probability_of_almost_one_is_found_by_its_distance_to_it(least: float) -> None:
    """Its complement is found to a few parts in 1e5, however small it is."""
    coin = TunableParameter("coin", False, False, 0.5, 1.0 - 2.0**-53, approaches_one=True)
    found = made_up(lambda value: least / (1 - value), coin, 0.7)
    assert 1 - found.value == pytest.approx(least / 0.7, rel=5e-5)
    assert not found.limit


def test_many_coins_leave_no_room_in_the_target() -> None:
    """Balcer and Cheu with many coins for many users: the certified ε is next to the target."""
    found = sdp.calibrate(sdp.BalcerCheu, epsilon=1, delta=1e-9, users=1e6, options=10, coins=64, effort="quick")
    assert 0.999 < found.epsilon.upper <= 1.0
    assert 1 - found.value < 2e-6


def test_a_jump_towards_privacy_is_searched_beyond() -> None:
    """Where a default changes and hides better again, the last crossing within reach is found."""

    def jumps(value: float) -> float:
        return value if value < 1.02 else 0.93 * value

    found = made_up(jumps, TunableParameter("setting", False, False, 1e-4, 64.0), 1.0)
    assert found.value == pytest.approx(1 / 0.93, rel=3e-5)
    assert all(jumps(found.value * factor) > 1.0 for factor in JUMP_FACTORS)


def test_values_that_a_mechanism_refuses_are_not_returned() -> None:
    """Refused at the end of most privacy and too weak elsewhere: no value, with the mechanism's own reason."""

    def build(value: float) -> sdp.KRR:
        if value < 2.0:
            raise ValueError("Shy: epsilon must be at least 2.")
        return sdp.KRR(value, 4)

    with pytest.raises(NotApplicable, match=r"no epsilon .* Shy: epsilon must be at least 2\."):
        search(build, Mechanism.tunable[0], Target(0.1, 1e-6), users=100)
    assert search(build, Mechanism.tunable[0], Target(0.5, 1e-6), users=10_000).value > 2.0


def test_the_certified_epsilon_has_the_last_word() -> None:
    """Where δ at the target looks fine but ε at δ is a hair too large, the value gives way."""

    @dataclass(frozen=True)
    class Wide(Fixed):
        def _epsilon(self, delta: float) -> BoundValue:
            return self._value(self.central * (1 + 1e-6), 1e-6)

    def curve_at(value: float) -> PrivacyCurve:
        return Wide(CurveSource("made-up", "none", 1, guarantee=True), value)

    tuning = TunableParameter("setting", False, False, 1e-4, 64.0)
    found = CalibrationSearch(curve_at, math.log, tuning, Target(1.0, 1e-6)).run()
    assert found.curve.epsilon(1e-6).upper <= 1.0
    assert found.value == pytest.approx(1.0, rel=3e-5)


@dataclass(frozen=True)
class _Blurred(NumericCurve):
    """A curve whose quick look is wide."""

    @classmethod
    def like(cls, curve: PrivacyCurve) -> _Blurred:
        assert isinstance(curve, NumericCurve)
        return cls(**{field.name: getattr(curve, field.name) for field in dataclasses.fields(curve)})

    def _profile(self, epsilons: Any) -> Any:
        upper, lower = super()._profile(epsilons)
        return np.minimum(1.0, 1.3 * upper), 0.8 * lower


@pytest.mark.parametrize("share", [0.5, 0.99, 1.000001, 1.2, 2.0])
def test_a_quick_look_never_decides_what_it_cannot_tell(share: float) -> None:
    """On which side of the target a curve is, what is certified says; a wide bracket around it is not believed."""
    curve = sdp.amplify(sdp.VariationRatio(math.e, 0.3, math.e), 1000, bound="variation-ratio")
    level = curve.delta(0.1).upper * share
    wanted = curve.delta(0.1).upper <= level
    for one in (curve, _Blurred.like(curve)):
        assert (Target(0.1, level).excess(one).size <= 0) == wanted
