"""A short document of headings, paragraphs, lists and tables, as Markdown or as one HTML file."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from shuffledp import escaping
from shuffledp.readable import Row

ENDINGS = (".md", ".html")
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:44rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.15rem;margin-top:2rem}"
    "table{border-collapse:collapse}th,td{text-align:left;vertical-align:top;padding:.2rem 1.5rem .2rem 0;"
    "border-bottom:1px solid #ddd}th{font-weight:600;white-space:nowrap}code{font-size:.9em;overflow-wrap:anywhere}"
    "pre{background:#f5f5f5;padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".first{font-size:1.15rem}@media print{body{margin:0;max-width:none}}"
)


class Block(ABC):
    """A part of a page."""

    @abstractmethod
    def markdown(self) -> str:
        """As Markdown."""

    @abstractmethod
    def html(self) -> str:
        """As HTML, nothing of it taken for a tag."""


@dataclass(frozen=True)
class Heading(Block):
    """A heading; level 1 is the page's own."""

    text: str
    level: int = 2

    def markdown(self) -> str:
        return f"{'#' * self.level} {escaping.markdown(self.text)}"

    def html(self) -> str:
        return f"<h{self.level}>{_html(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph(Block):
    """Sentences; ``first`` are those to read if nothing else is."""

    text: str
    first: bool = False

    def markdown(self) -> str:
        text = escaping.markdown(self.text)
        return f"**{text}**" if self.first else text

    def html(self) -> str:
        return f'<p class="first">{_html(self.text)}</p>' if self.first else f"<p>{_html(self.text)}</p>"


@dataclass(frozen=True)
class Items(Block):
    """A list of sentences."""

    texts: Sequence[str]

    def markdown(self) -> str:
        return "\n".join(f"- {escaping.markdown(text)}" for text in self.texts)

    def html(self) -> str:
        return "<ul>" + "".join(f"<li>{_html(text)}</li>" for text in self.texts) + "</ul>"


@dataclass(frozen=True)
class Facts(Block):
    """What something is called, and what it is."""

    rows: Sequence[Row]

    def markdown(self) -> str:
        return table(("", ""), self.rows)

    def html(self) -> str:
        rows = (f"<tr><th>{_html(name)}</th><td>{_html(text)}</td></tr>" for name, text in self.rows)
        return f"<table><tbody>{''.join(rows)}</tbody></table>"


@dataclass(frozen=True)
class Command(Block):
    """A command line as it was typed."""

    text: str

    def markdown(self) -> str:
        # A fence is longer than whatever stands between two of them.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
        return f"{fence}sh\n{escaping.terminal(self.text)}\n{fence}"

    def html(self) -> str:
        return f"<pre><code>{_html(self.text)}</code></pre>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; nothing in its cells is taken for more than text."""
    lines = [head, *rows]
    told = ["| " + " | ".join(escaping.markdown(cell) for cell in line) + " |" for line in lines]
    return "\n".join([told[0], "| " + " | ".join(["---"] * len(head)) + " |", *told[1:]])


def markdown(blocks: Sequence[Block]) -> str:
    """The page as Markdown."""
    return "\n\n".join(block.markdown() for block in blocks) + "\n"


def html(title: str, blocks: Sequence[Block]) -> str:
    """The page as one file that loads nothing."""
    body = "\n".join(block.html() for block in blocks)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_html(title)}</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def demand_place(who: str, path: Path | None) -> None:
    """Refuse a page that could not be written, before anything is computed."""
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{who}: --report must end in {' or '.join(ENDINGS)}, got {str(path)!r}.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        reason = "it is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise ValueError(f"{who}: could not write the report to {path}: {reason}.")


def write(who: str, path: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write the page; the file's ending says which form."""
    demand_place(who, path)
    text = html(title, blocks) if path.suffix.lower() == ".html" else markdown(blocks)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{who}: could not write the report to {path}: {error.strerror}.") from None


def _html(text: str) -> str:
    return escape(escaping.terminal(text))
