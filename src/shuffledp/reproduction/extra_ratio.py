"""[VR] Figures 3 and 4: what analyses of a multi-message protocol give at the noise that its own paper asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shuffledp.bounds.amplify import amplify
from shuffledp.errors import NotApplicable
from shuffledp.reproduction.sheet import ATTACK, PRINTED, PUBLISHED, SOUND, Chart

TARGETS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""ε' of the protocol's own analysis."""
COLUMNS = ("setting", "noise", "users", "delta", PRINTED, PUBLISHED, "theorem_4_7", "theorem_4_8", SOUND, ATTACK)
FIRST = COLUMNS.index(PUBLISHED)
NAMES = {
    PUBLISHED: "variation-ratio, published",
    "theorem_4_7": "analytic (Theorem 4.7)",
    "theorem_4_8": "asymptotic (Theorem 4.8)",
    SOUND: "sound",
    ATTACK: "attack",
}


def row(setting: str, noise: str, mechanism: Any, users: int, delta: float, target: float) -> tuple[Any, ...]:
    """Every analysis at one noise; ``target`` is what the protocol's own says."""
    value = amplify(mechanism, users, effort="quick").epsilon(delta)
    numbers = [
        _of(mechanism, users, delta, bound)
        for bound in ("variation-ratio-published", "analytic-published", "asymptotic")
    ]
    return (setting, noise, users, delta, target, *numbers, value.upper, value.lower)


def _of(mechanism: Any, users: int, delta: float, bound: str) -> float | None:
    try:
        return amplify(mechanism, users, bound=bound).epsilon(delta).upper
    except NotApplicable:
        return None


def panels(rows: Sequence[Sequence[Any]]) -> list[Chart]:
    """log2 of ε'/ε against ε', one panel for each setting."""
    found = []
    for setting in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == setting]
        lines = {NAMES[name]: [(row[4], math.log2(row[4] / row[place])) for row in mine if row[place]]
                 for place, name in enumerate(COLUMNS) if place >= FIRST}  # fmt: skip
        found.append(Chart(setting, "ε' of the protocol's own analysis", "log2(ε'/ε)", lines, log="x"))
    return found


def saved(rows: Sequence[Sequence[Any]], column: str) -> list[float]:
    """Shares of ε' that an analysis saves, where it applies."""
    place = COLUMNS.index(column)
    return [1 - row[place] / row[4] for row in rows if row[place]]
