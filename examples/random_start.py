"""Gradient descent from a random start: the first noisy step by [FDP] Theorem 5.1, then ordinary noisy steps.

    python examples/random_start.py [--steps K] [--noise S] [--seed N]

A trusted server holds all records and publishes every model. In a logistic regression with one feature in [−1, 1], one
record's gradient is at most 1, and at most σ(|I|) at the start I. See docs/learning.md.

This is a demonstration in floats. Without --seed, numpy's generator is seeded by the operating system.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from flights import CLIENTS, Flights, departures, rounded_up
from scipy.special import expit, log_expit

import shuffledp as sdp
from shuffledp.tradeoff import GaussianTradeOff, Logistic, NoisyStep

DELTA = 1e-6
LIMIT = 1.0
"""Largest absolute value of a feature."""
RATE = 8.0 / CLIENTS
"""Public learning rate: a constant that does not depend on the actual number of records."""


def from_random_start(steps: int, noise: float) -> sdp.PrivacyCurve:
    """Returns the privacy curve of all steps, for a record that is present or absent."""
    first = sdp.privacy_curve(NoisyStep(Logistic(LIMIT), noise).guaranteed_curve())
    later = sdp.privacy_curve(GaussianTradeOff(LIMIT / noise))
    return sdp.compose([first, *[later] * (steps - 1)])


def from_fixed_start(steps: int, noise: float) -> sdp.PrivacyCurve:
    """Returns the same if the first step is an ordinary noisy step."""
    return sdp.compose(sdp.privacy_curve(GaussianTradeOff(LIMIT / noise)), steps)


def descend(records: Flights, steps: int, noise: float, rng: np.random.Generator) -> float:
    """Returns the last model, one number; everybody may see each step."""
    feature = records.features[:, 0]
    model = float(rng.standard_normal())
    for _ in range(steps):
        gradient = float((expit(feature * model) - records.late) @ feature)
        model -= RATE * (gradient + noise * float(rng.standard_normal()))
    return model


def loss(records: Flights, model: float) -> float:
    """Returns the mean logistic loss; it is 0.6931 for the constant model 0."""
    return float(-np.mean(log_expit((2 * records.late - 1) * records.features[:, 0] * model)))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--noise", type=float, default=200.0, help="standard deviation, in gradients of one record")
    parser.add_argument("--seed", type=int, help="for a run that can be repeated; no privacy")
    asked = parser.parse_args(arguments)

    records, others = departures()
    start = from_random_start(asked.steps, asked.noise).epsilon(DELTA).upper
    fixed = from_fixed_start(asked.steps, asked.noise).epsilon(DELTA).upper
    rng = [np.random.default_rng(asked.seed) for _ in range(3)]
    begun, exact = descend(records, 0, 0.0, rng[0]), descend(records, asked.steps, 0.0, rng[1])
    private = descend(records, asked.steps, asked.noise, rng[2])
    print(f"records            {len(records.late):,}; steps {asked.steps}; noise {asked.noise:g}")
    print(f"ε of all steps     {rounded_up(start)} at δ = {DELTA:g}, for a record that is there or not")
    print(f"  fixed start      {rounded_up(fixed)}")
    print(f"loss on {len(others.late):,} other flights")
    for name, model in (("start", begun), ("no privacy", exact), ("private", private)):
        print(f"  {name:<16} {loss(others, model):.4f}")


if __name__ == "__main__":
    main()
