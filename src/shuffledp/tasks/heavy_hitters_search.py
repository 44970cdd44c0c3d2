"""Parts of the heavy-hitter searches: candidates of a round, the codes of texts and numbers, simulated searches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shuffledp._core.validation import Array, Bools, Bytes, Integers
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.sampling.prefix_codes import (
    END,
    LETTER_FREQUENCIES,
    LETTERS,
    NAME,
    BitCode,
    ConcatenatedTexts,
    NumberCode,
    TextCode,
)
from shuffledp.tasks import value_parsing
from shuffledp.tasks.base import SAMPLE_SEED, apportion
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.domain import MAX_NUMBER_BITS, TASK_PREFIX, Numbers, Strings, Values

if TYPE_CHECKING:
    import pyarrow as pa


# --- Candidates of a round ---


MAX_SPLITS = 32
"""Largest number of bits by which a prefix is lengthened in one round."""


@dataclass(frozen=True, eq=False)
class PrefixCandidates:
    """Prefixes of codes, none a prefix of another, in order, as rows of bits padded with zeros.

    ``depth`` is the length of each in bits; ``state`` the state of the code's automaton after it, ``END`` for a
    complete value.
    """

    code: BitCode
    bits: Bytes
    depth: Integers
    state: Integers

    @classmethod
    def from_survivors(cls, code: BitCode, survivors: Sequence[str], most: int) -> Self:
        """Lengthens ``survivors`` to at most ``most`` candidates.

        All incomplete prefixes are split in two repeatedly; the last step splits only as many as there is room for.
        """
        nodes = _Prefixes.from_bit_texts(code, survivors)
        complete = [nodes.select(nodes.state == END)]
        layer = nodes.select(nodes.state != END)
        for _ in range(MAX_SPLITS):
            room = most - sum(map(len, complete)) - len(layer)
            if not len(layer) or room <= 0:
                break
            first, rest = layer.select(slice(0, room)), layer.select(slice(room, None))
            children = first.split(code)
            complete.append(children.select(children.state == END))
            if len(rest):
                complete.append(rest)
            layer = children.select(children.state != END)
        found = _Prefixes.concatenate([*complete, layer])
        order = np.argsort(to_byte_strings(found.bits), kind="stable")
        return cls(code, found.bits[order], found.depth[order], found.state[order])

    @classmethod
    def from_root(cls, code: BitCode) -> Self:
        """Returns the empty prefix as the only candidate."""
        nodes = _Prefixes.from_bit_texts(code, [""])
        return cls(code, nodes.bits, nodes.depth, nodes.state)

    def lengthen(self, kept: Integers, depth: int) -> Self:
        """Returns some candidates, in any order, lengthened to ``depth`` bits unless they are complete."""
        bits = np.zeros((len(kept), -(-depth // 8)), dtype=np.uint8)
        there = min(bits.shape[1], self.bits.shape[1])
        bits[:, :there] = self.bits[kept, :there]
        nodes = _Prefixes(bits, self.depth[kept], self.state[kept])
        complete = [nodes.select(nodes.state == END)]
        layer = nodes.select(nodes.state != END)
        while len(layer) and layer.depth[0] < depth:
            children = layer.split(self.code)
            complete.append(children.select(children.state == END))
            layer = children.select(children.state != END)
        found = _Prefixes.concatenate([*complete, layer])
        return type(self)(self.code, found.bits, found.depth, found.state)

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def is_complete(self) -> Array:
        """True for each candidate that is a complete value."""
        return np.asarray(self.state == END)

    @cached_property
    def max_depth(self) -> int:
        """The length in bits of the longest candidate."""
        return int(self.depth.max(initial=1))

    @cached_property
    def _smallest_codes(self) -> Array:
        """The smallest code with each prefix, as bytes."""
        return to_byte_strings(self._significant_bytes)

    @cached_property
    def _largest_codes(self) -> Array:
        """The largest code with each prefix, as bytes."""
        places = np.arange(8 * self._significant_bytes.shape[1])
        behind = np.packbits(places >= self.depth[:, None], axis=1)
        return to_byte_strings(self._significant_bytes | behind)

    @property
    def _significant_bytes(self) -> Bytes:
        return self.bits[:, : -(-self.max_depth // 8)]

    def find_prefix_indices(self, values: Any) -> Integers:
        """Returns the index of the candidate that is a prefix of each value; −1 if there is none."""
        codes = to_byte_strings(self.code.rows(values, self.max_depth))
        places = np.searchsorted(self._smallest_codes, codes, side="right") - 1
        inside = (places >= 0) & (codes <= self._largest_codes[np.maximum(places, 0)])
        return np.where(inside, places, -1)

    def count_users(self, held: SortedValues) -> Integers:
        """Returns the number of users whose value begins with each candidate."""
        return held.count_with_prefixes(self.bits, self.depth)

    def bit_text(self, place: int) -> str:
        """Returns a candidate as a text of bits."""
        row = np.unpackbits(self.bits[place])[: self.depth[place]]
        return "".join(map(str, row.tolist()))

    def label(self, place: int) -> str:
        """Returns the label of a candidate: the value, or its beginning."""
        return self.code.label(self.bit_text(place))


@dataclass(frozen=True, eq=False)
class SortedValues:
    """Distinct values in the order of their complete codes, with the cumulative numbers of users who hold them."""

    codes: Array
    cumulative_counts: Integers

    @classmethod
    def from_values(cls, code: BitCode, values: Any, held: Integers, depth: int) -> Self:
        """Sorts values by their codes, of at most ``depth`` bits."""
        rows = code.rows(values, depth)
        # Trailing zero bytes of all codes carry no information, and cost time.
        used = np.flatnonzero(rows.any(axis=0))
        codes = to_byte_strings(rows[:, : int(used[-1]) + 1 if len(used) else 1])
        order = np.argsort(codes, kind="stable")
        return cls(codes[order], np.concatenate([[0], np.cumsum(held[order])]))

    def count_with_prefixes(self, bits: Bytes, depth: Integers) -> Integers:
        """Returns the number of users whose value begins with each of these prefixes."""
        width = max(self.codes.dtype.itemsize, bits.shape[1])
        first = np.zeros((len(bits), width), dtype=np.uint8)
        first[:, : bits.shape[1]] = bits
        last = first | np.packbits(np.arange(8 * width) >= depth[:, None], axis=1)
        begin = np.searchsorted(self.codes, to_byte_strings(first), side="left")
        end = np.searchsorted(self.codes, to_byte_strings(last), side="right")
        return np.asarray(self.cumulative_counts[end] - self.cumulative_counts[begin])


@dataclass(frozen=True, eq=False)
class _Prefixes:
    """Prefixes in any order, in rows with room for the bits of one round."""

    bits: Bytes
    depth: Integers
    state: Integers

    @classmethod
    def from_bit_texts(cls, code: BitCode, written: Sequence[str]) -> Self:
        depth = np.array([len(bits) for bits in written], dtype=np.int64)
        width = (int(depth.max(initial=0)) + MAX_SPLITS) // 8 + 1
        rows = np.zeros((len(written), 8 * width), dtype=np.uint8)
        for row, bits in zip(rows, written, strict=True):
            row[: len(bits)] = np.frombuffer(bits.encode(), dtype=np.uint8) - ord("0")
        states = np.array([code.state(bits) for bits in written], dtype=np.int64)
        return cls(np.packbits(rows, axis=1), depth, states)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("bits", "depth", "state")))

    def __len__(self) -> int:
        return len(self.depth)

    def select(self, which: Any) -> Self:
        return type(self)(self.bits[which], self.depth[which], self.state[which])

    def split(self, code: BitCode) -> Self:
        """Returns both prefixes that are one bit longer, next to each other."""
        bits = np.repeat(self.bits, 2, axis=0)
        depth, bit = np.repeat(self.depth, 2), np.tile([0, 1], len(self))
        ones = np.flatnonzero(bit)
        bits[ones, depth[ones] // 8] |= (0x80 >> depth[ones] % 8).astype(np.uint8)
        return type(self)(bits, depth + 1, code.steps[np.repeat(self.state, 2), bit])


def to_byte_strings(rows: Bytes) -> Array:
    """Views rows of bytes as byte strings, which NumPy compares byte by byte."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}").reshape(-1)


