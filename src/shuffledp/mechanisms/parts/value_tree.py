"""Numbers on the nodes of a tree over an ordered domain, and the least squares that make them add up.

The nodes of a level have one width, a power of the fan-out; the last node of a level may be cut short. Nodes stand
level after level, the widest first and the single values last; the root, everybody, is not among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from shuffledp.array import Array, Floats, Integers

SOME_RANGES, GOLDEN = 64, 0.6180339887498949
Levels = list[Floats]
"""Numbers of each level, the widest nodes first; the last axis runs over nodes."""


@dataclass(frozen=True)
class ValueTree:
    """The values 0 … ``values`` − 1, in nodes of ``fan_out`` nodes each; of height one where the fan-out is ``values``.

    Least squares: a level has one variance for all its nodes, errors are independent, and how many there are in all is
    known. Upwards, a node's own number and the sum of its children are averaged by their variances; downwards, what
    children lack to their parent is shared in proportion to theirs. That is the weighted least-squares solution, and
    linear, so that the same two passes the other way round (its adjoint) tell the weight of every node in an answer.
    """

    values: int
    fan_out: int

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many values a full node of each level has, the widest first."""
        found = [1]
        while found[0] * self.fan_out < self.values:
            found.insert(0, found[0] * self.fan_out)
        return tuple(found)

    @property
    def height(self) -> int:
        return len(self.widths)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many nodes each level has."""
        return tuple(-(-self.values // width) for width in self.widths)

    @property
    def nodes(self) -> int:
        return sum(self.sizes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The place of the first node of each level."""
        return tuple(int(place) for place in np.cumsum((0, *self.sizes[:-1])))

    def levels(self, numbers: Floats) -> Levels:
        """The numbers of each level, as views."""
        return [numbers[..., start : start + size] for start, size in zip(self.starts, self.sizes, strict=True)]

    def ends(self, level: int, node: int) -> tuple[int, int]:
        """The values [a, b) of a node."""
        width = self.widths[level]
        return node * width, min(self.values, (node + 1) * width)

    @cached_property
    def lasts(self) -> Integers:
        """The last value of every node."""
        ends = [np.arange(1, size + 1) * width for size, width in zip(self.sizes, self.widths, strict=True)]
        return np.minimum(np.concatenate(ends), self.values) - 1

    def of_leaves(self, leaves: Array) -> Floats:
        """The sums over the values of every node."""
        found = [np.asarray(leaves)]
        for level in range(self.height - 1, 0, -1):
            found.insert(0, self._gathered(level, found[0]))
        return np.concatenate(found, axis=-1)

    def places(self, values: Array) -> Integers:
        """The node of each value on every level: a row for each value."""
        columns = [start + values // width for start, width in zip(self.starts, self.widths, strict=True)]
        return np.stack(columns, axis=-1).astype(np.int64)

    def decompose(self, low: int, high: int) -> list[int]:
        """The fewest disjoint nodes whose values are those of [low, high), the root left aside."""
        found: list[int] = []
        while low < high:
            level = next(
                level
                for level, width in enumerate(self.widths)
                if low % width == 0 and min(low + width, self.values) <= high
            )
            found.append(self.starts[level] + low // self.widths[level])
            low = self.ends(level, low // self.widths[level])[1]
        return found

    # --- least squares ----------------------------------------------------------------------------------------

    def consistent(self, value: Floats, spreads: Sequence[float], total: float) -> Floats:
        """The numbers nearest to ``value``, weighted by 1/variance, that add up: children to parents, all to ``total``.

        ``spreads`` are the variances of the levels, in any unit.
        """
        passes, best = self._passes(tuple(spreads)), self.best(value, spreads)
        missing = np.asarray(total - best[0].sum(axis=-1))
        result = [best[0] + passes.share[0] * missing[..., None]]
        for level in range(1, self.height):
            lacking = result[-1] - self._gathered(level, best[level])
            result.append(best[level] + passes.share[level] * self._spread_out(level, lacking))
        return np.concatenate(result, axis=-1)

    def best(self, value: Floats, spreads: Sequence[float]) -> Levels:
        """For every node the best number from its own and those of the nodes within it."""
        passes, own = self._passes(tuple(spreads)), self.levels(value)
        found = [own[-1]]
        for level in range(self.height - 2, -1, -1):
            below = self._gathered(level + 1, found[0])
            found.insert(0, below + passes.keep[level] * (own[level] - below))
        return found

    def weights(self, leaves: Floats, spreads: Sequence[float]) -> tuple[Floats, Floats]:
        """For Σ leaves·(consistent numbers of the values): the weight of each node's number, and that of the total.

        ``leaves`` has a row for each answer. The adjoint of ``consistent``.
        """
        passes = self._passes(tuple(spreads))
        pulled: Levels = []
        asked = np.asarray(leaves, dtype=np.float64)
        for level in range(self.height - 1, 0, -1):
            passed = self._gathered(level, passes.share[level] * asked)
            pulled.insert(0, asked - self._spread_out(level, passed))
            asked = passed
        whole = (passes.share[0] * asked).sum(axis=-1)
        pulled.insert(0, asked - whole[..., None])
        found = []
        for level in range(self.height - 1):
            found.append(passes.keep[level] * pulled[level])
            pulled[level + 1] += self._spread_out(level + 1, pulled[level] - found[-1])
        return np.concatenate([*found, pulled[-1]], axis=-1), whole

    def typical_spread(self) -> float:
        """The mean variance of some ranges, where every node's number has variance 1."""
        # Ends that no fan-out favours: multiples of the golden ratio.
        ends = np.floor(self.values * (np.arange(2 * SOME_RANGES) * GOLDEN % 1)).astype(np.int64).reshape(-1, 2)
        low, high = ends.min(axis=1)[:, None], ends.max(axis=1)[:, None]
        places = np.arange(self.values)
        asked = (places >= low) & (places <= high)
        weights, _ = self.weights(asked.astype(np.float64), (1.0,) * self.height)
        return float((weights**2).sum(axis=1).mean())

    def merged(self, spreads: Sequence[float]) -> Levels:
        """The variance of ``best`` for every node."""
        return self._passes(tuple(spreads)).spread

    @lru_cache(maxsize=16)  # noqa: B019 – a tree is a few numbers
    def _passes(self, spreads: tuple[float, ...]) -> _Passes:
        spread = [np.full(self.sizes[-1], spreads[-1])]
        keep: Levels = []
        for level in range(self.height - 2, -1, -1):
            below = self._gathered(level + 1, spread[0])
            keep.insert(0, below / (below + spreads[level]))
            spread.insert(0, keep[0] * spreads[level])
        share = [spread[0] / spread[0].sum()]
        for level in range(1, self.height):
            share.append(spread[level] / self._spread_out(level, self._gathered(level, spread[level])))
        return _Passes(spread, keep, share)

    def _gathered(self, level: int, numbers: Floats) -> Floats:
        """Numbers of a level added up to those of the level above."""
        size, above = self.sizes[level], self.sizes[level - 1]
        missing = above * self.fan_out - size
        if missing:
            numbers = np.concatenate([numbers, np.zeros((*numbers.shape[:-1], missing))], axis=-1)
        return np.asarray(numbers.reshape(*numbers.shape[:-1], above, self.fan_out).sum(axis=-1))

    def _spread_out(self, level: int, numbers: Floats) -> Floats:
        """Numbers of the level above, given to each of their nodes on this level."""
        return np.repeat(numbers, self.fan_out, axis=-1)[..., : self.sizes[level]]


@dataclass(frozen=True, eq=False)
class _Passes:
    """What both passes need for every node; the variances do not depend on the numbers."""

    spread: Levels
    """The variance of the best number from a node and all below it."""
    keep: Levels
    """The weight of a node's own number against the sum of its children; of all levels but the last."""
    share: Levels
    """A node's share of what its parent's children lack."""
