"""Whether the estimate is unbiased and has the stated variance, and statistics of batches add up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.sampling.random import source_of
from shuffledp.testing.case import SAMPLES, Case, with_table, without_table
from shuffledp.testing.check import ROUNDED, Check, checks, refused

MANY = 100
"""Messages of one liar where nothing limits them."""
CROWD, TIMES = 100, 300
"""Where there is no table: how many users are estimated together, and how often."""
AT_ONCE = 30
"""So many crowds are encoded by one call, where that is possible."""
STRANGERS = 256
"""Rows of any bytes that are tried as messages, where there are more."""
SCORE = 6.0
"""Largest standard score: a normal one is beyond it with probability 2e-9."""
NORMAL = (
    "statistical; a false alarm has probability about 1e-7 for each component, as means of 100 users are near normal"
)


@checks(
    "The estimate is biased",
    "however many users there are, its error does not go away",
    certainty=ROUNDED,
    why_not=with_table,
)
def the_estimate_is_unbiased(case: Case) -> Iterator[str]:
    """For one user, and for two, the mean of the estimate over the exact law is the truth."""
    for one in case.estimates:
        truth = case.mechanism.truth(one.values)
        if np.shape(truth) != np.shape(one.mean):
            yield f"truth() has shape {np.shape(truth)}, the estimate {np.shape(one.mean)}"
        elif not np.allclose(one.mean, truth, rtol=1e-9, atol=1e-9 * one.scale):
            off = float(np.abs(one.mean - truth).max())
            yield f"with n = {len(one.values)}, on average over the exact law, it is off by {off:.6g}"


@checks(
    "variance() is not the variance of the estimate",
    "confidence intervals and plans that rest on it are wrong",
    certainty=ROUNDED,
    why_not=with_table,
)
def the_estimate_has_the_stated_variance(case: Case) -> Iterator[str]:
    """For one user, and for two, the variance of the estimate over the exact law is as stated."""
    for one in case.estimates:
        stated = case.mechanism.variance(one.values)
        if np.shape(stated) != np.shape(one.variance):
            yield f"variance() has shape {np.shape(stated)}, the estimate {np.shape(one.variance)}"
        elif not np.allclose(one.variance, stated, rtol=1e-8, atol=1e-9 * one.scale**2):
            place = int(np.argmax(np.abs(one.variance - stated)))
            found, said = float(np.ravel(one.variance)[place]), float(np.ravel(stated)[place])
            yield f"with n = {len(one.values)} a component has variance {found:.9g}, stated is {said:.9g}"


@dataclass(frozen=True)
class RepeatedEstimates:
    """Many estimates of one crowd, against its truth and the stated variance."""

    found: Floats
    truth: Floats
    stated: Floats
    excess: float
    """Of the kurtosis, as stated."""

    @property
    def score(self) -> float:
        """How many standard deviations the average of a component is off at most."""
        return float(np.abs((self.found.mean(axis=0) - self.truth) / np.sqrt(self.stated / len(self.found))).max())

    @property
    def spread(self) -> float:
        """How far the mean square of a component's error is from the stated variance at most, in units of it."""
        return float(np.abs(((self.found - self.truth) ** 2).mean(axis=0) / self.stated - 1).max())

    @property
    def most_spread(self) -> float:
        """What it is at most but for a false alarm: the squares of normal errors have the variance 2."""
        return SCORE * float(np.sqrt((2 + self.excess) / len(self.found)))


def crowds_sent(case: Case, values: Array, times: int) -> Iterator[Array]:
    """The messages of so many crowds who hold these values in turn.

    Where every user sends one message those of equal users are any of theirs: many crowds are encoded at once, each
    value by itself, whatever the order of messages.
    """
    rng = case.generator(1)
    if case.mechanism.messages_per_user != 1 or case.mechanism.crowd.varies or CROWD % len(values):
        crowd: Array = np.resize(values, (CROWD, *values.shape[1:]))
        yield from (case.sent(crowd, rng) for _ in range(times))
        return
    for start in range(0, times, AT_ONCE):
        crowds = min(AT_ONCE, times - start)
        users = crowds * CROWD // len(values)
        sent = [case.mechanism.encode(np.repeat(value[None, ...], users, axis=0), rng) for value in values]
        source = source_of(rng)
        for parts in zip(*(np.split(messages, crowds) for messages in sent), strict=True):
            added = case.mechanism.drawn_by_shuffler(source)
            yield np.concatenate(parts if added is None else [*parts, added])


