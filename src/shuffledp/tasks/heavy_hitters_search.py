"""Parts of the heavy-hitter searches: candidates, their code, the law of the finds, simulation, choice of settings.

The settings are chosen by approximate numbers; the exact law then gives the guarantee. The number of candidates that
survive a round depends on the data: plans assume texts that follow Zipf's law, with codes of about 40 bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from shuffledp._core.errors import InvalidArgument
from shuffledp._core.phrases import phrase
from shuffledp._core.validation import Array, Bools, Bytes, Floats, Integers
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.dummies.poisson_dummies import PoissonDUMP
from shuffledp.numerics.roots import find_crossing
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


# --- The law of the finds ---


THRESHOLD_PROBABILITY, FLOOR_PROBABILITY = 0.99, 0.01


@dataclass(frozen=True)
class SearchLaw:
    """The law of a search over rounds whose counts have Poisson noise; the ``mean`` of the noise is subtracted.

    A candidate survives a round if its estimate is above ``keep`` users, and is shown if in the last round it is above
    ``show``. There are at most ``options`` candidates.

    Theorem: the noise N of a candidate is Poisson, depends on no user's value, and is independent of all other
        candidates and rounds, even though later rounds ask for the survivors of earlier ones. Every user whose code
        begins with a candidate's bits counts for it, so an item of c users survives each round with probability at
        least P(N > keep + mean − c).
    """

    mean: float
    rounds: int
    keep: float
    show: float
    options: int

    def exceedance_probability(self, users: Array | float, above: float) -> Floats:
        """Returns the probability that the estimate for ``users`` is above a number."""
        from scipy.special import pdtrc

        beyond = np.floor(above + self.mean - np.asarray(users, dtype=np.float64))
        return np.where(beyond < 0, 1.0, pdtrc(np.maximum(beyond, 0.0), self.mean))

    def detection_probability(self, users: Array | float) -> Floats:
        """Returns a lower bound of the probability that an item of ``users`` is found."""
        return np.asarray(
            self.exceedance_probability(users, self.keep) ** (self.rounds - 1)
            * self.exceedance_probability(users, self.show)
        )

    @property
    def threshold(self) -> int:
        """The smallest number of users with whom an item is found with 99% probability."""
        return self._find_smallest_users(
            lambda users: float(self.detection_probability(users)) >= THRESHOLD_PROBABILITY
        )

    @property
    def floor(self) -> int:
        """The largest number of users with whom an item is shown with at most 1% probability, for any other data."""
        above = self._find_smallest_users(
            lambda users: float(self.exceedance_probability(users, self.show)) > FLOOR_PROBABILITY
        )
        return above - 1

    @property
    def false_finds(self) -> float:
        """An upper bound of the mean number of candidates shown that nobody holds."""
        return self.options * float(self.exceedance_probability(0, self.show))

    @property
    def false_survivors(self) -> float:
        """An upper bound of the mean number of candidates that nobody holds and that survive a round."""
        return self.options * float(self.exceedance_probability(0, self.keep))

    def _find_smallest_users(self, holds: Callable[[int], bool]) -> int:
        """Returns the smallest number of users from which on a condition holds."""
        low, high = 0, math.ceil(self.show + self.keep + 40 * math.sqrt(self.mean) + 100)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle + 1, high)
        return low

    def interval(self, value: Floats, above: float, confidence: float) -> tuple[Floats, Floats]:
        """Returns confidence intervals for estimates that are shown only because they are above a number.

        Theorem: given that it is shown, an estimate has the law above, truncated at ``above``; it increases
            stochastically with c, since the Poisson law is log-concave. Inverting tests of both tails gives intervals
            that contain the truth with at least this probability, given that the estimate is shown. The estimate itself
            is always included.
        """
        tail = (1 - confidence) / 2
        counts = np.rint(value + self.mean)
        # Probabilities of an estimate at least, or at most, as large, given that it is shown.
        low = _find_smallest_each(lambda users: self._upper_tail(counts, users, above) >= tail, counts)
        high = _find_smallest_each(lambda users: self._lower_tail(counts, users, above) < tail, counts) - 1
        return np.minimum(low, np.maximum(value, 0.0)), np.maximum(high, value)

    def _upper_tail(self, counts: Floats, users: Integers, above: float) -> Floats:
        return self.exceedance_probability(users, counts - 1 - self.mean) / self.exceedance_probability(users, above)  # type: ignore[arg-type]

    def _lower_tail(self, counts: Floats, users: Integers, above: float) -> Floats:
        return 1.0 - self.exceedance_probability(users, counts - self.mean) / self.exceedance_probability(users, above)  # type: ignore[arg-type]


def _find_smallest_each(holds: Callable[[Integers], Array], ends: Floats) -> Integers:
    """Returns the smallest integers between 0 and ``ends`` + 2 from which on conditions hold."""
    low = np.zeros(len(ends), dtype=np.int64)
    high = np.maximum(ends, 0).astype(np.int64) + 2
    while (low < high).any():
        middle = (low + high) // 2
        here = holds(middle)
        low, high = np.where(here, low, np.minimum(middle + 1, high)), np.where(here, middle, high)
    return low


ZIPF_DIVISOR = 8.0
"""By Zipf's law, about users / (ZIPF_DIVISOR · c) items have at least c users; the reciprocal of Zipf's constant,
reduced for prefixes that items share.
"""
TEXT_BITS, TEXT_SPREAD = 40.0, 14.0
"""Mean and standard deviation of the length of a text's code, in bits."""
MAX_FALSE_FINDS = 0.5
"""Largest mean number of items shown that nobody holds."""
SHOW_MARGIN_DEVIATIONS = 1.2
"""Difference between ``show`` and ``keep``, in standard deviations of the noise."""
THRESHOLD_MULTIPLES = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
"""Multiples of the smallest threshold that the noise permits, in the order of trial: a higher one finds fewer items."""
ROOM_CHOICES = tuple(round(2.0 ** (half / 2)) for half in range(14, 43))
MAX_MESSAGES_READ = 1 << 29
"""Largest number of messages of all rounds that a server reads."""
DEFAULT_MAX_BITS = 8 * 2048
"""Default limit of the bits that a user sends in all rounds."""
NEAR_BEST_RATIO = 1.05
MAX_EXACT_ROUNDS = 8
"""Beyond this number of rounds, the required dummies grow at most in proportion to the rounds."""
MAX_EXCESS, LOG_MEAN_RANGE = 1e3, (math.log(1e-2), math.log(1e8))
CONFIRMING_TABLES = 2
"""Tables of a search in one round that only confirm the finds of the others; one more counts them."""
STAND_OUT_DEVIATIONS = 2.7
"""Standard deviations above the other buckets at which a bucket is retained in a search in one round."""
MAX_GROWTH = 0.5
"""Largest mean number of false candidates that follow from one in the next table: below 1, so that all die out."""
MAX_STEP = 8


