"""Worker processes that run the page's commands within limits of time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shuffledp._core.formatting import format_json
from shuffledp.explorer.requests import CommandRequest

MAX_LINE_BYTES = 1 << 26
"""Longest line of an answer, in bytes."""
MAX_WAITING_REQUESTS = 32
START_SECONDS = 60.0
INTERIM_KEYS = {"progress", "first"}
"""Keys of the lines that precede the answer."""
LONG_NICENESS = 10
"""Niceness of long operations, so that quick ones run first."""
ProgressListener = Callable[[Mapping[str, Any]], None]


class Busy(Exception):
    """Too many requests are waiting."""


class OverBudget(Exception):
    """The request exceeded its limit of time or memory; the message says which."""


class Worker:
    """A worker process, with its input and output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, nice: int = 0) -> Worker:
        """Starts a process in its own process group, so that its children end with it, and waits until it is ready."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "shuffledp.explorer.workers", str(nice)),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=MAX_LINE_BYTES, start_new_session=True, env=_environment(),
        )  # fmt: skip
        worker = cls(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                await worker._read_line()
        except BaseException:
            worker.kill()
            raise
        return worker

    async def ask(self, command: CommandRequest, listener: ProgressListener) -> dict[str, Any]:
        """Returns the answer; passes progress and early results to ``listener`` first."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(vars(command)).encode() + b"\n")
        await self._process.stdin.drain()
        while (line := await self._read_line()).keys() & INTERIM_KEYS:
            listener(line)
        return line

    async def _read_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        text = await self._process.stdout.readline()
        if not text:
            raise ConnectionError
        line: dict[str, Any] = json.loads(text)
        return line

    def kill(self) -> None:
        """Kills the process and its children at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def kill_and_wait(self) -> None:
        """Kills the process and waits for its end."""
        self.kill()
        await self._process.wait()


def _environment() -> dict[str, str]:
    """Returns the environment of a worker: the same package, one thread, and no progress lines."""
    path = os.pathsep.join(filter(None, sys.path))
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path,
                         "SHUFFLEDP_PROGRESS": "none"}  # fmt: skip


class WorkerQueue:
    """A queue of requests for a few workers, each request with a time limit in seconds."""

    def __init__(self, size: int, seconds: float, nice: int = 0) -> None:
        self.size, self.seconds, self._nice = size, seconds, nice
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._all: set[Worker] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._waiting = 0

    def start(self) -> None:
        """Starts the first worker; the others start when they are needed."""
        self._start_worker()

    def _start_worker(self) -> None:
        task = asyncio.create_task(self._start_and_enqueue())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start_and_enqueue(self) -> None:
        worker = await Worker.start(self._nice)
        self._all.add(worker)
        self._idle.put_nowait(worker)

    async def stop(self) -> None:
        """Ends all workers."""
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, *(worker.kill_and_wait() for worker in self._all), return_exceptions=True)
        self._all.clear()

    async def ask(self, command: CommandRequest, listener: ProgressListener = lambda line: None) -> dict[str, Any]:
        """Returns the answer of the next free worker; ends a worker whose request is cancelled or over its limit."""
        worker = await self._acquire_worker()
        try:
            async with asyncio.timeout(self.seconds):
                answer = await worker.ask(command, listener)
        except BaseException as error:
            self._replace(worker)
            if isinstance(error, TimeoutError):
                raise _over_budget(command, f"longer than the {self.seconds:g} seconds that") from None
            if isinstance(error, ConnectionError | ValueError):
                raise _over_budget(command, "more memory than") from None
            raise
        self._idle.put_nowait(worker)
        return answer

    async def _acquire_worker(self) -> Worker:
        if self._waiting >= MAX_WAITING_REQUESTS:
            raise Busy
        if self._idle.empty() and len(self._all) + len(self._starting) < self.size:
            self._start_worker()
        self._waiting += 1
        try:
            return await self._idle.get()
        finally:
            self._waiting -= 1

    def _replace(self, worker: Worker) -> None:
        worker.kill()
        self._all.discard(worker)
        if self._waiting or not self._all:
            self._start_worker()


def _over_budget(command: CommandRequest, excess: str) -> OverBudget:
    return OverBudget(
        f"{command.operation}: this takes {excess} a request of the page may take; ask for less, or run the "
        f"command in a terminal."
    )


class WorkerPool:
    """Two queues, so that quick requests never wait for long ones and run first if processors are few."""

    def __init__(self, quick: WorkerQueue | None = None, long: WorkerQueue | None = None) -> None:
        self.quick, self.long = quick or WorkerQueue(2, 20.0), long or WorkerQueue(2, 300.0, LONG_NICENESS)

    def start(self) -> None:
        """Starts both queues."""
        self.quick.start()
        self.long.start()

    async def stop(self) -> None:
        """Stops both queues."""
        await asyncio.gather(self.quick.stop(), self.long.stop())

    def queue(self, is_long: bool) -> WorkerQueue:
        """Returns the queue for quick or for long requests."""
        return self.long if is_long else self.quick


# --- The worker process ---
# It reads one request per line and answers in lines, all JSON: progress first, then the result. It may be killed at any
# time. Requests are parsed and printed by the command line itself, in this process, so that the shown command gives the
# same answer and, but for the names of fields, the same errors.


MAX_COMMAND_MEMORY_BYTES = 1 << 30
"""Memory limit of a command in bytes, beyond that of the loaded package."""
MAX_FILE_BYTES = 1 << 26
PROGRESS_INTERVAL_SECONDS = 0.1
LineWriter = Callable[[Mapping[str, Any]], None]


def main(nice: int = 0) -> None:
    """Answers requests until the input ends; ``nice`` is the process's niceness."""
    os.nice(nice)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Output of libraries must not be taken for an answer.
    os.dup2(2, 1)
    command = _load_command()
    limit_resources(MAX_COMMAND_MEMORY_BYTES)

    def write_line(line: Mapping[str, Any]) -> None:
        print(json.dumps(line, ensure_ascii=False), file=answers, flush=True)

    write_line({"ready": True})
    for line in sys.stdin.buffer:
        write_line(run_command(command, json.loads(line), write_line))


