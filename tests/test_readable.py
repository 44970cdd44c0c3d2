"""What people see of a curve, a value and a comparison: lines, a table, a figure, one JSON object."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp._core.formatting import INFINITE_EPSILON_TEXT
from shuffledp.privacy.curve import MAX_EPSILON, BoundValue, ClosedFormCurve, CurveSource
from tests.cli import run

CURVE = sdp.amplify(sdp.KRR(2.0, 8), 500, colluding=100, bound="optimal")
PUBLISHED = sdp.amplify(sdp.KRR(2.0, 8), 500, bound="variation-ratio-published")
COMPARISON = sdp.compare(sdp.KRR(1.0, 4), 300, 1e-5)


class TestDocument:
    """``BoundValue.document``: the one JSON form of a value."""

    def test_of_an_epsilon_and_of_a_delta(self) -> None:
        """The number asked for stands alone, the answer has its bounds."""
        value = CURVE.epsilon(1e-6)
        assert value.document() == {
            "epsilon": {"lower": value.lower, "upper": value.upper, "slack": value.slack},
            "delta": 1e-6,
            "bound": "optimal",
            "theorem": value.theorem,
            "certified": True,
            "guarantee": True,
            "note": "",
        }
        back = CURVE.delta(0.1)
        assert back.document()["epsilon"] == 0.1
        assert back.document()["delta"] == {"lower": back.lower, "upper": back.upper, "slack": back.slack}

    def test_without_the_attack(self) -> None:
        """What takes long may be left out."""
        value = CURVE.epsilon(1e-6)
        assert value.document(attacked=False)["epsilon"] == {"upper": value.upper, "slack": value.slack}
        assert "lower" not in vars(value)

    def test_of_what_is_neither(self) -> None:
        """A divergence is a value; somebody else's bound says so."""
        found = sdp.renyi(CURVE).divergence(2.0).document()
        assert found["value"]["upper"] > 0
        assert "origin" not in found
        assert replace(CURVE.epsilon(1e-6), origin="Mine of the module `mine`").document()["origin"].startswith("Mine")


class TestLines:
    """``print``: the title and what is worth knowing."""

    def test_of_a_value(self) -> None:
        """The number rounded up, what it is an answer to, and what stands behind it."""
        text = str(CURVE.epsilon(1e-6))
        assert text.startswith("ε = 0.477459 at")
        assert "at δ = 1e-6" in text.splitlines()[0]
        for word in ("guarantee", "yes", "attained by an attack", "optimal", "certified", CURVE.theorem):
            assert word in text
        assert str(CURVE.delta(0.25)).splitlines()[0].endswith("at ε = 0.25")
        assert "NO: not an upper bound" in str(PUBLISHED.epsilon(1e-6))
        assert PUBLISHED.note in str(PUBLISHED.epsilon(1e-6))

    def test_of_a_curve(self) -> None:
        """Users, messages, bound and two values."""
        lines = str(CURVE).splitlines()
        assert lines[0] == "Privacy curve of 400 shuffled messages"
        rows = {line.split("  ")[1]: line.split("  ")[-1].strip() for line in lines[1:]}
        assert rows["users"] == "500"
        assert rows["messages"] == "400 that hide each other"
        upper = CURVE.epsilon(1e-6).upper
        assert upper <= float(rows["ε at δ = 1e-6"]) <= upper * (1 + 1e-5)
        assert (rows["guarantee"], rows["certified"]) == ("yes", "yes")
        assert PUBLISHED.note in str(PUBLISHED)

    def test_of_a_curve_that_does_not_reach(self) -> None:
        """A closed form without a value there says why."""
        loose = sdp.amplify(sdp.KRR(2.0, 8), 500, bound="clone-analytic")
        assert "none: needs" in str(loose)

    def test_of_a_comparison(self) -> None:
        """A line for each bound, and the attack."""
        text = str(COMPARISON)
        assert text.startswith("ε at δ = 1e-5 for 300 users")
        for row in COMPARISON.rows:
            assert any(line.strip().startswith(f"{row.bound} ") for line in text.splitlines())
        assert "NOT a guarantee" in text
        assert "attains" in text

    def test_repr_stays_that_of_the_dataclass(self) -> None:
        """It can be read by whoever debugs."""
        assert repr(CURVE).startswith("NumericCurve(source=CurveSource(bound='optimal'")
        assert repr(CURVE.epsilon(1e-6)).startswith("BoundValue(upper=0.47")


