"""``--report FILE``: a statement of a guarantee for people, from any command that gives one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shuffledp.cli import show
from shuffledp.statement import page
from shuffledp.statement.statement import Statement

OPTION = "--report"
Report = Annotated[Path | None, typer.Option(OPTION, help="Write a statement for people here: .md or .html.")]


def demand_place(who: str, path: Path | None) -> None:
    """Stop before any work where it could not be written."""
    page.demand_place(who, path)


def write(who: str, statement: Statement, path: Path | None) -> None:
    """Write it where it was asked for, and say so."""
    if path is not None:
        statement.save(path, who)
        show.written("statement", path)


def command_typed(arguments: Sequence[str] | None = None) -> str:
    """What was typed, without the report: it gives the same number again.

    >>> command_typed(["amplify", "--users", "10", "--report", "told.md", "--json"])
    'shuffledp amplify --users 10 --json'
    """
    words = iter(sys.argv[1:] if arguments is None else arguments)
    kept = []
    for word in words:
        if word == OPTION:
            next(words, None)
        elif not word.startswith(f"{OPTION}="):
            kept.append(word)
    return shlex.join(["shuffledp", *kept])
