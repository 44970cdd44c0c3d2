"""A number in an interval, reported near where it is or, seldom, anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.mechanism import Estimate, OutputTable, Tuning
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.metric_table import LARGEST_DISTANCE, SMALLEST_DISTANCE
from shuffledp.mechanisms.parts.old_whole_number import WholeNumber
from shuffledp.numerics.ball import above, precision, rational, round_up, whole_below
from shuffledp.privacy.neighbours import Neighbours, attack_of, identical, of_one_pair, of_parameters
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

Law = Sequence[Fraction]
UNITS = 1 << 61
RATIO_BITS = 100
HIGH_HAT = 20.0
"""Below this ε the brim always has units enough."""
MOST_STEPS = 1 << 16
INPUTS_OF_A_TABLE = 5
MOST_MESSAGES_OF_A_TABLE = 1024


@dataclass(frozen=True)
class WitchHat(WholeNumber, HasNeighbours):
    """Report a point near one's own number with exponentially falling weight, which far away stays at e^−ε.

    The number, from −B to B (``half_width``), is rounded at random without bias to one of the points 0 … g (``grid``).
    With F = ``scale`` and the level m = ε, the message is a point z of −s … g+s with weight t_|z−k|: t_j is e^(−jρ) for
    j < s and e^(−m) from there on, ρ = 4B/(gF) and s = ⌈m/ρ⌉. Weights are whole units, from the brim up, each at most
    e^ρ times the next and e^m times the brim, so that points k, l differ by a factor of at most e^min(ρ|k−l|, m),
    exactly. Every input has the same sum of weights; one exactly uniform number draws the message.

    Theorem: [MDP] WitchHat(B, m, F), private for min(2|a−b|/F, m), unbiased estimator N·z/(Fκ); total variation
    corrected.
    Deviates: a grid in place of real numbers; estimator, variance and β are those of the grid, and exact; the printed β
    and variance are wrong (docs/errata.md, MD-7, MD-8).
    """

    epsilon: float
    half_width: float = 1.0
    scale: float = 1.0
    grid: int = 256

    name = "witch-hat"
    task = "mean"
    summary = "mean of numbers in an interval: near numbers are better protected than far ones"
    tight = False
    tuning = (Tuning("epsilon", False, False, 1e-6, LARGEST_DISTANCE),)

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """From narrow hats, which tell nearby numbers apart, to wide ones."""
        yield from ({"scale": scale} for scale in (0.125, 0.25, 0.5, 1.0, 2.0))

    def __post_init__(self) -> None:
        level = argument.positive_finite("WitchHat", "epsilon", self.epsilon)
        if not SMALLEST_DISTANCE <= level <= LARGEST_DISTANCE:
            raise ValueError(
                f"WitchHat: epsilon must be from {SMALLEST_DISTANCE:g} to {LARGEST_DISTANCE:g}, got {level!r}."
            )
        for name in ("half_width", "scale"):
            argument.positive_finite("WitchHat", name, getattr(self, name))
        if not 2 * self.half_width < math.inf:
            raise ValueError(f"WitchHat: half_width must be small enough to be doubled, got {self.half_width!r}.")
        object.__setattr__(self, "grid", rounding.grid_size("WitchHat", self.grid, at_least=1))
        if self.reach > MOST_STEPS:
            raise ValueError(
                f"WitchHat: the hat must be at most {MOST_STEPS} steps wide, got {self.reach}; lower grid or scale."
            )
        # Far below the tip the brim has so few units that a step's ratio is lost in rounding.
        if level > HIGH_HAT and self.units[0] == self.units[-1]:
            raise ValueError(
                f"WitchHat: epsilon must be smaller for this grid and scale to tell anything, got {level!r}."
            )

    # --- its law ----------------------------------------------------------------------------------------------

    @cached_property
    def step_distance(self) -> Fraction:
        """ρ: the privacy distance of neighbouring points."""
        return 4 * Fraction(self.half_width) / (self.grid * Fraction(self.scale))

    @cached_property
    def reach(self) -> int:
        """s: steps from the tip to the brim."""
        return math.ceil(Fraction(self.epsilon) / self.step_distance)

    @property
    def messages(self) -> int:
        """How many different messages there are."""
        return self.grid + 1 + 2 * self.reach

    @cached_property
    def units(self) -> list[int]:
        """t_0 … t_s."""
        with precision(4 * RATIO_BITS):
            falls = [(-arb(rational(self.step_distance * j))).exp() for j in range(self.reach)]
            brim = (-arb(self.epsilon)).exp()
            total = 2 * sum(falls, arb(0)) + (self.grid + 2) * brim
            scale = arb(UNITS) / arb(float(total.mid()))
            wished = [whole_below(fall * scale) for fall in falls]
            lowest = 1 + whole_below(brim * scale)
            step, most = (_ratio_below(arb(rational(d))) for d in (self.step_distance, Fraction(self.epsilon)))
        result = [lowest]
        for wish in reversed(wished):
            bound = min(step * result[-1], most * lowest) >> RATIO_BITS
            result.append(max(result[-1], min(wish, bound)))
        return result[::-1]

    @cached_property
    def whole(self) -> int:
        """The sum of an input's weights."""
        return self.units[0] + 2 * sum(self.units[1:-1]) + (self.grid + 2) * self.units[-1]

    def _weights(self, k: int) -> NDArray[np.int64]:
        """The units of every message for the point k."""
        distance = np.abs(np.arange(-self.reach, self.grid + self.reach + 1) - k)
        return np.asarray(np.array(self.units)[np.minimum(distance, self.reach)])

    def _law(self, value: float) -> Law:
        """The exact law of the message of one value."""
        (unit,) = self._units_of(np.array([value])).tolist()
        law = [Fraction(0)] * self.messages
        for k, chance in rounding.grid_law(unit, self.grid).items():
            law = [before + chance * t / self.whole for before, t in zip(law, self._weights(k).tolist(), strict=True)]
        return law

    # --- running it -------------------------------------------------------------------------------------------

    @property
    def value_range(self) -> tuple[float, float]:
        return -self.half_width, self.half_width

    def check(self, values: Any) -> Array:
        return user_values.reals("WitchHat", values, -self.half_width, self.half_width)

    def _units_of(self, values: Floats) -> Integers:
        return rounding.units_of_interval(values, -self.half_width, self.half_width)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """One number below the sum picks the distance to the tip, then the side, or a point of the brim."""
        points = rounding.to_grid(self._units_of(values), self.grid, source)
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

    @property
    def outputs(self) -> int:
        return self.messages

    # --- reading the messages ---------------------------------------------------------------------------------

    def accumulate(self, messages: Array) -> Array:
        """The sum of the messages."""
        return np.array([messages.sum()])

    def finish(self, total: Array, users: int) -> Estimate:
        """What exceeds the brim has its middle at the user's point, the rest at the middle of all messages."""
        shift = float(total[0]) / users - (self.messages - 1) / 2
        steps = shift * self._stretch
        square = min(abs(steps), self.grid / 2) ** 2
        spread = self._second_moment(square + 0.25) - square
        value = steps * self._step
        return Estimate(np.array([value]), np.array([spread * self._step**2 / users]), users)

    def truth(self, values: Any) -> Floats:
        return np.array([self.check(values).mean()])

    def variance(self, values: Any) -> Floats:
        whole, left = rounding.grid_position(self._units_of(self.check(values)), self.grid)
        up = left / rounding.WHOLE
        mean = whole + up - self.grid / 2
        spread = self._second_moment(mean**2 + up * (1 - up)) - mean**2
        return np.array([spread.mean() * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return 2 * self.half_width / self.grid

    @cached_property
    def _peak(self) -> int:
        """Units above the brim."""
        return self.whole - self.messages * self.units[-1]

    @property
    def _stretch(self) -> float:
        """N/(Fκ): one over the share of the messages above the brim."""
        return self.whole / self._peak

    def _second_moment(self, square: Any) -> Any:
        """Mean square of the estimate from the middle in steps, where that of the user's point is ``square``."""
        return self._stretch**2 * (self._fixed + self._peak * square) / self.whole

    @cached_property
    def _fixed(self) -> float:
        """Brim times distance² from the middle, over all messages, and peak times distance² from its tip."""
        brim, last = self.units[-1], self.messages
        around = sum((t - brim) * 2 * j * j for j, t in enumerate(self.units))
        return float(Fraction(brim * last * (last * last - 1), 12) + around)

    # --- its privacy ------------------------------------------------------------------------------------------

    def variation_ratio(self) -> VariationRatio:
        return self._steps_apart(self.grid).variation_ratio()

    def blankets(self) -> Sequence[HidingPair]:
        """Two points as far apart as can be, against the brim."""
        return self._steps_apart(self.grid).blankets()

    def attacks(self) -> Sequence[HidingPair]:
        """The two ends."""
        return self.between(-self.half_width, self.half_width).attacks()

    def within(self, diameter: float) -> Neighbours:
        """Inputs at most this far apart are mixtures of points that are no more than ⌈diameter/step⌉ steps apart."""
        size = argument.positive_finite("WitchHat", "diameter", diameter)
        return self._steps_apart(rounding.steps_within(size, -self.half_width, self.half_width, self.grid))

    def _steps_apart(self, steps: int) -> Neighbours:
        """Points at most this many steps apart; everyone's law contains the brim everywhere.

        Against the brim, points that are farther apart are worse: ΣΦ(t_|z| − c·t_|z−d|), Φ convex, is a sum over levels
        of minus the overlap of an interval around 0 with one around d, which shrinks as d grows. From 2s steps on the
        two hats are disjoint and nothing changes.
        """
        with precision(4 * RATIO_BITS):
            p, q = (round_up(self._distance(d).exp()) for d in (steps, self.grid))
        worst = [Fraction(1, self.whole) * t for t in self._weights(min(steps, 2 * self.reach)).tolist()]
        brim = [Fraction(self.units[-1], self.whole)] * self.messages
        first = [Fraction(1, self.whole) * t for t in self._weights(0).tolist()]
        pairs = of_one_pair(_classes(first, worst, brim)).blankets()
        return Neighbours(of_parameters(p, above(self.total_variation(steps)), q).parameters, tuple(pairs))

    def _distance(self, steps: int) -> arb:
        return arb(rational(self.step_distance * steps)).min(arb(self.epsilon))

    def total_variation(self, steps: int) -> Fraction:
        """Of two points: the same wherever they are."""
        first, second = self._weights(0), self._weights(steps)
        return Fraction(int(np.maximum(first - second, 0).sum()), self.whole)

    def between(self, first: Any, second: Any) -> Neighbours:
        """The exact laws of two values against what every value's law contains: at each point the farther end's."""
        a, b = self.check([first, second]).tolist()
        laws = self._law(a), self._law(b)
        if laws[0] == laws[1]:
            return identical()
        floor = np.minimum(self._weights(0), self._weights(self.grid)).tolist()
        blanket = [Fraction(unit, self.whole) for unit in floor]
        far = -self.half_width if a + b > 0 else self.half_width
        attacks = [attack_of(_classes(*laws, self._law(others))) for others in (far, 0.0)]
        return of_one_pair(_classes(*laws, blanket), attacks)

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def probe(self) -> Array:
        return np.array([-self.half_width, self.half_width])

    def table(self) -> OutputTable:
        if self.messages > MOST_MESSAGES_OF_A_TABLE:
            raise ValueError(
                f"WitchHat: a table needs at most {MOST_MESSAGES_OF_A_TABLE} messages, got {self.messages}; lower grid."
            )
        inputs = np.linspace(-self.half_width, self.half_width, INPUTS_OF_A_TABLE)
        return OutputTable(inputs, np.arange(self.messages), tuple(tuple(self._law(x)) for x in inputs.tolist()))

    @classmethod
    def examples(cls) -> Sequence[WitchHat]:
        return [
            cls(epsilon=1.0, grid=1, scale=4.0),
            cls(epsilon=2.0, half_width=3.0, scale=2.0, grid=5),
            cls(epsilon=3.0, half_width=1.0, scale=0.7, grid=9),
        ]


def _classes(first: Law, second: Law, hiding: Law) -> Callable[[], Classes]:
    """Messages with the same three probabilities put together."""
    times: dict[tuple[Fraction, Fraction, Fraction], int] = {}
    for triple in zip(first, second, hiding, strict=True):
        times[triple] = times.get(triple, 0) + 1
    exact = [tuple(_rational(x) * count for x in triple) for triple, count in times.items()]
    return lambda: [MessageClass(*map(arb, triple)) for triple in exact]


def _rational(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)


def _ratio_below(distance: arb) -> int:
    return whole_below(distance.exp() * arb(2) ** RATIO_BITS)
