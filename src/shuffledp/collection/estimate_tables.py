"""Estimates for readers: selected options, intervals and post-processing, as text, tables and files.

Numbers have as many digits as their intervals justify, and the ends of intervals are rounded outwards. Counts are
listed with the largest first; ordered quantities are listed in their order if all values are shown, and the
coordinates of a vector always are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument, ShuffledpError
from shuffledp._core.formatting import escape_line, escape_markdown, escape_sheet_cell, format_json, format_percentage
from shuffledp._core.message_phrases import Argument
from shuffledp._core.pages import format_table
from shuffledp._core.validation import Integers
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, check_memory
from shuffledp.planning.plan import Plan
from shuffledp.tasks.base import (
    ADDS_UP,
    COORDINATES,
    NUMBERS,
    POST_PROCESSING_METHODS,
    RUNNING,
    Quantity,
    Task,
    check_post_processing,
)

if TYPE_CHECKING:
    import pyarrow as pa


# --- Selected options ---


BYTES_PER_ROW = 512
"""Approximate memory for one option in a report, while a row is written to each of its files."""


@dataclass(frozen=True, eq=False)
class OptionSelection:
    """The options of a plan to report; None for ``options`` selects all of them."""

    plan: Plan
    options: Integers | None

    @classmethod
    def from_options(cls, who: str, plan: Plan, options: Any = None) -> Self:
        """Checks the selected options; raises ValueError if they do not exist or all of them do not fit into memory."""
        if options is not None:
            return cls(plan, plan.task.parse_options(who, options))
        counted = plan.mechanism.estimator.option_count
        if counted is not None:
            check_memory(who, counted, max(BYTES_PER_ROW * counted, plan.mechanism.estimator.full_estimate_bytes))
        return cls(plan, None)

    @cached_property
    def estimator(self) -> Estimator:
        """The estimator of the selected options."""
        mechanism = self.plan.mechanism
        return mechanism.estimator if self.options is None else mechanism.build_estimator(self.options)

    @property
    def count(self) -> int | None:
        """The number of selected options; None if all are selected."""
        return None if self.options is None else len(self.options)

    def indices(self) -> list[int] | None:
        """Returns the indices of the selected options for JSON; None if all are selected."""
        return None if self.options is None else self.options.tolist()

    def quantities(self, estimate: Estimate, confidence: float) -> list[Quantity]:
        """Returns the estimate with the labels and units of the task."""
        task = self.plan.task
        if self.options is None:
            return task.quantities(self.plan.mechanism, estimate, confidence)
        return task.option_quantities(self.options, estimate, confidence)

    def has_indices(self, numbers: list[int] | None) -> bool:
        """Returns True if the same options are selected."""
        return numbers is None if self.options is None else np.array_equal(self.options, numbers or [])


ROWS_SHOWN, LINES_SHOWN, QUESTIONS_SHOWN = 20, 10, 10
INTERVAL_DIGITS = 3
"""Significant digits of an interval's half width."""
ESTIMATES_FILE = "estimates.csv"


def format_estimate(value: float, low: float | None, high: float | None) -> tuple[str, str]:
    """Formats a value and its interval; the text of the interval is empty if there is none.

    >>> format_estimate(247.598, 227.694, 267.501)
    ('247.6', '227.6 … 267.6')
    >>> format_estimate(29.04331, 28.95948, 29.12714), format_estimate(12.5, None, None)
    (('29.0433', '28.9594 … 29.1272'), ('12.5', ''))
    """
    if low is None or high is None or not math.isfinite(high - low):
        ends = "" if low is None or high is None else f"{low:,.6g} … {high:,.6g}"
        return f"{value:,.6g}", ends
    places = decimals((high - low) / 2)
    step = 10.0**places
    least, most = math.floor(low * step) / step, math.ceil(high * step) / step
    return f"{value:,.{places}f}", f"{least:,.{places}f} … {most:,.{places}f}"


