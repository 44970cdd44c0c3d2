"""The divergence of independent parts together: privacy losses put on a grid, towards one side, and their sums.

For laws whose cells are all known (counts with noise), a second time: whole numbers in place of floats and transforms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, fmpz, fmpz_poly
from numpy.typing import NDArray

from shuffledp.array import Floats
from shuffledp.certificate.line import Sides

UNITS = 160
"""A mass is a whole number of 2^−UNITS."""
FINEST = 2.0**-14
HAIR = 2.0**-46
"""More than what a logarithm of a ratio is off in floats: chances are known to 2^−50 of themselves, losses below 32."""
DOUBT = 2.0**-32
"""More than what a cell's share between two losses of the grid is off: HAIR/FINEST."""
SMALLEST = 1e-290
"""What is less likely is not told in floats: it counts as revealed, or not at all."""
FARTHEST = 30.0
MOST_BINS = 1 << 19


@dataclass(frozen=True)
class LossCells:
    """Messages by their chances in world 0 and in world 1."""

    first: Floats
    second: Floats
    rest: arb
    """At least the chance, in world 0, of all messages that are not among these."""
    told: arb
    """At most the chance, in world 0, of those of them that world 1 never sends."""

    @classmethod
    def of(cls, first: Sequence[arb], second: Sequence[arb], told: arb | None = None) -> LossCells:
        """From balls that are far narrower than floats."""
        rest = (1 - sum(first, arb(0))).upper().max(arb(0))
        chances = [np.array([float(chance.mid()) for chance in law]) for law in (first, second)]
        return cls(chances[0], chances[1], rest, arb(0) if told is None else told.lower().max(arb(0)))

    def losses(self) -> tuple[Floats, Floats]:
        """Those that floats can tell, with their chances."""
        there = self._there
        return np.log(self.first[there] / self.second[there]), self.first[there]

    @property
    def _there(self) -> NDArray[np.bool_]:
        return (self.first > SMALLEST) & (self.second > SMALLEST)

    @property
    def untold(self) -> float:
        """The chance of the others, but for rounding."""
        return float(self.first[~self._there].sum()) + SMALLEST * len(self.first)


@dataclass(frozen=True)
class GridLaw:
    """Losses k·step with their masses, k from ``lowest`` on, in whole units; and what is revealed."""

    step: float
    lowest: int
    masses: fmpz_poly
    revealed: arb

    @classmethod
    def above(cls, cells: LossCells, step: float, reach: float) -> GridLaw:
        """One that tells more: a cell is divided between the losses around its own, keeping both of its chances.

        What was divided can be put together again, which tells less. Losses are raised by a hair, those below −reach
        to it, and those above reach count as revealed; masses are raised by what shares may be off.
        """
        many = math.ceil(reach / step) + 1
        losses, chances = cells.losses()
        losses = np.maximum(losses + HAIR, -many * step)
        places = np.maximum(np.floor(losses / step), -many)
        inside = places < many
        gone = (cells.untold + float(chances[~inside].sum())) * (1 + DOUBT)
        losses, places, chances = losses[inside], places[inside], chances[inside]
        share = np.clip(np.expm1(places * step - losses) / math.expm1(-step), 0.0, 1.0)
        index = places.astype(np.int64) + many
        masses = np.bincount(index, chances * (1 - share + DOUBT), 2 * many + 1)
        masses += np.bincount(index + 1, chances * (share + DOUBT), 2 * many + 1)
        whole = [_units(mass * (1 + DOUBT)) + 1 for mass in masses.tolist()]
        return cls(step, -many, fmpz_poly(whole), cells.rest + arb(gone))

    @classmethod
    def below(cls, cells: LossCells, step: float, reach: float) -> GridLaw:
        """One that tells less: every loss is lowered to the grid, and what is below −reach left out."""
        many = math.ceil(reach / step) + 1
        losses, chances = cells.losses()
        places = np.minimum(np.floor((losses - HAIR) / step), many)
        inside = places >= -many
        index = places[inside].astype(np.int64) + many
        masses = np.bincount(index, chances[inside], 2 * many + 1)
        whole = fmpz_poly([max(0, _units(mass * (1 - DOUBT)) - 1) for mass in masses.tolist()])
        return cls(step, -many, whole, cells.told)

    def with_(self, other: GridLaw, *, up: bool) -> GridLaw:
        """Two independent ones together, rounded up to whole units or down."""
        product = self.masses * other.masses
        lift = (1 << UNITS) - 1 if up else 0
        masses = fmpz_poly([(mass + lift) >> UNITS for mass in product.coeffs()])
        # It grows with both, as long as they are chances.
        mine, theirs = self.revealed.min(arb(1)), other.revealed.min(arb(1))
        return GridLaw(self.step, self.lowest + other.lowest, masses, mine + theirs - mine * theirs)

    def divergence(self, factor: arb) -> arb:
        """Σ mass·(1 − factor·e^−loss)₊, and what is revealed."""
        coefficients = self.masses.coeffs()
        step, total = arb(self.step), arb(0)
        start = max(0, math.floor(float(factor.log().mid()) / self.step) - self.lowest - 1)
        # The few losses about ε one by one, the larger ones by Horner's rule.
        while start < len(coefficients):
            ratio = factor * (-step * (self.lowest + start)).exp()
            if ratio < 1:
                break
            total += arb(coefficients[start]) * (1 - ratio).max(arb(0))
            start += 1
        else:
            return total / arb(2) ** UNITS + self.revealed
        shrink, tilted = (-step).exp(), arb(0)
        for mass in reversed(coefficients[start:]):
            tilted = tilted * shrink + mass
        plain = arb(sum(coefficients[start:], fmpz(0)))
        return (total + plain - ratio * tilted) / arb(2) ** UNITS + self.revealed


def together(parts: Sequence[tuple[LossCells, int]], step: float, factor: arb, left_out: float) -> Sides | None:
    """The divergence of independent parts, each so many times, from both sides; None where there are too many losses.

    ``step``: the distance of the losses on the grid. ``left_out``: about the chance of losses that are not told.
    """
    reach = [max(min(_reach(cells, left_out), FARTHEST), step) for cells, _ in parts]
    if step < FINEST or sum(times * far for (_, times), far in zip(parts, reach, strict=True)) > MOST_BINS / 2 * step:
        return None
    found = []
    for up, on_grid in ((True, GridLaw.above), (False, GridLaw.below)):
        whole: GridLaw | None = None
        for (cells, times), far in zip(parts, reach, strict=True):
            law = _power(on_grid(cells, step, far), times, up=up)
            whole = law if whole is None else whole.with_(law, up=up)
        assert whole is not None, "there is at least one part"
        found.append(whole.divergence(factor))
    return Sides(found[1].lower(), found[0].upper())


def _power(law: GridLaw, times: int, *, up: bool) -> GridLaw:
    power = law
    for digit in bin(times)[3:]:
        power = power.with_(power, up=up)
        if digit == "1":
            power = power.with_(law, up=up)
    return power


def _reach(cells: LossCells, left_out: float) -> float:
    """A loss beyond which there is next to nothing, on either side."""
    losses, chances = cells.losses()
    sizes = np.abs(losses)
    order = np.argsort(-sizes)
    beyond = np.cumsum(chances[order])
    return float(sizes[order][min(int(np.searchsorted(beyond, left_out)), len(order) - 1)])


def _units(mass: float) -> int:
    return int(math.ldexp(mass, UNITS))
