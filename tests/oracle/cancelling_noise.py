"""Cancelling noise by brute force: users' shares convolved one by one, and all counts of two options enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from mpmath import mp, mpf

Law = list[mpf]
ROUNDING = 1e-12


def noise_share_law(shape: mpf, ratio: mpf, cut: int) -> Law:
    """A negative binomial law up to a number of messages, by its generalised binomial coefficients."""
    return [mp.binomial(shape + k - 1, k) * ratio**k * (1 - ratio) ** shape for k in range(cut + 1)]


def convolve(first: Law, second: Law, cut: int) -> Law:
    """The law of a sum, up to the cut."""
    return [sum(first[i] * second[k - i] for i in range(k + 1)) for k in range(cut + 1)]


def total_noise_law(users: int, whole: int, shape: mpf, ratio: mpf, cut: int) -> Law:
    """What so many users add together, where ``whole`` of them would add a negative binomial number of this shape."""
    one, total = noise_share_law(shape / whole, ratio, cut), [mpf(1)] + [mpf(0)] * cut
    for _ in range(users):
        total = convolve(total, one, cut)
    return total


def pair_law(users: int, whole: int, rate: float, shape: float, ratio: float, cut: int) -> dict[tuple[int, int], mpf]:
    """How many messages there are for an option and against it; what is beyond the cut is missing."""
    single = total_noise_law(users, whole, mpf(1), mp.exp(-mpf(rate)), cut)
    flood = total_noise_law(users, whole, mpf(shape), mpf(ratio), cut)
    law: dict[tuple[int, int], mpf] = {}
    for x, y, f in itertools.product(range(cut + 1), repeat=3):
        place = x + f, y + f
        law[place] = law.get(place, mpf(0)) + single[x] * single[y] * flood[f]
    return law


def divergence(law: dict[tuple[int, int], mpf], epsilon: float, moves: Sequence[int]) -> tuple[float, float]:
    """D of two datasets that differ in these options, from below and above: 1 takes a message away, −1 adds one.

    What the cut leaves out counts nothing from below, and in full from above.
    """
    factor = math.exp(epsilon)
    shifted = {(u + 1, v): chance for (u, v), chance in law.items()}
    places = list(set(law) | set(shifted))
    here, there = (np.array([float(world.get(place, 0)) for place in places]) for world in (law, shifted))
    first, second = np.ones(1), np.ones(1)
    for move in moves:
        before, after = (there, here) if move == 1 else (here, there)
        first, second = np.outer(first, before).ravel(), np.outer(second, after).ravel()
    total = float(np.maximum(0.0, first - factor * second).sum())
    missing = len(moves) * float(1 - sum(law.values())) + ROUNDING
    return total - factor * missing, total + missing
