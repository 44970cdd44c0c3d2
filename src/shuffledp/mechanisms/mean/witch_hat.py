"""Witch-hat mechanism: means of numbers of an interval, with weights that fall exponentially to a constant.

The file holds the worst datasets of such weights, their law, the estimator and the mechanism.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import arb, fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import RealNumber
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.metric.exponential import (
    MAX_DISTANCE,
    RATIO_BITS,
    TOTAL_UNITS,
    check_largest_distance,
    ratio_below,
)
from shuffledp.numerics.ball_arithmetic import float_above, float_below, integer_below, precision, round_up, to_rational
from shuffledp.privacy.dominating_pairs import (
    Classes,
    ExactClass,
    HidingPair,
    ListedOtherUsers,
    MessageClass,
    OtherUsers,
    exact_pair,
)
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
from shuffledp.sampling.random_sources import RandomSource

# --- Worst datasets of hats on a line: every pair and every dataset, from pairs as far apart as possible ---
#
# t_j is the weight of a message at distance j from the point of its sender: it falls to the brim t_s = β and stays
# there. A message that is in no user's hat has the weight β three times, so that G = (P_a − c·P_b)/R, c = e^ε ≥ 1,
# depends on the places of a, b and x only by their differences. Let a < b, or else take the mirror image: so both
# directions are covered. R is R_x, or less of it, the rest revealed (G = 0): the law of G is then above.
#
# Raising b. If R falls to both sides of a place that is not above b, raising b by one spreads G. Reflect messages at
# b + ½: z above goes to z' below it, and t_b takes its values u ≤ v at z, z' in the other order. With A ≤ A' the
# weights of a, and r ≤ r' those of R, at z and z', the values (A−cu)/r and (A'−cv)/r' become (A−cv)/r and (A'−cu)/r'.
# The mean is the same; the first is now not above both, the second not below both, because Ar' − A'r ≤ A(r'−r) ≤
# cu(r'−r), as A ≤ u.
#
# Lowering a. If R falls to both sides of a place that is not below a, and R ≤ R_b, lowering a by one spreads G, if c
# < t_(p−D)/t_p for all D < p < s, D = b − a. Reflect at a − ½: z below goes to z' above. With A ≤ A' now the weights
# of b, the values (u−cA)/r and (v−cA')/r' become (v−cA)/r and (u−cA')/r'. The first is not below both, the second not
# above both, if c(Ar' − A'r) ≤ u(r'−r). Where A = β, r = β too, and r' ≤ A'. Else c(Ar' − A'r) ≤ cA(r'−r) ≤ u(r'−r).
# If c is not below the largest t_(p−D)/t_p, G is nowhere above 0 and nothing is revealed. The largest and the least
# are the same but for the rounding of weights, and P_a is taken as 1 + 2^-34 times as much.
#
# So every pair and every other user is below one of three kinds. If a ≤ x ≤ b: the pair (0, g) and x from 0 to g. If
# x < a: the pair (u, g) and 0; for u' ≤ u ≤ u' + h it is the pair (u', g − …) and a point of −h … 0, hence below
# the pair (u', g) and the minimum over all of these, min(P_−h, P_0). If x > b, let y ≤ x − b ≤ y + h: R_x is at
# least the minimum of P_b and P_(b+y+h), and the pair may be moved apart to g − y. Points x of a range have the
# minimum of the laws of its two ends in common. A range is extended as long as this hardly makes the worst kind worse.
#
# Messages. If P and Q at z are α times those at u and β times those at v, up to 2^-36, and R is not less, z may be
# replaced by u or v: that reveals more. Where R is slightly less, all of R is reduced by that factor.


ERROR_BITS, REPLACEMENT_ERROR_BITS, FIXED_POINT_ONE = 34, 36, 1 << 52
"""Laws have a relative error of 2^-34: uneven weights and replaced messages are each within 2^-36."""
MAX_MESSAGES = 8192
SLOPE_MESSAGES = 24
"""Number of messages that are distinguished from the tip to the brim."""
MAX_HIDING_REDUCTION = 2.0**-8
"""Largest relative reduction of R."""
TILT = 0.5
BADNESS_TOLERANCE = 2e-3
"""Largest relative increase of E G², and of E e^(tG), t = TILT over the largest G, of a range over single points."""


class HatKind(NamedTuple):
    """A pair, and the two ends of the range of another user's points."""

    first: int
    second: int
    third_range: tuple[int, int]


