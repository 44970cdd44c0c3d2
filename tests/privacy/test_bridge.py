"""The bridge to dp_accounting, against the real package."""

from __future__ import annotations

import math
import subprocess
import sys

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld as their_pld

import shuffledp as sdp
from shuffledp.privacy.dp_accounting import ShuffledAccountant, ShuffledDpEvent, from_pld

CURVE = sdp.amplify(sdp.VariationRatio.from_ldp(2.0), 2000, bound="stronger-clone")
RELATION = dp_accounting.NeighboringRelation.REPLACE_ONE


def explicit_pmfs(epsilon_local: float, users: int) -> tuple[dict[object, float], dict[object, float]]:
    """Both laws of the stronger clones' counts (a, b), term by term from the multinomial."""
    p = math.exp(epsilon_local)
    hide = 1 / (p + 1)
    one: dict[object, float] = {}
    two: dict[object, float] = {}
    others = users - 1
    for a in range(others + 1):
        for b in range(others + 1 - a):
            log = math.lgamma(others + 1) - math.lgamma(a + 1) - math.lgamma(b + 1) - math.lgamma(others - a - b + 1)
            mass = math.exp(log + (a + b) * math.log(hide) + (others - a - b) * math.log1p(-2 * hide))
            for key, first, second in (((a + 1, b), p * hide, hide), ((a, b + 1), hide, p * hide)):
                one[key] = one.get(key, 0.0) + mass * first
                two[key] = two.get(key, 0.0) + mass * second
    return one, two


def test_composition_agrees_with_two_explicit_pmfs() -> None:
    """Their own rounding of two explicit probability mass functions, composed by them, brackets our composition."""
    users, rounds = 40, 10
    curve = sdp.amplify(sdp.VariationRatio.from_ldp(1.0), users, bound="stronger-clone")
    first, second = explicit_pmfs(1.0, users)
    ours = sdp.compose(curve, rounds)
    log_first, log_second = ({key: math.log(mass) for key, mass in law.items()} for law in (first, second))
    for pessimistic in (True, False):
        theirs = their_pld.privacy_loss_distribution.from_two_probability_mass_functions(
            log_first, log_second, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
        ).self_compose(rounds)
        for epsilon in (0.3, 1.0):
            delta, value = theirs.get_delta_for_epsilon(epsilon), ours.delta(epsilon)
            if pessimistic:
                assert value.upper - value.slack <= delta * (1 + 1e-9)
            else:
                assert value.upper >= delta * (1 - 1e-9)
            assert value.upper == pytest.approx(delta, rel=1e-2)
        assert theirs.get_epsilon_for_delta(1e-3) == pytest.approx(ours.epsilon(1e-3).upper, rel=2e-3)


def test_both_sides_of_one_round() -> None:
    """The pessimistic distribution is above the curve and the optimistic one below, at and between grid points."""
    above, below = CURVE.to_pld(), CURVE.to_pld(pessimistic=False)
    points = np.array([0.0, 0.01, 0.05, 0.10003, 0.2])
    values = CURVE.profile(points)
    assert np.all(np.asarray(above.get_delta_for_epsilon(points)) >= values.lower)
    assert np.all(np.asarray(below.get_delta_for_epsilon(points)) <= values.upper)
    assert above.get_epsilon_for_delta(1e-6) == pytest.approx(CURVE.epsilon(1e-6).upper, rel=1e-4)
    assert below.get_epsilon_for_delta(1e-6) == pytest.approx(CURVE.epsilon(1e-6).upper, rel=1e-3)


def test_their_composition_of_our_rounds() -> None:
    """Composed by them or by us: the same ε, theirs a little above."""
    ours = sdp.compose(CURVE, 100).epsilon(1e-6)
    theirs = CURVE.to_pld().self_compose(100).get_epsilon_for_delta(1e-6)
    assert ours.upper - ours.slack <= theirs <= ours.upper * 1.001


