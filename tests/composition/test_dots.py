"""Curves kept as dots: above the curve everywhere, near it, and the same to the last bit when they are read again."""

from __future__ import annotations

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.sampled_curve import SampledCurve, SampledDeltas, fingerprint


def curves() -> list[PrivacyCurve]:
    return [
        sdp.amplify(sdp.KRR(2.0, 8), 100_000, bound="stronger-clone"),
        sdp.amplify(sdp.KRR(1.0, 4), 5000, effort="quick"),
        sdp.amplify(sdp.KRR(0.5, 4), 2000, bound="efmrtt19"),
        sdp.amplify(sdp.PureDUMP(4, 30), 300, effort="quick"),
    ]


@pytest.fixture(scope="module", params=range(4))
def pair(request: pytest.FixtureRequest) -> tuple[PrivacyCurve, SampledCurve]:
    curve = curves()[request.param]
    return curve, SampledCurve(curve.source, SampledDeltas.from_curve(curve))


def test_dots_are_kept_to_the_last_bit(pair: tuple[PrivacyCurve, SampledCurve]) -> None:
    """Written and read, or computed from another object for the same curve that was asked other things before."""
    curve, dotted = pair
    content = dotted.samples.to_bytes()
    again = SampledDeltas.from_bytes(content)
    assert again.to_bytes() == content
    points = np.linspace(0.0, 3.0, 500)
    for one, other in zip(dotted._profile(points), SampledCurve(curve.source, again)._profile(points), strict=True):
        assert np.array_equal(one, other)
    curve.epsilon(1e-7)
    curve.profile(np.linspace(0.0, 0.3, 17))
    assert fingerprint(SampledDeltas.from_curve(curve).to_bytes()) == fingerprint(content)


def test_chords_are_above_the_curve_and_near_it(pair: tuple[PrivacyCurve, SampledCurve]) -> None:
    """At points between the dots, and beyond the last one."""
    curve, dotted = pair
    places = dotted.samples.epsilons
    middle = (places[:-1] + places[1:]) / 2
    chosen = np.append(middle[:: max(1, len(middle) // 40)], [0.0, places[-1] * 2])
    exact, chords = curve.profile(chosen), dotted.profile(chosen)
    # A bound that is not convex may be above its own chords; the truth is below both.
    truth = (
        sdp.amplify(sdp.KRR(0.5, 4), 2000, effort="quick").profile(chosen).lower
        if curve.bound == "efmrtt19"
        else exact.upper
    )
    assert np.all(chords.upper >= truth)
    assert np.all(chords.lower <= chords.upper)
    near = chosen <= places[len(places) // 3]
    assert np.all(chords.upper[near] <= exact.upper[near] * 1.01 + 1e-20)
    assert dotted.delta(float(chosen[3])).upper == chords.upper[3]


@pytest.mark.exhaustive
def test_dots_compose_as_the_curves_do() -> None:
    """Never below the exact composition's lower side, and within 1.2e-4 of its upper one."""
    exact = curves()
    dotted = [SampledCurve(curve.source, SampledDeltas.from_curve(curve)) for curve in exact]
    for chosen, delta in (([0, 1], 1e-10), ([1] * 20 + [0], 1e-5)):
        direct = sdp.compose([exact[k] for k in chosen]).epsilon(delta)
        kept = sdp.compose([dotted[k] for k in chosen]).epsilon(delta)
        assert direct.upper - direct.slack < kept.upper
        assert kept.upper <= direct.upper * (1 + 1.2e-4)
    alone = dotted[0].epsilon(1e-6).upper
    assert exact[0].epsilon(1e-6).upper <= alone <= exact[0].epsilon(1e-6).upper * (1 + 1e-3)


def test_a_curve_of_steps_has_no_more_dots_than_others() -> None:
    """Two messages: losses on a lattice, whose chords are never as near as those of a smooth curve."""
    curve = sdp.amplify(sdp.KRR(1.0, 2), 500, bound="exact-binary")
    dots = SampledDeltas.from_curve(curve)
    assert 200 < len(dots.indices) < 500
    assert dots.indices[0] == 0
    assert np.all(np.diff(dots.upper) <= 0)