# --- Domains without a public list ---


DEFAULT_TEXT_REACH = 64
MEAN_LETTER_BITS, END_BITS = 4.4, 3
MIN_SIMULATED_LETTERS, MAX_SIMULATED_LETTERS = 3, 11
"""Shortest and longest simulated text, in letters."""


class OpenDomain(ABC):
    """A domain without a public list, with its binary code."""

    has_fixed_length: bool
    """True if all codes have the same length."""

    domain: Values
    """The public domain of the users' values."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the code."""

    @property
    @abstractmethod
    def code(self) -> BitCode:
        """The binary code of the values."""

    @property
    @abstractmethod
    def default_reach(self) -> int:
        """The default number of bits of a code to be found."""

    @property
    @abstractmethod
    def max_code_bits(self) -> int:
        """An upper bound of the length of a code in bits."""

    @abstractmethod
    def describe_reach(self, reach: int) -> str:
        """Describes the values that ``reach`` bits find completely."""

    @abstractmethod
    def read_column(self, column: ColumnReader, array: pa.Array) -> tuple[Integers, Any]:
        """Returns for each row the index of its value, and the distinct values as the code takes them.

        Raises BadRow for a row without a value or with one outside the domain.
        """

    @abstractmethod
    def draw_values(self, count: int, rng: np.random.Generator) -> Any:
        """Draws at most ``count`` distinct values."""


