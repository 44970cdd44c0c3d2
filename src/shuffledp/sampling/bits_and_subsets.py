"""Prefix codes of numbers and texts, rows of packed bits, and subsets of fixed size, all as bytes."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Bytes, Integers, Words
from shuffledp.sampling.random_sources import WORD_RANGE, RandomSource

# --- Prefix codes as automata: two transitions from each state, END when a value is complete ---


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


# --- Rows of packed bits ---
#
# Column j of a row is bit j mod 8 (the lowest is bit 0) of byte j div 8; bits beyond the last column are 0. Bits are
# never unpacked to one byte each, except a few rows at the very end of a sum.


FIRST_DIGITS = 9
"""Digits drawn for every bit; the rest only for words with an undecided bit, a share below 64·2^-9 = 12.5%."""
BLOCK_WORDS = 8192
"""Words drawn at a time: 64 KiB stay in the processor's cache."""
PART_WORDS = 1 << 18
"""Words finished at a time: the few that need more digits are collected, enough of them to draw those at once."""
ROWS_AT_ONCE = 1 << 15
SUM_BYTES = 1 << 20
WIDEST_BYTES = 1 << 12
"""Bytes whose columns are summed at a time, and the widest row among them, also for the cache."""
MAX_UNPACKED_ROWS = 8
"""Rows that are summed unpacked: adders would gain nothing on so few."""


