"""Error against bits: what a shorter message costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shuffledp.planner.ranking import Ranking
from shuffledp.planner.trial import ONLY_SHUFFLER, PSEUDORANDOM, SHUFFLER

SUFFIXES = (".png", ".pdf", ".svg")
COLOURS = {SHUFFLER: "#20639b", ONLY_SHUFFLER: "#c1440e", PSEUDORANDOM: "#3c8d40"}

WORDS = {
    SHUFFLER: "a message keeps its local ε even from the shuffler",
    ONLY_SHUFFLER: "messages rest on the shuffler only",
    PSEUDORANDOM: "keeps its local ε if seeds are pseudorandom",
}
PLACES = tuple((side * 7, 12 * row) for row in (0, 1, -1, 2, -2, 3, -3, 4, -4) for side in (1, -1))
"""Where a name may stand beside its point, the best first, in points."""


def draw(ranking: Ranking, path: Path) -> None:
    """One point for each mechanism, and the curator's error as a line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    goal = ranking.goal
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for group, colour in COLOURS.items():
        own = [offer for offer in ranking.offers if offer.rests_on == group]
        if own:
            axes.scatter(
                [offer.bits for offer in own],
                [offer.standard_error for offer in own],
                color=colour,
                label=WORDS[group],
                zorder=3,
            )
    central = goal.yardstick
    axes.axhline(central.standard_error, color="black", linestyle="--", linewidth=1)
    axes.annotate(
        f"trusted curator, {central.noise} noise",
        (0.99, central.standard_error),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize="small",
    )
    axes.set(xscale="log", yscale="log", xlabel="bits a user", ylabel=f"standard error ({goal.task.unit})")
    axes.margins(x=0.15, y=0.1)
    axes.set_title(f"{goal.task.name}: {goal.users:,} users, ε = {goal.target.epsilon:g}, δ = {goal.target.delta:g}")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")
    _label(ranking, axes)
    figure.savefig(path, dpi=130)


def _label(ranking: Ranking, axes: Any) -> None:
    """Names beside the points, at the first place where they cover no other name."""
    axes.figure.draw_without_rendering()
    taken: list[Any] = []
    for offer in ranking.offers:
        for across, along in PLACES:
            text = axes.annotate(
                offer.name,
                (offer.bits, offer.standard_error),
                xytext=(across, along),
                textcoords="offset points",
                ha="left" if across > 0 else "right",
                va="center",
                fontsize="small",
            )
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()
