"""The exact trade-off curve of shuffled messages, by their counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision
from shuffledp.privacy.pair import HidingPair
from shuffledp.tradeoff.trade_off import PiecewiseTradeOff

MOST_VECTORS = 8_000_000
LEFT_OUT = 1e-18
"""Counts are visited until what is left on either side has at most about this probability."""
BITS = 96


@dataclass(frozen=True)
class BinomialWindow:
    """P(Bin(count, success) = k) for the k that matter, normalised."""

    low: int
    masses: Floats

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.arange(self.low, self.low + len(self.masses))


def binomial_window(count: int, success: float) -> BinomialWindow:
    """Masses by their ratios, multiplied outwards from the mode: each is right to about its distance in ulps."""
    if success >= 1.0 or success <= 0.0 or count == 0:
        return BinomialWindow(count if success >= 1.0 else 0, np.array([1.0]))
    mode = min(count, math.floor((count + 1) * success))
    reach = _reach(count, success)
    low, high = max(0, mode - reach), min(count, mode + reach)
    odds = success / (1.0 - success)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    right = np.cumprod((count - up) / (up + 1.0) * odds)
    left = np.cumprod(down / ((count - down + 1.0) * odds))
    masses = np.concatenate([left[::-1], [1.0], right])
    return BinomialWindow(low, masses / math.fsum(masses.tolist()))


def _reach(count: int, success: float) -> int:
    """Bernstein: beyond this distance from the mean lies at most LEFT_OUT on each side."""
    log = -math.log(LEFT_OUT)
    variance = count * success * (1.0 - success)
    return math.ceil(log / 3 + math.sqrt((log / 3) ** 2 + 2 * variance * log)) + 2


def shuffled_trade_off(pair: HidingPair, users: float) -> PiecewiseTradeOff:
    """T(P, Q) of all messages together, one segment for each vector of counts.

    ``pair`` is the dominating pair of a randomizer in count form; ``users`` counts everyone, user 1 too.

    Theorem: identity (★) before the positive part: with counts N_k of n messages in class k, under the law of n hiding
    messages P/W = (1/n)·Σ N_k·first_k/hiding_k, and Q/W alike.
    Requires: at most three classes of messages (γ = 0), or so few users that the vectors can be visited.
    Returns: the exact curve in floats, to about 1e-15; counts of total probability 1e-18 or so are left out.

    >>> import shuffledp as sdp
    >>> pair = sdp.VariationRatio.of_ldp(2.0).pair(0.0)
    >>> exact = sdp.tradeoff.shuffled_trade_off(pair, users=100)
    >>> print(f"{exact.advantage():.4f} {exact.delta(0.5):.4f}")
    0.1240 0.0104
    """
    count = argument.count("shuffled_trade_off", "users", users)
    with precision(BITS):
        classes = [tuple(float(part.mid()) for part in c) for c in pair.classes()]
    # The revealed rest, which tells nothing, comes last; rounding leaves the sum of the others as it is.
    classes.sort(key=lambda c: c[0] + c[1] == 0.0)
    first, second, hiding = (np.array(column) for column in zip(*classes, strict=True))
    weights, null, alternative = _vectors(count, hiding, first / hiding, second / hiding)
    null, alternative = weights * (null / count), weights * (alternative / count)
    return PiecewiseTradeOff(null / null.sum(), alternative / alternative.sum(), "identity (★), every vector of counts")


def _vectors(count: int, hiding: Floats, null: Floats, alternative: Floats) -> tuple[Floats, Floats, Floats]:
    """Probability, Σ N·first/hiding and Σ N·second/hiding of every vector of counts, classes from the last on."""
    windows = _size(count, hiding)
    if windows > MOST_VECTORS:
        raise NotApplicable(
            "shuffled_trade_off",
            f"expected at most {MOST_VECTORS:,} vectors of counts, got about {windows:,.0f}; "
            f"use trade_off(amplify(...)), which has no such limit.",
        )
    if len(hiding) == 1:
        return np.ones(1), np.array([count * null[0]]), np.array([count * alternative[0]])
    last = binomial_window(count, float(hiding[-1] / hiding.sum()))
    parts = []
    for taken, mass in zip(last.counts.tolist(), last.masses.tolist(), strict=True):
        weight, one, other = _vectors_within(count - taken, hiding[:-1], null[:-1], alternative[:-1])
        parts.append((mass * weight, one + taken * null[-1], other + taken * alternative[-1]))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def _vectors_within(count: int, hiding: Floats, null: Floats, alternative: Floats) -> tuple[Floats, Floats, Floats]:
    """The same for the classes that are left; two of them in one stroke."""
    if len(hiding) != 2:
        return _vectors(count, hiding, null, alternative)
    split = binomial_window(count, float(hiding[0] / hiding.sum()))
    k = split.counts
    return split.masses, k * null[0] + (count - k) * null[1], k * alternative[0] + (count - k) * alternative[1]


def _size(count: int, hiding: Floats) -> float:
    """About how many vectors there are to visit."""
    total, left = 1.0, float(count)
    for position in range(len(hiding) - 1, 0, -1):
        share = float(hiding[position] / hiding[: position + 1].sum())
        total *= min(left, 2 * _reach(math.ceil(left), share)) + 1 if 0 < share < 1 else 1
        left *= 1 - share
    return total
