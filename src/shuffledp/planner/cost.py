"""What a mechanism costs to run, measured on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from shuffledp.mechanisms.mechanism import Array, Mechanism

ENOUGH_SECONDS = 0.01
MOST_USERS = 1 << 12
SEED = 1


@dataclass(frozen=True)
class Cost:
    """Seconds of one processor: a client's for its messages, the server's for all messages and the estimate."""

    client: float
    server: float


def measure(mechanism: Mechanism, values: Array, users: int) -> Cost:
    """Encode and read the messages of a few users, more of them until it takes long enough to tell."""
    rng = np.random.default_rng(SEED)
    # The first call pays for what is computed once.
    mechanism.finish(mechanism.accumulate(mechanism.encode(values[:1], rng)), 1)
    few = 1
    while True:
        own = np.resize(values, (few, *values.shape[1:]))
        begun = time.perf_counter()
        messages = mechanism.encode(own, rng)
        encoded = time.perf_counter()
        total = mechanism.accumulate(messages)
        read = time.perf_counter()
        if read - begun > ENOUGH_SECONDS or few >= MOST_USERS:
            break
        few *= 8
    mechanism.finish(total, few)
    finished = time.perf_counter()
    return Cost((encoded - begun) / few, (read - encoded) / few * users + finished - read)
