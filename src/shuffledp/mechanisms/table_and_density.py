"""Mechanisms of your own, from a table of probabilities or a density, and the base class of table mechanisms."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import Encoding, WholeNumberEncoding
from shuffledp.mechanisms.base.estimate_intervals import CountErrorLaw, Cumulant, to_stored_numbers
from shuffledp.mechanisms.base.estimator import Estimate, Influence, SimulableEstimator
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, Sender, TunableParameter
from shuffledp.mechanisms.base.seed_compression import (
    WEIGHT_BITS,
    ApproximateProposal,
    WeightedProposal,
    log_rounded_up,
)
from shuffledp.mechanisms.base.table_law import TableLaw, TruncatedTable, UnitTable, check_probabilities
from shuffledp.numerics.intervals import float_above, precision, round_down, to_rational
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.dominating_pairs import Classes, ExactClass, HidingPair, MessageClass
from shuffledp.privacy.randomizer import HasTails, Randomizer, ValueObject
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.random_sources import RandomSource

# --- Estimator: counts of inputs by weighted least squares ---


EM_ITERATIONS = 100
"""EM iterations, after which fitted counts give variances that are off by a few percent."""
FIT_RELATIVE_ERROR = 0.03
"""Relative error of a variance from fitted counts: that from squares gets equal weight if its own error is as large."""
MIN_DENOMINATOR = 1e-300


@dataclass(frozen=True)
class TableEstimator(SimulableEstimator):
    """Estimator of the count of each input: unbiased, with the least variance if all inputs are equally common.

    A user's value is the number of the row, the message the number of the column.
    """

    error_prefix: str
    table: UnitTable

    @property
    def option_count(self) -> int:
        return self.table.inputs

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.table.outputs)

    def finish(self, total: Array, users: int) -> Estimate:
        """Returns the counts, with variances that combine two estimates.

        The squares of the messages' contributions give an unbiased variance, precise if there is much noise;
        non-negative counts with maximum likelihood give a precise one if there is little. (Estimated counts clipped at
        0 are too many in total and overstate the variance, by far if there is much noise.) The first gets the more
        weight, the smaller its relative error.
        """
        counts = np.asarray(total, dtype=np.float64)
        value, fitted = self._contributions @ counts, self.fit_counts(counts)
        by_fit, by_squares = fitted @ self._variances, self.variance_from_squares(counts)
        squares_variance = np.square(self._contributions**2 - self._contributions) @ (fitted @ self._probabilities)
        weight = by_fit**2 / np.maximum(by_fit**2 + squares_variance / FIT_RELATIVE_ERROR**2, MIN_DENOMINATOR)
        variance = weight * np.maximum(by_squares, 0.0) + (1 - weight) * by_fit
        return Estimate(value, variance, users, self._error_law(variance, fitted))

    def _error_law(self, variance: Floats, fitted: Floats) -> CountErrorLaw:
        """Returns the error law of each count if the other inputs keep their `fit_counts` proportions."""
        spread, third = (
            Cumulant.from_contributions(added, fitted) for added in (self._variances, self._third_cumulants)
        )
        slope = np.asarray(spread.slope)
        own = Cumulant(to_stored_numbers(variance - slope * fitted), spread.slope)
        return CountErrorLaw(own, third)

    def variance_from_squares(self, counts: Floats) -> Floats:
        """Returns the unbiased variance: E[X² − X] for a message that adds X to a count that its user is in or not."""
        return np.asarray((self._contributions**2 - self._contributions) @ counts)

    def fit_counts(self, counts: Floats) -> Floats:
        """Returns non-negative counts of the inputs that nearly maximise the likelihood of the message counts.

        Theorem: [Dempster, Laird and Rubin 1977]: every step makes the messages no less likely.
        """
        chances = self._probabilities
        held = np.full(len(chances), counts.sum() / len(chances))
        for _ in range(EM_ITERATIONS):
            expected = held @ chances
            held = held * (chances @ np.divide(counts, expected, out=np.zeros_like(expected), where=expected > 0))
        return held

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws the estimate from message counts drawn by their exact law, up to probabilities rounded to floats."""
        units = self.table.units
        chances = units / units.sum(axis=1, dtype=np.float64, keepdims=True)
        return self.finish(rng.multinomial(held, chances).sum(axis=0), users)

    def influence(self, messages: float) -> tuple[Influence, ...] | None:
        """Returns the influence of the outputs, unused ones included, that add most and least to some estimate."""
        try:
            added = self._contributions
        except ValueError:
            # There is no unbiased estimate.
            return None
        return (Influence(messages * float(added.min()), messages * float(added.max())),)

    def truth(self, values: Array) -> Floats:
        return np.bincount(values, minlength=self.table.inputs).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.asarray(self.truth(values) @ self._variances)

    @cached_property
    def _probabilities(self) -> Floats:
        return np.asarray(self.table.units / self.table.total_units, dtype=np.float64)

    @cached_property
    def _contributions(self) -> Floats:
        """The contribution of one message to the estimate of each input: one row per input, one column per output."""
        chances = self._probabilities
        common = chances.mean(axis=0)
        root = np.sqrt(np.where(common > 0, common, 1.0))
        left, sizes, right = np.linalg.svd(chances / root, full_matrices=False)
        rank = int((sizes > sizes[0] * max(chances.shape) * np.finfo(np.float64).eps).sum())
        if rank < len(chances):
            raise ValueError(
                f"{self.error_prefix}: no unbiased estimate exists, because the rows depend on each other "
                f"({len(chances)} inputs, rank {rank})."
            )
        return np.asarray(left / sizes @ right / root)

    @cached_property
    def _variances(self) -> Floats:
        """The variance of each component (column) that one user of each input (row) contributes."""
        chances = self._probabilities
        return np.asarray(chances @ (self._contributions**2).T - (chances @ self._contributions.T) ** 2)

    @cached_property
    def _third_cumulants(self) -> Floats:
        """The third cumulant of each component (column) that one user of each input (row) contributes."""
        first, second, third = (self._probabilities @ (self._contributions**power).T for power in (1, 2, 3))
        return np.asarray(third - 3 * first * second + 2 * first**3)


