"""Prefix codes of numbers and texts as automata, for searches that extend a value bit by bit."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from shuffledp._core.validation import Bytes, Integers, Words

END = -1
"""The state of a complete value."""
INCOMPLETE_SUFFIX = "…"
"""Follows the label of an incomplete value."""


class BitCode(ABC):
    """A prefix code. States are numbered from 0, where every value begins."""

    @property
    @abstractmethod
    def steps(self) -> Integers:
        """The transitions: for each state the next one after the bit 0 and after the bit 1."""

    @abstractmethod
    def rows(self, values: Any, depth: int) -> Bytes:
        """Returns the first ``depth`` bits of each value's code, the highest of a byte first, padded with zeros."""

    @abstractmethod
    def label(self, bits: str) -> str:
        """Returns the value of a code, such as "01101", or of a prefix of one."""

    def state(self, bits: str) -> int:
        """Returns the state after these bits; raises ValueError if they go beyond a complete value."""
        found = 0
        for bit in bits:
            if found == END or bit not in "01":
                raise ValueError(f"code: expected the bits of a value or of its beginning, got {bits!r}.")
            found = int(self.steps[found, int(bit)])
        return found


@dataclass(frozen=True)
class NumberCode(BitCode):
    """Whole numbers below 2^bits in binary."""

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
        return str(low) if rest == 0 else f"{low} {INCOMPLETE_SUFFIX} {low + (1 << rest) - 1}"


