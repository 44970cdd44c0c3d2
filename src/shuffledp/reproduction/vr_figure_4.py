"""[VR] Figure 4: balls into bins with n = 32·log(2/δ)·d/(ε'²·s) users, by every analysis."""

from __future__ import annotations

import math

from shuffledp.mechanisms.multimessage.pure_dump import PureDUMP
from shuffledp.progress import Progress
from shuffledp.reproduction.earlier_bound import percent
from shuffledp.reproduction.extra_ratio import COLUMNS, TARGETS, panels, row, saved
from shuffledp.reproduction.sheet import SOUND, Item, Judgement, Sheet

BINS = (16, 128)
"""d/s, on which alone everything depends where no two options share a bin: the same as pureDUMP on d/s options."""
DELTAS = (1e-6, 1e-7)


def make(progress: Progress) -> Sheet:
    rows = []
    for bins, delta, target in progress.each("Figure 4", [(b, d, e) for b in BINS for d in DELTAS for e in TARGETS]):
        users = math.ceil(32 * math.log(2 / delta) * bins / target**2)
        setting = f"d/s = {bins}, δ = {delta:.0e}"
        rows.append(row(setting, f"{bins} bins an option", PureDUMP(bins), users, delta, target))
    lost = [one for one in rows if one[7] and one[7] > one[4]]
    verdicts = [
        Judgement(
            "balls_savings",
            f"“About 75% saved”: {percent(saved(rows, SOUND))}, certified and attained: the attack is as large.",
            min(saved(rows, SOUND)) > 0.7,
        ),
        Judgement(
            "theorem_4_8",
            f"“Both closed forms are tighter than the protocol's own analysis”: Theorem 4.8 is looser at ε' ≤ "
            f"{max(one[4] for one in lost):g} ({100 * (max(one[7] / one[4] for one in lost) - 1):.1f}% more at 0.01)."
            if lost
            else "Both closed forms are tighter than the protocol's own analysis.",
            not lost,
        ),
        Judgement(
            "balls_analytic",
            f"“More than 50% saved” by Theorem 4.7: {percent(saved(rows, 'theorem_4_7'))}.",
            min(saved(rows, "theorem_4_7")) > 0.5,
        ),
    ]
    return Sheet(COLUMNS, rows, verdicts, panels(rows))


ITEM = Item("vr-figure-4", "VR", "Figure 4", "Balls into bins at its printed noise", make)
