"""Estimates as people read them: in lines and in tables, with as many digits as their intervals tell.

Counts stand with the largest first; what has an order of its own stands in that order if all of it is shown, and the
coordinates of a vector always do. Ends of intervals are rounded outwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shuffledp.escaping import markdown, visible
from shuffledp.statement.page import table
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import COORDINATES, NUMBERS, RUNNING

ROWS_SHOWN, LINES_SHOWN, QUESTIONS_SHOWN = 20, 10, 10
DIGITS = 3
"""Of an interval's half width."""
TABLES = "estimates.csv"


def numbers(value: float, low: float | None, high: float | None) -> tuple[str, str]:
    """A value and its interval in words; the interval is empty where there is none.

    >>> numbers(247.598, 227.694, 267.501)
    ('247.6', '227.6 … 267.6')
    >>> numbers(29.04331, 28.95948, 29.12714), numbers(12.5, None, None)
    (('29.0433', '28.9594 … 29.1272'), ('12.5', ''))
    """
    if low is None or high is None or not math.isfinite(high - low):
        ends = "" if low is None or high is None else f"{low:,.6g} … {high:,.6g}"
        return f"{value:,.6g}", ends
    places = decimals((high - low) / 2)
    step = 10.0**places
    least, most = math.floor(low * step) / step, math.ceil(high * step) / step
    return f"{value:,.{places}f}", f"{least:,.{places}f} … {most:,.{places}f}"


def decimals(reach: float) -> int:
    """How many places behind the point are worth writing where this is how far an interval reaches."""
    if not 0.0 < reach < math.inf:
        return 2
    return min(12, max(0, DIGITS - 1 - math.floor(math.log10(reach))))


def chosen(quantity: Quantity, most: int) -> tuple[list[int], str]:
    """The places of what is shown, at most so many of what is known, and which of all they are where some are not."""
    known = [place for place in range(len(quantity.labels)) if not math.isnan(quantity.value[place])]
    if len(known) <= most and quantity.shape.ordered:
        return known, ""
    if quantity.shape.kind in (NUMBERS, COORDINATES):
        return known[:most], "" if len(known) <= most else "first"
    if quantity.shape.kind == RUNNING:
        return known[-most:], "last"
    largest = sorted(known, key=lambda place: -quantity.value[place])
    return largest[:most], "" if len(known) <= most else "largest"


# --- lines for a terminal -----------------------------------------------------------------------------------------


def lines(quantities: Sequence[Quantity], sure: str) -> list[tuple[str, str]]:
    """The first estimates of each question with their intervals, and what else is known of the same labels."""
    questions = list(dict.fromkeys(quantity.question for quantity in quantities))
    shown = questions[:QUESTIONS_SHOWN]
    told = [] if all(one.low is None for one in quantities) else [("intervals", f"{sure}, of each estimate by itself")]
    for question in shown:
        first, *others = (quantity for quantity in quantities if quantity.question == question)
        beside = [one for one in others if one.labels == first.labels]
        told += _of_question(first, beside, max(1, LINES_SHOWN // len(shown)))
    if len(questions) > len(shown):
        told.append(("…", f"{len(questions) - len(shown):,} more questions in {TABLES}"))
    return told


def _of_question(first: Quantity, beside: Sequence[Quantity], most: int) -> list[tuple[str, str]]:
    head = f"{first.question}: " if first.question else ""
    pairs = []
    for place in chosen(first, most)[0]:
        others = [f"{one.name} {_line(one, place)}" for one in beside if not math.isnan(one.value[place])]
        pairs.append((visible(head + first.labels[place]), ", ".join([_line(first, place), *others])))
    left = len(first.labels) - len(pairs)
    return [*pairs, *([(f"{head}…", f"{left:,} more in {TABLES}")] if left else [])]


def _line(quantity: Quantity, place: int) -> str:
    value, interval, *after = _cells(quantity, place)
    return value + (f" ({interval})" if interval else "") + (f", adjusted {after[0]}" if after else "")


def _cells(quantity: Quantity, place: int) -> tuple[str, ...]:
    """The value, its interval, and what post-processing made of it."""
    ends = [None if one is None else float(one[place]) for one in (quantity.low, quantity.high)]
    told = numbers(float(quantity.value[place]), *ends)
    if quantity.adjusted is None:
        return told
    return (*told, numbers(float(quantity.adjusted[place]), *ends)[0])


# --- tables for a page --------------------------------------------------------------------------------------------


def tables(quantities: Sequence[Quantity]) -> list[str]:
    """A table in Markdown for each quantity, below its question where there are several.

    What is known of the same labels, as the means of keys, stands in the order of the first.
    """
    told: list[str] = []
    for place, quantity in enumerate(quantities):
        before = quantities[place - 1] if place else None
        if before is None or (before.labels, before.question) != (quantity.labels, quantity.question):
            places, which = chosen(quantity, ROWS_SHOWN)
            told += [f"### {markdown(quantity.question)}"] if quantity.question else []
        told.append(_table(quantity, places, which))
    return told


def _table(quantity: Quantity, places: Sequence[int], which: str) -> str:
    known = [place for place in places if not math.isnan(quantity.value[place])]
    rows = [(quantity.labels[place], *_cells(quantity, place)) for place in known]
    title = f"{quantity.name} ({which} {len(places)})" if which else quantity.name
    head = ("", title, "interval") if quantity.adjusted is None else ("", title, "interval", "adjusted")
    untold = int(np.isnan(quantity.value).sum())
    note = f"\n\nOf {untold:,} others nothing is told: their counts are not above their errors." if untold else ""
    return table(head, rows) + note
