"""[VR] Table 2: parameters of local metric randomizers, β against quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shuffledp.metric.noise import AnyNoise, LaplaceNoise, Noise, PlanarLaplaceNoise, WitchHatNoise
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import COLUMNS, Chart, Item, Judgement, Sheet

DISTANCES = (0.5, 1.0, 2.0, 4.0)
HALF_WIDTH, HEIGHT, SCALE = 4.0, 3.0, 1.0
"""B, m and F of the witch's hat."""
NEAR = 1e-6
Law = Callable[[float], float]
"""β of a distance."""


def laplace(distance: float) -> float:
    """½∫|f(y) − f(y−d)| of Laplace noise."""
    from scipy.integrate import quad

    found = quad(lambda y: abs(math.exp(-abs(y)) - math.exp(-abs(y - distance))) / 4, -40, 40 + distance,
                 points=[0, distance / 2, distance], limit=200)[0]  # fmt: skip
    return float(found)


def planar(distance: float) -> float:
    """The mass of planar Laplace noise in a strip of half the distance on each side of its centre."""
    from scipy.integrate import quad

    def column(x: float) -> float:
        return 2 * float(quad(lambda y: math.exp(-math.hypot(x, y)) / (2 * math.pi), 0, 60, limit=200)[0])

    return 2 * float(quad(column, 0, distance / 2, limit=200)[0])


def witch_hat(distance: float) -> float:
    """½∫|f_a − f_b| of two hats, with distances in privacy: two numbers F·distance/2 apart."""
    reach = HEIGHT * SCALE / 2
    y = np.linspace(-HALF_WIDTH - reach, HALF_WIDTH + reach, 400_001)
    first, second = -SCALE * distance / 4, SCALE * distance / 4
    laws = [np.exp(-np.minimum(2 * np.abs(y - x) / SCALE, HEIGHT)) for x in (first, second)]
    laws = [law / np.trapezoid(law, y) for law in laws]
    return float(np.trapezoid(np.abs(laws[0] - laws[1]), y) / 2)


def printed_hat(distance: float) -> float:
    """2(e^m − e^(d/F) + d/F − m)/(F(e^m − 1) + 2B)."""
    over = distance / SCALE
    return 2 * (math.exp(HEIGHT) - math.exp(over) + over - HEIGHT) / (SCALE * (math.exp(HEIGHT) - 1) + 2 * HALF_WIDTH)


def make(progress: Progress) -> Sheet:
    hat = WitchHatNoise(HALF_WIDTH, HEIGHT, SCALE)
    kinds: list[tuple[str, str, Noise, Law, Law | None]] = [
        ("any", "(e^d−1)/(e^d+1)", AnyNoise(), lambda d: math.tanh(d / 2), None),
        ("Laplace", "1−e^(−d/2)", LaplaceNoise(), lambda d: 1 - math.exp(-d / 2), laplace),
        ("planar Laplace", "2∫∫e^(−√(x²+y²))/2π over 0 ≤ x ≤ d/2", PlanarLaplaceNoise(), planar, planar),
        ("WitchHat", "2(e^m−e^(d/F)+d/F−m)/(F(e^m−1)+2B)", hat, printed_hat, witch_hat),
    ]
    rows: list[tuple[Any, ...]] = []
    panels = []
    for name, formula, noise, printed, attained in progress.each("Table 2", kinds):
        for distance in DISTANCES:
            known = None if attained is None else attained(distance)
            rows.append((name, distance, formula, printed(distance), float(noise.total_variation(distance)), known))
        mine = [row for row in rows if row[0] == name]
        lines = {
            "printed formula": [(row[1], row[3]) for row in mine],
            "sound": [(row[1], row[4]) for row in mine],
            "attack: quadrature": [(row[1], row[5]) for row in mine if row[5] is not None],
        }
        panels.append(Chart(name, "distance d", "total variation β", lines))
    right = [row for row in rows if row[0] != "WitchHat" and abs(row[3] - row[4]) < NEAR]
    wrong = [row for row in rows if row[0] == "WitchHat" and abs(row[3] - row[5]) > 1e-3]
    verdicts = [
        Judgement(
            "metric_parameters", f"{len(right)} of 12 values of the other three rows are right.", len(right) == 12
        ),
        Judgement(
            "witch_hat",
            f"WitchHat's printed β is wrong at {len(wrong)} of {len(DISTANCES)} distances (MD-7): it falls with the "
            "distance, down to below 0.",
            not wrong,
        ),
    ]
    return Sheet(("mechanism", "distance", *COLUMNS), rows, verdicts, panels)


ITEM = Item("vr-table-2", "VR", "Table 2", "Parameters of metric randomizers", make)
