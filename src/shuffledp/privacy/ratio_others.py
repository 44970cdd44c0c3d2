"""All that bounded ratios allow: every law of a third user's message where only ratios of laws are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from flint import arb, fmpq, fmpq_mat

from shuffledp.numerics.ball import precision, round_down
from shuffledp.privacy.others import BITS, KnownOthers, Others
from shuffledp.privacy.pair import HidingPair, exact_pair

Point = tuple[fmpq, fmpq]
"""The two inputs' probabilities of a message, in units of the other user's."""
ONE = fmpq(1)


def of_ratios(between: fmpq, first: fmpq, second: fmpq, variation: fmpq | None = None) -> Others:
    """Every randomizer whose two laws differ by a factor of at most ``between``, and from any other user's by at most
    ``first`` and ``second``, all ways, with a total variation of at most ``variation``, and every crowd.

    Theorem: with a message of the other user's law R, (X, Y) = (P/R, Q/R) is in the polygon X ≤ p·Y, Y ≤ p·X, 1/q0 ≤ X
    ≤ q0, 1/q1 ≤ Y ≤ q1, with means (1, 1). G = X − e^ε·Y is a function of it, so that moving (X, Y) to corners, the
    mean kept, spreads G: the laws on corners with these means are mixtures of those on three corners at most. Where
    E(X−Y)_+ is bounded, the polygon is cut along X = Y, on either side of which it is linear: one more equation, four
    corners at most.
    Requires: both ways. γ = 1/min(q0, q1): everybody's law is at least that times user 1's.
    """
    corners = _corners(between, first, second, cut=variation is not None)
    kinds = dict.fromkeys(_pair(law) for law in _extreme_laws(corners, variation))
    with precision(BITS):
        gamma = round_down(1 / arb(min(first, second)))
    return KnownOthers(gamma, symmetric=first == second, given=tuple(kinds))


def of_cut_ratios(ratio: fmpq, lacking: fmpq) -> Others:
    """Every three laws P, Q, R of masses 1, κ and κ, κ = 1 − ``lacking``, within ``ratio`` of each other; P and Q are
    in units of κ.

    Theorem: as ``of_ratios``, with the means (1/κ, 1) of (P/R, Q/R); what R lacks to 1 is revealed. γ = κ/p.
    """
    corners = _corners(ratio, ratio, ratio, cut=False)
    kept = 1 - lacking
    kinds = dict.fromkeys(_pair(law, kept) for law in _extreme_laws(corners, None, (1 / kept, ONE)))
    with precision(BITS):
        gamma = round_down(arb(kept / ratio))
    return KnownOthers(gamma, symmetric=True, given=tuple(kinds))


def _corners(p: fmpq, q0: fmpq, q1: fmpq, *, cut: bool) -> list[Point]:
    """Of the polygon, and where X = Y leaves it."""
    # (a, b, c): a·X + b·Y ≤ c.
    sides = [
        (ONE, -p, fmpq(0)), (-p, ONE, fmpq(0)), (ONE, fmpq(0), q0), (-ONE, fmpq(0), -1 / q0), (fmpq(0), ONE, q1),
        (fmpq(0), -ONE, -1 / q1),
    ]  # fmt: skip
    lines = [*sides, (ONE, -ONE, fmpq(0))] if cut else sides
    found = []
    for (a, b, c), (d, e, f) in combinations(lines, 2):
        determinant = a * e - b * d
        if determinant != 0:
            point = (c * e - b * f) / determinant, (a * f - c * d) / determinant
            if all(u * point[0] + v * point[1] <= w for u, v, w in sides):
                found.append(point)
    return list(dict.fromkeys(found))


def _extreme_laws(
    corners: Sequence[Point], variation: fmpq | None, means: Point = (ONE, ONE)
) -> Iterator[list[tuple[fmpq, Point]]]:
    """Chances of corners with these means, as few of them as can be; with a bound, at it or below it."""
    rows = [[ONE for _ in corners], [x for x, _ in corners], [y for _, y in corners]]
    wanted = [ONE, *means]
    for law in _solutions(corners, rows, wanted):
        if variation is None or sum((w * max(x - y, fmpq(0)) for w, (x, y) in law), fmpq(0)) <= variation:
            yield law
    if variation is not None:
        excess = [max(x - y, fmpq(0)) for x, y in corners]
        yield from _solutions(corners, [*rows, excess], [*wanted, variation])


def _solutions(
    corners: Sequence[Point], rows: Sequence[Sequence[fmpq]], wanted: Sequence[fmpq]
) -> Iterator[list[tuple[fmpq, Point]]]:
    """Weights of at least 0 on as many corners as there are equations."""
    size = len(rows)
    right = fmpq_mat(size, 1, list(wanted))
    for chosen in combinations(range(len(corners)), size):
        matrix = fmpq_mat(size, size, [row[k] for row in rows for k in chosen])
        if matrix.det() == 0:
            continue
        weights = [matrix.solve(right)[k, 0] for k in range(size)]
        if min(weights) >= 0:
            yield [(weight, corners[k]) for weight, k in zip(weights, chosen, strict=True) if weight > 0]


def _pair(law: Sequence[tuple[fmpq, Point]], kept: fmpq = ONE) -> HidingPair:
    return exact_pair(sorted((w * x, w * y, w * kept) for w, (x, y) in law), symmetric=False)
