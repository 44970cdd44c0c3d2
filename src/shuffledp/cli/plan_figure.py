"""Error against bits: what a shorter message costs."""

from __future__ import annotations

from pathlib import Path

from shuffledp.planner.ranking import Ranking
from shuffledp.planner.trial import ONLY_SHUFFLER, PSEUDORANDOM, SHUFFLER

COLOURS = {SHUFFLER: "#20639b", ONLY_SHUFFLER: "#c1440e", PSEUDORANDOM: "#3c8d40"}


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
                label=f"rests on {group}",
                zorder=3,
            )
    _label(ranking, axes)
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
    axes.set_title(
        f"{goal.task.name}: {goal.users:,} users, ε = {goal.target.epsilon:g}, δ = {goal.target.delta:g}"
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=130)


def _label(ranking: Ranking, axes: object) -> None:
    """Names beside the points; those of points that lie together on one line each, so that all can be read."""
    from math import log10

    places: dict[tuple[int, int], list[str]] = {}
    where: dict[tuple[int, int], tuple[float, float]] = {}
    for offer in ranking.offers:
        cell = (round(6 * log10(offer.bits)), round(12 * log10(offer.standard_error)))
        places.setdefault(cell, []).append(offer.name)
        where.setdefault(cell, (offer.bits, offer.standard_error))
    for cell, names in places.items():
        axes.annotate(  # type: ignore[attr-defined]
            "\n".join(names), where[cell], xytext=(6, 0), textcoords="offset points", va="center", fontsize="small"
        )
