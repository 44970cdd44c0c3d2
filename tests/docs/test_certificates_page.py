"""The Python of docs/certificates.md runs and prints what its comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "certificates.md").read_text(encoding="utf-8")


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In a folder of its own, where it leaves the claim."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(block, {})
    promised = block.rpartition("# ")[2].partition("(")[0]
    assert capsys.readouterr().out.startswith(promised)
    assert (tmp_path / "claim.json").is_file()
