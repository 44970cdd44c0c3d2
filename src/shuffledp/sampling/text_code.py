"""A public code of texts: a Huffman code of UTF-8 bytes that knows which byte may follow which.

Letters that are frequent in Latin script have few bits, and every other text some more: a code is for all scripts. It
is fixed for ever: plans name it, and whoever reads messages must have the same one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from shuffledp.array import Bytes, Integers, Words
from shuffledp.sampling.bit_code import END, MORE, BitCode, first_bits

NAME = "utf8-1"
STOP = 256
"""The symbol after the last byte."""
FIRST_LEAD, LAST_LEAD = 0xC2, 0xF4
"""Bytes that begin a character of several."""
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"
PER_LETTER = (1270, 906, 817, 750, 697, 675, 633, 609, 599, 425, 403, 278, 276, 241, 236, 223, 202, 197, 193, 149, 98,
              77, 15, 15, 10, 7)  # fmt: skip
"""How frequent letters are, in the order of ``LETTERS``, of 10,000."""
SCRIPTS = ((0xD0, 0xD1), (0xCE, 0xCF), (0xD8, 0xD9), (0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9))
"""Leading bytes that follow each other: Cyrillic, Greek, Arabic, Chinese characters."""
LATIN = (0xC3, 0xC4, 0xC5)
"""Those of letters with marks, which stand among plain ones."""
CONTINUED = 6
"""Bits of a byte within a character."""
AFTER_PLAIN, WITHIN = 0, LAST_LEAD - FIRST_LEAD + 2
"""The contexts: after a plain byte, after a character of each leading byte, within a character."""


@dataclass(frozen=True)
class Texts:
    """Texts in UTF-8 one after the other, and where each begins; the last end is the end of all."""

    data: Bytes
    ends: Integers

    @classmethod
    def of(cls, texts: list[str]) -> Texts:
        encoded = [text.encode() for text in texts]
        sizes = np.array([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum(sizes))


@dataclass(frozen=True)
class TextCode(BitCode):
    """Texts in UTF-8, whatever their script."""

    @property
    def steps(self) -> Integers:
        return _machine().steps

    @cached_property
    def _table(self) -> tuple[Words, Integers]:
        """The bits of each symbol in each context, as a number, and how many there are."""
        values, sizes = np.zeros((WITHIN + 1, STOP + 1), np.uint64), np.zeros((WITHIN + 1, STOP + 1), np.int64)
        for context in range(WITHIN):
            for symbol, bits in _huffman(_weights(context)).items():
                values[context, symbol], sizes[context, symbol] = int(bits, 2), len(bits)
        values[WITHIN, 0x80:0xC0], sizes[WITHIN, 0x80:0xC0] = np.arange(1 << CONTINUED), CONTINUED
        return values, sizes

    def most_bits(self, length: int) -> int:
        """The most bits of a text of so many bytes."""
        return int(self._table[1].max()) * (length + 1)

    def rows(self, values: Any, depth: int) -> Bytes:
        texts: Texts = values
        codes, sizes = self._table
        starts, lengths = texts.ends[:-1], np.diff(texts.ends)
        count = len(starts)
        words = np.zeros((count, depth // 64 + 3), dtype=np.uint64)
        places, lead, left = (np.zeros(count, dtype=np.int64) for _ in range(3))
        active, position = np.arange(count), 0
        while len(active):
            ending = lengths[active] == position
            symbols = np.full(len(active), STOP)
            symbols[~ending] = texts.data[starts[active[~ending]] + position]
            context = np.where(left[active] > 0, WITHIN, lead[active])
            _append(words, active, places[active], codes[context, symbols], sizes[context, symbols])
            places[active] += sizes[context, symbols]
            within = left[active] > 0
            begun = active[~within & ~ending]
            symbols = symbols[~within & ~ending]
            left[active[within]] -= 1
            left[begun] = _more_bytes(symbols)
            lead[begun] = np.where(symbols < 0x80, AFTER_PLAIN, symbols - FIRST_LEAD + 1)
            active = active[~ending]
            active, position = active[places[active] < depth], position + 1
        return first_bits(words.astype(">u8").view(np.uint8).reshape(count, -1), depth)

    def label(self, bits: str) -> str:
        machine, found, place = _machine(), bytearray(), 0
        context, left, lead = AFTER_PLAIN, 0, AFTER_PLAIN
        while place < len(bits):
            codes = machine.symbols[WITHIN if left else context]
            size = next((size for size in range(1, len(bits) - place + 1) if bits[place : place + size] in codes), 0)
            if not size:
                break
            symbol = codes[bits[place : place + size]]
            place += size
            if symbol == STOP:
                return found.decode(errors="replace")
            found.append(symbol)
            if left:
                left -= 1
            else:
                left, lead = int(_more_bytes(np.array([symbol]))[0]), symbol - FIRST_LEAD + 1
                context = AFTER_PLAIN if symbol < 0x80 else lead
        return found.decode(errors="ignore") + MORE


def _append(words: Words, rows: Integers, places: Integers, values: Words, sizes: Integers) -> None:
    """Write numbers of so many bits at these places of some rows of words."""
    last = words.shape[1] - 2
    word, free = np.minimum(places >> 6, last), 64 - (places & 63)
    over = np.maximum(sizes - free, 0).astype(np.uint64)
    shift = np.maximum(free - sizes, 0).astype(np.uint64)
    words[rows, word] |= (values >> over) << shift
    crosses = over > 0
    words[rows[crosses], word[crosses] + 1] |= values[crosses] << (np.uint64(64) - over[crosses])


def _more_bytes(symbols: Integers) -> Integers:
    """How many bytes of the same character follow one that begins it."""
    return np.asarray((symbols >= 0xC0).astype(np.int64) + (symbols >= 0xE0) + (symbols >= 0xF0))


def _weights(context: int) -> dict[int, int]:
    """How likely each byte, or the end, is taken to be."""
    plain = dict.fromkeys([*range(0x80), STOP], 2)
    for letter, weight in zip(LETTERS, PER_LETTER, strict=True):
        plain[ord(letter)], plain[ord(letter.upper())] = weight, 2 + weight // 30
    plain |= dict.fromkeys(b"0123456789", 60) | dict.fromkeys(b" .-_/'@:", 50) | {STOP: 1600}
    plain |= dict.fromkeys(range(FIRST_LEAD, LAST_LEAD + 1), 5)
    plain |= dict.fromkeys([*LATIN, *(lead for script in SCRIPTS for lead in script)], 60)
    lead = context + FIRST_LEAD - 1
    if context == AFTER_PLAIN or lead in LATIN:
        return plain
    together = next((script for script in SCRIPTS if lead in script), (lead,))
    # Half of what stands there otherwise, and the same script seven times as often.
    return plain | dict.fromkeys(together, 70_000 // len(together)) | {STOP: 15_000}


def _huffman(weights: dict[int, int]) -> dict[int, str]:
    """The bits of every symbol; of equal weights the smaller symbols go together first."""
    heap: list[tuple[int, int, tuple[int, ...]]] = [
        (weight, symbol, (symbol,)) for symbol, weight in sorted(weights.items())
    ]
    heapq.heapify(heap)
    codes = dict.fromkeys(weights, "")
    joined = STOP + 1
    while len(heap) > 1:
        (one, _, left), (two, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        codes |= {symbol: f"0{codes[symbol]}" for symbol in left} | {symbol: f"1{codes[symbol]}" for symbol in right}
        heapq.heappush(heap, (one + two, joined, left + right))
        joined += 1
    return codes


@dataclass(frozen=True, eq=False)
class _Machine:
    """The decoder: its steps from state to state, and the symbols of each context by their bits."""

    steps: Integers
    symbols: tuple[dict[str, int], ...]


@lru_cache(maxsize=1)
def _machine() -> _Machine:
    """States are a context with some bits of a symbol; within a character only how many bits are left matters."""
    symbols = [{bits: symbol for symbol, bits in _huffman(_weights(context)).items()} for context in range(WITHIN)]
    symbols.append({f"{number:0{CONTINUED}b}": 0x80 + number for number in range(1 << CONTINUED)})
    states: dict[Any, int] = {}
    for context in range(WITHIN):
        beginnings = {bits[:size] for bits in symbols[context] for size in range(len(bits))}
        for bits in sorted(beginnings, key=lambda bits: (len(bits), bits)):
            states[context, bits] = len(states)
    for context in range(1, WITHIN):
        for left in range(1, CONTINUED * int(_more_bytes(np.array([context + FIRST_LEAD - 1]))[0]) + 1):
            states[context, left] = len(states)
    steps = np.empty((len(states), 2), dtype=np.int64)
    for (context, done), number in states.items():
        for bit in (0, 1):
            if isinstance(done, int):
                steps[number, bit] = states[(context, done - 1) if done > 1 else (context, "")]
                continue
            symbol = symbols[context].get(f"{done}{bit}")
            if symbol is None:
                steps[number, bit] = states[context, f"{done}{bit}"]
            elif symbol == STOP:
                steps[number, bit] = END
            elif symbol < 0x80:
                steps[number, bit] = states[AFTER_PLAIN, ""]
            else:
                more = CONTINUED * int(_more_bytes(np.array([symbol]))[0])
                steps[number, bit] = states[symbol - FIRST_LEAD + 1, more]
    return _Machine(steps, tuple(symbols))
