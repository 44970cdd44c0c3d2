"""[FDP] Section 4: shuffling by trade-off functions against clones."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

from shuffledp.bounds.amplify import amplify
from shuffledp.mechanisms.frequency.krr import KRR
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import ATTACK, PUBLISHED, SOUND, Chart, Item, Judgement, Sheet
from shuffledp.tradeoff.clone_error import CloneErrors

SETTINGS = ((1_000, 1e-5), (10_000, 1e-6), (100_000, 1e-8))
LOCALS = (0.5, 1.0, 2.0, 3.0, 4.0)
FEW, LITTLE, ASKED = 12, 0.5, 0.3
"""Corollary 4.3 as printed is looked at for so many users, this ε0 and this ε."""
COLUMNS = ("users", "delta", "local_epsilon", "clones_2021", "stronger_clones", PUBLISHED, SOUND, ATTACK)


def printed_delta(users: int, local: float, epsilon: float) -> float:
    """Corollary 4.3 as printed: δ at the first threshold t where l(t), with its floors, passes −(e^ε − 2w)/(1 − 2w).

    Thresholds are the ratios of two counts, and what lies between them.
    """
    w, most = 1 / (math.exp(local) + 1), users - 1
    weights = [math.comb(most, i) * (2 * w) ** i * (1 - 2 * w) ** (most - i) for i in range(users)]

    def mass(i: int, k: int) -> float:
        return math.comb(i, k) / 2**i if 0 <= k <= i else 0.0

    def slope(t: Fraction) -> float:
        last = [math.floor(i - Fraction(i + 1) / (t + 1)) for i in range(users)]
        below = sum(v * mass(i, s) for i, (v, s) in enumerate(zip(weights, last, strict=True)))
        above = sum(v * mass(i, s + 1) for i, (v, s) in enumerate(zip(weights, last, strict=True)))
        return above / below if below else math.inf

    knots = sorted({Fraction(a, b) for a in range(users) for b in range(1, users + 1 - a)})
    tried = sorted({*knots, *((a + b) / 2 for a, b in pairwise(knots))})
    chosen = next(t for t in tried if (1 - 2 * w) * slope(t) <= math.exp(epsilon) - 2 * w)
    # Just above a knot is the threshold itself: the errors are those of CloneErrors there.
    first, second = CloneErrors(local, users).inner([float(chosen)])
    alpha, beta = float(first[0]), float(second[0])
    return 1 - math.exp(epsilon) * alpha - 2 * w * (1 - alpha) - (1 - 2 * w) * beta


def make(progress: Progress) -> Sheet:
    rows = []
    for users, delta, local in progress.each("shuffling", [(*one, e) for one in SETTINGS for e in LOCALS]):
        randomizer = VariationRatio.of_ldp(local)
        older, exact, theorem = (
            amplify(randomizer, users, bound=bound).epsilon(delta).upper
            for bound in ("clone", "stronger-clone", "mixture")
        )
        attacked = [amplify(KRR(local, k), users, effort="quick").epsilon(delta).lower for k in (2, 3)]
        rows.append(
            (users, delta, local, older, exact, theorem, exact, max(one for one in attacked if one is not None))
        )
    printed = printed_delta(FEW, LITTLE, ASKED)
    panels = []
    for users, delta in SETTINGS:
        mine = [row for row in rows if row[0] == users]
        lines = {
            "clones [FMT21]": [(row[2], row[3]) for row in mine],
            "Theorem 4.2": [(row[2], row[5]) for row in mine],
            "exact curve of the pair": [(row[2], row[4]) for row in mine],
            "attack on 2 or 3 options": [(row[2], row[7]) for row in mine],
        }
        panels.append(Chart(f"n = {users:,}, δ = {delta:g}", "local ε0", "ε", lines, log="y"))
    tighter = [row for row in rows if row[5] < row[3]]
    looser = [row[5] / row[4] - 1 for row in rows]
    true = amplify(VariationRatio.of_ldp(LITTLE), FEW, bound="mixture").delta(ASKED).upper
    verdicts = [
        Judgement("tighter_than_clones", f"Theorem 4.2 is below [FMT21] at {len(tighter)} of {len(rows)} points.",
                len(tighter) == len(rows)),
        Judgement(
            "not_the_curve",
            f"“The curve of the pair”: Theorem 4.2 is {100 * min(looser):.2g} to {100 * max(looser):.2g}% above the ε "
            "of the exact curve, which is as cheap (FD-3).",
            max(looser) < 1e-6,
        ),
        Judgement(
            "corollary_4_3",
            f"Corollary 4.3 as printed gives δ = {printed:.3g} for n = {FEW}, ε0 = {LITTLE:g}, ε = {ASKED:g}, where "
            f"the theorem's curve has {true:.3g} (FD-4).",
            printed >= true * (1 - 1e-9),
        ),
    ]  # fmt: skip
    return Sheet(COLUMNS, rows, verdicts, panels)


ITEM = Item("fdp-shuffling", "FDP", "Section 4", "Shuffling by trade-off functions against clones", make)
