"""Error against bits: what a shorter message costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp import figure as figures
from shuffledp.document import typed
from shuffledp.planner.ranking import Ranking
from shuffledp.planner.trial import ITS_NOISE, LOCAL, ONLY_SHUFFLER, PSEUDORANDOM

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

LOOKS = {
    LOCAL: ("a message keeps its local ε even from the shuffler", "o", figures.COLOURS[0]),
    ONLY_SHUFFLER: ("messages rest on the shuffler alone", "D", figures.COLOURS[1]),
    ITS_NOISE: ("the shuffler draws the noise", "^", figures.COLOURS[2]),
    PSEUDORANDOM: ("keeps its local ε if seeds are pseudorandom", "s", figures.COLOURS[3]),
}
SIZE, RADIUS = 36, 5
"""A point's area and reach, in points."""
PLACES = tuple((side * 8, 11 * row) for row in (0, 1, -1, 2, -2, 3, -3, 4, -4) for side in (1, -1))
"""Where a name may stand beside its point, the best first, in points."""


def draw(ranking: Ranking, path: Path | None) -> Figure:
    """One point for each mechanism, and the curator's error as a line; to a file where one is named."""
    goal = ranking.goal
    with figures.look():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.5, 5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for group, (words, marker, colour) in LOOKS.items():
            own = [offer for offer in ranking.offers if offer.rests_on == group]
            if own:
                bits, errors = [offer.bits for offer in own], [offer.standard_error for offer in own]
                axes.scatter(bits, errors, SIZE, color=colour, marker=marker, label=words, zorder=3)
        central = goal.yardstick
        axes.axhline(central.standard_error, color="0.3", linestyle="--", linewidth=1)
        words = f"trusted curator, {central.noise} noise"
        place = (0.99, central.standard_error)
        axes.annotate(words, place, xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize="small")
        axes.set(xscale="log", yscale="log", xlabel="bits a user", ylabel=f"standard error ({goal.task.unit})")
        axes.margins(x=0.18, y=0.12)
        target = f"ε = {typed(goal.target.epsilon)}, δ = {figures.scientific(goal.target.delta)}"
        rounds = "" if goal.rounds == 1 else f", {goal.rounds:,} rounds"
        axes.set_title(f"{goal.task.name}: {goal.users:,} users, {target}{rounds}", fontsize=10)
        axes.grid(visible=True, which="major")
        figure.legend(loc="outside lower center", ncols=1)
        _label(ranking, axes)
        if path is not None:
            figures.save("plan", figure, path)
    return figure


def _label(ranking: Ranking, axes: Any) -> None:
    """Names beside the points, at the first place inside where they cover no point and no other name."""
    axes.figure.draw_without_rendering()
    frame = axes.get_window_extent()
    taken = [_around(axes, offer.bits, offer.standard_error) for offer in ranking.offers]
    for own, offer in enumerate(ranking.offers):
        for across, along in PLACES:
            text = axes.annotate(
                offer.name,
                (offer.bits, offer.standard_error),
                xytext=(across, along),
                textcoords="offset points",
                ha="left" if across > 0 else "right",
                va="center",
                fontsize="small",
                zorder=2,
                # A name that stands apart is tied to its point.
                arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "0.5", "shrinkB": 3} if along else None,
            )
            # The text alone, without its line.
            text.update_positions(axes.figure.canvas.get_renderer())
            box = super(type(text), text).get_window_extent()
            others = [other for place, other in enumerate(taken) if place != own]
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in others):
                taken.append(box)
                break
            text.remove()


def _around(axes: Any, x: float, y: float) -> Bbox:
    """The box of a point."""
    from matplotlib.transforms import Bbox

    (across, along), reach = axes.transData.transform((x, y)), RADIUS * axes.figure.dpi / 72
    return Bbox.from_extents(across - reach, along - reach, across + reach, along + reach)
