"""[LC] Figure 2: the error of private means of vectors where ε = 8 is split over several runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shuffledp.mechanisms.combined.repeated import Repeated
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.vector.privhs import PrivHS
from shuffledp.mechanisms.vector.privunit import PrivUnit
from shuffledp.mechanisms.vector.privunit_optimized import PrivUnitOptimized
from shuffledp.mechanisms.vector.sqkr import SQKR
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import COLUMNS, Chart, Item, Judgement, Sheet

TOTAL, DIMENSION = 8.0, 1024
RUNS = (1, 2, 3, 4, 5, 6, 7, 8)
KINDS: dict[str, Callable[[float, int], Mechanism]] = {
    "PrivHS": PrivHS,
    "PrivUnit": PrivUnit,
    "PrivUnitOptimized": PrivUnitOptimized,
}


def half_space(epsilon: float) -> float:
    """E‖x̂ − x‖²/d of a random half-space, from its printed scale: B² − 1."""
    from scipy.special import gammaln

    d = DIMENSION
    scale = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1) * math.sqrt(math.pi)
    return (scale**2 * math.exp(2 * (gammaln((d + 1) / 2) - gammaln(d / 2))) - 1) / d


def cap(epsilon: float) -> float:
    """The least E‖x̂ − x‖²/d of two levels on a cap, by a search over its height: 1/m² − 1."""
    from scipy.special import betainc, betaln

    d, heights = DIMENSION, np.linspace(0, 0.5, 20_001)
    share = np.where(heights > 0, betainc((d - 1) / 2, 0.5, 1 - heights**2) / 2, 0.5)
    log_density = (d - 1) / 2 * np.log1p(-(heights**2)) - math.log(d - 1) - betaln(0.5, (d - 1) / 2)
    inside = math.exp(epsilon) * share / (math.exp(epsilon) * share + 1 - share)
    size = np.exp(log_density) * (inside / share - (1 - inside) / (1 - share))
    return float((1 / np.max(size) ** 2 - 1) / d)


def make(progress: Progress) -> Sheet:
    vector = np.full((1, DIMENSION), DIMENSION**-0.5)
    rows = []
    formulas = {"PrivHS": half_space, "PrivUnitOptimized": cap}
    for name, runs in progress.each("Figure 2", [(name, m) for name in KINDS for m in RUNS]):
        mechanism = Repeated(KINDS[name](TOTAL / runs, DIMENSION), runs)
        formula = formulas[name](TOTAL / runs) / runs if name in formulas else None
        rows.append((name, runs, None, formula, float(mechanism.variance(vector).sum()) / DIMENSION, None))
    single = SQKR(TOTAL, DIMENSION)
    rows.append(("SQKR", 1, None, None, float(single.variance(vector).sum()) / DIMENSION, None))
    lines = {name: [(float(row[1]), row[4]) for row in rows if row[0] == name] for name in KINDS}
    lines["SQKR, one run"] = [(float(m), rows[-1][4]) for m in RUNS]
    best = dict(lines["PrivUnitOptimized"])
    spaces = dict(lines["PrivHS"])
    growth = best[2] / best[1]
    least = min(spaces, key=lambda runs: spaces[runs])
    verdicts = [
        Judgement("doubled", f"“Two runs of ε = 4 cost about 2×”: {growth:.2f} for PrivUnitOptimized.", growth < 2.05),
        Judgement(
            "keeps_growing",
            f"“The error continues to increase as we split more”: not for PrivHS, whose error over d falls from "
            f"{spaces[1]:.3f} to {spaces[least]:.3f} at {least:g} runs and then rises.",
            least == 1,
        ),
    ]
    panel = Chart("total ε = 8, d = 1024", "runs", "squared error over d", lines)
    return Sheet(("mechanism", "runs", *COLUMNS), rows, verdicts, [panel])


ITEM = Item("lc-figure-2", "LC", "Figure 2", "Private means: ε = 8 split over several runs", make)