# --- Proposal law: in proportion to the largest entry of each column ---


NEAR_MINIMUM_FACTOR = 1 + 1e-9
"""Floats within this factor of the least are compared exactly."""


@dataclass(frozen=True)
class TableProposal(WeightedProposal):
    """Proposal law in proportion to the largest entry of each column.

    If the sum would be too long, weights are the entries divided by a power of two, rounded up.

    Requires: a table in which no input may send an output that another never sends.
    """

    table: UnitTable

    @cached_property
    def weights(self) -> Integers:
        most = self.table.units.max(axis=0).tolist()
        return np.array([-(-units >> self._shift) for units in most], dtype=np.int64)

    @cached_property
    def _shift(self) -> int:
        most: list[int] = self.table.units.max(axis=0).tolist()
        return max(0, sum(most).bit_length() - WEIGHT_BITS)

    @cached_property
    def ratio(self) -> float:
        """The largest ratio: no entry is above its column's weight times the power of two."""
        return float_above(Fraction(self.total_weight << self._shift, self.table.total_units))

    @cached_property
    def min_ratio(self) -> Fraction:
        columns = np.flatnonzero(self.weights)
        least, weights = self.table.units.min(axis=0)[columns], self._divisors[columns]
        shares = (least / weights).astype(np.float64)
        near = np.flatnonzero(shares <= shares.min() * NEAR_MINIMUM_FACTOR)
        smallest = min(Fraction(int(least[column]), int(weights[column])) for column in near)
        return smallest * self.total_weight / self.table.total_units

    def acceptance(self, values: Array, messages: Array) -> Floats:
        return np.asarray(self._acceptance_probabilities[self.row_numbers(values), messages])

    def row_numbers(self, values: Array) -> Integers:
        """Returns the row of each checked value."""
        return values

    @cached_property
    def _acceptance_probabilities(self) -> Floats:
        """The acceptance probabilities R(x)(y)/(C·ρ(y)); 0 for outputs that are never sent."""
        scale = float(Fraction(self.total_weight, self.table.total_units) / Fraction(self.ratio))
        shares = (self.table.units / self._divisors).astype(np.float64)
        return np.minimum(shares * scale, 1.0)

    @property
    def _divisors(self) -> Array:
        """The weights in the table's type, with 1 in place of 0."""
        return np.maximum(self.weights, 1).astype(self.table.units.dtype)


