"""Counts over time: how many users had their event so far, day after day, with one promise for the whole time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.ability import range_answers
from shuffledp.mechanisms.combined.range_tree import fan_outs
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.parts.reading import TreeReading
from shuffledp.mechanisms.parts.value_tree import ValueTree
from shuffledp.tasks.adjustment import CONSISTENT, nearest
from shuffledp.tasks.domain import WHO
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.ranges import Ranges
from shuffledp.tasks.shape import running
from shuffledp.tasks.task import Sensitivity, every_label


@dataclass(frozen=True, init=False)
class OverTime(Ranges):
    """How many users had their event up to each day, where each has one event.

    ``options`` is the public list of days in their order, as texts, or how many there are, which users' data then
    number from 0. Days are the values of a tree: a node's count can be released when its last day is over, and on each
    day the running count is made of the nodes that are over by then. All nodes of the whole time are accounted
    together, so that nothing is spent by looking every day. Where the shuffler draws the noise ``collection.release``
    releases day by day; ``collect`` reports a finished collection: for each day what could have been released on it.

    >>> import shuffledp as sdp
    >>> year = sdp.tasks.OverTime(365)
    >>> print(f"{year.standard_error(sdp.RangeTree(365, 100.0, 0), 10_000):.1f}")
    15.6
    """

    name = "counts over time"
    data = "events spread evenly over the days, running counts of every day"

    @classmethod
    def can_use(cls, kind: type[Mechanism] | Mechanism) -> bool:
        """Trees whose nodes are counted with noise of their own: the others' counts are not needed to read one."""
        some = kind.examples() if isinstance(kind, type) else [kind]
        readings = [one.reading for one in some]
        return kind.task in cls.kinds and any(isinstance(one, TreeReading) and one.values_free for one in readings)

    def spread(self, mechanism: Mechanism, values: Array, variance: Floats | None = None) -> Floats:
        del variance
        return self._released(mechanism, len(values)).variance()

    def standard_error(
        self, mechanism: Mechanism, users: int, variance: Callable[[Array], Floats] | None = None
    ) -> float:
        del variance
        return math.sqrt(float(np.mean(self._released(mechanism, users).variance())))

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        found = self._released(mechanism, estimate.users).estimate(estimate)
        truth = np.cumsum(held)
        return found.value - truth, found.margin_towards(truth, confidence)

    def curators(self, users: int) -> Iterator[tuple[Sensitivity, float]]:
        """A curator, too, releases nodes of a tree when they are over."""
        del users
        for fan_out in fan_outs(self.count):
            tree = ValueTree(self.count, fan_out)
            spread = RunningRelease(tree, 1.0).variance()
            yield Sensitivity(2.0 * tree.height, math.sqrt(2.0 * tree.height)), math.sqrt(float(np.mean(spread)))

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        """The running count of every day, as it could have been released on that day."""
        found = self._released(mechanism, estimate.users).estimate(estimate)
        labels, shape = every_label(self.domain, self.count), running(estimate.users)
        return [Quantity.of("users up to", labels, found, confidence, shape)]

    def adjusted(self, mechanism: Mechanism, estimate: Estimate, quantities: Sequence[Quantity], way: str) -> list[Any]:
        """Running counts never fall: the nearest such, within what is possible."""
        from scipy.optimize import isotonic_regression

        found = [nearest(quantity, way) for quantity in quantities]
        if way != CONSISTENT:
            return found
        rising = [isotonic_regression(quantity.value).x for quantity in quantities]
        return [np.clip(one, 0.0, float(estimate.users)) for one in rising]

    def so_far(self, mechanism: Mechanism, estimate: Estimate, days: int) -> Estimate:
        """The running counts of the first so many days, where only the nodes that are over by then were released.

        Nobody says how many users there are: the last day is estimated as the others are.
        """
        return self._released(mechanism, estimate.users).so_far(estimate, days)

    def _released(self, mechanism: Mechanism, users: int) -> RunningRelease:
        answers = range_answers(mechanism)
        if answers is None or not self.can_use(mechanism):
            raise ValueError(f"{WHO}: {mechanism.name} cannot release one count before the others.")
        first = np.zeros(answers.tree.nodes)
        first[0] = 1.0
        noise = float(answers.reading.combined_variance(first, np.zeros(answers.tree.values), users))
        return RunningRelease(answers.tree, noise)


@dataclass(frozen=True)
class RunningRelease:
    """Running counts from the nodes that are over, each made as good as its own and all nodes within it allow.

    ``noise`` is the variance of each node's own number; all are independent. On the last day of a collection that is
    finished the users are counted.
    """

    tree: ValueTree
    noise: float

    def variance(self) -> Floats:
        """Of each day's running count."""
        found = self._spread()
        found[-1] = 0.0
        return found

    def estimate(self, estimate: Estimate) -> Estimate:
        """The running count of each day, from the estimate of all nodes."""
        value = self._value(estimate)
        value[-1] = estimate.users
        return Estimate(value, self.variance(), estimate.users)

    def so_far(self, estimate: Estimate, days: int) -> Estimate:
        """The running count of each of the first days, from an estimate in which the nodes over by then are right."""
        return Estimate(self._value(estimate)[:days], self._spread()[:days], estimate.users)

    def _spread(self) -> Floats:
        return self._running(self.tree.merged((self.noise,) * self.tree.height))

    def _value(self, estimate: Estimate) -> Floats:
        return self._running(self.tree.best(estimate.value, (1.0,) * self.tree.height))

    def _running(self, numbers: list[Floats]) -> Floats:
        """Σ of the nodes that make up each [0, k]: of the widest that is over then, and of [0, its first day)."""
        values, widths = self.tree.values, self.tree.widths
        found = np.zeros(values + 1)
        for end in range(1, values + 1):
            # On the last day those that are cut short are over, too.
            level = next(level for level, width in enumerate(widths) if end % width == 0 or end == values)
            node = (end - 1) // widths[level]
            found[end] = found[node * widths[level]] + numbers[level][node]
        return found[1:]
