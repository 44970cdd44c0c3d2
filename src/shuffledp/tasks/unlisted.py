"""Values that nobody listed: how a column of them is read, their public code, and made-up ones to try a search on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.array import Array, Bools, Integers
from shuffledp.sampling.bit_code import BitCode, NumberCode
from shuffledp.sampling.text_code import LETTERS, NAME, PER_LETTER, TextCode, Texts
from shuffledp.tasks import cell
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import MOST_NUMBER_BITS, TASK, Numbers, Strings, Values

if TYPE_CHECKING:
    import pyarrow as pa

USUAL_REACH = 64
BITS_OF_A_LETTER, BITS_OF_AN_END = 4.4, 3
SHORTEST, LONGEST = 3, 11
"""Letters of a made-up text."""


class Unlisted(ABC):
    """A kind of values with its code."""

    fixed: bool
    """Whether all codes have as many bits."""

    domain: Values
    """What users may hold."""

    @property
    @abstractmethod
    def name(self) -> str:
        """That of the code."""

    @property
    @abstractmethod
    def code(self) -> BitCode:
        """The bits of every value."""

    @property
    @abstractmethod
    def usual_reach(self) -> int:
        """How many bits of a code are worth finding."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """At least as many bits as any code has."""

    @abstractmethod
    def words(self, reach: int) -> str:
        """What is found whole in so many bits, in words."""

    @abstractmethod
    def read(self, column: Column, array: pa.Array) -> tuple[Integers, Any]:
        """Different values, as the code takes them, and which of them each row has; a sentence for a bad one."""

    @abstractmethod
    def made_up(self, count: int, rng: np.random.Generator) -> Any:
        """At most so many different values."""


@dataclass(frozen=True)
class UnlistedTexts(Unlisted):
    """Texts of any script."""

    domain: Strings
    fixed = False

    @property
    def name(self) -> str:
        return NAME

    @property
    def code(self) -> TextCode:
        return TextCode()

    @property
    def usual_reach(self) -> int:
        return min(USUAL_REACH, 10 * (self.domain.length + 1))

    @property
    def longest(self) -> int:
        return self.code.most_bits(self.domain.length)

    def words(self, reach: int) -> str:
        letters = max(1, int((reach - BITS_OF_AN_END) / BITS_OF_A_LETTER))
        return f"texts of about {letters} Latin letters are found whole, longer ones by how they begin"

    def read(self, column: Column, array: pa.Array) -> tuple[Integers, Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = cell.plain(array)
        if cell.is_list(array.type):
            raise column.refuse(f"expected texts, got {array.type}")
        array = cell.labels(column.without_nulls(array)).cast(pa.large_string())
        most = self.domain.length
        long = np.asarray(pc.greater(pc.binary_length(array), most), dtype=np.bool_)
        if long.any():
            rows = f"{int(long.sum()):,} of {len(long):,} rows"
            raise column.refuse(f"expected texts of at most {most} bytes, got longer ones in {rows}", long)
        coded = array.dictionary_encode()
        try:
            coded.dictionary.validate(full=True)
        except pa.ArrowInvalid:
            raise column.refuse("expected texts in UTF-8, got other bytes") from None
        places = np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        return places, _texts_of(coded.dictionary)

    def made_up(self, count: int, rng: np.random.Generator) -> Any:
        letters = np.frombuffer(LETTERS.encode(), dtype=np.uint8)
        drawn = rng.choice(letters, (count, min(LONGEST, self.domain.length)), p=np.array(PER_LETTER) / sum(PER_LETTER))
        sizes = rng.integers(min(SHORTEST, self.domain.length), drawn.shape[1] + 1, count)
        drawn[np.arange(drawn.shape[1]) >= sizes[:, None]] = 0
        different = dict.fromkeys(drawn.view(f"S{drawn.shape[1]}").reshape(-1).tolist())
        return Texts.of([text.decode() for text in different])


@dataclass(frozen=True)
class UnlistedNumbers(Unlisted):
    """Whole numbers below a power of two."""

    domain: Numbers
    fixed = True

    @property
    def name(self) -> str:
        return "binary"

    @property
    def code(self) -> BitCode:
        return NumberCode(self.domain.bits)

    @property
    def usual_reach(self) -> int:
        return self.domain.bits

    @property
    def longest(self) -> int:
        return self.domain.bits

    def words(self, reach: int) -> str:
        return f"numbers of {self.domain.bits} bits are found {'whole' if reach >= self.domain.bits else 'in part'}"

    def read(self, column: Column, array: pa.Array) -> tuple[Integers, Any]:
        array = cell.plain(array)
        if not (cell.is_numeric(array) or cell.is_text(array.type)):
            raise column.refuse(f"expected whole numbers, got {array.type}")
        numbers, bad = _whole(column.without_nulls(array, numeric=True))
        most = (1 << self.domain.bits) - 1
        bad = bad | (numbers < 0) | (numbers > most)
        if bad.any():
            rows = f"{int(bad.sum()):,} of {len(bad):,} rows"
            raise column.refuse(f"expected whole numbers from 0 to {most}, got others in {rows}", bad)
        different, places = np.unique(numbers.astype(np.uint64), return_inverse=True)
        return places.astype(np.int64), different

    def made_up(self, count: int, rng: np.random.Generator) -> Any:
        most = (1 << self.domain.bits) - 1
        drawn = rng.integers(0, most, count, dtype=np.uint64, endpoint=True)
        return rng.permutation(np.unique(drawn))


def unlisted(strings: int | None, bits: int | None) -> Unlisted:
    """Texts of so many bytes, or numbers of so many bits; a sentence unless it is one of the two."""
    if (strings is None) == (bits is None):
        raise ValueError(f"{TASK}: expected strings (most bytes of a text) or bits (of a whole number), one of both.")
    return UnlistedTexts(Strings(strings)) if strings is not None else UnlistedNumbers(Numbers(bits))  # type: ignore[arg-type]


def printable(label: str) -> str:
    """Strangers chose it: what a terminal would obey, or nobody sees, is spelled out."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in label)


def _whole(array: pa.Array) -> tuple[Array, Bools]:
    """Whole numbers of up to 64 bits, as texts too, and which rows hold none that is one."""
    if not cell.is_text(array.type):
        return cell.whole_numbers(array)
    texts = cell.trimmed(array).to_pylist()
    good = [text.isdecimal() and int(text) < 1 << MOST_NUMBER_BITS for text in texts]
    numbers = [int(text) if fits else 0 for text, fits in zip(texts, good, strict=True)]
    return np.array(numbers, dtype=np.uint64), ~np.array(good, dtype=np.bool_)


def _texts_of(different: pa.Array) -> Texts:
    """Arrow's own bytes: where each text ends, and all of them one after the other."""
    _, ends, data = different.buffers()
    held = np.frombuffer(ends, dtype=np.int64)[different.offset : different.offset + len(different) + 1]
    every = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return Texts(every, held)