def first_bits(rows: Bytes, depth: int) -> Bytes:
    """Returns the first ``depth`` bits of rows of bytes, in as few bytes as hold them."""
    width = max(1, -(-depth // 8))
    kept = np.zeros((len(rows), width), dtype=np.uint8)
    there = min(width, rows.shape[1])
    kept[:, :there] = rows[:, :there]
    if depth % 8:
        kept[:, -1] &= np.uint8(0xFF << (8 - depth % 8) & 0xFF)
    return kept


NAME = "utf8-1"
END_SYMBOL = 256
"""The symbol after the last byte."""
FIRST_LEAD, LAST_LEAD = 0xC2, 0xF4
"""The bytes that begin a multi-byte character."""
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"
LETTER_FREQUENCIES = (
    1270,
    906,
    817,
    750,
    697,
    675,
    633,
    609,
    599,
    425,
    403,
    278,
    276,
    241,
    236,
    223,
    202,
    197,
    193,
    149,
    98,
    77,
    15,
    15,
    10,
    7,
)
"""Frequencies of the letters, in the order of ``LETTERS``, out of 10,000."""
SCRIPTS = ((0xD0, 0xD1), (0xCE, 0xCF), (0xD8, 0xD9), (0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9))
"""Leading bytes that follow each other: Cyrillic, Greek, Arabic, Chinese characters."""
LATIN = (0xC3, 0xC4, 0xC5)
"""Leading bytes of accented Latin letters, which stand among plain ones."""
CONTINUATION_BITS = 6
"""Bits of a continuation byte."""
CONTEXT_AFTER_ASCII, CONTEXT_WITHIN_CHARACTER = 0, LAST_LEAD - FIRST_LEAD + 2
"""The contexts: after a plain byte, after a character of each leading byte, within a character."""


@dataclass(frozen=True)
class ConcatenatedTexts:
    """Concatenated texts in UTF-8, and the positions where they begin and end."""

    data: Bytes
    ends: Integers

    @classmethod
    def from_strings(cls, texts: list[str]) -> ConcatenatedTexts:
        encoded = [text.encode() for text in texts]
        sizes = np.array([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum(sizes))


@dataclass(frozen=True)
class TextCode(BitCode):
    """A public Huffman code of UTF-8 texts, with a table for each context.

    Frequent letters of Latin script have short codes; texts of every other script are encoded too, in somewhat more
    bits. The code never changes: plans name it, and whoever decodes messages must have the same one.
    """

    @property
    def steps(self) -> Integers:
        return _build_decoding_table().steps

    @cached_property
    def _table(self) -> tuple[Words, Integers]:
        """The bits of each symbol in each context, as a number, and how many there are."""
        values, sizes = (
            np.zeros((CONTEXT_WITHIN_CHARACTER + 1, END_SYMBOL + 1), np.uint64),
            np.zeros((CONTEXT_WITHIN_CHARACTER + 1, END_SYMBOL + 1), np.int64),
        )
        for context in range(CONTEXT_WITHIN_CHARACTER):
            for symbol, bits in _huffman(_weights(context)).items():
                values[context, symbol], sizes[context, symbol] = int(bits, 2), len(bits)
        values[CONTEXT_WITHIN_CHARACTER, 0x80:0xC0], sizes[CONTEXT_WITHIN_CHARACTER, 0x80:0xC0] = (
            np.arange(1 << CONTINUATION_BITS),
            CONTINUATION_BITS,
        )
        return values, sizes

    def most_bits(self, length: int) -> int:
        """Returns the largest number of bits of a text of ``length`` bytes."""
        return int(self._table[1].max()) * (length + 1)

    def rows(self, values: Any, depth: int) -> Bytes:
        texts: ConcatenatedTexts = values
        codes, sizes = self._table
        starts, lengths = texts.ends[:-1], np.diff(texts.ends)
        count = len(starts)
        words = np.zeros((count, depth // 64 + 3), dtype=np.uint64)
        places, lead, left = (np.zeros(count, dtype=np.int64) for _ in range(3))
        active, position = np.arange(count), 0
        while len(active):
            ending = lengths[active] == position
            symbols = np.full(len(active), END_SYMBOL)
            symbols[~ending] = texts.data[starts[active[~ending]] + position]
            context = np.where(left[active] > 0, CONTEXT_WITHIN_CHARACTER, lead[active])
            _append(words, active, places[active], codes[context, symbols], sizes[context, symbols])
            places[active] += sizes[context, symbols]
            within = left[active] > 0
            begun = active[~within & ~ending]
            symbols = symbols[~within & ~ending]
            left[active[within]] -= 1
            left[begun] = _continuation_bytes(symbols)
            lead[begun] = np.where(symbols < 0x80, CONTEXT_AFTER_ASCII, symbols - FIRST_LEAD + 1)
            active = active[~ending]
            active, position = active[places[active] < depth], position + 1
        return first_bits(words.astype(">u8").view(np.uint8).reshape(count, -1), depth)

    def label(self, bits: str) -> str:
        machine, found, place = _build_decoding_table(), bytearray(), 0
        context, left, lead = CONTEXT_AFTER_ASCII, 0, CONTEXT_AFTER_ASCII
        while place < len(bits):
            codes = machine.symbols[CONTEXT_WITHIN_CHARACTER if left else context]
            size = next((size for size in range(1, len(bits) - place + 1) if bits[place : place + size] in codes), 0)
            if not size:
                break
            symbol = codes[bits[place : place + size]]
            place += size
            if symbol == END_SYMBOL:
                return found.decode(errors="replace")
            found.append(symbol)
            if left:
                left -= 1
            else:
                left, lead = int(_continuation_bytes(np.array([symbol]))[0]), symbol - FIRST_LEAD + 1
                context = CONTEXT_AFTER_ASCII if symbol < 0x80 else lead
        return found.decode(errors="ignore") + INCOMPLETE_SUFFIX


def _append(words: Words, rows: Integers, places: Integers, values: Words, sizes: Integers) -> None:
    """Writes numbers of the given bit sizes at these places of some rows of words."""
    last = words.shape[1] - 2
    word, free = np.minimum(places >> 6, last), 64 - (places & 63)
    over = np.maximum(sizes - free, 0).astype(np.uint64)
    shift = np.maximum(free - sizes, 0).astype(np.uint64)
    words[rows, word] |= (values >> over) << shift
    crosses = over > 0
    words[rows[crosses], word[crosses] + 1] |= values[crosses] << (np.uint64(64) - over[crosses])


def _continuation_bytes(symbols: Integers) -> Integers:
    """Returns the number of continuation bytes after a byte that begins a character."""
    return np.asarray((symbols >= 0xC0).astype(np.int64) + (symbols >= 0xE0) + (symbols >= 0xF0))


def _weights(context: int) -> dict[int, int]:
    """Returns the weight of each byte, and of the end, in this context."""
    plain = dict.fromkeys([*range(0x80), END_SYMBOL], 2)
    for letter, weight in zip(LETTERS, LETTER_FREQUENCIES, strict=True):
        plain[ord(letter)], plain[ord(letter.upper())] = weight, 2 + weight // 30
    plain |= dict.fromkeys(b"0123456789", 60) | dict.fromkeys(b" .-_/'@:", 50) | {END_SYMBOL: 1600}
    plain |= dict.fromkeys(range(FIRST_LEAD, LAST_LEAD + 1), 5)
    plain |= dict.fromkeys([*LATIN, *(lead for script in SCRIPTS for lead in script)], 60)
    lead = context + FIRST_LEAD - 1
    if context == CONTEXT_AFTER_ASCII or lead in LATIN:
        return plain
    together = next((script for script in SCRIPTS if lead in script), (lead,))
    # Half of the weight elsewhere, and the same script seven times as often.
    return plain | dict.fromkeys(together, 70_000 // len(together)) | {END_SYMBOL: 15_000}


def _huffman(weights: dict[int, int]) -> dict[int, str]:
    """Returns the bits of every symbol; among equal weights the smaller symbols are joined first."""
    heap: list[tuple[int, int, tuple[int, ...]]] = [
        (weight, symbol, (symbol,)) for symbol, weight in sorted(weights.items())
    ]
    heapq.heapify(heap)
    codes = dict.fromkeys(weights, "")
    joined = END_SYMBOL + 1
    while len(heap) > 1:
        (one, _, left), (two, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        codes |= {symbol: f"0{codes[symbol]}" for symbol in left} | {symbol: f"1{codes[symbol]}" for symbol in right}
        heapq.heappush(heap, (one + two, joined, left + right))
        joined += 1
    return codes


@dataclass(frozen=True, eq=False)
class _DecodingTable:
    """The decoder: its transitions, and the symbols of each context by their bits."""

    steps: Integers
    symbols: tuple[dict[str, int], ...]


@lru_cache(maxsize=1)
def _build_decoding_table() -> _DecodingTable:
    """Builds the decoder; a state is a context with some bits of a symbol, or the bits left in a character."""
    symbols = [
        {bits: symbol for symbol, bits in _huffman(_weights(context)).items()}
        for context in range(CONTEXT_WITHIN_CHARACTER)
    ]
    symbols.append({f"{number:0{CONTINUATION_BITS}b}": 0x80 + number for number in range(1 << CONTINUATION_BITS)})
    states: dict[Any, int] = {}
    for context in range(CONTEXT_WITHIN_CHARACTER):
        beginnings = {bits[:size] for bits in symbols[context] for size in range(len(bits))}
        for bits in sorted(beginnings, key=lambda bits: (len(bits), bits)):
            states[context, bits] = len(states)
    for context in range(1, CONTEXT_WITHIN_CHARACTER):
        for left in range(1, CONTINUATION_BITS * int(_continuation_bytes(np.array([context + FIRST_LEAD - 1]))[0]) + 1):
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
            elif symbol == END_SYMBOL:
                steps[number, bit] = END
            elif symbol < 0x80:
                steps[number, bit] = states[CONTEXT_AFTER_ASCII, ""]
            else:
                more = CONTINUATION_BITS * int(_continuation_bytes(np.array([symbol]))[0])
                steps[number, bit] = states[symbol - FIRST_LEAD + 1, more]
    return _DecodingTable(steps, tuple(symbols))
