"""Messages as rows of bytes: how a message travels, and what is refused on arrival."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Array, Bytes, Integers

MOST_BITS = 1 << 30
"""Of one message: 128 MiB."""
Mask = NDArray[np.bool_]
"""Of each row, whether it is a message."""


class Wire(ABC):
    """Between messages, whose first axis runs over messages, and rows of ``bytes`` bytes.

    Whoever reads messages of strangers finds rows that no user of the mechanism sends: ``read`` tells which they are.
    """

    who: str
    """What sentences call the mechanism."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What a row must be, as sentences say it."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Size of one message in bits."""

    @property
    def bytes(self) -> int:
        """Size of one message on the wire."""
        return -(-self.bits // 8)

    @abstractmethod
    def pack(self, messages: Array) -> Bytes:
        """Messages as rows of bytes."""

    @abstractmethod
    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        """The inverse of ``pack`` for every row, and which rows are messages; what the others give means nothing."""

    @final
    def rows(self, wire: Bytes) -> Bytes:
        """The same rows, if they are rows of bytes and have the right width; a sentence otherwise."""
        return rows_of_bytes(self.who, wire, self.bytes)

    @final
    def valid(self, wire: Bytes) -> Mask:
        """Which rows are messages."""
        return self.read(self.rows(wire))[1]

    @final
    def unpack(self, wire: Bytes) -> Array:
        """The inverse of ``pack``; a sentence if a row is not a message."""
        messages, good = self.read(self.rows(wire))
        if not good.all():
            raise ValueError(
                f"{self.who}: expected {self.expected}, got others in {int((~good).sum())} of {len(good)} rows."
            )
        return messages


@dataclass(frozen=True)
class WholeNumberWire(Wire):
    """A message is a whole number below ``outputs``: as few bits as these need, big-endian on the wire."""

    who: str
    outputs: int

    @property
    def bits(self) -> int:
        return (self.outputs - 1).bit_length()

    @property
    def expected(self) -> str:
        return f"messages below {self.outputs}"

    def pack(self, messages: Array) -> Bytes:
        return wire_of_integers(messages, self.bits)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        numbers = integers_of_wire(rows)
        return numbers, (numbers >= 0) & (numbers < self.outputs)


@dataclass(frozen=True)
class BitRowWire(Wire):
    """A message is a row of ``columns`` bits, packed into bytes as it is sent: bit j is bit j mod 8 of byte j div 8."""

    who: str
    columns: int

    @property
    def bits(self) -> int:
        return self.columns

    @property
    def expected(self) -> str:
        return f"rows of {self.columns} bits, with zeros beyond them"

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages)

    def read(self, rows: Bytes) -> tuple[Array, Mask]:
        if self.columns % 8 == 0:
            return rows, every(rows)
        return rows, rows[:, -1] >> self.columns % 8 == 0


def demand_short(who: str, bits: int) -> None:
    """Stop where a message would be longer than anything that is sent."""
    if bits > MOST_BITS:
        raise ValueError(
            f"{who}: a message must have at most {MOST_BITS:,} bits, got {bits:,}; with so many options take a "
            f"mechanism with short messages, such as local-hash."
        )


def rows_of_bytes(who: str, wire: Bytes, width: int) -> Bytes:
    """The same rows, if they are rows of so many bytes."""
    rows = np.asarray(wire)
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{who}: expected rows of {width} bytes, got {rows.dtype} of shape {rows.shape}.")
    return rows


def wire_of_integers(messages: Array, bits: int) -> Bytes:
    """Non-negative integers of at most ``bits`` bits as big-endian rows, so that sorting bytes sorts numbers."""
    width = -(-bits // 8)
    if width in (1, 2, 4, 8):
        return np.ascontiguousarray(messages, dtype=f">u{width}").view(np.uint8).reshape(-1, width)
    wide = np.ascontiguousarray(messages, dtype=">u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(wide[:, 8 - width :])


def integers_of_wire(rows: Bytes) -> Integers:
    """The inverse of ``wire_of_integers``; numbers of 2^63 and more, which no message is, come out negative."""
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, 8 - rows.shape[1] :] = rows
    return wide.view(">u8").reshape(-1).astype(np.uint64).view(np.int64)


def every(rows: Bytes) -> Mask:
    """The mask where any bytes are a message."""
    return np.ones(len(rows), dtype=np.bool_)
