"""An input of a finite metric space, reported near where it is."""

from __future__ import annotations

import math
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
class PaddedExponential(Tabulated, HasNeighbours):
    """Report input z with probability e^(−D(x,z))/N when holding x, and nothing with what is left.

    ``distances`` are the privacy distances D, a metric. Two inputs a, b differ by a factor of at most e^D(a,b) in every
    message, exactly: the table is one of whole units (``metric_table``). N is the least for which the silent message
    keeps its ratios too. ``epsilon`` is the logarithm of the largest ratio of all.

    ``distances``: a square table, one row for each input: symmetric, 0 on the diagonal, and with the triangle
    inequality. A user's value is the number of a row, from 0.

    Theorem: [MDP] Table I, padded exponential mechanism, on any number of inputs: private for D.
    Deviates: the triangle inequality, which print does not ask for, is needed (docs/errata.md, MD-6).

    >>> import shuffledp as sdp
    >>> mechanism = sdp.PaddedExponential([[0.0, 0.5, 2.0], [0.5, 0.0, 2.0], [2.0, 2.0, 0.0]])
    >>> f"{mechanism.epsilon:.4f}"
    '2.0000'
    >>> f"{sdp.amplify(mechanism, users=10_000, diameter=0.5).epsilon(delta=1e-6).upper:.4f}"
    '0.0381'
    """

    distances: Floats
    epsilon: float = field(init=False)
    space: DistanceMatrix = field(init=False)

    name = "padded-exponential"
    summary = "an item of a finite metric space: near items are likelier, some messages are empty"
    take_it = "For a finite space of distances; it shows what no metric randomizer can beat."
    built_from_table = "distances"

    def __post_init__(self) -> None:
        space = checked_space("PaddedExponential", self.distances)
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "distances", space.matrix)
        with precision(BITS):
            weights = [[(-arb(float(distance))).exp() for distance in row] for row in space.matrix]
            table = private_table(space, weights)
        self._adopt(table)

    @cached_property
    def law(self) -> MetricLaw:
        return MetricLaw("PaddedExponential", self.executed, self.space)

    def _origin(self) -> tuple[Any, ...]:
        return (self.space,)

    def between(self, first: Any, second: Any) -> Neighbours:
        """The exact laws of two inputs against what every input's law contains."""
        return self.law.between(self.space.place(first), self.space.place(second))

    def within(self, diameter: float) -> Neighbours:
        """Every two inputs at most this far apart."""
        return self.law.within(diameter)

    @classmethod
    def examples(cls) -> Sequence[PaddedExponential]:
        far = math.log(50)
        tables = [
            [[0.0, 1.0], [1.0, 0.0]],
            [[0.0, 1.0, 1.0 + far], [1.0, 0.0, far], [1.0 + far, far, 0.0]],
            [[abs(a - b) / 2 for a in range(5)] for b in range(5)],
        ]
        return [cls(table) for table in tables]  # type: ignore[arg-type]
