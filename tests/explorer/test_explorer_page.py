"""docs/explorer.md: its commands exist, its example runs, its pictures are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli import run
from tests.explorer.browser import PageServer

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "explorer.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)
MAX_BYTES = 150_000


def test_every_option_exists() -> None:
    """What the page types is what the command takes."""
    told = run("web", "--help").out
    commands = [shlex.split(line) for kind, text in BLOCKS if not kind for line in text.splitlines()]
    assert len(commands) == 2
    options = {word for command in commands for word in command if word.startswith("--")}
    for option in (*options, "--no-open", "--port", "--host"):
        assert option in told


def test_the_example_prints_what_it_says(server: PageServer, capsys: pytest.CaptureFixture[str]) -> None:
    """With the address of a page that runs."""
    (example,) = (text for kind, text in BLOCKS if kind == "python")
    (wanted,) = (text for kind, text in BLOCKS if kind == "text")
    exec(example, {"address": server.url})
    assert capsys.readouterr().out == wanted


def test_pictures_are_there_and_small() -> None:
    """Light, dark and a phone."""
    files = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT)
    assert len(files) == 3
    for name in files:
        assert 5_000 < (DOCS / name).stat().st_size <= MAX_BYTES
