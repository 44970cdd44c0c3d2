"""Ids of users under a secret key of this process: equal ids stay equal, and nobody else can tell whose they are.

Ids are compared, sorted and, where memory is too small, written to disk in this form only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.array import Bytes
from shuffledp.sampling.random import BLOCK_BYTES, KEY_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

HEAD_BYTES = BLOCK_BYTES // 2
"""Bytes of an id that stand beside its length in the first block."""
MOST_BYTES = 1 << 10
"""Of one id."""


class IdHash:
    """A keyed hash of 16 bytes: CBC-MAC under AES-256 of the id with its length before it, with a fresh key.

    Prepended lengths make no message the beginning of another, for which CBC-MAC is a pseudorandom function.
    """

    def __init__(self, column: str) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._column = column
        self._cipher = Cipher(algorithms.AES(os.urandom(KEY_BYTES)), modes.ECB()).encryptor()

    def of(self, ids: pa.Array) -> Bytes:
        """A row of 16 bytes for each id; a sentence where a row has none, or one that is no id."""
        import pyarrow as pa

        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if ids.null_count:
            raise self._refuse(f"expected a user in every row, got {ids.null_count} rows without one; leave them out")
        if pa.types.is_integer(ids.type):
            return self._of_numbers(ids)
        texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
                 pa.types.is_large_binary, pa.types.is_fixed_size_binary)  # fmt: skip
        if not any(is_kind(ids.type) for is_kind in texts):
            raise self._refuse(f"expected texts or whole numbers that say whose each row is, got {ids.type}")
        return self._of_texts(ids)

    def _refuse(self, sentence: str) -> ValueError:
        return ValueError(f"user column {self._column!r}: {sentence}.")

    def _of_numbers(self, ids: pa.Array) -> Bytes:
        words = np.zeros((len(ids), 2), dtype=np.uint64)
        words[:, 0] = ids.to_numpy(zero_copy_only=False).astype(np.uint64)
        return self._encrypted(words.view(np.uint8))

    def _of_texts(self, ids: pa.Array) -> Bytes:
        import pyarrow as pa

        plain = ids.cast(pa.binary() if pa.types.is_fixed_size_binary(ids.type) else ids.type).cast(pa.large_binary())
        _, offsets, data = plain.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[plain.offset : plain.offset + len(plain) + 1]
        # Windows of the last id may reach beyond the end.
        content = np.zeros(int(ends[-1]) + BLOCK_BYTES, dtype=np.uint8)
        if data is not None:
            content[: ends[-1]] = np.frombuffer(data, dtype=np.uint8)[: ends[-1]]
        starts, lengths = ends[:-1], np.diff(ends)
        if len(lengths) and not lengths.all():
            missing = int((lengths == 0).sum())
            raise self._refuse(f"expected a user in every row, got {missing} rows without one; leave them out")
        if len(lengths) and lengths.max() > MOST_BYTES:
            raise self._refuse(f"expected ids of at most {MOST_BYTES} bytes, got one of {lengths.max()}")
        first = np.zeros((len(plain), BLOCK_BYTES), dtype=np.uint8)
        first[:, :HEAD_BYTES] = lengths.astype("<u8").view(np.uint8).reshape(-1, HEAD_BYTES)
        first[:, HEAD_BYTES:] = _windows(content, starts, lengths, HEAD_BYTES)
        state = self._encrypted(first)
        for done in range(HEAD_BYTES, int(lengths.max(initial=0)), BLOCK_BYTES):
            longer = np.flatnonzero(lengths > done)
            block = _windows(content, starts[longer] + done, lengths[longer] - done, BLOCK_BYTES)
            state[longer] = self._encrypted(state[longer] ^ block)
        return state

    def _encrypted(self, blocks: Bytes) -> Bytes:
        sealed = self._cipher.update(np.ascontiguousarray(blocks).tobytes())
        return np.frombuffer(bytearray(sealed), dtype=np.uint8).reshape(blocks.shape)


def _windows(content: Bytes, starts: np.ndarray, lengths: np.ndarray, width: int) -> Bytes:
    """So many bytes from each start, zeros behind the end."""
    places = np.arange(width)
    found = content[np.minimum(starts[:, None] + places, len(content) - 1)]
    return np.where(places < lengths[:, None], found, np.uint8(0))
