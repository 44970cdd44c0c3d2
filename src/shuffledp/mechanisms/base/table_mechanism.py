"""Base of mechanisms whose law is a table of probabilities: its estimator, proposal laws and input domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb

from shuffledp._core.validation import Array, Floats, Integers
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import CountErrorLaw, Cumulant, to_stored_numbers
from shuffledp.mechanisms.base.estimator import Estimate, Influence, SimulableEstimator
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.seed_compression import (
    WEIGHT_BITS,
    ApproximateProposal,
    WeightedProposal,
    log_rounded_up,
)
from shuffledp.mechanisms.base.table_law import TableLaw, TruncatedTable, UnitTable
from shuffledp.numerics.ball_arithmetic import float_above, precision, round_down
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.randomizer_interface import HasTails
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.random_sources import RandomSource

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
