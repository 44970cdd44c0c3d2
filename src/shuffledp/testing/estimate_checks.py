"""Checks of a mechanism's estimates: bias, variance, influence of one user, batches that add up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shuffledp._core.validation import Array, Floats
from shuffledp.sampling.random_sources import resolve_source
from shuffledp.testing._check_framework import (
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
