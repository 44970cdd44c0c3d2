"""[MDP] Figure 13: upper and lower bounds of an amplified distance as the others move away."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shuffledp.metric.amplified import AmplifiedMetric
from shuffledp.metric.lower import lower_bound
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import ATTACK, SOUND, Chart, Item, Judgement, Sheet

CROWDS = (1_000, 100_000)
DISTANCES = (0.1, 1.0, 3.0, 5.0)
NEAREST, FURTHEST = 1.05, 1000.0
"""From where, in units of e^D(a,b) + 1, to where the clone sum goes."""
POINTS = 5
PUBLISHED = {"Theorem 1": "theorem-1", "Corollary 1": "corollary-1", "Corollary 2": "corollary-2"}
COLUMNS = ("users", "distance", "clone_sum", *PUBLISHED, "clones, exact", SOUND, ATTACK)


def triangle(distance: float, clones: float) -> DistanceMatrix:
    """a, b and c with D(a,c) = D(b,c) + D(a,b) and e^D(a,c) + e^D(b,c) as given."""
    far = math.log(clones / (math.exp(distance) + 1))
    return DistanceMatrix(np.array([[0.0, distance, distance + far], [distance, 0.0, far], [distance + far, far, 0.0]]))


def row(users: int, distance: float, clones: float) -> tuple[Any, ...]:
    space, delta = triangle(distance, clones), 0.01 / users
    bounds = (*PUBLISHED.values(), "clone", "variation-ratio")
    numbers = [AmplifiedMetric(space, users, delta, bound)(0, 1).upper for bound in bounds]
    return (users, distance, clones, *numbers, lower_bound(space, 0, 1, users, delta))


def make(progress: Progress) -> Sheet:
    asked = []
    for users in CROWDS:
        for distance in DISTANCES:
            least = NEAREST * (math.exp(distance) + 1)
            step = (FURTHEST / least) ** (1 / (POINTS - 1))
            asked += [(users, distance, least * step**place) for place in range(POINTS)]
    rows = [row(*one) for one in progress.each("Figure 13", asked)]
    panels = []
    for users in CROWDS:
        for distance in DISTANCES:
            mine = [one for one in rows if one[:2] == (users, distance)]
            lines = {name: [(one[2], one[place]) for one in mine] for place, name in enumerate(COLUMNS) if place >= 3}
            title = f"n = {users:,}, D(a,b) = {distance:g}"
            panels.append(Chart(title, "e^D(a,c) + e^D(b,c)", "distance after shuffling", lines, log="xy"))
    below = [one for one in rows if one[-1] > min(one[3:8]) * (1 + 1e-9)]
    gaps = [one[7] / one[8] for one in rows]
    loose = [one[3] / one[8] for one in rows]
    verdicts = [
        Judgement("metric_order", f"All bounds are above the lower bound at {len(rows)} points.", not below),
        Judgement(
            "metric_gap",
            f"Theorem 1 is {min(loose):.2f} to {max(loose):.1f} times the lower bound; certified distances are "
            f"{min(gaps):.3f} to {max(gaps):.2f} times it.",
            True,
        ),
    ]
    return Sheet(COLUMNS, rows, verdicts, panels)


ITEM = Item("mdp-figure-13", "MDP", "Figure 13", "Upper and lower bounds of an amplified distance", make)
