"""docs/bring-your-own.md: its code runs in the order of the page and prints what it says."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli import run
from tests.mechanisms.test_visitor import forget

__all__ = ["forget"]

from shuffledp.testing.sampling_checks import the_messages_follow_the_table

PAGE = (Path(__file__).parents[2] / "docs" / "bring-your-own.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^print\(.*\)\s+# (.*)$", re.MULTILINE)


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCK.findall(PAGE) if name == kind]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which mine.py can be imported, and a session, as if started there."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    sys.modules["session"] = ModuleType("session")
    yield tmp_path
    for name in ("mine", "session"):
        sys.modules.pop(name, None)


@pytest.mark.docs
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
    assert f"{check.error_text}: for input 0" in words
    assert f"{check.consequence}. ({check.certainty})" in words


def test_the_entry_point_names_the_template() -> None:
    """As a package would."""
    (text,) = blocks("toml")
    points = tomllib.loads(text)["project"]["entry-points"]["shuffledp.mechanisms"]
    assert points == {"my-response": "mine:MyResponse"}


@pytest.mark.usefixtures("folder", "forget")
def test_the_command(folder: Path) -> None:
    """The number is the one that Python gave."""
    template = next(block for block in blocks("python") if "class MyResponse(Mechanism)" in block)
    (folder / "mine.py").write_text(template, encoding="utf-8")
    (command,) = blocks("sh")
    program, *arguments = shlex.split(command)
    outcome = run(*arguments)
    assert (program, outcome.status, outcome.err) == ("shuffledp", 0, "")
    assert "0.01488" in outcome.out
