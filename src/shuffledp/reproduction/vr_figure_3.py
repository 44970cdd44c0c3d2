"""[VR] Figure 3: Cheu–Zhilyaev at its own printed noise, by every analysis."""

from __future__ import annotations

from shuffledp.calibration.calibrate import calibrate
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.multimessage.cheu_zhilyaev import CheuZhilyaev
from shuffledp.progress import Progress
from shuffledp.reproduction.earlier_bound import percent
from shuffledp.reproduction.extra_ratio import COLUMNS, TARGETS, panels, row, saved
from shuffledp.reproduction.sheet import PUBLISHED, SOUND, Item, Judgement, Sheet

CROWDS = (10_000, 100_000)


def make(progress: Progress) -> Sheet:
    rows = []
    for users, target in progress.each("Figure 3", [(n, e) for n in CROWDS for e in TARGETS]):
        delta = 0.01 / users
        try:
            asked = calibrate(
                CheuZhilyaev, options=16, users=users, epsilon=target, delta=delta, bound="protocol-published"
            )
        except NotApplicable:
            continue
        setting = f"n = {users:,}, whatever d"
        rows.append(row(setting, f"f = {asked.value:.5g}", asked.mechanism, users, delta, target))
    none = [row for row in rows if row[4] <= 0.1]
    verdicts = [
        Judgement(
            "cheu_savings",
            f"“About 75% saved”: {percent(saved(rows, PUBLISHED))} by the published pair, "
            f"{percent(saved(rows, SOUND))} certified.",
            min(saved(rows, SOUND)) > 0.7,
        ),
        Judgement(
            "cheu_small",
            "The figure goes down to ε' = 0.01, for which no flip probability satisfies the printed condition at "
            "n = 10^4 or 10^5." if not none else "Every ε' has a flip probability.",
            bool(none),
        ),
        Judgement(
            "cheu_analytic",
            f"“More than 50% saved” by Theorem 4.7: {percent(saved(rows, 'theorem_4_7'))}.",
            min(saved(rows, "theorem_4_7")) > 0.5,
        ),
    ]  # fmt: skip
    return Sheet(COLUMNS, rows, verdicts, panels(rows))


ITEM = Item("vr-figure-3", "VR", "Figure 3", "Cheu–Zhilyaev at its printed noise", make)
