"""Mechanism from a user-defined table of probabilities."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from shuffledp._core.types import Floats
from shuffledp.mechanisms.base.table_law import UnitTable, check_probabilities
from shuffledp.mechanisms.custom.table_mechanism import TableMechanism

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
