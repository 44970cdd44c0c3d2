"""E[(G_1 + … + G_n)_+] by visiting every vector of counts: for small n, and the measure of the other routes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flint import arb

from shuffledp.numerics.ball import precision
from shuffledp.numerics.finite_law import Bracket, FiniteLaw

BITS = 192


def size(values: int, count: int) -> int:
    """Number of count vectors."""
    return math.comb(count + values - 1, values - 1)


def bracket(law: FiniteLaw, count: int) -> Bracket:
    """Certified enclosure of E(S)_+."""
    with precision(BITS):
        atoms = list(law.atoms())
        powers = [_powers(weight, count) for _, weight in atoms]
        total = arb(0)
        for chance, value in _visit([value for value, _ in atoms], powers, count):
            total += chance * value.max(arb(0))
        return Bracket(total.lower(), total.upper(), "enumeration")


def _powers(weight: arb, count: int) -> list[arb]:
    """weight^k / k! for k = 0 … count."""
    result = [arb(1)]
    for k in range(1, count + 1):
        result.append(result[-1] * weight / k)
    return result


def _visit(values: list[arb], powers: list[list[arb]], count: int) -> Iterator[tuple[arb, arb]]:
    """(probability, sum) of every count vector; the multinomial factor count! is folded into the start."""
    last = len(values) - 1

    def descend(index: int, left: int, chance: arb, value: arb) -> Iterator[tuple[arb, arb]]:
        if index == last:
            yield chance * powers[last][left], value + values[last] * left
            return
        for k in range(left + 1):
            yield from descend(index + 1, left - k, chance * powers[index][k], value + values[index] * k)

    yield from descend(0, count, arb(count).fac() if count < 1 else arb.fac_ui(count), arb(0))
