"""Mechanisms of your own, from a table of probabilities or a density."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.table_law import UnitTable, check_probabilities
from shuffledp.mechanisms.base.table_mechanism import TableMechanism
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.privacy.dominating_pairs import Classes, ExactClass, HidingPair, MessageClass
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

# --- A table of your own ---


ROW_SUM_TOLERANCE = 1e-9
"""Largest distance of a row's sum from 1; within it the row is normalised."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class FromTable(TableMechanism):
    """Randomizer that sends output y for input x with probability `matrix[x][y]`.

    Each row must sum to 1 within 1e-9 and is normalised, then written in whole units of 2^-62 or slightly more (zeros
    stay zero, nothing else becomes zero): that table is executed, by exact draws, and all numbers are about it.
    `epsilon` is the logarithm of its largest ratio, rounded up. It is infinite if one input may send an output that
    another never sends: the probability of that is added to δ, because any user may be the one who never sends it.

    Theorem: [VR] §4, (p, β)-variation and q-ratio: the exact maxima over all pairs of rows; q_common is the least that
    holds for all pairs and all third rows.

    Args:
        matrix: A row of probabilities for each input, a column for each output. A user's value is the number of a row,
            from 0, a message that of a column.

    Raises:
        TypeError: If entries are not numbers.
        ValueError: If there are fewer than two rows, rows differ in length, an entry is negative or not finite, or a
            row does not sum to 1.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.FromTable([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.25, 0.25, 0.5]])
        >>> f"{mechanism.epsilon:.4f}"
        '1.0986'
        >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
        '0.0385'
    """

    matrix: Floats
    epsilon: float = field(init=False)

    name = "table"
    summary = "your own table of probabilities: rows are inputs, columns are outputs"
    use_case = "For a randomizer of your own: a table of probabilities."
    aliases = ("from-table",)

    def __init__(self, matrix: ArrayLike) -> None:
        numbers = check_probabilities("FromTable", matrix)
        for row, total in enumerate(map(math.fsum, numbers)):
            if abs(total - 1) > ROW_SUM_TOLERANCE:
                raise ValueError(
                    f"FromTable: the probabilities of input {row} must sum to 1 within {ROW_SUM_TOLERANCE:g}, got "
                    f"{total!r}."
                )
        numbers.setflags(write=False)
        object.__setattr__(self, "matrix", numbers)
        self._set_table(UnitTable.from_floats(numbers))

    def __reduce__(self) -> tuple[type[FromTable], tuple[Floats]]:
        """Pickles only the matrix; the rebuilt array is read-only, too."""
        return type(self), (self.matrix,)

    @classmethod
    def from_csv(cls, path: str | PathLike[str]) -> FromTable:
        """Reads a table from a CSV file without header, one row per input; blank lines are skipped.

        Args:
            path: The file.

        Returns:
            The mechanism.

        Raises:
            ValueError: If the file cannot be read, is empty, or does not hold rows of probabilities of one length.
        """
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file)
                lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ValueError(f"FromTable: cannot read {path}: {reason}.") from None
        if not lines:
            raise ValueError(f"FromTable: expected a table in {path}, got an empty file.")
        return cls(_parse_rows(path, lines))

    @classmethod
    def examples(cls) -> Sequence[FromTable]:
        tables: list[Any] = [
            [[0.75, 0.25], [0.25, 0.75]],
            [[0.5, 0.3, 0.1, 0.1], [0.25, 0.25, 0.3, 0.2], [0.2, 0.2, 0.2, 0.4]],
            # Output 1 is never sent; outputs 0 and 3 are equivalent.
            [[0.1, 0.0, 0.7, 0.2], [0.2, 0.0, 0.4, 0.4]],
        ]
        return [cls(table) for table in tables]


def _parse_rows(path: str | PathLike[str], lines: Sequence[tuple[int, list[str]]]) -> list[list[float]]:
    """Returns the cells as probabilities; raises ValueError with line and column if one is not."""
    first, expected = lines[0][0], len(lines[0][1])
    rows = []
    for line, cells in lines:
        if len(cells) != expected:
            raise ValueError(
                f"FromTable: {path}, line {line}: expected {expected} cells as in line {first}, got {len(cells)}."
            )
        rows.append(
            [_parse_probability(f"{path}, line {line}, column {column}", text) for column, text in enumerate(cells, 1)]
        )
        total = math.fsum(rows[-1])
        if abs(total - 1) > ROW_SUM_TOLERANCE:
            raise ValueError(
                f"FromTable: {path}, line {line}: expected cells that sum to 1 within {ROW_SUM_TOLERANCE:g}, got "
                f"{total!r}."
            )
    return rows


def _parse_probability(where: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"FromTable: {where}: expected a probability, got {text.strip()!r}.")
    return number


# --- A density of your own ---


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
    low: float = field(metadata=checked(validation.real))
    high: float = field(metadata=checked(validation.real, up=True))
    cells: int = field(metadata=checked(validation.count))
    epsilon: float = field(init=False)

    name = "density"
    summary = "your own density, cut into cells: the cell in which a draw falls"
    use_case = "For a randomizer of your own that has a density."

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"FromDensity: low must be below high, both finite, got {self.low!r} and {self.high!r}.")
        if not callable(self.density):
            raise TypeError(f"FromDensity: density must be a function of an input and an array, got {self.density!r}.")
        if len(self.inputs) < 2:
            raise ValueError(f"FromDensity: expected at least two inputs to tell apart, got {len(self.inputs)}.")
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
        return [cls(_tent, [0.0, 0.5, 1.0], 0.0, 1.0, 4), cls(_tilted, [-0.75, 0.5], -1.0, 1.0, 5)]


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
    """Classes of a pair of cells, with `first` raised by a factor e^log_slack, `second` and `hiding` lowered by it."""

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

    Theorem: each density is within e^±s of the executed table spread over its cells, s = change + gap + the error of
    the table (a Gauss–Legendre sum with positive weights lies between the least and the largest value in its cell, so
    that integration errors are covered). Hence every other user's law is at least e^−s times the table's blanket, and
    (P − e^ε·Q) ≤ e^s·P' − e^(ε−s)·Q': identity (★) with these bounds from above and below.
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
    change: float = field(metadata=checked(validation.non_negative, up=True))
    gap: float = field(default=0.0, metadata=checked(validation.non_negative, up=True))

    def __post_init__(self) -> None:
        validation.check_fields(self)
        if not isinstance(self.cells, FromDensity):
            raise TypeError(f"SentPoint: cells must be a FromDensity, got {self.cells!r}.")
        if math.isinf(self.log_slack):
            raise ValueError("SentPoint: every cell must have positive density under every input; narrow the interval.")

    @cached_property
    def log_slack(self) -> float:
        """The largest distance, in logarithm, of the densities from the executed table."""
        table = self.cells
        executed = table.unit_table.units / table.unit_table.total_units
        integrals = np.array([table.cell_probabilities(x) for x in table.inputs])
        if not (executed > 0).all() or not (integrals > 0).all():
            return math.inf
        table_error = float(np.abs(np.log(integrals / executed)).max())
        return (self.change + self.gap + table_error) * (1 + LOG_SUM_ERROR) + LOG_SUM_ERROR

    @property
    def epsilon(self) -> float:
        """The local guarantee: the table's, plus `log_slack` on both sides."""
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
        exact, reverse = pair.exact, pair.swapped().exact
        assert exact is not None
        assert reverse is not None
        widened, widened_reverse = WidenedClasses(self.log_slack, exact), WidenedClasses(self.log_slack, reverse)
        return HidingPair(widened, pair.symmetric, reverse_classes=widened_reverse)
