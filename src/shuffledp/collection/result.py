"""Estimates as a table with labels, a row each in the order of the domain: in memory, as CSV, Parquet and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.document import json_text
from shuffledp.errors import ShuffledpError
from shuffledp.escaping import sheet_cell
from shuffledp.tasks.quantity import Quantity

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".csv", ".parquet", ".json")
TEXTS = ("question", "quantity", "label")


def rows_of(quantities: Sequence[Quantity], confidence: float) -> list[dict[str, Any]]:
    """One row per estimate; the question that it answers is in it where there are several."""
    return [row for quantity in quantities for row in _rows(quantity, confidence, names_of(quantities))]


def names_of(quantities: Sequence[Quantity]) -> tuple[str, ...]:
    """The columns: a question and adjusted values only where there are any."""
    asked = ("question",) if any(quantity.question for quantity in quantities) else ()
    after = ("adjusted",) if any(quantity.adjusted is not None for quantity in quantities) else ()
    return (*asked, "quantity", "label", "estimate", "standard_error", "low", "high", "confidence", *after)


def _rows(quantity: Quantity, confidence: float, names: tuple[str, ...]) -> list[dict[str, Any]]:
    arrays = {
        "estimate": quantity.value, "standard_error": quantity.standard_error, "low": quantity.low,
        "high": quantity.high, "adjusted": quantity.adjusted,
    }  # fmt: skip
    rows = []
    for place, label in enumerate(quantity.labels):
        numbers = {name: None if array is None else _number(array[place]) for name, array in arrays.items()}
        told: dict[str, Any] = {**numbers, "question": quantity.question, "quantity": quantity.name, "label": label}
        told["confidence"] = None if quantity.low is None else confidence
        rows.append({name: told[name] for name in names})
    return rows


def _number(number: float) -> float | None:
    """As it stands in a file; None where nothing is known."""
    return None if math.isnan(number) else float(number)


def table_of(quantities: Sequence[Quantity], confidence: float) -> pa.Table:
    """As a table of Arrow."""
    import pyarrow as pa

    names = names_of(quantities)
    schema = pa.schema([(name, pa.string() if name in TEXTS else pa.float64()) for name in names])
    return pa.Table.from_pylist(rows_of(quantities, confidence), schema=schema)


def frame_of(quantities: Sequence[Quantity], confidence: float) -> Any:
    """As a data frame of pandas, whose missing numbers are NaN."""
    try:
        pd = import_module("pandas")
    except ImportError:
        raise ShuffledpError("to_frame: pandas is not installed; install it, or take to_arrow().") from None
    names = names_of(quantities)
    frame = pd.DataFrame(rows_of(quantities, confidence), columns=list(names))
    return frame.astype({name: "float64" for name in names if name not in TEXTS})


def demand_place(who: str, path: Path | None) -> None:
    """Stop before any work where a table could not be written."""
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{who}: --results must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {str(path)!r}.")
    if path.is_dir():
        raise ValueError(f"{who}: could not write the results to {path}: it is a directory.")
    if not path.parent.is_dir():
        raise ValueError(f"{who}: could not write the results to {path}: there is no directory {path.parent}.")


def save(quantities: Sequence[Quantity], confidence: float, path: Path) -> None:
    """As the file's ending says."""
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    ending = path.suffix.lower()
    if ending == ".json":
        told = {"estimates": rows_of(quantities, confidence)}
        path.write_text(json_text(told, indent=1) + "\n", encoding="utf-8")
    elif ending == ".csv":
        csv.write_csv(_sheet_of(table_of(quantities, confidence)), path)
    else:
        pq.write_table(table_of(quantities, confidence), path)


def _sheet_of(table: pa.Table) -> pa.Table:
    """The same with texts that a spreadsheet does not compute."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if name in TEXTS:
            cells = [None if text is None else sheet_cell(text) for text in table.column(name).to_pylist()]
            table = table.set_column(place, name, pa.array(cells, pa.string()))
    return table


def write_estimates(quantities: Sequence[Quantity], confidence: float, directory: Path) -> None:
    """estimates.csv, estimates.parquet and estimates.json."""
    for ending in ENDINGS:
        save(quantities, confidence, directory / f"estimates{ending}")
