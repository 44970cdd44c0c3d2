"""Random sources. Real encoding draws from the operating system; simulations pass a seeded generator.

The system source is an AES-256 counter stream keyed afresh from the operating system: a cryptographic generator at
memory speed. Whatever the source, coins and bounded integers are exact: no probability is off by a rounding.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Integers, Words

WORD = 1 << 64
KEY_BYTES = 32
BLOCK_BYTES = 16
PIECE_BYTES = 1 << 17
ZEROS = memoryview(bytes(PIECE_BYTES))


class RandomSource(ABC):
    """Independent uniform 64-bit words, and what is drawn from them."""

    @abstractmethod
    def words(self, count: int) -> Words:
        """``count`` independent uniform 64-bit words."""

    def coins(self, probability: Fraction, count: int) -> NDArray[np.bool_]:
        """``count`` independent coins that are True with exactly this probability, a multiple of 2^-64."""
        threshold = probability * WORD
        if threshold.denominator != 1 or not 0 <= threshold <= WORD:
            raise ValueError(f"coins: probability must be a multiple of 2^-64 between 0 and 1, got {probability}.")
        if threshold == WORD:
            return np.ones(count, dtype=np.bool_)
        return np.asarray(self.words(count) < np.uint64(int(threshold)))

    def below(self, bound: int, count: int) -> Integers:
        """``count`` independent integers, exactly uniform on 0 … bound−1, for bound up to 2^63."""
        if not 1 <= bound <= 1 << 63:
            raise ValueError(f"below: bound must be between 1 and 2^63, got {bound}.")
        words = self.words(count)
        if bound & (bound - 1) == 0:
            words &= np.uint64(bound - 1)
            return words.view(np.int64)
        last = np.uint64(WORD // bound * bound - 1)
        while (refused := np.flatnonzero(words > last)).size:
            words[refused] = self.words(refused.size)
        # Division by one number is vectorised, the remainder is not.
        multiples = words // np.uint64(bound)
        multiples *= np.uint64(bound)
        words -= multiples
        return words.view(np.int64)


class KeyedSource(RandomSource):
    """An AES-256 counter stream under a secret key: the same key and number give the same words again.

    The numbers 0 … 2^64−1 are places 2^64 blocks apart in one stream, so that their words are independent of each
    other to whoever does not have the key.
    """

    def __init__(self, key: bytes, number: int) -> None:
        if len(key) != KEY_BYTES or not 0 <= number < WORD:
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

    A forked process and a copy draw words of their own: the key is drawn afresh there, so that two processes that
    hold the same source never randomise people alike.
    """

    def __init__(self) -> None:
        self._rekey()

    def _rekey(self) -> None:
        self._process = _process()
        self._begin(os.urandom(KEY_BYTES), os.urandom(BLOCK_BYTES))

    def words(self, count: int) -> Words:
        if self._process != _process():
            self._rekey()
        return super().words(count)

    def __reduce__(self) -> tuple[type[SystemSource], tuple[()]]:
        return SystemSource, ()


_forks = 0
"""How many forks lie between this process and the one that imported the package."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    """Tells this process from those that it was forked from.

    Neither part is enough: a process number may come again, and a fork by foreign code runs no hooks.
    """
    return os.getpid(), _forks


class SeededSource(RandomSource):
    """Reproducible words from a numpy generator: for simulations and tests, never for real data."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> Words:
        return self._generator.integers(0, WORD, size=count, dtype=np.uint64, endpoint=False)


def source_of(rng: Any) -> RandomSource:
    """The system source for None; a given source or numpy generator otherwise."""
    if rng is None:
        return SystemSource()
    if isinstance(rng, RandomSource):
        return rng
    if isinstance(rng, np.random.Generator):
        return SeededSource(rng)
    raise TypeError(f"rng must be None, a RandomSource or a numpy Generator, got {rng!r}.")
