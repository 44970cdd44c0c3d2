"""Progress bars: on stderr, only for long steps, only where somebody watches."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest
from rich.console import Console

from shuffledp.cli import output
from shuffledp.cli.output import ProgressBars, show_spinner


def shown(monkeypatch: pytest.MonkeyPatch, quiet: float, *, terminal: bool) -> str:
    """What a step of three batches leaves on stderr."""
    stream = io.StringIO()

    def console(**named: Any) -> Console:
        assert named == {"stderr": True}
        return Console(file=stream, force_terminal=terminal, width=80, force_interactive=terminal)

    monkeypatch.setattr(output, "Console", console)
    monkeypatch.setattr(output, "QUIET_SECONDS", quiet)
    with ProgressBars().step("encoding", 30) as advance:
        for _ in range(3):
            advance(10)
    return stream.getvalue()


def test_a_long_step_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its name and how far it is; nothing on stdout."""
    text = shown(monkeypatch, -1.0, terminal=True)
    assert "encoding" in text
    assert "30/30" in text
    assert capsys.readouterr().out == ""


def test_a_short_step_and_a_pipe_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before two seconds are over, nor where nobody watches."""
    assert shown(monkeypatch, 1e9, terminal=True) == ""
    assert shown(monkeypatch, -1.0, terminal=False).strip() == ""


def test_a_step_that_tells_nothing_yet_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two seconds, though its first part is not done."""
    stream = io.StringIO()
    monkeypatch.setattr(output, "Console", lambda stderr: Console(file=stream, force_terminal=True, width=80))
    monkeypatch.setattr(output, "QUIET_SECONDS", 0.0)
    with ProgressBars().step("calibrating", 3):
        threading.Event().wait(0.5)
    assert "calibrating" in stream.getvalue()
    assert "0/3" in stream.getvalue()


def waited(monkeypatch: pytest.MonkeyPatch, quiet: float, *, terminal: bool) -> str:
    """What half a second of waiting leaves on stderr."""
    stream = io.StringIO()
    monkeypatch.setattr(output, "Console", lambda stderr: Console(file=stream, force_terminal=terminal, width=80))
    monkeypatch.setattr(output, "QUIET_SECONDS", quiet)
    with show_spinner("Searching"):
        threading.Event().wait(0.5)
    return stream.getvalue()


def test_something_moves_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, and not before two seconds are over."""
    assert "Searching …" in waited(monkeypatch, 0.0, terminal=True)
    assert waited(monkeypatch, 1e9, terminal=True).strip("\x1b[?25lh") == ""
    assert waited(monkeypatch, 0.0, terminal=False) == ""


def test_a_log_is_told_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines where there is no terminal, unless none are wanted."""
    monkeypatch.setattr(output, "LOG_INTERVAL_SECONDS", 0.05)
    for wanted in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(output, "Console", lambda stderr, stream=stream: Console(file=stream, width=80))
        monkeypatch.setenv("SHUFFLEDP_PROGRESS", "" if wanted else "none")
        with ProgressBars().step("encoding", 3000) as advance:
            advance(1000)
            threading.Event().wait(0.4)
        with show_spinner("Searching") as say:
            say("Composing")
            threading.Event().wait(0.4)
        assert ("encoding: 1,000 of 3,000 (0 s)" in stream.getvalue()) == wanted
        assert ("Composing … (0 s)" in stream.getvalue()) == wanted
