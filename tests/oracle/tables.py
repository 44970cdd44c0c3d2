"""Exact output tables of small instances of the mechanisms: rows are inputs, columns are outputs.

Each function takes the likelihood ratio e^epsilon as a number (a Fraction keeps everything exact) and
returns a dictionary from inputs to laws; a law is a dictionary from outputs to probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb
from typing import TypeVar

Number = TypeVar("Number", Fraction, float)
Law = dict[Hashable, Fraction | float]
Laws = dict[Hashable, Law]


def normalised(weights: dict[Hashable, Number]) -> Law:
    """The law proportional to the given weights."""
    total = sum(weights.values())
    return {output: weight / total for output, weight in weights.items()}


def total_variation(first: Law, second: Law) -> Fraction | float:
    """Sum of max(0, P - Q)."""
    return sum(max(p - second.get(output, 0), 0) for output, p in first.items())


def worst_total_variation(laws: Laws) -> Fraction | float:
    """The largest total variation of any two inputs."""
    return max(total_variation(first, second) for first, second in permutations(laws.values(), 2))


def worst_ratio(laws: Laws) -> Fraction | float:
    """The largest likelihood ratio of any two inputs; all laws must have the same support."""
    outputs = {output for law in laws.values() for output in law}
    columns = [[law[output] for law in laws.values()] for output in outputs]
    return max(max(column) / min(column) for column in columns)


def as_rows(laws: Laws) -> list[list[Fraction]]:
    """The table as rows over one common order of the outputs."""
    outputs = list(dict.fromkeys(output for law in laws.values() for output in law))
    return [[Fraction(law.get(output, 0)) for output in outputs] for law in laws.values()]


def priv_set(options: int, held: int, size: int, ratio: Number) -> Laws:
    """The user holds a set of `held` options; the output is a `size`-subset, likelier if it meets the set."""
    outputs = [frozenset(subset) for subset in combinations(range(options), size)]
    return {
        frozenset(own): normalised({y: ratio if y & set(own) else ratio / ratio for y in outputs})
        for own in combinations(range(options), held)
    }


def local_hash(options: int, length: int, ratio: Number) -> Laws:
    """x -> (a, b, randomized response on a x + b mod length); pairwise independent for prime length."""
    if options > length:
        raise ValueError("local_hash: the affine family needs options <= length")
    laws: Laws = {}
    for x in range(options):
        weights = {
            (a, b, y): ratio if y == (a * x + b) % length else ratio / ratio
            for a, b, y in product(range(length), repeat=3)
        }
        laws[x] = normalised(weights)
    return laws


def sampled_bit(options: int, held: int, ratio: Number) -> Laws:
    """Sample one of the positions uniformly and report its bit by randomized response."""
    laws: Laws = {}
    for own in combinations(range(options), held):
        weights = {}
        for position, bit in product(range(options), (0, 1)):
            weights[position, bit] = ratio if bit == (position in own) else ratio / ratio
        laws[own] = normalised(weights)
    return laws


def sampled_item_rappor(options: int, held: int, ratio_of_bit: Number) -> Laws:
    """Sample one of the held items uniformly; report its one-hot vector, every bit by randomized response."""
    laws: Laws = {}
    for own in combinations(range(options), held):
        law: Law = {}
        for bits in product((0, 1), repeat=options):
            chance = 0
            for item in own:
                kept = sum(bit == (position == item) for position, bit in enumerate(bits))
                chance += ratio_of_bit**kept / (ratio_of_bit + 1) ** options
            law[bits] = chance / held
        laws[own] = law
    return laws


def priv_kv(keys: int, held: int, ratio_key: Number, ratio_value: Number) -> Laws:
    """Sample a key; report whether it is held (first ratio) and a sign (second ratio).

    The inputs are sets of held keys with signs; the reports are (key, 1, sign) or (key, 0, 0).
    """
    keep_key, keep_value = ratio_key / (ratio_key + 1), ratio_value / (ratio_value + 1)
    laws: Laws = {}
    for own in combinations(range(keys), held):
        for signs in product((-1, 1), repeat=held):
            values, law = dict(zip(own, signs, strict=True)), {}
            for key in range(keys):
                sent = keep_key if key in values else 1 - keep_key
                law[key, 0, 0] = (1 - sent) / keys
                for sign in (-1, 1):
                    right = keep_value if sign == values.get(key) else 1 - keep_value
                    chance = sent * right if key in values else sent / 2
                    law[key, 1, sign] = chance / keys
            laws[tuple(values.items())] = law
    return laws


def duchi(dimension: int, ratio: Number, ties_in_both: bool) -> Laws:
    """Vectors of signs: the output is likelier if its inner product with the input is positive.

    With `ties_in_both`, as often described: draw uniformly from {t : t.v >= 0} with probability
    e^eps / (e^eps + 1), else uniformly from {t : t.v <= 0}. Otherwise ties have weight 1.
    """
    cube = list(product((-1, 1), repeat=dimension))
    laws: Laws = {}
    for own in cube:
        scores = {t: sum(x * y for x, y in zip(own, t, strict=True)) for t in cube}
        if not ties_in_both:
            laws[own] = normalised({t: ratio if scores[t] > 0 else ratio / ratio for t in cube})
            continue
        half = sum(score >= 0 for score in scores.values())
        up, down = ratio / (ratio + 1) / half, 1 / (ratio + 1) / half
        laws[own] = {t: up * (scores[t] >= 0) + down * (scores[t] <= 0) for t in cube}
    return laws


def hadamard_sign(row: int, column: int) -> int:
    """The entry of the Sylvester matrix: +1 or -1."""
    return -1 if (row & column).bit_count() % 2 else 1


def hadamard_block(block_size: int, value: int) -> int:
    """The block that owns the value: every block serves block_size - 1 values."""
    return value // (block_size - 1)


def hadamard_support(block_size: int, value: int) -> frozenset[int]:
    """The outputs that support the value: half of its block."""
    block, row = hadamard_block(block_size, value), 1 + value % (block_size - 1)
    return frozenset(block * block_size + y for y in range(block_size) if hadamard_sign(row, y) == 1)


def hadamard_response(options: int, outputs: int, blocks: int, ratio: Number) -> Laws:
    """Weight e^eps on the support of the value, 1 elsewhere."""
    size = outputs // blocks
    if options > blocks * (size - 1):
        raise ValueError("hadamard_response: too few outputs")
    return {
        x: normalised({y: ratio if y in hadamard_support(size, x) else ratio / ratio for y in range(outputs)})
        for x in range(options)
    }


def arc_hit(
    places: int,
    arc: int,
    held: Sequence[int],
    query: int,
    hashes: Iterable[Callable[[int], int]],
    ratio: Fraction,
) -> Fraction:
    """Probability that the report lies on the query's arc, averaged over the hash functions.

    Every item hashes to a place on a circle and covers `arc` places from there. The report has density
    e^eps / Omega on the union C of the held items' arcs and (Omega - |C| e^eps) / ((1 - |C|) Omega) off it,
    Omega = s l e^eps + 1 - s l with l = arc / places. arc = 1 is the Collision mechanism.
    """
    omega = len(held) * arc * ratio + places - len(held) * arc
    total, count = Fraction(0), 0
    for place in hashes:
        union = {(place(item) + step) % places for item in held for step in range(arc)}
        inside = ratio / omega
        outside = (1 - len(union) * inside) / (places - len(union))
        asked = {(place(query) + step) % places for step in range(arc)}
        total += sum((inside if y in union else outside for y in asked), start=Fraction(0))
        count += 1
    return total / count


def affine_family(prime: int) -> list[Callable[[int], int]]:
    """All x -> a x + b mod prime: exactly pairwise independent, not three-wise."""
    return [lambda x, a=a, b=b: (a * x + b) % prime for a in range(prime) for b in range(prime)]


def all_functions(items: int, places: int) -> list[Callable[[int], int]]:
    """All functions from the items to the places: fully independent."""
    return [lambda x, values=values: values[x] for values in product(range(places), repeat=items)]


def pi_rappor(options: int, prime: int, ones: int, keep: Fraction) -> Laws:
    """Messages (phi0, phi1); the own bit [phi0 + j phi1 mod prime < ones] is 1 with probability `keep`."""
    laws: Laws = {}
    for j in range(options):
        law: Law = {}
        for phi0, phi1 in product(range(prime), repeat=2):
            bit = (phi0 + j * phi1) % prime < ones
            law[phi0, phi1] = (keep / ones if bit else (1 - keep) / (prime - ones)) / prime
        laws[j] = law
    return laws


def parallel_range_query(levels: int, ratio: Number) -> Laws:
    """Sample a level of the binary tree over 2^levels values; randomized response on the node there."""
    laws: Laws = {}
    for x in range(2**levels):
        law: Law = {}
        for level in range(levels):
            nodes = 2 ** (levels - level)
            for y in range(nodes):
                chance = (ratio if y == x >> level else ratio / ratio) / (ratio + nodes - 1)
                law[level, y] = chance / levels
        laws[x] = law
    return laws


def priv_set_total_variation(options: int, held: int, size: int, ratio: Number) -> Number:
    """Closed form of the largest total variation of `priv_set`."""
    meets = comb(options, size) - comb(options - held, size)
    apart = comb(options - 2 * held, size) if options >= 2 * held else 0
    gap = comb(options - held, size) - apart
    return (ratio - 1) * gap / (ratio * meets + comb(options - held, size))
