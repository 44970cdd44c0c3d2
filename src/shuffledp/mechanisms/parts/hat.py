"""Weights on a grid that fall from a tip to a flat brim: their law, likelihood ratios, blanket and attacks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.parts.hat_crowds import HatCrowds
from shuffledp.mechanisms.parts.law import Law
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.numerics.ball import above, precision, rational, round_up, whole_below
from shuffledp.privacy.neighbours import Neighbours, attack_of, identical, of_one_pair, of_parameters
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import Classes, ExactClass, HidingPair, MessageClass
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

Chances = Sequence[Fraction]
UNITS = 1 << 61
MOST_STEP = 1 << 20
RATIO_BITS = 100


@dataclass(frozen=True)
class Hat:
    """Whole weights t_|z−k| of the messages z = −s … g+s of a point k = 0 … g: e^(−jρ) at distance j < s, then e^−ε.

    ``step_distance`` is ρ, the privacy distance of neighbouring points, ``grid`` g. Weights are whole units, from the
    brim up, each at most e^ρ times the next and e^ε times the brim. Every point has the same sum of weights.
    """

    epsilon: float
    step_distance: Fraction
    grid: int

    @cached_property
    def reach(self) -> int:
        """s: steps from the tip to the brim."""
        return math.ceil(Fraction(self.epsilon) / self.step_distance)

    @property
    def messages(self) -> int:
        """How many different messages there are."""
        return self.grid + 1 + 2 * self.reach

    @cached_property
    def units(self) -> tuple[int, ...]:
        """t_0 … t_s."""
        with precision(4 * RATIO_BITS):
            step = -arb(rational(self.step_distance))
            falls = [(step * j).exp() for j in range(self.reach)]
            brim = (-arb(self.epsilon)).exp()
            total = 2 * sum(falls, arb(0)) + (self.grid + 2) * brim
            scale = arb(UNITS) / arb(float(total.mid()))
            wished = [whole_below(fall * scale) for fall in falls]
            lowest = 1 + whole_below(brim * scale)
            if self.step_distance > MOST_STEP:
                raise ValueError("WitchHat: expected a grid step that is small against the scale, got one far larger.")
            ratio, most = (_ratio_below(arb(rational(d))) for d in (self.step_distance, Fraction(self.epsilon)))
        result = [lowest]
        for wish in reversed(wished):
            bound = min(ratio * result[-1], most * lowest) >> RATIO_BITS
            result.append(max(result[-1], min(wish, bound)))
        return tuple(result[::-1])

    @cached_property
    def whole(self) -> int:
        """The sum of an input's weights."""
        return self.units[0] + 2 * sum(self.units[1:-1]) + (self.grid + 2) * self.units[-1]

    def weights(self, k: int) -> NDArray[np.int64]:
        """The units of every message for the point k."""
        distance = np.abs(np.arange(-self.reach, self.grid + self.reach + 1) - k)
        return np.asarray(np.array(self.units)[np.minimum(distance, self.reach)])

    def of_unit(self, unit: int) -> Chances:
        """The exact law of the message of one number, in units of 2^-53 of its interval."""
        law = [Fraction(0)] * self.messages
        for k, chance in rounding.grid_law(unit, self.grid).items():
            law = [before + chance * t / self.whole for before, t in zip(law, self.weights(k).tolist(), strict=True)]
        return law

    def distance(self, steps: int) -> arb:
        """The privacy distance of points this many steps apart."""
        return arb(rational(self.step_distance * steps)).min(arb(self.epsilon))

    def total_variation(self, steps: int) -> Fraction:
        """Of two points: the same wherever they are."""
        first, second = self.weights(0), self.weights(steps)
        return Fraction(int(np.maximum(first - second, 0).sum()), self.whole)

    # --- drawing ----------------------------------------------------------------------------------------------

    def draw(self, points: Integers, source: RandomSource) -> Integers:
        """One number below the sum picks the distance to the tip, then the side, or a point of the brim."""
        draws = source.below(self.whole, len(points))
        distance = self._thresholds.searchsorted(draws, side="right")
        left = draws - self._starts[distance]
        side = np.where(left < self._tall[distance], distance, -distance)
        brim = left // self._tall[-1]
        far = np.where(brim <= points, brim - self.reach, brim + self.reach - 1)
        return np.asarray(np.where(distance == self.reach, far, points + side) + self.reach)

    @cached_property
    def _tall(self) -> NDArray[np.int64]:
        return np.array(self.units)

    @cached_property
    def _thresholds(self) -> NDArray[np.int64]:
        times = np.full(self.reach + 1, 2)
        times[0], times[-1] = 1, self.grid + 2
        return np.cumsum(self._tall * times)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], self._thresholds[:-1]])