# --- Proposal law of a table in which some input may send an output that another hardly ever or never sends ---


EXTRA_DELTA = Fraction(1, 10**12)
"""δ beyond the unavoidable part; the smaller it is, the larger is ε."""
MAX_EPSILON = 80.0
PRECISION_BITS = 128

Row = tuple[Fraction, ...]


@dataclass(frozen=True)
class TailedProposal(TableProposal, ApproximateProposal):
    """Proposal law in proportion to the largest entry of each column; some rows are far below it, none above C times.

    Theorem: [LC] Algorithm 4 with acceptance probabilities that need no cap.
    """

    @property
    def min_ratio(self) -> Fraction:
        return Fraction(0)

    @cached_property
    def deletion_epsilon(self) -> float:
        return max(log_rounded_up(Fraction(self.ratio)), self._min_epsilon([self._proposal_row], self._rows))

    @cached_property
    def deletion_delta(self) -> float:
        """The δ of the proposal law against every row; in the other direction it is 0."""
        return float_above(_divergence([self._proposal_row], self._rows, self.deletion_epsilon))

    @cached_property
    def replacement_epsilon(self) -> float:
        return self._min_epsilon(self._rows, self._rows)

    @cached_property
    def replacement_delta(self) -> float:
        return float_above(_divergence(self._rows, self._rows, self.replacement_epsilon))

    @cached_property
    def _rows(self) -> tuple[Row, ...]:
        return self.table.fractions()

    @cached_property
    def _proposal_row(self) -> Row:
        return tuple(Fraction(weight, self.total_weight) for weight in self.weights.tolist())

    def _min_epsilon(self, first: Sequence[Row], second: Sequence[Row]) -> float:
        """Returns an ε near the smallest at which δ is the mass that is never sent plus `EXTRA_DELTA`.

        Any ε is valid.
        """
        ones, others = (np.array([[float(p) for p in row] for row in laws]) for laws in (first, second))
        never = max(float(one[other == 0].sum()) for one in ones for other in others)

        def excess(epsilon: float) -> float:
            gaps = np.maximum(ones[:, None] - np.exp(epsilon) * others[None, :], 0.0).sum(axis=2)
            return never + float(EXTRA_DELTA) - float(gaps.max())

        return find_crossing(excess, 0.0, MAX_EPSILON, relative=1e-6).above


@dataclass(frozen=True)
class PointProposal(TailedProposal):
    """Proposal law for values in an interval, which are mixtures of the two nearest rows."""

    low: float
    high: float

    def draw_latent_inputs(self, values: Array, source: RandomSource) -> Array:
        units = rounding_and_digits.interval_to_units(values, self.low, self.high)
        return rounding_and_digits.round_to_grid(units, self.table.inputs - 1, source)

    def row_numbers(self, values: Array) -> Integers:
        return values


def _divergence(first: Sequence[Row], second: Sequence[Row], epsilon: float) -> Fraction:
    """Returns an upper bound of the largest hockey-stick divergence between laws of the two lists."""
    with precision(PRECISION_BITS):
        ratio = Fraction(round_down(arb(epsilon).exp()))
    return max(
        sum((max(a - ratio * b, Fraction(0)) for a, b in zip(one, other, strict=True)), Fraction(0))
        for one in first
        for other in second
    )


@dataclass(frozen=True)
class RowNumberDomain(Category):
    """Domain of row numbers; `audit_rows` are two rows that are hard to hide from each other."""

    audit_rows: tuple[int, int]

    def audit_pair(self) -> Array:
        return np.array(self.audit_rows)


