"""Laplace mechanism: means by two-sided geometric noise on a number of an interval, on a grid.

The file holds the worst datasets of such noise, its law, the proposal for rejection sampling, the estimator and the
mechanism.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import RealNumber, check_interval
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import Law, check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import WEIGHT_BITS, WeightedProposal
from shuffledp.numerics.ball_arithmetic import integer_below, precision, round_down, round_up, to_rational
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, ListedOtherUsers, MessageClass, OtherUsers
from shuffledp.privacy.input_pairs import (
    Neighbours,
    build_attack,
    identical_neighbours,
    neighbours_from_pair,
    neighbours_from_parameters,
)
from shuffledp.privacy.randomizer_interface import HasNeighbours
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.noise import TwoSidedGeometric
from shuffledp.sampling.random_sources import RandomSource, round_down_to_multiple

# --- Worst datasets of two-sided geometric noise on a line: a few points that stand for all ---
#
# P_x is the law of x plus noise z of probability in proportion to λ^|z|, λ = e^−r, for whole x from 0 to g. Three
# facts make the family small. For u ≤ v, w = v − u, let α(y) = sinh((v−y)r)/sinh(wr), β(y) = sinh((y−u)r)/sinh(wr)
# for u ≤ y ≤ v.
#
# Messages. If no input is strictly between u and v, P_x(y) = α(y)·P_x(u) + β(y)·P_x(v) for every input x: both
# sides are sums of λ^y and λ^−y, equal at u and at v. So the message y may be replaced by u or v, with the weights
# α(y) and β(y): that reveals more. A message below the first node or above the last has probabilities in proportion
# to those of the node.
#
# Datasets. P_x ≥ α(x)·P_u + β(x)·P_v for u ≤ x ≤ v: equal outside; inside, the difference D is 0 at both ends and
# D(y+1) + D(y−1) ≤ 2·cosh(r)·D(y), so that it has no minimum below 0. α + β ≥ 1/cosh(wr/2) = s. So the law of G is
# below a mixture of those with s·P_u and s·P_v, the rest of either revealed.
#
# Pairs. The law of G = (P_a − e^ε·P_b)/P_x, a < b, depends on x − a and b − x only. If x ≤ b it spreads (in convex
# order) if b is raised by one: that moves mass of −e^ε·P_b from below, where G is anything, to above b, where it
# is the least of all. If x ≥ a it spreads if a is lowered by one: that moves mass of P_a to below a, where G is
# the largest (if G is nowhere above 0, nothing is revealed). So each other user, whatever the pair, is no better than
# one of three kinds: with a ≤ x ≤ b, the ends as pair and x between them; with x < a, all shifted down by x and b
# raised: the pair (a−x, g) and 0; with x > b the mirror image of that. The pair (u, g) and 0, for u' ≤ u ≤ u' + h, is
# no better than the pair (u', g) and u' − u: shifted up by u − u', b is raised. So it is no better than the pair
# (u', g) and the minimum over all points from −h to 0, the rest revealed: M = min(P_−h, P_0), by unimodality. M(y) is
# one of the two outside of −h … 0; inside, α(y)·M(−h) + β(y)·M(0) is below both, so that a law with these values at
# the nodes is treated as before.


NODES_AT_UNIT_EPSILON, MAX_NODES = 32, 64
"""Number of nodes for a local ε up to 1, above which it is in proportion to ε, and its maximum."""
FINEST_GAP, WIDEST_GAP, GAP_GROWTH = 1 / 40, 1 / 8, 0.5
"""Gaps between the points that stand for all others, as a share of all if ε is at most 1, and their growth rate."""
DISTANCE_RESOLUTION, MIN_DISTANCE_RATIO = 4096, 1.15
"""Distances u that are distinguished: the smallest as a share of all is 1 over this, and the least ratio of two."""


@dataclass(frozen=True)
class NodeClasses:
    """Classes of messages at nodes: user 1 at ``first`` or ``second``, another user at one of ``third_points``.

    For several third points, the minimum of their laws is used. The law of a single one is scaled down by the factor s
    of points that are ``gap`` apart.
    """

    rate: Fraction
    nodes: tuple[int, ...]
    first: int
    second: int
    third_points: tuple[int, ...]
    gap: int

    def __call__(self) -> Classes:
        r = arb(to_rational(self.rate))
        weights = _node_weights(r, self.nodes)

        def law(points: tuple[int, ...]) -> list[arb]:
            far = [max(abs(node - point) for point in points) for node in self.nodes]
            return [weight * (-r * steps).exp() for weight, steps in zip(weights, far, strict=True)]

        share = 1 / (r * self.gap / 2).cosh() if self.gap > 1 else arb(1)
        others = [share * chance for chance in law(self.third_points)]
        result = [MessageClass(*each) for each in zip(law((self.first,)), law((self.second,)), others, strict=True)]
        if self.gap <= 1 and len(self.third_points) == 1:
            return result
        return [*result, MessageClass(arb(0), arb(0), 1 - sum(others, arb(0)))]


def _node_weights(r: arb, nodes: Sequence[int]) -> list[arb]:
    """Returns the total weight of the messages replaced by each node, in units of λ^distance."""
    half = r / 2
    gaps = {width: (half * (width - 1)).sinh() / (2 * half.sinh() * (half * width).cosh()) for width in _gaps(nodes)}
    beside = [1 / r.expm1(), *(gaps[v - u] for u, v in pairwise(nodes)), 1 / r.expm1()]
    return [half.tanh() * (1 + left + right) for left, right in pairwise(beside)]


def _gaps(nodes: Sequence[int]) -> set[int]:
    return {v - u for u, v in pairwise(nodes)}


def build_point_other_users(rate: Fraction, grid: int, gamma: float) -> OtherUsers:
    """Returns every two points of 0 … ``grid`` and every dataset of such points."""
    local = float(rate * grid)
    spacing = max(1, math.floor(grid / min(MAX_NODES, NODES_AT_UNIT_EPSILON * max(1.0, local))))
    nodes = {*range(0, grid, spacing), grid}
    thirds = _third_points(grid, local)

    def kind(first: int, second: int, others: tuple[int, ...], gap: int = 1) -> HidingPair:
        points = tuple(sorted({*nodes, *thirds, first, second, *others}))
        return HidingPair(NodeClasses(rate, points, first, second, others, gap), symmetric=False)

    gaps = [0, *(v - u for u, v in pairwise(thirds)), 0]
    kinds = [kind(0, grid, (third,), max(beside)) for third, beside in zip(thirds, pairwise(gaps), strict=True)]
    for start, end in _distance_bins(grid, local):
        beyond = end - 1 - start
        low, high = ((0,), (grid,)) if beyond == 0 else ((-beyond, 0), (grid, grid + beyond))
        kinds += [kind(start, grid, low), kind(0, grid - start, high)]
    return ListedOtherUsers(gamma, symmetric=True, listed_pairs=tuple(kinds))


def _third_points(grid: int, local: float) -> list[int]:
    """Returns points from end to end, closer together near the ends."""
    finest = max(1, math.floor(grid * FINEST_GAP / max(1.0, local)))
    widest = max(finest, math.floor(grid * WIDEST_GAP / max(1.0, local)))
    side = [0]
    while 2 * side[-1] < grid:
        side.append(side[-1] + min(widest, max(finest, math.floor(side[-1] * GAP_GROWTH))))
    return sorted({point for near in side if 2 * near <= grid for point in (near, grid - near)})


def _distance_bins(grid: int, local: float) -> Iterator[tuple[int, int]]:
    """Yields the distances 1 … grid − 1 in growing bins, each as its start and end (exclusive)."""
    ratio = max(MIN_DISTANCE_RATIO, min(2.0, 1 + 1.5 * math.exp(-local)))
    unit = max(1, grid // DISTANCE_RESOLUTION)
    start, end = 1 if unit == 1 else 0, unit if unit > 1 else 2
    while start < grid:
        yield start, min(end, grid)
        start, end = end, max(end + unit, math.floor(end * ratio))


# --- Law of two-sided geometric noise on a grid, truncated at its ends ---


PARAMETER_BITS = 160
MAX_POINTS_PER_SIDE = 64
"""Most points on either side of the middle that are distinguished; more cost time and change ε in the fifth digit."""
NEAR_PAIR_RANGES = 8
TABLE_BITS = 256


@dataclass(frozen=True)
class GridNoise:
    """A point of 0 … g (``grid``) plus noise z of probability ∝ λ^|z|, λ = e^−``rate``, truncated at the ends.

    A number is in units of 2^-53 of its interval, and is a mixture of two points (``rounding``).
    """

    rate: Fraction
    grid: int

    @property
    def middle(self) -> int:
        """The first point that is not nearer to 0 than to g."""
        return (self.grid + 1) // 2

    def power(self, steps: int) -> arb:
        """Returns λ^steps."""
        return arb(to_rational(-self.rate * steps)).exp()

    def total_variation(self, steps: int) -> arb:
        """Returns the total variation of points d steps apart, without truncation: 1 − (λ^⌈d/2⌉ + λ^(⌊d/2⌋+1))/(1+λ).

        For the two ends, d = g, it is attained, and is also 1 minus the mass of the blanket.
        """
        near, far = self.power(-(-steps // 2)), self.power(steps // 2 + 1)
        return 1 - (near + far) / (1 + self.power(1))

    def point_law(self, k: int) -> list[arb]:
        """Returns the law of the message from point k."""
        step = self.power(1)
        powers = list(itertools.accumulate([step] * max(k, self.grid - k), operator.mul, initial=arb(1)))
        end = 1 / (1 + step)
        inside = end * (1 - step)
        return [(end if y in (0, self.grid) else inside) * powers[abs(y - k)] for y in range(self.grid + 1)]

    def number_law(self, unit: int) -> list[arb]:
        """Returns the law of the message of a number."""
        places = [
            (arb(to_rational(chance)), self.point_law(k))
            for k, chance in rounding_and_digits.grid_law(unit, self.grid).items()
        ]
        return [sum((chance * law[y] for chance, law in places), arb(0)) for y in range(self.grid + 1)]

    def blanket(self) -> list[arb]:
        """Returns the minimum of all laws: at each point the law of the farther end."""
        low, high = self.point_law(0), self.point_law(self.grid)
        return [high[y] if 2 * y <= self.grid else low[y] for y in range(self.grid + 1)]

    def fraction_law(self, k: int) -> list[Fraction]:
        """Returns the law from point k as fractions; the mass lost by rounding down goes to the likeliest message."""
        with precision(2 * TABLE_BITS):
            law = self.point_law(k)
        row = [round_down_to_multiple(partial(law.__getitem__, y), TABLE_BITS) for y in range(self.grid + 1)]
        likeliest = max(range(len(row)), key=row.__getitem__)
        row[likeliest] += 1 - sum(row)
        return row


@dataclass(frozen=True)
class EndsBlanketClasses:
    """Classes of the two ends against the blanket; points before the middle are divided between ``class_points``."""

    noise: GridNoise
    class_points: tuple[int, ...]

    def __call__(self) -> Classes:
        grid, middle = self.noise.grid, self.noise.middle
        far = self.noise.point_law(grid)
        points = [MessageClass(far[grid - y], far[y], far[y]) for y in range(middle)]
        side = _divide_among_kept(points, self.class_points)
        between = far[middle : grid - middle + 1]
        rest = MessageClass(arb(0), arb(0), self.noise.total_variation(grid))
        return [*side, *(MessageClass(c, c, c) for c in between), *map(_swapped, side), rest]


@dataclass(frozen=True)
class EndsAttackClasses:
    """Classes of the two ends where all others hold one number (``other_number``, in units): runs of points."""

    noise: GridNoise
    starts: tuple[int, ...]
    other_number: int

    def __call__(self) -> Classes:
        ends = self.noise.point_law(0), self.noise.point_law(self.noise.grid)
        laws = *ends, self.noise.number_law(self.other_number)
        return [MessageClass(*(sum(law[a:b], arb(0)) for law in laws)) for a, b in pairwise(self.starts)]


@dataclass(frozen=True)
class NumberPairClasses:
    """Classes of two numbers, in units, where all others hold a third one; None for the blanket."""

    noise: GridNoise
    first: int
    second: int
    other_number: int | None

    def __call__(self) -> Classes:
        own = self.noise.number_law(self.first), self.noise.number_law(self.second)
        hiding = self.noise.blanket() if self.other_number is None else self.noise.number_law(self.other_number)
        return [MessageClass(*each) for each in zip(*own, hiding, strict=True)]


@dataclass(frozen=True)
class GridNoiseLaw(Law):
    """Law of numbers of an interval with noise on a grid; ``middle`` is the middle of the interval in units."""

    noise: GridNoise
    epsilon: float
    middle: int

    tight = True

    def variation_ratio(self) -> VariationRatio:
        with precision(PARAMETER_BITS):
            ratio = round_up(1 / self.noise.power(self.noise.grid))
            beta = round_up(self.noise.total_variation(self.noise.grid))
        return VariationRatio(p=ratio, beta=beta, q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        """Returns the two ends against the blanket, which is at each point the law of the farther end; then near pairs.

        Inputs are mixtures of points, so pairs of points are enough. For two points with the middle between them the
        law of G is smaller in convex order than for the ends. Points on one side are covered by ``near_pairs``.

        If there are many points, those between two kept ones are divided between these: on either side of the middle
        the ratios to the blanket lie on one line, so this too makes G larger in convex order, slightly.
        """
        ends = HidingPair(EndsBlanketClasses(self.noise, self._class_points), symmetric=True)
        return [ends, *(parameters.pair(0.0) for parameters in self.near_pairs())]

    def near_pairs(self) -> list[VariationRatio]:
        """Returns parameters that cover any two points a < b below the middle (the other side is its mirror).

        With d = b − a ≤ g/2: the ratio is λ^−d. Against the blanket, the law of a is at most λ^−(g−a) ≤ λ^−g, the law
        of b, and so the common part of both, at most λ^−(g−b) ≤ λ^−(g−d). Distances are taken in a few ranges.
        """
        grid = self.noise.grid
        ends = sorted({grid // 2 * i // NEAR_PAIR_RANGES for i in range(NEAR_PAIR_RANGES + 1)})
        result = []
        with precision(PARAMETER_BITS):
            far = round_up(1 / self.noise.power(grid))
            for below, steps in pairwise(ends):
                nearer = round_up(1 / self.noise.power(grid - below - 1))
                ratio, beta = round_up(1 / self.noise.power(steps)), round_up(self.noise.total_variation(steps))
                result.append(VariationRatio(p=ratio, beta=beta, q=(far, nearer), q_common=nearer))
        return result

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns every two points; a number is a mixture of two points, and divergences are convex."""
        with precision(PARAMETER_BITS):
            shared = round_down(1 - self.noise.total_variation(self.noise.grid))
        return [build_point_other_users(self.noise.rate, self.noise.grid, shared)]

    def attacks(self) -> Sequence[HidingPair]:
        """Returns the two ends where all others hold the middle of the interval, or all its low end."""
        return [self._build_attack(self.middle), self._build_attack(0)]

    def _build_attack(self, others: int) -> HidingPair:
        """Returns the attack on the two ends; if there are many points, only runs of them are distinguished."""
        grid = self.noise.grid
        starts = sorted({0, *(y + side for y in self._class_points for side in (0, 1)), self.noise.middle})
        starts = [*starts, *(grid + 1 - y for y in reversed(starts) if 2 * y <= grid)]
        return HidingPair(EndsAttackClasses(self.noise, tuple(starts), others), symmetric=False)

    @cached_property
    def _class_points(self) -> tuple[int, ...]:
        """Points before the middle that are classes of their own, evenly spaced in the root of the ratio."""
        middle = self.noise.middle
        if middle <= MAX_POINTS_PER_SIDE:
            return tuple(range(middle))
        rate, far = float(self.noise.rate), math.expm1(self.epsilon / 2)
        distances = [math.log1p(far * i / MAX_POINTS_PER_SIDE) / rate for i in range(MAX_POINTS_PER_SIDE)]
        inner = (round(self.noise.grid / 2 - distance) for distance in distances)
        return tuple(sorted({0, middle - 1, *(y for y in inner if 0 <= y < middle)}))

    # --- near inputs ---

    def neighbours_between(self, first: int, second: int, far: int) -> Neighbours:
        """Returns two numbers in units, attacked where the others hold the end ``far`` from both, or the middle."""
        attacks = [build_attack(NumberPairClasses(self.noise, first, second, others)) for others in (far, self.middle)]
        return neighbours_from_pair(NumberPairClasses(self.noise, first, second, None), attacks)

    def neighbours_within(self, steps: int, apart: int) -> Neighbours:
        """Returns any two points at most ``steps`` apart, and mixtures of such; attacked with numbers ``apart`` units.

        Requires: every two numbers that are meant are mixtures of such points, and 0 and ``apart`` are two of them.
        Rounding puts near numbers on far points, but never surely: d of a step apart, their laws differ by d times what
        the points' laws do. So an attack with the points themselves is none. Here user 1 holds the number 0 or
        ``apart``, whose exact laws (``number_law``) mix the points' laws, and the others the far end, or the middle: a
        constructed dataset, of which the attacker sees every message, or groups of them, and so at most all there is.
        """
        attacks = self._build_near_attacks(apart)
        if steps == self.noise.grid:
            return Neighbours(self.variation_ratio(), tuple(self.blankets()), attacks)
        with precision(PARAMETER_BITS):
            ratio, far = (round_up(1 / self.noise.power(d)) for d in (steps, self.noise.grid))
            parameters = neighbours_from_parameters(ratio, round_up(self.noise.total_variation(steps)), far)
        return replace(parameters, attack_pairs=attacks)

    def _build_near_attacks(self, apart: int) -> tuple[HidingPair, ...]:
        """Returns attacks on two numbers at the low end, as far apart as they may be."""
        if apart == rounding_and_digits.RANGE_UNITS:
            return tuple(self.attacks())
        numbers = (rounding_and_digits.RANGE_UNITS, self.middle) if apart else ()
        return tuple(build_attack(NumberPairClasses(self.noise, 0, apart, others)) for others in numbers)


