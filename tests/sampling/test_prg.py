"""The generators: published key streams, and one row like another."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from shuffledp.sampling.random_sources import GENERATORS


def stream(name: str, seed: bytes, count: int) -> bytes:
    words = GENERATORS[name].expand(np.frombuffer(seed, dtype=np.uint8)[None, :], count)
    assert words.shape == (1, count)
    assert words.dtype == np.uint64
    return words.astype("<u8").tobytes()


def test_aes_counter_mode_encrypts_the_counter() -> None:
    """Block 0 under the zero key is the published one; later blocks against the block cipher itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    assert stream("aes-ctr", bytes(16), 2).hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    key = bytes(range(16))
    blocks = b"".join(number.to_bytes(16, "big") for number in range(300))
    expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)
    assert stream("aes-ctr", key, 600) == expected


def test_chacha20_is_the_published_stream() -> None:
    """RFC 8439, appendix A.1, vector 1: key, nonce and counter 0."""
    expected = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert stream("chacha20", bytes(32), 8).hex() == expected


def test_shake128_is_the_standard_function_of_the_seed() -> None:
    """Against the standard library, of the same seed."""
    seed = bytes(range(16))
    assert stream("shake128", seed, 50) == hashlib.shake_128(seed).digest(400)


@pytest.mark.parametrize("name", GENERATORS)
def test_rows_do_not_depend_on_their_neighbours(name: str) -> None:
    """Expanding many seeds at once, one by one, or further gives the same words."""
    generator = GENERATORS[name]
    seeds = np.random.default_rng(1).integers(0, 256, (20, generator.seed_bytes), dtype=np.uint8)
    together = generator.expand(seeds, 9)
    np.testing.assert_array_equal(together, np.vstack([generator.expand(seeds[k : k + 1], 9) for k in range(20)]))
    np.testing.assert_array_equal(together, generator.expand(seeds[::-1], 31)[::-1, :9])
    assert len(np.unique(together)) == together.size
    assert generator.expand(seeds[:0], 9).shape == (0, 9)
    assert "advantage above 2^-64" in generator.assumption
    assert generator.advantage == 2.0**-64
