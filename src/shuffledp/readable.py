"""Objects that people read: a few lines for ``print``, a small table for a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape

from shuffledp.escaping import terminal, visible

Row = tuple[str, str]
"""What something is called, and what it is."""


class Readable(ABC):
    """Says itself in a heading, rows and perhaps a remark; ``repr`` stays that of the dataclass."""

    @property
    @abstractmethod
    def heading(self) -> str:
        """One line."""

    @abstractmethod
    def summary(self) -> list[Row]:
        """What is worth saying, the most important first."""

    @property
    def remark(self) -> str:
        """What stands below the rows; empty where there is nothing."""
        return ""

    def __str__(self) -> str:
        rows = [(visible(name), terminal(text)) for name, text in self.summary()]
        width = max((len(name) for name, _ in rows), default=0)
        lines = [terminal(self.heading), *(f"  {name:<{width}}  {text}" for name, text in rows)]
        return "\n".join([*lines, terminal(self.remark)] if self.remark else lines)

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        return html_of(self.heading, self.summary(), self.remark)


def html_of(heading: str, rows: Sequence[Sequence[str]], remark: str = "", head: Sequence[str] = ()) -> str:
    """A table for a notebook, nothing of it taken for a tag; ``head`` names the columns."""
    body = "".join(_html_row(row, "td") for row in rows)
    named = f"<thead>{_html_row(head, 'th')}</thead>" if head else ""
    below = f"<p>{escape(terminal(remark))}</p>" if remark else ""
    return f"<table><caption>{escape(visible(heading))}</caption>{named}<tbody>{body}</tbody></table>{below}"


def yes_or_no(holds: bool, otherwise: str = "no") -> str:
    return "yes" if holds else otherwise


def _html_row(cells: Sequence[str], tag: str) -> str:
    left = 'style="text-align:left"'
    return "<tr>" + "".join(f"<{tag} {left}>{escape(terminal(cell))}</{tag}>" for cell in cells) + "</tr>"
