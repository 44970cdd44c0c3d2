"""Writes docs/tightness.md: for each mechanism the guarantee, an attack's ε, and the gap between them.

python scripts/tightness.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

import shuffledp as sdp
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.numerics.worst_case_positive_part import chi_squared_distances

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tightness.md"
USERS, DELTA = 10_000, 1e-6
LOCAL = (0.5, 1.0, 3.0)
MIN_SHOWN_GAP = 1e-4
MAX_GAP = 0.5
"""Largest gap in percent that is left without an explanation."""
NONE = "–"
HEAD = f"""# How tight the numbers are

The table compares three numbers for each mechanism, at n = {USERS:,} users and δ = {DELTA:g}:

- *quick bounds*: the smallest certified guarantee of the quick bounds; the next column names the bound;
- *`all-crowds`*: the certified guarantee of the worst-dataset bound ([crowds.md](crowds.md));
- *attack*: the largest ε that a known attack on a constructed dataset proves. In these attacks all other users hold one
  value, or values drawn from one law.

*Gap* is the distance of the smaller guarantee from the attack. No guarantee can be below the attack. A large gap means
that the truth lies somewhere between: a better proof or a better attack is missing. The list below the table explains
every gap above {MAX_GAP:g}% and every missing attack.

χ\\* determines ε if there are many users: χ\\*² is the maximum over x0, x1, x of Σ_y (R_x0−R_x1)²/R_x, and in the
limit a shuffled round is Gaussian with μ = χ\\*/√n. It is given where a mechanism lists every law of other users. Where
this list is larger than it must be, the number is an upper bound.

Written by `scripts/tightness.py`.

| mechanism | local ε0 | quick bounds | bound | `all-crowds` | attack | gap | χ\\* |
|---|---|---|---|---|---|---|---|
"""
REASONS = {
    "wheel": (
        "the hash is a polynomial of degree s. If the points of two users have the same sums of powers below s, the "
        "law of their arcs is known exactly. With a third user's arcs it is not, so in the attack all other users hold "
        "what user 1 may hold. An earlier simulation with a third set gave 0.0102, 0.0245 and 0.147. The guarantee "
        "treats a user's arcs as if they were disjoint, and allows regions of every kind."
    ),
    "collision": (
        "the guarantee is loose for the same reason as for `wheel`. At ε0 ≥ 1 the seeds are too short for all points "
        "of three users to be independent, so the attack leaves out one of the four points of the second and of the "
        "third user."
    ),
    "witch-hat": (
        "other users are grouped into bins of their positions, and each bin is represented by what all its positions "
        "have in common. A computation in floats, with 64 steps and no bins, gave 0.10853 at ε0 = 3."
    ),
    "privunit-optimized": (
        "there is no attack, because points that are computed in floats and noised have no law that is known exactly. "
        "For ideal points, exact triples of caps attain 0.015437, 0.034830 and 0.195084."
    ),
    "sqkr": "the guarantee allows every coefficient to have the largest size at once. See below.",
}
"""Reason for the gap of each mechanism that has one."""
NOTES = "## SQKR"
"""Heading at which the handwritten part of the page begins."""


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


def describe(mechanism: Mechanism) -> str:
    """Returns the name and the settings, without the local ε."""
    settings = {key: text for key, text in mechanism.settings().items() if key != "epsilon" and text is not None}
    return ", ".join([mechanism.name, *(f"{key} {text}" for key, text in settings.items())])


def chi(mechanism: Mechanism) -> str:
    """Returns χ* if the laws of other users are stated."""
    distances = [float(chi_squared_distances(others.probabilities).max()) for others in mechanism.other_users()]
    return f"{math.sqrt(max(distances)):.5g}" if distances else NONE


def worst_dataset_epsilon(mechanism: Mechanism) -> float | None:
    try:
        return sdp.amplify(mechanism, USERS, bound="all-crowds").epsilon(DELTA).upper
    except sdp.NotApplicable:
        return None


def row(mechanism: Mechanism) -> tuple[str, float | None]:
    """Returns a line of the table and the gap in percent; None if no attack is known."""
    quick, worst = sdp.amplify(mechanism, USERS, effort="quick").epsilon(DELTA), worst_dataset_epsilon(mechanism)
    least, lower = min(quick.upper, worst or math.inf), quick.lower
    gap = None if not lower else 100 * (least / lower - 1)
    numbers = [f"{quick.upper:.5g}", quick.bound, NONE if worst is None else f"{worst:.5g}"]
    numbers += [NONE if lower is None else f"{lower:.5g}", NONE if gap is None else format_gap(gap), chi(mechanism)]
    return f"| {describe(mechanism)} | {mechanism.epsilon:g} | " + " | ".join(numbers) + " |", gap


def format_gap(gap: float) -> str:
    """Returns a gap in percent; below one millionth it is what rounding leaves."""
    return f"{gap:.3g}%" if gap >= MIN_SHOWN_GAP else f"<{MIN_SHOWN_GAP:f}".rstrip("0") + "%"


def explain_gaps(gaps: Sequence[tuple[str, float | None]]) -> list[str]:
    """Returns a sentence for each mechanism with a gap or without an attack."""
    names = dict.fromkeys(name for name, gap in gaps if gap is None or gap > MAX_GAP)
    if missing := [name for name in names if name not in REASONS]:
        raise SystemExit(f"no attack, or a gap above {MAX_GAP:g}%: add a sentence to REASONS for {', '.join(missing)}.")
    return [f"- `{name}`: {REASONS[name]}" for name in names]


def main() -> None:
    console = Console(stderr=True)
    todo = [mechanism for local in LOCAL for mechanism in instances(local)]
    rows = [row(mechanism) for mechanism in track(todo, "Computing", console=console, transient=True)]
    explanations = explain_gaps([(mechanism.name, gap) for mechanism, (_, gap) in zip(todo, rows, strict=True)])
    reasons = ["", "## Remaining gaps", "", *explanations]
    after = PAGE.read_text("utf-8").partition(NOTES)
    PAGE.write_text(HEAD + "\n".join([*(line for line, _ in rows), *reasons]) + "\n\n" + "".join(after[1:]), "utf-8")


if __name__ == "__main__":
    main()