@dataclass(frozen=True)
class SearchRequirements:
    """The target and the limits of a search."""

    users: int
    rounds: int
    dummies_per_option: float
    """Approximate number of dummies that hide each option."""
    reach: int
    """The number of bits of a code to be found."""
    fixed: bool
    """True if every code has this number of bits, as those of numbers do."""
    bits: float
    messages: float
    by_shuffler: bool


@dataclass(frozen=True)
class SearchDesign:
    """Settings of a search over rounds: the options of a round, and the thresholds to survive and to be shown."""

    room: int
    keep: float
    show: float
    threshold: int
    messages: float
    """Messages of a user in all rounds."""


@lru_cache(maxsize=256)
def required_dummies(epsilon: float, delta: float, rounds: int) -> float:
    """Returns the dummies of an option with which all rounds meet a target; an overestimate for many rounds."""
    # Imported here, so that a client can read its task without loading the bounds.
    from shuffledp.bounds.participation import Participation
    from shuffledp.bounds.registry import QUICK_EFFORT

    if rounds > MAX_EXACT_ROUNDS:
        return required_dummies(epsilon, delta, MAX_EXACT_ROUNDS) * rounds / MAX_EXACT_ROUNDS

    def excess(log_mean: float) -> float:
        curve = Participation(2, rounds=rounds).curve(PoissonDUMP(2, math.exp(log_mean), 0), effort=QUICK_EFFORT)
        return epsilon - curve.epsilon(delta).upper

    # With few dummies there may be no finite ε.
    found = find_crossing(lambda x: min(max(excess(x), -MAX_EXCESS), MAX_EXCESS), *LOG_MEAN_RANGE, absolute=1e-3)
    return math.exp(found.above)


