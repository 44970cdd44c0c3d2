"""docs/bring-your-own.md: its code runs in the order of the page and prints what it says."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from shuffledp.testing.sampling_check import the_messages_follow_the_table

PAGE = (Path(__file__).parents[2] / "docs" / "bring-your-own.md").read_text("utf-8")
BLOCK = re.compile(r"(<!-- later -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^print\(.*\)\s+# (.*)$", re.MULTILINE)
LATER = {"sh": 1, "python": 1}
"""Blocks that are not run yet: the command with --mechanism-file, and the own bound."""


def blocks(kind: str, *, later: bool = False) -> list[str]:
    return [text for mark, name, text in BLOCK.findall(PAGE) if name == kind and bool(mark) == later]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which mine.py can be imported, and a session, as if started there."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    sys.modules["session"] = ModuleType("session")
    yield tmp_path
    for name in ("mine", "session"):
        sys.modules.pop(name, None)


def test_the_page_runs_from_top_to_bottom(folder: Path) -> None:
    """The template is saved as mine.py; everything else runs in one session, and prints what its comments say."""
    session = vars(sys.modules["session"])
    for block in blocks("python"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if "class MyResponse" in block:
                (folder / "mine.py").write_text(block, "utf-8")
                importlib.import_module("mine")
            else:
                exec(compile(block, "docs/bring-your-own.md", "exec"), session)
        assert out.getvalue().splitlines() == SHOWN.findall(block)


def test_the_template_is_short_and_passes() -> None:
    """It fits a screen, and its sentence of failure is the suite's."""
    (template,) = (block for block in blocks("python") if "class MyResponse" in block)
    assert len([line for line in template.splitlines() if line.strip()]) <= 60
    words = " ".join(PAGE.split())
    check = the_messages_follow_the_table
    assert f"{check.wrong}: for input 0" in words
    assert f"{check.meaning}. ({check.certainty})" in words


def test_what_is_not_run_yet() -> None:
    """Only these blocks; they are at least Python, and the entry point names the template."""
    assert {kind: len(blocks(kind, later=True)) for kind in LATER} == LATER
    for block in blocks("python", later=True):
        compile(block, "docs/bring-your-own.md", "exec")
    (text,) = blocks("toml")
    points = tomllib.loads(text)["project"]["entry-points"]["shuffledp.mechanisms"]
    assert points == {"my-response": "mine:MyResponse"}
    (command,) = blocks("sh", later=True)
    assert "--mechanism-file mine.py --mechanism my-response" in command