@pytest.mark.exhaustive
def test_the_accountant_mixes_events() -> None:
    """Shuffled rounds next to Gaussian ones, in any nesting, as by composing the distributions by hand."""
    accountant = ShuffledAccountant()
    gaussian = dp_accounting.GaussianDpEvent(noise_multiplier=20.0)
    shuffled = ShuffledDpEvent(CURVE)
    both = dp_accounting.ComposedDpEvent([dp_accounting.SelfComposedDpEvent(shuffled, 3), gaussian])
    assert accountant.supports(both)
    accountant.compose(both)
    by_hand = their_pld.privacy_loss_distribution.from_gaussian_mechanism(
        20.0, value_discretization_interval=1e-4, neighboring_relation=RELATION
    ).compose(CURVE.to_pld().self_compose(3))
    assert accountant.get_epsilon(1e-6) == pytest.approx(by_hand.get_epsilon_for_delta(1e-6), rel=1e-9)
    assert accountant.get_epsilon(1e-6) > sdp.compose(CURVE, 3).epsilon(1e-6).upper
    # And by composing here what came from there.
    here = sdp.compose([CURVE, CURVE, CURVE, from_pld(_gaussian(20.0))])
    assert here.epsilon(1e-6).upper == pytest.approx(accountant.get_epsilon(1e-6), rel=2e-3)
    assert here.guarantee
    assert not here.certified


def _gaussian(noise: float) -> object:
    return their_pld.privacy_loss_distribution.from_gaussian_mechanism(
        noise, value_discretization_interval=1e-4, neighboring_relation=RELATION
    )


def test_other_neighbours_are_refused() -> None:
    """A curve is for replaced records; adding and removing is another question."""
    accountant = ShuffledAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    assert not accountant.supports(ShuffledDpEvent(CURVE))


def test_repeated_randomized_response_is_counted() -> None:
    """dp_accounting 0.6.0 ignores the count; ours does not."""
    event = dp_accounting.RandomizedResponseDpEvent(noise_parameter=0.4, num_buckets=4)
    once, often = ShuffledAccountant(), ShuffledAccountant()
    once.compose(event)
    often.compose(event, 5)
    looped = ShuffledAccountant()
    for _ in range(5):
        looped.compose(event)
    assert often.get_epsilon(1e-3) == pytest.approx(looped.get_epsilon(1e-3), rel=1e-6)
    assert often.get_epsilon(1e-3) > 2 * once.get_epsilon(1e-3)


@pytest.mark.exhaustive
def test_there_and_back() -> None:
    """A curve that went there and came back is the same curve, no longer certified."""
    back = from_pld(CURVE.to_pld(), users=2000)
    for delta in (1e-3, 1e-6):
        assert back.epsilon(delta).upper == pytest.approx(CURVE.epsilon(delta).upper, rel=1e-4)
    assert back.guarantee
    assert not back.certified
    assert back.users == 2000
    assert not from_pld(CURVE.to_pld(pessimistic=False)).guarantee
    with pytest.raises(TypeError, match="expected a PrivacyLossDistribution"):
        from_pld(0.5)


def test_what_is_no_guarantee_here_is_none_there() -> None:
    """A formula for reproduction does not come back as a guarantee, nor composes with what is one."""
    published = sdp.amplify(sdp.KRR(2.0, 8), 1000, bound="variation-ratio-published")
    assert not published.guarantee
    assert not from_pld(published.to_pld(discretization=1e-3)).guarantee


def test_infinite_losses_go_over() -> None:
    """What is at infinity here is at infinity there."""
    curve = sdp.amplify(sdp.VariationRatio(p=math.inf, beta=1.0, q=4.0), 8, bound="variation-ratio")
    alone = curve.delta(600.0).upper
    assert curve.to_pld(discretization=1e-3).get_delta_for_epsilon(50.0) == pytest.approx(alone, rel=1e-3)


def test_without_the_package() -> None:
    """One sentence that says what to install."""
    script = (
        "import sys; sys.modules['dp_accounting'] = None; import shuffledp as s\n"
        "try: s.amplify(s.KRR(epsilon=1.0, options=4), 50).to_pld()\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip().endswith("pip install '.[interop]'.")
    assert done.stdout.count("\n") == 1
