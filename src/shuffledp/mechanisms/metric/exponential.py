"""An input of a finite metric space, reported near where it is, by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from flint import arb

from shuffledp.array import Floats
from shuffledp.mechanisms.parts.metric_table import MetricLaw, checked_space, private_table
from shuffledp.mechanisms.parts.tabulated import Tabulated
from shuffledp.numerics.ball import precision
from shuffledp.privacy.neighbours import Neighbours
from shuffledp.privacy.randomizer import HasNeighbours
from shuffledp.privacy.space import DistanceMatrix

BITS = 200


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(Tabulated, HasNeighbours):
    """Report input z with probability in proportion to e^(−D(x,z)/2) when holding x.

    ``distances`` are the privacy distances D, a metric. Half of each distance pays for the weights, half for their
    different sums. The table is one of whole units that is private for D exactly (``metric_table``); what rounding
    loses goes to a silent message of probability below 1e-9. ``epsilon`` is the logarithm of the largest ratio of all.

    ``distances``: a square table, one row for each input: symmetric, 0 on the diagonal, and with the triangle
    inequality. A user's value is the number of a row, from 0.

    Theorem: exponential mechanism with the score −D(x,z): private for D.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.Exponential([[0.0, 0.5, 2.0], [0.5, 0.0, 2.0], [2.0, 2.0, 0.0]])
    >>> near, far = (sdp.amplify(mechanism, users=10_000, pair=(0, other)) for other in (1, 2))
    >>> f"{near.epsilon(delta=1e-6).upper:.4f}", f"{far.epsilon(delta=1e-6).upper:.4f}"
    ('0.0097', '0.0372')
    """

    distances: Floats
    epsilon: float = field(init=False)
    space: DistanceMatrix = field(init=False)

    name = "exponential"
    summary = "an item of a finite metric space: near items are likelier"
    take_it = "For a finite space whose distances matter: near values are hidden best."
    also_called = ("metric-exponential",)
    built_from_table = "distances"

    def __post_init__(self) -> None:
        space = checked_space("Exponential", self.distances)
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "distances", space.matrix)
        with precision(BITS):
            weights = [[(-arb(float(distance)) / 2).exp() for distance in row] for row in space.matrix]
            sums = [sum(row, arb(0)) for row in weights]
            shares = [[weight / total for weight in row] for row, total in zip(weights, sums, strict=True)]
            table = private_table(space, shares)
        self._adopt(table)

    @cached_property
    def law(self) -> MetricLaw:
        return MetricLaw("Exponential", self.executed, self.space)

    def _origin(self) -> tuple[Any, ...]:
        return (self.space,)

    def between(self, first: Any, second: Any) -> Neighbours:
        """The exact laws of two inputs against what every input's law contains."""
        return self.law.between(self.space.place(first), self.space.place(second))

    def within(self, diameter: float) -> Neighbours:
        """Every two inputs at most this far apart."""
        return self.law.within(diameter)

    @classmethod
    def examples(cls) -> Sequence[Exponential]:
        tables = [
            [[0.0, 1.0], [1.0, 0.0]],
            [[0.0, 2.0, 3.0], [2.0, 0.0, 4.0], [3.0, 4.0, 0.0]],
            [[abs(a - b) / 2 for a in range(5)] for b in range(5)],
        ]
        return [cls(table) for table in tables]  # type: ignore[arg-type]
