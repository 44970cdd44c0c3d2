"""A collection that is killed before one of its steps on the file system: SIGKILL, so that nothing is tidied up.

Steps are Python's own audit events (opening to write, rename, link, remove, mkdir, rmtree, opening the ledger) on paths
below one directory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shuffledp.figure
from shuffledp.collection import kernel
from shuffledp.collection.collect import Request, run
from shuffledp.collection.engine import embedded
from shuffledp.collection.engine.register import engine_of

STEPS = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "sqlite3.connect")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHUNK_ROWS, PART_CHUNKS = 150, 2
STATE = "XDG_STATE_HOME"
PRELOADED = [
    *(f"tests.collection.{name}" for name in ("killing", "test_kills", "test_release", "test_resume")),
    *(f"tests.service.{name}" for name in ("test_client", "test_crashes")),
]
"""Modules whose work is killed: what they import is imported once, not by each of hundreds of processes."""


def before_each_step(root: Path, act: Callable[[int, str], None]) -> None:
    """Call ``act`` with a number and a description before every step below ``root``, from now on."""
    steps = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        changes = event in STEPS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING)
        if changes and str(root) in str(arguments[0]):
            steps += 1
            act(steps, f"{event} {arguments[0]}")

    sys.addaudithook(hook)


def small_parts() -> None:
    """Several parts and chunks, for few rows."""
    kernel.CHUNK_ROWS, embedded.PART_CHUNKS = CHUNK_ROWS, PART_CHUNKS


def hurried() -> None:
    """Several parts, no picture, and no waiting for the disk: a kill takes nothing from it that was written."""
    small_parts()
    shuffledp.figure.can_draw = lambda: False
    os.fsync = lambda descriptor: None  # type: ignore[assignment]


def victim(work: Callable[..., Any], arguments: tuple[Any, ...], root: Path, step: int) -> None:
    """Do some work, and die before this step."""

    def act(number: int, what: str) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    hurried()
    before_each_step(root, act)
    work(*arguments)


def killed_at(step: int, root: Path, work: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the work came to its end, in a process of its own."""
    return _ended(victim, (work, arguments, root, step))


def _remembering(state: str, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """On the machine of whoever asks: the server that starts processes may have begun with another memory."""
    os.environ[STATE] = state
    target(*arguments)


def _ended(target: Callable[..., None], arguments: tuple[Any, ...]) -> bool:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_remembering, args=(os.environ[STATE], target, arguments))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), f"exit code {process.exitcode} of {arguments}"
    return process.exitcode == 0


def doomed(work: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> None:
    """Do some work, and die after so many seconds."""
    hurried()
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    work(*arguments)
    os._exit(0)


def killed_after(seconds: float, work: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the work came to its end within so many seconds, in a process of its own."""
    return _ended(doomed, (work, arguments, seconds))


def collecting(request: Request) -> None:
    """A whole collection."""
    run(request, engine_of("embedded"))


def run_and_kill(request: Request, step: int) -> bool:
    """Whether the collection came to its end, in a process of its own."""
    return killed_at(step, request.out.parent, collecting, request)
