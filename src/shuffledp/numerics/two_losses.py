"""The mean of (1 − e^(x − l − l'))₊ over two independent finite laws of l and l', certified from both sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffledp.array import Floats

UNIT = 2.0**-53
MARGIN = 2.0**-42
"""More than exp, and sums and differences of a few numbers below 2^10, are off in floats."""


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
        order = np.argsort(-values, kind="stable")
        values, masses = values[order], masses[order]
        return _Side(values, masses, np.cumsum(masses), np.cumsum(masses * np.exp(-values)))


@dataclass(frozen=True)
class _Side:
    """Values from the largest down, their masses, and the sums of masses and of masses·e^(−value) so far."""

    values: Floats
    masses: Floats
    below: Floats
    tilted: Floats


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
        each, other = small.side(sign), large.side(sign)
        mirrored = -other.values
        found = np.empty(len(points))
        for place, x in enumerate(points.tolist()):
            thresholds = x - each.values
            counts = np.searchsorted(mirrored, -thresholds + MARGIN, side="right")
            inside = counts > 0
            last = counts[inside] - 1
            plain = each.masses[inside] * other.below[last]
            taken = each.masses[inside] * np.exp(thresholds[inside]) * other.tilted[last]
            total = float(np.sum(plain - taken))
            found[place] = total + sign * doubt * float(np.sum(plain))
        result.append(found)
    upper = np.minimum(1.0, np.maximum(result[0], 0.0) + both * (1 + 4 * UNIT))
    surely = max(first.surely, second.surely)
    return upper, np.maximum(result[1], 0.0) + surely


NOTHING = LossAtoms(np.zeros(1), np.ones(1), 0.0, 0.0, 0.0)
"""No loss at all, for certain."""


def lost(law: LossAtoms, points: Floats) -> tuple[Floats, Floats]:
    """The same of one law alone."""
    return excess(law, NOTHING, points)
