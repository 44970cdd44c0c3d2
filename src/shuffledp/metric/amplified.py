"""The metric that shuffling leaves: D̂(a, b) as an object."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.metric.amplification import Amplification, MetricVariationRatio
from shuffledp.privacy.curve import BoundValue
from shuffledp.privacy.metric import DistanceMatrix, Space, Surroundings, worst_surroundings


@dataclass(frozen=True)
class AmplifiedMetric:
    """The distances of a space after ``users`` messages are shuffled, each with the same δ.

    ``metric(a, b)`` is the value of one pair; ``metric.matrix`` all of them on a finite space;
    ``metric.at_distance(d)`` holds for every pair of the space that is d apart, wherever it lies.
    """

    space: Space
    users: int
    delta: float
    amplification: Amplification = field(default_factory=MetricVariationRatio)

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", argument.count("AmplifiedMetric", "users", self.users))
        argument.open_probability("AmplifiedMetric", "delta", self.delta)

    def __call__(self, first: Any, second: Any) -> BoundValue:
        return self._value(self.space.surroundings(first, second))

    def at_distance(self, distance: float) -> BoundValue:
        """The largest D̂ of any two inputs at this local distance."""
        return self._value(worst_surroundings(self.space, distance))

    def _value(self, pair: Surroundings) -> BoundValue:
        if pair not in self._known:
            self._known[pair] = self.amplification.epsilon(pair, self.users, self.delta)
        return self._known[pair]

    @cached_property
    def _known(self) -> dict[Surroundings, BoundValue]:
        """Pairs with the same numbers have the same value."""
        return {}

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """All amplified distances of a finite space."""
        if not isinstance(self.space, DistanceMatrix):
            raise TypeError("AmplifiedMetric: a matrix needs a finite space; ask for a pair or at_distance.")
        result = np.zeros_like(self.space.matrix)
        for a, b in self.space.pairs():
            result[a, b] = result[b, a] = self(a, b).upper
        return result
