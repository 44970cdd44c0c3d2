"""Shuffled federated SGD: logistic regression that learns from clients who send one randomized gradient at a time.

    python examples/shuffled_sgd.py [--clients n] [--rounds K] [--epsilon-local E] [--compressed] [--seed S]

In each round n of N clients are drawn secretly and anew. Each clips its gradient to the unit ball and randomizes it; a
shuffler mixes the messages; the server averages the unbiased estimates and takes a step. See docs/learning.md.

Without --seed all randomness comes from the operating system. A run with a seed is repeatable and not private.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from flights import FEATURES, Flights, Floats, flights, rounded_up
from scipy.special import expit

import shuffledp as sdp

DELTA = 1e-6
RATE = 4.0
LOWER_RATES = (1.0, 0.25)
"""Learning rates of the model without a shuffler; the best one is used, because more noise needs smaller steps."""


@dataclass
class Chance:
    """Randomness of the sampling and of the message order, and of the noise (None: from the operating system)."""

    drawing: random.Random
    noise: np.random.Generator | None

    @classmethod
    def of(cls, seed: int | None) -> Chance:
        if seed is None:
            return cls(random.SystemRandom(), None)
        return cls(random.Random(seed), np.random.default_rng(seed))

    def some(self, people: int, size: int) -> list[int]:
        """Returns ``size`` people drawn without replacement, in random order."""
        return self.drawing.sample(range(people), size)


def gradients(clients: Flights, drawn: Sequence[int], model: Floats) -> Floats:
    """Returns the gradients of the logistic loss, one per client, clipped to the unit ball."""
    features = clients.features[drawn]
    found = (expit(features @ model) - clients.late[drawn])[:, None] * features
    return found / np.maximum(1.0, np.linalg.norm(found, axis=1))[:, None]


def mean_of(values: Floats, mechanism: sdp.Mechanism | None, chance: Chance) -> Floats:
    """Returns the server's estimate of the mean gradient; without a mechanism it is exact."""
    if mechanism is None:
        return np.asarray(values.mean(axis=0))
    messages = mechanism.encode(values, chance.noise)
    shuffled = messages[chance.some(len(messages), len(messages))]
    return np.asarray(mechanism.estimate(shuffled).value)


def learn(
    clients: Flights,
    rounds: Iterator[list[int]],
    mechanism: sdp.Mechanism | None,
    chance: Chance,
    rate: float = RATE,
) -> Floats:
    """Returns the mean of the models of the second half of the rounds."""
    model, models = np.zeros(FEATURES), []
    for drawn in rounds:
        model = model - rate * mean_of(gradients(clients, drawn, model), mechanism, chance)
        models.append(model)
    return np.asarray(np.mean(models[len(models) // 2 :], axis=0))


def drawn_anew(schedule: sdp.Participation, chance: Chance) -> Iterator[list[int]]:
    """Yields the clients of each round of the schedule."""
    assert schedule.of is not None
    for _ in range(schedule.rounds):
        yield chance.some(schedule.of, schedule.expected_users)


def each_once(clients: int, size: int, chance: Chance) -> Iterator[list[int]]:
    """Yields rounds of this size while there are clients left; nobody takes part twice."""
    order = chance.some(clients, clients)
    for start in range(0, clients - size + 1, size):
        yield order[start : start + size]


def without_shuffler(clients: Flights, others: Flights, size: int, epsilon: float, seed: int | None) -> float:
    """Returns the best accuracy without a shuffler: each client sends one message with local ε."""
    mechanism = sdp.PrivUnitOptimized(epsilon, FEATURES)
    found = []
    for rate in LOWER_RATES:
        chance = Chance.of(seed)
        rounds = each_once(len(clients.late), size, chance)
        found.append(others.accuracy(learn(clients, rounds, mechanism, chance, rate)))
    return max(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=5_000, help="drawn in each round")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epsilon-local", type=float, default=4.0)
    parser.add_argument("--compressed", action="store_true", help="send a seed of 128 bits for each gradient")
    parser.add_argument("--seed", type=int, help="for a run that can be repeated; no privacy")
    asked = parser.parse_args(arguments)

    clients, others = flights()
    schedule = sdp.Participation(users=asked.clients, of=len(clients.late), rounds=asked.rounds)
    mechanism: sdp.Mechanism = sdp.PrivUnitOptimized(asked.epsilon_local, FEATURES)
    if asked.compressed:
        mechanism = sdp.Compressed(sdp.PrivUnitG(asked.epsilon_local, FEATURES), prg="shake128")
    curve = schedule.curve(mechanism, effort="quick")
    secret = curve.epsilon(DELTA).upper
    known = schedule.disclosed_sample_curve(mechanism, effort="quick").epsilon(DELTA).upper

    print(f"clients            {schedule.describe()}; {schedule.rounds} rounds")
    print(f"a message          local ε {asked.epsilon_local:g}, {FEATURES} numbers in {mechanism.message_bits} bits")
    print(f"ε of all rounds    {rounded_up(secret)} at δ = {DELTA:g}; holds only if nobody learns who was drawn")
    print(f"  if it is known   {rounded_up(known)} for a client who is drawn every time")
    print(f"  no shuffler      {asked.rounds * asked.epsilon_local:g} for such a client, with the same model")
    if curve.note:
        print(f"  note             {curve.note}")
    chance = Chance.of(asked.seed)
    exact = others.accuracy(learn(clients, drawn_anew(schedule, chance), None, chance))
    chance = Chance.of(asked.seed)
    shuffled = others.accuracy(learn(clients, drawn_anew(schedule, chance), mechanism, chance))
    alone = without_shuffler(clients, others, schedule.expected_users, secret, asked.seed)
    print(f"accuracy on {len(others.late):,} other flights")
    print(f"  always in time   {1 - others.late.mean():.3f}")
    print(f"  no privacy       {exact:.3f}")
    print(f"  shuffled         {shuffled:.3f}")
    print(f"  local, same ε    {alone:.3f}")


if __name__ == "__main__":
    main()
