"""What a reproduction makes: a table, what is drawn of it, and a verdict for each claim."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.progress import Progress

PRINTED, PUBLISHED, SOUND, ATTACK = COLUMNS = ("printed", "published", "sound", "attack")
"""As printed; as the published formula gives; what is proved; what an attack attains."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Judgement:
    """One claim of a paper, and what came out."""

    key: str
    """Where it is not reproduced, the name of the test that computes both sides, without ``test_``."""
    said: str
    reproduced: bool

    @property
    def word(self) -> str:
        return "reproduced" if self.reproduced else "not reproduced"


@dataclass(frozen=True)
class Chart:
    """One pair of axes: lines by name, or dots for named rows where ``rows`` says which."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Points]
    rows: Sequence[str] = ()
    log: str = ""
    """Which axes are logarithmic: "x", "y" or "xy"."""


@dataclass(frozen=True)
class Sheet:
    """The outcome of one item."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    verdicts: Sequence[Judgement]
    panels: Sequence[Chart]

    def save(self, path: Path) -> None:
        """As CSV; numbers hold every digit, what does not apply is empty."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows([_cell(value) for value in row] for row in self.rows)


@dataclass(frozen=True)
class Item:
    """One table or figure of a paper.

    ``name``: how it is asked for. ``paper``: the key of docs/errata.md. ``where``: in the paper. ``title``: of what.
    """

    name: str
    paper: str
    where: str
    title: str
    make: Callable[[Progress], Sheet]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)