@dataclass(frozen=True)
class OpenTextDomain(OpenDomain):
    """Texts of any script."""

    domain: Strings
    has_fixed_length = False

    @property
    def name(self) -> str:
        return NAME

    @property
    def code(self) -> TextCode:
        return TextCode()

    @property
    def default_reach(self) -> int:
        return min(DEFAULT_TEXT_REACH, 10 * (self.domain.length + 1))

    @property
    def max_code_bits(self) -> int:
        return self.code.most_bits(self.domain.length)

    def describe_reach(self, reach: int) -> str:
        letters = max(1, int((reach - END_BITS) / MEAN_LETTER_BITS))
        return f"texts of about {letters} Latin letters are found completely, of longer ones the beginning"

    def read_column(self, column: ColumnReader, array: pa.Array) -> tuple[Integers, Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = value_parsing.decode_array(array)
        if value_parsing.is_list(array.type):
            raise column.build_error(f"expected texts, got {array.type}")
        array = value_parsing.format_labels(column.require_values(array)).cast(pa.large_string())
        most = self.domain.length
        long = np.asarray(pc.greater(pc.binary_length(array), most), dtype=np.bool_)
        if long.any():
            rows = f"{int(long.sum()):,} of {len(long):,} rows"
            raise column.build_error(f"expected texts of at most {most} bytes, got longer ones in {rows}", long)
        coded = array.dictionary_encode()
        try:
            coded.dictionary.validate(full=True)
        except pa.ArrowInvalid:
            raise column.build_error("expected texts in UTF-8, got other bytes") from None
        places = np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        return places, _wrap_arrow_texts(coded.dictionary)

    def draw_values(self, count: int, rng: np.random.Generator) -> Any:
        letters = np.frombuffer(LETTERS.encode(), dtype=np.uint8)
        drawn = rng.choice(
            letters,
            (count, min(MAX_SIMULATED_LETTERS, self.domain.length)),
            p=np.array(LETTER_FREQUENCIES) / sum(LETTER_FREQUENCIES),
        )
        sizes = rng.integers(min(MIN_SIMULATED_LETTERS, self.domain.length), drawn.shape[1] + 1, count)
        drawn[np.arange(drawn.shape[1]) >= sizes[:, None]] = 0
        distinct = dict.fromkeys(drawn.view(f"S{drawn.shape[1]}").reshape(-1).tolist())
        return ConcatenatedTexts.from_strings([text.decode() for text in distinct])


@dataclass(frozen=True)
class OpenNumberDomain(OpenDomain):
    """Integers below a power of two."""

    domain: Numbers
    has_fixed_length = True

    @property
    def name(self) -> str:
        return "binary"

    @property
    def code(self) -> BitCode:
        return NumberCode(self.domain.bits)

    @property
    def default_reach(self) -> int:
        return self.domain.bits

    @property
    def max_code_bits(self) -> int:
        return self.domain.bits

    def describe_reach(self, reach: int) -> str:
        return (
            f"numbers of {self.domain.bits} bits are found {'completely' if reach >= self.domain.bits else 'in part'}"
        )

    def read_column(self, column: ColumnReader, array: pa.Array) -> tuple[Integers, Any]:
        array = value_parsing.decode_array(array)
        if not (value_parsing.is_numeric(array) or value_parsing.is_text(array.type)):
            raise column.build_error(f"expected whole numbers, got {array.type}")
        numbers, bad = _parse_integers(column.require_values(array, numeric=True))
        most = (1 << self.domain.bits) - 1
        bad = bad | (numbers < 0) | (numbers > most)
        if bad.any():
            rows = f"{int(bad.sum()):,} of {len(bad):,} rows"
            raise column.build_error(f"expected whole numbers from 0 to {most}, got others in {rows}", bad)
        distinct, places = np.unique(numbers.astype(np.uint64), return_inverse=True)
        return places.astype(np.int64), distinct

    def draw_values(self, count: int, rng: np.random.Generator) -> Any:
        most = (1 << self.domain.bits) - 1
        drawn = rng.integers(0, most, count, dtype=np.uint64, endpoint=True)
        return rng.permutation(np.unique(drawn))


def build_open_domain(strings: int | None, bits: int | None) -> OpenDomain:
    """Returns the domain of texts or of numbers; raises ValueError unless exactly one of both is given."""
    if (strings is None) == (bits is None):
        raise ValueError(f"{TASK_PREFIX}: give either strings (most bytes of a text) or bits (of a whole number).")
    return OpenTextDomain(Strings(strings)) if strings is not None else OpenNumberDomain(Numbers(bits))  # type: ignore[arg-type]


def escape_unprintable(label: str) -> str:
    """Escapes control and invisible characters of a label, which users chose and a terminal would obey."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in label)


def _parse_integers(array: pa.Array) -> tuple[Array, Bools]:
    """Returns integers of up to 64 bits, also from texts, and True for each row that is not one."""
    if not value_parsing.is_text(array.type):
        return value_parsing.parse_integers(array)
    texts = value_parsing.trim(array).to_pylist()
    good = [text.isdecimal() and int(text) < 1 << MAX_NUMBER_BITS for text in texts]
    numbers = [int(text) if fits else 0 for text, fits in zip(texts, good, strict=True)]
    return np.array(numbers, dtype=np.uint64), ~np.array(good, dtype=np.bool_)


def _wrap_arrow_texts(texts: pa.Array) -> ConcatenatedTexts:
    """Wraps Arrow's own buffers: the ends of the texts, and the bytes of all of them."""
    _, ends, data = texts.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return ConcatenatedTexts(content, offsets)


# --- Simulated searches ---


MAX_SIMULATED_ITEMS, MIN_SIMULATED_ITEMS, USERS_PER_SIMULATED_ITEM = 1 << 17, 64, 16
"""Largest and smallest number of simulated items, and the number of users for each further item."""
SIMULATED_DATA_DESCRIPTION = "items by Zipf's law"


@dataclass(frozen=True)
class SearchSimulation:
    """The result of one simulated search."""

    heavy: int
    """The number of items with at least as many users as the threshold."""
    recalled: int
    """The number of those that were found: completely, or up to the planned number of bits."""
    shown: int
    """The number of finds that were shown."""
    whole: int
    """The number of complete values among the finds; the others are prefixes."""
    true_counts: Integers
    """The true number of users of each find, or of the values that begin with it."""
    covering_intervals: int
    """The number of intervals that contain the truth."""


class ValueSearch(ABC):
    """A task that searches for unknown values: a simulation runs the whole search, not single estimates."""

    @abstractmethod
    def simulate_search(
        self, mechanism: Mechanism, simulated: SimulatedUsers, confidence: float, rng: np.random.Generator
    ) -> SearchSimulation:
        """Simulates one search, with counts drawn from their law instead of single messages.

        Args:
            mechanism: Mechanism that is used.
            simulated: Simulated users.
            confidence: Confidence of the intervals.
            rng: Source of randomness.

        Returns:
            The finds compared with the truth.
        """

    @abstractmethod
    def draw_simulated_users(self, users: int) -> SimulatedUsers:
        """Returns simulated users who hold items by Zipf's law.

        Args:
            users: Number of users.

        Returns:
            The distinct values and the number of users with each.
        """


@dataclass(frozen=True, eq=False)
class SimulatedUsers:
    """Simulated users: distinct values, and the number of users with each."""

    values: Any
    counts: Integers
    sorted_values: SortedValues


@lru_cache(maxsize=4)
def draw_zipf_users(domain: OpenDomain, users: int) -> SimulatedUsers:
    """Returns simulated users: the k-th value is held by 1/k times as many as the first."""
    items = min(MAX_SIMULATED_ITEMS, max(MIN_SIMULATED_ITEMS, users // USERS_PER_SIMULATED_ITEM))
    values = domain.draw_values(items, np.random.default_rng(SAMPLE_SEED))
    count = len(values) if isinstance(values, np.ndarray) else len(values.ends) - 1
    shares = 1 / np.arange(1, count + 1)
    return build_simulated_users(domain, values, apportion(shares / shares.sum(), users))


def build_simulated_users(domain: OpenDomain, values: Any, counts: Integers) -> SimulatedUsers:
    """Returns simulated users with these values."""
    return SimulatedUsers(values, counts, SortedValues.from_values(domain.code, values, counts, domain.max_code_bits))
