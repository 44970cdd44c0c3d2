"""Trees over an ordered domain, and the least-squares projection that makes estimates of their nodes consistent.

The nodes of a level have one width, a power of the fan-out; the last node of a level may be narrower. Nodes are stored
level by level, the widest first and the single values last; the root, which counts all users, is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from shuffledp._core.validation import Array, Floats, Integers

SAMPLED_RANGES, GOLDEN_RATIO_CONJUGATE = 64, 0.6180339887498949

LevelArrays = list[Floats]
"""Numbers of each level, the widest nodes first; the last axis runs over nodes."""


@dataclass(frozen=True)
class ValueTree:
    """Tree over the values 0 … `value_count` − 1.

    Least squares: all nodes of a level have one variance, errors are independent, and the total is known. The upward
    pass averages a node's own number and the sum of its children by their variances; the downward pass distributes the
    difference between a parent and its children in proportion to the children's variances. That is the weighted
    least-squares solution. It is linear, so its adjoint, the same two passes in reverse, gives the weight of every node
    in an answer.

    Args:
        value_count: Number of values.
        fan_out: Children of each node; the tree has height one if it is `value_count`.
    """

    value_count: int
    fan_out: int

    @cached_property
    def node_widths(self) -> tuple[int, ...]:
        """The number of values in a full node of each level, the widest first."""
        widths = [1]
        while widths[0] * self.fan_out < self.value_count:
            widths.insert(0, widths[0] * self.fan_out)
        return tuple(widths)

    @property
    def height(self) -> int:
        """The number of levels."""
        return len(self.node_widths)

    @cached_property
    def level_sizes(self) -> tuple[int, ...]:
        """The number of nodes of each level."""
        return tuple(-(-self.value_count // width) for width in self.node_widths)

    @property
    def node_count(self) -> int:
        """The number of nodes of all levels."""
        return sum(self.level_sizes)

    @cached_property
    def level_starts(self) -> tuple[int, ...]:
        """The index of the first node of each level."""
        return tuple(int(place) for place in np.cumsum((0, *self.level_sizes[:-1])))

    def split_levels(self, numbers: Floats) -> LevelArrays:
        """Returns the numbers of each level, as views."""
        return [
            numbers[..., start : start + size] for start, size in zip(self.level_starts, self.level_sizes, strict=True)
        ]

    def node_range(self, level: int, node: int) -> tuple[int, int]:
        """Returns the values [a, b) of a node."""
        width = self.node_widths[level]
        return node * width, min(self.value_count, (node + 1) * width)

    @cached_property
    def last_values(self) -> Integers:
        """The last value of every node."""
        ends = [np.arange(1, size + 1) * width for size, width in zip(self.level_sizes, self.node_widths, strict=True)]
        return np.minimum(np.concatenate(ends), self.value_count) - 1

    def sum_leaves(self, leaves: Array) -> Floats:
        """Returns the sums over the values of every node."""
        levels = [np.asarray(leaves)]
        for level in range(self.height - 1, 0, -1):
            levels.insert(0, self._sum_to_parents(level, levels[0]))
        return np.concatenate(levels, axis=-1)

    def find_nodes(self, values: Array) -> Integers:
        """Returns the node of each value on every level, one row per value."""
        columns = [start + values // width for start, width in zip(self.level_starts, self.node_widths, strict=True)]
        return np.stack(columns, axis=-1).astype(np.int64)

    def decompose(self, low: int, high: int) -> list[int]:
        """Returns the fewest disjoint nodes that cover the values [low, high), without the root."""
        nodes: list[int] = []
        while low < high:
            level = next(
                level
                for level, width in enumerate(self.node_widths)
                if low % width == 0 and min(low + width, self.value_count) <= high
            )
            nodes.append(self.level_starts[level] + low // self.node_widths[level])
            low = self.node_range(level, low // self.node_widths[level])[1]
        return nodes

    # --- Least squares ---

    def make_consistent(self, value: Floats, spreads: Sequence[float], total: float) -> Floats:
        """Returns the numbers of all nodes nearest to `value` where children sum to their parents, and all to `total`.

        Distances are weighted by 1/variance; `spreads` are the variances of the levels, in any unit.
        """
        passes, best = self._passes(tuple(spreads)), self.combine_upwards(value, spreads)
        missing = np.asarray(total - best[0].sum(axis=-1))
        result = [best[0] + passes.difference_share[0] * missing[..., None]]
        for level in range(1, self.height):
            lacking = result[-1] - self._sum_to_parents(level, best[level])
            result.append(best[level] + passes.difference_share[level] * self._copy_to_children(level, lacking))
        return np.concatenate(result, axis=-1)

    def combine_upwards(self, value: Floats, spreads: Sequence[float]) -> LevelArrays:
        """Returns, for every node, the best number from its own and those of its descendants."""
        passes, own = self._passes(tuple(spreads)), self.split_levels(value)
        best = [own[-1]]
        for level in range(self.height - 2, -1, -1):
            below = self._sum_to_parents(level + 1, best[0])
            best.insert(0, below + passes.own_weight[level] * (own[level] - below))
        return best

    def adjoint_weights(self, leaves: Floats, spreads: Sequence[float]) -> tuple[Floats, Floats]:
        """Returns the weights of all nodes' numbers, and of the total, in Σ leaves·(consistent numbers of the values).

        Each has one row per row of `leaves`. This is the adjoint of `make_consistent`.
        """
        passes = self._passes(tuple(spreads))
        down: LevelArrays = []
        weights = np.asarray(leaves, dtype=np.float64)
        for level in range(self.height - 1, 0, -1):
            parents = self._sum_to_parents(level, passes.difference_share[level] * weights)
            down.insert(0, weights - self._copy_to_children(level, parents))
            weights = parents
        total = (passes.difference_share[0] * weights).sum(axis=-1)
        down.insert(0, weights - total[..., None])
        own = []
        for level in range(self.height - 1):
            own.append(passes.own_weight[level] * down[level])
            down[level + 1] += self._copy_to_children(level + 1, down[level] - own[-1])
        return np.concatenate([*own, down[-1]], axis=-1), total

    def mean_range_variance(self) -> float:
        """Returns the mean variance of some typical ranges if every node's number has variance 1."""
        # Multiples of the golden ratio, so that no fan-out is favoured.
        ends = (
            np.floor(self.value_count * (np.arange(2 * SAMPLED_RANGES) * GOLDEN_RATIO_CONJUGATE % 1))
            .astype(np.int64)
            .reshape(-1, 2)
        )
        low, high = ends.min(axis=1)[:, None], ends.max(axis=1)[:, None]
        places = np.arange(self.value_count)
        inside = (places >= low) & (places <= high)
        weights, _ = self.adjoint_weights(inside.astype(np.float64), (1.0,) * self.height)
        return float((weights**2).sum(axis=1).mean())

    def combined_variances(self, spreads: Sequence[float]) -> LevelArrays:
        """Returns the variance of `combine_upwards` for every node."""
        return self._passes(tuple(spreads)).variance

    @lru_cache(maxsize=16)  # noqa: B019 – a tree is a few numbers
    def _passes(self, spreads: tuple[float, ...]) -> _PassCoefficients:
        spread = [np.full(self.level_sizes[-1], spreads[-1])]
        own_weight: LevelArrays = []
        for level in range(self.height - 2, -1, -1):
            below = self._sum_to_parents(level + 1, spread[0])
            own_weight.insert(0, below / (below + spreads[level]))
            spread.insert(0, own_weight[0] * spreads[level])
        share = [spread[0] / spread[0].sum()]
        for level in range(1, self.height):
            share.append(spread[level] / self._copy_to_children(level, self._sum_to_parents(level, spread[level])))
        return _PassCoefficients(spread, own_weight, share)

    def _sum_to_parents(self, level: int, numbers: Floats) -> Floats:
        """Sums numbers of a level into those of the level above."""
        size, above = self.level_sizes[level], self.level_sizes[level - 1]
        missing = above * self.fan_out - size
        if missing:
            numbers = np.concatenate([numbers, np.zeros((*numbers.shape[:-1], missing))], axis=-1)
        return np.asarray(numbers.reshape(*numbers.shape[:-1], above, self.fan_out).sum(axis=-1))

    def _copy_to_children(self, level: int, numbers: Floats) -> Floats:
        """Copies numbers of the level above to each of their children on this level."""
        return np.repeat(numbers, self.fan_out, axis=-1)[..., : self.level_sizes[level]]


@dataclass(frozen=True, eq=False)
class _PassCoefficients:
    """Coefficients of both passes for every node; they do not depend on the numbers."""

    variance: LevelArrays
    """Variance of the best number from a node and its descendants."""
    own_weight: LevelArrays
    """Weight of a node's own number against the sum of its children; for all levels but the last."""
    difference_share: LevelArrays
    """Share of a node in the difference between its parent and its parent's children."""
