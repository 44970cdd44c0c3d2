"""The worst-dataset bound beside the privacy blanket: processor time and ε of both, measured in one run.

    .venv/bin/python benchmarks/crowds.py [--repeats 3] [--delta 1e-6]

Medians; each curve is built anew. Numbers of several threads count all of them: set OPENBLAS_NUM_THREADS=1 to compare.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

import shuffledp as sdp

SIZES = (10_000, 10**6, 10**9)


def randomizers() -> list[tuple[str, sdp.Randomizer]]:
    rows = np.random.default_rng(1).dirichlet(np.full(16, 3.0), 16) * 0.7 + 0.3 / 16
    return [
        ("oue, 128 options", sdp.OUE(1.0, 128)),
        ("subset, 128 options", sdp.Subset(1.0, 128)),
        ("harmony, 16", sdp.Harmony(1.0, 16)),
        ("any ε0-LDP", sdp.VariationRatio.from_ldp(1.0)),
        ("table, 16 rows", sdp.FromTable(rows)),
        ("laplace, 1,024 steps", sdp.Laplace(1.0)),
        ("planar-laplace, 6 × 6", sdp.PlanarLaplace(1.0)),
    ]


def measured(randomizer: sdp.Randomizer, users: int, bound: str, delta: float, repeats: int) -> tuple[float, float]:
    """ε, and the median of the processor time."""
    taken = []
    for _ in range(repeats):
        begun = time.process_time()
        found = sdp.amplify(randomizer, users, bound=bound).epsilon(delta).upper
        taken.append(time.process_time() - begun)
    return found, statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--delta", type=float, default=1e-6)
    given = parser.parse_args()
    table = Table(box=MARKDOWN)
    for title in ("randomizer, ε0 = 1", "n", "blanket ε", "all crowds ε", "blanket, s", "all crowds, s", "ratio"):
        table.add_column(title)
    todo = [(name, made, users) for name, made in randomizers() for users in SIZES]
    for name, made, users in track(todo, "Measuring", console=Console(stderr=True), transient=True):
        other = "stronger-clone" if isinstance(made, sdp.VariationRatio) else "optimal"
        plain, quick = measured(made, users, other, given.delta, given.repeats)
        sharp, slow = measured(made, users, "all-crowds", given.delta, given.repeats)
        numbers = f"{plain:.6g}", f"{sharp:.6g}", f"{quick:.3f}", f"{slow:.2f}", f"{slow / quick:.0f}"
        table.add_row(name, f"{users:.0e}".replace("e+0", "e"), *numbers)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
