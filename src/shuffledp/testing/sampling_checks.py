"""Statistical checks that the messages sent follow the stated law, and checks of their random source and seed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shuffledp._core.validation import Floats
from shuffledp.testing._check_framework import (
    CERTAIN,
    Check,
    conformance_check,
)
from shuffledp.testing._mechanism_case import MechanismCase, require_table

FALSE_ALARM_PROBABILITY = 1e-7
MIN_EXPECTED_COUNT = 5
"""Messages with a smaller expected count are pooled, as the χ² law needs."""
CONFIRMATION_FACTOR = 10
"""Factor by which more messages must confirm a finding of the χ² test, whose law is only approximate for rare messages.
"""


@conformance_check(
    "The messages do not follow the stated law",
    "every guarantee computed from that law is void",
    certainty="statistical, confirmed by fresh messages; a false alarm has probability "
    f"{FALSE_ALARM_PROBABILITY:g} for each input",
    why_not=require_table,
)
def the_messages_follow_the_table(case: MechanismCase) -> Iterator[str]:
    """Checks that the messages of every input fit the table (χ²), and that no other message appears.

    A finding of the χ² test is confirmed by a likelihood-ratio test of fresh messages, whose rate of false alarms is
    proved, not approximate.
    """
    columns = report_columns(case)
    if len(columns) != len(case.table.messages):
        yield "two different messages of the table have the same bytes"
    generator = case.generator()
    for place, row in enumerate(case.rows):
        chances = np.array([float(chance) for chance in row])
        counts, error = count_sent_reports(case, place, case.samples, columns, generator)
        if not error and (counts[chances == 0] != 0).any():
            error = "sent a message that has probability 0"
        if error:
            yield f"input {place} {error}"
        statistic, limit = chi_square(counts, chances * case.samples)
        if not statistic <= limit and _is_confirmed(case, place, columns, chances):
            yield f"for input {place}, χ² is {statistic:.4g} where at most {limit:.4g} was expected"


def _is_confirmed(case: MechanismCase, place: int, columns: dict[bytes, int], chances: Floats) -> bool:
    """Returns True if many more messages of an input, from another seed, do not follow its row either."""
    counts, error = count_sent_reports(case, place, CONFIRMATION_FACTOR * case.samples, columns, case.generator(5))
    return bool(error) or relative_entropy(counts, chances) > relative_entropy_limit(int((chances > 0).sum()))


@conformance_check(
    "encode() without a generator repeats itself",
    "an attacker who knows the seed removes the noise; draw all randomness from the source that randomize() receives",
    certainty="a false alarm has the probability that all of 512 users repeat their messages",
)
def the_system_source_is_the_default(case: MechanismCase) -> Iterator[str]:
    """Checks that two encodings without a generator differ somewhere, so that they do not come from a fixed seed."""
    mechanism = case.mechanism
    values = np.repeat(case.values[:1], 512, axis=0)
    first, second = (mechanism.pack(case.send_messages(values, None)) for _ in range(2))
    if first.shape == second.shape and not (first != second).any():
        yield "512 users of one input sent the same messages twice"


@conformance_check(
    "encode() with the same seed gives other messages",
    "a simulation cannot be repeated, and a collection that is resumed would send two different messages of one user",
    certainty=CERTAIN,
)
def the_same_seed_gives_the_same_messages(case: MechanismCase) -> Iterator[str]:
    """Checks that all randomness comes from the source that ``randomize`` receives."""
    values = np.repeat(case.values[:2], 50, axis=0)
    first, second = (case.mechanism.pack(case.send_messages(values, case.generator(4))) for _ in range(2))
    if first.shape != second.shape or (first != second).any():
        yield f"two encodings of the same {len(values)} values differ"


def report_columns(case: MechanismCase) -> dict[bytes, int]:
    """Returns the index of each of the table's reports by its bytes."""
    messages = case.table.messages
    wire = case.mechanism.pack(case.flatten_reports(messages)).reshape(len(messages), -1)
    return {bytes(row): number for number, row in enumerate(wire)}


def count_sent_reports(
    case: MechanismCase, place: int, users: int, columns: dict[bytes, int], generator: np.random.Generator
) -> tuple[Floats, str]:
    """Returns how often users of one input sent each report of the table, and any other error as text."""
    mechanism, value = case.mechanism, case.table.inputs[place]
    counts = np.zeros(len(case.table.messages))
    messages = mechanism.encode(np.repeat(value[None, ...], users, axis=0), rng=generator)
    if len(messages) != users * mechanism.messages_per_user:
        return counts, f"makes {users} users send {len(messages)} messages"
    unknown = 0
    reports = mechanism.pack(messages).reshape(users, -1)
    for kind, count in zip(*np.unique(reports, axis=0, return_counts=True), strict=True):
        column = columns.get(bytes(kind))
        if column is None:
            unknown += int(count)
        else:
            counts[column] = count
    return counts, f"sent {unknown} messages that are not in the table" if unknown else ""


def chi_square(counts: Floats, expected: Floats) -> tuple[float, float]:
    """Returns the statistic, with rare messages pooled, and the limit that it seldom exceeds."""
    from scipy.stats import chi2

    rare = expected < MIN_EXPECTED_COUNT
    observed = np.append(counts[~rare], counts[rare].sum())
    expected_counts = np.append(expected[~rare], expected[rare].sum())
    is_possible = expected_counts > 0
    statistic = float(
        ((observed[is_possible] - expected_counts[is_possible]) ** 2 / expected_counts[is_possible]).sum()
    )
    return statistic, float(chi2.isf(FALSE_ALARM_PROBABILITY, max(1, int(is_possible.sum()) - 1)))


def relative_entropy(counts: Floats, chances: Floats) -> float:
    """Returns n·KL(empirical law ‖ law), half of the likelihood-ratio statistic; infinity for an impossible message."""
    sent = counts > 0
    if (chances[sent] == 0).any():
        return math.inf
    return float((counts[sent] * np.log(counts[sent] / (counts.sum() * chances[sent]))).sum())


def relative_entropy_limit(kinds: int, alarm: float = FALSE_ALARM_PROBABILITY) -> float:
    """Returns a t with P(n·KL ≥ t) ≤ alarm for every law on so many messages and every n.

    Theorem: Agrawal, Finite-sample concentration of the multinomial in relative entropy (2020): P(n·KL ≥ t) ≤
    e^−t·(e·t/(k−1))^(k−1) for t > k − 1.
    """
    freedom = kinds - 1
    if freedom == 0:
        return 0.0
    high = low = float(freedom)
    while _log_tail(high, freedom) > math.log(alarm):
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_tail(middle, freedom) > math.log(alarm) else (low, middle)
    return high


def _log_tail(t: float, freedom: int) -> float:
    return -t + freedom * (1 + math.log(t / freedom))


SAMPLING_CHECKS: tuple[Check[MechanismCase], ...] = (
    the_messages_follow_the_table,
    the_system_source_is_the_default,
    the_same_seed_gives_the_same_messages,
)
