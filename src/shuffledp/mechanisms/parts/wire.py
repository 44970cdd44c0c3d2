"""Messages as rows of bytes: how a message travels, and what is refused on arrival."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from shuffledp.array import Array, Bytes, Integers
from shuffledp.sampling import bits as packed


class Wire(ABC):
    """Between messages, whose first axis runs over messages, and rows of ``bytes`` bytes."""

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
    def unpack(self, wire: Bytes) -> Array:
        """The inverse of ``pack``; a sentence if the bytes are not messages."""


@dataclass(frozen=True)
class WholeNumberWire(Wire):
    """A message is a whole number below ``outputs``: as few bits as these need, big-endian on the wire."""

    who: str
    outputs: int

    @property
    def bits(self) -> int:
        return (self.outputs - 1).bit_length()

    def pack(self, messages: Array) -> Bytes:
        return wire_of_integers(messages, self.bits)

    def unpack(self, wire: Bytes) -> Array:
        return integers_of_wire(self.who, wire, self.bits, self.outputs)


@dataclass(frozen=True)
class BitRowWire(Wire):
    """A message is a row of ``columns`` bits, packed into bytes as it is sent: bit j is bit j mod 8 of byte j div 8."""

    who: str
    columns: int

    @property
    def bits(self) -> int:
        return self.columns

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages)

    def unpack(self, wire: Bytes) -> Array:
        """Refuses rows of another width and bits beyond the last one."""
        rows = rows_of_bytes(self.who, wire, packed.bytes_of(self.columns))
        if self.columns % 8 and (rows[:, -1] >> self.columns % 8).any():
            raise ValueError(f"{self.who}: expected rows of {self.columns} bits, got a 1 in a bit beyond them.")
        return rows


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


def integers_of_wire(who: str, wire: Bytes, bits: int, limit: int) -> Integers:
    """The inverse of ``wire_of_integers``; refuses rows of another width and numbers of ``limit`` or more."""
    width = -(-bits // 8)
    rows = rows_of_bytes(who, wire, width)
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, 8 - width :] = rows
    numbers = wide.view(">u8").reshape(-1)
    if len(numbers) and int(numbers.max()) >= limit:
        raise ValueError(f"{who}: expected messages below {limit}, got {int(numbers.max())}.")
    return numbers.astype(np.int64)
