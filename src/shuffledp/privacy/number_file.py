"""Numbers from a CSV file without a header, every cell validated."""

from __future__ import annotations

import csv
from os import PathLike


def read_numbers(who: str, path: str | PathLike[str]) -> list[list[float]]:
    """The cells of a CSV file without a header; an empty cell is refused as a missing entry."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = [cells for cells in csv.reader(file) if any(map(str.strip, cells))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"{who}: cannot read {path}: {reason}.") from None
    if not lines:
        raise ValueError(f"{who}: expected numbers in {path}, got an empty file.")
    return [[_cell(who, text, row, column) for column, text in enumerate(cells)] for row, cells in enumerate(lines)]


def _cell(who: str, text: str, row: int, column: int) -> float:
    if not text.strip():
        raise ValueError(f"{who}: row {row}, column {column} is missing.")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{who}: row {row}, column {column} must be a number, got {text.strip()!r}.") from None
