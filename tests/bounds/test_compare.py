"""Every bound side by side."""

from __future__ import annotations

import itertools
import math

import pytest

import shuffledp as sdp
from shuffledp.bounds.compare import Comparison
from shuffledp.bounds.pointwise_minimum import BestCurve
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.bounds.sweep import BoundLine, ComparisonSweep, compare_along
from shuffledp.mechanisms.catalogue import all_mechanisms


def test_all_bounds_are_listed_best_first() -> None:
    """Guarantees come first, smallest first; then what is no guarantee; then what does not apply, with a reason."""
    result = sdp.compare(sdp.KRR(1.0, 16), 10_000, 1e-6)
    assert {row.bound for row in result.rows} == set(BOUNDS_BY_NAME)
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


ORDERED = [name for name, kind in all_mechanisms().items() if kind.examples()[0].ratio_parameters()]
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
    for name, bound in BOUNDS_BY_NAME.items():
        if bound.guarantees:
            try:
                assert best.upper <= bound.curve(mechanism, 3_000).epsilon(1e-6).upper * (1 + 1e-12), name
            except sdp.NotApplicable:
                continue
    refused = dict(curve.rejected)
    assert "reproduction" in refused["variation-ratio-published"]
    assert "never better" in refused["clone"]


def along(bounds: int, *, printed: tuple[int, ...] = (), attacked: bool = True) -> ComparisonSweep:
    """Lines that are worse and worse, some of them printed only."""
    lines = [
        BoundLine(f"bound {place}", place not in printed, ((1.0, 0.1 + place), (2.0, 0.2 + place)))
        for place in range(bounds)
    ]
    return ComparisonSweep("local-epsilon", tuple(lines), ((1.0, 0.05),) if attacked else (), 1.0, "a made-up one")


def test_at_most_five_lines_have_a_name() -> None:
    """The best guarantees and one printed number, the attack counted; all others are grey, one's own ε0 is marked."""
    for attacked in (True, False):
        found = along(9, printed=(3, 7), attacked=attacked)
        room = 3 if attacked else 4
        proved = [f"bound {place}" for place in (0, 1, 2, 4)][:room]
        assert [line.bound for line in found.labelled_lines()] == [*proved, "bound 3"]
        figure = found.plot()
        (legend,) = figure.legends
        assert len(legend.get_texts()) == 5
        (axes,) = figure.axes
        grey = [line for line in axes.lines if line.get_color() == "0.78"]
        assert len(grey) == 9 - room - 1
        texts = [text.get_text() for text in axes.texts]
        assert texts == ["ε₀ = 1", f"grey: {len(grey)} other bounds"]


@pytest.mark.exhaustive
def test_every_bound_along_an_axis() -> None:
    """Each point is that of ``compare`` there; where nothing applies there is none; printed bounds are marked."""

    def asked(place: float) -> Comparison:
        if place > 2:
            raise sdp.NotApplicable("made-up", "too large.")
        return sdp.compare(sdp.KRR(place, 4), users=500, delta=1e-5)

    found = compare_along(asked, [1.0, 2.0, 3.0], axis="local-epsilon", marked_position=1.0, title="krr")
    lines = {line.bound: line for line in found.lines}
    assert not lines["variation-ratio-published"].guarantee
    for place in (1.0, 2.0):
        result = asked(place)
        known = {row.bound: row.value.upper for row in result.rows if row.value is not None}
        assert {name: dict(line.points)[place] for name, line in lines.items() if place in dict(line.points)} == known
        assert dict(found.attack)[place] == result.lower
    assert max(x for line in found.lines for x, _ in line.points) == 2.0
