"""Values of bounds and attacks against the real protocol: the worst of all datasets of a few users, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.best import QUICK
from shuffledp.bounds.bound import Bound
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.testing import oracle, report_oracle

CROWDS, RATIOS = (1, 2, 3, 5, 7), (Fraction(17, 16), Fraction(3, 2))
"""How many users, and which e^ε, are tried."""
MOST_WORK = 400_000
"""Cells of counts × datasets that one brute force may visit."""
ROUNDING = 1e-12
"""By how much a truth that is rounded to a float may be off."""


def crowds_in_reach(mechanism: Mechanism) -> list[int]:
    """The numbers of users for which every dataset can be tried."""
    rows = mechanism.table().probabilities
    return [users for users in CROWDS if work(len(rows), len(rows[0]), users) <= MOST_WORK]


def work(inputs: int, outputs: int, users: int) -> int:
    """Cells of counts × datasets × pairs of inputs."""
    cells = math.comb(users + outputs - 1, outputs - 1)
    datasets = math.comb(users - 1 + inputs - 1, inputs - 1)
    return cells * datasets * inputs**2


def worst_dataset(mechanism: Mechanism, users: int, ratio: Fraction) -> Fraction:
    """The largest divergence; where users send several messages, over all reports with their order forgotten."""
    table = mechanism.table()
    if mechanism.messages_per_user > 1:
        return report_oracle.worst_divergence(report_oracle.laws_of(table), users, ratio)
    return oracle.worst_divergence(table.probabilities, users, ratio)


def epsilon_below(ratio: Fraction) -> float:
    """A float ε with e^ε at most the ratio, a hair below its logarithm."""
    return math.nextafter(math.log(float(ratio)), 0.0)


def below_the_truth(
    bounds: Iterable[Bound], mechanism: Mechanism, truth: Fraction, users: int, ratio: Fraction
) -> Iterator[tuple[str, str]]:
    """Each bound that applies, by name, with what is wrong: its δ at ``ratio`` is below ``truth``; or an empty text."""
    for bound in bounds:
        try:
            curve = bound.curve(mechanism, mechanism.hiding_messages(users))
            upper = curve.delta(epsilon_below(ratio)).upper
        except NotApplicable:
            continue
        sound = upper >= float(truth) * (1 - ROUNDING)
        place = f"with n = {users} and e^ε = {ratio}"
        wrong = "" if sound else f"{place}, {bound.name} says δ ≤ {upper:.9g}, some dataset has δ = {float(truth):.9g}"
        yield bound.name, wrong


def above_the_truth(mechanism: Mechanism, truth: Fraction, users: int, ratio: Fraction) -> Iterator[str]:
    """What is wrong if the attack that ``amplify`` knows claims more than the worst dataset has."""
    lower = amplify(mechanism, users, effort=QUICK).delta(epsilon_below(ratio)).lower
    # ε is a hair below log(ratio): the divergence there may be larger by that hair, e^ε times two steps of a float.
    if lower is not None and not lower <= float(truth) * (1 + 1e-9) + 1e-15:
        yield (
            f"with n = {users} and e^ε = {ratio}, the attack claims δ ≥ {lower:.9g}, "
            f"no dataset has more than {float(truth):.9g}"
        )
