"""[FDP] Section 5 and Appendix D: one noisy gradient step from a random start against the plain Gaussian."""

from __future__ import annotations

from functools import partial

import numpy as np

from shuffledp.array import Floats
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import COLUMNS, Chart, Item, Judgement, Sheet
from shuffledp.tradeoff.gaussian_trade_off import GaussianTradeOff
from shuffledp.tradeoff.noisy_step import LeastSquares, Logistic, NoisyStep, OwnGradient

LEVELS = np.linspace(0.005, 0.995, 60)


def printed_gradient(limit: float, start: Floats) -> Floats:
    """σ(|I|·M), as printed."""
    return np.asarray(1 / (1 + np.exp(-np.abs(start) * limit)))


def make(progress: Progress) -> Sheet:
    cases = [
        ("least squares, clipped at 1", LeastSquares(optimum=1.0, clip=1.0), None, 1.0),
        ("least squares, clipped at 2", LeastSquares(optimum=1.0, clip=2.0), None, 2.0),
        ("logistic, features up to 1", Logistic(limit=1.0), 1.0, 1.0),
        ("logistic, features up to 2", Logistic(limit=2.0), 2.0, 2.0),
    ]
    rows, panels, printed_logistic = [], [], 0.0
    for name, gradient, limit, size in progress.each("random initialisation", cases):
        step = NoisyStep(gradient)
        published = step.advantage()
        if limit is not None:
            # The gradient as printed, without the factor |yx|.
            published = NoisyStep(OwnGradient(partial(printed_gradient, limit))).advantage()
            printed_logistic = published
        sound = step.guaranteed(points=20).advantage()
        rows.append((name, GaussianTradeOff(size).advantage(), None, published, sound, step.advantage()))
        lines = {
            "plain Gaussian step": list(zip(LEVELS.tolist(), GaussianTradeOff(size).fnr(LEVELS).tolist(), strict=True)),
            "attack: random start, exact": list(zip(LEVELS.tolist(), step.fnr(LEVELS).tolist(), strict=True)),
        }
        panels.append(Chart(name, "type I error", "type II error", lines))
    gained = [row[1] / row[5] for row in rows]
    verdicts = [
        Judgement(
            "hidden_start",
            f"“A random start helps”: the advantage is {', '.join(f'{row[5]:.3f}' for row in rows)} against "
            f"{', '.join(f'{row[1]:.3f}' for row in rows)} of the plain step.",
            min(gained) > 1,
        ),
        Judgement(
            "logistic_gradient",
            f"Example D.3's gradient lacks the factor |yx| (FD-9): as printed the advantage is {printed_logistic:.3f} "
            f"for features up to 2, where it is {rows[-1][5]:.3f}.",
            abs(printed_logistic - rows[-1][5]) < 1e-3,
        ),
    ]
    return Sheet(("gradient", "plain_gaussian", *COLUMNS), rows, verdicts, panels)


ITEM = Item("fdp-initialisation", "FDP", "Section 5, Appendix D", "One noisy step from a random start", make)
