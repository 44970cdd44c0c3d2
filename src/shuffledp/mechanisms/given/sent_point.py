"""The privacy of a density whose points themselves are sent, proved from its cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from shuffledp import argument
from shuffledp.mechanisms.given.from_density import FromDensity
from shuffledp.numerics.ball import rational
from shuffledp.privacy.pair import Classes, ExactClass, HidingPair, MessageClass
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

ROUNDING = 1e-12
"""More than what logarithms of sums of sixteen floats are off by."""


@dataclass(frozen=True)
class WidenedClasses:
    """Classes of a pair of cells: ``first`` from above by a factor e^room, ``second`` and ``hiding`` from below."""

    room: float
    exact: tuple[ExactClass, ...]

    def __call__(self) -> Classes:
        more = arb(rational(self.room)).exp()
        result = [
            MessageClass(arb(first) * more, arb(second) / more, arb(hiding) / more)
            for first, second, hiding in self.exact
            if first != 0 or second != 0
        ]
        rest = 1 - sum((c.hiding for c in result), arb(0))
        return [*result, MessageClass(arb(0), arb(0), rest)]


@dataclass(frozen=True)
class SentPoint(Randomizer):
    """Users send a point drawn from ``cells.density`` itself, not the cell in which it falls.

    You promise two things that only you know of your density: within one cell log density(x, ·) changes by at most
    ``change``, and every possible input has one among ``cells.inputs`` whose log density differs from its own by at
    most ``gap`` everywhere (0 if these are all inputs). Smooth densities: slope times the width of a cell.

    ``cells``: the density, cut into cells. ``change``, ``gap``: at least 0, in units of ε. It can be amplified, not
    run.

    Theorem: each density is within e^±room of the executed table spread over its cells, room = change + gap + what the
    table is off by (a Gauss–Legendre sum with positive weights lies between the least and the largest value in its
    cell, so that integration errors are covered). Hence every other user's law is at least e^−room times the table's
    blanket, and (P − e^ε·Q) ≤ e^room·P' − e^(ε−room)·Q': identity (★) with these bounds from above and below.
    Requires: the two promises.
    Returns: an upper bound for the continuous law; it tends to the exact blanket value as cells get smaller.

    >>> import numpy as np, shuffledp as sdp
    >>> density = lambda x, y: 1 + x * np.sin(2 * np.pi * y)
    >>> cells = sdp.FromDensity(density, inputs=[-0.5, 0.0, 0.5], low=0.0, high=1.0, cells=256)
    >>> points = sdp.SentPoint(cells, change=2 * np.pi / 256)  # the slope of log density is below 2π
    >>> f"{cells.epsilon:.3f}", f"{points.epsilon:.3f}"
    ('1.098', '1.148')
    >>> f"{sdp.amplify(points, users=10_000).epsilon(delta=1e-6).upper:.3f}"
    '0.052'
    """

    cells: FromDensity
    change: float
    gap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("change", "gap"):
            object.__setattr__(self, name, argument.non_negative("SentPoint", name, getattr(self, name), up=True))
        if not isinstance(self.cells, FromDensity):
            raise TypeError(f"SentPoint: cells must be a FromDensity, got {self.cells!r}.")
        if math.isinf(self.room):
            raise ValueError("SentPoint: every cell must have positive density under every input; narrow the interval.")

    @cached_property
    def room(self) -> float:
        """How far, in logarithm, the densities may be from the executed table."""
        table = self.cells
        executed = table.executed.units / table.executed.whole
        stated = np.array([table.cell_probabilities(x) for x in table.inputs])
        if not (executed > 0).all() or not (stated > 0).all():
            return math.inf
        off = float(np.abs(np.log(stated / executed)).max())
        return (self.change + self.gap + off) * (1 + ROUNDING) + ROUNDING

    @property
    def epsilon(self) -> float:
        """The local guarantee: the table's, and the room on both sides."""
        return math.nextafter(self.cells.epsilon + 2 * self.room, math.inf)

    def variation_ratio(self) -> VariationRatio:
        return VariationRatio.of_ldp(self.epsilon)

    def blankets(self) -> Sequence[HidingPair]:
        return [self._widened(pair) for pair in self.cells.blankets()]

    def attacks(self) -> Sequence[HidingPair]:
        """None whose exact law is known."""
        return ()

    def _widened(self, pair: HidingPair) -> HidingPair:
        """``first`` from above, ``second`` and ``hiding`` from below, in either direction."""
        exact, back = pair.exact, pair.swapped().exact
        assert exact is not None
        assert back is not None
        there, back_again = WidenedClasses(self.room, exact), WidenedClasses(self.room, back)
        return HidingPair(there, pair.symmetric, back=back_again)
