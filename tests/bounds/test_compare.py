"""Every bound side by side."""

from __future__ import annotations

import itertools
import math

import pytest

import shuffledp as sdp
from shuffledp.bounds import BOUND_OF
from shuffledp.bounds.best import BestCurve
from shuffledp.mechanisms.catalogue import all_mechanisms


def test_all_bounds_are_listed_best_first() -> None:
    """Guarantees come first, smallest first; then what is no guarantee; then what does not apply, with a reason."""
    result = sdp.compare(sdp.KRR(1.0, 16), 10_000, 1e-6)
    assert {row.bound for row in result.rows} == set(BOUND_OF)
    guaranteed = [row.value.upper for row in result.rows if row.value is not None and row.value.guarantee]
    assert guaranteed == sorted(guaranteed)
    kinds = [0 if row.value and row.value.guarantee else 1 if row.value else 2 for row in result.rows]
    assert kinds == sorted(kinds)
    assert all(row.reason for row in result.rows if row.value is None)
    assert result.best.value is not None
    assert result.lower is not None
    assert result.lower <= result.best.value.upper


def test_colluding_users_do_not_hide() -> None:
    """The comparison with K colluding users is that of n − K users."""
    fewer = sdp.compare(sdp.KRR(1.0, 4), 1_000, 1e-6, colluding=400)
    plain = sdp.compare(sdp.KRR(1.0, 4), 600, 1e-6)
    assert fewer.users == 600
    assert fewer.best.value == plain.best.value


ORDERED = [name for name, kind in all_mechanisms().items() if kind.examples()[0].told_parameters()]
"""All but those whose noise has a law of its own, of which these bounds know nothing."""


@pytest.mark.parametrize("name", ORDERED)
def test_the_known_order_of_the_bounds(name: str) -> None:
    """optimal ≤ variation-ratio ≤ stronger-clone ≤ clone for each mechanism of the catalogue; p = ∞ has no clones."""
    examples = all_mechanisms()[name].examples()
    for mechanism in (examples[0], examples[-1]):
        bounds = ["optimal", "variation-ratio"]
        if math.isfinite(mechanism.variation_ratio().p):
            bounds += ["stronger-clone", "clone"]
        values = [sdp.amplify(mechanism, 2_000, bound=bound).epsilon(1e-5) for bound in bounds]
        for tighter, looser in itertools.pairwise(values):
            assert tighter.upper - tighter.slack <= looser.upper * (1 + 1e-12)


def test_best_is_the_smallest_and_says_what_it_left_out() -> None:
    """The default takes the smallest guarantee, never a published non-guarantee, and lists why others were not used."""
    mechanism = sdp.KRR(2.0, 6)
    curve = sdp.amplify(mechanism, 3_000, effort="quick")
    assert isinstance(curve, BestCurve)
    best = curve.epsilon(1e-6)
    for name, bound in BOUND_OF.items():
        if bound.guarantees:
            try:
                assert best.upper <= bound.curve(mechanism, 3_000).epsilon(1e-6).upper * (1 + 1e-12), name
            except sdp.NotApplicable:
                continue
    refused = dict(curve.refused)
    assert "reproduction" in refused["variation-ratio-published"]
    assert "never better" in refused["clone"]
