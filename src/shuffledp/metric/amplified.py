"""The metric that shuffling leaves: D̂(a, b) as an object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.best import QUICK
from shuffledp.metric.amplification import Amplification, MetricVariationRatio, amplification_of
from shuffledp.privacy.randomizer import HasNeighbours, Randomizer
from shuffledp.privacy.record import Record
from shuffledp.privacy.space import DistanceMatrix, Space, Surroundings, worst_surroundings
from shuffledp.privacy.value import BoundValue


@dataclass(frozen=True)
class AmplifiedMetric(Record):
    """The distances of a space after ``users`` messages are shuffled, each with the same δ.

    ``bound`` is the name of a theorem (see ``amplification_of``) or an ``Amplification``. ``metric(a, b)`` is the value
    of one pair; ``metric.matrix`` all of them on a finite space; ``metric.at_epsilon_local(d)`` holds for every pair of
    the space that is d apart, in units of ε and not of the inputs, wherever it lies.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> metric = sdp.metric.AmplifiedMetric(places, users=10_000, delta=1e-6)
    >>> metric(0, 1).upper < 0.0617, metric(0, 2).upper < 0.1145
    (True, True)
    >>> f"{sdp.metric.AmplifiedMetric(places, users=10_000, delta=1e-6, bound='clone')(0, 1).upper:.4f}"
    '0.0740'
    """

    space: Space
    users: int
    delta: float
    bound: Amplification | str = MetricVariationRatio.name

    def __post_init__(self) -> None:
        if isinstance(self.bound, str):
            with argument.said_by("AmplifiedMetric", "metric"):
                object.__setattr__(self, "bound", amplification_of(self.bound))
        self.amplification.check_space("AmplifiedMetric", self.space)
        object.__setattr__(self, "users", argument.count("AmplifiedMetric", "users", self.users))
        object.__setattr__(self, "delta", argument.open_probability("AmplifiedMetric", "delta", self.delta))

    @property
    def amplification(self) -> Amplification:
        """The theorem."""
        assert isinstance(self.bound, Amplification), "a name was replaced by its theorem"
        return self.bound

    def __call__(self, first: Any, second: Any) -> BoundValue:
        return self._value(self.space.surroundings(first, second))

    def at_epsilon_local(self, epsilon_local: float) -> BoundValue:
        """Returns the largest D̂ of any two inputs whose local distance is ``epsilon_local``, in units of ε."""
        return self._value(worst_surroundings("AmplifiedMetric", self.space, epsilon_local))

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
            raise TypeError("AmplifiedMetric: a matrix needs a finite space; ask for a pair or at_epsilon_local.")
        result = np.zeros_like(self.space.matrix)
        for a, b in self.space.pairs():
            result[a, b] = result[b, a] = self(a, b).upper
        return result


@dataclass(frozen=True)
class MechanismMetric:
    """The distances that one mechanism leaves after shuffling: its own laws, in place of any randomizer's.

    ``metric(a, b)`` is the value of two inputs with its attack from below; ``metric.within(d)`` holds for every two
    inputs at most d input units apart; ``metric.matrix(inputs)`` all pairs of some inputs.

    >>> import shuffledp as sdp
    >>> metric = sdp.metric.MechanismMetric(sdp.Laplace(2.0), users=1000, delta=1e-6)
    >>> metric(0.0, 0.25).upper < 0.113
    True
    """

    mechanism: Randomizer
    users: int
    delta: float

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, HasNeighbours):
            raise TypeError(f"MechanismMetric: expected a metric mechanism, got {self.mechanism!r}.")
        object.__setattr__(self, "users", argument.count("MechanismMetric", "users", self.users))
        object.__setattr__(self, "delta", argument.open_probability("MechanismMetric", "delta", self.delta))

    def __call__(self, first: Any, second: Any) -> BoundValue:
        with argument.said_by("MechanismMetric", "amplify"):
            return amplify(self.mechanism, self.users, pair=(first, second), effort=QUICK).epsilon(self.delta)

    def within(self, diameter: float) -> BoundValue:
        """The largest value of any two inputs at most this many input units apart."""
        with argument.said_by("MechanismMetric", "amplify"):
            return amplify(self.mechanism, self.users, diameter=diameter, effort=QUICK).epsilon(self.delta)

    def matrix(self, inputs: Sequence[Any]) -> NDArray[np.float64]:
        """The values of every two of these inputs."""
        result = np.zeros((len(inputs), len(inputs)))
        for a in range(len(inputs)):
            for b in range(a):
                result[a, b] = result[b, a] = self(inputs[a], inputs[b]).upper
        return result
