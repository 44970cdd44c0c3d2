"""A number in [−1, 1], by a message that is likely to be near it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.bit_response import informative_epsilon
from shuffledp.mechanisms.parts.own_region import OwnRegion, RegionLaw
from shuffledp.mechanisms.parts.reading import Reading
from shuffledp.mechanisms.parts.sway import Sway
from shuffledp.mechanisms.parts.user_values import RealNumber
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

INPUTS_OF_A_TABLE = 9
MOST_OUTPUTS_OF_A_TABLE = 256
USERS_AT_ONCE = 1 << 16
ONE = Fraction(1)


@dataclass(frozen=True)
class WindowReading(Reading):
    """The mean from points of which a share 1−γ lies in a window that follows the value.

    ``uniform_share`` is γ, ``grid`` N, ``window`` w; the mean of 2y−N+1 is (1−γ)(N−w)x.
    """

    uniform_share: Fraction
    grid: int
    window: int

    @property
    def places(self) -> int:
        """N−w: steps of the window from one end to the other."""
        return self.grid - self.window

    def accumulate(self, messages: Array) -> Array:
        """The sum of 2y−N+1 and of its square."""
        centred = 2 * messages - (self.grid - 1)
        return np.array([centred.sum(), np.dot(centred, centred)])

    def finish(self, total: Array, users: int) -> Estimate:
        """The mean, and its variance.

        The mean square of the messages tells that of the windows' places; of this, up to 1 (in half steps, squared)
        may come from the rounding, and is counted as if it did.
        """
        first, second = np.asarray(total, dtype=np.float64) / users
        told = float(1 - self.uniform_share)
        places = np.clip((second - self._mean_square(0.0)) / told, 0.0, self.places**2 + 1.0)
        spread = self._mean_square(places) - told**2 * max(0.0, places - 1.0)
        factor = 1 / (told * self.places)
        return Estimate(np.array([first * factor]), np.array([spread * factor**2 / users]), users)

    def mean_square(self, total: Array, users: int) -> Floats | None:
        factor = 1 / (float(1 - self.uniform_share) * self.places)
        return np.array([float(total[1]) / users * factor**2])

    def sways(self, messages: float) -> tuple[Sway, ...]:
        """The first point and the last."""
        most = messages * (self.grid - 1) / (float(1 - self.uniform_share) * self.places)
        return (Sway(-most, most, -1.0, 1.0),)

    def truth(self, values: Array) -> Floats:
        return np.array([values.mean()])

    def variance(self, values: Array) -> Floats:
        units = rounding.units_of_signed(values)
        told, left = float(1 - self.uniform_share), rounding.grid_position(units, self.places)[1] / rounding.WHOLE
        centre = (2.0 * units / rounding.WHOLE - 1.0) * self.places
        spread = self._mean_square(centre**2 + 4 * left * (1 - left)) - (told * centre) ** 2
        return np.array([spread.mean() / (told * self.places) ** 2 / len(units)])

    def _mean_square(self, places: Any) -> Any:
        """The mean of (2y−N+1)², given that of the square of twice the window's distance from the middle."""
        gamma, told = float(self.uniform_share), float(1 - self.uniform_share)
        return gamma * (self.grid**2 - 1) / 3 + told * ((self.window**2 - 1) / 3 + places)


