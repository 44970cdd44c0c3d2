"""docs/composition.md, rounds, samples, Rényi and other accountants: the code runs and says what the comments say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import shuffledp as sdp

PAGE = Path(__file__).resolve().parents[2] / "docs" / "composition.md"


@pytest.mark.docs
def test_the_code_runs() -> None:
    """One block after the other; the last one needs dp_accounting."""
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text[text.index("## Several rounds") :], flags=re.DOTALL)
    names: dict[str, Any] = {"sdp": sdp}
    installed = importlib.util.find_spec("dp_accounting") is not None
    for block in blocks:
        if "interop" not in block or installed:
            exec(compile(block, str(PAGE), "exec"), names)
    year = names["year"].epsilon(1e-6)
    assert 0.99 * year.upper < year.lower <= year.upper
    assert year.slack < 1e-3 * year.upper
    assert year.upper < names["moments"].epsilon(1e-6).upper < 1.15 * year.upper
    assert names["value"].upper < 0.1 * year.upper
    assert 3 * names["weekly"].epsilon(1e-6).upper < names["held"].upper < 4 * names["weekly"].epsilon(1e-6).upper
    if installed:
        for other in (names["accountant"].get_epsilon(1e-6), names["curve"].epsilon(1e-6).upper):
            assert other == pytest.approx(year.upper, rel=1e-3)
