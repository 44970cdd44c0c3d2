"""The candidates of one round of a search: beginnings of codes, none of them the beginning of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from shuffledp.array import Array, Bytes, Integers
from shuffledp.sampling.bit_code import END, BitCode

MOST_SPLITS = 32
"""Bits by which a beginning is lengthened in one round at most."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Beginnings of codes in their order, as rows of bits with zeros behind them.

    ``depth`` says how many bits each has; ``state`` where the code's machine is then, ``END`` for a complete value.
    """

    code: BitCode
    bits: Bytes
    depth: Integers
    state: Integers

    @classmethod
    def below(cls, code: BitCode, survivors: Sequence[str], most: int) -> Self:
        """What is asked after these ``survivors``, at most ``most`` candidates: what the machine reads after them.

        All that are not complete are split into two, again and again, until the last time there is room for some only:
        for the first ones.
        """
        nodes = _Nodes.of(code, survivors)
        complete = [nodes.some(nodes.state == END)]
        layer = nodes.some(nodes.state != END)
        for _ in range(MOST_SPLITS):
            room = most - sum(map(len, complete)) - len(layer)
            if not len(layer) or room <= 0:
                break
            first, rest = layer.some(slice(0, room)), layer.some(slice(room, None))
            children = first.split(code)
            complete.append(children.some(children.state == END))
            if len(rest):
                complete.append(rest)
            layer = children.some(children.state != END)
        found = _Nodes.joined([*complete, layer])
        order = np.argsort(texts_of(found.bits), kind="stable")
        return cls(code, found.bits[order], found.depth[order], found.state[order])

    @classmethod
    def whole(cls, code: BitCode) -> Self:
        """The one beginning of all: no bits."""
        nodes = _Nodes.of(code, [""])
        return cls(code, nodes.bits, nodes.depth, nodes.state)

    def lengthened(self, kept: Integers, depth: int) -> Self:
        """Some of them, in any order, made as long as ``depth`` bits wherever they are not complete."""
        bits = np.zeros((len(kept), -(-depth // 8)), dtype=np.uint8)
        there = min(bits.shape[1], self.bits.shape[1])
        bits[:, :there] = self.bits[kept, :there]
        nodes = _Nodes(bits, self.depth[kept], self.state[kept])
        complete = [nodes.some(nodes.state == END)]
        layer = nodes.some(nodes.state != END)
        while len(layer) and layer.depth[0] < depth:
            children = layer.split(self.code)
            complete.append(children.some(children.state == END))
            layer = children.some(children.state != END)
        found = _Nodes.joined([*complete, layer])
        return type(self)(self.code, found.bits, found.depth, found.state)

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def complete(self) -> Array:
        """Which of them are whole values."""
        return np.asarray(self.state == END)

    @cached_property
    def deepest(self) -> int:
        """The most bits of any."""
        return int(self.depth.max(initial=1))

    @cached_property
    def _first(self) -> Array:
        """The least code below each, as a text."""
        return texts_of(self._cut)

    @cached_property
    def _last(self) -> Array:
        """The largest."""
        places = np.arange(8 * self._cut.shape[1])
        behind = np.packbits(places >= self.depth[:, None], axis=1)
        return texts_of(self._cut | behind)

    @property
    def _cut(self) -> Bytes:
        return self.bits[:, : -(-self.deepest // 8)]

    def named_by(self, values: Any) -> Integers:
        """The place of the one candidate that each value begins with; −1 where it is none of these."""
        codes = texts_of(self.code.rows(values, self.deepest))
        places = np.searchsorted(self._first, codes, side="right") - 1
        inside = (places >= 0) & (codes <= self._last[np.maximum(places, 0)])
        return np.where(inside, places, -1)

    def counts(self, held: HeldValues) -> Integers:
        """How many users hold a value that begins with each."""
        return held.between(self.bits, self.depth)

    def written(self, place: int) -> str:
        """One of them as a text of bits."""
        row = np.unpackbits(self.bits[place])[: self.depth[place]]
        return "".join(map(str, row.tolist()))

    def label(self, place: int) -> str:
        """What it is in words: the value, or how it begins."""
        return self.code.label(self.written(place))


@dataclass(frozen=True, eq=False)
class HeldValues:
    """Different values in the order of their whole codes, and how many users hold each, added up from the first."""

    codes: Array
    running: Integers

    @classmethod
    def of(cls, code: BitCode, values: Any, held: Integers, depth: int) -> Self:
        """``depth`` is at least as many bits as any of the codes has."""
        rows = code.rows(values, depth)
        # Zeros behind all of them tell nothing, and take time.
        used = np.flatnonzero(rows.any(axis=0))
        codes = texts_of(rows[:, : int(used[-1]) + 1 if len(used) else 1])
        order = np.argsort(codes, kind="stable")
        return cls(codes[order], np.concatenate([[0], np.cumsum(held[order])]))

    def between(self, bits: Bytes, depth: Integers) -> Integers:
        """How many hold a value that begins with each of these."""
        width = max(self.codes.dtype.itemsize, bits.shape[1])
        first = np.zeros((len(bits), width), dtype=np.uint8)
        first[:, : bits.shape[1]] = bits
        last = first | np.packbits(np.arange(8 * width) >= depth[:, None], axis=1)
        begin = np.searchsorted(self.codes, texts_of(first), side="left")
        end = np.searchsorted(self.codes, texts_of(last), side="right")
        return np.asarray(self.running[end] - self.running[begin])


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Beginnings in any order, in rows with room for one round's bits."""

    bits: Bytes
    depth: Integers
    state: Integers

    @classmethod
    def of(cls, code: BitCode, written: Sequence[str]) -> Self:
        depth = np.array([len(bits) for bits in written], dtype=np.int64)
        width = (int(depth.max(initial=0)) + MOST_SPLITS) // 8 + 1
        rows = np.zeros((len(written), 8 * width), dtype=np.uint8)
        for row, bits in zip(rows, written, strict=True):
            row[: len(bits)] = np.frombuffer(bits.encode(), dtype=np.uint8) - ord("0")
        states = np.array([code.state(bits) for bits in written], dtype=np.int64)
        return cls(np.packbits(rows, axis=1), depth, states)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("bits", "depth", "state")))

    def __len__(self) -> int:
        return len(self.depth)

    def some(self, which: Any) -> Self:
        return type(self)(self.bits[which], self.depth[which], self.state[which])

    def split(self, code: BitCode) -> Self:
        """Both that are one bit longer, next to each other."""
        bits = np.repeat(self.bits, 2, axis=0)
        depth, bit = np.repeat(self.depth, 2), np.tile([0, 1], len(self))
        ones = np.flatnonzero(bit)
        bits[ones, depth[ones] // 8] |= (0x80 >> depth[ones] % 8).astype(np.uint8)
        return type(self)(bits, depth + 1, code.steps[np.repeat(self.state, 2), bit])


def texts_of(rows: Bytes) -> Array:
    """Rows of bytes as texts, which are compared byte by byte."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}").reshape(-1)
