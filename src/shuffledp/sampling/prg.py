"""Pseudorandom generators: a short seed becomes as many uniform-looking words as a draw needs."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Words

Seeds = NDArray[np.uint8]
WORD_BYTES = 8
SPARE_BYTES = 15
"""Room beyond the output that the library asks for."""


class PseudorandomGenerator(ABC):
    """Stretches a seed to words that no feasible test tells from uniform ones. The same seed gives the same words.

    Everyone sees the seeds that are sent: what must be hard is only to tell the words of a *fresh* seed from uniform
    ones by a test that is as cheap as the randomizer, such as "is this message likely for this value?".
    """

    name: ClassVar[str]
    seed_bits: ClassVar[int]
    advantage: ClassVar[float] = 2.0**-64
    """β_G: the largest advantage that is assumed for any test that can be run. A test of 2^60 steps that tries keys has
    2^-68 against a key of 128 bits."""
    assumption: ClassVar[str]
    """What must hold for the guarantees, in words that continue "assumes that"."""

    @property
    def seed_bytes(self) -> int:
        return self.seed_bits // 8

    @abstractmethod
    def expand(self, seeds: Seeds, count: int) -> Words:
        """``count`` words for each row of ``seed_bytes`` bytes."""


class _StreamCipher(PseudorandomGenerator):
    """The key stream of a cipher of a maintained library whose key is the seed; every seed is used for one stream."""

    @abstractmethod
    def _cipher(self) -> Callable[[bytes], Any]:
        """The cipher with a fixed start, for a key."""

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
"""Those that can be asked for by name."""


def generator(who: str, choice: str | PseudorandomGenerator) -> PseudorandomGenerator:
    """A generator that was asked for, by name or as such."""
    if isinstance(choice, PseudorandomGenerator):
        return choice
    if choice not in GENERATORS:
        names = ", ".join(GENERATORS)
        raise ValueError(f"{who}: prg must be one of {names}, or a PseudorandomGenerator, got {choice!r}.")
    return GENERATORS[choice]
