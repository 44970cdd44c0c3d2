"""Estimates with their confidence intervals as one picture, each quantity drawn as it is read best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp import figure as figures
from shuffledp.collection.cell_panel import CellPanel
from shuffledp.collection.lettering import SPELLED, Lettering
from shuffledp.collection.manner import Manner
from shuffledp.collection.panel import (
    MOST_BARS,
    MOST_LETTERED,
    MOST_STEPS,
    BandPanel,
    BarPanel,
    DotPanel,
    Panel,
    StepPanel,
)
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import BINS, CELLS, COORDINATES, COUNTS, RUNNING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PANELS = 12
"""A picture must stay one that can be drawn: of many quantities the first ones."""
ONE_WIDE, TWO_WIDE, ABOVE, EDGE = 6.8, 11.0, 0.95, 0.09
"""Inches."""
DOTS_PER_INCH = 200
CAPTION = 72
"""Letters of a caption."""


def draw(quantities: Sequence[Quantity], path: Path | None, manner: Manner, caption: str) -> Figure:
    """One panel for each quantity, a caption above and what must be said below; to a file where one is named."""
    figures.demand_matplotlib()
    import matplotlib as mpl

    shown = list(quantities[:MOST_PANELS])
    texts = [text for one in shown for text in (*one.labels[:MOST_LETTERED], one.question)]
    letters = Lettering.of([*texts, caption])
    with figures.look(), mpl.rc_context({"font.family": list(letters.families)}):
        picture = _Picture.of(shown, letters, manner, caption)
        picture.draw(len(quantities) - len(shown))
        if path is not None:
            picture.figure.savefig(path, dpi=DOTS_PER_INCH)
    return picture.figure


@dataclass(frozen=True)
class _Picture:
    figure: Figure
    panels: list[list[Panel]]
    """In rows."""
    letters: Lettering
    manner: Manner

    @classmethod
    def of(cls, quantities: Sequence[Quantity], letters: Lettering, manner: Manner, caption: str) -> _Picture:
        """The panels in their places, still empty."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        rows = list(_rows(list(panels(quantities, letters, manner.sure))))
        wide = max(map(len, rows))
        heights = [max(one.height for one in row) for row in rows]
        size = (ONE_WIDE if wide == 1 else TWO_WIDE, ABOVE + sum(heights))
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=EDGE, h_pad=EDGE, wspace=0.03, hspace=0.03))
        FigureCanvasAgg(figure)
        title, _, facts = caption.partition("\n")
        figure.suptitle(
            f"{letters.shown(title, CAPTION)}\n{facts}", x=0.012, ha="left", fontsize=11, linespacing=1.4, color="0.15"
        )
        grid = figure.add_gridspec(len(rows), wide, height_ratios=heights)
        for place, row in enumerate(rows):
            for column, one in enumerate(row):
                across = slice(column, wide) if column == len(row) - 1 and len(row) < wide else column
                one.stand(figure.add_subplot(grid[place, across]))
        return cls(figure, rows, letters, manner)

    def draw(self, left_out: int) -> None:
        """Every panel, and then what can be said only when all is in its place."""
        every = [one for row in self.panels for one in row]
        for one in every:
            one.draw()
        self.figure.canvas.draw()
        notes = list(dict.fromkeys(note for one in every for note in one.notes()))
        if self.manner.post is not None and any(one.quantity.adjusted is not None for one in every):
            what = f"adjusted ({self.manner.post}), post-processing without intervals of its own"
            dashes = [isinstance(one, BandPanel) for one in every if one.quantity.adjusted is not None]
            marks = "Dashes" if all(dashes) else "Diamonds and dashes" if any(dashes) else "Diamonds"
            notes.append(f"{marks}: {what}.")
        if left_out:
            notes.append(f"{left_out:,} more quantities are in the tables.")
        if self.letters.spelled:
            notes.append(SPELLED)
        if notes:
            self.figure.supxlabel("\n".join(notes), x=0.012, ha="left", fontsize=8, color="0.4")


def _rows(every: Sequence[Panel]) -> Iterator[list[Panel]]:
    """Side by side what is of the same question and kind; a histogram has its running count below it."""
    for _, group in groupby(every, key=lambda one: one.quantity.shape.kind in (BINS, RUNNING)):
        own = list(group)
        step = 1 if own[0].quantity.shape.kind in (BINS, RUNNING) or len(own) == 1 else 2
        yield from (own[start : start + step] for start in range(0, len(own), step))


def panels(quantities: Sequence[Quantity], letters: Lettering, sure: str) -> Iterator[Panel]:
    """The panel that fits each; means of keys stand in the order of their counts."""
    before: DotPanel | None = None
    for quantity in quantities:
        one = _kind(quantity)(quantity, letters, sure)
        if isinstance(one, DotPanel):
            if before is not None and before.is_beside(one):
                one.order = before.order
            before = one
        yield one


def _kind(quantity: Quantity) -> type[Panel]:
    shape = quantity.shape
    if shape.kind == CELLS or shape.sizes is not None:
        return CellPanel
    if shape.kind == BINS:
        return StepPanel
    if shape.kind == RUNNING or (shape.kind == COORDINATES and len(quantity.labels) > MOST_BARS):
        return BandPanel
    if shape.kind == COUNTS and shape.ordered and len(quantity.labels) > 2:
        return StepPanel if len(quantity.labels) <= MOST_STEPS else BandPanel
    return BarPanel if shape.kind == COUNTS else DotPanel
