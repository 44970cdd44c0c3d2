"""Tables and figures of the papers made again: the one list of items, and how they are written."""

from collections.abc import Sequence
from pathlib import Path

from shuffledp.progress import Progress
from shuffledp.reproduction import (
    fdp_figure_4,
    fdp_initialisation,
    fdp_shuffling,
    lc_communication,
    lc_figure_2,
    mdp_figure_13,
    mdp_solver,
    vr_figure_1,
    vr_figure_2,
    vr_figure_3,
    vr_figure_4,
    vr_figure_5,
    vr_table_1,
    vr_table_2,
    vr_table_3,
    vr_table_4,
)
from shuffledp.reproduction.drawing import draw
from shuffledp.reproduction.sheet import Item as Item, Judgement as Judgement, Sheet as Sheet

ITEMS: tuple[Item, ...] = (
    vr_table_1.ITEM,
    vr_table_2.ITEM,
    vr_table_3.ITEM,
    vr_table_4.ITEM,
    vr_figure_1.ITEM,
    vr_figure_2.ITEM,
    vr_figure_3.ITEM,
    vr_figure_4.ITEM,
    vr_figure_5.ITEM,
    mdp_figure_13.ITEM,
    mdp_solver.ITEM,
    lc_figure_2.ITEM,
    lc_communication.ITEM,
    fdp_figure_4.ITEM,
    fdp_shuffling.ITEM,
    fdp_initialisation.ITEM,
)
"""Every item that can be made, in the order of the papers."""


def items_of(names: Sequence[str]) -> list[Item]:
    """The items of these names, or a sentence.

    >>> from shuffledp.reproduction import items_of
    >>> [item.title for item in items_of(["vr-table-4"])]
    ['Any ε0-LDP randomizer: ε and running time']
    """
    known = {item.name: item for item in ITEMS}
    for name in names:
        if name not in known:
            raise ValueError(f"reproduce: an item must be one of {', '.join(known)}, got {name!r}.")
    return [known[name] for name in dict.fromkeys(names)]


def reproduce(item: Item, folder: Path, progress: Progress) -> Sheet:
    """Make one item, and write its CSV and its figure into a folder."""
    sheet = item.make(progress)
    sheet.save(folder / f"{item.name}.csv")
    draw(sheet.panels, f"[{item.paper}] {item.where}: {item.title}", folder / f"{item.name}.png")
    return sheet
