"""The objects of an audit: a mechanism, or an external program that runs under limits of output and time.

A program that exceeds its limits is killed.
"""

from __future__ import annotations

import os
import selectors
import shlex
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.errors import ShuffledpError
from shuffledp.mechanisms.base.mechanism import Mechanism

CHUNK_BYTES = 1 << 16
"""Bytes written or read at a time."""
STDERR_TAIL_BYTES = 1 << 12
"""Number of bytes of stderr that are kept, the last ones."""


@dataclass(frozen=True)
class ProgramLimits:
    """Limits of a program: the lines that it may write to stdout, and the time it may take."""

    lines: int
    width: int
    """Largest number of bytes of a line, its end not counted."""
    seconds: float

    def describe_excess(self, written: bytearray, lines: int) -> str | None:
        """Returns the limit that the output so far exceeds, in words; None if it exceeds none."""
        full = len(written) > self.lines * (self.width + 2)
        # Lines may also end in a carriage return, which was not counted.
        if lines > self.lines or (full and len(written.splitlines()) > self.lines):
            return f"the command was given {self.lines} values and wrote more messages"
        end = written[-self.width - 1 :]
        endless = len(end) > self.width and b"\n" not in end and b"\r" not in end
        # So many bytes in at most the allowed number of lines: one of them is too long.
        if endless or full:
            return f"messages may have at most {self.width} bytes, got a longer one"
        return None


def run_program(words: Sequence[str], line: bytes, allowed: ProgramLimits) -> bytes:
    """Runs a program, writes the same line to its stdin ``allowed.lines`` times, and returns its stdout."""
    try:
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise ShuffledpError(f"audit: could not start {words[0]!r}: {error.strerror}.") from None
    with ExitStack() as last:
        # Whatever happens, the pipes are closed and the child, and nothing else, is killed.
        last.callback(child.wait)
        last.callback(child.kill)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        talk = _ProgramExchange(child.stdin, child.stdout, child.stderr, line, allowed)
        last.callback(talk.close)
        written = talk.run()
        status = talk.status(child)
    if status != 0:
        said = "".join(f": {text}" for text in talk.stderr_tail.decode(errors="replace").strip().splitlines()[-1:])
        raise ShuffledpError(f"audit: the command ended with status {status}{said.rstrip('.')}.")
    return written