Rule = Callable[[int, int], HatKind]


@dataclass(frozen=True)
class HatWorstDataset:
    """The kinds of pairs and other users that stand for every two points and every dataset."""

    hat: HatWeights

    def _law(self, *points: int) -> Integers:
        """Returns the minimum of the laws of some points, in units."""
        return np.asarray(np.min([self.hat.weights(point) for point in points], axis=0))

    def build_other_users(self) -> OtherUsers | None:
        """Returns every two points and every dataset; None for too many messages or too coarse weights."""
        if self.hat.messages > MAX_MESSAGES or not self._falls_evenly():
            return None
        common = Fraction(int(self._law(0, self.hat.grid).sum()), self.hat.total_units)
        pairs = tuple(dict.fromkeys(map(self.pair, self.kinds())))
        return ListedOtherUsers(float_below(common), symmetric=True, listed_pairs=pairs)

    def _falls_evenly(self) -> bool:
        """Returns True if all t_(p−D)/t_p, p < s, are within 1 + 2^-36 of the largest, by those of one step."""
        if self.hat.reach == 1:
            return True
        steps = [Fraction(high, low) for high, low in pairwise(self.hat.units)]
        uneven = max(steps) / min(steps[:-1]) - 1
        return self.hat.reach * uneven < Fraction(1, 1 << REPLACEMENT_ERROR_BITS + 1)

    # --- ranges of points ---

    @cached_property
    def _rules(self) -> list[tuple[Rule, int, int]]:
        g = self.hat.grid
        return [
            (lambda low, high: HatKind(0, g, (low, high)), 0, g),
            (lambda low, high: HatKind(low, g, (low - high, 0)), 1, g - 1),
            (lambda low, high: HatKind(0, g - low, (g - low, g - low + high)), 1, g - 1),
        ]

    def kinds(self) -> Iterator[HatKind]:
        """Yields consecutive ranges, each as long as possible."""
        most = self._badness_limits
        for rule, start, last in self._rules:
            low = start
            while low <= last:
                high = low
                while high < last and (self._badness(rule(low, high + 1)) <= most).all():
                    high += 1
                yield rule(low, high)
                low = high + 1

    @cached_property
    def _badness_limits(self) -> Floats:
        """Largest values of both measures of badness that a range may have."""
        single = [self._badness(rule(at, at)) for rule, start, last in self._rules for at in range(start, last + 1)]
        return np.asarray(np.max(single, axis=0) * (1 + BADNESS_TOLERANCE))

    def _badness(self, kind: HatKind) -> Floats:
        """Returns E G² and about E e^(tG) of a kind."""
        first, second = (self._law(point) / self.hat.total_units for point in kind[:2])
        hiding = self._law(*kind.third_range) / self.hat.total_units
        value = (first - second) / hiding
        tilted = TILT / (self.hat.units[0] / self.hat.units[-1]) * value
        return np.array([hiding @ value**2, hiding @ (np.expm1(tilted) - tilted)])

    # --- messages ---

    def pair(self, kind: HatKind) -> HidingPair:
        """Returns the pair of a kind, ``first`` from above, the two others from below."""
        columns = np.stack([self._law(kind.first), self._law(kind.second), self._law(*kind.third_range)]).T.tolist()
        weights: dict[tuple[int, ...], int] = {}
        most = FIXED_POINT_ONE
        for column, weight, hiding_factor in self._merge_messages(columns):
            size = math.gcd(*column)
            shape = tuple(each // size for each in column)
            weights[shape] = weights.get(shape, 0) + weight * size
            most = max(most, hiding_factor)
        bottom = self.hat.total_units * FIXED_POINT_ONE << ERROR_BITS
        more, less = (1 << ERROR_BITS) + 1, (1 << ERROR_BITS) - 1
        shrunk = fmpq(FIXED_POINT_ONE, most)
        classes = [
            (fmpq(more * weight * a, bottom), fmpq(less * weight * b, bottom), fmpq(less * weight * r, bottom) * shrunk)
            for (a, b, r), weight in sorted(weights.items())
        ]
        return exact_pair(classes, symmetric=False)

    @cached_property
    def _stride(self) -> int:
        return max(1, self.hat.reach // SLOPE_MESSAGES)

    def _merge_messages(self, columns: Sequence[list[int]]) -> Iterator[tuple[list[int], int, int]]:
        """Yields the kept messages, their weights, and the largest factor by which R grows, in units of 2^-52."""
        start = 0
        yield columns[0], FIXED_POINT_ONE, FIXED_POINT_ONE
        while start < len(columns) - 1:
            end, shares = self._find_next_kept(columns, start)
            hiding_factor = max((share.hiding_factor for share in shares), default=FIXED_POINT_ONE)
            yield columns[start], sum(share.left for share in shares), hiding_factor
            yield columns[end], FIXED_POINT_ONE + sum(share.right for share in shares), hiding_factor
            start = end

    def _find_next_kept(self, columns: Sequence[list[int]], start: int) -> tuple[int, list[_ReplacementShares]]:
        """Returns the index of the next kept message, and the shares of those before it."""
        stride = min(self._stride, len(columns) - 1 - start)
        while True:
            shares = [
                _split_message(columns[start], columns[start + stride], z) for z in columns[start + 1 : start + stride]
            ]
            possible = [share for share in shares if share]
            if len(possible) == len(shares):
                return start + stride, possible
            stride //= 2


class _ReplacementShares(NamedTuple):
    """Shares of two messages that replace one between them, and the factor by which R grows, in units of 2^-52."""

    left: int
    right: int
    hiding_factor: int


def _split_message(u: Sequence[int], v: Sequence[int], z: Sequence[int]) -> _ReplacementShares | None:
    """Returns shares for which P and Q are those of z up to 2^-36, and R hardly more; None if there are none."""
    left, right = ([a / c for a, c in zip(end, z, strict=True)] for end in (u, v))
    shares = 1 / max(left), 0.0
    for i, j in ((0, 1), (0, 2), (1, 2)):
        size = left[i] * right[j] - left[j] * right[i]
        if abs(size) > 1e-9:
            shares = (right[j] - right[i]) / size, (left[i] - left[j]) / size
            break
    if not min(shares) >= 0:
        return None
    alpha, beta = (round(share * FIXED_POINT_ONE) for share in shares)
    first, second, third = (alpha * a + beta * b for a, b in zip(u, v, strict=True))
    hiding_factor = max(FIXED_POINT_ONE, -(-third // z[2]))
    exact = all(
        abs(replaced - each * FIXED_POINT_ONE) << REPLACEMENT_ERROR_BITS <= each * FIXED_POINT_ONE
        for replaced, each in ((first, z[0]), (second, z[1]))
    )
    if not exact or hiding_factor > FIXED_POINT_ONE * (1 + MAX_HIDING_REDUCTION):
        return None
    return _ReplacementShares(alpha, beta, hiding_factor)


# --- Law of weights on a grid that fall from a tip to a flat brim ---


Probabilities = Sequence[Fraction]
MAX_STEP_DISTANCE = 1 << 20


@dataclass(frozen=True)
class HatWeights:
    """Whole weights t_|z−k| of the messages z = −s … g+s of a point k = 0 … g: e^(−jρ) at distance j < s, then e^−ε.

    ``step_distance`` is ρ, the privacy distance of neighbouring points, ``grid`` g. Weights are whole units, from the
    brim up, each at most e^ρ times the next and e^ε times the brim. Every point has the same sum of weights.
    """

    epsilon: float
    step_distance: Fraction
    grid: int

    @cached_property
    def reach(self) -> int:
        """s, the number of steps from the tip to the brim."""
        return math.ceil(Fraction(self.epsilon) / self.step_distance)

    @property
    def messages(self) -> int:
        """The number of different messages."""
        return self.grid + 1 + 2 * self.reach

    @cached_property
    def units(self) -> tuple[int, ...]:
        """The weights t_0 … t_s."""
        with precision(4 * RATIO_BITS):
            step = -arb(to_rational(self.step_distance))
            falls = [(step * j).exp() for j in range(self.reach)]
            brim = (-arb(self.epsilon)).exp()
            total = 2 * sum(falls, arb(0)) + (self.grid + 2) * brim
            scale = arb(TOTAL_UNITS) / arb(float(total.mid()))
            desired = [integer_below(fall * scale) for fall in falls]
            lowest = 1 + integer_below(brim * scale)
            if self.step_distance > MAX_STEP_DISTANCE:
                raise ValueError("WitchHat: expected a grid step that is small against the scale, got one far larger.")
            ratio, most = (ratio_below(arb(to_rational(d))) for d in (self.step_distance, Fraction(self.epsilon)))
        result = [lowest]
        for weight in reversed(desired):
            bound = min(ratio * result[-1], most * lowest) >> RATIO_BITS
            result.append(max(result[-1], min(weight, bound)))
        return tuple(result[::-1])

    @cached_property
    def total_units(self) -> int:
        """The sum of an input's weights."""
        return self.units[0] + 2 * sum(self.units[1:-1]) + (self.grid + 2) * self.units[-1]

    def weights(self, k: int) -> Integers:
        """Returns the units of every message for the point k."""
        distance = np.abs(np.arange(-self.reach, self.grid + self.reach + 1) - k)
        return np.asarray(self._unit_array[np.minimum(distance, self.reach)])

    def number_law(self, unit: int) -> Probabilities:
        """Returns the exact law of the message of one number, in units of 2^-53 of its interval."""
        law = [Fraction(0)] * self.messages
        for k, chance in rounding_and_digits.grid_law(unit, self.grid).items():
            law = [p + chance * t / self.total_units for p, t in zip(law, self.weights(k).tolist(), strict=True)]
        return law

    def distance(self, steps: int) -> arb:
        """Returns the privacy distance of points this many steps apart."""
        return arb(to_rational(self.step_distance * steps)).min(arb(self.epsilon))

    def total_variation(self, steps: int) -> Fraction:
        """Returns the total variation of two points this many steps apart, which does not depend on where they are."""
        first, second = self.weights(0), self.weights(steps)
        return Fraction(int(np.maximum(first - second, 0).sum()), self.total_units)

    # --- sampling ---

    def draw(self, points: Integers, source: RandomSource) -> Integers:
        """Draws messages: one number below the sum gives the distance from the tip and the side, or a brim point."""
        draws = source.integers_below(self.total_units, len(points))
        distance = self._thresholds.searchsorted(draws, side="right")
        left = draws - self._starts[distance]
        side = np.where(left < self._unit_array[distance], distance, -distance)
        brim = left // self._unit_array[-1]
        far = np.where(brim <= points, brim - self.reach, brim + self.reach - 1)
        return np.asarray(np.where(distance == self.reach, far, points + side) + self.reach)

    @cached_property
    def _unit_array(self) -> Integers:
        return np.array(self.units)

    @cached_property
    def _thresholds(self) -> Integers:
        times = np.full(self.reach + 1, 2)
        times[0], times[-1] = 1, self.grid + 2
        return np.cumsum(self._unit_array * times)

    @cached_property
    def _starts(self) -> Integers:
        return np.concatenate([[0], self._thresholds[:-1]])


@dataclass(frozen=True)
class RationalClasses:
    """Classes whose three probabilities are rational."""

    exact: tuple[ExactClass, ...]

    @classmethod
    def from_laws(cls, first: Probabilities, second: Probabilities, hiding: Probabilities) -> RationalClasses:
        """Returns classes in which messages with the same three probabilities are merged."""
        times = Counter(zip(first, second, hiding, strict=True))
        return cls(tuple(_multiply_class(triple, count) for triple, count in times.items()))

    def __call__(self) -> Classes:
        return [MessageClass(*map(arb, triple)) for triple in self.exact]


@dataclass(frozen=True)
class HatLaw(Law):
    """Law of numbers of an interval, each a mixture of two points; every law is at least the brim everywhere."""

    hat: HatWeights

    def variation_ratio(self) -> VariationRatio:
        return self._parameters(self.hat.grid)

    def blankets(self) -> Sequence[HidingPair]:
        """Returns two points as far apart as possible against the brim."""
        return self.neighbours_within(self.hat.grid).blankets()

    def attacks(self) -> Sequence[HidingPair]:
        """Returns the attacks on the two ends."""
        return self.neighbours_between(
            0, rounding_and_digits.RANGE_UNITS, far=rounding_and_digits.RANGE_UNITS
        ).attacks()

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns pairs as far apart as possible and every dataset; a number is a mixture of two points."""
        return () if self._worst_dataset is None else [self._worst_dataset]

    @cached_property
    def _worst_dataset(self) -> OtherUsers | None:
        return HatWorstDataset(self.hat).build_other_users()

    def neighbours_within(self, steps: int) -> Neighbours:
        """Returns points at most this many steps apart; every law is at least the brim everywhere.

        Against the brim, points that are farther apart are worse: ΣΦ(t_|z| − c·t_|z−d|), Φ convex, is a sum over levels
        of minus the overlap of an interval around 0 with one around d, which shrinks as d grows. From 2s steps on the
        two hats are disjoint and nothing changes.
        """
        hat = self.hat
        worst = hat.weights(min(steps, 2 * hat.reach)).tolist()
        # Integers are merged many times faster than fractions.
        times = Counter(zip(hat.weights(0).tolist(), worst, strict=True))
        brim = hat.units[-1]
        classes = [
            (fmpq(a * count, hat.total_units), fmpq(b * count, hat.total_units), fmpq(brim * count, hat.total_units))
            for (a, b), count in times.items()
        ]
        pairs = neighbours_from_pair(RationalClasses(tuple(classes))).blankets()
        return Neighbours(self._parameters(steps), tuple(pairs))

    def _parameters(self, steps: int) -> VariationRatio:
        """Returns the parameters of points at most this many steps apart, without their laws."""
        hat = self.hat
        with precision(4 * RATIO_BITS):
            p, q = (round_up(hat.distance(d).exp()) for d in (steps, hat.grid))
        return neighbours_from_parameters(p, float_above(hat.total_variation(steps)), q).parameters

    def neighbours_between(self, first: int, second: int, far: int) -> Neighbours:
        """Returns the exact laws of two numbers, in units, against the minimum of all laws: the farther end's.

        In the attacks the others hold the end that is ``far`` from both, or the middle.
        """
        hat = self.hat
        laws = hat.number_law(first), hat.number_law(second)
        if laws[0] == laws[1]:
            return identical_neighbours()
        floor = np.minimum(hat.weights(0), hat.weights(hat.grid)).tolist()
        blanket = [Fraction(unit, hat.total_units) for unit in floor]
        hiding_laws = [hat.number_law(others) for others in (far, rounding_and_digits.RANGE_UNITS // 2)]
        attacks = [build_attack(RationalClasses.from_laws(*laws, hiding)) for hiding in hiding_laws]
        return neighbours_from_pair(RationalClasses.from_laws(*laws, blanket), attacks)


@dataclass(frozen=True)
class WitchHatEstimator(Estimator):
    """Estimator of the mean of numbers from −``half_width`` to ``half_width``."""

    hat: HatWeights
    half_width: float

    def accumulate(self, messages: Array) -> Array:
        """Returns the sum of the messages, exactly, and of the squares of twice their distance from the middle."""
        centred = 2.0 * messages - (self.hat.messages - 1)
        return np.array([messages.sum(), np.dot(centred, centred)], dtype=np.float64)

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean; weight above the brim is centred at the user's point, the rest at the middle.

        Users with different numbers are not users who hold their mean: the mean square of the messages determines that
        of the users' points. At most 1/4 of it (of a step, squared) comes from rounding and is counted as if it did;
        the mean square of the numbers is at least the square of their mean.
        """
        first, second = np.asarray(total, dtype=np.float64) / users
        steps = (first - (self.hat.messages - 1) / 2) * self.inverse_signal_share
        points = max(0.0, (second / 4 * self.hat.total_units - self._constant_moment) / self._peak_units)
        held = max(points - 0.25, min(abs(steps), self.hat.grid / 2) ** 2)
        spread = self._second_moment(points) - held
        value = steps * self._step
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        return np.array([float(total[1]) / (4 * users) * (self.inverse_signal_share * self._step) ** 2])

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user who always sends the first or the last message."""
        half = (self.hat.messages - 1) / 2 * self.inverse_signal_share * self._step
        return (Influence(-half, (2 * messages - 1) * half, -self.half_width, self.half_width),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        units = rounding_and_digits.interval_to_units(values, -self.half_width, self.half_width)
        whole, left = rounding_and_digits.grid_position(units, self.hat.grid)
        up = left / rounding_and_digits.RANGE_UNITS
        mean = whole + up - self.hat.grid / 2
        spread = self._second_moment(mean**2 + up * (1 - up)) - mean**2
        return np.array([spread.mean() * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return 2 * self.half_width / self.hat.grid

    @cached_property
    def _peak_units(self) -> int:
        """The units above the brim."""
        return self.hat.total_units - self.hat.messages * self.hat.units[-1]

    @property
    def inverse_signal_share(self) -> float:
        """N/(Fκ), one over the share of the messages above the brim."""
        return self.hat.total_units / self._peak_units

    def _second_moment(self, square: Any) -> Any:
        """Returns the mean square of the estimate about the middle in steps, given that of the user's point."""
        return self.inverse_signal_share**2 * (self._constant_moment + self._peak_units * square) / self.hat.total_units

    @cached_property
    def _constant_moment(self) -> float:
        """Brim times distance² from the middle, over all messages, plus peak times distance² from its tip."""
        brim, last = self.hat.units[-1], self.hat.messages
        around = sum((t - brim) * 2 * j * j for j, t in enumerate(self.hat.units))
        return float(Fraction(brim * last * (last * last - 1), 12) + around)


def _multiply_class(triple: tuple[Fraction, Fraction, Fraction], count: int) -> tuple[fmpq, fmpq, fmpq]:
    first, second, hiding = (to_rational(x) * count for x in triple)
    return first, second, hiding


MAX_UNCHECKED_EPSILON = 20.0
"""Below this ε the brim always has enough units."""
MAX_HAT_STEPS = 1 << 16
TABLE_INPUTS = 5
MAX_TABLE_MESSAGES = 1024


@dataclass(frozen=True)
class WitchHat(Mechanism, HasNeighbours):
    """Reports a point near the true number with exponentially falling weight, which far away stays at e^−ε.

    The number, from −B to B (``half_width``), is rounded at random without bias to one of the points 0 … g (``grid``).
    With F = ``scale`` and the level m = ε, the message is a point z of −s … g+s with weight t_|z−k|: t_j is e^(−jρ) for
    j < s and e^(−m) from there on, ρ = 4B/(gF) and s = ⌈m/ρ⌉. Weights are whole units, from the brim up, each at most
    e^ρ times the next and e^m times the brim, so that points k, l differ by a factor of at most e^min(ρ|k−l|, m),
    exactly. Every input has the same sum of weights; one exactly uniform number draws the message.

    Theorem: [MDP] WitchHat(B, m, F), private for min(2|a−b|/F, m), unbiased estimator N·z/(Fκ); total variation
    corrected.
    Deviates: a grid in place of real numbers; estimator, variance and β are those of the grid, and exact; the printed β
    and variance are wrong (docs/errata.md, MD-7, MD-8).

    Args:
        epsilon: Local ε of every message, for numbers at any distance.
        half_width: Half the width B of the interval from −B to B.
        scale: Scale F; two numbers a, b keep about the smaller of ε and 2|a−b|/F.
        grid: Number of steps g into which the interval is divided.

    Raises:
        ValueError: If a parameter is out of range, or the hat is too wide or too high for the grid.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.WitchHat(epsilon=2.0, scale=0.5)
    >>> near, far = (sdp.amplify(mechanism, users=10_000, diameter=size) for size in (0.1, 2.0))
    >>> f"{near.epsilon(delta=1e-6).upper:.4f}", f"{far.epsilon(delta=1e-6).upper:.4f}"
    ('0.0183', '0.0617')
    """

    epsilon: float = field(metadata=checked(check_largest_distance))
    half_width: float = field(default=1.0, metadata=checked(validation.positive_finite))
    scale: float = field(default=1.0, metadata=checked(validation.positive_finite))
    grid: int = field(default=256, metadata=checked(rounding_and_digits.check_grid_size, at_least=1))

    name = "witch-hat"
    task = "mean"
    summary = "mean of numbers in an interval: near numbers are better protected than far ones"
    use_case = "For numbers, where near ones are to be hidden best."
    tunable = (TunableParameter("epsilon", False, False, 1e-6, MAX_DISTANCE),)

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        # From narrow hats, which distinguish nearby numbers, to wide ones.
        yield from ({"scale": scale} for scale in (0.125, 0.25, 0.5, 1.0, 2.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 * self.half_width < math.inf:
            raise ValueError(f"WitchHat: half_width must be small enough to be doubled, got {self.half_width!r}.")
        if self.hat.reach > MAX_HAT_STEPS:
            raise ValueError(
                f"WitchHat: the hat must be at most {MAX_HAT_STEPS} steps wide, got {self.hat.reach}; lower grid or "
                f"scale."
            )
        # Far below the tip the brim has so few units that a step's ratio is lost in rounding.
        if self.epsilon > MAX_UNCHECKED_EPSILON and self.hat.units[0] == self.hat.units[-1]:
            raise ValueError(
                f"WitchHat: epsilon must be smaller for this grid and scale to reveal anything, got {self.epsilon!r}."
            )

    @cached_property
    def hat(self) -> HatWeights:
        """The weights; ρ is the privacy distance of neighbouring points."""
        return HatWeights(self.epsilon, 4 * Fraction(self.half_width) / (self.grid * Fraction(self.scale)), self.grid)

    @cached_property
    def domain(self) -> RealNumber:
        return RealNumber("WitchHat", -self.half_width, self.half_width)

    @cached_property
    def law(self) -> HatLaw:
        return HatLaw(self.hat)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("WitchHat", self.hat.messages)

    @cached_property
    def estimator(self) -> WitchHatEstimator:
        return WitchHatEstimator(self.hat, self.half_width)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.hat.draw(rounding_and_digits.round_to_grid(self._units(values), self.grid, source), source)

    def _units(self, values: Floats) -> Integers:
        return rounding_and_digits.interval_to_units(values, -self.half_width, self.half_width)

    def neighbours_within(self, diameter: float) -> Neighbours:
        size = validation.positive_finite("WitchHat", "diameter", diameter, up=True)
        return self.law.neighbours_within(
            rounding_and_digits.max_steps_apart(size, -self.half_width, self.half_width, self.grid)
        )

    def neighbours_between(self, first: Any, second: Any) -> Neighbours:
        numbers = self.check([first, second])
        a, b = self._units(numbers).tolist()
        return self.law.neighbours_between(
            a, b, far=0 if sum(numbers.tolist()) > 0 else rounding_and_digits.RANGE_UNITS
        )

    def table(self) -> OutputTable:
        if self.hat.messages > MAX_TABLE_MESSAGES:
            raise ValueError(
                f"WitchHat: a table needs at most {MAX_TABLE_MESSAGES} messages, got {self.hat.messages}; lower grid."
            )
        inputs = np.linspace(-self.half_width, self.half_width, TABLE_INPUTS)
        laws = tuple(tuple(self.hat.number_law(unit)) for unit in self._units(inputs).tolist())
        return OutputTable(inputs, np.arange(self.hat.messages), laws)

    @classmethod
    def examples(cls) -> Sequence[WitchHat]:
        return [
            cls(epsilon=1.0, grid=1, scale=4.0),
            cls(epsilon=2.0, half_width=3.0, scale=2.0, grid=5),
            cls(epsilon=3.0, half_width=1.0, scale=0.7, grid=9),
        ]
