"""A whole certified trade-off curve of 1,000 points against its points one by one, and how low it lies.

    python benchmarks/trade_off.py [--points N] [--json FILE]

Processor time. "one by one" is the time of 20 certified values of δ, scaled to all points; "gap" is the largest
distance of the curve to points of the exact one, known for the clone pair at any n.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from shuffledp import VariationRatio, amplify, trade_off
from shuffledp.privacy.shuffled_tradeoff import CloneErrors

LOCAL = 1.0
USERS = (10**4, 10**6, 10**8)
SAMPLE = 20
EXACT_SCORES = np.linspace(-3, 3, 7)


def seconds(action: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def measure(users: int, points: int) -> dict[str, float]:
    """One row: times, their ratio, and the gap to the exact curve where that is quick to know."""
    curve = amplify(VariationRatio.from_ldp(LOCAL), users, bound="stronger-clone")
    whole = trade_off(curve, points)
    together = seconds(lambda: trade_off(curve, points))
    sample = whole.epsilons[:: max(1, len(whole.epsilons) // SAMPLE)][:SAMPLE].tolist()
    alone = seconds(lambda: [curve.delta(epsilon) for epsilon in sample]) / len(sample) * points
    row = {"users": users, "points": len(whole.epsilons), "together": together, "one by one": alone}
    row["ratio"] = alone / together
    if users <= 10**6:
        scale = 2 * whole.advantage()
        fpr, fnr = CloneErrors(LOCAL, users).exact_errors(np.exp(scale * EXACT_SCORES))
        row["gap"] = float(np.max(fnr - whole.fnr(fpr)))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [measure(users, arguments.points) for users in track(USERS, "Measuring", console=Console(stderr=True))]
    table = Table("n", "points", "together, s", "one by one, s", "ratio", "gap in fnr")
    for row in rows:
        gap = f"{row['gap']:.1e}" if "gap" in row else "–"
        table.add_row(
            f"{row['users']:.0e}",
            str(row["points"]),
            f"{row['together']:.2f}",
            f"{row['one by one']:.2f}",
            f"{row['ratio']:.1f}",
            gap,
        )
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