@dataclass(frozen=True)
class TableDesign:
    """Settings of a search in one round: buckets, tables, bits by which prefixes grow, and the threshold."""

    room: int
    step: int
    tables: int
    keep: float
    threshold: int
    messages: float
    false_finds: float


Design = TypeVar("Design", SearchDesign, TableDesign)


@dataclass(frozen=True)
class BucketBackground:
    """The content of a bucket besides an item: dummies, and users whose values fall into it by chance."""

    users: int
    room: int
    mean: float

    @property
    def mean_other_users(self) -> float:
        """The mean number of users with other values."""
        return self.users / self.room

    def standard_deviation(self, keep: float) -> float:
        """Returns the standard deviation if other values follow Zipf's law up to ``keep`` users."""
        return math.sqrt(self.mean + self.mean_other_users * (1 + keep / ZIPF_DIVISOR))

    def stand_out_threshold(self, times: float) -> float:
        """Returns ``times`` the smallest excess that stands out."""
        threshold = 0.0
        for _ in range(64):
            threshold = times * STAND_OUT_DEVIATIONS * self.standard_deviation(threshold)
        return threshold

    def occupied_fraction(self, keep: float) -> float:
        """Returns the fraction of buckets that stand out, by an item or by chance."""
        by_chance = 0.5 * math.erfc(keep / self.standard_deviation(keep) / math.sqrt(2.0))
        return self.users / (ZIPF_DIVISOR * keep) / self.room + by_chance


def design_table_search(wish: SearchRequirements, epsilon: float, delta: float) -> TableDesign:
    """Returns the search in one round with about the smallest threshold within the limits."""
    designs = list(_feasible_table_designs(wish, epsilon, delta))
    if not designs:
        raise InvalidArgument(
            "plan",
            f"no search in one round reaches {wish.reach} bits within {_describe_limits(wish)}",
            hint=phrase("plan several {rounds}, allow more bits, or lower {reach}"),
        )
    return _choose_design(designs)


def _describe_limits(wish: SearchRequirements) -> str:
    return f"{wish.bits:,.0f} bits and {wish.messages:,.0f} messages a user and {MAX_MESSAGES_READ:.1e} in all"


def _choose_design(designs: Sequence[Design]) -> Design:
    """Returns the design with the fewest messages of those within 5% of the smallest threshold."""
    least = min(design.threshold for design in designs)
    near = [design for design in designs if design.threshold <= NEAR_BEST_RATIO * least]
    return min(near, key=lambda design: (design.messages, design.room, design.threshold))


