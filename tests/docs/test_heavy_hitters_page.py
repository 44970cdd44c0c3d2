"""The page about heavy hitters: its Python runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "heavy-hitters.md").read_text("utf-8")


@pytest.mark.docs
def test_the_python_of_the_page_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shuffledp._core.plotting.has_matplotlib", lambda: False)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print.*# (.*)", example)
    assert (tmp_path / "result" / "round-4" / "report.md").exists()