@dataclass(frozen=True)
class Piecewise(Mechanism):
    """Report one of N points on a line: one of a window around the value, or any.

    A message is a whole number y from 0 to N−1, N = ``grid``. The window is w ≈ N/(e^(ε/2)+1) points in a row, and the
    value's place from −1 to 1 is the window's place from the first points to the last. The value is rounded to the
    nearest multiple of 2^-52, then to one of the N−w+1 places at random without bias (``rounding``). With probability
    γ the message is uniform, else uniform in the window: the mean of 2y−N+1 is exactly (1−γ)(N−w)x.

    ``epsilon``: the local ε that every message keeps. ``grid``: how many points; more of them come nearer to the
    published mechanism and cost bits. A user's value is a number from −1 to 1.

    Theorem: [VR] Table 1, piecewise: p = q = e^ε, β = 1 − γ, near 1 − e^(−ε/2).
    Deviates: the published mechanism is the limit N → ∞.

    >>> import numpy as np, shuffledp as sdp
    >>> mechanism = sdp.Piecewise(epsilon=2.0)
    >>> mechanism.message_bits, mechanism.window
    (10, 275)
    >>> found = mechanism.estimate(mechanism.encode(np.full(10_000, 0.5), rng=np.random.default_rng(1)))
    >>> f"{found.value[0]:.1f}", f"{found.standard_error[0]:.3f}"
    ('0.5', '0.009')
    """

    epsilon: float
    grid: int = 1024

    name = "piecewise"
    task = "mean"
    summary = "mean of numbers in [-1, 1]: a point near the number, or any"
    take_it = "For means with a local ε."
    also_called = ("pm",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", informative_epsilon("Piecewise", self.epsilon))
        object.__setattr__(self, "grid", rounding.grid_size("Piecewise", self.grid, at_least=2))

    @cached_property
    def window(self) -> int:
        """w: points in a window, at most half of all."""
        smaller = math.exp(-self.epsilon / 2)
        return min(max(1, round(self.grid * smaller / (1 + smaller))), self.grid // 2)

    @property
    def places(self) -> int:
        """N−w: steps of the window from one end to the other."""
        return self.reading.places

    @cached_property
    def region(self) -> OwnRegion:
        """The own set: a window."""
        return OwnRegion("Piecewise", self.epsilon, Fraction(self.window, self.grid))

    @cached_property
    def values(self) -> RealNumber:
        return RealNumber("Piecewise")

    @cached_property
    def law(self) -> RegionLaw:
        return RegionLaw.of_disjoint(self.region, attacked=self._attacked(), tight=True)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("Piecewise", self.grid)

    @cached_property
    def reading(self) -> WindowReading:
        return WindowReading(self.region.uniform_share, self.grid, self.window)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), USERS_AT_ONCE):
            part = values[start : start + USERS_AT_ONCE]
            near = rounding.to_grid(rounding.units_of_signed(part), self.places, source)
            near += source.below(self.window, len(part))
            anywhere = source.below(self.grid, len(part))
            uniform = source.coins(self.region.uniform_share, len(part))
            messages[start : start + USERS_AT_ONCE] = np.where(uniform, anywhere, near)
        return messages

    def _attacked(self) -> list[HidingPair]:
        """The two ends, where the others all hold the first, or 0, or what puts their windows beside the last."""
        beside = Fraction(max(0, self.grid - 2 * self.window), self.places)
        units = [0, rounding.WHOLE // 2, int(beside * rounding.WHOLE)]
        return [self._attack(rounding.grid_law(unit, self.places)) for unit in dict.fromkeys(units)]

    def _attack(self, crowd: dict[int, Fraction]) -> HidingPair:
        """Where everybody else's window begins at one of these points, or the next, with these chances: runs of points
        that are alike."""
        w, grid = self.window, self.grid
        ends = sorted({0, w, grid - w, grid, *(start + step for start in crowd for step in (0, w))})
        uniform, likelier = self.region.uniform_share / grid, (1 - self.region.uniform_share) / w

        def chance(y: int, places: dict[int, Fraction]) -> Fraction:
            within = sum((part for start, part in places.items() if start <= y < start + w), Fraction(0))
            return uniform + likelier * within

        runs = [
            (y - x, [chance(x, places) for places in ({0: ONE}, {grid - w: ONE}, crowd)]) for x, y in pairwise(ends)
        ]
        classes = [(points * a, points * b, points * c) for points, (a, b, c) in runs]
        return exact_pair([(rational(a), rational(b), rational(c)) for a, b, c in classes], symmetric=False)

    def table(self) -> OutputTable:
        if self.grid > MOST_OUTPUTS_OF_A_TABLE:
            raise ValueError(f"Piecewise: a table needs a grid of at most {MOST_OUTPUTS_OF_A_TABLE}, got {self.grid}.")
        inputs = np.linspace(-1.0, 1.0, INPUTS_OF_A_TABLE)
        rows = tuple(self._row(unit) for unit in rounding.units_of_signed(inputs).tolist())
        return OutputTable(inputs, np.arange(self.grid), rows)

    def _row(self, unit: int) -> tuple[Fraction, ...]:
        row = [self.region.uniform_share / self.grid] * self.grid
        for place, chance in rounding.grid_law(unit, self.places).items():
            for y in range(place, place + self.window):
                row[y] += chance * (1 - self.region.uniform_share) / self.window
        return tuple(row)

    @classmethod
    def examples(cls) -> Sequence[Piecewise]:
        return [
            cls(epsilon=1.0, grid=2),
            cls(epsilon=0.5, grid=7),
            cls(epsilon=2.0, grid=16),
            cls(epsilon=6.0, grid=5),
        ]
