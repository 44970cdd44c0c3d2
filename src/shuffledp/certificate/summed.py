"""Noise on a sum, or on a vector of sums, that one user moves: its divergence, from both sides, a second time."""

from __future__ import annotations

import math
from fractions import Fraction

from flint import arb, arb_poly, fmpq

from shuffledp.certificate.line import Sides
from shuffledp.certificate.moved import negative_binomial

MOST_VALUES = 1 << 18
"""Values of the noise that are looked at one by one."""
LARGEST_ORDER = 10**6


def laplace_sum(rate: Fraction, shift: int, epsilon: Fraction) -> Sides:
    """P(z) = (1−q)/(1+q)·q^|z|, q = e^−rate, on a sum that moves by up to ``shift`` = s.

    Theorem: P(z) − e^ε·P(z−s) is P(z)·(1 − e^ε·q^s) for z ≤ 0, (1−q)/(1+q)·(q^z − e^ε·q^(s−z)) for 0 < z < s, and
    nowhere positive beyond. The second is positive as long as 2z < s − ε/rate, and both are geometric series. Less of a
    shift is never worse: P falls on either side of 0. The law is its own mirror image, and so both directions are one.
    """
    if epsilon >= rate * shift:
        return Sides(arb(0), arb(0))
    last = max(0, min(shift - 1, math.ceil((shift - epsilon / rate) / 2) - 1))
    rate_, far = arb(_exact(rate)), arb(_exact(epsilon - rate * shift)).exp()
    q, power = (-rate_).exp(), (-rate_ * last).exp()
    inner = q * (1 - power) - far * (1 / power - 1)
    value = ((1 - far) + inner) / (1 + q)
    return Sides(value.lower(), value.upper())


def polya_sum(rate: Fraction, shift: int, shape: Fraction, factor: arb, left_out: float) -> Sides | None:
    """The same where the noise is a difference of negative binomials of this shape, at most 1; None where it is long.

    Theorem: Σ_z (P(z) − e^ε·P(z−s))₊ over a table, by the product of two power series, all but the edge; with P' ≤ P
    and Q' ≤ Q it is at most (P' − e^ε·Q')₊ + P − P'. P falls on either side of 0, as negative binomials of shape at
    most 1 do from 0 on: only z < s/2 count.
    """
    size = math.ceil(-math.log(left_out) / float(rate)) + 1
    if size > MOST_VALUES:
        return None
    chances = negative_binomial(arb(_exact(shape)), (-arb(_exact(rate))).exp(), size)
    product = arb_poly(chances) * arb_poly(chances[::-1])
    # P(z) stands at size − 1 + z; it lacks what only larger numbers make.
    missing = (1 - sum(chances, arb(0))).upper().max(arb(0))
    lower, upper = arb(0), arb(0)
    for z in range(1 - size, min(size, (shift + 1) // 2)):
        here = product[size - 1 + z]
        there = product[size - 1 + z - shift] if z - shift > -size else arb(0)
        cell = here - factor * there
        upper += cell.max(arb(0))
        if cell > 0:
            lower += cell
    spread = 2 * missing
    return Sides((lower - factor * spread).lower().max(arb(0)), (upper + spread).upper())


def bounded_loss(largest: Fraction, epsilon: Fraction) -> Sides:
    """Any noise whose losses are at most ε₀: a coin that shows the truth with probability e^ε₀/(1 + e^ε₀) tells more.

    From below it says nothing.
    """
    if epsilon >= largest:
        return Sides(arb(0), arb(0))
    low, high = arb(_exact(epsilon)).exp(), arb(_exact(largest)).exp()
    return Sides(arb(0), ((high - low) / (1 + high)).upper())


def skellam_sums(variance: Fraction, square: Fraction, total: Fraction, epsilon: Fraction) -> Sides:
    """Skellam noise of this variance on each of several sums, which one user changes by Δ₂² ≤ square, Δ₁ ≤ total.

    Theorem: [Agarwal, Kairouz, Liu 2021] Theorem 3.5 for each whole order, turned into δ by [Canonne, Kamath, Steinke
    2020] Proposition 12; any order is sound, and the best one is searched here from the smallest on, by doubling and
    halving. From below it says nothing.
    """

    def log_delta(order: int) -> arb:
        half = square / (2 * variance)
        rest = min(((2 * order - 1) * square + 6 * total) / (4 * variance**2), 3 * total / (2 * variance))
        grown = (order - 1) * (order * half + rest - epsilon)
        return arb(_exact(grown)) + (order - 1) * arb(fmpq(order - 1, order)).log() - arb(order).log()

    low, high = 2, 4
    while high < LARGEST_ORDER and log_delta(high) < log_delta(high // 2):
        low, high = high // 2, 2 * high
    while high - low > 2:
        third = (high - low) // 3 or 1
        if log_delta(low + third) < log_delta(high - third):
            high -= third
        else:
            low += third
    best = min((log_delta(order) for order in range(low, high + 1)), key=lambda found: float(found.mid()))
    return Sides(arb(0), best.exp().upper())


def _exact(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)
