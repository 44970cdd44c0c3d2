"""Tests of the command line, run inside this process."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from unittest import mock

from shuffledp.cli import main

PLAIN_VARIABLES = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "SHUFFLEDP_PROGRESS": "none"}
REMOVED_VARIABLES = (
    "SHUFFLEDP_LEDGER",
    "FORCE_COLOR",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "SHUFFLEDP_DEBUG",
    "SHUFFLEDP_COMMAND",
)


@dataclass(frozen=True)
class CommandResult:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def stderr_complaints(self) -> str:
        """What it said besides which files it has written."""
        return "".join(line for line in self.err.splitlines(keepends=True) if " was written to " not in line)


def plain_environment() -> dict[str, str]:
    """The environment of a pipe: no colours, 80 columns."""
    return {name: value for name, value in os.environ.items() if name not in REMOVED_VARIABLES} | PLAIN_VARIABLES


def replace_options(words: Sequence[str], *others: str) -> list[str]:
    """The same command where an option of ``others`` takes the place of that in ``words``: each is typed once."""
    left = list(words)
    for word in others:
        if word.startswith("--") and word in left:
            place = left.index(word)
            del left[place : place + 2]
    return [*left, *others]


def run(*arguments: str) -> CommandResult:
    """Run ``shuffledp ARGUMENTS`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    status: int | str | None = None
    with (
        mock.patch.object(sys, "argv", ["shuffledp", *arguments]),
        mock.patch.dict(os.environ, plain_environment(), clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as exit_:
            status = exit_.code
    assert isinstance(status, int | None), f"exit code {status!r} is not a number"
    return CommandResult(status or 0, out.getvalue(), err.getvalue())
