"""Progress bars on stderr, for steps that take more than two seconds; none where nobody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as RichProgress, TextColumn, TimeElapsedColumn

from shuffledp.progress import Progress

QUIET_SECONDS = 2.0


class Bars(Progress):
    """One bar for each step, shown once the step has taken two seconds."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal)
        task = bar.add_task(name, total=total)
        begun, lock, shown, ended = time.monotonic(), threading.Lock(), False, False

        def show() -> None:
            nonlocal shown
            with lock:
                if not shown and not ended:
                    bar.start()
                    shown = True

        def advance(rows: int) -> None:
            bar.update(task, advance=rows)
            if time.monotonic() - begun > QUIET_SECONDS:
                show()

        # A step may take long before it first tells anything.
        clock = threading.Timer(max(0.0, QUIET_SECONDS), show)
        clock.daemon = True
        if console.is_terminal:
            clock.start()
        try:
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
    status = console.status(f"{text} …")
    clock = threading.Timer(QUIET_SECONDS, status.start)
    clock.daemon = True
    if console.is_terminal:
        clock.start()
    try:
        yield lambda told: status.update(f"{told} …")
    finally:
        clock.cancel()
        # The clock may just have struck.
        if clock.is_alive():
            clock.join()
        status.stop()
