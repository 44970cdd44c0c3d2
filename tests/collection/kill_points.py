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

from shuffledp._core import plotting
from shuffledp.collection import batch_processing, engine
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import create_engine

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
    batch_processing.CHUNK_ROWS, engine.CHUNKS_PER_PART = CHUNK_ROWS, PART_CHUNKS


def disable_waiting() -> None:
    """Several parts, no picture, and no waiting for the disk: a kill takes nothing from it that was written."""
    small_parts()
    plotting.has_matplotlib = lambda: False
    os.fsync = lambda descriptor: None  # type: ignore[assignment]


def run_until_step(work: Callable[..., Any], arguments: tuple[Any, ...], root: Path, step: int) -> None:
    """Do some work, and die before this step."""

    def act(number: int, what: str) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    disable_waiting()
    before_each_step(root, act)
    work(*arguments)


def run_and_kill_at(step: int, root: Path, work: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the work came to its end, in a process of its own."""
    return _completes(run_until_step, (work, arguments, root, step))


def _run_with_state(state: str, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """On the machine of whoever asks: the server that starts processes may have begun with another memory."""
    os.environ[STATE] = state
    target(*arguments)


def _completes(target: Callable[..., None], arguments: tuple[Any, ...]) -> bool:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_run_with_state, args=(os.environ[STATE], target, arguments))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), f"exit code {process.exitcode} of {arguments}"
    return process.exitcode == 0


def run_for_seconds(work: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> None:
    """Do some work, and die after so many seconds."""
    disable_waiting()
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    work(*arguments)
    os._exit(0)


def run_and_kill_after(seconds: float, work: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the work came to its end within so many seconds, in a process of its own."""
    return _completes(run_for_seconds, (work, arguments, seconds))


def collect_request(request: CollectionRequest) -> None:
    """A whole collection."""
    run_collection(request, create_engine("embedded"))


def run_and_kill(request: CollectionRequest, step: int) -> bool:
    """Whether the collection came to its end, in a process of its own."""
    return run_and_kill_at(step, request.out.parent, collect_request, request)
