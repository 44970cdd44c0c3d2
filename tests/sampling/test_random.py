"""The keyed source: the counter mode it claims to be, and streams that never meet."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from shuffledp.sampling.random import KeyedSource, SystemSource

KEY = bytes(range(32))


def block(number: int, counter: int) -> bytes:
    """One block of the stream by AES itself: number and counter, eight bytes each, encrypted."""
    encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    return encryptor.update(number.to_bytes(8, "big") + counter.to_bytes(8, "big"))


@pytest.mark.parametrize("number", [0, 1, 5 << 32, (1 << 64) - 1])
def test_words_are_aes_of_number_and_counter(number: int) -> None:
    """Against AES on single blocks, across the pieces in which words are drawn."""
    words = KeyedSource(KEY, number).words(40_001)
    stream = words.tobytes()
    for counter in (0, 1, 8191, 8192, 19_999):
        assert stream[16 * counter : 16 * counter + 16] == block(number, counter)


def test_a_source_repeats_itself_however_it_is_asked() -> None:
    """The same words in one request or in many; another key or number gives others."""
    whole = KeyedSource(KEY, 3).words(1000)
    source = KeyedSource(KEY, 3)
    parts = [source.words(count) for count in (0, 1, 2, 500, 497)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert (KeyedSource(KEY, 4).words(1000) != whole).all()
    assert (KeyedSource(KEY[::-1], 3).words(1000) != whole).all()
    assert (SystemSource().words(1000) != SystemSource().words(1000)).all()


@pytest.mark.parametrize(("key", "number"), [(KEY[1:], 0), (KEY, -1), (KEY, 1 << 64)])
def test_a_bad_key_or_number_is_refused(key: bytes, number: int) -> None:
    """A sentence that does not tell the key."""
    with pytest.raises(ValueError, match=r"^KeyedSource: expected a key of 32 bytes and a number below 2\^64\.$"):
        KeyedSource(key, number)
