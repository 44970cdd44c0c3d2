"""Bring your own randomizer as a table of probabilities."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from shuffledp.array import Floats
from shuffledp.mechanisms.parts.tabulated import Tabulated
from shuffledp.mechanisms.parts.unit_table import UnitTable, checked_probabilities

TOLERANCE = 1e-9
"""How far a row's sum may be from 1 before it is normalised."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class FromTable(Tabulated):
    """The randomizer that sends output y for input x with probability ``matrix[x][y]``.

    Each row must sum to 1 within 1e-9 and is normalised, then written in whole units of 2^-62 or a hair more (zeros
    stay zero, nothing else becomes zero): that table is run, by exact draws, and is what all numbers are about.
    ``epsilon`` is the logarithm of its largest ratio, rounded up. It is infinite where one input may send what another
    never does: the probability of that is added to δ, because any user may be the one who never does.

    ``matrix``: a row of probabilities for each input, a column for each output. A user's value is the number of a row,
    from 0, a message that of a column.

    Theorem: [VR] §4, (p, β)-variation and q-ratio: the exact maxima over all pairs of rows; q_common is the least that
    holds for all pairs and all third rows.

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
    take_it = "For a randomizer of your own: a table of probabilities."
    also_called = ("from-table",)

    def __init__(self, matrix: ArrayLike) -> None:
        numbers = checked_probabilities("FromTable", matrix)
        for row, total in enumerate(map(math.fsum, numbers)):
            if abs(total - 1) > TOLERANCE:
                raise ValueError(
                    f"FromTable: the probabilities of input {row} must sum to 1 within {TOLERANCE:g}, got {total!r}."
                )
        numbers.setflags(write=False)
        object.__setattr__(self, "matrix", numbers)
        self._adopt(UnitTable.of_floats(numbers))

    def __reduce__(self) -> tuple[type[FromTable], tuple[Floats]]:
        """Only the matrix travels; made anew, it cannot be written to either."""
        return type(self), (self.matrix,)

    @classmethod
    def from_csv(cls, path: str | PathLike[str]) -> FromTable:
        """A table from a file: no header, one row per input, separated by commas; blank lines are skipped."""
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file)
                lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ValueError(f"FromTable: cannot read {path}: {reason}.") from None
        if not lines:
            raise ValueError(f"FromTable: expected a table in {path}, got an empty file.")
        return cls(_numbers(path, lines))

    @classmethod
    def examples(cls) -> Sequence[FromTable]:
        tables: list[Any] = [
            [[0.75, 0.25], [0.25, 0.75]],
            [[0.5, 0.3, 0.1, 0.1], [0.25, 0.25, 0.3, 0.2], [0.2, 0.2, 0.2, 0.4]],
            # Output 1 is never sent; outputs 0 and 3 say the same.
            [[0.1, 0.0, 0.7, 0.2], [0.2, 0.0, 0.4, 0.4]],
        ]
        return [cls(table) for table in tables]


def _numbers(path: str | PathLike[str], lines: Sequence[tuple[int, list[str]]]) -> list[list[float]]:
    """The cells as probabilities; a sentence with line and column if one is not."""
    first, expected = lines[0][0], len(lines[0][1])
    rows = []
    for line, cells in lines:
        if len(cells) != expected:
            raise ValueError(
                f"FromTable: {path}, line {line}: expected {expected} cells as in line {first}, got {len(cells)}."
            )
        rows.append(
            [_probability(f"{path}, line {line}, column {column}", text) for column, text in enumerate(cells, 1)]
        )
        total = math.fsum(rows[-1])
        if abs(total - 1) > TOLERANCE:
            raise ValueError(
                f"FromTable: {path}, line {line}: expected cells that sum to 1 within {TOLERANCE:g}, got {total!r}."
            )
    return rows


def _probability(where: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"FromTable: {where}: expected a probability, got {text.strip()!r}.")
    return number
