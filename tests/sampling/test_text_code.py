"""The public codes: no code is the beginning of another, every value comes back, and no version changes them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from shuffledp.sampling.hashing import assign_buckets
from shuffledp.sampling.prefix_codes import END, BitCode, ConcatenatedTexts, NumberCode, TextCode, first_bits

TEXTS = [
    "",
    "a",
    "Zebra-07",
    "straße",
    "привет",
    "日本語",
    "ελληνικά",
    "😀🎉",
    "مرحبا",
    "\n|\\",
    "x" * 64,
    "naïve café",
]
DEEP = 1300


def written(row: np.ndarray) -> str:
    return "".join(f"{byte:08b}" for byte in row)


def random_texts(count: int) -> list[str]:
    rng = np.random.default_rng(3)
    letters = [*range(0x20, 0x7F), *range(0x400, 0x450), *range(0x4E00, 0x4E80), 0x1F600, 0xE9, 0x3B1]
    return ["".join(map(chr, rng.choice(letters, rng.integers(0, 12)))) for _ in range(count)]


def test_texts_come_back() -> None:
    """Bit by bit through the machine: it ends where the code ends, and zeros follow."""
    code, texts = TextCode(), TEXTS + random_texts(300)
    for text, row in zip(texts, code.rows(ConcatenatedTexts.from_strings(texts), DEEP), strict=True):
        bits, state, size = written(row), 0, 0
        while state != END:
            state, size = int(code.steps[state, int(bits[size])]), size + 1
        assert code.label(bits[:size]) == text
        assert "1" not in bits[size:]
        assert code.state(bits[:size]) == END
        beginning = code.label(bits[: size - 1])
        assert beginning.endswith("…")
        assert text.startswith(beginning[:-1])


def test_codes_are_complete() -> None:
    """Kraft's sum is 1 in every context: two steps lead from every state, and none leads nowhere."""
    steps = TextCode().steps
    assert steps.min() == END
    assert steps.max() == len(steps) - 1
    reached = {0} | set(steps[steps >= 0].tolist())
    assert reached == set(range(len(steps)))


def test_a_part_of_a_code_is_its_first_bits() -> None:
    texts = ConcatenatedTexts.from_strings(TEXTS)
    whole = TextCode().rows(texts, DEEP)
    for depth in (1, 7, 8, 37, 64, 65, 200):
        np.testing.assert_array_equal(TextCode().rows(texts, depth), first_bits(whole, depth))


def test_numbers_are_written_as_they_are() -> None:
    code = NumberCode(10)
    numbers = np.arange(1024, dtype=np.uint64)
    assert [written(row)[:10] for row in code.rows(numbers, 10)] == [f"{number:010b}" for number in range(1024)]
    assert code.label("0000000101") == "5"
    assert code.label("00000001") == "4 … 7"
    wide = NumberCode(64).rows(np.array([2**64 - 1, 1], dtype=np.uint64), 64)
    assert wide.tolist() == [[255] * 8, [0] * 7 + [1]]


@pytest.mark.parametrize("code", [TextCode(), NumberCode(3)])
def test_what_goes_beyond_a_value_is_refused(code: BitCode) -> None:
    one = "1" * 3 if isinstance(code, NumberCode) else "010"
    assert code.state(one) == END
    with pytest.raises(ValueError, match="expected the bits of a value or of its beginning"):
        code.state(one + "0")


def test_the_code_and_the_hash_are_those_of_every_version() -> None:
    """Messages of one version are read by another: a change here needs another name of the code."""
    assert hashlib.sha256(TextCode().steps.tobytes()).hexdigest()[:16] == "e920e1666483d31b"
    assert (
        hashlib.sha256(TextCode().rows(ConcatenatedTexts.from_strings(TEXTS), DEEP).tobytes()).hexdigest()[:16]
        == "b2c28295ac780d3b"
    )
    rows = np.arange(24, dtype=np.uint8).reshape(4, 6)
    assert assign_buckets(rows, 5, 1000).tolist() == [468, 371, 937, 435]


def test_buckets_are_spread_evenly() -> None:
    """Chi-square of 256 buckets, for rows that differ in few bits; false alarms at most 1e-7."""
    rows = np.arange(1 << 16, dtype=">u4").view(np.uint8).reshape(-1, 4)
    for salt in range(4):
        found = np.bincount(assign_buckets(rows, salt, 256), minlength=256)
        assert ((found - 256) ** 2 / 256).sum() < 395
    assert (assign_buckets(rows, 0, 256) != assign_buckets(rows, 1, 256)).mean() > 0.98
