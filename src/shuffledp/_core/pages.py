"""A page of headings, paragraphs, lists and tables, written as Markdown or HTML."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from shuffledp._core import formatting
from shuffledp._core.errors import InvalidArgument
from shuffledp._core.message_phrases import Argument
from shuffledp._core.results_and_value_objects import Row

REPORT_SUFFIXES = (".md", ".html")
PAGE_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:44rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.15rem;margin-top:2rem}"
    "table{border-collapse:collapse}th,td{text-align:left;vertical-align:top;padding:.2rem 1.5rem .2rem 0;"
    "border-bottom:1px solid #ddd}th{font-weight:600;white-space:nowrap}code{font-size:.9em;overflow-wrap:anywhere}"
    "pre{background:#f5f5f5;padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".first{font-size:1.15rem}@media print{body{margin:0;max-width:none}}"
)


class PageBlock(ABC):
    """A part of a page."""

    @abstractmethod
    def markdown(self) -> str:
        """Returns the block in Markdown."""

    @abstractmethod
    def html(self) -> str:
        """Returns the block in HTML, with escaped text."""


@dataclass(frozen=True)
class Heading(PageBlock):
    """A heading; level 1 is the page's own."""

    text: str
    level: int = 2

    def markdown(self) -> str:
        return f"{'#' * self.level} {formatting.escape_markdown(self.text)}"

    def html(self) -> str:
        return f"<h{self.level}>{_escape_html(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph(PageBlock):
    """A paragraph; ``is_lead`` marks the most important one."""

    text: str
    is_lead: bool = False

    def markdown(self) -> str:
        text = formatting.escape_markdown(self.text)
        return f"**{text}**" if self.is_lead else text

    def html(self) -> str:
        return (
            f'<p class="first">{_escape_html(self.text)}</p>' if self.is_lead else f"<p>{_escape_html(self.text)}</p>"
        )


@dataclass(frozen=True)
class ItemList(PageBlock):
    """A list of sentences."""

    texts: Sequence[str]

    def markdown(self) -> str:
        return "\n".join(f"- {formatting.escape_markdown(text)}" for text in self.texts)

    def html(self) -> str:
        return "<ul>" + "".join(f"<li>{_escape_html(text)}</li>" for text in self.texts) + "</ul>"


@dataclass(frozen=True)
class FactTable(PageBlock):
    """A table of labels and texts."""

    rows: Sequence[Row]

    def markdown(self) -> str:
        return format_table(("", ""), self.rows)

    def html(self) -> str:
        rows = (f"<tr><th>{_escape_html(name)}</th><td>{_escape_html(text)}</td></tr>" for name, text in self.rows)
        return f"<table><tbody>{''.join(rows)}</tbody></table>"


@dataclass(frozen=True)
class CommandBlock(PageBlock):
    """A command line, verbatim."""

    text: str

    def markdown(self) -> str:
        # The fence must be longer than any run of backticks in the text.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
        return f"{fence}sh\n{formatting.escape_terminal(self.text)}\n{fence}"

    def html(self) -> str:
        return f"<pre><code>{_escape_html(self.text)}</code></pre>"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table with escaped cells."""
    lines = ["| " + " | ".join(map(formatting.escape_markdown, cells)) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "| " + " | ".join(["---"] * len(head)) + " |", *lines[1:]])


def format_markdown(blocks: Sequence[PageBlock]) -> str:
    """Returns the page in Markdown."""
    return "\n\n".join(block.markdown() for block in blocks) + "\n"


def format_html(title: str, blocks: Sequence[PageBlock]) -> str:
    """Returns the page as one HTML file that loads nothing."""
    body = "\n".join(block.html() for block in blocks)
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head = f"<head>{meta}<title>{_escape_html(title)}</title><style>{PAGE_STYLE}</style></head>"
    return f'<!doctype html>\n<html lang="en">{head}\n<body>\n{body}\n</body></html>\n'


def check_report_path(who: str, path: Path | None) -> None:
    """Raises ValueError if the page could not be written to ``path``; call it before anything is computed."""
    if path is None:
        return
    if path.suffix.lower() not in REPORT_SUFFIXES:
        raise InvalidArgument(
            who,
            f"must end in {' or '.join(REPORT_SUFFIXES)}",
            got=repr(str(path)),
            parameter=Argument("path", command_line="--report"),
        )
    if path.is_dir() or not path.absolute().parent.is_dir():
        reason = "it is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise ValueError(f"{who}: could not write the report to {path}: {reason}.")


def write_page(who: str, path: Path, title: str, blocks: Sequence[PageBlock]) -> None:
    """Writes the page in the format of the file's ending."""
    check_report_path(who, path)
    text = format_html(title, blocks) if path.suffix.lower() == ".html" else format_markdown(blocks)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{who}: could not write the report to {path}: {error.strerror}.") from None


def _escape_html(text: str) -> str:
    return escape(formatting.escape_terminal(text))
