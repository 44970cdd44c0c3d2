"""Piecewise mechanism: the mean of numbers in [−1, 1] from messages that are likely to be near the number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.domain import RealNumber
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import check_informative_epsilon
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.privacy.dominating_pairs import HidingPair, exact_pair
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.random_sources import RandomSource

TABLE_INPUTS = 9
MAX_TABLE_OUTPUTS = 256
USERS_AT_ONCE = 1 << 16
ONE = Fraction(1)


@dataclass(frozen=True)
class WindowEstimator(Estimator):
    """Estimator of the mean from points of which a share 1−γ lies in a window that follows the value.

    ``uniform_share`` is γ, ``grid`` N, ``window`` w; the mean of 2y−N+1 is (1−γ)(N−w)x.
    """

    uniform_share: Fraction
    grid: int
    window: int

    @property
    def window_steps(self) -> int:
        """N−w, the number of steps of the window from one end to the other."""
        return self.grid - self.window

    def accumulate(self, messages: Array) -> Array:
        """Returns the sums of 2y−N+1 and of its square."""
        centred = 2 * messages - (self.grid - 1)
        return np.array([centred.sum(), np.dot(centred, centred)])

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the mean and its variance.

        The mean square of the messages determines that of the windows' positions; up to 1 of it (in half steps,
        squared) may come from rounding, and is counted as if it did.
        """
        first, second = np.asarray(total, dtype=np.float64) / users
        signal = float(1 - self.uniform_share)
        places = np.clip((second - self._mean_square(0.0)) / signal, 0.0, self.window_steps**2 + 1.0)
        spread = self._mean_square(places) - signal**2 * max(0.0, places - 1.0)
        factor = 1 / (signal * self.window_steps)
        return Estimate(np.array([first * factor]), np.array([spread * factor**2 / users]), users)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        factor = 1 / (float(1 - self.uniform_share) * self.window_steps)
        return np.array([float(total[1]) / users * factor**2])

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user who always sends the first or the last point."""
        most = messages * (self.grid - 1) / (float(1 - self.uniform_share) * self.window_steps)
        return (Influence(-most, most, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        units = rounding_and_digits.signed_to_units(values)
        signal = float(1 - self.uniform_share)
        left = rounding_and_digits.grid_position(units, self.window_steps)[1] / rounding_and_digits.RANGE_UNITS
        centre = (2.0 * units / rounding_and_digits.RANGE_UNITS - 1.0) * self.window_steps
        spread = self._mean_square(centre**2 + 4 * left * (1 - left)) - (signal * centre) ** 2
        return np.array([spread.mean() / (signal * self.window_steps) ** 2 / len(units)])

    def _mean_square(self, places: Any) -> Any:
        """Returns the mean of (2y−N+1)², given that of the square of twice the window's distance from the middle."""
        gamma, signal = float(self.uniform_share), float(1 - self.uniform_share)
        return gamma * (self.grid**2 - 1) / 3 + signal * ((self.window**2 - 1) / 3 + places)


