"""What is audited: anything that turns the same value into fresh messages, as rows of bytes."""

from __future__ import annotations

import shlex
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms.mechanism import Mechanism

Rows = NDArray[np.uint8]


class Subject(ABC):
    """Two inputs, and fresh messages for each."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What is audited, on one line."""

    @abstractmethod
    def draw(self, which: int, count: int) -> Rows:
        """``count`` messages for input 0 or 1, one row of bytes each; rows of all draws have one width."""


@dataclass(frozen=True)
class MechanismSubject(Subject):
    """A mechanism of the catalogue (or any object like one) with two of its inputs."""

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
    """Longest message in bytes; shorter ones are padded with zero bytes."""

    @property
    def title(self) -> str:
        return f"{self.command} on {self.inputs[0]!r} against {self.inputs[1]!r}"

    def draw(self, which: int, count: int) -> Rows:
        text = f"{self.inputs[which]}\n" * count
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ValueError(f"audit: cannot read the command {self.command!r}: {error}.") from None
        if not words:
            raise ValueError("audit: expected a command, got an empty text.")
        try:
            done = subprocess.run(words, input=text.encode(), capture_output=True, check=False)
        except OSError as error:
            raise ShuffledpError(f"audit: could not start {words[0]!r}: {error.strerror}.") from None
        if done.returncode != 0:
            said = "".join(f": {line}" for line in done.stderr.decode(errors="replace").strip().splitlines()[-1:])
            raise ShuffledpError(f"audit: the command ended with status {done.returncode}{said.rstrip('.')}.")
        lines = done.stdout.splitlines()
        if len(lines) != count:
            raise ShuffledpError(f"audit: the command was given {count} values and wrote {len(lines)} messages.")
        longest = max(map(len, lines))
        if longest > self.width:
            raise ShuffledpError(f"audit: messages may have at most {self.width} bytes, got {longest}.")
        padded = b"".join(line.ljust(self.width, b"\0") for line in lines)
        return np.frombuffer(padded, dtype=np.uint8).reshape(count, self.width)
