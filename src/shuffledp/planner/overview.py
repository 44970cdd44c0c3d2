"""A ranking as a person reads it: one row a mechanism, what the columns mean, and what was left out."""

from __future__ import annotations

from shuffledp.document import rounded_up
from shuffledp.planner.goal import Goal
from shuffledp.planner.trial import Offer

HEAD = ("mechanism", "error", "local ε", "bits", "msgs", "client", "server", "rests on")
NUMBERS = HEAD[1:-1]
"""The columns that stand to the right."""


def title(goal: Goal) -> str:
    """What was asked for."""
    rounds = "" if goal.rounds == 1 else f", {goal.rounds} rounds"
    limits = f"; {goal.limits.words()}" if goal.limits.words() else ""
    target = f"ε = {goal.target.epsilon:g}, δ = {goal.target.delta:g}"
    return f"{goal.task.name}: {goal.users:,} users, {target}{rounds}{limits}"


def cells(offer: Offer) -> list[str]:
    """The row of one mechanism, under ``HEAD``."""
    local = offer.mechanism.local_epsilon
    return [
        offer.name,
        f"{offer.standard_error:.4g}",
        "–" if local is None else f"{float(rounded_up(local, 3)):.3g}",
        f"{offer.bits:,}",
        f"{offer.messages:,}",
        _duration(offer.cost.client),
        _duration(offer.cost.server(offer.goal.users)),
        offer.rests_on,
    ]


def notes(best: Offer) -> list[str]:
    """What the columns mean, and how far the best is from a trusted curator."""
    goal, central = best.goal, best.goal.yardstick
    return [
        f"error: the standard error in {goal.task.unit}, for {goal.task.data} (root mean square over all estimates).",
        f"A trusted curator's error ({central.noise} noise): {central.standard_error:.4g}; "
        f"{best.name} has {best.standard_error / central.standard_error:.3g} times that.",
        "local ε: what messages keep even from the shuffler. bits, msgs: sent by each user. client: time to encode one",
        "user, server: to read all messages, as measured here. rests on: what must hold, that the shuffler hides who",
        "sent what; where it is the shuffler only, messages promise nothing without it; seeds must be pseudorandom.",
    ]


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows under ``HEAD`` as lines of plain text."""
    table = [list(HEAD), *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(HEAD))]
    return [
        "  ".join(
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for cell, width, name in zip(row, widths, HEAD, strict=True)
        ).rstrip()
        for row in table
    ]


def _duration(seconds: float) -> str:
    """One digit is all that a short measurement tells."""
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        digit = float(f"{seconds / size:.1g}")
        if digit >= 1:
            return f"{digit:g} {unit}"
    return "0"