@dataclass(frozen=True)
class RationalClasses:
    """Classes whose three probabilities are rationals."""

    exact: tuple[ExactClass, ...]

    @classmethod
    def of(cls, first: Chances, second: Chances, hiding: Chances) -> RationalClasses:
        """Messages with the same three probabilities put together."""
        times: dict[tuple[Fraction, Fraction, Fraction], int] = {}
        for triple in zip(first, second, hiding, strict=True):
            times[triple] = times.get(triple, 0) + 1
        return cls(tuple(_times(triple, count) for triple, count in times.items()))

    def __call__(self) -> Classes:
        return [MessageClass(*map(arb, triple)) for triple in self.exact]


@dataclass(frozen=True)
class HatLaw(Law):
    """The law of numbers of an interval, each a mixture of two points; everyone's contains the brim everywhere."""

    hat: Hat

    def variation_ratio(self) -> VariationRatio:
        return self._parameters(self.hat.grid)

    def blankets(self) -> Sequence[HidingPair]:
        """Two points as far apart as can be, against the brim."""
        return self.within(self.hat.grid).blankets()

    def attacks(self) -> Sequence[HidingPair]:
        """The two ends."""
        return self.between(0, rounding.WHOLE, far=rounding.WHOLE).attacks()

    def others(self) -> Sequence[Others]:
        """Pairs as far apart as can be, and every crowd; a number is a mixture of two points."""
        return () if self._crowds is None else [self._crowds]

    @cached_property
    def _crowds(self) -> Others | None:
        return HatCrowds(self.hat.units, self.hat.grid).others()

    def within(self, steps: int) -> Neighbours:
        """Points at most this many steps apart; everyone's law contains the brim everywhere.

        Against the brim, points that are farther apart are worse: ΣΦ(t_|z| − c·t_|z−d|), Φ convex, is a sum over levels
        of minus the overlap of an interval around 0 with one around d, which shrinks as d grows. From 2s steps on the
        two hats are disjoint and nothing changes.
        """
        hat = self.hat
        worst = hat.weights(min(steps, 2 * hat.reach)).tolist()
        # Whole numbers are put together many times faster than fractions.
        times = Counter(zip(hat.weights(0).tolist(), worst, strict=True))
        brim = hat.units[-1]
        classes = [
            (fmpq(a * count, hat.whole), fmpq(b * count, hat.whole), fmpq(brim * count, hat.whole))
            for (a, b), count in times.items()
        ]
        pairs = of_one_pair(RationalClasses(tuple(classes))).blankets()
        return Neighbours(self._parameters(steps), tuple(pairs))

    def _parameters(self, steps: int) -> VariationRatio:
        """What is known of points at most this many steps apart without their laws."""
        hat = self.hat
        with precision(4 * RATIO_BITS):
            p, q = (round_up(hat.distance(d).exp()) for d in (steps, hat.grid))
        return of_parameters(p, above(hat.total_variation(steps)), q).parameters

    def between(self, first: int, second: int, far: int) -> Neighbours:
        """The exact laws of two numbers, in units, against what every number's law contains: the farther end's.

        Attacked where the others hold the end that is ``far`` from both, or the middle.
        """
        hat = self.hat
        laws = hat.of_unit(first), hat.of_unit(second)
        if laws[0] == laws[1]:
            return identical()
        floor = np.minimum(hat.weights(0), hat.weights(hat.grid)).tolist()
        blanket = [Fraction(unit, hat.whole) for unit in floor]
        crowds = [hat.of_unit(others) for others in (far, rounding.WHOLE // 2)]
        attacks = [attack_of(RationalClasses.of(*laws, crowd)) for crowd in crowds]
        return of_one_pair(RationalClasses.of(*laws, blanket), attacks)


@dataclass(frozen=True)
class HatReading(Reading):
    """The mean of numbers from −``half_width`` to ``half_width``."""

    hat: Hat
    half_width: float

    def accumulate(self, messages: Array) -> Array:
        """The sum of the messages, which is exact, and that of the squares of twice their distance from the middle."""
        centred = 2.0 * messages - (self.hat.messages - 1)
        return np.array([messages.sum(), np.dot(centred, centred)], dtype=np.float64)

    def finish(self, total: Array, users: int) -> Estimate:
        """What exceeds the brim has its middle at the user's point, the rest at the middle of all messages.

        Users who differ are not users who hold their mean: the mean square of the messages tells that of the users'
        points. Of this at most 1/4 (of a step, squared) comes from the rounding, and is counted as if it did; nor is
        what the numbers leave of it less than the square of their mean.
        """
        first, second = np.asarray(total, dtype=np.float64) / users
        steps = (first - (self.hat.messages - 1) / 2) * self.stretch
        points = max(0.0, (second / 4 * self.hat.whole - self._fixed) / self._peak)
        held = max(points - 0.25, min(abs(steps), self.hat.grid / 2) ** 2)
        spread = self._second_moment(points) - held
        value = steps * self._step
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        return np.array([float(total[1]) / (4 * users) * (self.stretch * self._step) ** 2])

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """The first message and the last."""
        half = (self.hat.messages - 1) / 2 * self.stretch * self._step
        return (Sway(-half, (2 * messages - 1) * half, -self.half_width, self.half_width),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        units = rounding.units_of_interval(values, -self.half_width, self.half_width)
        whole, left = rounding.grid_position(units, self.hat.grid)
        up = left / rounding.WHOLE
        mean = whole + up - self.hat.grid / 2
        spread = self._second_moment(mean**2 + up * (1 - up)) - mean**2
        return np.array([spread.mean() * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return 2 * self.half_width / self.hat.grid

    @cached_property
    def _peak(self) -> int:
        """Units above the brim."""
        return self.hat.whole - self.hat.messages * self.hat.units[-1]

    @property
    def stretch(self) -> float:
        """N/(Fκ): one over the share of the messages above the brim."""
        return self.hat.whole / self._peak

    def _second_moment(self, square: Any) -> Any:
        """Mean square of the estimate from the middle in steps, where that of the user's point is ``square``."""
        return self.stretch**2 * (self._fixed + self._peak * square) / self.hat.whole

    @cached_property
    def _fixed(self) -> float:
        """Brim times distance² from the middle, over all messages, and peak times distance² from its tip."""
        brim, last = self.hat.units[-1], self.hat.messages
        around = sum((t - brim) * 2 * j * j for j, t in enumerate(self.hat.units))
        return float(Fraction(brim * last * (last * last - 1), 12) + around)


def _times(triple: tuple[Fraction, Fraction, Fraction], count: int) -> tuple[fmpq, fmpq, fmpq]:
    first, second, hiding = (rational(x) * count for x in triple)
    return first, second, hiding


def _ratio_below(distance: arb) -> int:
    return whole_below(distance.exp() * arb(2) ** RATIO_BITS)
