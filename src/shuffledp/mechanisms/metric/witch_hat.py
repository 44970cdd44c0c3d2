"""A number in an interval, reported near where it is or, seldom, anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.hat import Hat, HatLaw, HatReading
from shuffledp.mechanisms.parts.metric_table import LARGEST_DISTANCE, SMALLEST_DISTANCE
from shuffledp.mechanisms.parts.user_values import RealNumber
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.privacy.neighbours import Neighbours
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.sampling import rounding
from shuffledp.sampling.random import RandomSource

HIGH_HAT = 20.0
"""Below this ε the brim always has units enough."""
MOST_STEPS = 1 << 16
INPUTS_OF_A_TABLE = 5
MOST_MESSAGES_OF_A_TABLE = 1024


@dataclass(frozen=True)
class WitchHat(Mechanism, HasNeighbours):
    """Report a point near one's own number with exponentially falling weight, which far away stays at e^−ε.

    The number, from −B to B (``half_width``), is rounded at random without bias to one of the points 0 … g (``grid``).
    With F = ``scale`` and the level m = ε, the message is a point z of −s … g+s with weight t_|z−k|: t_j is e^(−jρ) for
    j < s and e^(−m) from there on, ρ = 4B/(gF) and s = ⌈m/ρ⌉. Weights are whole units, from the brim up, each at most
    e^ρ times the next and e^m times the brim, so that points k, l differ by a factor of at most e^min(ρ|k−l|, m),
    exactly. Every input has the same sum of weights; one exactly uniform number draws the message.

    ``epsilon``: the local ε that every message keeps, however far two numbers are apart. ``half_width``: B, 1 by
    default. ``scale``: F; two numbers that are |a−b| apart keep about the smaller of ε and 2|a−b|/F. ``grid``: g, in
    how many steps the interval is divided.

    Theorem: [MDP] WitchHat(B, m, F), private for min(2|a−b|/F, m), unbiased estimator N·z/(Fκ); total variation
    corrected.
    Deviates: a grid in place of real numbers; estimator, variance and β are those of the grid, and exact; the printed β
    and variance are wrong (docs/errata.md, MD-7, MD-8).

    >>> import shuffledp as sdp
    >>> mechanism = sdp.WitchHat(epsilon=2.0, scale=0.5)
    >>> near, far = (sdp.amplify(mechanism, users=10_000, diameter=size) for size in (0.1, 2.0))
    >>> f"{near.epsilon(delta=1e-6).upper:.4f}", f"{far.epsilon(delta=1e-6).upper:.4f}"
    ('0.0183', '0.0617')
    """

    epsilon: float
    half_width: float = 1.0
    scale: float = 1.0
    grid: int = 256

    name = "witch-hat"
    task = "mean"
    summary = "mean of numbers in an interval: near numbers are better protected than far ones"
    take_it = "For numbers, where near ones are to be hidden best."
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
        object.__setattr__(self, "epsilon", level)
        for name in ("half_width", "scale"):
            object.__setattr__(self, name, argument.positive_finite("WitchHat", name, getattr(self, name)))
        if not 2 * self.half_width < math.inf:
            raise ValueError(f"WitchHat: half_width must be small enough to be doubled, got {self.half_width!r}.")
        object.__setattr__(self, "grid", rounding.grid_size("WitchHat", self.grid, at_least=1))
        if self.hat.reach > MOST_STEPS:
            raise ValueError(
                f"WitchHat: the hat must be at most {MOST_STEPS} steps wide, got {self.hat.reach}; lower grid or scale."
            )
        # Far below the tip the brim has so few units that a step's ratio is lost in rounding.
        if level > HIGH_HAT and self.hat.units[0] == self.hat.units[-1]:
            raise ValueError(
                f"WitchHat: epsilon must be smaller for this grid and scale to tell anything, got {level!r}."
            )

    @cached_property
    def hat(self) -> Hat:
        """The weights; ρ is the privacy distance of neighbouring points."""
        return Hat(self.epsilon, 4 * Fraction(self.half_width) / (self.grid * Fraction(self.scale)), self.grid)

    @cached_property
    def values(self) -> RealNumber:
        return RealNumber("WitchHat", -self.half_width, self.half_width)

    @cached_property
    def law(self) -> HatLaw:
        return HatLaw(self.hat)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire("WitchHat", self.hat.messages)

    @cached_property
    def reading(self) -> HatReading:
        return HatReading(self.hat, self.half_width)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.hat.draw(rounding.to_grid(self._units(values), self.grid, source), source)

    def _units(self, values: Floats) -> Integers:
        return rounding.units_of_interval(values, -self.half_width, self.half_width)

    def within(self, diameter: float) -> Neighbours:
        """Inputs at most this far apart are mixtures of points that are no more than ⌈diameter/step⌉ steps apart."""
        size = argument.positive_finite("WitchHat", "diameter", diameter, up=True)
        return self.law.within(rounding.steps_within(size, -self.half_width, self.half_width, self.grid))

    def between(self, first: Any, second: Any) -> Neighbours:
        """The exact laws of two values against what every value's law contains: at each point the farther end's."""
        numbers = self.check([first, second])
        a, b = self._units(numbers).tolist()
        return self.law.between(a, b, far=0 if sum(numbers.tolist()) > 0 else rounding.WHOLE)

    def table(self) -> OutputTable:
        if self.hat.messages > MOST_MESSAGES_OF_A_TABLE:
            most, got = MOST_MESSAGES_OF_A_TABLE, self.hat.messages
            raise ValueError(f"WitchHat: a table needs at most {most} messages, got {got}; lower grid.")
        inputs = np.linspace(-self.half_width, self.half_width, INPUTS_OF_A_TABLE)
        laws = tuple(tuple(self.hat.of_unit(unit)) for unit in self._units(inputs).tolist())
        return OutputTable(inputs, np.arange(self.hat.messages), laws)

    @classmethod
    def examples(cls) -> Sequence[WitchHat]:
        return [
            cls(epsilon=1.0, grid=1, scale=4.0),
            cls(epsilon=2.0, half_width=3.0, scale=2.0, grid=5),
            cls(epsilon=3.0, half_width=1.0, scale=0.7, grid=9),
        ]
