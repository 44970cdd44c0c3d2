"""Tutorials, how-to pages and the others that a reader works through: they run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_runner import DOCS, Page

GUIDES = sorted(
    [*DOCS.glob("tutorial/*.md"), *DOCS.glob("howto/*.md"), DOCS / "choose-epsilon.md", DOCS / "sharp-edges.md"]
)


@pytest.mark.spark("howto/spark.md")
@pytest.mark.docs
@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, with nothing but what the page makes; outputs are those shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    Page(path).run()
