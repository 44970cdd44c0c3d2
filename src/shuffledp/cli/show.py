"""How results look: one JSON object, or a table that a person reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path

import typer
from rich import console as rich_console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from shuffledp.document import BEYOND, GUARANTEE_DIGITS, decimal_of
from shuffledp.escaping import terminal
from shuffledp.statement.citation import sources_of


class Console(rich_console.Console):
    """A console that sends no control characters of texts to the terminal: they are shown as escapes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=terminal(segment.text))


def say(text: str = "", *, err: bool = False) -> None:
    """Lines on stdout, or stderr, likewise."""
    typer.echo(terminal(text), err=err)


def upper(value: float, digits: int = GUARANTEE_DIGITS) -> str:
    """A guarantee in few digits, rounded up so that what is read still holds."""
    return _rounded(value, digits, ROUND_CEILING)


def epsilon(value: float, digits: int = GUARANTEE_DIGITS) -> str:
    """An ε alike; where no number was found, what is known of it."""
    return BEYOND if math.isinf(value) else upper(value, digits)


def epsilon_is(value: float) -> str:
    """The same as the end of a sentence."""
    return f"ε {BEYOND}" if math.isinf(value) else f"ε = {upper(value)}"


def slack(value: float) -> str:
    """How far a value may be above the exact one, rounded up."""
    return "unknown" if math.isinf(value) else upper(value, 2)


def lower(value: float, digits: int = GUARANTEE_DIGITS) -> str:
    """What an attack attains, rounded down."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, direction: str) -> str:
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    exact = decimal_of(value, digits)
    shown = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=direction)
    return f"{float(shown):.{digits}g}"


def note(sentence: str) -> None:
    """A remark beside the result, on stderr."""
    Console(stderr=True, soft_wrap=True).print(Text(sentence))


def written(what: str, path: Path | None) -> None:
    """Where a file is, if one was asked for."""
    if path is not None:
        note(f"The {what} was written to {path}.")


def papers(theorem: str) -> list[tuple[str, str]]:
    """A row with the full citation of every key in a theorem's name, where it has any."""
    found = sources_of(theorem)
    return [("papers", "\n".join(found))] if found else []


def rows(title: str, pairs: list[tuple[str, str]], warning: str = "") -> None:
    """A two-column table on stdout, with a warning below it where there is one."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in pairs:
        # Escapes are wider than what they stand for, and columns are as wide as their texts.
        table.add_row(Text(terminal(name)), Text(terminal(text)))
    console = Console()
    # Not the table's own title, which would be broken to the table's width.
    console.print(Text(title, style="italic"))
    console.print(table)
    if warning:
        console.print(Text(warning, style="bold red"))


def conditions(sentences: Sequence[str], head: str = "It holds if") -> None:
    """Below a table: what must be so for it to hold."""
    if not sentences:
        return
    table = Table(show_header=False, show_edge=False, box=None, padding=(0, 1, 0, 0))
    for sentence in sentences:
        table.add_row(Text("-"), Text(terminal(sentence)))
    console = Console()
    console.print(Text(head, style="italic"))
    console.print(table)


def crowd(honest: int, messages: int) -> str:
    """The users, and where each sends several messages, how many of these hide each other."""
    return f"{honest:,}" if honest == messages else f"{honest:,}, of whose messages {messages:,} hide each other"
