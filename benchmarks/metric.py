"""The local-metric solver: searched in floats and proved at the end, against a certified value at every step.

Processor time, both in one run, on random points of the unit square with a largest target of 0.306. Both answers are
compared distance by distance.

    .venv/bin/python benchmarks/metric.py [--points 9] [--diameters 2] [--users 1e4] [--delta 1e-6] [--alone]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import astuple

import numpy as np

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.bounds.metric_amplification import MetricVariationRatio, PairDistanceArrays
from shuffledp.privacy.metric_space import PairDistances

TARGET = 0.306


class EveryStepProved(MetricVariationRatio):
    """The same bound with its certified excess in the place of each estimate."""

    def estimate_excesses(self, pairs: PairDistanceArrays, users: int, delta: float, targets: Floats) -> Floats:
        rows = zip(*(column.tolist() for column in astuple(pairs)), targets.tolist(), strict=True)
        return np.array([self.excess(PairDistances(*row[:-1]), users, delta, row[-1]) for row in rows])


def target(points: int, seed: int) -> sdp.metric.DistanceMatrix:
    space = sdp.metric.DistanceMatrix.from_points(np.random.default_rng(seed).random((points, 2)))
    return sdp.metric.DistanceMatrix(space.matrix * (TARGET / space.diameter))


def timed(solver: sdp.metric.LocalMetricSolver, diameters: int) -> tuple[list[sdp.metric.LocalMetric], float]:
    begun = time.process_time()
    found = solver.solve(diameters)
    return found, time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=9)
    parser.add_argument("--diameters", type=int, default=2)
    parser.add_argument("--users", type=float, default=1e4)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--alone", action="store_true", help="Do not solve with a certified value at every step.")
    given = parser.parse_args()
    goal = target(given.points, given.seed)
    solver = sdp.metric.LocalMetricSolver(goal, int(given.users), given.delta)
    found, seconds = timed(solver, given.diameters)
    print(f"{given.points} points, {given.diameters} diameters: {seconds:.2f} s, {len(found)} answers")
    if given.alone:
        return
    slow = sdp.metric.LocalMetricSolver(goal, int(given.users), given.delta, EveryStepProved())
    proved, slowly = timed(slow, given.diameters)
    print(f"a certified value at every step: {slowly:.2f} s, {slowly / seconds:.0f} times as long")
    for ours, theirs in zip(found, proved, strict=True):
        off = ~np.eye(given.points, dtype=bool)
        ratio = ours.metric.matrix[off] / theirs.metric.matrix[off]
        print(f"  distances, ours over theirs: from {ratio.min():.4f} to {ratio.max():.4f}, mean {ratio.mean():.4f}")


if __name__ == "__main__":
    main()
