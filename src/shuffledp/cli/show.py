"""How results look: one JSON object, or a table that a person reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def as_json(document: Mapping[str, Any]) -> str:
    """One JSON object; infinities become the strings "inf" and "-inf"."""
    return json.dumps(_plain(document), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def number(value: float) -> str:
    """Seven significant digits, rounded up so that what is read is still a guarantee."""
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    shown = float(f"{value:.7g}")
    if shown < value:
        unit = 10.0 ** (math.floor(math.log10(value)) - 6)
        shown = float(f"{shown + unit:.7g}")
    return f"{shown:.7g}"


def rows(title: str, pairs: list[tuple[str, str]], warning: str = "") -> None:
    """A two-column table on stdout, with a warning below it where there is one."""
    table = Table(title=Text(title), title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in pairs:
        table.add_row(Text(name), Text(text))
    console = Console()
    console.print(table)
    if warning:
        console.print(Text(warning, style="bold red"))