def _divide_among_kept(points: Sequence[MessageClass], kept: Sequence[int]) -> list[MessageClass]:
    """Returns each point's probabilities divided between the nearest kept ones, in proportion so that nothing is lost.

    Requires: second = hiding everywhere, first/hiding decreasing; the first and the last point are kept.
    """
    ratios = [c.first / c.hiding for c in points]
    hiding = {y: points[y].hiding for y in kept}
    for left, right in pairwise(kept):
        gap = ratios[left] - ratios[right]
        for y in range(left + 1, right):
            moved = points[y].hiding * (ratios[y] - ratios[right]) / gap
            hiding[left] += moved
            hiding[right] += points[y].hiding - moved
    return [MessageClass(hiding[y] * ratios[y], hiding[y], hiding[y]) for y in kept]


def _swapped(c: MessageClass) -> MessageClass:
    return MessageClass(c.second, c.first, c.hiding)


# --- Proposal law: every point alike, but for the two ends ---


@dataclass(frozen=True)
class GridProposal(WeightedProposal):
    """Proposal for numbers of [low, high] as points of a grid with noise, truncated at its ends.

    A message is likeliest from the point that it names: 1/(1+λ) at the ends, (1−λ)/(1+λ) between them. Weights are in
    proportion to that but for rounding; C is near 1 + ε/2 on a fine grid.
    """

    noise: GridNoise
    low: float
    high: float

    @property
    def _largest_probabilities(self) -> tuple[arb, arb]:
        """The largest probability of an end, and of a point between them, as balls at the working precision."""
        step = self.noise.power(1)
        return 1 / (1 + step), (1 - step) / (1 + step)

    @cached_property
    def _weight_pair(self) -> tuple[int, int]:
        """The weight of an end, and of a point between them."""
        with precision(PARAMETER_BITS):
            end, inside = self._largest_probabilities
            scale = arb(2) ** WEIGHT_BITS / (2 * end + (self.noise.grid - 1) * inside)
            return integer_below(end * scale), max(1, integer_below(inside * scale))

    @cached_property
    def weights(self) -> Integers:
        end, inside = self._weight_pair
        return np.array([end, *[inside] * (self.noise.grid - 1), end])

    def _ratio_to_proposal(self, kind: int) -> arb:
        """Returns the largest ratio to the proposal at an end (0), or between them (1)."""
        return self._largest_probabilities[kind] * self.total_weight / self._weight_pair[kind]

    @property
    def _kinds(self) -> range:
        """Kinds of points: a grid of two points has none between them."""
        return range(1 if self.noise.grid == 1 else 2)

    @cached_property
    def ratio(self) -> float:
        with precision(PARAMETER_BITS):
            return max(round_up(self._ratio_to_proposal(kind)) for kind in self._kinds)

    @cached_property
    def min_ratio(self) -> Fraction:
        """The least ratio; a point between the ends is one step nearer to the farther one than an end is."""
        with precision(PARAMETER_BITS):
            far = [self._ratio_to_proposal(kind) * self.noise.power(self.noise.grid - kind) for kind in self._kinds]
            return Fraction(min(map(round_down, far)))

    def acceptance(self, values: Array, messages: Array) -> Floats:
        """Returns the acceptance probabilities; a number is a mixture of two points."""
        grid = self.noise.grid
        point, left = rounding_and_digits.grid_position(
            rounding_and_digits.interval_to_units(values, self.low, self.high), grid
        )
        up = left / rounding_and_digits.RANGE_UNITS
        below, above = np.abs(messages - point), np.minimum(np.abs(messages - point - 1), grid)
        chances = (1 - up) * self._powers[below] + up * self._powers[above]
        chances *= np.where((messages == 0) | (messages == grid), *self._scales)
        return np.minimum(chances, 1.0)

    @cached_property
    def _powers(self) -> Floats:
        """λ^0 … λ^g."""
        with precision(PARAMETER_BITS):
            steps = [self.noise.power(1)] * self.noise.grid
            return np.array([float(power.mid()) for power in itertools.accumulate(steps, operator.mul, initial=arb(1))])

    @cached_property
    def _scales(self) -> tuple[float, float]:
        """The largest ratio at an end, and between them, over C."""
        with precision(PARAMETER_BITS):
            end, inside = (float((self._ratio_to_proposal(kind) / self.ratio).mid()) for kind in (0, 1))
        return end, inside


