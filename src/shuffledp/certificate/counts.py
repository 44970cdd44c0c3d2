"""E(S)_+ of a sum of n independent draws by counting how many of them take each value.

- enumeration: every vector of counts, in exact fractions where the law is given in them;
- binomial sums: every count of the middle values; given these, the two outermost values share the rest by a binomial
  law, whose tails are incomplete beta functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from flint import arb, fmpq

from shuffledp.numerics.ball import precision

Number = fmpq | arb
"""A probability or a value: an exact rational, or a ball that contains it."""
Atom = tuple[Number, Number]
"""A value of G and its weight."""

ZERO = fmpq(0)
MOST_VECTORS = 3_000
MOST_ATOMS_OF_A_VECTOR = 40
MOST_BITS = 100_000
"""Length of the exact fractions that enumeration may meet."""
MOST_BINOMIALS = 50_000
NEGLIGIBLE = 1e-15
"""Counts whose whole contribution is below this share of the target are only bounded."""
MOST_USERS_OF_BINOMIALS = 1_500
PROOF_BITS = 512


def positive(number: Number) -> Number:
    """The number where it is above 0, else 0."""
    return number.max(arb(0)) if isinstance(number, arb) else max(number, fmpq(0))


# --- small n: every vector of counts ------------------------------------------------------------------------------


def few_vectors(atoms: Sequence[Atom], users: int) -> bool:
    if users == 1:
        return True
    bits = max(int(weight.q).bit_length() if isinstance(weight, fmpq) else 0 for _, weight in atoms)
    few = math.comb(users + len(atoms) - 1, users) <= MOST_VECTORS
    return few and len(atoms) <= MOST_ATOMS_OF_A_VECTOR and users * bits <= MOST_BITS


def enumerated(atoms: Sequence[Atom], users: int, target: Number = ZERO) -> Number:
    """E(S)_+, exactly where the law is; ``target`` does not matter here."""
    if users == 1:
        return _total(weight * positive(value) for value, weight in atoms)
    powers = [_powers(weight, users) for _, weight in atoms]

    def visit(index: int, left: int, chance: Number, total: Number) -> Number:
        value = atoms[index][0]
        if index == len(atoms) - 1:
            return chance * powers[index][left] * positive(total + left * value)
        return _total(
            visit(index + 1, left - k, chance * math.comb(left, k) * powers[index][k], total + k * value)
            for k in range(left + 1)
        )

    return visit(0, users, fmpq(1), fmpq(0))


def _powers(weight: Number, most: int) -> list[Number]:
    result: list[Number] = [fmpq(1)]
    for _ in range(most):
        result.append(result[-1] * weight)
    return result


def _total(numbers: Iterable[Number]) -> Number:
    total: Number = fmpq(0)
    for number in numbers:
        total = total + number
    return total


# --- moderate n: binomial sums ------------------------------------------------------------------------------------


def few_binomials(atoms: Sequence[Atom], users: int) -> bool:
    middle = len(atoms) - 2
    few = middle >= 0 and math.comb(users + middle, middle) <= MOST_BINOMIALS
    return few and users <= MOST_USERS_OF_BINOMIALS


def binomial_sums(atoms: Sequence[Atom], users: int, target: Number = ZERO) -> arb:
    """E(S)_+ as a ball, its width of no weight against ``target``.

    Given the counts of the middle values, c messages are left for the outermost two; k of them on the larger one with
    probability C(c,k)·ρ^k(1−ρ)^(c−k). Then S = base + k·gap, and E(S)_+ is the largest over K of
    E[S; k ≥ K] = gap·c·ρ·P(Bin(c−1, ρ) ≥ K−1) + base·P(Bin(c, ρ) ≥ K), attained at the least K with S > 0.
    """
    # With as many bits as there are terms, flint sums the finite series of the incomplete beta function.
    with precision(users + PROOF_BITS):
        (bottom, bottom_weight), *middle, (top, top_weight) = sorted(atoms, key=lambda atom: float(arb(atom[0]).mid()))
        gap, outer = top - bottom, bottom_weight + top_weight
        share = arb(top_weight) / arb(outer)
        powers = [_powers(arb(weight), users) for weight in (outer, *(weight for _, weight in middle))]
        factorials = [arb(math.factorial(k)) for k in range(users + 1)]
        total, left_out = arb(0), arb(0)
        most = users * arb(top)
        negligible = arb(target) * NEGLIGIBLE / most / math.comb(users + len(middle), len(middle))
        for counts in _compositions(users, len(powers)):
            c = counts[0]
            chance = factorials[users]
            for k, power in zip(counts, powers, strict=True):
                chance = chance * power[k] / factorials[k]
            if chance <= negligible:
                left_out += chance
                continue
            base = c * bottom + _total(k * value for k, (value, _) in zip(counts[1:], middle, strict=True))
            candidates = [k for k in _least(base, gap) if k <= c]
            if not candidates:
                continue
            inner = arb(0)
            for least in candidates:
                part = arb(base) * _tail(c, least, share)
                if c:
                    part += arb(gap) * c * share * _tail(c - 1, least - 1, share)
                inner = inner.max(part)
            total += chance * inner
        return total.union(total + left_out * most)


def _least(base: Number, gap: Number) -> range:
    """The least k ≥ 0 with base + k·gap > 0; where balls leave it open, all that it may be."""
    if isinstance(base, fmpq) and isinstance(gap, fmpq):
        quotient = -base / gap
        least = max(0, int(quotient.p) // int(quotient.q) + 1)
        return range(least, least + 1)
    ball = -arb(base) / arb(gap)
    return range(max(0, _floor(ball.lower()) + 1), max(0, _floor(ball.upper()) + 1) + 1)


def _floor(number: arb) -> int:
    """The floor of an exact ball."""
    mantissa, exponent = map(int, number.man_exp())
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


def _tail(trials: int, least: int, share: arb) -> arb:
    """P(Bin(trials, share) ≥ least)."""
    if least <= 0:
        return arb(1)
    if least > trials:
        return arb(0)
    return share.beta_lower(least, trials - least + 1, regularized=True)


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for head in range(total + 1):
        for tail in _compositions(total - head, parts - 1):
            yield (head, *tail)
