"""Reproduction of the papers' tables and figures: the list of items, and the files written for each.

Part of a checkout, not of the installed package; run it with ``./run reproduce``.
"""

from collections.abc import Sequence
from pathlib import Path

from research.reproduction import f_dp, lossless_compression, metric_dp, variation_ratio_figures, variation_ratio_tables
from research.reproduction.sheets_and_charts import (
    ClaimVerdict as ClaimVerdict,
    ReproducedItem as ReproducedItem,
    Sheet as Sheet,
    draw_charts,
)
from shuffledp._core.results_and_value_objects import Progress

ITEMS: tuple[ReproducedItem, ...] = (
    variation_ratio_tables.TABLES_1_5_6,
    variation_ratio_tables.TABLE_2,
    variation_ratio_tables.TABLE_3,
    variation_ratio_tables.TABLE_4,
    variation_ratio_figures.FIGURE_1,
    variation_ratio_figures.FIGURE_2,
    variation_ratio_figures.FIGURE_3,
    variation_ratio_figures.FIGURE_4,
    variation_ratio_figures.FIGURE_5,
    metric_dp.FIGURE_13,
    metric_dp.SOLVER,
    lossless_compression.FIGURE_2,
    lossless_compression.COMMUNICATION,
    f_dp.FIGURE_4,
    f_dp.SHUFFLING,
    f_dp.INITIALISATION,
)
"""All items, in the order of the papers."""


def find_items(names: Sequence[str]) -> list[ReproducedItem]:
    """Returns the items of these names, each once; raises ValueError for an unknown name."""
    known = {item.name: item for item in ITEMS}
    for name in names:
        if name not in known:
            raise ValueError(f"reproduce: an item must be one of {', '.join(known)}, got {name!r}.")
    return [known[name] for name in dict.fromkeys(names)]


def reproduce(item: ReproducedItem, folder: Path, progress: Progress) -> Sheet:
    """Computes one item and writes its CSV file and figure into a folder."""
    sheet = item.make(progress)
    sheet.save(folder / f"{item.name}.csv")
    draw_charts(sheet.charts, f"[{item.paper}] {item.reference}: {item.title}", folder / f"{item.name}.png")
    return sheet