MAX_EPSILON = 700.0
"""Largest ε for which e^ε is a float with room to spare."""
TABLE_INPUTS = 7
MAX_TABLE_STEPS = 256
USERS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class TruncatedNoiseEstimator(Estimator):
    """Estimator of the mean from grid points with two-sided geometric noise of this ``rate``, truncated at the ends."""

    low: float
    high: float
    grid: int
    rate: Fraction

    def accumulate(self, messages: Array) -> Array:
        """Returns the sum of the messages, the numbers of 0 and of g, and the sum of the squares.

        In floats, as the squares of billions of users exceed 64-bit integers. All but the squares are exact.
        """
        steps = messages.astype(np.float64)
        return np.array([steps.sum(), (steps == 0).sum(), (steps == self.grid).sum(), np.dot(steps, steps)])

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean, and its variance by the share of messages at the ends and the largest rounding variance."""
        inside, at_low, at_high = np.asarray(total, dtype=np.float64)[:3] / users
        steps = inside + (at_high - at_low) * self._mean_excess
        spread = self._noise_variance(at_low + at_high) + 0.25
        value = self.low + steps * self._step
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        """Returns the mean square, with the ends replaced by the mean of the values beyond them."""
        inside, at_low, at_high, squares = np.asarray(total, dtype=np.float64) / users
        excess = self._mean_excess
        steps = inside + (at_high - at_low) * excess
        squares = squares + at_low * excess**2 + at_high * excess * (2 * self.grid + excess)
        return np.array([self.low**2 + 2 * self.low * self._step * steps + self._step**2 * squares])

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user; the ends of the grid count as the mean of the values beyond them."""
        least = self.low - messages * self._mean_excess * self._step
        most = self.low + messages * (self.grid + self._mean_excess) * self._step
        return (Influence(least, most, self.low, self.high),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        """Returns the variance; a point k is sent to an end with probability (λ^k + λ^(g−k))/(1+λ)."""
        whole, left = rounding_and_digits.grid_position(
            rounding_and_digits.interval_to_units(values, self.low, self.high), self.grid
        )
        up, rate = left / rounding_and_digits.RANGE_UNITS, float(self.rate)
        spread = up * (1 - up)
        for steps, share in ((whole, 1 - up), (whole + 1, up)):
            ends = np.exp(-rate * steps) + np.exp(-rate * np.maximum(self.grid - steps, 0))
            spread += share * self._noise_variance(ends / (1 + math.exp(-rate)))
        return np.array([spread.mean() * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.grid

    @cached_property
    def _mean_excess(self) -> float:
        """λ/(1−λ), the mean distance of the sum beyond an end, given that it is there or at the end."""
        return 1 / math.expm1(float(self.rate))

    def _noise_variance(self, ends: Any) -> Any:
        """Returns the variance in steps squared: 2λ/(1−λ)² minus λ/(1−λ)² times the probability of the ends."""
        return self._mean_excess * (1 + self._mean_excess) * (2 - ends)


@dataclass(frozen=True)
class Laplace(Mechanism, HasNeighbours):
    """Adds two-sided geometric noise to a number on a grid, and reports the sum, truncated to the grid.

    The number is rounded to a whole number of units of 2^-53 of [low, high], then at random without bias to one of the
    points 0 … g, g = ``grid`` (``rounding``). The noise z has probability in proportion to λ^|z|, λ = e^(−ε'/g) exactly
    (``TwoSidedGeometric``), ε' the float below ε: the ratio is e^ε' < e^ε. A sum below 0 is reported as 0, one above g
    as g. Nothing is lost by that: beyond the ends all inputs' laws have the same shape, so the position beyond an end
    reveals nothing, and its mean is known. The estimator reads 0 as −λ/(1−λ) and g as g + λ/(1−λ), and is unbiased.

    Theorem: [VR] Table 1, Laplace on [0, 1]: p = q = e^ε', β = 1 − e^(−ε'/2) if g is even,
    1 − 2λ^((g+1)/2)/(1+λ) if g is odd.
    Deviates: a grid in place of real numbers; noise beyond the ends is replaced by its mean, which makes the variance
    smaller by up to a half and a message log2(g+1) bits.

    Args:
        epsilon: Local ε of every message.
        low: Lower end of the interval of the users' numbers.
        high: Upper end of the interval.
        grid: Number of steps g into which the interval is divided.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Laplace(epsilon=1.0, low=18, high=98, grid=80)
    >>> mechanism.message_bits
    7
    >>> whole = sdp.amplify(mechanism, users=10_000, effort="quick").epsilon(delta=1e-6).upper
    >>> near = sdp.amplify(mechanism, users=10_000, effort="quick", diameter=10).epsilon(delta=1e-6).upper
    >>> f"{whole:.4f}", f"{near:.4f}"
    ('0.0378', '0.0063')
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    low: float = field(default=0.0, metadata=checked(validation.real))
    high: float = field(default=1.0, metadata=checked(validation.real, up=True))
    grid: int = field(default=1024, metadata=checked(rounding_and_digits.check_grid_size, at_least=1))

    name = "laplace"
    task = "mean"
    summary = "mean of numbers in an interval: the number with Laplace noise, on a grid"
    use_case = "For numbers, where messages must stay near the truth."
    aliases = ("local-laplace",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > MAX_EPSILON:
            raise ValueError(f"Laplace: epsilon must be at most {MAX_EPSILON:g}, got {self.epsilon!r}.")
        check_interval("Laplace", self.low, self.high)

    @cached_property
    def noise(self) -> TwoSidedGeometric:
        """The noise in steps; values beyond the length of the grid need not be distinguished."""
        return TwoSidedGeometric(Fraction(math.nextafter(self.epsilon, 0.0)) / self.grid, reach=self.grid)

    @cached_property
    def domain(self) -> RealNumber:
        return RealNumber("Laplace", self.low, self.high)

    @cached_property
    def law(self) -> GridNoiseLaw:
        (middle,) = self._units(np.array([self.low + (self.high - self.low) / 2])).tolist()
        return GridNoiseLaw(GridNoise(self.noise.rate, self.grid), self.epsilon, middle)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("Laplace", self.grid + 1)

    @cached_property
    def estimator(self) -> TruncatedNoiseEstimator:
        return TruncatedNoiseEstimator(self.low, self.high, self.grid, self.noise.rate)

    @cached_property
    def proposal(self) -> GridProposal:
        return GridProposal(self.law.noise, self.low, self.high)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            steps = rounding_and_digits.round_to_grid(self._units(part), self.grid, source)
            steps += self.noise.draw(source, len(part))
            np.clip(steps, 0, self.grid, out=messages[start : start + USERS_AT_ONCE])
        return messages

    def _units(self, values: Floats) -> Array:
        return rounding_and_digits.interval_to_units(values, self.low, self.high)

    # --- near inputs ---

    def neighbours_between(self, first: Any, second: Any) -> Neighbours:
        numbers = self.check([first, second])
        a, b = self._units(numbers).tolist()
        if a == b:
            return identical_neighbours()
        far = 0 if sum(numbers.tolist()) > self.low + self.high else rounding_and_digits.RANGE_UNITS
        return self.law.neighbours_between(a, b, far)

    def neighbours_within(self, diameter: float) -> Neighbours:
        size = validation.positive_finite("Laplace", "diameter", diameter, up=True)
        (apart,) = self._units(np.array([rounding_and_digits.largest_float_within(size, self.low, self.high)])).tolist()
        return self.law.neighbours_within(
            rounding_and_digits.max_steps_apart(size, self.low, self.high, self.grid), apart
        )

    # --- for tests and the catalogue ---

    def table(self) -> OutputTable:
        """Returns the irrational probabilities to within 2^-200, as fractions whose rows sum to exactly 1."""
        if self.grid > MAX_TABLE_STEPS:
            raise ValueError(f"Laplace: a table needs a grid of at most {MAX_TABLE_STEPS}, got {self.grid}.")
        inputs = np.linspace(self.low, self.high, TABLE_INPUTS)
        points = [self.law.noise.fraction_law(k) for k in range(self.grid + 1)]
        rows = []
        for unit in self._units(inputs).tolist():
            law = rounding_and_digits.grid_law(unit, self.grid)
            rows.append(tuple(sum((law[k] * points[k][y] for k in law), Fraction(0)) for y in range(self.grid + 1)))
        return OutputTable(inputs, np.arange(self.grid + 1), tuple(rows))

    @classmethod
    def examples(cls) -> Sequence[Laplace]:
        return [
            cls(epsilon=1.0, grid=1),
            cls(epsilon=0.5, low=-3.0, high=5.0, grid=4),
            cls(epsilon=3.0, grid=7),
            cls(epsilon=8.0, low=0.0, high=0.1, grid=10),
        ]
