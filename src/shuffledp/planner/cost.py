"""What a mechanism costs to run, measured on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from shuffledp.mechanisms.mechanism import Array, Mechanism

ENOUGH_SECONDS, MOST_SECONDS = 0.01, 0.1
"""How long encoding must take to be told from nothing; and how long reading may take to be tried again."""
LEAST_SECONDS = 1e-9
MOST_USERS = 1 << 12
SEED = 1


@dataclass(frozen=True)
class Cost:
    """Seconds of one processor: to encode one user, to read one user's messages, and for the estimate at the end."""

    client: float
    reading: float
    finishing: float

    def server(self, users: int) -> float:
        """To read the messages of so many users and make the estimate."""
        return self.reading * users + self.finishing


def measure(mechanism: Mechanism, values: Array) -> Cost:
    """Encode and read the messages of a few users, more of them until it takes long enough to tell."""
    rng = np.random.default_rng(SEED)
    # The first call pays for what is computed once.
    one = mechanism.encode(values[:1], rng)
    few = 1
    while True:
        own = np.resize(values, (few, *values.shape[1:]))
        begun = time.process_time()
        messages = mechanism.encode(own, rng)
        encoding = time.process_time() - begun
        if encoding > ENOUGH_SECONDS or few >= MOST_USERS:
            break
        few *= 8
    begun = time.process_time()
    total = mechanism.accumulate(messages)
    read = time.process_time()
    mechanism.finish(total, few)
    finishing = time.process_time() - read
    return Cost(max(encoding / few, LEAST_SECONDS), _reading(mechanism, one, read - begun, few), finishing)


def _reading(mechanism: Mechanism, one: Array, together: float, few: int) -> float:
    """What one user more costs: what a batch costs whatever its size is taken off, unless it is long to find out."""
    if few == 1 or together > MOST_SECONDS:
        return max(together / few, LEAST_SECONDS)
    begun = time.process_time()
    mechanism.accumulate(one)
    return max((together - (time.process_time() - begun)) / (few - 1), LEAST_SECONDS)
