"""[FDP] Figure 4: Example F.3, the trade-off of a normal law against its mixture, by two lemmas and exactly."""

from __future__ import annotations

import numpy as np

from shuffledp.array import Floats
from shuffledp.numerics.special import ndtr, ndtri
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import COLUMNS, Chart, Item, Judgement, Sheet
from shuffledp.tradeoff.gaussian_trade_off import GaussianTradeOff
from shuffledp.tradeoff.mixture import mixed, subsampled

MU, WEIGHT = 1.0, 1 / 3
LEVELS = np.linspace(0.01, 0.99, 99)
FINE = 1e-5
"""How far the tangents that stand for a normal curve may be below it."""


def exact(levels: Floats) -> Floats:
    """The most powerful test: reject where the observation is large."""
    threshold = -ndtri(levels)
    return np.asarray(WEIGHT * ndtr(threshold) + (1 - WEIGHT) * ndtr(threshold - MU))


def printed(levels: Floats) -> Floats:
    """The lower curve that Lemma 3.1 leads to, as printed: two pieces and a line between them."""
    rest = 1 - WEIGHT
    turn, back = rest * (1 - ndtr(MU / 2)), 1 - rest * ndtr(MU / 2)

    def left(x: Floats) -> Floats:
        return np.asarray(WEIGHT + rest * ndtr(ndtri(1 - x / rest) - MU))

    def right(x: Floats) -> Floats:
        return np.asarray(rest * ndtr(ndtri((1 - x) / rest) - MU))

    ends = float(left(np.array(turn))), float(right(np.array(back)))
    line = ends[0] + (levels - turn) / (back - turn) * (ends[1] - ends[0])
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(levels < turn, left(levels), np.where(levels > back, right(levels), line)))


def make(progress: Progress) -> Sheet:
    with progress.step("Figure 4", 1) as advance:
        gauss = GaussianTradeOff(MU)
        advanced = subsampled(gauss, 1 - WEIGHT).fnr(LEVELS)
        common = mixed([GaussianTradeOff(0.0), gauss], [WEIGHT, 1 - WEIGHT]).fnr(LEVELS)
        shown, truth = printed(LEVELS), exact(LEVELS)
        advance(1)
    rows: list[tuple[object, ...]] = []
    for x, stated, ours, crossed, best in zip(LEVELS, shown, common, advanced, truth, strict=True):
        rows.append(("Lemma 3.1", float(x), float(stated), float(ours), float(ours), float(best)))
        rows.append(("Lemma 6.3", float(x), None, float(crossed), float(crossed), float(best)))
    off, better = float(np.max(np.abs(shown - common))), float(np.max(advanced - common))
    verdicts = [
        Judgement(
            "example_lemma_3_1",
            f"The printed pieces are those of Lemma 3.1 at one common threshold, to {off:.1e}.",
            off < FINE,
        ),
        Judgement(
            "example_lemma_6_3",
            f"“Lemma 6.3 is slightly tighter”: by up to {better:.3f} in the type II error; the exact curve is another "
            f"{float(np.max(truth - advanced)):.3f} above it.",
            better > 0,
        ),
        Judgement("example_below", "Both are below the exact curve, as lower bounds are.",
                bool(np.all(np.maximum(advanced, common) <= truth))),
    ]  # fmt: skip
    lines = {
        "Lemma 3.1, printed": list(zip(LEVELS.tolist(), shown.tolist(), strict=True)),
        "Lemma 3.1, ours": list(zip(LEVELS.tolist(), common.tolist(), strict=True)),
        "Lemma 6.3": list(zip(LEVELS.tolist(), advanced.tolist(), strict=True)),
        "attack: the best test": list(zip(LEVELS.tolist(), truth.tolist(), strict=True)),
    }
    panel = Chart("Example F.3, μ = 1, w = 1/3", "type I error", "type II error", lines)
    return Sheet(("lemma", "type_1_error", *COLUMNS), rows, verdicts, [panel])


ITEM = Item("fdp-figure-4", "FDP", "Figure 4", "Example F.3: Lemma 3.1 against Lemma 6.3", make)
