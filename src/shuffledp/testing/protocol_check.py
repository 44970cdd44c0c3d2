"""Whether guarantees and attacks of a mechanism hold in the real protocol, by brute force over all datasets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from shuffledp.bounds import BOUNDS
from shuffledp.bounds.all_crowds import AllCrowdsBound
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.best import QUICK
from shuffledp.testing import brute_force, oracle, report_oracle
from shuffledp.testing.case import Case, with_table
from shuffledp.testing.check import EXACT, Check, checks

FEW_USERS, FEW_RATIOS = (2, 3), (Fraction(9, 8), Fraction(3, 2))
TOO_LARGE = "its table is too large for brute force"
MOST_OUTCOMES = 3_000_000
"""Datasets × sequences of messages that the first of the checks may visit."""


def few_users_in_reach(case: Case) -> str:
    """Only where two users' datasets can be enumerated."""
    if with_table(case):
        return with_table(case)
    return "" if _outcomes(case, min(FEW_USERS)) <= MOST_OUTCOMES else TOO_LARGE


@checks(
    "A guarantee is below the truth",
    "the privacy that amplify() promises is not there",
    certainty=EXACT,
    why_not=few_users_in_reach,
    slow=True,
)
def no_bound_is_below_the_real_protocol(case: Case) -> Iterator[str]:
    """For two and three users, δ of the sound bound is at least the worst divergence over all datasets."""
    rows = [list(row) for row in case.rows]
    for users in FEW_USERS:
        if _outcomes(case, users) > MOST_OUTCOMES:
            continue
        curve = amplify(case.mechanism, users, effort=QUICK)
        for ratio in FEW_RATIOS:
            if case.mechanism.messages_per_user > 1:
                truth = report_oracle.worst_divergence(report_oracle.laws_of(case.table), users, ratio)
            else:
                truth = oracle.worst_divergence(rows, users, ratio)
            upper = curve.delta(math.log(float(ratio))).upper
            if not upper >= float(truth) * (1 - brute_force.ROUNDING):
                yield (
                    f"with n = {users} and e^ε = {ratio}, amplify() says δ ≤ {upper:.9g}, "
                    f"some dataset has δ = {float(truth):.9g}"
                )


def some_crowd_in_reach(case: Case) -> str:
    """Only where the datasets of some crowd can be enumerated."""
    if with_table(case):
        return with_table(case)
    return "" if brute_force.crowds_in_reach(case.mechanism) else TOO_LARGE


@checks(
    "A bound is below the truth, or an attack above it",
    "what bounds are told of its law is wrong",
    certainty=EXACT,
    why_not=some_crowd_in_reach,
    slow=True,
)
def every_bound_and_attack_holds_for_all_datasets(case: Case) -> Iterator[str]:
    """For up to seven users, as far as brute force reaches, no bound is below the worst dataset, no attack above it."""
    # Brute force reaches fewer users than every crowd is looked at for.
    bounds = [*(bound for bound in BOUNDS if bound.guarantees), AllCrowdsBound(fewest=1)]
    for users in brute_force.crowds_in_reach(case.mechanism):
        for ratio in brute_force.RATIOS:
            truth = brute_force.worst_dataset(case.mechanism, users, ratio)
            found = brute_force.below_the_truth(bounds, case.mechanism, truth, users, ratio)
            yield from (wrong for _, wrong in found if wrong)
            yield from brute_force.above_the_truth(case.mechanism, truth, users, ratio)


def _outcomes(case: Case, users: int) -> int:
    inputs, outputs = len(case.rows), len(case.rows[0])
    return int(inputs ** (users + 1) * outputs**users)


PROTOCOL_CHECKS: tuple[Check[Case], ...] = (
    no_bound_is_below_the_real_protocol,
    every_bound_and_attack_holds_for_all_datasets,
)