def _load_command() -> Any:
    """Loads everything that the first request would otherwise wait for, and returns the command tree."""
    import typer

    import shuffledp
    from shuffledp.cli.app import app
    from shuffledp.mechanisms import catalogue

    catalogue.all_mechanisms()
    shuffledp.amplify(shuffledp.KRR(1.0, options=4), 1000, effort="quick").epsilon(1e-6)
    return typer.main.get_command(app)


def limit_resources(memory: int) -> None:
    """Limits the process's memory to its current size plus `memory` bytes, and its files and core dumps."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0]) if sys.platform == "linux" else 0
    if pages:
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_command(command: Any, request: Mapping[str, Any], write_line: LineWriter) -> dict[str, Any]:
    """Runs a command; returns its output and the files that it wrote, or its error message."""
    from shuffledp.cli import output
    from shuffledp.cli.app import USER_ERRORS, format_error

    # Statements and error messages name the command that is run.
    sys.argv = ["shuffledp", *request["arguments"]]
    stdout = io.StringIO()

    def write_first_answer(document: Mapping[str, Any]) -> None:
        write_line({"first": json.loads(format_json(document))})

    with tempfile.TemporaryDirectory(prefix="shuffledp-web-") as directory, contextlib.chdir(directory):
        try:
            for name, text in request["files"].items():
                Path(name).write_text(text, "utf-8")
            with (
                contextlib.redirect_stdout(stdout),
                contextlib.redirect_stderr(io.StringIO()),
                output.forward_progress(_throttle_progress(write_line), write_first_answer),
            ):
                command.main(list(request["arguments"]), prog_name="shuffledp", standalone_mode=False)
            written = {name: Path(name).read_text("utf-8") for name in request["written"]}
        except USER_ERRORS as error:
            # The page's fields have the names of Python's parameters.
            return {"refused": format_error(error, str)}
        except RecursionError:
            return {"refused": f"{request['operation']}: this is nested too deeply."}
    return {"answer": json.loads(stdout.getvalue()), "files": written}


def _throttle_progress(write_line: LineWriter) -> Callable[[str, int, int | None], None]:
    """Returns a listener that sends progress at most ten times a second."""
    last, last_name = 0.0, ""

    def listener(name: str, done: int, total: int | None) -> None:
        nonlocal last, last_name
        now = time.monotonic()
        if name != last_name or now - last >= PROGRESS_INTERVAL_SECONDS:
            write_line({"progress": {"step": name, "done": done, "total": total}})
            last, last_name = now, name

    return listener


if __name__ == "__main__":
    main(int(sys.argv[1]))
