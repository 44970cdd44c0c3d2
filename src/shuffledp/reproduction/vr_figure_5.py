"""[VR] Figure 5: range queries by parallel composition, basic, advanced and with separate cohorts."""

from __future__ import annotations

import math
from typing import Any

from shuffledp.bounds.amplify import amplify
from shuffledp.mechanisms.combined.range_queries import RangeQueries
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.progress import Progress
from shuffledp.reproduction.earlier_bound import percent
from shuffledp.reproduction.sheet import ATTACK, PUBLISHED, SOUND, Chart, Item, Judgement, Sheet

SETTINGS = ((64, 10_000), (64, 100_000), (2048, 10_000), (2048, 100_000))
LOCALS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
BASIC, OVERWRITTEN, BEST, WORST = (
    "basic",
    "last term only (public code)",
    "separate, best level",
    "separate, worst level",
)
COLUMNS = ("options", "users", "local_epsilon", BASIC, OVERWRITTEN, BEST, WORST, PUBLISHED, SOUND, ATTACK)


def published(ratio: float, beta: float, users: int, delta: float) -> float:
    """ε of the published pair with p = q."""
    found = amplify(VariationRatio(ratio, beta, ratio), users, bound="variation-ratio-published")
    return found.epsilon(delta).upper


def row(options: int, users: int, local: float) -> tuple[Any, ...]:
    ratio, levels, delta = math.exp(local), int(math.log2(options)), 0.01 / users
    share = [(ratio - 1) / (ratio + options / 2**level - 1) for level in range(levels)]
    value = amplify(RangeQueries(local, levels), users, effort="quick").epsilon(delta)
    numbers = [
        published(ratio, math.tanh(local / 2), users, delta),
        published(ratio, share[0] / levels, users, delta),
        published(ratio, share[0], users // levels, delta),
        published(ratio, share[-1], users // levels, delta),
        published(ratio, sum(share) / levels, users, delta),
    ]
    return (options, users, local, *numbers, value.upper, value.lower)


def make(progress: Progress) -> Sheet:
    rows = [row(*one) for one in progress.each("Figure 5", [(d, n, e) for d, n in SETTINGS for e in LOCALS])]
    panels = []
    for options, users in SETTINGS:
        mine = [one for one in rows if one[:2] == (options, users)]
        lines = {name: [(one[2], math.log2(one[2] / one[place])) for one in mine if one[place]]
                 for place, name in enumerate(COLUMNS) if place >= 3}  # fmt: skip
        panels.append(Chart(f"d = {options:,}, n = {users:,}", "local ε0", "log2(ε0/ε)", lines))
    basic = [1 - one[8] / one[3] for one in rows]
    worst = {d: [1 - one[8] / one[6] for one in rows if one[0] == d] for d in (64, 2048)}
    best = [1 - one[8] / one[5] for one in rows]
    attacked = [1 - one[9] / one[3] for one in rows if one[9]]
    verdicts = [
        Judgement(
            "seventy_five_percent",
            f"“75% saved over basic composition”: {percent(basic)}; attacks show that no sound bound saves more than "
            f"{100 * max(attacked):.0f}% (CO-1, CO-2).",
            max(basic) >= 0.745,
        ),
        Judgement(
            "separate_cohorts",
            f"“80–95% saved over separate cohorts”: {percent(worst[2048])} for d = 2048 against the worst level, "
            f"{percent(worst[64])} for d = 64; against the best level {percent(best)}.",
            min(worst[64] + worst[2048] + best) >= 0.795,
        ),
    ]
    return Sheet(COLUMNS, rows, verdicts, panels)


ITEM = Item("vr-figure-5", "VR", "Figure 5", "Range queries by parallel composition", make)
