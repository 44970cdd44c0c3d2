"""Mechanisms from a user-defined density: the cell in which a draw falls, or the privacy of the draw itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.types import Array, Floats
from shuffledp.mechanisms.base.table_law import UnitTable, check_probabilities
from shuffledp.mechanisms.custom.table_mechanism import TableMechanism
from shuffledp.numerics.intervals import to_rational
from shuffledp.privacy.dominating_pairs import Classes, ExactClass, HidingPair, MessageClass
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

QUADRATURE_NODES = 16
"""Points of the Gauss–Legendre rule in each cell."""
INTEGRAL_TOLERANCE = 1e-6
"""Largest distance of a density's integral from 1: cells with a kink are integrated less well than smooth ones."""


@dataclass(frozen=True, eq=False, repr=False)
class FromDensity(TableMechanism):
    """Randomizer that sends the cell of [low, high] in which a draw from `density(x, ·)` falls.

    The cells' probabilities are computed by a Gauss–Legendre rule of 16 points; each row must sum to 1 within 1e-6 and
    is normalised. A user's value is the index of the input in `inputs`, the message the number of the cell; `decode`
    returns the cell's midpoint.

    This table is executed, by exact draws, and all numbers are about it. They do not cover an implementation that sends
    a point of the density itself, which may reveal more than its cell; `SentPoint` covers that.

    Theorem: [VR] §4, (p, β)-variation and q-ratio of the table of cells, as in FromTable.

    Args:
        density: Function of an input and an array of points, which returns an array of the same shape.
        inputs: All values that users may hold.
        low: Lower end of the interval, which must hold all of the density.
        high: Upper end of the interval.
        cells: Number of cells of equal width.

    Raises:
        TypeError: If `density` is not callable, or an argument is not a number.
        ValueError: If the interval is empty or not finite, there are fewer than two inputs, or the density is negative
            or not finite somewhere, returns another shape, or does not integrate to 1.

    Example:
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
    use_case = "For a randomizer of your own that has a density."

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", validation.count("FromDensity", "cells", self.cells))
        low = validation.real("FromDensity", "low", self.low)
        high = validation.real("FromDensity", "high", self.high, up=True)
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"FromDensity: low must be below high, both finite, got {low!r} and {high!r}.")
        if not callable(self.density):
            raise TypeError(f"FromDensity: density must be a function of an input and an array, got {self.density!r}.")
        if len(self.inputs) < 2:
            raise ValueError(f"FromDensity: expected at least two inputs to tell apart, got {len(self.inputs)}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "inputs", tuple(self.inputs))
        chances = check_probabilities("FromDensity", [self.cell_probabilities(x) for x in self.inputs])
        self._set_table(UnitTable.from_floats(chances))

    def _equality_key(self) -> tuple[Any, ...]:
        """Returns the density as an object, and the cells; the inputs are in the table, and need not be comparable."""
        return self.density, self.low, self.high, self.cells

    def cell_probabilities(self, x: Any) -> Floats:
        """Returns the integral of the density over each cell, by a rule with positive weights.

        Args:
            x: The input.

        Returns:
            One probability per cell.

        Raises:
            ValueError: If the density is negative or not finite somewhere, returns another shape, or does not integrate
                to 1.
        """
        points, weights = np.polynomial.legendre.leggauss(QUADRATURE_NODES)
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
        if abs(total - 1) > INTEGRAL_TOLERANCE:
            raise ValueError(
                f"FromDensity: the density of input {x!r} must integrate to 1 within {INTEGRAL_TOLERANCE:g} over "
                f"[{self.low:g}, {self.high:g}], got {total:.9g}; widen the interval or raise cells."
            )
        return result

    @property
    def midpoints(self) -> Floats:
        """The middle of each cell."""
        return self.low + (self.high - self.low) * (np.arange(self.cells) + 0.5) / self.cells

    def decode(self, messages: Array) -> Floats:
        """Returns the midpoint of each message's cell.

        Args:
            messages: Numbers of cells.

        Returns:
            One point per message.
        """
        return np.asarray(self.midpoints[messages])

    @classmethod
    def examples(cls) -> Sequence[FromDensity]:
        return [
            cls(_tent, [0.0, 0.5, 1.0], 0.0, 1.0, 4),
            cls(_tilted, [-0.75, 0.5], -1.0, 1.0, 5),
        ]


def _tent(x: float, y: Floats) -> Floats:
    """Returns an exponential decay on both sides of x, on [0, 1]."""
    return np.asarray(np.exp(-np.abs(y - x)) / (2 - math.exp(-x) - math.exp(x - 1)))


def _tilted(x: float, y: Floats) -> Floats:
    """Returns a straight line of slope x/2, on [−1, 1]."""
    return (1 + x * y) / 2


# --- Privacy of a draw from the density itself ---


LOG_SUM_ERROR = 1e-12
"""Upper bound of the error of logarithms of sums of sixteen floats."""


@dataclass(frozen=True)
class WidenedClasses:
    """Classes of a pair of cells, with `first` raised by a factor e^room, `second` and `hiding` lowered by it."""

    log_slack: float
    exact: tuple[ExactClass, ...]

    def __call__(self) -> Classes:
        more = arb(to_rational(self.log_slack)).exp()
        result = [
            MessageClass(arb(first) * more, arb(second) / more, arb(hiding) / more)
            for first, second, hiding in self.exact
            if first != 0 or second != 0
        ]
        rest = 1 - sum((c.hiding for c in result), arb(0))
        return [*result, MessageClass(arb(0), arb(0), rest)]


@dataclass(frozen=True)
class SentPoint(Randomizer):
    """Privacy of a randomizer that sends a point drawn from `cells.density` itself, not the cell in which it falls.

    It can be amplified, not run.

    Theorem: each density is within e^±room of the executed table spread over its cells, room = change + gap + the error
    of the table (a Gauss–Legendre sum with positive weights lies between the least and the largest value in its cell,
    so that integration errors are covered). Hence every other user's law is at least e^−room times the table's blanket,
    and (P − e^ε·Q) ≤ e^room·P' − e^(ε−room)·Q': identity (★) with these bounds from above and below.
    Requires: the two promises.
    Returns: an upper bound for the continuous law; it tends to the exact blanket value as cells get smaller.

    Args:
        cells: The density, cut into cells.
        change: Your promise, at least 0, in units of ε: within one cell log density(x, ·) changes by at most this much.
            For smooth densities it is the slope times the width of a cell.
        gap: Your promise, at least 0, in units of ε: every possible input has one among `cells.inputs` whose log
            density differs from its own by at most this much everywhere (0 if these are all inputs).

    Raises:
        TypeError: If `cells` is not a `FromDensity`, or a promise is not a number.
        ValueError: If a promise is negative, or some cell has probability 0 under some input.

    Example:
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
            object.__setattr__(self, name, validation.non_negative("SentPoint", name, getattr(self, name), up=True))
        if not isinstance(self.cells, FromDensity):
            raise TypeError(f"SentPoint: cells must be a FromDensity, got {self.cells!r}.")
        if math.isinf(self.log_slack):
            raise ValueError("SentPoint: every cell must have positive density under every input; narrow the interval.")

    @cached_property
    def log_slack(self) -> float:
        """The largest distance, in logarithm, of the densities from the executed table."""
        table = self.cells
        executed = table.unit_table.units / table.unit_table.total_units
        stated = np.array([table.cell_probabilities(x) for x in table.inputs])
        if not (executed > 0).all() or not (stated > 0).all():
            return math.inf
        off = float(np.abs(np.log(stated / executed)).max())
        return (self.change + self.gap + off) * (1 + LOG_SUM_ERROR) + LOG_SUM_ERROR

    @property
    def epsilon(self) -> float:
        """The local guarantee: the table's, plus the room on both sides."""
        return math.nextafter(self.cells.epsilon + 2 * self.log_slack, math.inf)

    def variation_ratio(self) -> VariationRatio:
        return VariationRatio.from_ldp(self.epsilon)

    def blankets(self) -> Sequence[HidingPair]:
        return [self._widen(pair) for pair in self.cells.blankets()]

    def attacks(self) -> Sequence[HidingPair]:
        """Returns no attacks: none with an exact law is known."""
        return ()

    def _widen(self, pair: HidingPair) -> HidingPair:
        """Raises `first` and lowers `second` and `hiding`, in either direction."""
        exact, back = pair.exact, pair.swapped().exact
        assert exact is not None
        assert back is not None
        there, back_again = WidenedClasses(self.log_slack, exact), WidenedClasses(self.log_slack, back)
        return HidingPair(there, pair.symmetric, reverse_classes=back_again)
