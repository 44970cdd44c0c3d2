"""Writes the tables of docs/paper.md: the worst-dataset bound beside the best other bound and an attack.

python scripts/paper.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from tightness import describe, instances

import shuffledp as sdp

PAGE = Path(__file__).resolve().parent.parent / "docs" / "paper.md"
START, END = "<!-- tables -->", "<!-- /tables -->"
LOCAL = (0.5, 1.0, 3.0)
SIZES = (300, 10_000, 10**6, 10**9)
DELTA = 1e-6
Row = tuple[str, ...]


def row(randomizer: sdp.Randomizer, users: int) -> tuple[float, float, float | None, str, float] | None:
    """Returns ε without and with the worst-dataset bound, the attack's ε, the smaller bound's name, and seconds.

    The seconds are processor time. None if the worst-dataset bound does not apply.
    """
    before = sdp.amplify(randomizer, users, effort="quick").epsilon(DELTA)
    start = time.process_time()
    try:
        now = sdp.amplify(randomizer, users, bound="all-crowds").epsilon(DELTA).upper
    except sdp.NotApplicable:
        return None
    seconds = time.process_time() - start
    return before.upper, now, before.lower, "all-crowds" if now < before.upper else before.bound, seconds


def mechanism_table(console: Console) -> Iterator[str]:
    yield (
        f"n = 10,000, δ = {DELTA:g}. *Before*: the smallest of all other bounds. *Seconds*: processor time of "
        "`all-crowds`."
    )
    yield ""
    yield "| mechanism | ε0 | before | `all-crowds` | attack | gap | seconds |"
    yield "|---|---|---|---|---|---|---|"
    todo = [mechanism for local in LOCAL for mechanism in instances(local)]
    for mechanism in track(todo, "Mechanisms", console=console, transient=True):
        found = row(mechanism, 10_000)
        if found is None:
            continue
        before, now, attack, _, seconds = found
        least = min(before, now)
        gap = "–" if not attack else f"{100 * (least / attack - 1):.3f}%"
        shown = "–" if attack is None else f"{attack:.6g}"
        numbers = f"{before:.6g} | {now:.6g} | {shown} | {gap} | {seconds:.1f}"
        yield f"| {describe(mechanism)} | {mechanism.epsilon:g} | {numbers} |"


def size_table(console: Console) -> Iterator[str]:
    yield (
        f"Other numbers of users, ε0 = 1, δ = {DELTA:g}: the smaller guarantee (`all-crowds` unless marked *) / attack."
    )
    yield ""
    yield "| mechanism | " + " | ".join(f"n = {users:,}" for users in SIZES) + " |"
    yield "|---|" + "---|" * len(SIZES)
    names = {"rappor", "oue", "subset", "harmony", "privset", "sampling-rappor", "privkv", "laplace", "piecewise"}
    chosen = [mechanism for mechanism in instances(1.0) if mechanism.name in names]
    for mechanism in track(chosen, "Sizes", console=console, transient=True):
        cells = []
        for users in SIZES:
            found = row(mechanism, users)
            assert found is not None
            before, now, attack, bound, _ = found
            mark = "" if bound == "all-crowds" else " *"
            cells.append(f"{min(before, now):.6g}{mark} / " + ("–" if attack is None else f"{attack:.6g}"))
        yield f"| {describe(mechanism)} | " + " | ".join(cells) + " |"


def ratio_table(console: Console) -> Iterator[str]:
    yield f"Any ε0-LDP randomizer, n = 10,000, δ = {DELTA:g}; attained by randomized response on 2 or 3 options."
    yield ""
    yield "| ε0 | stronger clones | `all-crowds` | attained |"
    yield "|---|---|---|---|"
    for local in track((0.5, 1.0, 2.0, 3.0), "Any randomizer", console=console, transient=True):
        any_one = sdp.VariationRatio.from_ldp(local)
        older, now = (
            sdp.amplify(any_one, 10_000, bound=bound).epsilon(DELTA).upper for bound in ("stronger-clone", "all-crowds")
        )
        attained = sdp.amplify(sdp.KRR(local, 2 if local < math.log(2) else 3), 10_000).epsilon(DELTA).lower
        yield f"| {local:g} | {older:.6g} | {now:.6g} | {attained:.6g} |"
    yield ""
    yield "Metric privacy: all other users at distance log 50 from the second input, n = 100,000, δ = 1e-7."
    yield ""
    yield "| distance | [MDP] Theorem 1 | clones, exact | variation-ratio | `all-crowds` |"
    yield "|---|---|---|---|---|"
    far = math.log(50)
    for distance in (0.1, 1.0, 3.0):
        sides = [[0.0, distance, distance + far], [distance, 0.0, far], [distance + far, far, 0.0]]
        space = sdp.metric.DistanceMatrix(np.array(sides))
        cells = []
        for name in ("theorem-1", "clone", "variation-ratio", "all-crowds"):
            metric = sdp.metric.AmplifiedMetric(space, 100_000, 1e-7, name)
            cells.append(f"{metric(0, 1).upper:.6g}")
        yield f"| {distance:g} | " + " | ".join(cells) + " |"


def rounds_table(console: Console) -> Iterator[str]:
    yield f"Several rounds: harmony, ε0 = 1, n = 10,000, δ = {DELTA:g}; the curve is composed."
    yield ""
    yield "| rounds | blanket | `all-crowds` |"
    yield "|---|---|---|"
    curves = [sdp.amplify(sdp.Harmony(1.0, 16), 10_000, bound=bound) for bound in ("optimal", "all-crowds")]
    for rounds in track((1, 10, 100, 1000), "Rounds", console=console, transient=True):
        cells = [f"{sdp.compose(curve, rounds).epsilon(DELTA).upper:.5g}" for curve in curves]
        yield f"| {rounds} | " + " | ".join(cells) + " |"


def main() -> None:
    console = Console(stderr=True)
    parts = [list(part(console)) for part in (mechanism_table, size_table, ratio_table, rounds_table)]
    tables = "\n\n".join("\n".join(part) for part in parts)
    before, rest = PAGE.read_text("utf-8").split(START)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{START}\n{tables}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