def repeated(case: Case) -> Iterator[RepeatedEstimates]:
    """Estimates of a crowd of one input, of the other, and of a mixture."""
    mechanism, ends = case.mechanism, case.mechanism.probe()
    times = max(2, TIMES * case.samples // SAMPLES)
    between = ends[1:] if ends.dtype.kind in "iu" else ends.mean(axis=0, keepdims=True) + 0.4 * ends[1:]
    for values in (ends[:1], ends[1:], np.concatenate([ends[:1], between])):
        crowd: Array = np.resize(values, (CROWD, *values.shape[1:]))
        found = [mechanism.estimate(messages, CROWD) for messages in crowds_sent(case, values, times)]
        excess = found[0].tails.excess_kurtosis
        stated = mechanism.variance(crowd)
        yield RepeatedEstimates(np.array([one.value for one in found]), mechanism.truth(crowd), stated, excess)


@checks(
    "The estimate does not have the stated mean or variance",
    "either it is biased, or confidence intervals and plans that rest on variance() are wrong",
    certainty=NORMAL,
    why_not=without_table,
)
def without_a_table_the_estimate_has_the_stated_mean_and_variance(case: Case) -> Iterator[str]:
    """Means of 100 users, 300 times: each component's mean is near the truth, and its spread is the stated variance.

    The means are nearly normal: a standard score beyond 6 has probability 2e-9, a sum of 300 squares beyond
    1 ± 6·√(2/300) below 1e-7.
    """
    for one in repeated(case):
        if not one.score <= SCORE:
            yield f"the average estimate of {CROWD} users is {one.score:.4g} standard deviations from the truth"
        if not one.spread <= one.most_spread:
            yield f"the spread of estimates differs from the stated variance by {100 * one.spread:.3g} %"


def tells_of_liars(case: Case) -> str:
    """Only for mechanisms whose reading says what one user can move."""
    return "its reading does not say what one user can move" if case.mechanism.influence is None else ""


@checks(
    "One user can move the estimate further than influence says",
    "a plan that rests on it promises that liars do less than they can",
    certainty=ROUNDED,
    why_not=tells_of_liars,
)
def no_report_moves_more_than_stated(case: Case) -> Iterator[str]:
    """Reports of the table, and any bytes that the wire takes, as often as a user sends messages, are within bounds."""
    sways = case.mechanism.reading.sways(case.mechanism.crowd.most) or ()
    least, most = min(sway.least for sway in sways), max(sway.most for sway in sways)
    room = 1e-9 * max(1.0, -least, most)
    for found in contributions(case):
        for added in (float(found.min()), float(found.max())):
            if not least - room <= added <= most + room:
                yield f"a report adds {added:.9g} to a number, stated is {least:.9g} to {most:.9g}"
    low, high = min(sway.low for sway in sways), max(sway.high for sway in sways)
    for value in case.values:
        truth = case.mechanism.truth(value[None, ...])
        if not (low <= truth.min() and truth.max() <= high):
            yield f"an honest user's truth is outside the stated {low:.9g} to {high:.9g}"


def contributions(case: Case) -> Iterator[Floats]:
    """What single reports add to the estimate: honest ones, and those of strangers."""
    mechanism, most = case.mechanism, case.mechanism.crowd.most
    each = MANY if math.isinf(most) else int(most)
    if mechanism.has_table:
        yield from case.singles
    width = mechanism.wire.bytes
    rows = np.arange(STRANGERS, dtype=np.uint8)[:, None]
    if width > 1:
        rows = case.generator(4).integers(0, 256, (STRANGERS, width), dtype=np.uint8)
    sent = mechanism.unpack(rows[mechanism.valid(rows)])
    for message in sent if mechanism.has_table else np.concatenate([case.messages, sent]):
        yield mechanism.finish(mechanism.accumulate(np.repeat(message[None, ...], each, axis=0)), users=1).value


@checks(
    "Statistics of batches do not add up",
    "a collection in several files, or on several machines, would be read wrongly",
    certainty=ROUNDED,
)
def batches_add_up(case: Case) -> Iterator[str]:
    """Accumulating two batches and adding is accumulating all, in any order."""
    mechanism = case.mechanism
    messages = np.concatenate([case.messages] * 3)
    shuffled = messages[case.generator(3).permutation(len(messages))]
    whole = np.asarray(mechanism.accumulate(messages), dtype=float)
    parts = np.asarray(mechanism.accumulate(shuffled[:7]) + mechanism.accumulate(shuffled[7:]), dtype=float)
    if whole.shape != parts.shape or not np.allclose(whole, parts, rtol=1e-12, atol=0.0):
        yield f"two batches of {len(messages)} messages, in another order, give another statistic than all at once"


@checks(
    "Some options are not read as in the whole estimate",
    "who asks for some options would be told other numbers, or other errors, than who asks for all",
    certainty=ROUNDED,
)
def some_options_are_read_as_in_the_whole(case: Case) -> Iterator[str]:
    """Values and variances of some options, in any order and from any batches, are those of the whole estimate."""
    mechanism = case.mechanism
    counted = mechanism.reading.counted
    if counted is None:
        return
    asked = np.concatenate([[counted - 1, 0], case.generator(5).integers(0, counted, 3)])
    reading, messages, users = mechanism.reading_of(asked), case.messages, len(case.messages)
    whole = mechanism.finish(mechanism.accumulate(messages), users)
    total = reading.accumulate(messages[:7]) + reading.accumulate(messages[7:])
    for found in (reading.finish(total, users), mechanism.estimate_some(messages, asked, users)):
        for name, some, every in (
            ("values", found.value, whole.value[asked]),
            ("variances", found.variance, whole.variance[asked]),
        ):
            if np.shape(some) != np.shape(every) or not np.allclose(some, every, rtol=1e-12, atol=1e-12 * users):
                yield f"{name} of options {asked.tolist()} are not those at their places in the whole estimate"
        if found.tails != whole.tails.some(asked):
            yield "the law of their error is another one than that of the whole estimate"
    held = mechanism.probe()
    if not np.allclose(reading.variance(held), mechanism.variance(held)[asked], rtol=1e-12):
        yield "the stated variances of some options are not those of the whole"
    if not np.array_equal(reading.truth(held), mechanism.truth(held)[asked]):
        yield "the truth about some options is not that of the whole"


@checks(
    "An estimate of no messages is not refused",
    "an empty collection would be reported as a result",
)
def no_messages_are_refused(case: Case) -> Iterator[str]:
    """Nothing can be estimated from nothing."""
    with refused(ValueError) as sentences:
        case.mechanism.estimate(case.messages[:0])
    if not sentences:
        yield "estimate() of no messages returned"


ESTIMATE_CHECKS: tuple[Check[Case], ...] = (
    the_estimate_is_unbiased,
    the_estimate_has_the_stated_variance,
    without_a_table_the_estimate_has_the_stated_mean_and_variance,
    no_report_moves_more_than_stated,
    batches_add_up,
    some_options_are_read_as_in_the_whole,
    no_messages_are_refused,
)
