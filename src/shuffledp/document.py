"""Documents as text: JSON, guarantees rounded up, and tables of two columns for people."""

from __future__ import annotations

import html
import json
import math
import sys
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGE = "shuffledp"


def software_version() -> str:
    """The version of this package: as installed, else as its source says."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return str(sys.modules[PACKAGE].__dict__["__version__"])


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """One JSON object; infinities become the strings "inf" and "-inf"."""
    return json.dumps(_plain(document), ensure_ascii=False, allow_nan=False, indent=indent)


def rounded_up(value: float, digits: int = 6) -> str:
    """A guarantee in few digits that still holds."""
    if math.isinf(value):
        return "inf"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).plus(Decimal(value)):g}"


def aligned(rows: Sequence[tuple[str, str]]) -> str:
    """A line for each name and text, the texts below each other."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def html_table(rows: Sequence[tuple[str, str]]) -> str:
    """The same as a table for notebooks."""
    cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
    return f"<table>{''.join(cells)}</table>"


def lines_of(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A title, and one line for each name with its text."""
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"  {name:{width}}  {text}" for name, text in rows)])


def html_of(title: str, rows: Sequence[Sequence[str]], note: str = "", head: Sequence[str] = ()) -> str:
    """The same for a notebook, nothing of it taken for a tag; ``head`` names the columns."""
    body = "".join(_html_row(row, "td") for row in rows)
    named = f"<thead>{_html_row(head, 'th')}</thead>" if head else ""
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><caption>{html.escape(title)}</caption>{named}<tbody>{body}</tbody></table>{below}"


def _html_row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
