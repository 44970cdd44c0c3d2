"""Random sources, exact coins, pseudorandom generators for seeds, and exact sampling of users.

Real encoding draws from the operating system: an AES-256 counter stream under a fresh key, a cryptographic generator
at memory speed. Simulations pass a seeded generator. Whatever the source, coins and bounded integers are exact: no
probability is off by a rounding.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp._core.validation import Bytes, Integers, Words
from shuffledp.numerics.ball_arithmetic import integer_below, precision

WORD_RANGE = 1 << 64
KEY_BYTES = 32
BLOCK_BYTES = 16
PIECE_BYTES = 1 << 17
ZEROS = memoryview(bytes(PIECE_BYTES))


class RandomSource(ABC):
    """A source of independent uniform 64-bit words, and of coins and integers made from them."""

    @abstractmethod
    def words(self, count: int) -> Words:
        """Returns independent uniform 64-bit words.

        Args:
            count: Number of words.
        """

    def coins(self, probability: Fraction, count: int) -> NDArray[np.bool_]:
        """Returns independent coins that are True with exactly the given probability.

        Args:
            probability: A multiple of 2^-64 between 0 and 1.
            count: Number of coins.

        Raises:
            ValueError: If the probability is anything else.
        """
        threshold = probability * WORD_RANGE
        if threshold.denominator != 1 or not 0 <= threshold <= WORD_RANGE:
            raise ValueError(f"coins: probability must be a multiple of 2^-64 between 0 and 1, got {probability}.")
        if threshold == WORD_RANGE:
            return np.ones(count, dtype=np.bool_)
        return np.asarray(self.words(count) < np.uint64(int(threshold)))

    def integers_below(self, bound: int, count: int) -> Integers:
        """Returns independent integers, exactly uniform on 0 … bound−1.

        Args:
            bound: Number of different integers, at most 2^63.
            count: Number of integers to draw.

        Raises:
            ValueError: If the bound is out of range.
        """
        if not 1 <= bound <= 1 << 63:
            raise ValueError(f"integers_below: bound must be between 1 and 2^63, got {bound}.")
        words = self.words(count)
        if bound & (bound - 1) == 0:
            words &= np.uint64(bound - 1)
            return words.view(np.int64)
        last = np.uint64(WORD_RANGE // bound * bound - 1)
        while (refused := np.flatnonzero(words > last)).size:
            words[refused] = self.words(refused.size)
        # Division by a constant is vectorised, the remainder is not.
        multiples = words // np.uint64(bound)
        multiples *= np.uint64(bound)
        words -= multiples
        return words.view(np.int64)


class KeyedSource(RandomSource):
    """An AES-256 counter stream under a secret key: the same key and number give the same words again.

    The numbers 0 … 2^64−1 are positions 2^64 blocks apart in one stream, so that without the key their words look
    independent of each other.
    """

    def __init__(self, key: bytes, number: int) -> None:
        if len(key) != KEY_BYTES or not 0 <= number < WORD_RANGE:
            raise ValueError(f"KeyedSource: expected a key of {KEY_BYTES} bytes and a number below 2^64.")
        self._begin(key, number.to_bytes(BLOCK_BYTES // 2, "big") + bytes(BLOCK_BYTES // 2))

    def _begin(self, key: bytes, start: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._stream = Cipher(algorithms.AES(key), modes.CTR(start)).encryptor()

    def words(self, count: int) -> Words:
        size = 8 * count
        result = np.empty(size + BLOCK_BYTES - 1, dtype=np.uint8)
        room = memoryview(result.data)
        # Pieces that stay in the cache are several times faster than one long run.
        for start in range(0, size, PIECE_BYTES):
            length = min(PIECE_BYTES, size - start)
            self._stream.update_into(ZEROS[:length], room[start : start + length + BLOCK_BYTES - 1])
        return result[:size].view(np.uint64)


class SystemSource(KeyedSource):
    """The operating system's cryptographic randomness, stretched by AES-256 in counter mode.

    A forked process and a copy draw a fresh key, so that processes with the same source never randomise users alike.
    """

    def __init__(self) -> None:
        self._rekey()

    def _rekey(self) -> None:
        self._process = _process_identity()
        self._begin(os.urandom(KEY_BYTES), os.urandom(BLOCK_BYTES))

    def words(self, count: int) -> Words:
        if self._process != _process_identity():
            self._rekey()
        return super().words(count)

    def __reduce__(self) -> tuple[type[SystemSource], tuple[()]]:
        return SystemSource, ()


_forks = 0
"""Number of forks between this process and the one that imported the package."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _process_identity() -> tuple[int, int]:
    """Returns a value that differs between this process and those that it was forked from.

    Neither part is enough: a process number may be reused, and a fork by foreign code runs no hooks.
    """
    return os.getpid(), _forks


