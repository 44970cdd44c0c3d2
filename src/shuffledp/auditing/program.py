"""A user's program under limits: what it may write, how long it may take; it is ended once it goes beyond them."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO

from shuffledp.errors import ShuffledpError

CHUNK = 1 << 16
"""Bytes given or taken at a time."""
LAST_WORDS = 1 << 12
"""Bytes of what it says on stderr that are kept, the last ones."""


@dataclass(frozen=True)
class Allowance:
    """What a program may write to stdout, and how long it may take."""

    lines: int
    width: int
    """Bytes of a line, its end not counted."""
    seconds: float

    def beyond(self, written: bytearray, lines: int) -> str | None:
        """What is too much of what was written so far; None where all is well."""
        full = len(written) > self.lines * (self.width + 2)
        # Lines may also end without the sign that was counted.
        if lines > self.lines or (full and len(written.splitlines()) > self.lines):
            return f"the command was given {self.lines} values and wrote more messages"
        end = written[-self.width - 1 :]
        endless = len(end) > self.width and b"\n" not in end and b"\r" not in end
        # So many bytes in no more lines than are allowed: one of them is too long.
        if endless or full:
            return f"messages may have at most {self.width} bytes, got a longer one"
        return None


def answers(words: Sequence[str], line: bytes, allowed: Allowance) -> bytes:
    """What a program writes when it is given a line as often as lines are wanted of it."""
    try:
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise ShuffledpError(f"audit: could not start {words[0]!r}: {error.strerror}.") from None
    with ExitStack() as last:
        # The pipes are closed and the child, and nothing else, is ended whatever happens.
        last.callback(child.wait)
        last.callback(child.kill)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        talk = _Talk(child.stdin, child.stdout, child.stderr, line, allowed)
        last.callback(talk.close)
        written = talk.run()
        status = talk.status(child)
    if status != 0:
        said = "".join(f": {text}" for text in talk.said.decode(errors="replace").strip().splitlines()[-1:])
        raise ShuffledpError(f"audit: the command ended with status {status}{said.rstrip('.')}.")
    return written


@dataclass
class _Talk:
    """Gives the lines, takes what comes, and looks at what is allowed after each piece."""

    given: IO[bytes]
    taken: IO[bytes]
    errors: IO[bytes]
    line: bytes
    allowed: Allowance
    said: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._ends = time.monotonic() + self.allowed.seconds
        self._left = self.allowed.lines
        self._waiting = memoryview(b"")
        self._selector = selectors.DefaultSelector()
        for pipe, event in (
            (self.given, selectors.EVENT_WRITE),
            (self.taken, selectors.EVENT_READ),
            (self.errors, selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event)

    def run(self) -> bytes:
        """All that it writes until it closes its stdout and stderr."""
        written, lines = bytearray(), 0
        while self._listening:
            for key, _ in self._selector.select(self._time_left()):
                if key.fileobj is self.given:
                    self._give()
                elif piece := self._take(key.fileobj):
                    if key.fileobj is self.errors:
                        self.said = (self.said + piece)[-LAST_WORDS:]
                    else:
                        written += piece
                        lines += piece.count(b"\n")
                        self._check(written, lines)
        return bytes(written)

    def status(self, child: subprocess.Popen[bytes]) -> int:
        """How it ended, when it has heard that nothing more comes."""
        self._hang_up()
        try:
            return child.wait(self._time_left())
        except subprocess.TimeoutExpired:
            raise self._too_slow() from None

    def close(self) -> None:
        self._selector.close()
        for pipe in (self.given, self.taken, self.errors):
            pipe.close()

    @property
    def _listening(self) -> bool:
        return any(key.fileobj is not self.given for key in self._selector.get_map().values())

    def _check(self, written: bytearray, lines: int) -> None:
        wrong = self.allowed.beyond(written, lines)
        if wrong is not None:
            raise ShuffledpError(f"audit: {wrong}; the command was ended.")

    def _time_left(self) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise self._too_slow()
        return left

    def _too_slow(self) -> ShuffledpError:
        took = f"the command took more than {self.allowed.seconds:g} seconds for {self.allowed.lines} values"
        return ShuffledpError(f"audit: {took} and was ended; give it longer, or draw fewer samples.")

    def _give(self) -> None:
        """As much as the pipe takes; a program that reads no more may still write."""
        if not self._waiting:
            some = min(self._left, max(1, CHUNK // len(self.line)))
            self._left -= some
            self._waiting = memoryview(self.line * some)
        try:
            done = os.write(self.given.fileno(), self._waiting)
        except BlockingIOError:
            return
        except BrokenPipeError:
            done = self._left = 0
            self._waiting = memoryview(b"")
        self._waiting = self._waiting[done:]
        if not self._waiting and not self._left:
            self._hang_up()

    def _hang_up(self) -> None:
        if not self.given.closed:
            self._selector.unregister(self.given)
            self.given.close()

    def _take(self, pipe: object) -> bytes:
        assert pipe is self.taken or pipe is self.errors
        chosen = self.taken if pipe is self.taken else self.errors
        try:
            piece = os.read(chosen.fileno(), CHUNK)
        except BlockingIOError:
            return b""
        if not piece:
            self._selector.unregister(chosen)
        return piece
