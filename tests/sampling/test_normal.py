"""Normal and exponential numbers against high precision, word by word, and against their laws.

Kolmogorov–Smirnov tests have fixed seeds and a false-alarm rate of 1e-7 each.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from shuffledp._core.validation import Words
from shuffledp.sampling.noise import exponentials, normals, normals_from_words
from shuffledp.sampling.random_sources import RandomSource, SeededSource

FALSE_ALARM = 1e-7
ONES = (1 << 64) - 1
DIGITS = 1 << 52
HARD = [0, 1, 5 << 12, 1 << 20, 1 << 50, 1 << 55, (1 << 56) + 77, 1 << 63, ONES, ONES - (9 << 12), ONES - (1 << 56)]
"""First words at both ends, where 52 digits do not do, and next to where they do."""


class Script(RandomSource):
    """Words that are given beforehand."""

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def words(self, count: int) -> Words:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


def middle(*words: int) -> mpmath.mpf:
    """The middle of the cell of (0, 1) that the first 52 bits of each word name in turn."""
    value = mpmath.mpf(0)
    for place, word in enumerate(words, 1):
        value += mpmath.mpf(word >> 12) / mpmath.mpf(DIGITS) ** place
    return value + mpmath.mpf(0.5) / mpmath.mpf(DIGITS) ** len(words)


def from_above(word: int) -> int:
    """The word of the digits of 1 − u."""
    return ONES - word


@pytest.mark.parametrize("word", HARD)
def test_an_exponential_number_is_right_to_2_to_the_minus_43(word: int) -> None:
    """−log of the cell's both ends is that near to the float; words of zeros at either end ask for more words."""
    more = [ONES // 3, ONES // 7, 12345678901234567890]
    script = Script([word, *more])
    found = float(exponentials(script, 1)[0])
    used = [word, *more[: 3 - len(script.left)]]
    with mpmath.workdps(60):
        near_one = word >> 63 == 1
        digits = [from_above(word), *used[1:]] if near_one else used
        half = mpmath.mpf(0.5) / mpmath.mpf(DIGITS) ** len(used)
        for end in (middle(*digits) - half, middle(*digits) + half):
            exact = -mpmath.log1p(-end) if near_one else -mpmath.log(end)
            assert abs(found - exact) <= exact * mpmath.mpf(2) ** -43
    assert len(used) == (1 if 1 << 56 <= word <= ONES - (1 << 56) else 2 if word >> 12 not in (0, DIGITS - 1) else 3)


def test_normal_numbers_of_words_against_high_precision() -> None:
    """Both coordinates, for hard and random first words, are within 2^-43 of the pair's length."""
    rng = np.random.default_rng(1)
    first = [word for word in HARD if word >> 12 not in (0, DIGITS - 1)] + rng.integers(
        0, 1 << 64, 60, np.uint64
    ).tolist()
    rest = rng.integers(0, 1 << 64, (2, len(first)), dtype=np.uint64)
    rest[1, :4] = [0, ONES, 1 << 63, (1 << 52) - 1]
    words = np.concatenate([np.array([first], dtype=np.uint64), rest]).reshape(1, -1)
    found = normals_from_words(words)[0]
    with mpmath.workdps(60):
        for k, (radius, more, angle) in enumerate(zip(first, *rest.tolist(), strict=True)):
            near_one = radius >> 63 == 1
            distance = middle(from_above(radius) if near_one else radius, more)
            length = mpmath.sqrt(-2 * (mpmath.log1p(-distance) if near_one else mpmath.log(distance)))
            turn = mpmath.pi * (mpmath.mpf(angle & (DIGITS - 1)) / DIGITS - mpmath.mpf(0.5))
            sign = -1 if angle >> 63 else 1
            exact = sign * length * mpmath.cos(turn), sign * length * mpmath.sin(turn)
            off = mpmath.hypot(found[k] - exact[0], found[len(first) + k] - exact[1])
            assert off <= length * mpmath.mpf(2) ** -43


def test_turned_sign_bits_turn_the_signs() -> None:
    """The highest bits of the last third of the words decide the signs, exactly, and nothing else does."""
    words = np.random.default_rng(2).integers(0, 1 << 64, (50, 30), dtype=np.uint64)
    turned = words.copy()
    turned[:, 20:] ^= np.uint64(1 << 63)
    np.testing.assert_array_equal(normals_from_words(turned), -normals_from_words(words))


def test_rows_do_not_depend_on_their_batch() -> None:
    """One row at a time gives the same numbers."""
    words = np.random.default_rng(3).integers(0, 1 << 64, (40, 9), dtype=np.uint64)
    single = np.concatenate([normals_from_words(words[k : k + 1]) for k in range(40)])
    np.testing.assert_array_equal(normals_from_words(words), single)


def test_the_laws() -> None:
    """200,000 numbers of each kind."""
    from scipy.stats import kstest

    source = SeededSource(np.random.default_rng(4))
    words = source.words(300_000).reshape(-1, 3)
    assert kstest(normals(source, 400, 501)[:, :500].reshape(-1), "norm").pvalue > FALSE_ALARM
    assert kstest(normals_from_words(words).reshape(-1), "norm").pvalue > FALSE_ALARM
    assert kstest(exponentials(source, 200_000), "expon").pvalue > FALSE_ALARM
