"""What a mechanism costs to run, measured on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shuffledp.array import Array
    from shuffledp.mechanisms.mechanism import Mechanism
    from shuffledp.mechanisms.parts.reading import Reading

ENOUGH_SECONDS, TELLING_SECONDS, MOST_SECONDS = 0.01, 0.03, 1.0
"""How long encoding must take to be told from nothing, and reading beyond its first message; and how long either may
take to be tried again with more."""
SHORT_STEP, LONG_STEP = 2, 16
"""How many times as many users are read next, at least and at most."""
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


def measure(mechanism: Mechanism, values: Array, reading: Reading | None = None) -> Cost:
    """Encode and read the messages of a few users, as many as it takes to tell but no more.

    They are read as ``reading`` says, or all of them for everything.
    """
    rng = np.random.default_rng(SEED)
    # The first call pays for what is computed once.
    begun = time.process_time()
    messages, users = mechanism.encode(values[:1], rng), 1
    encoding = time.process_time() - begun
    while encoding <= MOST_SECONDS:
        own = np.resize(values, (users, *values.shape[1:]))
        begun = time.process_time()
        messages = mechanism.encode(own, rng)
        encoding = time.process_time() - begun
        if encoding > ENOUGH_SECONDS or users >= MOST_USERS:
            break
        users *= 8
    server = mechanism.reading if reading is None else reading
    begun = time.process_time()
    total = server.accumulate(messages[: _first(mechanism, 1)])
    one = time.process_time() - begun
    each = _reading(mechanism, server, messages, users, one)
    begun = time.process_time()
    server.finish(total, 1)
    finishing = time.process_time() - begun
    return Cost(max(encoding / users, LEAST_SECONDS), max(each, LEAST_SECONDS), finishing)


def _first(mechanism: Mechanism, users: int) -> int:
    """About how many messages so many users send; at least one."""
    return max(1, round(users * mechanism.messages_per_user))


def _reading(mechanism: Mechanism, server: Reading, messages: Array, users: int, one: float) -> float:
    """What one user more costs: what a batch costs whatever its size, ``one`` where it is of one user, is taken off.

    Batches grow until they take half as long again as the first one took, or too long to go on.
    """
    enough, read, taken = max(one / 2, TELLING_SECONDS), 1, one
    while read < users and taken - one <= enough and taken <= MOST_SECONDS:
        more = max(one if read == 1 else taken - one, enough / LONG_STEP)
        read = min(round(min(max(SHORT_STEP, 1.5 * enough / more), LONG_STEP) * read), users)
        begun = time.process_time()
        server.accumulate(messages[: _first(mechanism, read)])
        taken = time.process_time() - begun
    return one if read == 1 else (taken - one) / (read - 1)
