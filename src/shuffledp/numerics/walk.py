"""E[(G_1 + … + G_n)_+] for a G with at most three values, exactly, in O(√n) steps.

Let A0 > A2 > A1 be the values and c the number of summands on A0 or A1. Given c, the number a on A0 is
Bin(c, θ), and the sum is positive iff a > low_c = −(c·A1 + (n−c)·A2)/(A0−A1). With k_c = ⌊low_c⌋ + 1 and
E[(a − cθ)·1{a ≥ k}] = k(1−θ)·P(a = k),

    E(S)_+ = Σ_c P(c) · { [c·μ + (n−c)·A2]·P(a ≥ k_c) + (A0−A1)(1−θ)·k_c·P(a = k_c) },   μ = θA0 + (1−θ)A1.

low_c is linear in c with slope in (0, 1), so from c to c−1 the threshold moves by 0 or 1 and both P(a ≥ k) and
P(a = k) follow by one multiplication each. c walks downwards, the way in which tails grow, so digits are kept.
Counts outside a window contribute at least 0 and at most n·A0 times their probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from flint import arb

from shuffledp.numerics.ball import precision, until_sharp
from shuffledp.numerics.binomial import Coin, Window, point_mass, upper_tail, window
from shuffledp.numerics.finite_law import Bracket, FiniteLaw, from_the_top

FIRST_BITS = 128


@dataclass(frozen=True)
class ThreeValues:
    """A law sorted as top A0, bottom A1, middle A2; a middle weight of exactly 0 where it has two values only."""

    top: arb
    bottom: arb
    middle: arb
    top_weight: arb
    bottom_weight: arb
    middle_weight: arb

    @classmethod
    def of(cls, law: FiniteLaw) -> ThreeValues:
        atoms = from_the_top(law.atoms())
        (top, top_weight), (bottom, bottom_weight) = atoms[0], atoms[-1]
        middle, middle_weight = atoms[1] if len(atoms) == 3 else (arb(0), arb(0))
        return cls(top, bottom, middle, top_weight, bottom_weight, middle_weight)

    @property
    def extreme(self) -> Coin:
        """Whether G is top or bottom."""
        return Coin.of_weights(self.top_weight + self.bottom_weight, self.middle_weight)

    @property
    def split(self) -> Coin:
        """Whether G is top, given that it is top or bottom: θ."""
        return Coin.of_weights(self.top_weight, self.bottom_weight)


def steps(law: FiniteLaw, count: int, log_mass: float) -> int:
    """About how many counts the walk would visit, with the terms of the tail that it starts from."""
    with precision(FIRST_BITS):
        span = window(count, ThreeValues.of(law).extreme, log_mass)
    return span.high - span.low + 1 + 4 * math.isqrt(span.high)


def bracket(law: FiniteLaw, count: int, log_mass: float) -> Bracket:
    """Certified enclosure of E(S)_+; exp(log_mass) is the probability that the window may leave out on each side."""

    def compute() -> tuple[arb, arb]:
        values = ThreeValues.of(law)
        span = window(count, values.extreme, log_mass)
        return _walk(values, count, span), span.outside * values.top * count

    total, left_out = until_sharp(compute, FIRST_BITS)
    return Bracket(total.lower(), (total + left_out).upper(), "walk")


def _walk(values: ThreeValues, count: int, span: Window) -> arb:
    extreme, split = values.extreme, values.split
    mean = split.success * values.top + split.failure * values.bottom
    inverse_success, inverse_failure = 1 / split.success, 1 / split.failure
    point_factor = (values.top - values.bottom) * split.failure
    step_down = extreme.failure / extreme.success
    level = span.high * mean + (count - span.high) * values.middle
    fall = mean - values.middle
    chance = point_mass(count, span.high, extreme)
    total, doubt = arb(0), arb(0)
    k = -1
    tail = point = arb(0)
    for c, threshold, tied in _thresholds(values, count, span):
        if threshold > c:
            break
        if k < 0 or threshold not in (k, k - 1):
            tail, point = upper_tail(c, threshold, split), point_mass(c, threshold, split)
        elif k > 0:
            moved = point * k / (c + 1)
            tail -= moved
            if threshold < k:
                point = moved * inverse_success
                tail += point
            else:
                point = point * (c + 1 - k) * inverse_failure / (c + 1)
        else:
            point = point * inverse_failure
        k = threshold
        total += chance * (level * tail + point_factor * (point * k))
        if tied:
            at_tie = (k * values.top + (c - k) * values.bottom + (count - c) * values.middle).abs_upper()
            doubt += chance * point * at_tie
        chance = chance * c * step_down / (count - c + 1)
        level -= fall
    return total + doubt.union(arb(0))


def _thresholds(values: ThreeValues, count: int, span: Window) -> Iterator[tuple[int, int, bool]]:
    """(c, k_c, tied) from the largest c down; k_c is at least 0; tied where low_c cannot be told from an integer.

    At a tie k_c is the integer itself: the sum there is a ball around 0, and its whole size is added as doubt.
    """
    width = values.top - values.bottom
    offset = -values.middle * count / width
    slope = (values.middle - values.bottom) / width
    float_offset, float_slope = float(offset.mid()), float(slope.mid())
    guard = 1e-14 * (abs(float_offset) + span.high + 1.0)
    for c in range(span.high, span.low - 1, -1):
        low = float_offset + float_slope * c
        nearest = round(low)
        if abs(low - nearest) > guard:
            yield c, max(0, math.floor(low) + 1), False
            continue
        exact = offset + slope * c
        if exact < nearest:
            yield c, max(0, nearest), False
        elif exact > nearest:
            yield c, max(0, nearest + 1), False
        else:
            yield c, max(0, nearest), nearest >= 0
