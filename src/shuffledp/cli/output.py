"""Output of the commands: tables and rounded numbers on stdout, notes and progress on stderr."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import typer
from rich import console as rich_console
from rich.console import ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress as RichProgress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from shuffledp._core.citations import find_citations
from shuffledp._core.formatting import GUARANTEE_DIGITS, INFINITE_EPSILON_TEXT, escape_terminal, to_decimal
from shuffledp._core.results_and_value_objects import Progress


class Console(rich_console.Console):
    """A console that escapes control characters, so that no text from a file reaches the terminal raw."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escape_terminal(segment.text))


def print_text(text: str = "", *, err: bool = False) -> None:
    """Prints lines on stdout or stderr with control characters escaped."""
    typer.echo(escape_terminal(text), err=err)


def format_upper(value: float, digits: int = GUARANTEE_DIGITS) -> str:
    """Formats a guarantee, rounded up so that the printed number still holds."""
    return _format_rounded(value, digits, ROUND_CEILING)


def format_epsilon(value: float, digits: int = GUARANTEE_DIGITS) -> str:
    """Formats an ε, rounded up; an infinite one as the text that ε is above the searched range."""
    return INFINITE_EPSILON_TEXT if math.isinf(value) else format_upper(value, digits)


def format_epsilon_equation(value: float) -> str:
    """Formats an ε as the end of a sentence, "ε = …"."""
    return f"ε {INFINITE_EPSILON_TEXT}" if math.isinf(value) else f"ε = {format_upper(value)}"


def format_slack(value: float) -> str:
    """Formats a numerical slack, rounded up; "unknown" if it is infinite."""
    return "unknown" if math.isinf(value) else format_upper(value, 2)


def format_lower(value: float, digits: int = GUARANTEE_DIGITS) -> str:
    """Formats a lower bound, such as an attack's ε, rounded down."""
    return _format_rounded(value, digits, ROUND_FLOOR)


def _format_rounded(value: float, digits: int, direction: str) -> str:
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    exact = to_decimal(value, digits)
    shown = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=direction)
    return f"{float(shown):.{digits}g}"


def print_note(sentence: str) -> None:
    """Prints a remark on stderr."""
    Console(stderr=True, soft_wrap=True).print(Text(sentence))


def print_written_path(what: str, path: Path | None) -> None:
    """Prints where a file was written if a path is given."""
    if path is not None:
        print_note(f"The {what} was written to {path}.")


def paper_rows(theorem: str) -> list[tuple[str, str]]:
    """Returns a table row with the full citations of the keys in a theorem's name, if there are any."""
    found = find_citations(theorem)
    return [("papers", "\n".join(found))] if found else []


