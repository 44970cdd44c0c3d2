"""Arguments: exact numbers are rounded to the safe side, and what no computation could use is refused in a sentence."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp


def test_a_ratio_is_never_rounded_down() -> None:
    """2^53 + 1 is no float, and the one below would promise too much; nor is δ or ε rounded up where they are asked."""
    assert sdp.VariationRatio(2**53 + 1, 0.5, 2**53 + 1).p == 2**53 + 2
    assert sdp.VariationRatio(np.int64(2**53 + 1), 0.5, np.int64(2**53 + 1)).q == (2**53 + 2, 2**53 + 2)
    curve = sdp.amplify(sdp.KRR(1.0, 2), 10, effort="quick")
    assert Fraction(curve.epsilon(Fraction(1, 10)).delta or 0) <= Fraction(1, 10)
    assert Fraction(curve.delta(Fraction(1, 10)).epsilon or 0) <= Fraction(1, 10)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sdp.KRR(1.0, 10**400), "KRR: options must be at most 9223372036854775807, got 1000"),
        (lambda: sdp.KRR(1.0, 1e308), "KRR: options must be at most 9223372036854775807, got 1000"),
        (lambda: sdp.KRR(1.0, -(10**5000)), "KRR: options must be at least 2, got a number of thousands of digits"),
        (lambda: sdp.amplify(sdp.KRR(1.0, 2), 10**5000, effort="quick"), "amplify: users must be at most "),
        (lambda: sdp.amplify(sdp.KRR(1.0, 2), Fraction(10**400), effort="quick"), "amplify: users must be at most "),
        (lambda: sdp.Duchi(1.0, 2**53 + 1), "Duchi: dimension must be at most 131072, got 9007199254740993"),
        (lambda: sdp.LocalHash(5e-324, 4), "LocalHash: epsilon must be large enough for a coin"),
        (lambda: sdp.HadamardResponse(1e-300, 4), "HadamardResponse: epsilon must be large enough for a coin"),
    ],
)  # fmt: skip
def test_what_is_too_large_or_too_small_is_said(call: Any, sentence: str) -> None:
    """One sentence, by the name that was called, and not too long to read."""
    with pytest.raises(ValueError, match=f"^{sentence}.*\\.$") as caught:
        call()
    assert len(str(caught.value)) < 200


def test_extremes_that_are_answered() -> None:
    """The largest ratio that is a float, and a mechanism that tells next to nothing."""
    value = sdp.amplify(sdp.VariationRatio(1e308, 0.5, 1e308), 10, effort="quick").epsilon(1e-6)
    assert 700 < value.upper < 710
    wide = sdp.VariationRatio(1.6226393089934346, 0.001256532897295709, 1e308, 1.6226393089934363)
    assert 0 < sdp.amplify(wide, 10**10, effort="quick").epsilon(1e-36).upper < 0.5
    with pytest.raises(sdp.NotApplicable, match=r"^clone: needs 2p²/\(p\+1\) in the range of floats"):
        sdp.amplify(sdp.VariationRatio(1e308, 1e-4, 1.001), 10, bound="clone")
    mechanism = sdp.ProjectiveGeometry(1e-17, options=10)
    assert 0 <= sdp.amplify(mechanism, 10, effort="quick").delta(0.0).upper < 1e-17


def test_corners_of_the_floats() -> None:
    """A β that is lost among floats is raised; a hat far narrower than its grid is refused in a sentence."""
    tiny = sdp.VariationRatio(435969403655933.0, 5e-324, 435971971315630.44, q_common=5132496319612798.0)
    assert tiny.beta == 1e-250
    assert 0 <= sdp.amplify(tiny, 50016029, bound="variation-ratio").delta(1e-5).upper < 1e-20
    with pytest.raises(ValueError, match=r"^WitchHat: expected a grid step that is small against the scale"):
        sdp.amplify(sdp.WitchHat(2e-6, half_width=1443.0, scale=1e-300, grid=12), 1000, effort="quick")
