"""A number in an interval, with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.table_law import CutTable, TableLaw
from shuffledp.mechanisms.parts.tailed_reference import PointReference
from shuffledp.mechanisms.parts.unit_table import UnitTable
from shuffledp.mechanisms.parts.user_values import RealNumber
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.randomizer import HasTails
from shuffledp.sampling import rounding
from shuffledp.sampling.discrete_gaussian import DiscreteGaussian
from shuffledp.sampling.random import RandomSource

STEPS_OF_NOISE = 8
"""Steps in the noise's standard deviation, where nobody says how many: rounding then adds at most 0.4% to it."""
MOST_STEPS = 8
LEAST_MULTIPLIER, MOST_MULTIPLIER = 0.4, 1e4
LEAST_PLANNED, PLANNED_MORE = 0.5, (1.003, 1.02, 1.08, 1.3, 2.0)
INPUTS_OF_A_TABLE = 5
USERS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class NoisyPointReading(Reading):
    """The mean of numbers from points of a grid with noise of a known variance, both in steps."""

    low: float
    high: float
    grid: int
    reach: int
    noise_variance: float

    def accumulate(self, messages: Array) -> Array:
        return np.array([messages.sum() - self.reach * len(messages)])

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, and its variance, the rounding counted at its most."""
        value = self.low + float(total[0]) / users * self._step
        return Estimate(np.array([value]), np.array([(self.noise_variance + 0.25) * self._step**2 / users]), users)

    def sways(self, messages: float) -> tuple[Sway, ...]:
        beyond = messages * self.reach * self._step
        return (Sway(self.low - beyond, self.low + messages * self.grid * self._step + beyond, self.low, self.high),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        _, left = rounding.grid_position(rounding.units_of_interval(values, self.low, self.high), self.grid)
        up = left / rounding.WHOLE
        spread = self.noise_variance + float((up * (1 - up)).mean())
        return np.array([spread * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.grid


@dataclass(frozen=True)
class Gaussian(Mechanism, HasTails):
    """Add discrete Gaussian noise to a number on a grid.

    The number is rounded at random without bias to one of the points 0 … g, g = ``grid`` (``rounding``), and noise z is
    added, of probability in proportion to e^(−z²/2s²), s = ``multiplier``·g, drawn exactly (``DiscreteGaussian``). A
    message alone keeps no ε: far noise tells much. Among others it does: far noise is rare, and is counted to δ.

    ``multiplier``: the noise's standard deviation in units of high − low. ``low``, ``high``: the ends of the interval
    in which the users' numbers lie. ``grid``: g; by default 8 steps to a standard deviation, at most 8 in all. For
    whole numbers grid = high − low is the discrete Gaussian mechanism.

    Theorem: absent user with a cut law (docs/crowds.md), every pair of points and every crowd of them; a number is a
    mixture of two points.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Gaussian(multiplier=2.0, low=18, high=98)
    >>> mechanism.grid, mechanism.message_bits
    (4, 8)
    >>> f"{sdp.amplify(mechanism, users=10_000, effort='full').epsilon(delta=1e-6).upper:.4f}"
    '0.0171'
    """

    multiplier: float
    low: float = 0.0
    high: float = 1.0
    grid: int | None = None
    epsilon: float = field(init=False, default=math.inf)

    name = "gaussian"
    task = "mean"
    summary = "mean of numbers in an interval: the number with Gaussian noise, on a grid"
    take_it = "Where messages must carry Gaussian noise."
    also_called = ("gaussian-noise",)
    tuning: ClassVar[tuple[Tuning, ...]] = (Tuning("multiplier", False, True, LEAST_MULTIPLIER, MOST_MULTIPLIER),)

    def __post_init__(self) -> None:
        multiplier = argument.positive_finite("Gaussian", "multiplier", self.multiplier)
        if not LEAST_MULTIPLIER <= multiplier <= MOST_MULTIPLIER:
            least, most = f"{LEAST_MULTIPLIER:g}", f"{MOST_MULTIPLIER:g}"
            raise ValueError(f"Gaussian: multiplier must be between {least} and {most}, got {multiplier!r}.")
        low, high = argument.real("Gaussian", "low", self.low), argument.real("Gaussian", "high", self.high, up=True)
        if not 0.0 < high - low < math.inf:
            raise ValueError(f"Gaussian: low must be below high and both finite, got {low!r} and {high!r}.")
        usual = min(MOST_STEPS, math.ceil(STEPS_OF_NOISE / multiplier))
        grid = usual if self.grid is None else argument.count("Gaussian", "grid", self.grid)
        if grid > rounding.MOST_STEPS or grid * multiplier > rounding.MOST_STEPS:
            raise ValueError(
                f"Gaussian: grid and multiplier*grid must be at most {rounding.MOST_STEPS}, got grid {grid} with "
                f"multiplier {multiplier!r}."
            )
        for name, value in (("multiplier", multiplier), ("low", low), ("high", high), ("grid", grid)):
            object.__setattr__(self, name, value)

    @property
    def steps(self) -> int:
        """g as it is executed."""
        assert self.grid is not None
        return self.grid

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """The noise of the limit of many users, and a little more; less than a half has tails that are not worth it."""
        interval = {name: facts[name] for name in ("low", "high") if name in facts}
        usual = max(LEAST_PLANNED, _limit_multiplier(users, epsilon, delta, rounds))
        for more in PLANNED_MORE:
            if more * usual <= MOST_MULTIPLIER:
                yield {"multiplier": more * usual, **interval}

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """The noise in steps."""
        return DiscreteGaussian(Fraction(self.multiplier) * self.steps)

    @cached_property
    def values(self) -> RealNumber:
        return RealNumber("Gaussian", self.low, self.high)

    @cached_property
    def law(self) -> TableLaw:
        """That of the points."""
        _, chances = self.noise.chances
        both = [*chances[:0:-1], *chances]
        rows = [[*[0] * k, *both, *[0] * (self.steps - k)] for k in range(self.steps + 1)]
        return TableLaw("Gaussian", UnitTable(np.array(rows, dtype=object)))

    @property
    def has_tails(self) -> bool:
        return self.law.has_tails

    def without_tails(self, share: float) -> CutTable | None:
        return self.law.without_tails(share)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("Gaussian", self.steps + 1 + 2 * self.noise.reach)

    @cached_property
    def reading(self) -> NoisyPointReading:
        return NoisyPointReading(self.low, self.high, self.steps, self.noise.reach, self.noise.variance)

    @cached_property
    def reference(self) -> PointReference:
        return PointReference(self.law.table, self.low, self.high)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            steps = rounding.to_grid(self._units(part), self.steps, source)
            steps += self.noise.draw(source, len(part))
            messages[start : start + USERS_AT_ONCE] = steps + self.noise.reach
        return messages

    def _units(self, values: Floats) -> Array:
        return rounding.units_of_interval(values, self.low, self.high)

    # --- for tests and the catalogue --------------------------------------------------------------------------

    def table(self) -> OutputTable:
        inputs = np.linspace(self.low, self.high, INPUTS_OF_A_TABLE)
        points = self.law.table.fractions()
        rows = []
        for unit in self._units(inputs).tolist():
            law = rounding.grid_law(unit, self.steps)
            rows.append(tuple(sum((law[k] * points[k][y] for k in law), Fraction(0)) for y in range(len(points[0]))))
        return OutputTable(inputs, np.arange(len(rows[0])), tuple(rows))

    @classmethod
    def examples(cls) -> Sequence[Gaussian]:
        return [
            cls(multiplier=1.0, grid=1),
            cls(multiplier=0.5, low=-3.0, high=5.0, grid=3),
            cls(multiplier=3.0, grid=1),
        ]


def _limit_multiplier(users: int, epsilon: float, delta: float, rounds: int) -> float:
    """Where the blanket's limit of many users meets a target: for planning only."""

    def excess(log_multiplier: float) -> float:
        shift = math.exp(-log_multiplier)
        square = 2 * (
            math.exp(min(700.0, shift**2)) * _normal(1.5 * shift) - 2 * _normal(shift / 2) + _normal(-shift / 2)
        )
        mu = math.sqrt(rounds * square / users)
        left = _normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * _normal(-mu / 2 - epsilon / mu)
        return delta - left

    least, most = math.log(LEAST_MULTIPLIER), math.log(MOST_MULTIPLIER)
    return math.exp(find_crossing(excess, least, most, relative=0.0, absolute=1e-4).middle)


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
