"""What a mechanism costs to run, measured on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism

ENOUGH_SECONDS, TELLING_SECONDS, MOST_SECONDS = 0.01, 0.3, 1.0
"""How long encoding must take to be told from nothing, and reading where it grows; and how long it may take at most to
be tried again with more."""
LEAST_SECONDS = 1e-9
MOST_USERS = 1 << 18
SEED = 1
SEAL_BYTES = 48
"""What sealing adds to what is sealed: HPKE's one-time X25519 key of 32 bytes, and the cipher's tag of 16."""


@dataclass(frozen=True)
class Cost:
    """Seconds of one processor: to encode one user, to read one user's messages, and for the estimate at the end."""

    client: float
    reading: float
    finishing: float

    def server(self, users: int) -> float:
        """To read the messages of so many users and make the estimate."""
        return self.reading * users + self.finishing


def sealed_bits(mechanism: Mechanism) -> float:
    """Bits a user where each message is sealed to the analyst, and all of a user's together to the shuffler."""
    sealed = mechanism.messages_per_user * (mechanism.message_bytes + SEAL_BYTES)
    return 8 * (sealed + SEAL_BYTES)


def measure(mechanism: Mechanism, values: Array) -> Cost:
    """Encode and read the messages of a few users, as many as it takes to tell but no more."""
    rng = np.random.default_rng(SEED)
    # The first call pays for what is computed once.
    mechanism.encode(values[:1], rng)
    users = 1
    while True:
        own = np.resize(values, (users, *values.shape[1:]))
        begun = time.process_time()
        messages = mechanism.encode(own, rng)
        encoding = time.process_time() - begun
        if encoding > ENOUGH_SECONDS or users >= MOST_USERS:
            break
        users *= 8
    reading = _reading(mechanism, messages, users)
    total = mechanism.accumulate(messages[: _first(mechanism, 1)])
    begun = time.process_time()
    mechanism.finish(total, 1)
    finishing = time.process_time() - begun
    return Cost(max(encoding / users, LEAST_SECONDS), max(reading, LEAST_SECONDS), finishing)


def _first(mechanism: Mechanism, users: int) -> int:
    """About how many messages so many users send; at least one."""
    return max(1, round(users * mechanism.messages_per_user))


def _reading(mechanism: Mechanism, messages: Array, users: int) -> float:
    """What one user more costs: what a batch costs whatever its size is taken off."""
    read, spent, one = 1, 0.0, 0.0
    while True:
        begun = time.process_time()
        mechanism.accumulate(messages[: _first(mechanism, read)])
        taken = time.process_time() - begun
        spent += taken
        if read == 1:
            one = taken
        # The first messages of a batch may cost more than the others: tables are touched for the first time.
        told = spent > TELLING_SECONDS and taken > 2 * one
        if read == users or told or spent > MOST_SECONDS:
            return taken if read == 1 else (taken - one) / (read - 1)
        read = min(8 * read, users)
