"""Two-sided geometric noise on a grid, cut at its ends: laws of messages, likelihood ratios, blanket and attacks."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

from flint import arb

from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.noise_crowds import others_of_points
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.privacy.neighbours import Neighbours, attack_of, of_one_pair, of_parameters
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding
from shuffledp.sampling.dyadic import at_most

PARAMETER_BITS = 160
MOST_POINTS_OF_A_SIDE = 64
"""Points on either side of the middle that are told apart; more cost time and change ε in the fifth digit."""
RANGES_OF_NEAR_PAIRS = 8
TABLE_BITS = 256


@dataclass(frozen=True)
class GridNoise:
    """A point of 0 … g (``grid``) plus noise z of probability in proportion to λ^|z|, λ = e^−``rate``, cut at the ends.

    A number is written in units of 2^-53 of its interval, and is a mixture of two points (``rounding``).
    """

    rate: Fraction
    grid: int

    @property
    def middle(self) -> int:
        """The first point that is not nearer to 0 than to g."""
        return (self.grid + 1) // 2

    def power(self, steps: int) -> arb:
        """λ^steps."""
        return arb(rational(-self.rate * steps)).exp()

    def total_variation(self, steps: int) -> arb:
        """Between two points, if nothing is clamped between them: 1 − (λ^⌈d/2⌉ + λ^(⌊d/2⌋+1))/(1+λ).

        For the two ends, d = g, it is attained, and is also what the blanket lacks to 1.
        """
        near, far = self.power(-(-steps // 2)), self.power(steps // 2 + 1)
        return 1 - (near + far) / (1 + self.power(1))

    def of_point(self, k: int) -> list[arb]:
        """The law of the message from point k."""
        step = self.power(1)
        powers = list(itertools.accumulate([step] * max(k, self.grid - k), operator.mul, initial=arb(1)))
        end = 1 / (1 + step)
        inside = end * (1 - step)
        return [(end if y in (0, self.grid) else inside) * powers[abs(y - k)] for y in range(self.grid + 1)]

    def of_unit(self, unit: int) -> list[arb]:
        """The law of the message of a number."""
        places = [(arb(rational(chance)), self.of_point(k)) for k, chance in rounding.grid_law(unit, self.grid).items()]
        return [sum((chance * law[y] for chance, law in places), arb(0)) for y in range(self.grid + 1)]

    def blanket(self) -> list[arb]:
        """What every law contains: at each point the law of the farther end."""
        low, high = self.of_point(0), self.of_point(self.grid)
        return [high[y] if 2 * y <= self.grid else low[y] for y in range(self.grid + 1)]

    def row(self, k: int) -> list[Fraction]:
        """The law from point k as fractions; what is lost by rounding down goes to the likeliest message."""
        with precision(2 * TABLE_BITS):
            law = self.of_point(k)
        row = [at_most(partial(law.__getitem__, y), TABLE_BITS) for y in range(self.grid + 1)]
        likeliest = max(range(len(row)), key=row.__getitem__)
        row[likeliest] += 1 - sum(row)
        return row


@dataclass(frozen=True)
class EndsAgainstBlanket:
    """Classes of the two ends against the blanket, points before the middle divided between those ``kept``."""

    noise: GridNoise
    kept: tuple[int, ...]

    def __call__(self) -> Classes:
        grid, middle = self.noise.grid, self.noise.middle
        far = self.noise.of_point(grid)
        points = [MessageClass(far[grid - y], far[y], far[y]) for y in range(middle)]
        side = _divided(points, self.kept)
        between = far[middle : grid - middle + 1]
        rest = MessageClass(arb(0), arb(0), self.noise.total_variation(grid))
        return [*side, *(MessageClass(c, c, c) for c in between), *map(_swapped, side), rest]


@dataclass(frozen=True)
class EndsInACrowd:
    """Classes of the two ends where everyone else holds one number (``others``, in units): runs of points."""

    noise: GridNoise
    starts: tuple[int, ...]
    others: int

    def __call__(self) -> Classes:
        laws = (self.noise.of_point(0), self.noise.of_point(self.noise.grid), self.noise.of_unit(self.others))
        runs = itertools.pairwise(self.starts)
        return [MessageClass(*(sum(law[a:b], arb(0)) for law in laws)) for a, b in runs]


@dataclass(frozen=True)
class TwoNumbers:
    """Classes of two numbers, in units, where everyone else holds a third one; None: against the blanket."""

    noise: GridNoise
    first: int
    second: int
    others: int | None

    def __call__(self) -> Classes:
        own = self.noise.of_unit(self.first), self.noise.of_unit(self.second)
        hiding = self.noise.blanket() if self.others is None else self.noise.of_unit(self.others)
        return [MessageClass(*each) for each in zip(*own, hiding, strict=True)]


@dataclass(frozen=True)
class GridNoiseLaw(Law):
    """The law of numbers of an interval with noise on a grid; ``middle`` is the middle of the interval in units."""

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
        """The two ends against the blanket, which is at each point the law of the farther end; then near pairs.

        Inputs are mixtures of points, so pairs of points are enough. For two points with the middle between them the
        law of G is smaller in convex order than for the ends. Points on one side are covered by ``near_pairs``.

        Where there are many points, those between two kept ones are divided between these: on either side of the
        middle the ratios to the blanket lie on one line, so that this too makes G larger in convex order, by a hair.
        """
        ends = HidingPair(EndsAgainstBlanket(self.noise, self._kept), symmetric=True)
        return [ends, *(parameters.pair(0.0) for parameters in self.near_pairs())]

    def near_pairs(self) -> list[VariationRatio]:
        """Parameters that cover any two points a < b on the low side of the middle (the other side is its mirror).

        With d = b − a ≤ g/2: the ratio is λ^−d. Against the blanket, the law of a is at most λ^−(g−a) ≤ λ^−g, the law
        of b, and so what both share, at most λ^−(g−b) ≤ λ^−(g−d). Distances are taken in a few ranges.
        """
        grid = self.noise.grid
        ends = sorted({grid // 2 * i // RANGES_OF_NEAR_PAIRS for i in range(RANGES_OF_NEAR_PAIRS + 1)})
        result = []
        with precision(PARAMETER_BITS):
            far = round_up(1 / self.noise.power(grid))
            for below, steps in itertools.pairwise(ends):
                nearer = round_up(1 / self.noise.power(grid - below - 1))
                ratio, beta = round_up(1 / self.noise.power(steps)), round_up(self.noise.total_variation(steps))
                result.append(VariationRatio(p=ratio, beta=beta, q=(far, nearer), q_common=nearer))
        return result

    def others(self) -> Sequence[Others]:
        """Every two points; a number is a mixture of two points, and divergences are convex."""
        with precision(PARAMETER_BITS):
            shared = round_down(1 - self.noise.total_variation(self.noise.grid))
        return [others_of_points(self.noise.rate, self.noise.grid, shared)]

    def attacks(self) -> Sequence[HidingPair]:
        """The two ends, where the others all hold the middle of the interval, or all hold its low end."""
        return [self._attack(self.middle), self._attack(0)]

    def _attack(self, others: int) -> HidingPair:
        """Where there are many points, the attacker looks at runs of them only."""
        grid = self.noise.grid
        starts = sorted({0, *(y + side for y in self._kept for side in (0, 1)), self.noise.middle})
        starts = [*starts, *(grid + 1 - y for y in reversed(starts) if 2 * y <= grid)]
        return HidingPair(EndsInACrowd(self.noise, tuple(starts), others), symmetric=False)

    @cached_property
    def _kept(self) -> tuple[int, ...]:
        """Points before the middle that are kept as classes of their own, evenly spaced in the root of the ratio."""
        middle = self.noise.middle
        if middle <= MOST_POINTS_OF_A_SIDE:
            return tuple(range(middle))
        rate, far = float(self.noise.rate), math.expm1(self.epsilon / 2)
        distances = [math.log1p(far * i / MOST_POINTS_OF_A_SIDE) / rate for i in range(MOST_POINTS_OF_A_SIDE)]
        inner = (round(self.noise.grid / 2 - distance) for distance in distances)
        return tuple(sorted({0, middle - 1, *(y for y in inner if 0 <= y < middle)}))

    # --- near inputs ------------------------------------------------------------------------------------------

    def between(self, first: int, second: int, far: int) -> Neighbours:
        """Two numbers in units; attacked where the others hold the end that is ``far`` from both, or the middle."""
        attacks = [attack_of(TwoNumbers(self.noise, first, second, others)) for others in (far, self.middle)]
        return of_one_pair(TwoNumbers(self.noise, first, second, None), attacks)

    def within(self, steps: int, apart: int) -> Neighbours:
        """Any two points at most this many steps apart, and mixtures of such; attacked with numbers ``apart`` units.

        Requires: every two numbers that are meant are mixtures of such points, and 0 and ``apart`` are two of them.
        Rounding puts near numbers on far points, but never surely: d of a step apart, their laws differ by d times what
        the points' laws do. So an attack with the points themselves is none. Here user 1 holds the number 0 or
        ``apart``, whose exact laws (``of_unit``) mix the points' laws, and the others the far end, or the middle: a
        constructed dataset, of which the attacker sees every message, or groups of them, and so at most what there is.
        """
        attacks = self._near_attacks(apart)
        if steps == self.noise.grid:
            return Neighbours(self.variation_ratio(), tuple(self.blankets()), attacks)
        with precision(PARAMETER_BITS):
            ratio, far = (round_up(1 / self.noise.power(d)) for d in (steps, self.noise.grid))
            parameters = of_parameters(ratio, round_up(self.noise.total_variation(steps)), far)
        return replace(parameters, attacking=attacks)

    def _near_attacks(self, apart: int) -> tuple[HidingPair, ...]:
        """Two numbers at the low end, as far apart as they may be."""
        if apart == rounding.WHOLE:
            return tuple(self.attacks())
        crowds = (rounding.WHOLE, self.middle) if apart else ()
        return tuple(attack_of(TwoNumbers(self.noise, 0, apart, others)) for others in crowds)


def _divided(points: Sequence[MessageClass], kept: Sequence[int]) -> list[MessageClass]:
    """Each point's probabilities divided between the nearest kept ones, in proportion so that nothing is lost.

    Requires: second = hiding everywhere, first/hiding decreasing; the first and the last point are kept.
    """
    ratios = [c.first / c.hiding for c in points]
    hiding = {y: points[y].hiding for y in kept}
    for left, right in itertools.pairwise(kept):
        gap = ratios[left] - ratios[right]
        for y in range(left + 1, right):
            moved = points[y].hiding * (ratios[y] - ratios[right]) / gap
            hiding[left] += moved
            hiding[right] += points[y].hiding - moved
    return [MessageClass(hiding[y] * ratios[y], hiding[y], hiding[y]) for y in kept]


def _swapped(c: MessageClass) -> MessageClass:
    return MessageClass(c.second, c.first, c.hiding)
