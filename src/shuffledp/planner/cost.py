"""What a mechanism costs to run, measured on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from shuffledp.mechanisms.mechanism import Array, Mechanism

ENOUGH_SECONDS, MOST_SECONDS = 0.01, 0.1
"""How long a batch must take to be told from nothing; and with a few users only, at most."""
LEAST_SECONDS = 1e-9
LEAST_USERS = 64
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
    mechanism.finish(mechanism.accumulate(mechanism.encode(values[:1], rng)), 1)
    few, before = 1, (0, 0.0, 0.0)
    while True:
        own = np.resize(values, (few, *values.shape[1:]))
        begun = time.process_time()
        messages = mechanism.encode(own, rng)
        encoded = time.process_time()
        total = mechanism.accumulate(messages)
        read = time.process_time()
        spent = (few, encoded - begun, read - encoded)
        if read - begun > (ENOUGH_SECONDS if few >= LEAST_USERS else MOST_SECONDS) or few >= MOST_USERS:
            break
        few, before = few * 8, spent
    mechanism.finish(total, few)
    finished = time.process_time()
    # What the first of a batch costs more is not what one user more costs.
    client, reading = ((after - first) / (few - before[0]) for after, first in zip(spent[1:], before[1:], strict=True))
    return Cost(max(client, LEAST_SECONDS), max(reading, LEAST_SECONDS), finished - read)
