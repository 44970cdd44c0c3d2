"""What a δ allows to go wrong, beside how many people there are."""

from __future__ import annotations

import math

from shuffledp.document import rounded_up, share_text, typed

MOST = 0.01
"""δ·n above which is said what it allows.

Whoever publishes each of n people's values with probability δ keeps (0, δ)-differential privacy, and publishes
somebody's with probability 1 − (1 − δ)^n, which is nearly δ·n. One in a hundred is about the largest chance of that
which one would call negligible; the rule of thumb that δ be "far below 1/n" says the same without a number.
"""


def caution(delta: float | None, users: int) -> list[str]:
    """A sentence where δ is not far below 1/n; none where it is, or where none was given.

    >>> caution(1e-8, 10**6)
    []
    >>> print(*caution(1e-6, 10**6))
    δ = 1e-6 is not far below 1/n with n = 1,000,000: it allows to publish somebody's value with probability 63.3%; \
take 1e-8 or less.
    """
    if delta is None or not 0.0 < delta < 1.0 or delta * users <= MOST * (1 + 1e-9):
        return []
    chance = -math.expm1(users * math.log1p(-delta))
    better = 10.0 ** math.floor(math.log10(MOST / users) + 1e-9)
    told = share_text(float(rounded_up(chance, 3)))
    return [
        f"δ = {typed(delta)} is not far below 1/n with n = {users:,}: it allows to publish somebody's value with "
        f"probability {told}; take {typed(better)} or less."
    ]
