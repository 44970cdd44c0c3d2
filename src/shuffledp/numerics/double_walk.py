"""E[(G_1 + … + G_n)_+] for a G with four values, exactly, when few pairs of counts matter.

As in the walk, c counts the summands on the top or bottom value. Given c, the number m on the third value is
binomial and independent of the split a of c, so with T = B·m + C·(n−c−m) and thresholds k(c, m)

    E(S)_+ = Σ_c P(c) Σ_m P(m | c) · { (c·μ + T)·P(a ≥ k) + (A0−A1)(1−θ)·k·P(a = k) }.

k depends on m only through an integer part, so neighbouring m share it and are summed up first. Counts outside
the windows contribute at least 0 and at most n·A0 times their probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from flint import arb

from shuffledp.numerics.ball import precision, until_sharp
from shuffledp.numerics.binomial import Coin, Window, point_mass, window
from shuffledp.numerics.finite_law import Bracket, FiniteLaw, from_the_top
from shuffledp.numerics.walk import FIRST_BITS


@dataclass(frozen=True)
class FourValues:
    """A law sorted as top A0, bottom A1 and two values B, C between them."""

    top: arb
    bottom: arb
    third: arb
    fourth: arb
    split: Coin
    """Whether G is top, given that it is top or bottom: θ."""
    inner: Coin
    """Whether G is third, given that it is third or fourth."""
    extreme: Coin
    """Whether G is top or bottom."""

    @classmethod
    def of(cls, law: FiniteLaw) -> FourValues:
        atoms = from_the_top(law.atoms())
        (top, w_top), (third, w_third), (fourth, w_fourth), (bottom, w_bottom) = atoms
        return cls(
            top,
            bottom,
            third,
            fourth,
            split=Coin.of_weights(w_top, w_bottom),
            inner=Coin.of_weights(w_third, w_fourth),
            extreme=Coin.of_weights(w_top + w_bottom, w_third + w_fourth),
        )


def steps(law: FiniteLaw, count: int, log_mass: float) -> int:
    """About how many pairs of counts, and tails for them, would be visited."""
    with precision(FIRST_BITS):
        values = FourValues.of(law)
        outer = window(count, values.extreme, log_mass)
        inner = window(count, values.inner, log_mass)
    return (outer.high - outer.low + 1) * (inner.high - inner.low + 1 + outer.high)


def bracket(law: FiniteLaw, count: int, log_mass: float) -> Bracket:
    """Certified enclosure of E(S)_+; exp(log_mass) is what each window may leave out on each side."""

    def compute() -> tuple[arb, arb]:
        values = FourValues.of(law)
        outer = window(count, values.extreme, log_mass)
        total, outside = arb(0), outer.outside
        for c in range(outer.low, outer.high + 1):
            inner = window(count - c, values.inner, log_mass)
            total += point_mass(count, c, values.extreme) * _given(values, count, c, inner)
            outside = outside + inner.outside
        return total, outside * values.top * count

    total, left_out = until_sharp(compute, FIRST_BITS)
    return Bracket(total.lower(), (total + left_out).upper(), "double walk")


def _given(values: FourValues, count: int, c: int, span: Window) -> arb:
    """E[(S)_+ | c], over the window of m."""
    split = values.split
    tails, points = _tails(c, split)
    base = c * (split.success * values.top + split.failure * values.bottom)
    point_factor = (values.top - values.bottom) * split.failure
    total, doubt = arb(0), arb(0)
    for k, tied, mass, moment, tie in _groups(values, count, c, span):
        if k <= c:
            total += (base * mass + moment) * tails[k] + point_factor * (points[k] * k) * mass
            if tied:
                doubt += mass * points[k] * tie
    return total + doubt.union(arb(0))


def _tails(c: int, split: Coin) -> tuple[list[arb], list[arb]]:
    """P(Bin(c, θ) ≥ k) and P(= k) for k = 0 … c."""
    points = [split.failure**c]
    odds = split.success / split.failure
    for k in range(c):
        points.append(points[-1] * odds * (c - k) / (k + 1))
    tails = [arb(0)] * (c + 1)
    running = arb(0)
    for k in range(c, -1, -1):
        running += points[k]
        tails[k] = running
    return tails, points


def _groups(values: FourValues, count: int, c: int, span: Window) -> Iterator[tuple[int, bool, arb, arb, arb]]:
    """Runs of m with one threshold: (k, tied, Σ P(m), Σ P(m)·T, |S| at the tie)."""
    rest = count - c
    width = values.top - values.bottom
    step = values.third - values.fourth
    level = values.fourth * rest + step * span.low
    start, slope = (-(level + values.bottom * c)) / width, -step / width
    float_start, float_slope = float(start.mid()), float(slope.mid())
    guard = 1e-13 * (abs(float_start) + abs(float_slope) * rest + 1.0)
    chance = point_mass(rest, span.low, values.inner)
    odds = values.inner.success / values.inner.failure
    group: int | None = None
    mass, moment = arb(0), arb(0)
    for m in range(span.low, span.high + 1):
        low = float_start + float_slope * (m - span.low)
        nearest = round(low)
        k, tied = max(0, math.floor(low) + 1), False
        if abs(low - nearest) <= guard:
            exact = start + slope * (m - span.low)
            tied = not (exact < nearest or exact > nearest)
            k = max(0, nearest + 1 if exact > nearest else nearest)
        if k != group or tied:
            if group is not None:
                yield group, False, mass, moment, arb(0)
            group, mass, moment = k, arb(0), arb(0)
        if tied:
            size = (k * values.top + (c - k) * values.bottom + level).abs_upper()
            yield k, nearest >= 0, chance, chance * level, size
            group = None
        else:
            mass += chance
            moment += chance * level
        chance = chance * odds * (rest - m) / (m + 1)
        level += step
    if group is not None:
        yield group, False, mass, moment, arb(0)
