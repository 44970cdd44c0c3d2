"""Public codes: every value as a row of bits none of which is the beginning of another, so that they form a tree.

A code is a machine that reads bits: from each state two steps, and ``END`` where a value is complete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp.array import Bytes, Integers

END = -1
"""The state of a value that is complete."""
MORE = "…"
"""What follows the label of a beginning."""


class BitCode(ABC):
    """A prefix code. States are numbered from 0, where every value begins."""

    @property
    @abstractmethod
    def steps(self) -> Integers:
        """The state after each state, a row with one for the bit 0 and one for the bit 1."""

    @abstractmethod
    def rows(self, values: Any, depth: int) -> Bytes:
        """The first ``depth`` bits of each value's code, the highest of a byte first, zeros behind its end."""

    @abstractmethod
    def label(self, bits: str) -> str:
        """The value of a code, such as "01101", or of its beginning."""

    def state(self, bits: str) -> int:
        """Where the machine is after these bits; a sentence (``ValueError``) if they go beyond a complete value."""
        found = 0
        for bit in bits:
            if found == END or bit not in "01":
                raise ValueError(f"code: expected the bits of a value or of its beginning, got {bits!r}.")
            found = int(self.steps[found, int(bit)])
        return found


@dataclass(frozen=True)
class NumberCode(BitCode):
    """Whole numbers below 2^bits, as they are written."""

    bits: int

    @cached_property
    def steps(self) -> Integers:
        after = np.append(np.arange(1, self.bits), END)
        return np.stack([after, after], axis=1)

    def rows(self, values: Any, depth: int) -> Bytes:
        numbers = np.asarray(values, dtype=np.uint64) << np.uint64(64 - self.bits)
        wide = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
        return first_bits(wide, depth)

    def label(self, bits: str) -> str:
        rest = self.bits - len(bits)
        low = int(bits or "0", 2) << rest
        return str(low) if rest == 0 else f"{low} {MORE} {low + (1 << rest) - 1}"


def first_bits(rows: Bytes, depth: int) -> Bytes:
    """The first ``depth`` bits of rows of bytes, in as few bytes as hold them."""
    width = max(1, -(-depth // 8))
    kept = np.zeros((len(rows), width), dtype=np.uint8)
    there = min(width, rows.shape[1])
    kept[:, :there] = rows[:, :there]
    if depth % 8:
        kept[:, -1] &= np.uint8(0xFF << (8 - depth % 8) & 0xFF)
    return kept
