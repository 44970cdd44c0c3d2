"""docs/composition.md: its code runs and its table is what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp

PAGE = Path(__file__).resolve().parents[2] / "docs" / "composition.md"


@pytest.mark.docs
def test_the_code_runs() -> None:
    """The blocks of Python, one after the other, give what their comments promise."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    parallel = [block for block in blocks if "Parallel" in block or "RangeQueries" in block or "calibrate" in block]
    for block in parallel:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["epsilon"].upper < 1
    assert names["low"][0] < names["adults"].value[0] < names["high"][0]
    assert names["smooth"][:2].sum() == pytest.approx(100_000)
    assert names["found"].epsilon.upper <= 1


def rows() -> list[list[float]]:
    lines = re.findall(r"^\| ([0-9.]+) \|(.*)\|$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return [[float(first), *(float(cell.strip().rstrip("%")) for cell in rest.split("|"))] for first, rest in lines]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"ε0={row[0]:g}")
def test_the_table_is_right(row: list[float]) -> None:
    """Guarantees rounded up, attacks rounded down, savings to a percent."""
    local, basic, parameters, mixture, attack, over_basic, over_separate = row
    users, delta, made = 100_000, 1e-7, sdp.RangeQueries(local, 11)
    found = sdp.amplify(made, users, effort="quick").epsilon(delta)
    any_local = sdp.VariationRatio.from_ldp(local)
    exact = [
        sdp.amplify(any_local, users, effort="quick").epsilon(delta).upper,
        sdp.amplify(made, users, bound="variation-ratio").epsilon(delta).upper,
        found.upper,
    ]
    for shown, true in zip((basic, parameters, mixture), exact, strict=True):
        assert true <= shown <= true + 1e-6
    assert found.lower is not None
    assert attack <= found.lower <= attack + 1e-6
    assert over_basic == round(100 * (1 - found.upper / exact[0]))
    separate = sdp.amplify(any_local, users // 11, effort="quick").epsilon(delta).upper
    assert over_separate == round(100 * (1 - found.upper / separate))


@pytest.mark.docs
def test_the_slack_of_rounds_is_as_it_says() -> None:
    """About 3e-4 of ε for the example of the page; 2 to 4% by the bound over all datasets, at a smaller ε."""
    pair = sdp.compose(sdp.amplify(sdp.KRR(1.0, options=16), users=10_000), 52).epsilon(1e-6)
    assert 2e-4 < pair.slack / pair.upper < 4e-4
    quick, full = (
        sdp.compose(sdp.amplify(sdp.VariationRatio.from_ldp(1.0), 10_000, effort=effort), 5).epsilon(1e-6)
        for effort in ("quick", "full")
    )
    assert 2e-4 < quick.slack / quick.upper < 4e-4
    assert 0.015 < full.slack / full.upper < 0.04
    assert full.upper < quick.upper
