"""Running time and sealed size of a mechanism's messages, the time measured on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shuffledp._core.types import Array
    from shuffledp.mechanisms.base.estimator import Estimator
    from shuffledp.mechanisms.base.mechanism import Mechanism

MIN_ENCODING_SECONDS, MIN_READING_INCREASE_SECONDS, MAX_MEASUREMENT_SECONDS = 0.01, 0.03, 1.0
"""The shortest measurable time of encoding, the shortest measurable increase of the time of reading, and the time
beyond which neither is repeated with more users.
"""
MIN_BATCH_GROWTH, MAX_BATCH_GROWTH = 2, 16
"""The smallest and largest factor by which the number of users grows between measurements of reading."""
MIN_SECONDS = 1e-9
MAX_MEASURED_USERS = 1 << 18
MEASUREMENT_SEED = 1
SEAL_OVERHEAD_BYTES = 48
"""Overhead of sealing: HPKE's one-time X25519 key of 32 bytes, and the cipher's tag of 16."""


@dataclass(frozen=True)
class Cost:
    """Processor time in seconds: to encode one user, to read one user's messages, and for the estimate at the end."""

    encoding_seconds: float
    reading_seconds: float
    finishing_seconds: float

    def server_seconds(self, users: int) -> float:
        """Returns the time to read the messages of ``users`` and compute the estimate."""
        return self.reading_seconds * users + self.finishing_seconds


def sealed_bits(mechanism: Mechanism) -> float:
    """Returns the bits that a user sends if each message is sealed to the analyst, and all together to the shuffler."""
    sealed = mechanism.messages_per_user * (mechanism.message_bytes + SEAL_OVERHEAD_BYTES)
    return 8 * (sealed + SEAL_OVERHEAD_BYTES)


def measure_cost(mechanism: Mechanism, values: Array, reading: Estimator | None = None) -> Cost:
    """Measures encoding and reading the messages of no more users than a reliable measurement needs.

    Messages are read by ``reading``, or by the mechanism's full estimator.
    """
    rng = np.random.default_rng(MEASUREMENT_SEED)
    # The first call includes one-time computations.
    begun = time.process_time()
    messages, users = mechanism.encode(values[:1], rng), 1
    encoding = time.process_time() - begun
    while encoding <= MAX_MEASUREMENT_SECONDS:
        own = np.resize(values, (users, *values.shape[1:]))
        begun = time.process_time()
        messages = mechanism.encode(own, rng)
        encoding = time.process_time() - begun
        if encoding > MIN_ENCODING_SECONDS or users >= MAX_MEASURED_USERS:
            break
        users *= 8
    server = mechanism.estimator if reading is None else reading
    begun = time.process_time()
    total = server.accumulate(messages[: _message_count(mechanism, 1)])
    one = time.process_time() - begun
    each = _measure_reading(mechanism, server, messages, users, one)
    begun = time.process_time()
    server.finish(total, 1)
    finishing = time.process_time() - begun
    return Cost(max(encoding / users, MIN_SECONDS), max(each, MIN_SECONDS), finishing)


def _message_count(mechanism: Mechanism, users: int) -> int:
    """Returns about how many messages ``users`` send; at least one."""
    return max(1, round(users * mechanism.messages_per_user))


def _measure_reading(mechanism: Mechanism, server: Estimator, messages: Array, users: int, one: float) -> float:
    """Measures the time to read one more user: that of a batch less ``one``, the time of a batch with one user.

    Batches grow until they take half as long again as the first one, or too long to go on.
    """
    enough, read, taken = max(one / 2, MIN_READING_INCREASE_SECONDS), 1, one
    while read < users and taken - one <= enough and taken <= MAX_MEASUREMENT_SECONDS:
        more = max(one if read == 1 else taken - one, enough / MAX_BATCH_GROWTH)
        read = min(round(min(max(MIN_BATCH_GROWTH, 1.5 * enough / more), MAX_BATCH_GROWTH) * read), users)
        begun = time.process_time()
        server.accumulate(messages[: _message_count(mechanism, read)])
        taken = time.process_time() - begun
    return one if read == 1 else (taken - one) / (read - 1)
