"""Two-sided geometric noise on a line: every crowd, from a few points that stand for all.

P_x is the law of x plus noise z of probability in proportion to λ^|z|, λ = e^−r, for whole x from 0 to g. Three facts
make the family small. Where u ≤ v, w = v − u, let α(y) = sinh((v−y)r)/sinh(wr), β(y) = sinh((y−u)r)/sinh(wr) for u ≤
y ≤ v.

Messages. Where no input is strictly between u and v, P_x(y) = α(y)·P_x(u) + β(y)·P_x(v) for every input x: both sides
are sums of λ^y and λ^−y, equal at u and at v. So the message y may be told as u or v instead, with α(y) and β(y) of
what these weigh: that tells more. What is below the first node or above the last is in proportion to it.

Crowds. P_x ≥ α(x)·P_u + β(x)·P_v for u ≤ x ≤ v: equal outside; inside, the difference D is 0 at both ends and D(y+1)
+ D(y−1) ≤ 2·cosh(r)·D(y), so that it has no minimum below 0. α + β ≥ 1/cosh(wr/2) = s. So the law of G is below a
mixture of those with s·P_u and s·P_v, the rest of either revealed.

Pairs. The law of G = (P_a − e^ε·P_b)/P_x, a < b, depends on x − a and b − x only. If x ≤ b it spreads (in convex
order) where b is raised by one: that moves mass of −e^ε·P_b from below, where G is anything, to above b, where it is
the least of all. If x ≥ a it spreads where a is lowered by one: that moves mass of P_a to below a, where G is the
largest (if G is nowhere above 0, nothing is told). So each other user, whatever the pair, is no better than one of
three kinds: with a ≤ x ≤ b, the ends as pair and x between them; with x < a, all shifted down by x and b raised: the
pair (a−x, g) and 0; with x > b the mirror image of that. The pair (u, g) and 0, for u' ≤ u ≤ u' + h, is no better
than the pair (u', g) and u' − u: shifted up by u − u', b is raised. So it is no better than the pair (u', g) and what
all points from −h to 0 have in common, the rest revealed: M = min(P_−h, P_0), by unimodality. M(y) is one of the two
outside of −h … 0; inside, α(y)·M(−h) + β(y)·M(0) is below both, so that a law with these values at the nodes is told
as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb

from shuffledp.numerics.ball import rational
from shuffledp.privacy.others import KnownOthers, Others
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass

NODES_OF_ONE, MOST_NODES = 32, 64
"""Messages that are told apart: for ε0 up to 1, then in proportion to ε0, and at the most."""
FINEST_GAP, WIDEST_GAP, SPREADING = 1 / 40, 1 / 8, 0.5
"""Between points that stand for all others, as a part of all where ε0 is at most 1; and how fast they grow."""
FINEST, NARROWEST = 4096, 1.15
"""Distances u that are told apart: the smallest, as a part of all, and the least ratio of one to the next."""


@dataclass(frozen=True)
class NodeClasses:
    """Classes of messages, told as some nodes: user 1 at ``first`` or ``second``, another user at one of ``thirds``.

    Of several thirds it is what they have in common. A single third's law counts as where neighbouring points that
    stand for all others are ``apart``.
    """

    rate: Fraction
    nodes: tuple[int, ...]
    first: int
    second: int
    thirds: tuple[int, ...]
    apart: int

    def __call__(self) -> Classes:
        r = arb(rational(self.rate))
        weights = _node_weights(r, self.nodes)

        def law(points: tuple[int, ...]) -> list[arb]:
            far = [max(abs(node - point) for point in points) for node in self.nodes]
            return [weight * (-r * steps).exp() for weight, steps in zip(weights, far, strict=True)]

        share = 1 / (r * self.apart / 2).cosh() if self.apart > 1 else arb(1)
        others = [share * chance for chance in law(self.thirds)]
        result = [MessageClass(*each) for each in zip(law((self.first,)), law((self.second,)), others, strict=True)]
        if self.apart <= 1 and len(self.thirds) == 1:
            return result
        return [*result, MessageClass(arb(0), arb(0), 1 - sum(others, arb(0)))]


def _node_weights(r: arb, nodes: Sequence[int]) -> list[arb]:
    """What all messages told as a node weigh, in units of λ^distance."""
    half = r / 2
    gaps = {width: (half * (width - 1)).sinh() / (2 * half.sinh() * (half * width).cosh()) for width in _gaps(nodes)}
    beside = [1 / r.expm1(), *(gaps[v - u] for u, v in pairwise(nodes)), 1 / r.expm1()]
    return [half.tanh() * (1 + left + right) for left, right in pairwise(beside)]


def _gaps(nodes: Sequence[int]) -> set[int]:
    return {v - u for u, v in pairwise(nodes)}


def others_of_points(rate: Fraction, grid: int, gamma: float) -> Others:
    """Every two points of 0 … ``grid`` and every crowd of such points."""
    local = float(rate * grid)
    nodes = set(range(0, grid, max(1, math.floor(grid / min(MOST_NODES, NODES_OF_ONE * max(1.0, local)))))) | {grid}
    thirds = _thirds(grid, local)

    def kind(first: int, second: int, others: tuple[int, ...], apart: int = 1) -> HidingPair:
        told = tuple(sorted({*nodes, *thirds, first, second, *others}))
        return HidingPair(NodeClasses(rate, told, first, second, others, apart), symmetric=False)

    gaps = [0, *(v - u for u, v in pairwise(thirds)), 0]
    kinds = [kind(0, grid, (third,), max(beside)) for third, beside in zip(thirds, pairwise(gaps), strict=True)]
    for start, end in _bins(grid, local):
        beyond = end - 1 - start
        low, high = ((0,), (grid,)) if beyond == 0 else ((-beyond, 0), (grid, grid + beyond))
        kinds += [kind(start, grid, low), kind(0, grid - start, high)]
    return KnownOthers(gamma, symmetric=True, given=tuple(kinds))


def _thirds(grid: int, local: float) -> list[int]:
    """Points from end to end, nearer to each other where they are near an end."""
    finest = max(1, math.floor(grid * FINEST_GAP / max(1.0, local)))
    widest = max(finest, math.floor(grid * WIDEST_GAP / max(1.0, local)))
    side = [0]
    while 2 * side[-1] < grid:
        side.append(side[-1] + min(widest, max(finest, math.floor(side[-1] * SPREADING))))
    return sorted({point for near in side if 2 * near <= grid for point in (near, grid - near)})


def _bins(grid: int, local: float) -> Iterator[tuple[int, int]]:
    """Distances 1 … grid − 1 in bins that grow, each from its first to the next one's."""
    ratio = max(NARROWEST, min(2.0, 1 + 1.5 * math.exp(-local)))
    unit = max(1, grid // FINEST)
    start, end = 1 if unit == 1 else 0, unit if unit > 1 else 2
    while start < grid:
        yield start, min(end, grid)
        start, end = end, max(end + unit, math.floor(end * ratio))
