"""[VR] Figure 1: amplification of the subset mechanism by every bound."""

from __future__ import annotations

from dataclasses import replace

from shuffledp.mechanisms.frequency.subset import Subset
from shuffledp.progress import Progress
from shuffledp.reproduction import earlier_bound
from shuffledp.reproduction.sheet import Item, Judgement, Sheet


def make(progress: Progress) -> Sheet:
    sheet, saved = earlier_bound.figure(lambda local, options: Subset(local, options), None, progress, "Figure 1")
    verdicts = [
        Judgement(
            "thirty_percent",
            f"“About 30% saved” (up to, in the abstract): {earlier_bound.percent(saved.over_earlier)} over the best "
            f"earlier bound, {earlier_bound.percent(saved.over_clones)} over stronger clones.",
            max(saved.over_earlier) >= 0.295,
        ),
        Judgement(
            "subset_attack",
            f"The published number is below what an attack attains at {len(saved.below_attack)} of {len(sheet.rows)} "
            f"points, by up to {100 * max(saved.below_attack, default=0.0):.2g}%: no upper bound (VR-1).",
            not saved.below_attack,
        ),
    ]
    return replace(sheet, verdicts=verdicts)


ITEM = Item("vr-figure-1", "VR", "Figure 1", "Subset mechanism: amplification by every bound", make)
