"""[MDP] Algorithms 1 and 3: local distances for a target, by the paper's corollaries and by certified bounds."""

from __future__ import annotations

import numpy as np

from shuffledp.metric.amplification import amplification_of
from shuffledp.metric.amplified import AmplifiedMetric
from shuffledp.metric.solver import LocalMetricSolver, largest_uniform_distance
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.progress import Progress
from shuffledp.reproduction.sheet import PRINTED, PUBLISHED, SOUND, Chart, Item, Judgement, Sheet

USERS, DELTA = 10_000, 1e-6
LINE = np.array([[0.0], [0.153], [0.306]])
"""Three places whose target is their distance."""
UNIFORM = {"Corollary 2": "corollary-2-uniform", "Corollary 1": "corollary-1", "clones, exact": "clone",
           "variation-ratio": "variation-ratio"}  # fmt: skip


def broken(matrix: np.ndarray) -> float:
    """By how much the longest side exceeds the sum of the other two."""
    return float(max(0.0, matrix[0, 2] - matrix[0, 1] - matrix[1, 2]))


def make(progress: Progress) -> Sheet:
    target = DistanceMatrix.from_points(LINE)
    rows: list[tuple[object, ...]] = []
    equal = {}
    for name, bound in progress.each("largest equal distance", list(UNIFORM.items())):
        equal[name] = largest_uniform_distance(0.306, USERS, DELTA, amplification_of(bound))
        rows.append((f"all equal, target 0.306, by {name}", None, equal[name], None, None))
    outputs = {}
    algorithms = [("Algorithm 1", "corollary-1"), ("Algorithm 3", "corollary-2-uniform")]
    for name, bound in progress.each("solving", algorithms):
        outputs[name] = LocalMetricSolver(target, USERS, DELTA, amplification_of(bound)).solve(diameters=1)[0]
    outputs["ours"] = LocalMetricSolver(target, USERS, DELTA).solve(diameters=1)[0]
    for name, found in outputs.items():
        left = AmplifiedMetric(found.raw, USERS, DELTA).matrix
        for a, b in target.pairs():
            sound = float(found.metric.matrix[a, b])
            what = f"{name}, pair {a}, {b}, target {target.matrix[a, b]:.3f}"
            rows.append((what, None, float(found.raw.matrix[a, b]), sound, float(left[a, b])))
    names = [str(row[0]) for row in rows]
    lines = {
        "raw output": [(float(row[2]), float(i)) for i, row in enumerate(rows)],  # type: ignore[arg-type]
        "a metric, certified": [(float(row[3]), float(i)) for i, row in enumerate(rows) if row[3] is not None],  # type: ignore[arg-type]
    }
    most = max(broken(outputs[name].raw.matrix) for name, _ in algorithms)
    verdicts = [
        Judgement(
            "solver_sizes",
            "If all distances were equal, a target of 0.306 would allow "
            + ", ".join(f"{value:.2f} ({name})" for name, value in equal.items())
            + ".",
            True,
        ),
        Judgement(
            "solver_triangle",
            f"Outputs of the algorithms are no metrics (MD-4): one side of three places on a line is {most:.2f} longer "
            "than the other two together; their shortest paths are, and meet the target too.",
            most < 1e-9,
        ),
    ]
    panel = Chart("Local distances, n = 10,000, δ = 1e-6", "local privacy distance", "", lines, names)
    return Sheet(("what", PRINTED, PUBLISHED, SOUND, "amplified"), rows, verdicts, [panel])


ITEM = Item("mdp-solver", "MDP", "Algorithms 1 and 3", "Local distances for a target", make)
