"""Whether the executed randomizer is the analysed one: statistical tests with a stated rate of false alarms."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shuffledp.array import Floats
from shuffledp.testing.case import Case, with_table
from shuffledp.testing.check import CERTAIN, Check, checks

FALSE_ALARM = 1e-7
ENOUGH = 5
"""Messages that are expected less often are counted together, as the χ² law needs."""
CONFIRMING = 10
"""How many times as many messages must confirm what a χ² test found: where messages are rare its law is only near."""


@checks(
    "The messages do not follow the stated law",
    "every guarantee computed from that law is void",
    certainty=f"statistical, confirmed by fresh messages; a false alarm has probability {FALSE_ALARM:g} for each input",
    why_not=with_table,
)
def the_messages_follow_the_table(case: Case) -> Iterator[str]:
    """The empirical law of the messages fits the table for every input (χ²), and no other message appears.

    What the χ² test finds is confirmed by a likelihood-ratio test of fresh messages, whose rate of false alarms is
    proved, not approximate.
    """
    columns = columns_of(case)
    if len(columns) != len(case.table.messages):
        yield "two different messages of the table have the same bytes"
    generator = case.generator()
    for place, row in enumerate(case.rows):
        chances = np.array([float(chance) for chance in row])
        seen, wrong = draw(case, place, case.samples, columns, generator)
        if not wrong and (seen[chances == 0] != 0).any():
            wrong = "sent a message that has probability 0"
        if wrong:
            yield f"input {place} {wrong}"
        statistic, limit = chi_square(seen, chances * case.samples)
        if not statistic <= limit and _confirmed(case, place, columns, chances):
            yield f"for input {place}, χ² is {statistic:.4g} where at most {limit:.4g} was expected"


def _confirmed(case: Case, place: int, columns: dict[bytes, int], chances: Floats) -> bool:
    """Whether many more messages of an input, from another seed, do not follow its row either."""
    seen, wrong = draw(case, place, CONFIRMING * case.samples, columns, case.generator(5))
    return bool(wrong) or relative_entropy(seen, chances) > most_relative_entropy(int((chances > 0).sum()))


@checks(
    "encode() without a generator repeats itself",
    "whoever knows the seed removes the noise; leave randomness to the source that randomize() is given",
    certainty="a false alarm has the probability that all of 512 users repeat their messages",
)
def the_system_source_is_the_default(case: Case) -> Iterator[str]:
    """Two encodings without a generator differ somewhere: they do not come from a fixed seed."""
    mechanism = case.mechanism
    values = np.repeat(case.values[:1], 512, axis=0)
    first, second = (mechanism.pack(case.sent(values, None)) for _ in range(2))
    if first.shape == second.shape and not (first != second).any():
        yield "512 users of one input sent the same messages twice"


@checks(
    "encode() with the same seed gives other messages",
    "a simulation cannot be repeated, and a collection that is resumed would send two different messages of one user",
    certainty=CERTAIN,
)
def the_same_seed_gives_the_same_messages(case: Case) -> Iterator[str]:
    """All randomness comes from the source that ``randomize`` is given."""
    values = np.repeat(case.values[:2], 50, axis=0)
    first, second = (case.mechanism.pack(case.sent(values, case.generator(4))) for _ in range(2))
    if first.shape != second.shape or (first != second).any():
        yield f"two encodings of the same {len(values)} values differ"


def columns_of(case: Case) -> dict[bytes, int]:
    """The place of each of the table's reports by its bytes."""
    messages = case.table.messages
    wire = case.mechanism.pack(case.as_messages(messages)).reshape(len(messages), -1)
    return {bytes(row): number for number, row in enumerate(wire)}


def draw(
    case: Case, place: int, users: int, columns: dict[bytes, int], generator: np.random.Generator
) -> tuple[Floats, str]:
    """How often users of one input sent each report of the table, and what is wrong besides, if anything."""
    mechanism, value = case.mechanism, case.table.inputs[place]
    seen = np.zeros(len(case.table.messages))
    messages = mechanism.encode(np.repeat(value[None, ...], users, axis=0), rng=generator)
    if len(messages) != users * mechanism.messages_per_user:
        return seen, f"makes {users} users send {len(messages)} messages"
    strange = 0
    reports = mechanism.pack(messages).reshape(users, -1)
    for kind, count in zip(*np.unique(reports, axis=0, return_counts=True), strict=True):
        column = columns.get(bytes(kind))
        if column is None:
            strange += int(count)
        else:
            seen[column] = count
    return seen, f"sent {strange} messages that are not in the table" if strange else ""


def chi_square(seen: Floats, expected: Floats) -> tuple[float, float]:
    """The statistic, with rare messages counted together, and the limit that it seldom exceeds."""
    from scipy.stats import chi2

    rare = expected < ENOUGH
    observed = np.append(seen[~rare], seen[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 0
    statistic = float(((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum())
    return statistic, float(chi2.isf(FALSE_ALARM, max(1, int(keep.sum()) - 1)))


def relative_entropy(seen: Floats, chances: Floats) -> float:
    """n·KL(empirical law ‖ law), half of the likelihood-ratio statistic; infinite where the law never sends it."""
    sent = seen > 0
    if (chances[sent] == 0).any():
        return math.inf
    return float((seen[sent] * np.log(seen[sent] / (seen.sum() * chances[sent]))).sum())


def most_relative_entropy(kinds: int, alarm: float = FALSE_ALARM) -> float:
    """A t with P(n·KL ≥ t) ≤ alarm for every law on so many messages and every n.

    Theorem: Agrawal, Finite-sample concentration of the multinomial in relative entropy (2020):
    P(n·KL ≥ t) ≤ e^−t·(e·t/(k−1))^(k−1) for t > k − 1.
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


SAMPLING_CHECKS: tuple[Check[Case], ...] = (
    the_messages_follow_the_table,
    the_system_source_is_the_default,
    the_same_seed_gives_the_same_messages,
)