def _feasible_table_designs(wish: SearchRequirements, epsilon: float, delta: float) -> Iterator[TableDesign]:
    for room in ROOM_CHOICES:
        for step in range(1, MAX_STEP + 1):
            tables = len(prefix_lengths(room, step, wish.reach)) + CONFIRMING_TABLES + 1
            background = BucketBackground(wish.users, room, required_dummies(epsilon, delta, tables))
            noise = tables * room * background.mean
            each = tables + (0.0 if wish.by_shuffler else noise / wish.users)
            if each > wish.messages or each * math.log2(tables * room) > wish.bits or noise > MAX_MESSAGES_READ:
                continue
            for times in THRESHOLD_MULTIPLES:
                keep = background.stand_out_threshold(times)
                share, items = background.occupied_fraction(keep), wish.users / (ZIPF_DIVISOR * keep)
                growth = share * 2.0**step
                false = items * growth / (1 - growth) * share**CONFIRMING_TABLES if growth < 1 else math.inf
                if growth <= MAX_GROWTH and false <= max(MAX_FALSE_FINDS, items / 100):
                    law = SearchLaw(background.mean, tables - 1, keep, keep, room)
                    threshold = law.threshold + math.ceil(background.mean_other_users)
                    yield TableDesign(room, step, tables, keep, threshold, each, false)
                    break


def prefix_lengths(room: int, step: int, reach: int) -> tuple[int, ...]:
    """Returns the prefix length of each table of a search in one round, without the tables that confirm and count."""
    first = min(reach, room.bit_length() - 1)
    return (*range(first, reach, step), reach)


def design_search(wish: SearchRequirements) -> SearchDesign:
    """Returns the search over rounds with about the smallest threshold within the limits."""
    designs = list(_feasible_designs(wish))
    if not designs:
        raise InvalidArgument(
            "plan",
            f"no search over {wish.rounds} rounds reaches {wish.reach} bits within {_describe_limits(wish)}",
            hint=phrase("allow more {rounds} or bits, or lower {reach}"),
        )
    return _choose_design(designs)


def _feasible_designs(wish: SearchRequirements) -> Iterator[SearchDesign]:
    """Yields the designs that reach far enough within the limits."""
    deviation = math.sqrt(wish.dummies_per_option)
    for room in ROOM_CHOICES:
        dummies_of_all = room * wish.dummies_per_option
        each = wish.rounds * (1 + (0.0 if wish.by_shuffler else dummies_of_all / wish.users))
        read = wish.rounds * (wish.users + dummies_of_all)
        if (
            each > wish.messages
            or each * math.log2(room) > wish.bits
            or read > MAX_MESSAGES_READ + wish.rounds * wish.users
        ):
            continue
        lowest = _lowest_show_threshold(room, wish.dummies_per_option)
        for times in THRESHOLD_MULTIPLES:
            show = times * lowest
            keep = show - SHOW_MARGIN_DEVIATIONS * deviation
            law = SearchLaw(wish.dummies_per_option, wish.rounds, keep, show, room - 1)
            if estimate_bits_found(wish, law) >= wish.reach:
                yield SearchDesign(room, keep, show, law.threshold, each)
                break


def _lowest_show_threshold(room: int, mean: float) -> float:
    """Returns the users above which the noise alone shows at most ``MAX_FALSE_FINDS`` candidates on average."""
    from scipy.stats import poisson

    return float(poisson.isf(MAX_FALSE_FINDS / room, mean) + 1 - mean)


def estimate_bits_found(wish: SearchRequirements, law: SearchLaw) -> float:
    """Estimates the number of bits that all rounds find."""
    depth = math.log2(law.options)
    kept = min(wish.users / (ZIPF_DIVISOR * law.keep), law.options)
    for _ in range(wish.rounds - 1):
        done = kept * _complete_fraction(wish, depth)
        waiting = max(1.0, kept - done + law.false_survivors)
        room = (law.options - done) / waiting
        if room <= 1:
            return depth
        depth += math.log2(room)
    return depth


def _complete_fraction(wish: SearchRequirements, depth: float) -> float:
    """Returns the fraction of items whose codes have at most ``depth`` bits."""
    if wish.fixed:
        return float(depth >= wish.reach)
    return 0.5 * (1 + math.erf((depth - TEXT_BITS) / (TEXT_SPREAD * math.sqrt(2.0))))
