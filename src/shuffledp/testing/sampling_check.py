"""Whether the executed randomizer is the analysed one: statistical tests with a stated rate of false alarms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.testing.case import Case, with_table
from shuffledp.testing.check import CERTAIN, Check, checks

FALSE_ALARM = 1e-7
ENOUGH = 5
"""Messages that are expected less often are counted together, as the χ² law needs."""


@checks(
    "The messages do not follow the stated law",
    "every guarantee computed from that law is void",
    certainty=f"by a χ² test; a false alarm has probability {FALSE_ALARM:g} for each input",
    why_not=with_table,
)
def the_messages_follow_the_table(case: Case) -> Iterator[str]:
    """The empirical law of the messages fits the table for every input (χ²), and no other message appears."""
    from scipy.stats import chi2

    mechanism, table, samples = case.mechanism, case.table, case.samples
    columns = columns_of(case)
    if len(columns) != len(table.messages):
        yield "two different messages of the table have the same bytes"
    generator = case.generator()
    for place, (value, row) in enumerate(zip(table.inputs, table.probabilities, strict=True)):
        messages = mechanism.encode(np.repeat(value[None, ...], samples, axis=0), rng=generator)
        if len(messages) != samples * mechanism.messages_per_user:
            yield f"input {place}: {samples} users sent {len(messages)} messages"
            continue
        seen, strange = tally(mechanism.pack(messages).reshape(samples, -1), columns)
        if strange:
            yield f"input {place} sent {strange} messages that are not in the table"
        expected = np.array([float(chance) for chance in row]) * samples
        if (seen[expected == 0] != 0).any():
            yield f"input {place} sent a message that has probability 0"
        statistic, freedom = chi_square(seen, expected)
        limit = float(chi2.isf(FALSE_ALARM, freedom))
        if not statistic <= limit:
            yield f"for input {place}, χ² is {statistic:.4g} where at most {limit:.4g} was expected"


@checks(
    "encode() without a generator repeats itself",
    "whoever knows the seed removes the noise; leave randomness to the source that randomize() is given",
    certainty="a false alarm has the probability that all of 512 users repeat their messages",
)
def the_system_source_is_the_default(case: Case) -> Iterator[str]:
    """Two encodings without a generator differ somewhere: they do not come from a fixed seed."""
    mechanism = case.mechanism
    values = np.repeat(case.values[:1], 512, axis=0)
    if not (mechanism.pack(mechanism.encode(values)) != mechanism.pack(mechanism.encode(values))).any():
        yield "512 users of one input sent the same messages twice"


@checks(
    "encode() with the same seed gives other messages",
    "a simulation cannot be repeated, and a collection that is resumed would send two different messages of one user",
    certainty=CERTAIN,
)
def the_same_seed_gives_the_same_messages(case: Case) -> Iterator[str]:
    """All randomness comes from the source that ``randomize`` is given."""
    values = np.repeat(case.values[:2], 50, axis=0)
    first, second = (case.mechanism.pack(case.mechanism.encode(values, rng=case.generator(4))) for _ in range(2))
    if first.shape != second.shape or (first != second).any():
        yield f"two encodings of the same {len(values)} values differ"


def columns_of(case: Case) -> dict[bytes, int]:
    """The place of each of the table's reports by its bytes."""
    messages = case.table.messages
    wire = case.mechanism.pack(case.as_messages(messages)).reshape(len(messages), -1)
    return {bytes(row): number for number, row in enumerate(wire)}


def tally(reports: Array, columns: dict[bytes, int]) -> tuple[Floats, int]:
    """How often each report was sent, and how many reports are none of these."""
    seen, strange = np.zeros(max(columns.values()) + 1), 0
    for kind, count in zip(*np.unique(reports, axis=0, return_counts=True), strict=True):
        place = columns.get(bytes(kind))
        if place is None:
            strange += int(count)
        else:
            seen[place] = count
    return seen, strange


def chi_square(seen: Floats, expected: Floats) -> tuple[float, int]:
    """The statistic, with rare messages counted together, and its degrees of freedom."""
    rare = expected < ENOUGH
    observed = np.append(seen[~rare], seen[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 0
    statistic = float(((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum())
    return statistic, max(1, int(keep.sum()) - 1)


SAMPLING_CHECKS: tuple[Check[Case], ...] = (
    the_messages_follow_the_table,
    the_system_source_is_the_default,
    the_same_seed_gives_the_same_messages,
)
