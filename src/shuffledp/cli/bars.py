"""Progress on stderr: a bar for steps that take more than two seconds; where it is no terminal a line now and then."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress as RichProgress, TextColumn, TimeElapsedColumn

from shuffledp.cli.show import Console
from shuffledp.progress import Progress

QUIET_SECONDS = 2.0
LINE_SECONDS = 10.0
"""How often a file or a pipe is told how far it is."""
SILENT = "SHUFFLEDP_PROGRESS"
"""The variable that is "none" where no lines are wanted."""

Listener = Callable[[str, int, int | None], None]
"""Hears what is being done, how many are done, and of how many, where that is known."""
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
Reader = Callable[[Mapping[str, Any]], None]
"""Takes the part of an answer that is known before the rest."""
_reader: ContextVar[Reader | None] = ContextVar("reader", default=None)


@contextmanager
def heard_by(listener: Listener, reader: Reader | None = None) -> Iterator[None]:
    """Tell somebody else than the terminal how far it is, as often as there is something to tell."""
    before = _listener.set(listener), _reader.set(reader)
    try:
        yield
    finally:
        _listener.reset(before[0])
        _reader.reset(before[1])


def know(document: Mapping[str, Any]) -> None:
    """Say what is known already, and will stand in the answer as it is, while the rest is computed."""
    reader = _reader.get()
    if reader is not None:
        reader(document)


def _tell(name: str, done: int, total: int | None) -> None:
    listener = _listener.get()
    if listener is not None:
        listener(name, done, total)


@contextmanager
def _lines(console: Console, told: Callable[[], str]) -> Iterator[None]:
    """What is told as a line every ten seconds, for logs; nothing on a terminal, which has bars."""
    if console.is_terminal or os.environ.get(SILENT) == "none":
        yield
        return
    over = threading.Event()
    begun = time.monotonic()

    def tell() -> None:
        while not over.wait(LINE_SECONDS):
            console.print(f"{told()} ({time.monotonic() - begun:.0f} s)", highlight=False, soft_wrap=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Bars(Progress):
    """One bar for each step, shown once the step has taken two seconds."""

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

        def far() -> str:
            return f"{name}: {done:,}" + ("" if total is None else f" of {total:,}")

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            _tell(name, done, total)
            bar.update(task, advance=rows)
            if time.monotonic() - begun > QUIET_SECONDS:
                show()

        _tell(name, 0, total)
        # A step may take long before it first tells anything.
        clock = threading.Timer(max(0.0, QUIET_SECONDS), show)
        clock.daemon = True
        if console.is_terminal:
            clock.start()
        try:
            with _lines(console, far):
                yield advance
        finally:
            clock.cancel()
            with lock:
                ended = True
            if shown:
                bar.stop()


@contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Something that moves on the terminal, once it has taken two seconds, where it is not known how far it is.

    What it says may be changed on the way.
    """
    console = Console(stderr=True)
    status, said = console.status(f"{text} …"), text
    clock = threading.Timer(QUIET_SECONDS, status.start)
    clock.daemon = True
    if console.is_terminal:
        clock.start()

    def say(told: str) -> None:
        nonlocal said
        said = told
        _tell(told, 0, None)
        status.update(f"{told} …")

    _tell(text, 0, None)
    try:
        with _lines(console, lambda: f"{said} …"):
            yield say
    finally:
        clock.cancel()
        # The clock may just have struck.
        if clock.is_alive():
            clock.join()
        status.stop()
