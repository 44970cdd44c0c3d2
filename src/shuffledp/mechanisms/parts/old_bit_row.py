"""Messages that are rows of bits."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Array, Bytes
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.sampling import bits


class BitRow(Mechanism):
    """A message is one bit for each of ``options``, packed into bytes as it is sent."""

    options: int

    @property
    def message_bits(self) -> int:
        return self.options

    def pack(self, messages: Array) -> Bytes:
        return np.ascontiguousarray(messages)

    def unpack(self, wire: Bytes) -> Array:
        """Refuses rows of another width and bits beyond the last option."""
        who, rows, width = type(self).__name__, np.asarray(wire), bits.bytes_of(self.options)
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError(f"{who}: expected rows of {width} bytes, got {rows.dtype} of shape {rows.shape}.")
        if self.options % 8 and (rows[:, -1] >> self.options % 8).any():
            raise ValueError(f"{who}: expected rows of {self.options} bits, got a 1 in a bit beyond them.")
        return rows
