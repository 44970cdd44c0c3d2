"""What the field's benchmark left behind: enough protocols and data sets, and a page that is made of the result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import shuffledp as sdp

ROOT = Path(__file__).parents[2]
RESULT = json.loads((ROOT / "benchmarks" / "result.json").read_text("utf-8"))


def test_the_page_is_made_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/benchmarks.md is what the script writes for benchmarks/result.json."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import field

    assert (ROOT / "docs" / "benchmarks.md").read_text("utf-8") == field.page(RESULT)
    for name in ("field", "field_data", "mechanisms", "algorithm_1"):
        sys.modules.pop(name, None)


def test_what_is_said_of_the_default_is_right() -> None:
    """At n = 1e4: the bound of the table, and what amplify gives by default."""
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    default, table = (
        sdp.amplify(sdp.VariationRatio.from_ldp(1.0), 10_000, bound=bound).epsilon(1e-6).upper
        for bound in ("best", "stronger-clone")
    )
    assert f"at n = 1e4 it gives {default:.6g} in place of {table:.6g}." in page


def test_enough_is_compared() -> None:
    """At least twelve protocols and six data sets; every guarantee meets the target; accounting up to 1e12 users."""
    rows = RESULT["protocols"]
    assert len({row["protocol"] for row in rows}) >= 12
    assert len({row["data"] for row in rows}) >= 6
    assert all(0 < row["epsilon"] <= RESULT["target"]["epsilon"] for row in rows)
    assert [row["users"] for row in RESULT["accounting"]] == [10**power for power in range(3, 13)]
    assert RESULT["seconds"] < 20 * 60


def test_errors_are_as_stated() -> None:
    """Ten runs of 50,000 users; where the errors of options go together (balls into bins) a deviation is 12%."""
    for row in RESULT["protocols"]:
        if row["task"] == "frequency":
            assert 0.55 < row["error"] / row["stated_error"] < 1.45, row
        else:
            assert row["error"] < 5.5 * row["stated_error"], row
