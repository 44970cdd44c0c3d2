"""A collection that is killed before one of its steps on the file system: SIGKILL, so that nothing is tidied up.

Steps are Python's own audit events (rename, remove, mkdir, rmtree, opening the ledger) on paths below one directory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shuffledp.collection.plot
from shuffledp.collection import kernel
from shuffledp.collection.collect import Request, run
from shuffledp.collection.engine import embedded
from shuffledp.collection.engine.register import engine_of

STEPS = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "sqlite3.connect")
CHUNK_ROWS, PART_CHUNKS = 150, 2


def before_each_step(root: Path, act: Callable[[int, str], None]) -> None:
    """Call ``act`` with a number and a description before every step below ``root``, from now on."""
    steps = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in STEPS and str(root) in str(arguments[0]):
            steps += 1
            act(steps, f"{event} {arguments[0]}")

    sys.addaudithook(hook)


def small_parts() -> None:
    """Several parts and chunks, for few rows."""
    kernel.CHUNK_ROWS, embedded.PART_CHUNKS = CHUNK_ROWS, PART_CHUNKS


def victim(request: Request, step: int) -> None:
    """Run a collection, and die before this step."""

    def act(number: int, what: str) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    small_parts()
    shuffledp.collection.plot.draw = lambda *_: None
    before_each_step(request.out.parent, act)
    run(request, engine_of("embedded"))


def run_and_kill(request: Request, step: int) -> bool:
    """Whether the collection came to its end, in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.collection.killing"])
    process = context.Process(target=victim, args=(request, step))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), f"exit code {process.exitcode} at step {step}"
    return process.exitcode == 0
