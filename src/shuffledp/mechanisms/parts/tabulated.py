"""Randomizers that are a table of probabilities: one row per input, one column per output, run exactly as written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from flint import arb, fmpq

from shuffledp.array import Array, Floats, Integers
from shuffledp.mechanisms.mechanism import Estimate, OutputTable, Tuning
from shuffledp.mechanisms.parts import user_values
from shuffledp.mechanisms.parts.old_whole_number import WholeNumber
from shuffledp.numerics.ball import above, precision, rational, round_up
from shuffledp.privacy.pair import HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random import RandomSource

UNITS = 1 << 62
"""Probability 1 in whole units: this, or a few less where rounding down lost some."""
USERS_AT_ONCE = 1 << 20
MOST_ATTACKS = 8
NEAR = 1 - 1e-9
"""Floats this near to the largest are compared exactly."""

Triple = tuple[int, int, int]
"""Units of the first input, the second input and the hiding law on one class of outputs."""


class Tabulated(WholeNumber):
    """Draw the output from the input's row: exactly uniform whole numbers against whole thresholds.

    A user's value is the number of the row, the message the number of the column. The estimate is the count of each
    input, by weighted least squares: unbiased, with the smallest variance if all inputs are equally common.
    Every answer about privacy is of the table in ``units``, and exact.
    """

    task = "frequency"
    built_from_numbers = False
    tuning: ClassVar[tuple[Tuning, ...]] = ()
    units: Integers
    """The executed table: whole numbers, all rows with the same sum."""

    def _adopt(self, probabilities: Floats) -> None:
        """Make this table, whose rows sum to 1 but for rounding, the one that is run."""
        units = _whole_units(probabilities)
        units.setflags(write=False)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "epsilon", self._log_of_largest_ratio())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.settings().items())})"

    def settings(self) -> dict[str, Any]:
        """Its size in place of the table itself."""
        rows, columns = self.units.shape
        return {"epsilon": self.epsilon, "inputs": rows, "outputs": columns}

    @cached_property
    def whole(self) -> int:
        """The units of probability 1."""
        return int(self.units[0].sum())

    # --- running it -------------------------------------------------------------------------------------------

    def check(self, values: Any) -> Array:
        return user_values.categories(type(self).__name__, values, len(self.units))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        parts = range(0, len(values), USERS_AT_ONCE)
        return np.concatenate([self._randomize(values[start : start + USERS_AT_ONCE], source) for start in parts])

    def _randomize(self, values: Integers, source: RandomSource) -> Integers:
        draws = source.below(self.whole, len(values))
        # Users with the same input share one search; short numbers sort in linear time.
        by_input = np.argsort(values.astype(np.min_scalar_type(len(self.units) - 1)), kind="stable")
        ends = np.cumsum(np.bincount(values, minlength=len(self.units)))
        messages = np.empty(len(values), dtype=np.int64)
        for thresholds, users in zip(self._thresholds, np.split(by_input, ends[:-1]), strict=True):
            messages[users] = thresholds.searchsorted(draws[users], side="right")
        return messages

    @cached_property
    def _thresholds(self) -> Integers:
        return np.cumsum(self.units, axis=1)

    @property
    def outputs(self) -> int:
        return int(self.units.shape[1])

    # --- reading the messages ---------------------------------------------------------------------------------

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.units.shape[1])

    def finish(self, total: Array, users: int) -> Estimate:
        value = self._estimator @ np.asarray(total, dtype=np.float64)
        return Estimate(value, np.clip(value, 0.0, users) @ self._variances, users)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """The estimate from message counts drawn by their exact law, but for chances rounded to floats."""
        chances = self.units / self.units.sum(axis=1, dtype=np.float64, keepdims=True)
        return self.finish(rng.multinomial(held, chances).sum(axis=0), users)

    def truth(self, values: Any) -> Floats:
        return np.bincount(self.check(values), minlength=len(self.units)).astype(np.float64)

    def variance(self, values: Any) -> Floats:
        return np.asarray(self.truth(values) @ self._variances)

    @cached_property
    def _estimator(self) -> Floats:
        """What one message adds to the estimate of each input: one row per input, one column per output."""
        chances = self.units / self.whole
        common = chances.mean(axis=0)
        root = np.sqrt(np.where(common > 0, common, 1.0))
        left, sizes, right = np.linalg.svd(chances / root, full_matrices=False)
        rank = int((sizes > sizes[0] * max(chances.shape) * np.finfo(np.float64).eps).sum())
        if rank < len(chances):
            raise ValueError(
                f"{type(self).__name__}: no unbiased estimate exists, because the rows depend on each other "
                f"({len(chances)} inputs, rank {rank})."
            )
        return np.asarray(left / sizes @ right / root)

    @cached_property
    def _variances(self) -> Floats:
        """Variance of each component (column) that one user of each input (row) adds."""
        chances = self.units / self.whole
        return np.asarray(chances @ (self._estimator**2).T - (chances @ self._estimator.T) ** 2)

    # --- its privacy ------------------------------------------------------------------------------------------

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        sent = self.units[:, self.units.any(axis=0)]
        if sent.shape[1] != 2 or self._largest_ratio is None:
            return None
        return Fraction(int(sent[:, 0].min()), self.whole), Fraction(int(sent[:, 0].max()), self.whole)

    def _log_of_largest_ratio(self) -> float:
        ratio = self._largest_ratio
        if ratio is None:
            return math.inf
        with precision(128):
            return max(0.0, round_up(arb(rational(ratio)).log()))

    @cached_property
    def _largest_ratio(self) -> Fraction | None:
        """Over all columns and pairs of rows; None where a zero stands against a non-zero."""
        least, most = self._columns.min(axis=0), self._columns.max(axis=0)
        if not least.all():
            return None
        ratios = most / least
        near = np.flatnonzero(ratios >= ratios.max() * NEAR)
        return max(Fraction(int(most[column]), int(least[column])) for column in near)

    def _finite_ratio(self) -> Fraction:
        if self._largest_ratio is None:
            column = int(np.flatnonzero((self.units == 0).any(axis=0) & (self.units > 0).any(axis=0))[0])
            never, sometimes = np.argmin(self.units[:, column]), np.argmax(self.units[:, column])
            raise ValueError(
                f"{type(self).__name__}: no finite ratio exists, because input {sometimes} may send output {column} "
                f"and input {never} never does; give every input some probability there."
            )
        return self._largest_ratio

    @cached_property
    def _columns(self) -> Integers:
        """The table for questions of privacy: equal rows once, proportional columns as one, empty columns left out."""
        rows = np.unique(self.units, axis=0)
        rows = rows[:, rows.any(axis=0)]
        _, kinds = np.unique(rows // np.gcd.reduce(rows, axis=0), axis=1, return_inverse=True)
        merged = np.zeros((int(kinds.max()) + 1, len(rows)), dtype=np.int64)
        np.add.at(merged, kinds.reshape(-1), rows.T)
        return merged.T

    def variation_ratio(self) -> VariationRatio:
        """The worst case over all pairs of inputs and all others: p = q, since user 1 and the others run one table."""
        ratio = self._finite_ratio()
        if ratio == 1:
            barely = math.nextafter(1.0, math.inf)
            return VariationRatio(p=barely, beta=0.0, q=barely)
        p = above(ratio)
        beta = above(Fraction(max(variation for variation, _, _ in self._total_variations()), self.whole))
        return VariationRatio(p=p, beta=beta, q=p, q_common=above(self._common_ratio(Fraction(p))))

    def _total_variations(self) -> Iterator[tuple[int, int, int]]:
        """For each row, the largest total variation (in units) to a later row, and both numbers."""
        rows = self._columns
        for first in range(len(rows) - 1):
            excess = np.maximum(rows[first] - rows[first + 1 :], 0).sum(axis=1)
            farthest = int(np.argmax(excess))
            yield int(excess[farthest]), first, first + 1 + farthest

    def _common_ratio(self, p: Fraction) -> Fraction:
        """The least q_common for all pairs: common part min − |a−b|/(p−1) against what is spare of the others.

        With a ≥ b and least entry h in a column it is 1 + (p−1)(b−h)/((p−1)h − (a−b)), which grows in a and in b:
        the two largest entries of each column decide.
        """
        ordered = np.sort(self._columns, axis=0)
        least, second, most = (ordered[row].tolist() for row in (0, -2, -1))
        return max(
            1 + (p - 1) * (b - h) / ((p - 1) * h - (a - b)) if b > h else Fraction(1)
            for h, b, a in zip(least, second, most, strict=True)
        )

    def blankets(self) -> Sequence[HidingPair]:
        """Every pair of different rows, each kind once; their number grows with the square of the inputs."""
        self._finite_ratio()
        rows = self._columns
        if len(rows) == 1:
            return [self._pair([(self.whole, self.whole, self.whole)])]
        hiding = rows.min(axis=0)
        kinds = dict.fromkeys(either_way(merged_columns(a, b, hiding)) for a, b in combinations(rows, 2))
        return [self._pair(kind) for kind in kinds]

    def attacks(self) -> Sequence[HidingPair]:
        """The two inputs that differ most, all others holding one and the same input, or one of these two by chance."""
        rows = self._columns
        if self._largest_ratio is None or len(rows) == 1:
            return []
        _, first, second = max(self._total_variations())
        others = [*rows[:MOST_ATTACKS], (rows[first] + rows[second])]
        victim = rows[first], rows[second]
        return [self._pair(merged_columns(*victim, other), others=sum(other.tolist())) for other in others]

    def _pair(self, classes: Sequence[Triple], others: int | None = None) -> HidingPair:
        whole, crowd = self.whole, others or self.whole
        exact = [(fmpq(first, whole), fmpq(second, whole), fmpq(hiding, crowd)) for first, second, hiding in classes]
        return exact_pair(exact, symmetric=sorted(classes) == _swapped(classes))

    def probe(self) -> Array:
        """The two rows of the largest ratio in one column."""
        least = self.units.min(axis=0)
        column = int(np.argmax(self.units.max(axis=0) / np.maximum(least, 0.5)))
        return np.array([np.argmax(self.units[:, column]), np.argmin(self.units[:, column])])

    def table(self) -> OutputTable:
        rows = tuple(tuple(Fraction(unit, self.whole) for unit in row) for row in self.units.tolist())
        return OutputTable(np.arange(len(self.units)), np.arange(self.units.shape[1]), rows)


def checked_probabilities(who: str, rows: Any) -> Floats:
    """A table of at least two rows of finite non-negative numbers."""
    try:
        given = np.asarray(rows)
        numbers = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{who}: expected rows of numbers, all of one length.") from None
    if given.dtype.kind not in "iufO":
        raise TypeError(f"{who}: expected a table of numbers, got {given.dtype}.")
    if numbers.ndim != 2:
        raise ValueError(f"{who}: expected a table (rows are inputs, columns are outputs), got shape {numbers.shape}.")
    inputs, outputs = numbers.shape
    if inputs < 2 or outputs < 1:
        raise ValueError(
            f"{who}: expected at least two inputs (rows) to tell apart and one output (column), "
            f"got {inputs} and {outputs}."
        )
    bad = np.argwhere(~((numbers >= 0) & (numbers < math.inf)))
    if len(bad):
        row, column = bad[0].tolist()
        value = float(numbers[row, column])
        raise ValueError(f"{who}: input {row}, output {column}: expected a probability, got {value!r}.")
    return numbers


def _whole_units(probabilities: Floats) -> Integers:
    """Rows in proportion to the given ones, in whole units: zeros stay zero, all else at least one unit.

    Rounding down keeps equal entries of a row equal. Rows with a smaller sum than others then get what they lack at
    their largest entry, so that all sums are the same; where rows are rearrangements of each other, nothing is lacking.
    """
    units = np.empty(probabilities.shape, dtype=np.int64)
    for row, numbers in enumerate(probabilities):
        different, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        fractions = [number.as_integer_ratio() for number in different.tolist()]
        # Denominators of floats are powers of two, so that the largest is common to all.
        common = max(below for _, below in fractions)
        exact = [top * (common // below) for top, below in fractions]
        total = sum(number * count for number, count in zip(exact, counts.tolist(), strict=True))
        whole = [max(1, number * UNITS // total) if number else 0 for number in exact]
        units[row] = np.array(whole, dtype=np.int64)[places]
    sums = units.sum(axis=1)
    # Entries raised to one unit may put a sum above.
    units[np.arange(len(units)), units.argmax(axis=1)] += min(int(sums.max()), UNITS) - sums
    return units


def merged_columns(first: Integers, second: Integers, hiding: Integers) -> list[Triple]:
    """The columns with proportional entries put together, in a fixed order."""
    columns = np.stack([first, second, hiding])
    _, kinds = np.unique(columns // np.gcd.reduce(columns, axis=0), axis=1, return_inverse=True)
    merged = np.zeros((int(kinds.max()) + 1, 3), dtype=np.int64)
    np.add.at(merged, kinds.reshape(-1), columns.T)
    return sorted((a, b, h) for a, b, h in merged.tolist())


def _swapped(classes: Sequence[Triple]) -> list[Triple]:
    return sorted((second, first, hiding) for first, second, hiding in classes)


def either_way(classes: Sequence[Triple]) -> tuple[Triple, ...]:
    """The same for a pair and the pair the other way round."""
    return tuple(min(list(classes), _swapped(classes)))
