"""Every command that any page shows is one: its name, its options and how many words each takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from shuffledp.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINE = re.compile(r"^(?:    )?(?:\$ )?(?:shuffledp|\./run) (\w.*)$", re.MULTILINE)
OPEN = re.compile(r"\s*(?:…|\[[^\]]*\]|[>#] .*)")
"""What a page leaves out, may be left out, or does with the output."""


def commands(page: Path) -> list[str]:
    """The lines that begin with the program's name, in blocks of code."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```(?:sh|console)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [OPEN.sub("", line).strip() for block in blocks for line in LINE.findall(block)]
    # Its two words are made one before they are parsed.
    return [re.sub(r"(--range \S+) \S+", r"\1", line) if line.startswith("ask ") else line for line in lines]


def demand_parsed(words: list[str]) -> None:
    """Down to the last subcommand; values are not looked at."""
    command: Any = typer.main.get_command(app)
    context = command.context_class(command)
    while hasattr(command, "get_command"):
        name, *words = words
        command = command.get_command(context, name)
        assert command is not None, f"no command {name}"
        context = command.context_class(command, parent=context)
    _, left, _ = command.make_parser(context).parse_args(words)
    assert not left, f"{left} is left over"


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_every_command_of_a_page_is_one(page: Path) -> None:
    for command in commands(page):
        try:
            demand_parsed(shlex.split(command))
        except (TyperException, AssertionError) as error:
            raise AssertionError(f"{page.name}: {command}: {error}") from error


def test_what_is_none_is_found() -> None:
    """A wrong command, a wrong option, a word too many."""
    for wrong in ("amplfy", "amplify --user 3", "ledger show more words"):
        with pytest.raises((TyperException, AssertionError)):
            demand_parsed(wrong.split())
