"""Means by discrete Gaussian noise on a number of an interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.domain import RealNumber, check_interval
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.table_law import TableLaw, TruncatedTable, UnitTable
from shuffledp.mechanisms.base.table_mechanism import PointProposal
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.randomizer_interface import HasTails
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.noise import DiscreteGaussian
from shuffledp.sampling.random_sources import RandomSource

STEPS_PER_DEVIATION = 8
"""Default number of grid steps per standard deviation of the noise: rounding then adds at most 0.4% to it."""
MAX_DEFAULT_STEPS = 8
MIN_MULTIPLIER, MAX_MULTIPLIER = 0.4, 1e4
MIN_PLANNED_MULTIPLIER, PLANNED_FACTORS = 0.5, (1.003, 1.02, 1.08, 1.3, 2.0)
TABLE_INPUTS = 5
USERS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class NoisyPointEstimator(Estimator):
    """Estimator of the mean from grid points with noise of a known variance, both in steps."""

    low: float
    high: float
    grid: int
    reach: int
    noise_variance: float

    def accumulate(self, messages: Array) -> Array:
        return np.array([messages.sum() - self.reach * len(messages)])

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean and its variance, with the largest possible variance of rounding."""
        value = self.low + float(total[0]) / users * self._step
        return Estimate(np.array([value]), np.array([(self.noise_variance + 0.25) * self._step**2 / users]), users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        beyond = messages * self.reach * self._step
        most = self.low + messages * self.grid * self._step + beyond
        return (Influence(self.low - beyond, most, self.low, self.high),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        _, left = rounding_and_digits.grid_position(
            rounding_and_digits.interval_to_units(values, self.low, self.high), self.grid
        )
        up = left / rounding_and_digits.RANGE_UNITS
        spread = self.noise_variance + float((up * (1 - up)).mean())
        return np.array([spread * self._step**2 / len(up)])

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.grid


@dataclass(frozen=True)
class Gaussian(Mechanism, HasTails):
    """Adds discrete Gaussian noise to a number on a grid.

    The number is rounded at random without bias to one of the points 0 … g, g = ``grid`` (``rounding``), and noise z is
    added, of probability in proportion to e^(−z²/2s²), s = ``multiplier``·g, drawn exactly (``DiscreteGaussian``). A
    message alone has no local ε, as extreme noise reveals much. Among others it has a central one: extreme noise is
    rare and is counted to δ. A message is the noisy point plus the reach of the noise.

    Theorem: absent user with a cut law (docs/crowds.md), every pair of points and every dataset of them; a number is a
    mixture of two points.

    Args:
        multiplier: Standard deviation of the noise in units of high − low.
        low: Lower end of the interval of the users' numbers.
        high: Upper end of the interval.
        grid: Number of steps g; by default 8 per standard deviation, at most 8 in all. For whole numbers grid = high −
            low is the discrete Gaussian mechanism.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Gaussian(multiplier=2.0, low=18, high=98)
    >>> mechanism.grid, mechanism.message_bits
    (4, 8)
    >>> f"{sdp.amplify(mechanism, users=10_000, effort='full').epsilon(delta=1e-6).upper:.4f}"
    '0.0171'
    """

    multiplier: float = field(metadata=checked(validation.positive_finite))
    low: float = field(default=0.0, metadata=checked(validation.real))
    high: float = field(default=1.0, metadata=checked(validation.real, up=True))
    grid: int | None = None
    epsilon: float = field(init=False, default=math.inf)

    name = "gaussian"
    task = "mean"
    summary = "mean of numbers in an interval: the number with Gaussian noise, on a grid"
    use_case = "Where messages must carry Gaussian noise."
    aliases = ("gaussian-noise",)
    tunable: ClassVar[tuple[TunableParameter, ...]] = (
        TunableParameter("multiplier", False, True, MIN_MULTIPLIER, MAX_MULTIPLIER),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        multiplier = self.multiplier
        if not MIN_MULTIPLIER <= multiplier <= MAX_MULTIPLIER:
            least, most = f"{MIN_MULTIPLIER:g}", f"{MAX_MULTIPLIER:g}"
            raise ValueError(f"Gaussian: multiplier must be between {least} and {most}, got {multiplier!r}.")
        check_interval("Gaussian", self.low, self.high)
        usual = min(MAX_DEFAULT_STEPS, math.ceil(STEPS_PER_DEVIATION / multiplier))
        grid = usual if self.grid is None else validation.count("Gaussian", "grid", self.grid)
        if grid > rounding_and_digits.MAX_STEPS or grid * multiplier > rounding_and_digits.MAX_STEPS:
            raise ValueError(
                f"Gaussian: grid and multiplier*grid must be at most {rounding_and_digits.MAX_STEPS}, got grid {grid} "
                f"with multiplier {multiplier!r}."
            )
        object.__setattr__(self, "grid", grid)

    @property
    def steps(self) -> int:
        """g, as given or as chosen by the constructor."""
        assert self.grid is not None
        return self.grid

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields the noise of the limit of many users and slightly more; noise below a half has too heavy tails.

        Args:
            facts: Known facts of the task: ``low`` and ``high`` are optional; ``users``, if present, is the expected
                number of users.
            users: Fewest honest users for whom the target must hold.
            epsilon: Target ε of all rounds together.
            delta: Target δ of all rounds together.
            rounds: Number of rounds in which the same users take part.

        Yields:
            Constructor arguments by name, the most accurate design first.
        """
        interval = {name: facts[name] for name in ("low", "high") if name in facts}
        usual = max(MIN_PLANNED_MULTIPLIER, _limit_multiplier(users, epsilon, delta, rounds))
        for more in PLANNED_FACTORS:
            if more * usual <= MAX_MULTIPLIER:
                yield {"multiplier": more * usual, **interval}

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """The noise in steps."""
        return DiscreteGaussian(Fraction(self.multiplier) * self.steps)

    @cached_property
    def domain(self) -> RealNumber:
        return RealNumber("Gaussian", self.low, self.high)

    @cached_property
    def law(self) -> TableLaw:
        """The law of the grid points."""
        _, chances = self.noise.probability_units
        both = [*chances[:0:-1], *chances]
        rows = [[*[0] * k, *both, *[0] * (self.steps - k)] for k in range(self.steps + 1)]
        return TableLaw("Gaussian", UnitTable(np.array(rows, dtype=object)))

    @property
    def has_tails(self) -> bool:
        return self.law.has_tails

    def truncate_tails(self, share: float) -> TruncatedTable | None:
        return self.law.truncate_tails(share)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("Gaussian", self.steps + 1 + 2 * self.noise.reach)

    @cached_property
    def estimator(self) -> NoisyPointEstimator:
        return NoisyPointEstimator(self.low, self.high, self.steps, self.noise.reach, self.noise.variance)

    @cached_property
    def proposal(self) -> PointProposal:
        return PointProposal(self.law.table, self.low, self.high)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            steps = rounding_and_digits.round_to_grid(self._units(part), self.steps, source)
            steps += self.noise.draw(source, len(part))
            messages[start : start + USERS_AT_ONCE] = steps + self.noise.reach
        return messages

    def _units(self, values: Floats) -> Array:
        return rounding_and_digits.interval_to_units(values, self.low, self.high)

    # --- for tests and the catalogue ---

    def table(self) -> OutputTable:
        inputs = np.linspace(self.low, self.high, TABLE_INPUTS)
        points = self.law.table.fractions()
        rows = []
        for unit in self._units(inputs).tolist():
            law = rounding_and_digits.grid_law(unit, self.steps)
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
    """Returns the multiplier at which the blanket's limit of many users meets a target; for planning only."""

    def excess(log_multiplier: float) -> float:
        shift = math.exp(-log_multiplier)
        square = 2 * (
            math.exp(min(700.0, shift**2)) * _normal_cdf(1.5 * shift)
            - 2 * _normal_cdf(shift / 2)
            + _normal_cdf(-shift / 2)
        )
        mu = math.sqrt(rounds * square / users)
        left = _normal_cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * _normal_cdf(-mu / 2 - epsilon / mu)
        return delta - left

    least, most = math.log(MIN_MULTIPLIER), math.log(MAX_MULTIPLIER)
    return math.exp(find_crossing(excess, least, most, relative=0.0, absolute=1e-4).middle)


def _normal_cdf(x: float) -> float:
    """Returns the standard normal distribution function."""
    return math.erfc(-x / math.sqrt(2)) / 2
