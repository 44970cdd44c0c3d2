"""Writes docs/tightness.md: for each mechanism, the guarantee, what an attack attains, and the gap between them.

python scripts/tightness.py
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import track

import shuffledp as sdp
from shuffledp.mechanisms.mechanism import Mechanism

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tightness.md"
USERS, DELTA = 10_000, 1e-6
LOCAL = (0.5, 1.0, 3.0)
HEAD = f"""# How tight the numbers are

For each mechanism, at n = {USERS:,} users and δ = {DELTA:g}: the best certified guarantee, the largest ε that a known
attack on a real dataset proves, and the gap. No guarantee can be below the attack. A large gap means that the truth
lies somewhere between: either a better proof or a better attack is missing. The attacks let all others hold one value,
or values drawn from one law; searching over more datasets can only raise them. With two messages (`exact-binary`) all
datasets are searched, so that the gap is only what the search leaves open.

Made by `scripts/tightness.py`.

| mechanism | local ε0 | guaranteed ε | bound | attack attains | gap |
|---|---|---|---|---|---|
"""


def instances(local: float) -> list[Mechanism]:
    return [
        sdp.KRR(local, 2),
        sdp.KRR(local, 16),
        sdp.KRR(local, 128),
        sdp.RAPPOR(local, 128),
        sdp.OUE(local, 128),
        sdp.Subset(local, 128),
        sdp.LocalHash(local, 128),
        sdp.HadamardResponse(local, 100),
        sdp.HadamardResponse(local, 100, 8),
        sdp.Laplace(local),
        sdp.Piecewise(local),
        sdp.Duchi(local, 5),
        sdp.Harmony(local, 16),
        sdp.PrivSet(local, 128, 4),
        sdp.SamplingRAPPOR(local, 128, 4),
        sdp.Wheel(local, 128, 4),
        sdp.Collision(local, 128, 4),
        sdp.PCKV(local, 100, 3),
        sdp.PrivKV(local, 100),
        sdp.RangeQueries(local, 6),
        sdp.RangeQueries(local, 11),
        sdp.PIRAPPOR(local, 100),
        sdp.ProjectiveGeometry(local, 100),
        sdp.WitchHat(local),
        sdp.PlanarLaplace(local),
        sdp.PrivUnitOptimized(local, 64),
        sdp.PrivHS(local, 64),
        sdp.SQKR(local, 64),
    ]


def row(mechanism: Mechanism) -> str:
    value = sdp.amplify(mechanism, USERS).epsilon(DELTA)
    lower = value.lower
    attack = "–" if lower is None else f"{lower:.5g}"
    gap = "–" if not lower else f"{100 * (value.upper / lower - 1):.3g}%"
    settings = {key: text for key, text in mechanism.settings().items() if key != "epsilon" and text is not None}
    name = ", ".join([mechanism.name, *(f"{key} {text}" for key, text in settings.items())])
    return f"| {name} | {mechanism.epsilon:g} | {value.upper:.5g} | {value.bound} | {attack} | {gap} |"


def main() -> None:
    console = Console(stderr=True)
    todo = [mechanism for local in LOCAL for mechanism in instances(local)]
    rows = [row(mechanism) for mechanism in track(todo, "Computing", console=console, transient=True)]
    PAGE.write_text(HEAD + "\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
