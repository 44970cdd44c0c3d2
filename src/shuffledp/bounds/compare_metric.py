"""All theorems of metric privacy side by side for pairs of inputs, and an attack below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from shuffledp._core import validation
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.bounds.metric_amplification import AmplifiedMetric, all_amplifications
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.privacy.curve import BoundValue
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, MessageClass
from shuffledp.privacy.lower_bounds import AttackCurve
from shuffledp.privacy.metric_space import (
    DistanceMatrix,
)

SEARCH_BITS = 128


def padded_rows(matrix: Sequence[Sequence[arb]]) -> list[list[arb]]:
    """Returns the rows of the padded exponential mechanism for distances given as balls.

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
        [*(weight / norm for weight in row), _clip_negative(1 - total / norm)]
        for row, total in zip(weights, sums, strict=True)
    ]


def _clip_negative(ball: arb) -> arb:
    """Returns 0 for a ball that contains 0: a probability whose ball may reach below 0."""
    return arb(0) if ball.contains(0) else ball


def build_attack_pair(space: DistanceMatrix, first: int, second: int) -> HidingPair:
    """Returns the pair of an attack: user 1 holds one of two inputs, all others hold the input that hides them worst.

    All of them run the padded exponential mechanism.

    Theorem: [MDP] Supplementary B, in the form (★): G = (p_a − e^ε·p_b)/p_c under p_c.
    Requires: distances that obey the triangle inequality among the three inputs.
    Deviates: the loops of Algorithm 2 are replaced by (★), which misses nothing (docs/errata.md, MD-5).
    """
    a, b = space.check_index(first), space.check_index(second)
    if a == b:
        raise ValueError(f"lower_bound: expected two different inputs, got {a} twice.")
    c = _worst_others_input(space, a, b)
    chosen = list(dict.fromkeys([a, b, c]))
    part = DistanceMatrix(space.matrix[chosen][:, chosen])
    part.check_triangle_inequality("lower_bound")
    return HidingPair(_PaddedClasses(part, chosen.index(c)), symmetric=False)


@dataclass(frozen=True)
class _PaddedClasses:
    """Every message of the padded mechanism on at most three inputs; the first two are those of user 1."""

    subspace: DistanceMatrix
    others_input: int

    def __call__(self) -> Classes:
        rows = padded_rows([[arb(float(distance)) for distance in row] for row in self.subspace.matrix])
        triples = zip(rows[0], rows[1], rows[self.others_input], strict=True)
        return [MessageClass(*triple) for triple in triples if not triple[2].is_zero()]


def _worst_others_input(space: DistanceMatrix, a: int, b: int) -> int:
    """Returns the input c that attains R_ab."""
    with precision(SEARCH_BITS):
        sums = [
            arb(float(x)).exp() + arb(float(y)).exp() for x, y in zip(space.matrix[a], space.matrix[b], strict=True)
        ]
        return max(range(len(sums)), key=lambda c: (float(sums[c].mid()), -c))


def lower_bound(space: DistanceMatrix, first: int, second: int, users: int, delta: float) -> float:
    """Returns an ε that no theorem for all randomizers private for these distances can promise less than.

    Theorem: [MDP] Supplementary B, padded exponential lower bound, the larger of both directions.
    Requires: distances that obey the triangle inequality among the three inputs, up to rounding.

    Args:
        space: Local distances of the inputs.
        first: Index of one input.
        second: Index of the other input.
        users: Number of shuffled messages.
        delta: The δ of the statement.

    Returns:
        A certified lower bound of ε for this pair, by one randomizer and one dataset.

    Raises:
        TypeError: If a number is not one.
        ValueError: If a number is out of range, the inputs are the same, or the distances are not a metric.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> below = sdp.metric.lower_bound(places, 0, 1, users=1000, delta=1e-6)
    >>> above = sdp.metric.AmplifiedMetric(places, users=1000, delta=1e-6)(0, 1).upper
    >>> print(f"{below:.4f} {above:.4f}")
    0.1895 0.2237
    """
    # A larger δ is attained with a smaller ε, so that rounding δ up is safe for a lower bound.
    allowed = validation.open_probability("lower_bound", "delta", delta, up=True)
    count = validation.count("lower_bound", "users", users)
    return AttackCurve((build_attack_pair(space, first, second),), count).epsilon(allowed)


@dataclass(frozen=True)
class ComparedPair:
    """The amplified distance of two inputs by every theorem.

    Args:
        first: Index of one input.
        second: Index of the other input.
        local: Their local distance.
        values: The amplified distance by each theorem, by its name.
        lower: A value that no theorem for all randomizers can be below; None if the distances leave no randomizer to
            attack.
        missing_attack_reason: Reason why there is no ``lower``.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0]])
    >>> (found,) = sdp.metric.compare_pairs(places, users=10_000, delta=1e-6)
    >>> found.local, found.best, found.lower < found.values["clone"].upper
    (1.0, 'all-crowds', True)
    """

    first: int
    second: int
    local: float
    values: dict[str, BoundValue]
    lower: float | None
    missing_attack_reason: str = ""

    @property
    def best(self) -> str:
        """Name of the theorem with the smallest value."""
        return min(self.values, key=lambda name: self.values[name].upper)


def compare_pairs(
    space: DistanceMatrix,
    users: float,
    delta: float,
    pairs: Sequence[tuple[int, int]] | None = None,
    progress: Progress | None = None,
) -> list[ComparedPair]:
    """Computes the amplified distances of pairs of inputs by every theorem, and their lower bounds.

    Args:
        space: Local distances of the inputs.
        users: Number of shuffled messages.
        delta: The δ of the statements.
        pairs: Indices of the inputs of each pair; by default all pairs.
        progress: Receives the progress.

    Returns:
        One comparison for each pair.

    Raises:
        TypeError: If ``users`` or ``delta`` is not a number.
        ValueError: If ``users`` or ``delta`` is out of range.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> (found,) = sdp.metric.compare_pairs(places, users=10_000, delta=1e-6, pairs=[(0, 1)])
    >>> found.best, f"{found.lower:.4f} {found.values['all-crowds'].upper:.4f} {found.values['theorem-1'].upper:.4f}"
    ('all-crowds', '0.0532 0.0591 0.1349')
    """
    count = validation.count("compare_pairs", "users", users)
    metrics = {name: AmplifiedMetric(space, count, delta, name) for name in all_amplifications()}
    listed = list(space.pairs() if pairs is None else pairs)
    return [_compare_pair(space, metrics, *pair) for pair in (progress or Progress()).track("comparing", listed)]


def _compare_pair(space: DistanceMatrix, metrics: dict[str, AmplifiedMetric], first: int, second: int) -> ComparedPair:
    values = {name: metric(first, second) for name, metric in metrics.items()}
    metric_of_any = next(iter(metrics.values()))
    try:
        lower, reason = lower_bound(space, first, second, metric_of_any.users, metric_of_any.delta), ""
    except ValueError as error:
        lower, reason = None, str(error)
    return ComparedPair(first, second, float(space.matrix[first, second]), values, lower, reason)