class SeededSource(RandomSource):
    """Reproducible words from a numpy generator: for simulations and tests, never for real data."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> Words:
        return self._generator.integers(0, WORD_RANGE, size=count, dtype=np.uint64, endpoint=False)


def resolve_source(rng: Any) -> RandomSource:
    """Returns the system source for None, and otherwise the given source or numpy generator as a source."""
    if rng is None:
        return SystemSource()
    if isinstance(rng, RandomSource):
        return rng
    if isinstance(rng, np.random.Generator):
        return SeededSource(rng)
    raise TypeError(f"rng must be None, a RandomSource or a numpy Generator, got {rng!r}.")


# --- Coins with irrational probability ---


WORD_BITS = WORD_RANGE.bit_length() - 1


@dataclass(frozen=True)
class RealCoin:
    """A coin that is True with exactly the probability ``probability()``, an irrational number between 0 and 1.

    A uniform real number and the probability are compared digit by digit, to base 2^64. The first digit decides except
    in one case of 2^64; then the next one is drawn, and the probability is computed to that digit.
    """

    probability: Callable[[], arb] = field(repr=False)
    """Returns a ball at the working precision."""

    def flip(self, source: RandomSource, count: int) -> NDArray[np.bool_]:
        """Returns ``count`` independent coins."""
        words = source.words(count)
        heads = np.asarray(words < self._first_digit)
        undecided, place = np.flatnonzero(words == self._first_digit), 1
        while undecided.size:
            words, digit = source.words(undecided.size), self._digit(place)
            heads[undecided] = words < digit
            undecided, place = undecided[words == digit], place + 1
        return heads

    @cached_property
    def _first_digit(self) -> np.uint64:
        return self._digit(0)

    def _digit(self, place: int) -> np.uint64:
        """Returns the digit of the probability at this place after the point, to base 2^64."""
        shift = WORD_BITS * (place + 1)
        bits = shift + WORD_BITS
        while True:
            with precision(bits):
                whole = (self.probability() * arb(2) ** shift).floor().unique_fmpz()
            if whole is not None:
                return np.uint64(int(whole) % WORD_RANGE)
            bits *= 2


# --- Probabilities rounded to multiples of 2^-64 ---


BITS = 64


def round_up_to_multiple(number: Callable[[], arb], bits: int = BITS) -> Fraction:
    """Returns the smallest multiple of 2^-bits that is certainly not below a number.

    Args:
        number: Function that returns the number as a ball at the working precision.
        bits: Number of bits after the point.
    """
    return -round_down_to_multiple(lambda: -number(), bits)


def round_down_to_multiple(number: Callable[[], arb], bits: int = BITS) -> Fraction:
    """Returns the largest multiple of 2^-bits that is certainly not above a number.

    Args:
        number: Function that returns the number as a ball at the working precision.
        bits: Number of bits after the point.
    """
    with precision(4 * bits + 64):
        return Fraction(integer_below(number() * arb(2) ** bits), 1 << bits)


def round_up_fraction(number: Fraction, bits: int = BITS) -> Fraction:
    """Returns the smallest multiple of 2^-bits that is not below an exact number."""
    return Fraction(-(-number.numerator * (1 << bits) // number.denominator), 1 << bits)


# --- Pseudorandom generators: a short seed becomes many words ---


Seeds = NDArray[np.uint8]
WORD_BYTES = 8
SPARE_BYTES = 15
"""Room beyond the output that the cryptography library requires."""


class PseudorandomGenerator(ABC):
    """A generator that stretches a seed to words that no feasible test distinguishes from uniform ones.

    Equal seeds give equal words. Seeds are sent in public: only the words of a *fresh* seed must be hard to distinguish
    from uniform ones, by a test as cheap as the randomizer, such as "is this message likely for this value?".
    """

    name: ClassVar[str]
    seed_bits: ClassVar[int]
    advantage: ClassVar[float] = 2.0**-64
    """β_G: the largest advantage assumed for any feasible test.

    A test of 2^60 steps that tries keys has advantage 2^-68 against a key of 128 bits.
    """
    assumption: ClassVar[str]
    """The assumption of the guarantees, as words that continue "assumes that"."""

    @property
    def seed_bytes(self) -> int:
        return self.seed_bits // 8

    @abstractmethod
    def expand(self, seeds: Seeds, count: int) -> Words:
        """Returns ``count`` words for each row of ``seed_bytes`` bytes."""


class _StreamCipher(PseudorandomGenerator):
    """The key stream of a cipher from a maintained library; the seed is the key, and is used for one stream."""

    @abstractmethod
    def _cipher(self) -> Callable[[bytes], Any]:
        """Returns a function from a key to the cipher with a fixed start."""

    def expand(self, seeds: Seeds, count: int) -> Words:
        size, width = WORD_BYTES * count, self.seed_bytes
        result = np.empty(len(seeds) * size + SPARE_BYTES, dtype=np.uint8)
        room, zeros, keys = memoryview(result.data), bytes(size), np.ascontiguousarray(seeds).tobytes()
        cipher = self._cipher()
        for row in range(len(seeds)):
            stream = cipher(keys[row * width : (row + 1) * width]).encryptor()
            # Writing a row may spill into the next one, which is written after it.
            stream.update_into(zeros, room[row * size : (row + 1) * size + SPARE_BYTES])
        words = result[: len(seeds) * size].view("<u8").reshape(len(seeds), count)
        return words.astype(np.uint64, copy=False)


@dataclass(frozen=True)
class AESCounter(_StreamCipher):
    """AES-128 in counter mode."""

    name = "aes-ctr"
    seed_bits = 128
    assumption = (
        "AES-128 in counter mode under a random key is a pseudorandom generator: no test that can be run tells its "
        "output from uniform bits with an advantage above 2^-64."
    )

    def _cipher(self) -> Callable[[bytes], Any]:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        start, block_cipher = modes.CTR(bytes(16)), algorithms.AES
        return lambda key: Cipher(block_cipher(key), start)


@dataclass(frozen=True)
class ChaCha20(_StreamCipher):
    """ChaCha20, nonce and counter 0."""

    name = "chacha20"
    seed_bits = 256
    assumption = (
        "ChaCha20 under a random key is a pseudorandom generator: no test that can be run tells its output from "
        "uniform bits with an advantage above 2^-64."
    )

    def _cipher(self) -> Callable[[bytes], Any]:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        start, stream_cipher = bytes(16), algorithms.ChaCha20
        return lambda key: Cipher(stream_cipher(key, start), None)


@dataclass(frozen=True)
class Shake128(PseudorandomGenerator):
    """SHAKE128 of the seed: the fastest for short messages, as it has no key to set up."""

    name = "shake128"
    seed_bits = 128
    assumption = (
        "SHAKE128 of a random 128-bit seed is a pseudorandom generator: no test that can be run tells its output from "
        "uniform bits with an advantage above 2^-64."
    )

    def expand(self, seeds: Seeds, count: int) -> Words:
        size, width, rows = WORD_BYTES * count, self.seed_bytes, np.ascontiguousarray(seeds).tobytes()
        starts = range(0, len(rows), width)
        stream = b"".join(hashlib.shake_128(rows[start : start + width]).digest(size) for start in starts)
        return np.frombuffer(stream, dtype="<u8").reshape(len(seeds), count).astype(np.uint64, copy=False)


GENERATORS: dict[str, PseudorandomGenerator] = {kind.name: kind() for kind in (AESCounter, ChaCha20, Shake128)}
"""The generators that can be selected by name."""


def resolve_generator(who: str, choice: str | PseudorandomGenerator) -> PseudorandomGenerator:
    """Returns the generator of this name, or the given one."""
    if isinstance(choice, PseudorandomGenerator):
        return choice
    if choice not in GENERATORS:
        names = ", ".join(GENERATORS)
        raise ValueError(f"{who}: prg must be one of {names}, or a PseudorandomGenerator, got {choice!r}.")
    return GENERATORS[choice]


# --- Samples of users: a subset of fixed size, or an independent coin for each ---


USERS_AT_ONCE = 1 << 16
"""Users drawn at a time; a multiple of 8, so that pieces begin at whole bytes."""
TOP_BITS = 16
"""Words are first compared by these bits: few words fall between those surely drawn and those surely not."""


def draw_subset(begin: Callable[[], RandomSource], people: int, size: int) -> Bytes:
    """Returns a uniformly random subset of exactly ``size`` of ``people``, a bit for each, the first one lowest.

    Everybody gets a word, and the smallest words are drawn; ties are broken by further words. As no place is
    preferred, every subset is equally probable. ``begin`` starts the same stream each time: it is read twice, so
    that only the words close to that of the last person drawn are kept in memory.
    """
    if not 0 <= size <= people:
        raise ValueError(f"draw_subset: size must be between 0 and {people}, got {size}.")
    counts = np.zeros(1 << TOP_BITS, dtype=np.int64)
    for words in _draw_words(begin(), people):
        counts += np.bincount(_top_bits(words), minlength=len(counts))
    ends = np.cumsum(counts)
    last = int(np.searchsorted(ends, size))
    bits = np.zeros(-(-people // 8), dtype=np.uint8)
    near: list[Integers] = []
    near_words: list[Words] = []
    source, start = begin(), 0
    for words in _draw_words(source, people):
        top = _top_bits(words)
        bits[start // 8 : -(-(start + len(words)) // 8)] = np.packbits(top < last, bitorder="little")
        here = np.flatnonzero(top == last)
        near.append(here + start)
        near_words.append(words[here])
        start += len(words)
    wanted = size - int(ends[last] - counts[last]) if last < len(counts) else 0
    chosen = _find_smallest_words(source, np.concatenate(near), np.concatenate(near_words), wanted)
    np.bitwise_or.at(bits, chosen >> 3, np.left_shift(1, chosen & 7).astype(np.uint8))
    return bits


def draw_poisson_sample(source: RandomSource, people: int, rate: Fraction) -> Bytes:
    """Returns a sample with each of ``people`` drawn with exactly probability ``rate``.

    The sample has a bit for each person, the first one lowest.
    """
    bits = np.zeros(-(-people // 8), dtype=np.uint8)
    for start in range(0, people, USERS_AT_ONCE):
        heads = source.integers_below(rate.denominator, min(USERS_AT_ONCE, people - start)) < rate.numerator
        bits[start // 8 : -(-(start + len(heads)) // 8)] = np.packbits(heads, bitorder="little")
    return bits


def _draw_words(source: RandomSource, people: int) -> Iterator[Words]:
    """Yields a word for each person, some at a time."""
    for start in range(0, people, USERS_AT_ONCE):
        yield source.words(min(USERS_AT_ONCE, people - start))


def _top_bits(words: Words) -> Integers:
    return (words >> np.uint64(64 - TOP_BITS)).astype(np.int64)


def _find_smallest_words(source: RandomSource, places: Integers, words: Words, wanted: int) -> Integers:
    """Returns the places of the ``wanted`` smallest words; ties are broken by further words."""
    order = np.argsort(words, kind="stable")
    places, words = places[order], words[order]
    if wanted in (0, len(places)) or words[wanted - 1] != words[wanted]:
        return places[:wanted]
    first, end = np.searchsorted(words, words[wanted], side="left"), np.searchsorted(words, words[wanted], side="right")
    tied = places[first:end]
    return np.concatenate(
        [places[:first], _find_smallest_words(source, tied, source.words(len(tied)), wanted - int(first))]
    )