def bytes_per_row(columns: int) -> int:
    """Returns the bytes in a row of this many bits."""
    return -(-columns // 8)


def coin_rows(source: RandomSource, probability: Fraction, rows: int, columns: int) -> Bytes:
    """Returns rows of independent bits, each 1 with exactly this probability, a multiple of 2^-64."""
    if WORD_RANGE % probability.denominator or not 0 <= probability <= 1:
        raise ValueError(f"coin_rows: probability must be a multiple of 2^-64 between 0 and 1, got {probability}.")
    digits = probability.denominator.bit_length() - 1
    width = bytes_per_row(columns)
    words = np.empty(-(-rows * width // 8), dtype=np.uint64)
    for start in range(0, len(words), PART_WORDS):
        _fill_with_coins(source, probability.numerator, digits, words[start : start + PART_WORDS])
    result = words.view(np.uint8)[: rows * width].reshape(rows, width)
    if columns % 8:
        result[:, -1] &= np.uint8((1 << columns % 8) - 1)
    return result


def _fill_with_coins(source: RandomSource, threshold: int, digits: int, words: Words) -> None:
    """Fills words with independent bits, each 1 with probability threshold/2^digits.

    A bit is [U < t] for a uniform U. Read from the least to the most significant digit, the comparison becomes u | (the
    comparison so far) where t has a 1, and u & (the comparison so far) where it has a 0, u a fresh fair bit. The first
    digits settle nearly every bit: ``low`` and ``high`` are the outcome if all digits below decide for 0 and for 1.
    """
    if threshold in (0, 1 << digits):
        words[:] = WORD_RANGE - 1 if threshold else 0
        return
    below = max(0, digits - FIRST_DIGITS)
    places, gaps = [], []
    for start in range(0, len(words), BLOCK_WORDS):
        part = words[start : start + BLOCK_WORDS]
        low, high = _first_digits(source, threshold >> below, digits - below, len(part))
        part[:] = low
        unsettled = np.flatnonzero(low != high)
        places.append(unsettled + start)
        gaps.append(high[unsettled])
    open_places, rest = np.concatenate(places), np.concatenate(gaps)
    if len(rest) and below:
        tossed = np.empty_like(rest)
        _fill_with_coins(source, threshold & ((1 << below) - 1), below, tossed)
        words[open_places] |= rest & tossed


def _first_digits(source: RandomSource, threshold: int, digits: int, count: int) -> tuple[Words, Words]:
    """Returns the least and the greatest outcome that these digits of the comparison leave possible."""
    low = np.zeros(count, dtype=np.uint64)
    high = ~low
    for place in range(digits):
        fair = source.words(count)
        combine = np.bitwise_or if threshold >> place & 1 else np.bitwise_and
        combine(low, fair, out=low)
        combine(high, fair, out=high)
    return low, high


def set_bit_per_row(rows: Bytes, columns: Integers, bits: Bytes) -> None:
    """Overwrites, in place, one bit of each row: column ``columns[i]`` of row i becomes ``bits[i]`` (0 or 1)."""
    width = rows.shape[1]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE].reshape(-1, copy=False)
        column, bit = columns[start : start + ROWS_AT_ONCE], bits[start : start + ROWS_AT_ONCE]
        at = (column >> 3) + np.arange(0, len(part), width)
        shift = (column & 7).astype(np.uint8)
        held = part[at]
        part[at] = held ^ ((held >> shift ^ bit) & np.uint8(1)) << shift


def unpack_bits(rows: Bytes, count: int) -> Bytes:
    """Returns the first ``count`` bits of the concatenated rows as 0s and 1s."""
    return np.unpackbits(rows.reshape(-1), count=count, bitorder="little")


def column_sums(rows: Bytes, columns: int) -> Integers:
    """Returns for each column the number of rows with a 1."""
    width = bytes_per_row(columns)
    sums = np.zeros(8 * width, dtype=np.int64)
    for left in range(0, width, WIDEST_BYTES):
        strip = rows[:, left : left + WIDEST_BYTES]
        height = SUM_BYTES // strip.shape[1]
        part = sums[8 * left : 8 * (left + strip.shape[1])]
        for top in range(0, len(rows), height):
            part += _column_sums(strip[top : top + height].copy())
    return sums[:columns]


def selected_column_sums(rows: Bytes, columns: Integers) -> Integers:
    """Returns the sums of these columns only; bytes without any of them are not read."""
    needed, places = np.unique(columns >> 3, return_inverse=True)
    sums = np.zeros(8 * len(needed), dtype=np.int64)
    height = max(1, SUM_BYTES // len(needed))
    for top in range(0, len(rows), height):
        sums += column_sums(rows[top : top + height, needed], len(sums))
    return np.asarray(sums[8 * places + (columns & 7)])


def _column_sums(rows: Bytes) -> Integers:
    """Sums by carry-save adders: three rows of one weight become their sum bits and carries of twice the weight.

    Works on slabs of many rows at once and overwrites ``rows``.
    """
    sums = np.zeros(8 * rows.shape[1], dtype=np.int64)
    weight = 1
    while len(rows):
        carries = np.empty((len(rows) // 2, rows.shape[1]), dtype=np.uint8)
        spare = np.empty((len(rows) // 3, rows.shape[1]), dtype=np.uint8)
        carried = 0
        while len(rows) > MAX_UNPACKED_ROWS:
            third = len(rows) // 3
            a, b, c = rows[:third], rows[third : 2 * third], rows[2 * third : 3 * third]
            carry, both = carries[carried : carried + third], spare[:third]
            np.bitwise_and(a, b, out=carry)
            np.bitwise_xor(a, b, out=a)
            np.bitwise_and(a, c, out=both)
            np.bitwise_or(carry, both, out=carry)
            np.bitwise_xor(a, c, out=c)
            carried += third
            rows = rows[2 * third :]
        sums += weight * np.unpackbits(rows, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
        rows, weight = carries[:carried], 2 * weight
    return sums


# --- Subsets of a fixed size: rows of increasing numbers below ``options`` ---


Rows = NDArray[Any]

WORD_SPAN = 1 << 60
"""One random word serves draws whose bounds multiply to at most this: at most a sixteenth of the words is rejected."""
WORKING_CELLS = 1 << 20
"""Cells of the working arrays of one batch of users, for the processor's cache."""
MAX_USERS = 1 << 15
MAX_COMPARED_SIZE, MAX_MARKED_OPTIONS = 1 << 12, 1 << 24
"""Largest subset whose numbers are compared one by one, and largest number of options that are marked."""


def missing_share(options: int, size: int, items: int) -> Fraction:
    """Returns the share of all ``size``-subsets that contain none of ``items`` given numbers."""
    fewer, more = sorted((size, items))
    return Fraction(comb(options - more, fewer), comb(options, fewer)) if more <= options else Fraction(0)


def number_type(options: int) -> np.dtype[Any]:
    """Returns the smallest type of numbers below ``options``."""
    kinds = (np.uint8, np.uint16, np.uint32)
    return next((np.dtype(kind) for kind in kinds if options - 1 <= np.iinfo(kind).max), np.dtype(np.int64))


def draw(source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]) -> Rows:
    """Draws a uniform subset per user: of all subsets, or if ``forced`` of those that contain the user's pivot.

    Floyd's algorithm: for j = options−size … options−1 draw t uniformly from 0 … j and add t, or j if t is there
    already. Before the last step the set is uniform on the (size−1)-subsets of the numbers below options−1, so that
    adding options−1 in any case gives a uniform subset among those that contain it; then options−1 and the pivot
    are exchanged.
    """
    if size > MAX_COMPARED_SIZE and options > MAX_MARKED_OPTIONS:
        rows = [
            _draw_with_refill(source, options, size, int(own) if held else None) for own, held in _users(pivots, forced)
        ]
        return np.stack(rows).astype(number_type(options))
    # Comparing with every number drawn so far costs about size²/2 per user, marking them options.
    dense = size * size > 2 * options
    batch = min(MAX_USERS, max(1, WORKING_CELLS // (options if dense else size)))
    some = _draw_by_marking if dense else _draw_by_comparison
    result = np.empty((len(pivots), size), dtype=number_type(options))
    for start in range(0, len(pivots), batch):
        part = slice(start, start + batch)
        result[part] = some(source, options, size, pivots[part], forced[part])
    return result


def _users(pivots: Integers, forced: NDArray[np.bool_]) -> Iterator[tuple[Any, Any]]:
    return zip(pivots, forced, strict=True)


def _draw_with_refill(source: RandomSource, options: int, size: int, pivot: int | None) -> Integers:
    """Draws a large subset of very many options: repeatedly draws numbers and drops duplicates, until it is complete.

    Every added number is uniform among those not yet in the set. A pivot is in the set from the beginning.
    """
    chosen = np.empty(0, dtype=np.int64) if pivot is None else np.array([pivot])
    while len(chosen) < size:
        # Whichever of equal numbers comes first, the set is the same; and there are never too many.
        chosen = np.unique(np.concatenate([chosen, source.integers_below(options, size - len(chosen))]))
    return chosen


def _draw_by_comparison(
    source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]
) -> Rows:
    kind = number_type(options).type
    chosen = np.empty((size, len(pivots)), dtype=kind)
    last = options - 1
    for step, (j, drawn) in enumerate(_floyd(source, options, size, len(pivots))):
        t = drawn.astype(kind)
        present = (chosen[:step] == t).any(axis=0)
        if j == last:
            present |= forced
        chosen[step] = np.where(present, kind(j), t)
    # Only the last step can have added the number options−1.
    final, names = chosen[-1].copy(), pivots.astype(kind)
    chosen = np.where(chosen == names, kind(last), chosen)
    chosen[-1] = np.where(final == last, names, chosen[-1])
    return np.sort(chosen.T, axis=1) if size > 1 else chosen.T


def _draw_by_marking(
    source: RandomSource, options: int, size: int, pivots: Integers, forced: NDArray[np.bool_]
) -> Rows:
    marks = np.zeros(len(pivots) * options, dtype=np.bool_)
    starts = np.arange(len(pivots)) * options
    last = options - 1
    for j, t in _floyd(source, options, size, len(pivots)):
        place = starts + t
        present = marks[place]
        if j == last:
            present |= forced
        marks[np.where(present, starts + j, place)] = True
    here, there = starts + pivots, starts + last
    marks[here], marks[there] = marks[there], marks[here]
    return np.flatnonzero(marks).reshape(-1, size) - starts[:, None]


def _floyd(source: RandomSource, options: int, size: int, users: int) -> Iterator[tuple[int, Integers]]:
    steps = range(options - size, options)
    return zip(steps, _draw_below_each(source, (j + 1 for j in steps), users), strict=True)


def _draw_below_each(source: RandomSource, bounds: Iterable[int], count: int) -> Iterator[Integers]:
    """Returns for each bound ``count`` independent, exactly uniform integers: the digits of fewer, larger ones."""
    waiting: list[int] = []
    span = 1
    for bound in bounds:
        if waiting and span * bound > WORD_SPAN:
            yield from _digits(source.integers_below(span, count), waiting)
            waiting, span = [], 1
        waiting.append(bound)
        span *= bound
    if waiting:
        yield from _digits(source.integers_below(span, count), waiting)


def _digits(numbers: Integers, bounds: list[int]) -> Iterator[Integers]:
    for bound in bounds[:-1]:
        rest = numbers // bound
        yield numbers - rest * bound
        numbers = rest
    yield numbers


# --- Subsets as bytes ---


def encoded_bits(options: int, size: int) -> int:
    """Returns the bits of one encoded subset: its numbers in sequence or one bit per option, whichever is shorter."""
    return min(options, size * _width(options))


def pack(rows: Rows, options: int) -> NDArray[np.uint8]:
    """Returns subsets as rows of bytes, unused bits 0."""
    size = rows.shape[1]
    bits = encoded_bits(options, size)
    result = np.empty((len(rows), -(-bits // 8)), dtype=np.uint8)
    batch = max(1, WORKING_CELLS // bits)
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        result[start : start + batch] = np.packbits(_bits_of(part, options, bits), axis=1)
    return result


def unpack(rows: NDArray[np.uint8], options: int, size: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Returns the inverse of ``pack``, and True for rows that are subsets of this size; other rows are meaningless."""
    result = np.zeros((len(rows), size), dtype=number_type(options))
    good = np.empty(len(rows), dtype=np.bool_)
    batch = max(1, WORKING_CELLS // encoded_bits(options, size))
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        result[part], good[part] = _rows_of(rows[part], options, size)
    return result, good


def _width(options: int) -> int:
    return max(1, (options - 1).bit_length())


def _bits_of(rows: Rows, options: int, bits: int) -> NDArray[np.uint8]:
    if bits == options:
        marks = np.zeros((len(rows), options), dtype=np.uint8)
        np.put_along_axis(marks, rows.astype(np.int64), 1, axis=1)
        return marks
    shifts = np.arange(_width(options) - 1, -1, -1)
    return (rows[:, :, None].astype(np.int64) >> shifts & 1).astype(np.uint8).reshape(len(rows), bits)


def _rows_of(wire: NDArray[np.uint8], options: int, size: int) -> tuple[Rows, NDArray[np.bool_]]:
    bits = encoded_bits(options, size)
    cells = np.unpackbits(wire, axis=1).view(np.bool_)
    good = ~cells[:, bits:].any(axis=1)
    cells = cells[:, :bits]
    if bits == options:
        good &= np.count_nonzero(cells, axis=1) == size
        rows = np.zeros((len(cells), size), dtype=np.int64)
        starts = np.arange(int(good.sum())) * options
        rows[good] = np.flatnonzero(cells if good.all() else cells[good]).reshape(-1, size) - starts[:, None]
        return rows, np.asarray(good)
    places = 1 << np.arange(_width(options) - 1, -1, -1)
    rows = np.asarray(cells.reshape(len(wire), size, -1) @ places)
    good &= (rows < options).all(axis=1) & (rows[:, 1:] > rows[:, :-1]).all(axis=1)
    return rows, np.asarray(good)


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