def decimals(half_width: float) -> int:
    """Returns the number of decimal places to write for an interval of this half width."""
    if not 0.0 < half_width < math.inf:
        return 2
    return min(12, max(0, INTERVAL_DIGITS - 1 - math.floor(math.log10(half_width))))


def select_values(quantity: Quantity, most: int) -> tuple[list[int], str]:
    """Selects at most ``most`` known values to show.

    Returns their indices, and "first", "last" or "largest" if they are a selection.
    """
    known = [place for place in range(len(quantity.labels)) if not math.isnan(quantity.value[place])]
    if len(known) <= most and quantity.shape.ordered:
        return known, ""
    if quantity.shape.kind in (NUMBERS, COORDINATES):
        return known[:most], "" if len(known) <= most else "first"
    if quantity.shape.kind == RUNNING:
        return known[-most:], "last"
    largest = sorted(known, key=lambda place: -quantity.value[place])
    return largest[:most], "" if len(known) <= most else "largest"


# --- Lines for a terminal ---


def format_lines(quantities: Sequence[Quantity], confidence: str) -> list[tuple[str, str]]:
    """Returns the first estimates of each question with their intervals, and other quantities of the same labels."""
    questions = list(dict.fromkeys(quantity.question for quantity in quantities))
    shown = questions[:QUESTIONS_SHOWN]
    lines = (
        []
        if all(one.low is None for one in quantities)
        else [("intervals", f"{confidence}, of each estimate by itself")]
    )
    for question in shown:
        first, *others = (quantity for quantity in quantities if quantity.question == question)
        beside = [one for one in others if one.labels == first.labels]
        lines += _format_question(first, beside, max(1, LINES_SHOWN // len(shown)))
    if len(questions) > len(shown):
        lines.append(("…", f"{len(questions) - len(shown):,} more questions in {ESTIMATES_FILE}"))
    return lines


def _format_question(first: Quantity, beside: Sequence[Quantity], most: int) -> list[tuple[str, str]]:
    head = f"{first.question}: " if first.question else ""
    pairs = []
    for place in select_values(first, most)[0]:
        others = [f"{one.name} {_format_line(one, place)}" for one in beside if not math.isnan(one.value[place])]
        pairs.append((escape_line(head + first.labels[place]), ", ".join([_format_line(first, place), *others])))
    left = len(first.labels) - len(pairs)
    return [*pairs, *([(f"{head}…", f"{left:,} more in {ESTIMATES_FILE}")] if left else [])]


def _format_line(quantity: Quantity, place: int) -> str:
    value, interval, *after = _format_cells(quantity, place)
    return value + (f" ({interval})" if interval else "") + (f", adjusted {after[0]}" if after else "")


def _format_cells(quantity: Quantity, place: int) -> tuple[str, ...]:
    """Returns the texts of the value, of its interval, and of the adjusted value if there is one."""
    ends = [None if one is None else float(one[place]) for one in (quantity.low, quantity.high)]
    texts = format_estimate(float(quantity.value[place]), *ends)
    if quantity.adjusted is None:
        return texts
    return (*texts, format_estimate(float(quantity.adjusted[place]), *ends)[0])


# --- Tables in Markdown ---


def format_tables(quantities: Sequence[Quantity]) -> list[str]:
    """Returns a Markdown table for each quantity, below its question if there are several.

    Other quantities of the same labels, such as the means of keys, are listed in the order of the first.
    """
    tables: list[str] = []
    for place, quantity in enumerate(quantities):
        before = quantities[place - 1] if place else None
        if before is None or (before.labels, before.question) != (quantity.labels, quantity.question):
            places, which = select_values(quantity, ROWS_SHOWN)
            tables += [f"### {escape_markdown(quantity.question)}"] if quantity.question else []
        tables.append(_format_table(quantity, places, which))
    return tables


def _format_table(quantity: Quantity, places: Sequence[int], which: str) -> str:
    known = [place for place in places if not math.isnan(quantity.value[place])]
    rows = [(quantity.labels[place], *_format_cells(quantity, place)) for place in known]
    title = f"{quantity.name} ({which} {len(places)})" if which else quantity.name
    head = ("", title, "interval") if quantity.adjusted is None else ("", title, "interval", "adjusted")
    hidden = int(np.isnan(quantity.value).sum())
    note = f"\n\n{hidden:,} more not shown, with counts not above their errors." if hidden else ""
    return format_table(head, rows) + note


# --- Confidence and post-processing ---


DEFAULT_CONFIDENCE = 0.95


@dataclass(frozen=True)
class EstimateOptions:
    """The ``confidence`` of the intervals and the kind of post-processing, ``post``; None for none."""

    confidence: float = DEFAULT_CONFIDENCE
    post: str | None = None

    @classmethod
    def from_arguments(cls, who: str, confidence: float, post: str | None, task: Task, *, whole: bool = True) -> Self:
        """Checks the arguments; raises ValueError if they are out of range or not possible for the task.

        ``whole`` is False if only some options are reported, which excludes adding up to the number of users.
        """
        level = validation.open_probability(who, "confidence", confidence, up=True)
        if post is not None:
            possible = task.post if whole else tuple(way for way in task.post if way != ADDS_UP)
            check_post_processing(who, post, possible, task.name)
        return cls(level, post)

    @property
    def confidence_text(self) -> str:
        """The confidence as text, such as 95%."""
        return format_percentage(self.confidence)

    @property
    def post_description(self) -> str:
        """The sentences about post-processing for the report; empty without post-processing."""
        if self.post is None:
            return ""
        return (
            f"Adjusted values ({self.post}) are post-processing: {POST_PROCESSING_METHODS[self.post]}. They are no "
            f"longer unbiased; standard errors and intervals are those of the unadjusted estimates. This costs no "
            f"privacy."
        )

    def quantities(self, selection: OptionSelection, estimate: Estimate) -> list[Quantity]:
        """Returns the estimate with the labels and units of the task."""
        return self.add_adjusted(selection.plan.task, selection.plan.mechanism, estimate,
                             selection.quantities(estimate, self.confidence))  # fmt: skip

    def add_adjusted(
        self, task: Task, mechanism: Any, estimate: Estimate, quantities: list[Quantity]
    ) -> list[Quantity]:
        """Adds the values after post-processing to the quantities, if it was requested."""
        if self.post is None:
            return quantities
        values = task.post_process(mechanism, estimate, quantities, self.post)
        return [
            replace(quantity, adjusted=adjusted_values)
            for quantity, adjusted_values in zip(quantities, values, strict=True)
        ]

    def to_document(self) -> dict[str, Any]:
        """Returns the fields that differ from their defaults, for JSON."""
        values = {"confidence": self.confidence, "post": self.post}
        return {name: value for name, value in values.items() if value != getattr(DEFAULT_ESTIMATE_OPTIONS, name)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Restores the result of ``to_document``."""
        return cls(**{name: document[name] for name in ("confidence", "post") if name in document})


DEFAULT_ESTIMATE_OPTIONS = EstimateOptions()


# --- Tables and files ---


ESTIMATE_SUFFIXES = (".csv", ".parquet", ".json")
TEXT_COLUMNS = ("question", "quantity", "label")


def build_rows(quantities: Sequence[Quantity], confidence: float) -> list[dict[str, Any]]:
    """Returns one row per estimate, in the order of the domain; with its question if there are several."""
    return [
        row
        for quantity in quantities
        for row in _build_quantity_rows(quantity, confidence, list_column_names(quantities))
    ]


def list_column_names(quantities: Sequence[Quantity]) -> tuple[str, ...]:
    """Returns the column names; question and adjusted values only if there are any."""
    question = ("question",) if any(quantity.question for quantity in quantities) else ()
    adjusted = ("adjusted",) if any(quantity.adjusted is not None for quantity in quantities) else ()
    return (*question, "quantity", "label", "estimate", "standard_error", "low", "high", "confidence", *adjusted)


def _build_quantity_rows(quantity: Quantity, confidence: float, names: tuple[str, ...]) -> list[dict[str, Any]]:
    arrays = {
        "estimate": quantity.value, "standard_error": quantity.standard_error, "low": quantity.low,
        "high": quantity.high, "adjusted": quantity.adjusted,
    }  # fmt: skip
    rows = []
    for place, label in enumerate(quantity.labels):
        numbers = {name: None if array is None else _to_json_number(array[place]) for name, array in arrays.items()}
        cells: dict[str, Any] = {**numbers, "question": quantity.question, "quantity": quantity.name, "label": label}
        cells["confidence"] = None if quantity.low is None else confidence
        rows.append({name: cells[name] for name in names})
    return rows


def _to_json_number(number: float) -> float | None:
    """Converts a number for a file; NaN becomes None."""
    return None if math.isnan(number) else float(number)


def build_arrow_table(quantities: Sequence[Quantity], confidence: float) -> pa.Table:
    """Returns the estimates as an Arrow table."""
    import pyarrow as pa

    names = list_column_names(quantities)
    schema = pa.schema([(name, pa.string() if name in TEXT_COLUMNS else pa.float64()) for name in names])
    return pa.Table.from_pylist(build_rows(quantities, confidence), schema=schema)


def build_data_frame(quantities: Sequence[Quantity], confidence: float) -> Any:
    """Returns the estimates as a pandas data frame; missing numbers are NaN."""
    try:
        pd = import_module("pandas")
    except ImportError:
        raise ShuffledpError("to_frame: pandas is not installed; install it, or take to_arrow().") from None
    names = list_column_names(quantities)
    frame = pd.DataFrame(build_rows(quantities, confidence), columns=list(names))
    return frame.astype({name: "float64" for name in names if name not in TEXT_COLUMNS})


def check_output_path(who: str, path: Path | None) -> None:
    """Raises ValueError before any work if the table cannot be written to this path."""
    if path is None:
        return
    if path.suffix.lower() not in ESTIMATE_SUFFIXES:
        raise InvalidArgument(
            who,
            f"must end in {', '.join(ESTIMATE_SUFFIXES[:-1])} or {ESTIMATE_SUFFIXES[-1]}",
            got=repr(str(path)),
            parameter=Argument("path", command_line="--results"),
        )
    if path.is_dir():
        raise ValueError(f"{who}: could not write the results to {path}: it is a directory.")
    if not path.parent.is_dir():
        raise ValueError(f"{who}: could not write the results to {path}: there is no directory {path.parent}.")


def save(quantities: Sequence[Quantity], confidence: float, path: Path) -> None:
    """Writes the estimates in the format that the file's suffix names."""
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    suffix = path.suffix.lower()
    if suffix == ".json":
        document = {"estimates": build_rows(quantities, confidence)}
        path.write_text(format_json(document, indent=1) + "\n", encoding="utf-8")
    elif suffix == ".csv":
        csv.write_csv(_escape_formulas(build_arrow_table(quantities, confidence)), path)
    else:
        pq.write_table(build_arrow_table(quantities, confidence), path)


def _escape_formulas(table: pa.Table) -> pa.Table:
    """Escapes texts that a spreadsheet would evaluate as formulas."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if name in TEXT_COLUMNS:
            cells = [None if text is None else escape_sheet_cell(text) for text in table.column(name).to_pylist()]
            table = table.set_column(place, name, pa.array(cells, pa.string()))
    return table


def write_estimates(quantities: Sequence[Quantity], confidence: float, directory: Path) -> None:
    """Writes estimates.csv, estimates.parquet and estimates.json."""
    for ending in ESTIMATE_SUFFIXES:
        save(quantities, confidence, directory / f"estimates{ending}")
