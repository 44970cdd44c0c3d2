"""For every option x, how many messages (a, y) have y = ⟨a, digits of x⟩ modulo a prime l: exact, by sharing sums.

Options are numbers of m digits in base l, the most significant first. The digits of x are fixed one after another; for
each prefix of digits, S(z, rest of a) is the number of messages whose y is z plus what the prefix adds. One more digit
turns l of these into one, so that all options take about d·l²·m additions instead of d for each message.
"""

from __future__ import annotations

import numpy as np

from shuffledp.array import Array, Integers

MOST_CELLS = 1 << 24
"""Counts held at a time: 128 MiB."""


def supports_of_counts(counts: Array, prime: int, degree: int, options: int) -> Integers:
    """From the number of each message a·l + y, for all a of m digits."""
    return _supports(np.ascontiguousarray(counts.reshape(1, -1, prime).swapaxes(1, 2)), prime, degree, options)


def supports_of_messages(messages: Array, prime: int, degree: int, options: int) -> Integers:
    """From the messages a·l + y themselves, where there are too many different ones to count them; l ≤ MOST_CELLS."""
    fixed = 0
    while prime ** (degree - fixed + 1) > MOST_CELLS:
        fixed += 1
    rest = degree - fixed
    block = prime**rest
    seeds, values = np.divmod(messages, prime)
    heads, tails = np.divmod(seeds, block)
    places = prime ** np.arange(fixed)
    digits = heads[:, None] // places % prime
    result = np.empty(options, dtype=np.int64)
    for start in range(0, options, block):
        known = start // block // places % prime
        cells = (values - digits @ known) % prime * block + tails
        counts = np.bincount(cells, minlength=prime * block).reshape(1, prime, block)
        part = result[start : start + block]
        part[:] = _supports(counts, prime, rest, len(part)) if rest else counts[0, 0]
    return result


def _supports(sums: Integers, prime: int, degree: int, options: int) -> Integers:
    """From S by (prefix, z, rest of a) with one, empty prefix."""
    for left in range(degree - 1, 0, -1):
        prefixes = -(-options // prime**left)
        sums = sums.reshape(len(sums), prime, prime, -1)
        digits = min(prime, prefixes)
        longer = np.zeros((len(sums), digits, prime, sums.shape[3]), dtype=np.int64)
        for digit in range(digits):
            for coefficient in range(prime):
                shift = digit * coefficient % prime
                longer[:, digit, : prime - shift] += sums[:, shift:, coefficient]
                longer[:, digit, prime - shift :] += sums[:, :shift, coefficient]
        sums = longer.reshape(-1, prime, longer.shape[3])[:prefixes]
    coefficients = np.arange(prime)
    digits = min(prime, options)
    result = np.empty((len(sums), digits), dtype=np.int64)
    for digit in range(digits):
        sums[:, digit * coefficients % prime, coefficients].sum(axis=1, out=result[:, digit])
    return result.reshape(-1)[:options]