class TableMechanism(Mechanism, HasTails):
    """Mechanism that draws the output from the input's row of the table `unit_table`.

    Domain, law, encoding, estimator and sampler follow from the table, so that a subclass only builds the table. Two
    mechanisms are equal if their tables and their `_equality_key` are.
    """

    task = "frequency"
    has_numeric_settings = False
    tunable: ClassVar[tuple[TunableParameter, ...]] = ()
    unit_table: UnitTable
    """The table that is executed, and that all numbers are about."""
    _requested_epsilon: float | None

    def _set_table(self, table: UnitTable) -> None:
        """Sets the executed table.

        `epsilon` becomes the table's, and the requested one is stored in `_requested_epsilon`.
        """
        object.__setattr__(self, "unit_table", table)
        object.__setattr__(self, "_requested_epsilon", vars(self).get("epsilon"))
        object.__setattr__(self, "epsilon", self.law.epsilon)

    @cached_property
    def domain(self) -> RowNumberDomain:
        return RowNumberDomain(type(self).__name__, self.unit_table.inputs, self.unit_table.find_farthest_rows())

    @cached_property
    def law(self) -> TableLaw:
        return TableLaw(type(self).__name__, self.unit_table)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding(type(self).__name__, self.unit_table.outputs)

    @cached_property
    def estimator(self) -> TableEstimator:
        return TableEstimator(type(self).__name__, self.unit_table)

    @cached_property
    def proposal(self) -> TableProposal:
        finite = math.isfinite(self.law.epsilon)
        return TableProposal(self.unit_table) if finite else TailedProposal(self.unit_table)

    @property
    def has_tails(self) -> bool:
        return self.law.has_tails

    def truncate_tails(self, share: float) -> TruncatedTable | None:
        return self.law.truncate_tails(share)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.unit_table.draw(values, source)

    def table(self) -> OutputTable:
        inputs, messages = np.arange(self.unit_table.inputs), np.arange(self.unit_table.outputs)
        return OutputTable(inputs, messages, self.unit_table.fractions())

    def settings(self) -> dict[str, Any]:
        """Returns the constructor's arguments if they can be written down, else the size of the table.

        A requested local ε stays as it was: the table's own would give another table.
        """
        settings = super().settings()
        if self.table_setting:
            return settings | {self.table_setting: settings[self.table_setting].tolist()}
        if all(value is None or isinstance(value, bool | int | float | str) for value in settings.values()):
            return settings | {"epsilon": self._requested_epsilon} if "epsilon" in settings else settings
        return self._size()

    def _size(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "inputs": self.unit_table.inputs, "outputs": self.unit_table.outputs}

    def _equality_key(self) -> tuple[Any, ...]:
        """Returns the attributes, besides the table, that two equal mechanisms share."""
        return ()

    def __repr__(self) -> str:
        shown = self._size() if self.table_setting else self.settings()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, TableMechanism):
            return NotImplemented
        return (self.unit_table, *self._equality_key()) == (other.unit_table, *other._equality_key())

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.unit_table, *self._equality_key()))


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


# --- Opting out ---


@dataclass(frozen=True)
class OptOut(ValueObject, Sender):
    """Group of users who do not answer, but send messages of a mechanism that depend on no value and hide the others.

    The message is uniform or, for unary encodings, a row of bits none of which is the user's own.

    Args:
        mechanism: Mechanism of the users who answer.

    Raises:
        TypeError: If it is not a mechanism.
        ValueError: If it does not define a message that depends on no value.

    Example:
        >>> import shuffledp as sdp
        >>> krr = sdp.KRR(epsilon=1.0, options=16)
        >>> crowd = sdp.Crowd({krr: 9_000, sdp.OptOut(krr): 1_000})
        >>> sdp.amplify(crowd).epsilon(delta=1e-6).upper < sdp.amplify(krr, users=9_000).epsilon(delta=1e-6).upper
        True
    """

    mechanism: Mechanism

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"OptOut: expected a mechanism, got {self.mechanism!r}.")
        if self.mechanism.law.opt_out_law() is None:
            raise ValueError(f"OptOut: {self.mechanism.name} defines no message of a user who does not answer.")

    @property
    def law(self) -> Law:
        law = self.mechanism.law.opt_out_law()
        assert law is not None
        return law

    @property
    def encoding(self) -> Encoding:
        return self.mechanism.encoding


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
