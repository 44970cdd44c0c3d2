"""Bring your own randomizer as a density, cut into cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.parts.tabulated import Tabulated
from shuffledp.mechanisms.parts.unit_table import UnitTable, checked_probabilities

NODES = 16
"""Points of the Gauss–Legendre rule in each cell."""
TOLERANCE = 1e-6
"""How far a density's integral may be from 1: cells with a kink are integrated less well than smooth ones."""


@dataclass(frozen=True, eq=False, repr=False)
class FromDensity(Tabulated):
    """The randomizer that sends the cell of [low, high] in which a draw from ``density(x, ·)`` falls.

    ``density(x, y)`` takes one of the ``inputs`` and an array of points, and gives an array of the same shape. The
    interval is split into equal ``cells``, whose probabilities are computed by a Gauss–Legendre rule of 16 points; each
    row must sum to 1 within 1e-6 and is normalised. A user's value is the place of the input in ``inputs``, the message
    the number of the cell; ``decode`` gives the cell's midpoint.

    What is run, by exact draws, and what all numbers are about is this table. They do not cover an implementation that
    sends a point of the density itself: it may tell more than its cell does. ``SentPoint`` covers that.

    ``inputs``: all that users may hold. ``low``, ``high``: the interval that holds all of the density. ``cells``: how
    many.

    Theorem: [VR] §4, (p, β)-variation and q-ratio of the table of cells, as in FromTable.

    >>> import numpy as np, shuffledp as sdp
    >>> density = lambda x, y: 1 + x * np.sin(2 * np.pi * y)
    >>> mechanism = sdp.FromDensity(density, inputs=[-0.5, 0.0, 0.5], low=0.0, high=1.0, cells=64)
    >>> f"{mechanism.epsilon:.3f}", mechanism.message_bits
    ('1.096', 6)
    >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
    '0.0261'
    """

    density: Callable[[Any, Floats], Floats]
    inputs: Sequence[Any]
    low: float
    high: float
    cells: int
    epsilon: float = field(init=False)

    name = "density"
    summary = "your own density, cut into cells: the cell in which a draw falls"
    take_it = "For a randomizer of your own that has a density."

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", argument.count("FromDensity", "cells", self.cells))
        low = argument.real("FromDensity", "low", self.low)
        high = argument.real("FromDensity", "high", self.high, up=True)
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"FromDensity: low must be below high, both finite, got {low!r} and {high!r}.")
        if not callable(self.density):
            raise TypeError(f"FromDensity: density must be a function of an input and an array, got {self.density!r}.")
        if len(self.inputs) < 2:
            raise ValueError(f"FromDensity: expected at least two inputs to tell apart, got {len(self.inputs)}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "inputs", tuple(self.inputs))
        chances = checked_probabilities("FromDensity", [self.cell_probabilities(x) for x in self.inputs])
        self._adopt(UnitTable.of_floats(chances))

    def _origin(self) -> tuple[Any, ...]:
        """The density as the object it is, and the cells; the inputs are in the table, and need not be comparable."""
        return self.density, self.low, self.high, self.cells

    def cell_probabilities(self, x: Any) -> Floats:
        """The integral of the density of x over each cell, by a rule with positive weights."""
        points, weights = np.polynomial.legendre.leggauss(NODES)
        half = (self.high - self.low) / self.cells / 2
        places = self.midpoints[:, None] + half * points
        values = np.asarray(self.density(x, places))
        if values.shape != places.shape or values.dtype.kind not in "iuf":
            raise ValueError(
                f"FromDensity: density must give numbers of the shape of its points, {places.shape}, "
                f"got {values.dtype} of shape {values.shape}."
            )
        if not ((values >= 0) & (values < math.inf)).all():
            raise ValueError(
                f"FromDensity: density must be finite and not negative, got another value for input {x!r}."
            )
        result = np.asarray(values @ weights * half)
        total = math.fsum(result)
        if abs(total - 1) > TOLERANCE:
            raise ValueError(
                f"FromDensity: the density of input {x!r} must integrate to 1 within {TOLERANCE:g} over "
                f"[{self.low:g}, {self.high:g}], got {total:.9g}; widen the interval or raise cells."
            )
        return result

    @property
    def midpoints(self) -> Floats:
        """The middle of each cell."""
        return self.low + (self.high - self.low) * (np.arange(self.cells) + 0.5) / self.cells

    def decode(self, messages: Array) -> Floats:
        """The midpoint of each message's cell."""
        return np.asarray(self.midpoints[messages])

    @classmethod
    def examples(cls) -> Sequence[FromDensity]:
        return [
            cls(_tent, [0.0, 0.5, 1.0], 0.0, 1.0, 4),
            cls(_tilted, [-0.75, 0.5], -1.0, 1.0, 5),
        ]


def _tent(x: float, y: Floats) -> Floats:
    """An exponential fall on both sides of x, on [0, 1]."""
    return np.asarray(np.exp(-np.abs(y - x)) / (2 - math.exp(-x) - math.exp(x - 1)))


def _tilted(x: float, y: Floats) -> Floats:
    """A straight line of slope x, on [−1, 1]."""
    return (1 + x * y) / 2
