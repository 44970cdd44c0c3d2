"""What is audited: anything that turns the same value into fresh messages, as rows of bytes."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.auditing import program
from shuffledp.auditing.program import Allowance
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms.mechanism import Mechanism

Rows = NDArray[np.uint8]

SECONDS = 600.0
MOST_BYTES = 1 << 30
"""Of all messages of one input, each at its full width."""


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
    seconds: float = SECONDS
    """How long it may take for the messages of one input."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", argument.count("audit", "width", self.width))
        object.__setattr__(self, "seconds", argument.positive_finite("audit", "seconds", self.seconds))

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
        if count * self.width > MOST_BYTES:
            most = MOST_BYTES // self.width
            raise ValueError(f"audit: samples must be at most {most:,} for a command, got {count:,}.")
        line = f"{self.inputs[which]}\n".encode()
        lines = program.answers(words, line, Allowance(count, self.width, self.seconds)).splitlines()
        if len(lines) != count:
            raise ShuffledpError(f"audit: the command was given {count} values and wrote {len(lines)} messages.")
        longest = max(map(len, lines))
        if longest > self.width:
            raise ShuffledpError(f"audit: messages may have at most {self.width} bytes, got one of {longest}.")
        padded = b"".join(line.ljust(self.width, b"\0") for line in lines)
        return np.frombuffer(padded, dtype=np.uint8).reshape(count, self.width)
