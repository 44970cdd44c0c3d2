"""Messages against asked points, one pair after the other, and the arithmetic that makes a pair cheap."""

from __future__ import annotations

import numpy as np
import pytest

from shuffledp.mechanisms.frequency.projective_geometry import ProjectiveSpace
from shuffledp.sampling import bits_and_subsets as combination, hash_supports
from shuffledp.sampling.hash_supports import CIRCLES, digits_of, supports
from shuffledp.sampling.hashing import HashMessages, best_prime, best_prime_within, is_prime
from shuffledp.sampling.random_sources import SeededSource

FIELDS = [
    (2, 48, 1), (3, 31, 1), (3, 2, 2), (7, 17, 1), (13, 3, 5), (53, 9, 1), (1009, 5, 1), (4093, 4, 1), (8191, 4, 1),
    (1048573, 2, 300_000), (2147483647, 1, 500_000_000), (3037000493, 1, 1), (3037000493, 1, 1_000_000_000), (5, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("prime", "width", "arc"), FIELDS)
def test_every_pair_is_told_apart_exactly(prime: int, width: int, arc: int) -> None:
    """Python's whole numbers as the oracle; values stand at the arc's two ends and one step beyond them."""
    rng = np.random.default_rng(prime + width)
    digits, codes = rng.integers(0, prime, (600, width)), rng.integers(0, prime, (40, width))
    codes[0] = prime - 1
    digits[:5] = prime - 1

    def product(message: int, point: int) -> int:
        return sum(int(a) * int(x) for a, x in zip(digits[message], codes[point], strict=True)) % prime

    ends = rng.choice([0, arc - 1, arc, prime - 1], len(digits))
    values = np.array([(product(k, k % len(codes)) + int(end)) % prime for k, end in enumerate(ends)])
    expected = [
        sum((int(values[message]) - product(message, point)) % prime < arc for message in range(len(digits)))
        for point in range(len(codes))
    ]
    assert supports(digits, values, codes, prime, arc).tolist() == expected


def test_circles_are_fine_enough_for_what_they_are_used_for() -> None:
    """Every residue, at half a step, is on its own side of both ends of its arc after the worst rounding."""
    for prime in (3, 1009, 5449):
        for circle in CIRCLES[:2]:
            if not circle.is_precise_enough(prime, 5, 5):
                continue
            whole, worst = 1 << circle.bits, 3 + 2 + (5 * prime >> (circle.wide_bits - circle.bits))
            assert whole / (2 * prime) > worst
            exact = circle.fractions(np.arange(prime), prime).tolist()
            assert exact == [(v << circle.wide_bits) // prime for v in range(prime)]


def test_small_batches_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    for prime, width in ((2, 20), (11, 6)):
        digits, values = rng.integers(0, prime, (5000, width)), rng.integers(0, prime, 5000)
        codes = rng.integers(0, prime, (30, width))
        whole = supports(digits, values, codes, prime)
        monkeypatch.setattr(hash_supports, "TABLE_BYTES", 1)
        monkeypatch.setattr(hash_supports, "BITS_AT_ONCE", 1024)
        assert supports(digits, values, codes, prime).tolist() == whole.tolist()
        monkeypatch.undo()


def test_digits_are_those_of_the_numbers() -> None:
    numbers = np.array([0, 1, 5, (1 << 48) - 1, 123_456_789_012])
    for base, width in ((2, 48), (53, 9), (4099, 4)):
        rows = digits_of(numbers, base, width)
        assert [sum(int(d) * base ** (width - 1 - k) for k, d in enumerate(row)) for row in rows] == numbers.tolist()


def test_hashed_options_are_supported_as_when_all_are_decoded() -> None:
    rng = np.random.default_rng(1)
    for buckets, options in ((2, 200), (7, 300), (31, 500)):
        hashed = HashMessages(buckets, options)
        messages = rng.integers(0, hashed.messages, 4000)
        asked = rng.integers(0, options, 50)
        every = hashed.supports(hashed.statistic(messages))
        assert hashed.supports_of_options(messages, asked).tolist() == every[asked].tolist()


def test_orthogonal_points_are_counted_as_when_all_are_decoded() -> None:
    rng = np.random.default_rng(2)
    for base, coordinates in ((2, 8), (5, 4), (13, 3)):
        space = ProjectiveSpace(base, coordinates)
        messages, asked = rng.integers(0, space.size, 3000), rng.integers(0, space.size, 40)
        every = space.orthogonal_counts(np.bincount(messages, minlength=space.size), space.size)
        assert space.orthogonal_to(messages, asked).tolist() == every[asked].tolist()


def test_inverses_are_the_same_looked_up_and_computed() -> None:
    """Modulo a prime beyond the table: a/a = 1, in Python's own arithmetic."""
    space = ProjectiveSpace(2147483647, 2)
    rows = np.array([[5, 7], [2147483646, 3], [0, 9]])
    points, scales = space.numbers(rows)
    for row, point, scale in zip(rows.tolist(), points.tolist(), scales.tolist(), strict=True):
        expected = [int(number) * pow(scale, -1, space.base) % space.base for number in row]
        assert space.vectors(np.array([point]))[0].tolist() == expected


def test_the_best_prime_within_is_the_best_where_it_may_be() -> None:
    for epsilon in (0.5, 1.0, 4.0, 8.0):
        assert best_prime_within(epsilon, 1000, 1 << 63) == best_prime(epsilon, 1)
    most, points, ratio = 1 << 30, 1 << 22, np.exp(8.0)

    def degree(length: int) -> int:
        return next(m for m in range(1, 64) if length**m >= points)

    able = [length for length in range(2, 40_000) if is_prime(length) and length ** (degree(length) + 1) < most]
    best = min(able, key=lambda length: (length - 1) * ((ratio + length - 1) / (length - 1)) ** 2)
    assert best_prime_within(8.0, points, most) == best


def test_large_subsets_of_very_many_options_are_drawn_without_marking_them() -> None:
    """Distinct, in order, with the pivot where it is forced; spread evenly (a mean within 6 standard errors)."""
    options, size = 1 << 40, 5000
    rows = combination.draw(
        SeededSource(np.random.default_rng(3)), options, size, np.array([7, 9]), np.array([True, False])
    )
    assert rows.shape == (2, size)
    assert (np.diff(rows, axis=1) > 0).all()
    assert 7 in rows[0]
    assert rows.max() < options
    assert abs(rows[1].mean() / options - 0.5) < 6 / np.sqrt(12 * size)
