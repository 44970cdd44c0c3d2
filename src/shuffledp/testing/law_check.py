"""Whether the stated law is a law and keeps the local guarantee: likelihood ratios, exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from flint import arb, ctx

from shuffledp.privacy.randomizer import HasParts
from shuffledp.testing.case import Case, Probabilities, with_table, without_table
from shuffledp.testing.check import EXACT, Check, checks, refused


@checks(
    "The table's rows are not distributions",
    "no number computed from this law means anything",
    certainty=EXACT,
    why_not=with_table,
)
def the_output_law_is_normalised(case: Case) -> Iterator[str]:
    """Every row of the table is a distribution, exactly."""
    for place, row in enumerate(case.rows):
        if sum(row) != 1:
            yield f"the probabilities of input {place} sum to 1 and {float(sum(row) - 1):.3g}"
        if min(row) < 0:
            yield f"input {place} has a negative probability"


@checks(
    "The executed law breaks the local guarantee",
    "a message alone tells more about its user than local_epsilon promises",
    certainty=EXACT,
    why_not=with_table,
)
def the_local_guarantee_holds_exactly(case: Case) -> Iterator[str]:
    """No ratio of the executed law exceeds e^epsilon; only what hides among dummies promises nothing by itself."""
    mechanism = case.mechanism
    promised = mechanism.local_epsilon
    if promised is None:
        if mechanism.messages_per_user <= 1 and not case.has_tails:
            yield "local_epsilon is None, yet a user sends one message, so that nothing hides it on its own"
        if "epsilon" in mechanism.settings():
            yield "local_epsilon is None, yet epsilon is one of the settings"
        return
    if math.isinf(promised):
        yield "local_epsilon is infinite; examples must have a finite local guarantee"
        return
    with ctx.workprec(256):
        limit = arb(promised).exp() * (1 + arb(2) ** -150)
        for a, b in itertools.permutations(range(len(case.rows)), 2):
            ratio = largest_ratio(case.rows[a], case.rows[b])
            if ratio is None:
                yield f"input {a} may send what input {b} never sends, an infinite ratio"
            elif not arb(ratio.numerator) / ratio.denominator <= limit:
                yield f"inputs {a} and {b} have the ratio e^{math.log(ratio):.9g}, above e^{promised:.9g}"


def without_table_but_with_local(case: Case) -> str:
    """Only for mechanisms without a table whose messages promise something by themselves."""
    alone = "" if case.mechanism.local_epsilon is not None else "a message alone promises nothing"
    several = "its parts keep their promises each by itself" if isinstance(case.mechanism, HasParts) else ""
    return without_table(case) or alone or several


@checks(
    "The stated parameters break the local guarantee",
    "a message alone tells more about its user than epsilon promises",
    certainty="certain: ball arithmetic",
    why_not=without_table_but_with_local,
)
def without_a_table_the_parameters_keep_the_promise(case: Case) -> Iterator[str]:
    """The ratio of the parameters, and of the blanket's pair, is at most e^epsilon."""
    mechanism = case.mechanism
    with ctx.workprec(256):
        limit = arb(mechanism.epsilon).exp() * (1 + arb(2) ** -50)
        if not arb(mechanism.variation_ratio().p) <= limit:
            yield f"variation_ratio().p is {mechanism.variation_ratio().p:.9g}, above e^{mechanism.epsilon:g}"
        for place, pair in enumerate(mechanism.blankets()):
            if pair.exact is None:
                yield f"pair {place} of blankets() is not exact"
            elif not all(arb(a / b) <= limit and arb(b / a) <= limit for a, b, _ in pair.exact if a != 0):
                yield f"pair {place} of blankets() has a ratio above e^{mechanism.epsilon:g}"


@checks(
    "has_table is False, but table() does not refuse",
    "say has_table = True, so that the law is checked exactly",
    why_not=without_table,
)
def without_a_table_it_is_refused(case: Case) -> Iterator[str]:
    """A law that cannot be written down is refused by a sentence that names the mechanism."""
    with refused(ValueError) as sentences:
        case.mechanism.table()
    if not sentences:
        yield "table() returned"
    for sentence in sentences:
        if not (sentence.startswith(f"{case.who}: ") and sentence.endswith(" as a table.")):
            yield f"expected the sentence '{case.who}: … as a table.', got {sentence!r}"


def largest_ratio(first: Probabilities, second: Probabilities) -> Fraction | None:
    """The largest likelihood ratio, with 0/0 left out; None where a positive entry stands against 0."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a > 0]
    return None if any(b <= 0 for _, b in pairs) else max(a / b for a, b in pairs)


LAW_CHECKS: tuple[Check[Case], ...] = (
    the_output_law_is_normalised,
    the_local_guarantee_holds_exactly,
    without_a_table_the_parameters_keep_the_promise,
    without_a_table_it_is_refused,
)
