"""Checks of estimates (bias, variance, influence of one user, batches) and statistical checks of the messages sent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shuffledp._core.validation import Array, Floats
from shuffledp.sampling.random_sources import resolve_source
from shuffledp.testing._check_framework import (
    CERTAIN,
    EXACT_UP_TO_ROUNDING,
    Check,
    collect_refusals,
    conformance_check,
)
from shuffledp.testing._mechanism_case import DEFAULT_SAMPLES, MechanismCase, require_no_table, require_table

MAX_DISHONEST_MESSAGES = 100
"""Number of messages of one dishonest user if nothing limits it."""
GROUP_SIZE, REPETITIONS = 100, 300
"""For mechanisms without a table: number of users who are estimated together, and of repetitions."""
GROUPS_PER_CALL = 30
"""Number of such groups that are encoded by one call, where that is possible."""
RANDOM_ROWS = 256
"""Number of random byte rows that are tried as messages, if messages have more than one byte."""
MAX_STANDARD_SCORE = 6.0
"""Largest standard score: a normal one is beyond it with probability 2e-9."""
NORMAL_CERTAINTY = (
    "statistical; a false alarm has probability about 1e-7 for each component, as means of 100 users are near normal"
)


@conformance_check(
    "The estimate is biased",
    "its error does not vanish, however many users there are",
    certainty=EXACT_UP_TO_ROUNDING,
    why_not=require_table,
)
def the_estimate_is_unbiased(case: MechanismCase) -> Iterator[str]:
    """Checks, for one user and for two, that the mean of the estimate over the exact law is the true value."""
    for moments in case.estimates:
        truth = case.mechanism.truth(moments.values)
        if np.shape(truth) != np.shape(moments.mean):
            yield f"truth() has shape {np.shape(truth)}, the estimate {np.shape(moments.mean)}"
        elif not np.allclose(moments.mean, truth, rtol=1e-9, atol=1e-9 * moments.scale):
            off = float(np.abs(moments.mean - truth).max())
            yield f"with n = {len(moments.values)}, on average over the exact law, it is off by {off:.6g}"


@conformance_check(
    "variance() is not the variance of the estimate",
    "confidence intervals and plans that rest on it are wrong",
    certainty=EXACT_UP_TO_ROUNDING,
    why_not=require_table,
)
def the_estimate_has_the_stated_variance(case: MechanismCase) -> Iterator[str]:
    """Checks, for one user and for two, that the variance of the estimate over the exact law is as stated."""
    for moments in case.estimates:
        stated = case.mechanism.variance(moments.values)
        if np.shape(stated) != np.shape(moments.variance):
            yield f"variance() has shape {np.shape(stated)}, the estimate {np.shape(moments.variance)}"
        elif not np.allclose(moments.variance, stated, rtol=1e-8, atol=1e-9 * moments.scale**2):
            place = int(np.argmax(np.abs(moments.variance - stated)))
            variance, stated_variance = float(np.ravel(moments.variance)[place]), float(np.ravel(stated)[place])
            users = len(moments.values)
            yield f"with n = {users} a component has variance {variance:.9g}, stated is {stated_variance:.9g}"


@dataclass(frozen=True)
class RepeatedEstimates:
    """Many estimates of one dataset, with its true value and the stated variance."""

    estimates: Floats
    truth: Floats
    stated_variance: Floats
    excess_kurtosis: float
    """The stated excess kurtosis."""

    @property
    def standard_score(self) -> float:
        """The largest distance, over all components, of the mean from the true value in standard deviations."""
        return float(
            np.abs(
                (self.estimates.mean(axis=0) - self.truth) / np.sqrt(self.stated_variance / len(self.estimates))
            ).max()
        )

    @property
    def variance_deviation(self) -> float:
        """The largest relative difference, over all components, of the mean squared error from the stated variance."""
        return float(np.abs(((self.estimates - self.truth) ** 2).mean(axis=0) / self.stated_variance - 1).max())

    @property
    def max_variance_deviation(self) -> float:
        """The largest ``variance_deviation`` without an alarm: squares of normal errors have the variance 2."""
        return MAX_STANDARD_SCORE * float(np.sqrt((2 + self.excess_kurtosis) / len(self.estimates)))


def send_groups(case: MechanismCase, values: Array, times: int) -> Iterator[Array]:
    """Yields the messages of so many groups of users who hold these values in turn.

    If every user sends one message, the messages of equal users are interchangeable: many groups are then encoded at
    once, each value by itself, regardless of the order of messages.
    """
    rng = case.generator(1)
    if case.mechanism.messages_per_user != 1 or case.mechanism.message_plan.is_variable or GROUP_SIZE % len(values):
        dataset: Array = np.resize(values, (GROUP_SIZE, *values.shape[1:]))
        yield from (case.send_messages(dataset, rng) for _ in range(times))
        return
    for start in range(0, times, GROUPS_PER_CALL):
        groups = min(GROUPS_PER_CALL, times - start)
        users = groups * GROUP_SIZE // len(values)
        sent = [case.mechanism.encode(np.repeat(value[None, ...], users, axis=0), rng) for value in values]
        source = resolve_source(rng)
        for parts in zip(*(np.split(messages, groups) for messages in sent), strict=True):
            added = case.mechanism.draw_shuffler_messages(source)
            yield np.concatenate(parts if added is None else [*parts, added])


def repeat_estimates(case: MechanismCase) -> Iterator[RepeatedEstimates]:
    """Yields estimates of a dataset of one input, of the other, and of a mixture."""
    mechanism, ends = case.mechanism, case.mechanism.audit_pair()
    times = max(2, REPETITIONS * case.samples // DEFAULT_SAMPLES)
    between = ends[1:] if ends.dtype.kind in "iu" else ends.mean(axis=0, keepdims=True) + 0.4 * ends[1:]
    for values in (ends[:1], ends[1:], np.concatenate([ends[:1], between])):
        dataset: Array = np.resize(values, (GROUP_SIZE, *values.shape[1:]))
        found = [mechanism.estimate(messages, GROUP_SIZE) for messages in send_groups(case, values, times)]
        excess = found[0].error_law.excess_kurtosis
        stated = mechanism.variance(dataset)
        yield RepeatedEstimates(np.array([one.value for one in found]), mechanism.truth(dataset), stated, excess)


@conformance_check(
    "The estimate does not have the stated mean or variance",
    "either it is biased, or confidence intervals and plans that rest on variance() are wrong",
    certainty=NORMAL_CERTAINTY,
    why_not=require_no_table,
)
def without_a_table_the_estimate_has_the_stated_mean_and_variance(case: MechanismCase) -> Iterator[str]:
    """Checks, for 300 datasets of 100 users, that each component has the true mean and the stated variance.

    The means are nearly normal: a standard score beyond 6 has probability 2e-9, a sum of 300 squares beyond 1 ±
    6·√(2/300) below 1e-7.
    """
    for repeated in repeat_estimates(case):
        if not repeated.standard_score <= MAX_STANDARD_SCORE:
            distance = f"{repeated.standard_score:.4g} standard deviations from the truth"
            yield f"the average estimate of {GROUP_SIZE} users is {distance}"
        if not repeated.variance_deviation <= repeated.max_variance_deviation:
            deviation = 100 * repeated.variance_deviation
            yield f"the spread of estimates differs from the stated variance by {deviation:.3g} %"


def require_influence(case: MechanismCase) -> str:
    """Returns why a check of influence does not apply; empty if the estimator states what one user can change."""
    return "its estimator does not state the influence of one user" if case.mechanism.influence is None else ""


@conformance_check(
    "One user can move the estimate further than influence says",
    "a plan that relies on it underestimates the influence of dishonest users",
    certainty=EXACT_UP_TO_ROUNDING,
    why_not=require_influence,
)
def no_report_moves_more_than_stated(case: MechanismCase) -> Iterator[str]:
    """Checks reports of the table, and any bytes that the encoding accepts, as many as a user may send."""
    influences = case.mechanism.estimator.influence(case.mechanism.message_plan.max_messages) or ()
    least, most = (
        min(influence.min_contribution for influence in influences),
        max(influence.max_contribution for influence in influences),
    )
    tolerance = 1e-9 * max(1.0, -least, most)
    for contributions in report_contributions(case):
        for added in (float(contributions.min()), float(contributions.max())):
            if not least - tolerance <= added <= most + tolerance:
                yield f"a report adds {added:.9g} to a number, stated is {least:.9g} to {most:.9g}"
    low, high = (
        min(influence.honest_min for influence in influences),
        max(influence.honest_max for influence in influences),
    )
    for value in case.values:
        truth = case.mechanism.truth(value[None, ...])
        if not (low <= truth.min() and truth.max() <= high):
            yield f"an honest user's truth is outside the stated {low:.9g} to {high:.9g}"


def report_contributions(case: MechanismCase) -> Iterator[Floats]:
    """Yields the contributions of single reports to the estimate: honest ones, and random bytes."""
    mechanism, most = case.mechanism, case.mechanism.message_plan.max_messages
    each = MAX_DISHONEST_MESSAGES if math.isinf(most) else int(most)
    if mechanism.has_table:
        yield from case.single_report_estimates
    width = mechanism.encoding.byte_length
    rows = np.arange(RANDOM_ROWS, dtype=np.uint8)[:, None]
    if width > 1:
        rows = case.generator(4).integers(0, 256, (RANDOM_ROWS, width), dtype=np.uint8)
    sent = mechanism.unpack(rows[mechanism.valid(rows)])
    for message in sent if mechanism.has_table else np.concatenate([case.messages, sent]):
        yield mechanism.finish(mechanism.accumulate(np.repeat(message[None, ...], each, axis=0)), users=1).value


@conformance_check(
    "Statistics of batches do not add up",
    "a collection in several files, or on several machines, would be read wrongly",
    certainty=EXACT_UP_TO_ROUNDING,
)
def batches_add_up(case: MechanismCase) -> Iterator[str]:
    """Checks that accumulating two batches and adding is accumulating all, in any order."""
    mechanism = case.mechanism
    messages = np.concatenate([case.messages] * 3)
    shuffled = messages[case.generator(3).permutation(len(messages))]
    whole = np.asarray(mechanism.accumulate(messages), dtype=float)
    parts = np.asarray(mechanism.accumulate(shuffled[:7]) + mechanism.accumulate(shuffled[7:]), dtype=float)
    if whole.shape != parts.shape or not np.allclose(whole, parts, rtol=1e-12, atol=0.0):
        yield f"two batches of {len(messages)} messages, in another order, give another statistic than all at once"


@conformance_check(
    "Estimates of some options differ from the whole estimate",
    "an estimate of some options would differ from the estimate of all, in its values or its errors",
    certainty=EXACT_UP_TO_ROUNDING,
)
def some_options_are_read_as_in_the_whole(case: MechanismCase) -> Iterator[str]:
    """Checks that values and variances of some options, in any order and batches, are those of the full estimate."""
    mechanism = case.mechanism
    option_count = mechanism.estimator.option_count
    if option_count is None:
        return
    options = np.concatenate([[option_count - 1, 0], case.generator(5).integers(0, option_count, 3)])
    estimator, messages, users = mechanism.build_estimator(options), case.messages, len(case.messages)
    whole = mechanism.finish(mechanism.accumulate(messages), users)
    total = estimator.accumulate(messages[:7]) + estimator.accumulate(messages[7:])
    for estimate in (estimator.finish(total, users), mechanism.estimate_some(messages, options, users)):
        for name, some, every in (
            ("values", estimate.value, whole.value[options]),
            ("variances", estimate.variance, whole.variance[options]),
        ):
            if np.shape(some) != np.shape(every) or not np.allclose(some, every, rtol=1e-12, atol=1e-12 * users):
                yield f"{name} of options {options.tolist()} are not those at their places in the whole estimate"
        if estimate.error_law != whole.error_law.select(options):
            yield "the law of their error is another one than that of the whole estimate"
    values = mechanism.audit_pair()
    if not np.allclose(estimator.variance(values), mechanism.variance(values)[options], rtol=1e-12):
        yield "the stated variances of some options are not those of the whole"
    if not np.array_equal(estimator.truth(values), mechanism.truth(values)[options]):
        yield "the truth about some options is not that of the whole"


@conformance_check("An estimate of no messages is not refused", "an empty collection would be reported as a result")
def no_messages_are_refused(case: MechanismCase) -> Iterator[str]:
    """Checks that an estimate from no messages raises ValueError."""
    with collect_refusals(ValueError) as sentences:
        case.mechanism.estimate(case.messages[:0])
    if not sentences:
        yield "estimate() of no messages returned"


ESTIMATE_CHECKS: tuple[Check[MechanismCase], ...] = (
    the_estimate_is_unbiased,
    the_estimate_has_the_stated_variance,
    without_a_table_the_estimate_has_the_stated_mean_and_variance,
    no_report_moves_more_than_stated,
    batches_add_up,
    some_options_are_read_as_in_the_whole,
    no_messages_are_refused,
)


# --- The messages sent follow the stated law (statistical, with a stated rate of false alarms) ---


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