@dataclass(frozen=True)
class Piecewise(Mechanism):
    """Reports one of N points on a line: one of a window around the value, or any.

    A message is a whole number y from 0 to N−1, N = ``grid``. The window is w ≈ N/(e^(ε/2)+1) adjacent points, and it
    moves from the first points to the last as the value goes from −1 to 1. The value is rounded to the nearest multiple
    of 2^-52, then to one of the N−w+1 positions at random without bias (``rounding``). With probability γ the message
    is uniform, else uniform in the window: the mean of 2y−N+1 is exactly (1−γ)(N−w)x.

    Theorem: [VR] Table 1, piecewise: p = q = e^ε, β = 1 − γ, near 1 − e^(−ε/2).
    Deviates: the published mechanism is the limit N → ∞.

    Args:
        epsilon: Local ε of every message; a user's value is a number from −1 to 1.
        grid: Number of points N; more are nearer to the published mechanism and cost bits.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.Piecewise(epsilon=2.0)
    >>> mechanism.message_bits, mechanism.window
    (10, 275)
    >>> found = mechanism.estimate(mechanism.encode(np.full(10_000, 0.5), rng=np.random.default_rng(1)))
    >>> f"{found.value[0]:.1f}", f"{found.standard_error[0]:.3f}"
    ('0.5', '0.009')
    """

    epsilon: float = field(metadata=checked(check_informative_epsilon))
    grid: int = field(default=1024, metadata=checked(rounding_and_digits.check_grid_size, at_least=2))

    name = "piecewise"
    task = "mean"
    summary = "mean of numbers in [-1, 1]: a point near the number, or any"
    use_case = "For means with a local ε."
    aliases = ("pm",)

    @cached_property
    def window(self) -> int:
        """w, the number of points in a window, at most half of all."""
        smaller = math.exp(-self.epsilon / 2)
        return min(max(1, round(self.grid * smaller / (1 + smaller))), self.grid // 2)

    @property
    def window_steps(self) -> int:
        """N−w, the number of steps of the window from one end to the other."""
        return self.estimator.window_steps

    @cached_property
    def response(self) -> TwoLevelResponse:
        """The window."""
        return TwoLevelResponse("Piecewise", self.epsilon, Fraction(self.window, self.grid))

    @cached_property
    def domain(self) -> RealNumber:
        return RealNumber("Piecewise")

    @cached_property
    def law(self) -> TwoLevelLaw:
        return TwoLevelLaw.from_disjoint(self.response, attacked=self._build_attacks(), tight=True)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("Piecewise", self.grid)

    @cached_property
    def estimator(self) -> WindowEstimator:
        return WindowEstimator(self.response.uniform_share, self.grid, self.window)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            near = rounding_and_digits.round_to_grid(
                rounding_and_digits.signed_to_units(part), self.window_steps, source
            )
            near += source.integers_below(self.window, len(part))
            anywhere = source.integers_below(self.grid, len(part))
            uniform = source.coins(self.response.uniform_share, len(part))
            messages[start : start + USERS_AT_ONCE] = np.where(uniform, anywhere, near)
        return messages

    def _build_attacks(self) -> list[HidingPair]:
        """Returns attacks on the two ends where all others hold the first, 0, or a window beside the last."""
        beside = Fraction(max(0, self.grid - 2 * self.window), self.window_steps)
        units = [0, rounding_and_digits.RANGE_UNITS // 2, int(beside * rounding_and_digits.RANGE_UNITS)]
        return [
            self._build_attack(rounding_and_digits.grid_law(unit, self.window_steps)) for unit in dict.fromkeys(units)
        ]

    def _build_attack(self, others: dict[int, Fraction]) -> HidingPair:
        """Returns the attack where the others' window begins at these points with these probabilities.

        The classes are runs of points with equal probabilities.
        """
        w, grid = self.window, self.grid
        ends = sorted({0, w, grid - w, grid, *(start + step for start in others for step in (0, w))})
        uniform, likelier = self.response.uniform_share / grid, (1 - self.response.uniform_share) / w

        def chance(y: int, places: dict[int, Fraction]) -> Fraction:
            within = sum((part for start, part in places.items() if start <= y < start + w), Fraction(0))
            return uniform + likelier * within

        classes = []
        for x, y in pairwise(ends):
            a, b, c = (to_rational((y - x) * chance(x, places)) for places in ({0: ONE}, {grid - w: ONE}, others))
            classes.append((a, b, c))
        return exact_pair(classes, symmetric=False)

    def table(self) -> OutputTable:
        if self.grid > MAX_TABLE_OUTPUTS:
            raise ValueError(f"Piecewise: a table needs a grid of at most {MAX_TABLE_OUTPUTS}, got {self.grid}.")
        inputs = np.linspace(-1.0, 1.0, TABLE_INPUTS)
        rows = tuple(self._output_law(unit) for unit in rounding_and_digits.signed_to_units(inputs).tolist())
        return OutputTable(inputs, np.arange(self.grid), rows)

    def _output_law(self, unit: int) -> tuple[Fraction, ...]:
        row = [self.response.uniform_share / self.grid] * self.grid
        for place, chance in rounding_and_digits.grid_law(unit, self.window_steps).items():
            for y in range(place, place + self.window):
                row[y] += chance * (1 - self.response.uniform_share) / self.window
        return tuple(row)

    @classmethod
    def examples(cls) -> Sequence[Piecewise]:
        return [
            cls(epsilon=1.0, grid=2),
            cls(epsilon=0.5, grid=7),
            cls(epsilon=2.0, grid=16),
            cls(epsilon=6.0, grid=5),
        ]