@pytest.mark.parametrize("thing", [CURVE, CURVE.epsilon(1e-6), COMPARISON], ids=["curve", "value", "comparison"])
def test_a_notebook_shows_a_table(thing: Any) -> None:
    """The same rows as HTML."""
    html = thing._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == html.count("</tr>") == len(thing.summary())


def test_a_table_is_escaped() -> None:
    """Whatever a theorem or a note contains, it is shown and not run."""
    value = BoundValue(1.0, 0.0, "<b>", "a < b & c", False, False, note='<script>alert("x")</script>')
    html = value._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &lt; b &amp; c" in html


class TestFigures:
    """``plot``: a matplotlib figure."""

    def test_of_a_curve(self) -> None:
        """δ falls from ε = 0 to about 1e-9."""
        (axes,) = CURVE.plot(points=12).axes
        (line,) = axes.lines
        epsilons, deltas = line.get_xdata(), line.get_ydata()
        assert len(epsilons) == 12
        assert epsilons[0] == 0.0
        assert epsilons[-1] == CURVE.epsilon(1e-9).upper
        assert (deltas[:-1] > deltas[1:]).all()
        assert axes.get_yscale() == "log"

    def test_of_a_curve_without_an_end(self) -> None:
        """Where no ε is known a unit is shown."""
        endless = ClosedFormCurve(CurveSource("test", "none", 10), lambda delta: delta * 0 + math.inf, math.inf)
        (axes,) = endless.plot(points=3).axes
        assert axes.lines[0].get_xdata()[-1] == 1.0

    def test_of_a_comparison(self) -> None:
        """One bar for each bound that applies."""
        (axes,) = COMPARISON.plot().axes
        assert len(axes.patches) == sum(row.value is not None for row in COMPARISON.rows)

    def test_without_matplotlib(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One sentence says what to install."""
        monkeypatch.setattr("shuffledp._core.plotting.has_matplotlib", lambda: False)
        with pytest.raises(sdp.ShuffledpError, match=r"plot: matplotlib is not installed; .* install '\.\[plot\]'\."):
            CURVE.plot()


class TestBeyond:
    """An ε for which no number was found is said to be above what is searched, not to be infinite."""

    DISJOINT = sdp.VariationRatio(p=math.inf, beta=1.0, q=1e10)
    CURVE = sdp.amplify(DISJOINT, 10, bound="variation-ratio")

    def test_in_python(self) -> None:
        """Values, curves, comparisons, targets; JSON keeps infinity."""
        value = self.CURVE.epsilon(1e-8)
        assert str(value).startswith("ε above 700 at δ = 1e-8\n")
        assert "ε at δ = 1e-9  above 700" in str(self.CURVE)
        assert "above 700 sound variation-ratio" in str(sdp.compare(self.DISJOINT, 10, 1e-8))
        assert sdp.Target(1.0, 1e-8).format_value(value) == "ε above 700"
        assert value.document()["epsilon"]["upper"] == math.inf
        for text in (str(value), str(self.CURVE), str(sdp.compose(self.CURVE, 2).epsilon(1e-8))):
            assert "inf" not in text

    def test_it_is_the_largest_that_is_searched(self) -> None:
        """The words and the number belong together."""
        assert f"above {MAX_EPSILON:g}" == INFINITE_EPSILON_TEXT

    def test_a_certificate_says_why_there_is_none(self) -> None:
        """One sentence."""
        with pytest.raises(
            ValueError, match=r"^certificate: epsilon is above 700 at this delta; claim a larger delta\.$"
        ):
            sdp.certify(self.DISJOINT, 10, delta=1e-8, effort="quick")

    def test_on_the_command_line(self) -> None:
        """amplify and compare; an unknown slack is called so."""
        words = ("--p", "inf", "--beta", "1", "--q", "1e10", "--users", "10", "--delta", "1e-8")
        shown = run("amplify", *words, "--rounds", "2").out
        assert re.search(r"ε \(guaranteed\) +above 700 *\n", shown)
        assert re.search(r"numerical slack +unknown *\n", shown)
        compared = run("compare", *words).out
        assert "Best guarantee: ε above 700 by variation-ratio." in compared
        assert not re.search(r"\binf\b", compared.split("needs a finite")[0])
        assert json.loads(run("amplify", *words, "--json").out)["epsilon"]["upper"] == "inf"