def print_rows(title: str, pairs: list[tuple[str, str]], warning: str = "") -> None:
    """Prints a two-column table on stdout, followed by a warning if there is one."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in pairs:
        # Escaped before the layout, because an escape is wider than its character.
        table.add_row(Text(escape_terminal(name)), Text(escape_terminal(text)))
    console = Console()
    # Printed separately, because a table's title would be wrapped to the table's width.
    console.print(Text(title, style="italic"))
    console.print(table)
    if warning:
        console.print(Text(warning, style="bold red"))


def print_conditions(sentences: Sequence[str], head: str = "It holds if") -> None:
    """Prints the conditions of a guarantee below its table."""
    if not sentences:
        return
    table = Table(show_header=False, show_edge=False, box=None, padding=(0, 1, 0, 0))
    for sentence in sentences:
        table.add_row(Text("-"), Text(escape_terminal(sentence)))
    console = Console()
    console.print(Text(head, style="italic"))
    console.print(table)


def format_users(honest: int, messages: int) -> str:
    """Formats the number of users, and the messages that hide each other if users send several."""
    return f"{honest:,}" if honest == messages else f"{honest:,}, of whose messages {messages:,} hide each other"


QUIET_SECONDS = 2.0
LOG_INTERVAL_SECONDS = 10.0
"""Interval between progress lines in a file or pipe."""
PROGRESS_VARIABLE = "SHUFFLEDP_PROGRESS"
"""Environment variable; "none" turns progress lines off."""

Listener = Callable[[str, int, int | None], None]
"""Receives the name of a step, the number of finished items and the total, None if unknown."""
_progress_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
AnswerListener = Callable[[Mapping[str, Any]], None]
"""Receives the part of an answer that is known before the rest."""
_answer_listener: ContextVar[AnswerListener | None] = ContextVar("reader", default=None)


@contextmanager
def forward_progress(listener: Listener, reader: AnswerListener | None = None) -> Iterator[None]:
    """Sends progress and early parts of the answer to these functions, in addition to the terminal."""
    before = _progress_listener.set(listener), _answer_listener.set(reader)
    try:
        yield
    finally:
        _progress_listener.reset(before[0])
        _answer_listener.reset(before[1])


def publish_early_answer(document: Mapping[str, Any]) -> None:
    """Passes on a part of the answer that is final while the rest is computed."""
    reader = _answer_listener.get()
    if reader is not None:
        reader(document)


def _notify_listener(name: str, done: int, total: int | None) -> None:
    listener = _progress_listener.get()
    if listener is not None:
        listener(name, done, total)


@contextmanager
def _log_progress(console: Console, describe: Callable[[], str]) -> Iterator[None]:
    """Prints progress as a line every ten seconds, for logs; nothing on a terminal, which has bars."""
    if console.is_terminal or os.environ.get(PROGRESS_VARIABLE) == "none":
        yield
        return
    over = threading.Event()
    begun = time.monotonic()

    def print_line() -> None:
        while not over.wait(LOG_INTERVAL_SECONDS):
            console.print(f"{describe()} ({time.monotonic() - begun:.0f} s)", highlight=False, soft_wrap=True)

    thread = threading.Thread(target=print_line, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class ProgressBars(Progress):
    """Progress bars, one for each step, shown once the step has taken two seconds."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal)
        task = bar.add_task(name, total=total)
        begun, lock, shown, ended, done = time.monotonic(), threading.Lock(), False, False, 0

        def show() -> None:
            nonlocal shown
            with lock:
                if not shown and not ended:
                    bar.start()
                    shown = True

        def describe() -> str:
            return f"{name}: {done:,}" + ("" if total is None else f" of {total:,}")

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            _notify_listener(name, done, total)
            bar.update(task, advance=rows)
            if time.monotonic() - begun > QUIET_SECONDS:
                show()

        _notify_listener(name, 0, total)
        # A timer shows the bar, because a step may take long before it first advances.
        clock = threading.Timer(max(0.0, QUIET_SECONDS), show)
        clock.daemon = True
        if console.is_terminal:
            clock.start()
        try:
            with _log_progress(console, describe):
                yield advance
        finally:
            clock.cancel()
            with lock:
                ended = True
            if shown:
                bar.stop()


@contextmanager
def show_spinner(text: str) -> Iterator[Callable[[str], None]]:
    """Shows a spinner on the terminal after two seconds, for work of unknown length.

    Yields a function that replaces its text.
    """
    console = Console(stderr=True)
    status, current_text = console.status(f"{text} …"), text
    clock = threading.Timer(QUIET_SECONDS, status.start)
    clock.daemon = True
    if console.is_terminal:
        clock.start()

    def set_text(new_text: str) -> None:
        nonlocal current_text
        current_text = new_text
        _notify_listener(new_text, 0, None)
        status.update(f"{new_text} …")

    _notify_listener(text, 0, None)
    try:
        with _log_progress(console, lambda: f"{current_text} …"):
            yield set_text
    finally:
        clock.cancel()
        # The timer may be starting the spinner right now.
        if clock.is_alive():
            clock.join()
        status.stop()
