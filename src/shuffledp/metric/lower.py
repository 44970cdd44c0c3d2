"""What no bound can beat: the padded exponential mechanism on three inputs, attacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from shuffledp import argument
from shuffledp.numerics.ball import precision
from shuffledp.privacy.attack import AttackCurve
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass
from shuffledp.privacy.space import DistanceMatrix

SEARCH_BITS = 128


def padded_rows(matrix: Sequence[Sequence[arb]]) -> list[list[arb]]:
    """The rows of the padded exponential mechanism for distances given as balls.

    Theorem: [MDP] Table I: input x sends z with probability e^−D(x,z)/N and nothing otherwise, N the largest of
    (e^D·max(Σa, Σb) − min(Σa, Σb))/(e^D − 1) over the pairs, Σx the sum of e^−D(x,z) over z.
    Requires: a metric with positive distances.
    """
    weights = [[(-distance).exp() for distance in row] for row in matrix]
    sums = [sum(row, arb(0)) for row in weights]
    norm = sums[0]
    for a in range(len(matrix)):
        for b in range(a):
            ratio = matrix[a][b].exp()
            norm = norm.max((ratio * sums[a].max(sums[b]) - sums[a].min(sums[b])) / (ratio - 1))
    return [
        [*(weight / norm for weight in row), _not_negative(1 - total / norm)]
        for row, total in zip(weights, sums, strict=True)
    ]


def _not_negative(ball: arb) -> arb:
    """A probability that may be 0 but for the width of its ball."""
    return arb(0) if ball.contains(0) else ball


def attacked_pair(space: DistanceMatrix, first: int, second: int) -> HidingPair:
    """User 1 holds one of two inputs, all others hold the input that hides them worst; all run the padded mechanism.

    Theorem: [MDP] Supplementary B, in the form (★): G = (p_a − e^ε·p_b)/p_c under p_c.
    Requires: distances that obey the triangle inequality among the three inputs.
    Deviates: the loops of Algorithm 2 are replaced by (★), which misses nothing (docs/errata.md, MD-5).
    """
    a, b = space.place(first), space.place(second)
    if a == b:
        raise ValueError(f"lower_bound: expected two different inputs, got {a} twice.")
    c = _worst_crowd(space, a, b)
    chosen = list(dict.fromkeys([a, b, c]))
    part = DistanceMatrix(space.matrix[chosen][:, chosen])
    part.must_be_metric("lower_bound")
    return HidingPair(_PaddedClasses(part, chosen.index(c)), symmetric=False)


@dataclass(frozen=True)
class _PaddedClasses:
    """Every message of the padded mechanism on at most three inputs, the first two of them user 1's."""

    part: DistanceMatrix
    crowd: int

    def __call__(self) -> Classes:
        rows = padded_rows([[arb(float(distance)) for distance in row] for row in self.part.matrix])
        triples = zip(rows[0], rows[1], rows[self.crowd], strict=True)
        return [MessageClass(*triple) for triple in triples if not triple[2].is_zero()]


def _worst_crowd(space: DistanceMatrix, a: int, b: int) -> int:
    """The c of R_ab."""
    with precision(SEARCH_BITS):
        sums = [
            arb(float(x)).exp() + arb(float(y)).exp() for x, y in zip(space.matrix[a], space.matrix[b], strict=True)
        ]
        return max(range(len(sums)), key=lambda c: (float(sums[c].mid()), -c))


def lower_bound(space: DistanceMatrix, first: int, second: int, users: int, delta: float) -> float:
    """No theorem that holds for every randomizer private for these distances can promise less than this.

    ``first`` and ``second`` are the numbers of two inputs of ``space``; ``users`` messages are shuffled.

    Theorem: [MDP] Supplementary B, padded exponential lower bound, the larger of both directions.
    Requires: distances that obey the triangle inequality among the three inputs, up to rounding.
    Returns: a certified lower bound of ε for this pair, by one randomizer and one dataset.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> below = sdp.metric.lower_bound(places, 0, 1, users=1000, delta=1e-6)
    >>> above = sdp.metric.AmplifiedMetric(places, users=1000, delta=1e-6)(0, 1).upper
    >>> print(f"{below:.4f} {above:.4f}")
    0.1895 0.2237
    """
    # A larger δ is attained with a smaller ε: for a bound from below, up is the safe side.
    allowed = argument.open_probability("lower_bound", "delta", delta, up=True)
    count = argument.count("lower_bound", "users", users)
    return AttackCurve((attacked_pair(space, first, second),), count).epsilon(allowed)