@dataclass
class _ProgramExchange:
    """The exchange with a running program: writes its input, reads its output, checks the limits after each piece."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    line: bytes
    limits: ProgramLimits
    stderr_tail: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.limits.seconds
        self._lines_left = self.limits.lines
        self._pending_input = memoryview(b"")
        self._selector = selectors.DefaultSelector()
        for pipe, event in (
            (self.stdin, selectors.EVENT_WRITE),
            (self.stdout, selectors.EVENT_READ),
            (self.stderr, selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event)

    def run(self) -> bytes:
        """Returns everything that the program writes until it closes stdout and stderr."""
        written, lines = bytearray(), 0
        while self._has_open_output:
            for key, _ in self._selector.select(self._time_left()):
                if key.fileobj is self.stdin:
                    self._write_input()
                elif piece := self._read_output(key.fileobj):
                    if key.fileobj is self.stderr:
                        self.stderr_tail = (self.stderr_tail + piece)[-STDERR_TAIL_BYTES:]
                    else:
                        written += piece
                        lines += piece.count(b"\n")
                        self._check_limits(written, lines)
        return bytes(written)

    def status(self, child: subprocess.Popen[bytes]) -> int:
        """Closes the program's stdin, waits for its end and returns its exit status."""
        self._close_input()
        try:
            return child.wait(self._time_left())
        except subprocess.TimeoutExpired:
            raise self._timeout_error() from None

    def close(self) -> None:
        self._selector.close()
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()

    @property
    def _has_open_output(self) -> bool:
        return any(key.fileobj is not self.stdin for key in self._selector.get_map().values())

    def _check_limits(self, written: bytearray, lines: int) -> None:
        wrong = self.limits.describe_excess(written, lines)
        if wrong is not None:
            raise ShuffledpError(f"audit: {wrong}; the command was ended.")

    def _time_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._timeout_error()
        return left

    def _timeout_error(self) -> ShuffledpError:
        took = f"the command took more than {self.limits.seconds:g} seconds for {self.limits.lines} values"
        return ShuffledpError(f"audit: {took} and was ended; give it longer, or draw fewer samples.")

    def _write_input(self) -> None:
        """Writes as much as the pipe takes; a program that stops reading may still write."""
        if not self._pending_input:
            some = min(self._lines_left, max(1, CHUNK_BYTES // len(self.line)))
            self._lines_left -= some
            self._pending_input = memoryview(self.line * some)
        try:
            done = os.write(self.stdin.fileno(), self._pending_input)
        except BlockingIOError:
            return
        except BrokenPipeError:
            done = self._lines_left = 0
            self._pending_input = memoryview(b"")
        self._pending_input = self._pending_input[done:]
        if not self._pending_input and not self._lines_left:
            self._close_input()

    def _close_input(self) -> None:
        if not self.stdin.closed:
            self._selector.unregister(self.stdin)
            self.stdin.close()

    def _read_output(self, pipe: object) -> bytes:
        assert pipe is self.stdout or pipe is self.stderr
        chosen = self.stdout if pipe is self.stdout else self.stderr
        try:
            piece = os.read(chosen.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not piece:
            self._selector.unregister(chosen)
        return piece


# --- Subjects ---


Rows = NDArray[np.uint8]

DEFAULT_TIMEOUT = 600.0
MAX_TOTAL_BYTES = 1 << 30
"""Largest size of all messages of one input, each padded to the full width."""


class Subject(ABC):
    """The object of an audit: two inputs, and fresh messages for each."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The description of the audited object, one line."""

    @abstractmethod
    def draw(self, which: int, count: int) -> Rows:
        """Returns ``count`` messages for input 0 or 1, one row of bytes each; all rows of all draws have one width."""


@dataclass(frozen=True)
class MechanismSubject(Subject):
    """A mechanism with two of its inputs."""

    mechanism: Mechanism
    inputs: NDArray[Any]

    @property
    def title(self) -> str:
        return f"{self.mechanism!r} on {self.inputs[0].tolist()} against {self.inputs[1].tolist()}"

    def draw(self, which: int, count: int) -> Rows:
        values = np.repeat(self.inputs[which : which + 1], count, axis=0)
        wire = self.mechanism.pack(self.mechanism.encode(values))
        # One row for each user: several messages of one user are one report.
        return wire.reshape(count, -1)


@dataclass(frozen=True)
class CommandSubject(Subject):
    """A program that reads one value per line on stdin and writes one message per line on stdout."""

    command: str
    inputs: tuple[str, str]
    width: int = 256
    """Largest message in bytes; shorter ones are padded with zero bytes."""
    seconds: float = DEFAULT_TIMEOUT
    """Largest time in seconds for the messages of one input."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", validation.count("audit", "width", self.width))
        object.__setattr__(self, "seconds", validation.positive_finite("audit", "seconds", self.seconds))

    @property
    def title(self) -> str:
        return f"{self.command} on {self.inputs[0]!r} against {self.inputs[1]!r}"

    def draw(self, which: int, count: int) -> Rows:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ValueError(f"audit: cannot read the command {self.command!r}: {error}.") from None
        if not words:
            raise ValueError("audit: expected a command, got an empty text.")
        if count * self.width > MAX_TOTAL_BYTES:
            most = MAX_TOTAL_BYTES // self.width
            raise ValueError(f"audit: samples must be at most {most:,} for a command, got {count:,}.")
        line = f"{self.inputs[which]}\n".encode()
        lines = run_program(words, line, ProgramLimits(count, self.width, self.seconds)).splitlines()
        if len(lines) != count:
            raise ShuffledpError(f"audit: the command was given {count} values and wrote {len(lines)} messages.")
        longest = max(map(len, lines))
        if longest > self.width:
            raise ShuffledpError(f"audit: messages may have at most {self.width} bytes, got one of {longest}.")
        padded = b"".join(line.ljust(self.width, b"\0") for line in lines)
        return np.frombuffer(padded, dtype=np.uint8).reshape(count, self.width)
