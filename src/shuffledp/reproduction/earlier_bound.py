"""The bounds of [VR] Figures 1 and 2 for a mechanism: earlier ones, the published one, ours, and an attack."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shuffledp.bounds.amplify import amplify
from shuffledp.errors import NotApplicable
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import ATTACK, PUBLISHED, SOUND, Chart, Sheet

EARLIER: dict[str, Sequence[str]] = {
    "EFMRTT19": ("efmrtt19",),
    "privacy blanket, general": ("blanket-hoeffding-generic", "blanket-bennett-generic"),
    "privacy blanket, specific": ("blanket-hoeffding", "blanket-bennett"),
    "clones": ("clone",),
    "stronger clones": ("stronger-clone",),
}
"""What [VR] compares with, each the smallest of its bounds."""
LOCALS = (0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
SETTINGS = ((10_000, 16), (10_000, 128), (100_000, 16), (100_000, 128))
"""Users and options."""


@dataclass(frozen=True)
class Savings:
    """Shares of ε that the published bound saves at every point of the figure."""

    over_earlier: list[float]
    over_clones: list[float]
    below_attack: list[float]
    """By how much the published number is below what an attack attains, where it is."""
    gaps: list[float]
    """How far the published number is above the attack."""


def smallest(randomizer: Randomizer, users: int, bounds: Sequence[str]) -> float | None:
    """The smallest ε of these bounds at δ = 0.01/n; None where none applies."""
    found = []
    for bound in bounds:
        try:
            found.append(amplify(randomizer, users, bound=bound).epsilon(0.01 / users).upper)
        except NotApplicable:
            continue
    return min(found, default=None)


def figure(
    make: Callable[[float, int], Any], printed: Callable[[float, Any], Randomizer] | None, progress: Progress, name: str
) -> tuple[Sheet, Savings]:
    """The four panels, log2 of the amplification ratio as printed, and what is saved.

    ``printed``: the parameters of a mechanism as printed, where they are not its own.
    """
    rows: list[tuple[Any, ...]] = []
    for users, options, local in progress.each(name, [(n, d, e) for n, d in SETTINGS for e in LOCALS]):
        mechanism = make(local, options)
        value = amplify(mechanism, users, effort="quick").epsilon(0.01 / users)
        numbers = [smallest(mechanism, users, bounds) for bounds in EARLIER.values()]
        stated = mechanism if printed is None else printed(local, mechanism)
        published = smallest(stated, users, ["variation-ratio-published"])
        rows.append((users, options, local, *numbers, published, value.upper, value.lower))
    columns = ("users", "options", "local_epsilon", *EARLIER, PUBLISHED, SOUND, ATTACK)
    panels = []
    for users, options in SETTINGS:
        mine = [row for row in rows if row[:2] == (users, options)]
        lines = {label: [(row[2], math.log2(row[2] / row[place])) for row in mine if row[place]]
                 for place, label in enumerate(columns) if place >= 3}  # fmt: skip
        panels.append(Chart(f"n = {users:,}, d = {options}", "local ε0", "log2(ε0/ε)", lines))
    best = [(min(x for x in row[3:8] if x is not None), row[7], row[8], row[10]) for row in rows]
    savings = Savings(
        [1 - new / old for old, _, new, _ in best],
        [1 - new / clones for _, clones, new, _ in best],
        [attack / new - 1 for _, _, new, attack in best if attack and attack > new * (1 + 1e-9)],
        [new / attack - 1 for _, _, new, attack in best if attack],
    )
    return Sheet(columns, rows, [], panels), savings


def percent(shares: Sequence[float]) -> str:
    """The range of some shares."""
    joint = "–" if min(shares) >= 0 else " to "
    return f"{100 * min(shares):.1f}{joint}{100 * max(shares):.1f}%".replace("-", "−")
