"""The mean of (1 − e^(x − l − l'))₊ over two independent finite laws of l and l', certified from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.array import Floats

UNIT = 2.0**-53
MARGIN = 2.0**-42
"""More than exp, and sums and differences of a few numbers below 2^10, are off in floats."""
MOST_LOG = 350.0
"""Exponentials of more are cut to that: the product of two of them is a float still."""


@dataclass(frozen=True)
class LossAtoms:
    """A law with finitely many values, and a rest at infinity.

    ``values`` are off by at most ``doubt``, their ``masses`` by that share; between ``surely`` and ``infinite`` is the
    mass at infinity.
    """

    values: Floats
    masses: Floats
    infinite: float
    surely: float
    doubt: float

    def side(self, sign: int) -> _Side:
        """The law with all that is in doubt moved up (1) or down (−1)."""
        values, masses = self.values + sign * self.doubt, self.masses * (1 + sign * (self.doubt + 2 * UNIT))
        order = np.argsort(values, kind="stable")
        return _Side(values[order], masses[order])


@dataclass(frozen=True)
class _Side:
    """Values from the smallest up, and their masses."""

    values: Floats
    masses: Floats

    def sums(self) -> tuple[Floats, Floats, Floats]:
        """Values from the largest down with their signs changed; masses, and masses·e^(−value), of the first k."""
        values, masses = self.values[::-1], self.masses[::-1]
        return (
            -values,
            np.append(0.0, np.cumsum(masses)),
            np.append(0.0, np.cumsum(masses * np.exp(np.minimum(-values, MOST_LOG)))),
        )

    def tilt(self, x: float) -> Floats:
        """masses·e^(x − value), cut where that is too large."""
        if self._moderate and x <= MOST_LOG:
            return self._tilted * math.exp(x)
        return np.asarray(self.masses * np.exp(np.minimum(x - self.values, MOST_LOG)))

    @cached_property
    def _moderate(self) -> bool:
        return len(self.values) == 0 or float(np.abs(self.values).max()) <= MOST_LOG

    @cached_property
    def _tilted(self) -> Floats:
        return np.asarray(self.masses * np.exp(-self.values))


def excess(first: LossAtoms, second: LossAtoms, points: Floats) -> tuple[Floats, Floats]:
    """Upper and lower values of E(1 − e^(x − l − l'))₊ at each x, infinite values counting 1.

    For each value of one law those of the other above a threshold count, by the sums of their masses P and of their
    tilted masses Q: P − e^(x−l)·Q. A sum of n positive floats is off by at most a relative n·2^-53. An atom within the
    margin of its threshold counts whatever its sign, which is at most the margin times its mass.
    """
    small, large = sorted((first, second), key=lambda law: len(law.values))
    doubt = (len(large.values) + len(small.values) + 64) * UNIT * 2 + 4 * MARGIN
    both = first.infinite + second.infinite
    result = []
    for sign in (1, -1):
        each = small.side(sign)
        mirrored, below, tilted = large.side(sign).sums()
        found = np.empty(len(points))
        for place, x in enumerate(points.tolist()):
            # Thresholds in order are found sooner.
            counts = np.searchsorted(mirrored, each.values - (x - MARGIN), side="right")
            plain = float(each.masses @ below[counts])
            taken = float(each.tilt(x) @ tilted[counts])
            found[place] = plain - taken + sign * doubt * plain
        result.append(found)
    upper = np.minimum(1.0, np.maximum(result[0], 0.0) + both * (1 + 4 * UNIT))
    surely = max(first.surely, second.surely)
    if any(float(np.abs(law.values).max(initial=0.0)) > MOST_LOG for law in (first, second)):
        # What is taken off may have been cut: that is a bound from above only.
        return upper, np.full(len(points), surely)
    return upper, np.maximum(result[1], 0.0) + surely


NOTHING = LossAtoms(np.zeros(1), np.ones(1), 0.0, 0.0, 0.0)
"""No loss at all, for certain."""


def lost(law: LossAtoms, points: Floats) -> tuple[Floats, Floats]:
    """The same of one law alone."""
    return excess(law, NOTHING, points)
