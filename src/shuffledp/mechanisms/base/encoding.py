"""Encodings of messages as rows of bytes, and the check of received bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from shuffledp._core.validation import Array, Bools, Bytes, Integers

MAX_MESSAGE_BITS = 1 << 30
"""Largest size of one message, in bits: 128 MiB."""
ValidRows = Bools
"""One boolean per row: True if the row is a message."""


class Encoding(ABC):
    """Encoding between messages, whose first axis runs over messages, and rows of `byte_length` bytes.

    Received rows may be bytes that no user of the mechanism sends: `decode_rows` says which rows are messages.
    """

    error_prefix: str
    """Name that begins error messages."""

    @property
    @abstractmethod
    def expected_format(self) -> str:
        """Description of a valid row, for error messages."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """The size of one message in bits."""

    @property
    def byte_length(self) -> int:
        """The size of one encoded message in bytes."""
        return -(-self.bits // 8)

    @abstractmethod
    def pack(self, messages: Array) -> Bytes:
        """Encodes messages.

        Args:
            messages: Messages along the first axis.

        Returns:
            One row of bytes per message.
        """

    @abstractmethod
    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        """Decodes every row and says which rows are messages.

        Args:
            rows: Rows of `byte_length` bytes.

        Returns:
            The decoded messages, arbitrary where a row is not a message, and a boolean per row.
        """

    @final
    def check_rows(self, wire: Bytes) -> Bytes:
        """Returns the rows unchanged.

        Args:
            wire: Rows of bytes.

        Returns:
            The same rows.

        Raises:
            ValueError: If they are not rows of `byte_length` bytes.
        """
        return check_byte_rows(self.error_prefix, wire, self.byte_length)

    @final
    def valid(self, wire: Bytes) -> ValidRows:
        """Returns which rows are messages.

        Args:
            wire: Rows of `byte_length` bytes.

        Returns:
            A boolean per row.

        Raises:
            ValueError: If the rows have the wrong width.
        """
        return self.decode_rows(self.check_rows(wire))[1]

    @final
    def unpack(self, wire: Bytes) -> Array:
        """Decodes messages; the inverse of `pack`.

        Args:
            wire: Rows of `byte_length` bytes.

        Returns:
            Messages along the first axis.

        Raises:
            ValueError: If the rows have the wrong width or a row is not a message.
        """
        messages, valid = self.decode_rows(self.check_rows(wire))
        if not valid.all():
            raise ValueError(
                f"{self.error_prefix}: expected {self.expected_format}, got others in {int((~valid).sum())} of "
                f"{len(valid)} rows."
            )
        return messages


@dataclass(frozen=True)
class WholeNumberEncoding(Encoding):
    """Encoding of whole numbers below `outputs`, with as few bits as these need, big-endian.

    Args:
        error_prefix: Name that begins error messages.
        outputs: Number of different messages.
    """

    error_prefix: str
    outputs: int

    @property
    def bits(self) -> int:
        return (self.outputs - 1).bit_length()

    @property
    def expected_format(self) -> str:
        return f"messages below {self.outputs}"

    def pack(self, messages: Array) -> Bytes:
        return encode_integers(messages, self.bits)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        numbers = decode_integers(rows)
        return numbers, (numbers >= 0) & (numbers < self.outputs)


@dataclass(frozen=True)
class BitRowEncoding(Encoding):
    """Encoding of rows of bits, packed into bytes already as messages: bit j is bit j mod 8 of byte j div 8.

    Args:
        error_prefix: Name that begins error messages.
        columns: Bits per message.
    """

    error_prefix: str
    columns: int

    @property
    def bits(self) -> int:
        return self.columns

    @property
    def expected_format(self) -> str:
        return f"rows of {self.columns} bits, with zeros beyond them"

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        if self.columns % 8 == 0:
            return rows, accept_all_rows(rows)
        return rows, rows[:, -1] >> self.columns % 8 == 0


def check_message_size(who: str, bits: int) -> None:
    """Raises ValueError if a message would be longer than `MAX_MESSAGE_BITS`."""
    if bits > MAX_MESSAGE_BITS:
        raise ValueError(
            f"{who}: a message must have at most {MAX_MESSAGE_BITS:,} bits, got {bits:,}; with so many options take a "
            f"mechanism with short messages, such as local-hash."
        )


def check_byte_rows(who: str, wire: Bytes, width: int) -> Bytes:
    """Returns the rows unchanged, or raises ValueError if they are not rows of `width` bytes."""
    rows = np.asarray(wire)
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"{who}: expected rows of {width} bytes, got {rows.dtype} of shape {rows.shape}.")
    return rows


def encode_integers(messages: Array, bits: int) -> Bytes:
    """Returns non-negative integers of at most `bits` bits as big-endian rows, so that sorting bytes sorts numbers."""
    width = -(-bits // 8)
    if width in (1, 2, 4, 8):
        return np.ascontiguousarray(messages, dtype=f">u{width}").view(np.uint8).reshape(-1, width)
    wide = np.ascontiguousarray(messages, dtype=">u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(wide[:, 8 - width :])


def decode_integers(rows: Bytes) -> Integers:
    """Returns the inverse of `encode_integers`; numbers of 2^63 and more, which no message is, become negative."""
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, 8 - rows.shape[1] :] = rows
    return wide.view(">u8").reshape(-1).astype(np.uint64).view(np.int64)


def accept_all_rows(rows: Bytes) -> ValidRows:
    """Returns the mask of an encoding in which all bytes are messages."""
    return np.ones(len(rows), dtype=np.bool_)
