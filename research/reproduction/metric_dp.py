"""[MDP]: bounds on an amplified distance, and local distances for a target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from research.reproduction.sheets_and_charts import (
    ATTACK,
    PRINTED,
    PUBLISHED,
    SOUND,
    Chart,
    ClaimVerdict,
    ReproducedItem,
    Sheet,
)
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.bounds.compare_metric import lower_bound
from shuffledp.bounds.local_metric_solver import LocalMetricSolver, largest_uniform_distance
from shuffledp.bounds.metric_amplification import AmplifiedMetric, find_amplification
from shuffledp.privacy.metric_space import DistanceMatrix

# --- Figure 13: an amplified distance as the other inputs move away ---

FIGURE_13_USERS = (1_000, 100_000)
DISTANCES = (0.1, 1.0, 3.0, 5.0)
MIN_CLONE_SUM_FACTOR, MAX_CLONE_SUM = 1.05, 1000.0
"""Range of the clone sum: from MIN_CLONE_SUM_FACTOR·(e^D(a,b) + 1) to MAX_CLONE_SUM."""
POINTS_PER_LINE = 5
PUBLISHED_BOUNDS = {"Theorem 1": "theorem-1", "Corollary 1": "corollary-1", "Corollary 2": "corollary-2"}
COLUMNS = ("users", "distance", "clone_sum", *PUBLISHED_BOUNDS, "clones, exact", SOUND, ATTACK)


def triangle_matrix(distance: float, clones: float) -> DistanceMatrix:
    """Returns points a, b and c with D(a,c) = D(b,c) + D(a,b) and e^D(a,c) + e^D(b,c) = ``clones``."""
    far = math.log(clones / (math.exp(distance) + 1))
    return DistanceMatrix(np.array([[0.0, distance, distance + far], [distance, 0.0, far], [distance + far, far, 0.0]]))


def figure_13_row(users: int, distance: float, clones: float) -> tuple[Any, ...]:
    space, delta = triangle_matrix(distance, clones), 0.01 / users
    bounds = (*PUBLISHED_BOUNDS.values(), "clone", "variation-ratio")
    numbers = [AmplifiedMetric(space, users, delta, bound)(0, 1).upper for bound in bounds]
    return (users, distance, clones, *numbers, lower_bound(space, 0, 1, users, delta))


def make_figure_13(progress: Progress) -> Sheet:
    settings = []
    for users in FIGURE_13_USERS:
        for distance in DISTANCES:
            least = MIN_CLONE_SUM_FACTOR * (math.exp(distance) + 1)
            step = (MAX_CLONE_SUM / least) ** (1 / (POINTS_PER_LINE - 1))
            settings += [(users, distance, least * step**place) for place in range(POINTS_PER_LINE)]
    rows = [figure_13_row(*one) for one in progress.track("Figure 13", settings)]
    panels = []
    for users in FIGURE_13_USERS:
        for distance in DISTANCES:
            mine = [one for one in rows if one[:2] == (users, distance)]
            lines = {name: [(one[2], one[place]) for one in mine] for place, name in enumerate(COLUMNS) if place >= 3}
            title = f"n = {users:,}, D(a,b) = {distance:g}"
            panels.append(Chart(title, "e^D(a,c) + e^D(b,c)", "distance after shuffling", lines, log="xy"))
    below = [one for one in rows if one[-1] > min(one[3:8]) * (1 + 1e-9)]
    gaps = [one[7] / one[8] for one in rows]
    loose = [one[3] / one[8] for one in rows]
    verdicts = [
        ClaimVerdict("metric_order", f"All bounds are above the lower bound at {len(rows)} points.", not below),
        ClaimVerdict(
            "metric_gap",
            f"Theorem 1 is {min(loose):.2f} to {max(loose):.1f} times the lower bound; certified distances are "
            f"{min(gaps):.3f} to {max(gaps):.2f} times it.",
            True,
        ),
    ]
    return Sheet(COLUMNS, rows, verdicts, panels)


FIGURE_13 = ReproducedItem(
    "mdp-figure-13", "MDP", "Figure 13", "Upper and lower bounds of an amplified distance", make_figure_13
)


# --- Algorithms 1 and 3: local distances by the paper's corollaries and by certified bounds ---

USERS, DELTA = 10_000, 1e-6
LINE_POINTS = np.array([[0.0], [0.153], [0.306]])
"""Three points on a line; the target metric is their distance."""
UNIFORM_BOUNDS = {"Corollary 2": "corollary-2-uniform", "Corollary 1": "corollary-1", "clones, exact": "clone",
           "variation-ratio": "variation-ratio"}  # fmt: skip


def triangle_excess(matrix: np.ndarray) -> float:
    """Returns the excess of the longest side over the sum of the other two."""
    return float(max(0.0, matrix[0, 2] - matrix[0, 1] - matrix[1, 2]))


def make_solver(progress: Progress) -> Sheet:
    target = DistanceMatrix.from_points(LINE_POINTS)
    rows: list[tuple[object, ...]] = []
    equal = {}
    for name, bound in progress.track("largest equal distance", list(UNIFORM_BOUNDS.items())):
        equal[name] = largest_uniform_distance(0.306, USERS, DELTA, find_amplification(bound))
        rows.append((f"all equal, target 0.306, by {name}", None, equal[name], None, None))
    outputs = {}
    algorithms = [("Algorithm 1", "corollary-1"), ("Algorithm 3", "corollary-2-uniform")]
    for name, bound in progress.track("solving", algorithms):
        outputs[name] = LocalMetricSolver(target, USERS, DELTA, find_amplification(bound)).solve(diameters=1)[0]
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
    most = max(triangle_excess(outputs[name].raw.matrix) for name, _ in algorithms)
    verdicts = [
        ClaimVerdict(
            "solver_sizes",
            "If all distances were equal, a target of 0.306 would allow "
            + ", ".join(f"{value:.2f} ({name})" for name, value in equal.items())
            + ".",
            True,
        ),
        ClaimVerdict(
            "solver_triangle",
            f"Outputs of the algorithms are no metrics (MD-4): one side of three places on a line is {most:.2f} longer "
            "than the other two together; their shortest paths are, and meet the target too.",
            most < 1e-9,
        ),
    ]
    panel = Chart("Local distances, n = 10,000, δ = 1e-6", "local privacy distance", "", lines, names)
    return Sheet(("what", PRINTED, PUBLISHED, SOUND, "amplified"), rows, verdicts, [panel])


SOLVER = ReproducedItem("mdp-solver", "MDP", "Algorithms 1 and 3", "Local distances for a target", make_solver)
