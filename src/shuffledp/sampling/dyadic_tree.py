"""Numbers on the nodes of a complete binary tree without its root: level after level, two nodes first.

Node j of level ℓ, of 2^ℓ nodes, is at place 2^ℓ − 2 + j.
"""

from __future__ import annotations

import numpy as np

from shuffledp.array import Array, Floats


def of_leaves(leaves: Floats) -> Floats:
    """The sums over the leaves below each node; the number of leaves is a power of two."""
    levels = [leaves]
    while len(levels[0]) > 2:
        levels.insert(0, levels[0].reshape(-1, 2).sum(axis=1))
    return np.concatenate(levels)


def levels_of(numbers: Floats) -> list[Floats]:
    """The numbers of each level, two nodes first."""
    height = (len(numbers) + 2).bit_length() - 2
    return [numbers[(1 << level) - 2 : (2 << level) - 2] for level in range(1, height + 1)]


def decompose(bounds: tuple[int, int], height: int) -> Array | None:
    """The fewest disjoint nodes whose leaves are those of [a, b); None for the root. At most two of one level."""
    low, high = bounds
    if high - low == 1 << height:
        return None
    nodes = []
    for level in range(height, 0, -1):
        first = (1 << level) - 2
        if low < high and low % 2:
            nodes.append(first + low)
            low += 1
        if low < high and high % 2:
            high -= 1
            nodes.append(first + high)
        low, high = low // 2, high // 2
    return np.array(nodes)


def least_squares(value: Floats, variance: Floats, total: float) -> Floats:
    """The numbers nearest to ``value``, weighted by 1/variance, that add up: children to parents, all to ``total``.

    All nodes of a level have one variance. Upwards, a node's own number and the sum of its children are averaged by
    their variances; downwards, what children lack to their parent is shared equally, as their variances are equal.
    """
    levels, spreads = levels_of(value), [float(level[0]) for level in levels_of(variance)]
    best, spread = [levels[-1]], spreads[-1]
    for own, own_spread in zip(levels[-2::-1], spreads[-2::-1], strict=True):
        below, spread = best[0].reshape(-1, 2).sum(axis=1), 2 * spread
        share = spread / (spread + own_spread)
        best.insert(0, share * own + (1 - share) * below)
        spread = share * own_spread
    result = [best[0] + (total - best[0].sum()) / 2]
    for below in best[1:]:
        missing = result[-1] - below.reshape(-1, 2).sum(axis=1)
        result.append(below + np.repeat(missing / 2, 2))
    return np.concatenate(result)
