"""Bounds and attacks compared with the exact divergences of small shuffled protocols."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from shuffledp._core.errors import NotApplicable
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.base import Bound
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.testing import report_enumeration
from shuffledp.testing.exact_enumeration import worst_divergence

USER_COUNTS, EXP_EPSILONS = (1, 2, 3, 5, 7), (Fraction(17, 16), Fraction(3, 2))
"""Numbers of users, and values of e^ε, to try."""
MAX_CELLS = 400_000
"""Largest number of cells of counts × datasets for one brute-force search."""
RELATIVE_TOLERANCE = 1e-12
"""Relative rounding error of an exact value as a float."""


def feasible_user_counts(mechanism: Mechanism) -> list[int]:
    """Returns the numbers of users for which every dataset can be tried."""
    rows = mechanism.table().probabilities
    return [users for users in USER_COUNTS if enumeration_size(len(rows), len(rows[0]), users) <= MAX_CELLS]


def enumeration_size(inputs: int, outputs: int, users: int) -> int:
    """Returns the number of cells of counts × datasets × pairs of inputs."""
    cells = math.comb(users + outputs - 1, outputs - 1)
    datasets = math.comb(users - 1 + inputs - 1, inputs - 1)
    return cells * datasets * inputs**2


def worst_dataset_divergence(mechanism: Mechanism, users: int, ratio: Fraction) -> Fraction:
    """Returns the largest divergence; if users send several messages, over all reports regardless of their order."""
    table = mechanism.table()
    if mechanism.messages_per_user > 1:
        return report_enumeration.worst_divergence(report_enumeration.report_laws(table), users, ratio)
    return worst_divergence(table.probabilities, users, ratio)


def epsilon_below(ratio: Fraction) -> float:
    """Returns a float ε slightly below log(ratio), so that e^ε is at most the ratio."""
    return math.nextafter(math.log(float(ratio)), 0.0)


def check_upper_bounds(
    bounds: Iterable[Bound], mechanism: Mechanism, truth: Fraction, users: int, ratio: Fraction
) -> Iterator[tuple[str, str]]:
    """Yields each bound that applies, by name, with an error if its δ at ``ratio`` is below ``truth``, else an empty
    text.
    """
    for bound in bounds:
        try:
            curve = bound.curve(mechanism, mechanism.hiding_messages(users))
            upper = curve.delta(epsilon_below(ratio)).upper
        except NotApplicable:
            continue
        sound = upper >= float(truth) * (1 - RELATIVE_TOLERANCE)
        place = f"with n = {users} and e^ε = {ratio}"
        wrong = "" if sound else f"{place}, {bound.name} says δ ≤ {upper:.9g}, some dataset has δ = {float(truth):.9g}"
        yield bound.name, wrong


def check_attack(mechanism: Mechanism, truth: Fraction, users: int, ratio: Fraction) -> Iterator[str]:
    """Yields an error if the attack that ``amplify`` knows claims more than the divergence of the worst dataset."""
    lower = amplify(mechanism, users, effort=QUICK_EFFORT).delta(epsilon_below(ratio)).lower
    # ε is slightly below log(ratio): the divergence there may be larger, by e^ε times two steps of a float.
    if lower is not None and not lower <= float(truth) * (1 + 1e-9) + 1e-15:
        yield (
            f"with n = {users} and e^ε = {ratio}, the attack claims δ ≥ {lower:.9g}, "
            f"no dataset has more than {float(truth):.9g}"
        )
