"""Workers for the page: a few processes, each of which answers one question at a time and can be ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from shuffledp.web.inquiry import Inquiry

LINE = 1 << 26
"""The longest answer."""
MOST_WAITING = 32
START_SECONDS = 60.0
BEFORE = {"progress", "first"}
"""What lines before the answer have."""
BEHIND = 10
"""By how much what takes long lets what takes a moment go first."""
Heard = Callable[[Mapping[str, Any]], None]


class Busy(Exception):
    """Too many are waiting already."""


class OverBudget(Exception):
    """It took more time or memory than a request may have; says so in a sentence."""


class Worker:
    """One process, and what is said to it and by it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, nice: int = 0) -> Worker:
        """Loaded and waiting; in a group of its own, so that what it starts ends with it."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "shuffledp.web.worker", str(nice)),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=LINE, start_new_session=True, env=_environment(),
        )  # fmt: skip
        made = cls(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                await made._line()
        except BaseException:
            made.end()
            raise
        return made

    async def ask(self, inquiry: Inquiry, heard: Heard) -> dict[str, Any]:
        """The answer; ``heard`` is told before of each step, and of what is known first."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(vars(inquiry)).encode() + b"\n")
        await self._process.stdin.drain()
        while (line := await self._line()).keys() & BEFORE:
            heard(line)
        return line

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        text = await self._process.stdout.readline()
        if not text:
            raise ConnectionError
        line: dict[str, Any] = json.loads(text)
        return line

    def end(self) -> None:
        """At once, with all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> None:
        """Until it is gone."""
        self.end()
        await self._process.wait()


def _environment() -> dict[str, str]:
    """The same package, one thread each, and no lines about progress."""
    path = os.pathsep.join(place for place in sys.path if place)
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path,
                         "SHUFFLEDP_PROGRESS": "none"}  # fmt: skip


class Lane:
    """Some workers, and those who wait for them; each question has so many seconds."""

    def __init__(self, size: int, seconds: float, nice: int = 0) -> None:
        self.size, self.seconds, self._nice = size, seconds, nice
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._all: set[Worker] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._waiting = 0

    def start(self) -> None:
        """Begin to load the first one; the others when they are needed."""
        self._add()

    def _add(self) -> None:
        task = asyncio.create_task(self._started())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _started(self) -> None:
        worker = await Worker.start(self._nice)
        self._all.add(worker)
        self._idle.put_nowait(worker)

    async def stop(self) -> None:
        """End them all."""
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, *(worker.ended() for worker in self._all), return_exceptions=True)
        self._all.clear()

    async def ask(self, inquiry: Inquiry, heard: Heard = lambda line: None) -> dict[str, Any]:
        """The answer of the next worker that is free; one that is cancelled, or over its budget, is ended."""
        worker = await self._next()
        try:
            async with asyncio.timeout(self.seconds):
                answer = await worker.ask(inquiry, heard)
        except BaseException as error:
            self._replace(worker)
            if isinstance(error, TimeoutError):
                raise OverBudget(self._late(inquiry)) from None
            if isinstance(error, ConnectionError | ValueError):
                raise OverBudget(_too_large(inquiry)) from None
            raise
        self._idle.put_nowait(worker)
        return answer

    async def _next(self) -> Worker:
        if self._waiting >= MOST_WAITING:
            raise Busy
        if self._idle.empty() and len(self._all) + len(self._starting) < self.size:
            self._add()
        self._waiting += 1
        try:
            return await self._idle.get()
        finally:
            self._waiting -= 1

    def _replace(self, worker: Worker) -> None:
        worker.end()
        self._all.discard(worker)
        if self._waiting or not self._all:
            self._add()

    def _late(self, inquiry: Inquiry) -> str:
        return (
            f"{inquiry.operation}: this takes longer than the {self.seconds:g} seconds that a question of the page may "
            f"take; ask for less, or run the command in a terminal."
        )


def _too_large(inquiry: Inquiry) -> str:
    return (
        f"{inquiry.operation}: this takes more memory than a question of the page may take; ask for less, or run the "
        f"command in a terminal."
    )


class Pool:
    """Two lanes: what takes a moment never waits for what takes long, and goes first where processors are few."""

    def __init__(self, quick: Lane | None = None, long: Lane | None = None) -> None:
        self.quick, self.long = quick or Lane(2, 20.0), long or Lane(2, 300.0, BEHIND)

    def start(self) -> None:
        """Both."""
        self.quick.start()
        self.long.start()

    async def stop(self) -> None:
        """Both."""
        await asyncio.gather(self.quick.stop(), self.long.stop())

    def lane(self, is_long: bool) -> Lane:
        """Where such a question waits."""
        return self.long if is_long else self.quick
