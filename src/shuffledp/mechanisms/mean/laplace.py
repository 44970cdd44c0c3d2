"""A number in an interval, with Laplace noise."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Estimate, OutputTable
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.old_whole_number import WholeNumber
from shuffledp.numerics.ball import precision, rational, round_up
from shuffledp.privacy.neighbours import Neighbours, attack_of, identical, of_one_pair, of_parameters
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding
from shuffledp.sampling.dyadic import at_most
from shuffledp.sampling.geometric import TwoSidedGeometric
from shuffledp.sampling.random import RandomSource

LARGEST_EPSILON = 700.0
"""e^ε is still a float."""
PARAMETER_BITS = 160
MOST_POINTS_OF_A_SIDE = 64
"""Points on either side of the middle that are told apart; more cost time and change ε in the fifth digit."""
RANGES_OF_NEAR_PAIRS = 8
TABLE_BITS = 256
INPUTS_OF_A_TABLE = 7
MOST_STEPS_OF_A_TABLE = 256
USERS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Laplace(WholeNumber, HasNeighbours):
    """Add two-sided geometric noise to a number on a grid, and report where on the grid the sum falls.

    The number is rounded to a whole number of units of 2^-53 of [low, high], then at random without bias to one of the
    points 0 … g, g = ``grid`` (``rounding``). The noise z has probability in proportion to λ^|z|, λ = e^(−ε'/g) exactly
    (``TwoSidedGeometric``), ε' the float below ε: the ratio is e^ε' < e^ε. A sum below 0 is reported as 0, one above g
    as g. Nothing is lost by that: beyond the ends all inputs' laws have the same shape, so the place beyond an end
    tells nothing, and its mean is known. The estimator reads 0 as −λ/(1−λ) and g as g + λ/(1−λ), and is unbiased.

    Theorem: [VR] Table 1, Laplace on [0, 1]: p = q = e^ε', β = 1 − e^(−ε'/2) if g is even,
    1 − 2λ^((g+1)/2)/(1+λ) if g is odd.
    Deviates: a grid in place of real numbers; noise beyond the ends is replaced by its mean, which makes the variance
    smaller by up to a half and a message log2(g+1) bits.
    """

    epsilon: float
    low: float = 0.0
    high: float = 1.0
    grid: int = 1024

    name = "laplace"
    task = "mean"
    summary = "mean of numbers in an interval: the number with Laplace noise, on a grid"

    def __post_init__(self) -> None:
        if informative_epsilon("Laplace", self.epsilon) > LARGEST_EPSILON:
            raise ValueError(f"Laplace: epsilon must be at most {LARGEST_EPSILON:g}, got {self.epsilon!r}.")
        low, high = argument.real("Laplace", "low", self.low), argument.real("Laplace", "high", self.high)
        if not 0.0 < high - low < math.inf:
            raise ValueError(f"Laplace: low must be below high and both finite, got {low!r} and {high!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "grid", rounding.grid_size("Laplace", self.grid, at_least=1))

    @property
    def value_range(self) -> tuple[float, float]:
        return self.low, self.high

    # --- running it -------------------------------------------------------------------------------------------

    @cached_property
    def noise(self) -> TwoSidedGeometric:
        """The noise in steps; what is further than from end to end need not be told apart."""
        return TwoSidedGeometric(Fraction(math.nextafter(self.epsilon, 0.0)) / self.grid, reach=self.grid)

    def check(self, values: Any) -> Array:
        return user_values.reals("Laplace", values, self.low, self.high)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            steps = rounding.to_grid(self._units(part), self.grid, source)
            steps += self.noise.draw(source, len(part))
            np.clip(steps, 0, self.grid, out=messages[start : start + USERS_AT_ONCE])
        return messages

    def _units(self, values: Floats) -> Array:
        return rounding.units_of_interval(values, self.low, self.high)

    @property
    def outputs(self) -> int:
        return self.grid + 1

    # --- reading the messages ---------------------------------------------------------------------------------

    def accumulate(self, messages: Array) -> Array:
        """The sum of the messages, how many are 0 and how many are g."""
        return np.array([messages.sum(), (messages == 0).sum(), (messages == self.grid).sum()])

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, and its variance from the share of messages at the ends, the rounding counted at its most."""
        inside, at_low, at_high = np.asarray(total, dtype=np.float64) / users
        steps = inside + (at_high - at_low) * self._beyond
        spread = self._noise_variance(at_low + at_high) + 0.25
        value = self.low + steps * self._step
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users)

    def truth(self, values: Any) -> Floats:
        return np.array([self.check(values).mean()])

    def variance(self, values: Any) -> Floats:
        """A point k is at an end with probability (λ^k + λ^(g−k))/(1+λ)."""
        whole, left = rounding.grid_position(self._units(self.check(values)), self.grid)
        up, rate = left / rounding.WHOLE, float(self.noise.rate)
        spread = up * (1 - up)
        for steps, share in ((whole, 1 - up), (whole + 1, up)):
            ends = np.exp(-rate * steps) + np.exp(-rate * np.maximum(self.grid - steps, 0))
            spread += share * self._noise_variance(ends / (1 + math.exp(-rate)))
        return np.array([spread.mean() * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.grid

    @cached_property
    def _beyond(self) -> float:
        """λ/(1−λ): the mean distance of the sum beyond an end, given that it is there or at the end."""
        return 1 / math.expm1(float(self.noise.rate))

    def _noise_variance(self, ends: Any) -> Any:
        """Variance in steps: 2λ/(1−λ)² in all, less λ/(1−λ)² times the probability of the ends."""
        return self._beyond * (1 + self._beyond) * (2 - ends)

    # --- its privacy ------------------------------------------------------------------------------------------

    def variation_ratio(self) -> VariationRatio:
        with precision(PARAMETER_BITS):
            ratio, beta = round_up(1 / self._power(self.grid)), round_up(self._total_variation(self.grid))
        return VariationRatio(p=ratio, beta=beta, q=ratio)

    def blankets(self) -> Sequence[HidingPair]:
        """The two ends against the blanket, which is at each point the law of the farther end; then near pairs.

        Inputs are mixtures of points, so pairs of points are enough. For two points with the middle between them the
        law of G is smaller in convex order than for the ends. Points on one side are covered by ``near_pairs``.

        Where there are many points, those between two kept ones are divided between these: on either side of the
        middle the ratios to the blanket lie on one line, so that this too makes G larger in convex order, by a hair.
        """

        def classes() -> Classes:
            far = self._law(self.grid)
            points = [MessageClass(far[self.grid - y], far[y], far[y]) for y in range(self._middle)]
            side = _divided(points, self._kept)
            between = far[self._middle : self.grid - self._middle + 1]
            rest = MessageClass(arb(0), arb(0), self._total_variation(self.grid))
            return [*side, *(MessageClass(c, c, c) for c in between), *map(_swapped, side), rest]

        ends = HidingPair(classes, symmetric=True)
        return [ends, *(parameters.pair(0.0) for parameters in self.near_pairs())]

    def near_pairs(self) -> list[VariationRatio]:
        """Parameters that cover any two points a < b on the low side of the middle (the other side is its mirror).

        With d = b − a ≤ g/2: the ratio is λ^−d. Against the blanket, the law of a is at most λ^−(g−a) ≤ λ^−g, the law
        of b, and so what both share, at most λ^−(g−b) ≤ λ^−(g−d). Distances are taken in a few ranges.
        """
        ends = sorted({self.grid // 2 * i // RANGES_OF_NEAR_PAIRS for i in range(RANGES_OF_NEAR_PAIRS + 1)})
        result = []
        with precision(PARAMETER_BITS):
            far = round_up(1 / self._power(self.grid))
            for below, steps in itertools.pairwise(ends):
                nearer = round_up(1 / self._power(self.grid - below - 1))
                ratio, beta = round_up(1 / self._power(steps)), round_up(self._total_variation(steps))
                result.append(VariationRatio(p=ratio, beta=beta, q=(far, nearer), q_common=nearer))
        return result

    def attacks(self) -> Sequence[HidingPair]:
        """The two ends, where the others all hold the middle of the interval, or all hold its low end."""
        return [self._attack(self.low + (self.high - self.low) / 2), self._attack(self.low)]

    def between(self, first: Any, second: Any) -> Neighbours:
        """The exact laws of two numbers against the blanket, which is at each point the law of the farther end."""
        a, b = self.check([first, second]).tolist()
        if self._units(np.array([a])) == self._units(np.array([b])):
            return identical()
        far = self.low if a + b > self.low + self.high else self.high
        middle = self.low + (self.high - self.low) / 2
        attacks = [attack_of(partial(self._classes, a, b, partial(self._mixture, x))) for x in (far, middle)]
        return of_one_pair(partial(self._classes, a, b, self._blanket), attacks)

    def within(self, diameter: float) -> Neighbours:
        """Numbers at most this far apart are mixtures of points at most so many steps apart, rounded up."""
        size = argument.positive_finite("Laplace", "diameter", diameter)
        steps = rounding.steps_within(size, self.low, self.high, self.grid)
        if steps == self.grid:
            return Neighbours(self.variation_ratio(), tuple(self.blankets()), tuple(self.attacks()))
        with precision(PARAMETER_BITS):
            ratio, far = (round_up(1 / self._power(d)) for d in (steps, self.grid))
            return of_parameters(ratio, round_up(self._total_variation(steps)), far)

    def _classes(self, a: float, b: float, hiding: Callable[[], list[arb]]) -> Classes:
        return [MessageClass(*each) for each in zip(self._mixture(a), self._mixture(b), hiding(), strict=True)]

    def _blanket(self) -> list[arb]:
        low, high = self._law(0), self._law(self.grid)
        return [high[y] if 2 * y <= self.grid else low[y] for y in range(self.grid + 1)]

    def _mixture(self, value: float) -> list[arb]:
        """The law of the message of a number."""
        (unit,) = self._units(np.array([value])).tolist()
        places = [(arb(rational(chance)), self._law(k)) for k, chance in rounding.grid_law(unit, self.grid).items()]
        return [sum((chance * law[y] for chance, law in places), arb(0)) for y in range(self.grid + 1)]

    def _attack(self, others: float) -> HidingPair:
        """Where there are many points, the attacker looks at runs of them only."""
        starts = sorted({0, *(y + side for y in self._kept for side in (0, 1)), self._middle})
        starts = [*starts, *(self.grid + 1 - y for y in reversed(starts) if 2 * y <= self.grid)]

        def classes() -> Classes:
            laws = (self._law(0), self._law(self.grid), self._mixture(others))
            runs = itertools.pairwise(starts)
            return [MessageClass(*(sum(law[a:b], arb(0)) for law in laws)) for a, b in runs]

        return HidingPair(classes, symmetric=False)

    @property
    def _middle(self) -> int:
        """The first point that is not nearer to 0 than to g."""
        return (self.grid + 1) // 2

    @cached_property
    def _kept(self) -> list[int]:
        """Points before the middle that are kept as classes of their own, evenly spaced in the root of the ratio."""
        if self._middle <= MOST_POINTS_OF_A_SIDE:
            return list(range(self._middle))
        rate, far = float(self.noise.rate), math.expm1(self.epsilon / 2)
        distances = [math.log1p(far * i / MOST_POINTS_OF_A_SIDE) / rate for i in range(MOST_POINTS_OF_A_SIDE)]
        inner = (round(self.grid / 2 - distance) for distance in distances)
        return sorted({0, self._middle - 1, *(y for y in inner if 0 <= y < self._middle)})

    def _law(self, k: int) -> list[arb]:
        """The law of the message from point k."""
        step = self._power(1)
        powers = list(itertools.accumulate([step] * max(k, self.grid - k), operator.mul, initial=arb(1)))
        end = 1 / (1 + step)
        inside = end * (1 - step)
        return [(end if y in (0, self.grid) else inside) * powers[abs(y - k)] for y in range(self.grid + 1)]

    def _power(self, steps: int) -> arb:
        """λ^steps."""
        return arb(rational(-self.noise.rate * steps)).exp()

    def _total_variation(self, steps: int) -> arb:
        """Between two points, if nothing is clamped between them: 1 − (λ^⌈d/2⌉ + λ^(⌊d/2⌋+1))/(1+λ).

        For the two ends, d = g, it is attained, and is also what the blanket lacks to 1.
        """
        near, far = self._power(-(-steps // 2)), self._power(steps // 2 + 1)
        return 1 - (near + far) / (1 + self._power(1))

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def probe(self) -> Array:
        return np.array([self.low, self.high])

    def table(self) -> OutputTable:
        """Its probabilities are irrational: given to within 2^-200, as fractions whose rows sum to exactly 1."""
        if self.grid > MOST_STEPS_OF_A_TABLE:
            raise ValueError(f"Laplace: a table needs a grid of at most {MOST_STEPS_OF_A_TABLE}, got {self.grid}.")
        inputs = np.linspace(self.low, self.high, INPUTS_OF_A_TABLE)
        points = [self._row(k) for k in range(self.grid + 1)]
        rows = []
        for unit in self._units(inputs).tolist():
            law = rounding.grid_law(unit, self.grid)
            rows.append(tuple(sum((law[k] * points[k][y] for k in law), Fraction(0)) for y in range(self.grid + 1)))
        return OutputTable(inputs, np.arange(self.grid + 1), tuple(rows))

    def _row(self, k: int) -> list[Fraction]:
        """The law of the message from point k; what is lost by rounding down goes to the likeliest message."""
        with precision(2 * TABLE_BITS):
            law = self._law(k)
        row = [at_most(partial(law.__getitem__, y), TABLE_BITS) for y in range(self.grid + 1)]
        likeliest = max(range(len(row)), key=row.__getitem__)
        row[likeliest] += 1 - sum(row)
        return row

    @classmethod
    def examples(cls) -> Sequence[Laplace]:
        return [
            cls(epsilon=1.0, grid=1),
            cls(epsilon=0.5, low=-3.0, high=5.0, grid=4),
            cls(epsilon=3.0, grid=7),
            cls(epsilon=8.0, low=0.0, high=0.1, grid=10),
        ]


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
