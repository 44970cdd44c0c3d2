"""The discrete Gaussian law in whole units, drawn exactly as it is written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp.array import Integers
from shuffledp.numerics.ball import precision, rational, whole_below
from shuffledp.sampling.random import RandomSource

WHOLE_BITS = 62
WHOLE = 1 << WHOLE_BITS
LEAST_BITS = 32
"""What a table leaves to the next one is at least this share of it, 2^-32: so it is known to as many digits."""
REACH_BITS = 128
"""Numbers of a probability of at most 2^-128 are not drawn."""
BITS = 256


@dataclass(frozen=True)
class DiscreteGaussian:
    """Whole numbers z with probability as good as in proportion to e^(−z²/2s²), s = ``deviation``, 13 s around 0.

    |z| is drawn from a table in units of 2^-62; one more entry leads to a table of what is beyond, which is drawn from
    in turn, and so on; the sign is a fair coin. ``chances`` are exactly the probabilities with which this happens.
    """

    deviation: Fraction

    def _sizes(self) -> list[arb]:
        """e^(−z²/2s²) for z ≥ 0, up to the reach; halved at 0, which has no sign."""
        rate = 1 / (2 * arb(rational(self.deviation)) ** 2)
        reach = math.ceil(math.sqrt(2 * (REACH_BITS - 1) * math.log(2)) * float(self.deviation))
        return [(-rate * z * z).exp() / (2 if z == 0 else 1) for z in range(max(1, reach) + 1)]

    @cached_property
    def _tables(self) -> tuple[tuple[int, Integers], ...]:
        """The first number of each table, and its units; the last entry of each but the last leads on."""
        result = []
        start = 0
        with precision(BITS):
            sizes = self._sizes()
            while start < len(sizes):
                rest = sizes[start:]
                total = sum(rest, arb(0))
                units = [whole_below(size / total * WHOLE) for size in rest]
                after = np.cumsum(np.array(units[::-1], dtype=object))[::-1]
                kept = max(1, sum(1 for rest_units in after[1:] if rest_units >= WHOLE >> LEAST_BITS))
                if kept < len(units):
                    table = [*units[:kept], WHOLE - sum(units[:kept])]
                else:
                    table = [units[0] + WHOLE - sum(units), *units[1:]]
                result.append((start, np.array(table, dtype=np.int64)))
                start += kept
        return tuple(result)

    @cached_property
    def chances(self) -> tuple[int, tuple[int, ...]]:
        """Probability 1 in units, and the units of z = 0, 1, 2, …; those of −z are the same."""
        levels = len(self._tables)
        whole = 1 << (WHOLE_BITS * levels + 1)
        units: list[int] = []
        lead = 1
        for level, (_, table) in enumerate(self._tables):
            own = table.tolist() if level == levels - 1 else table.tolist()[:-1]
            # A size z > 0 is z or −z.
            scale = lead << (WHOLE_BITS * (levels - 1 - level))
            units += [scale * unit * (2 if not units and k == 0 else 1) for k, unit in enumerate(own)]
            lead *= int(table[-1])
        return whole, tuple(units)

    @property
    def reach(self) -> int:
        """The largest number that is drawn."""
        return len(self.chances[1]) - 1

    @cached_property
    def variance(self) -> float:
        whole, units = self.chances
        return float(Fraction(2 * sum(z * z * unit for z, unit in enumerate(units)), whole))

    def draw(self, source: RandomSource, count: int) -> Integers:
        """``count`` independent numbers."""
        size = np.empty(count, dtype=np.int64)
        waiting = np.arange(count)
        for level, (start, table) in enumerate(self._tables):
            found = np.cumsum(table).searchsorted(source.below(WHOLE, len(waiting)), side="right")
            size[waiting] = start + found
            if level < len(self._tables) - 1:
                waiting = waiting[found == len(table) - 1]
        negative = (source.words(count) & np.uint64(1)).astype(np.bool_)
        return np.negative(size, out=size, where=negative)
