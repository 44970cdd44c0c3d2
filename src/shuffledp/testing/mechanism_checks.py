"""Checks of a mechanism: law, local guarantee, properties that bounds use, inputs, settings, pickling and bytes.

Laws are checked exactly, by their tables; guarantees by brute force over all datasets of a few users.
"""

from __future__ import annotations

import itertools
import json
import math
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np
from flint import arb, ctx

from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.bounds.amplify import amplify
from shuffledp.bounds.registry import BOUNDS, QUICK_EFFORT
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound
from shuffledp.mechanisms import catalogue
from shuffledp.privacy.randomizer_interface import HasParts
from shuffledp.testing import bounds, exact_enumeration, multi_message_divergence
from shuffledp.testing._check_framework import EXACT, EXACT_UP_TO_ROUNDING, Check, collect_refusals, conformance_check
from shuffledp.testing._mechanism_case import (
    BLANKET_LEVELS,
    MechanismCase,
    Probabilities,
    RationalGainLaw,
    gain_law,
    gain_law_of_pair,
    is_below_in_convex_order,
    require_bounded_ratios,
    require_no_table,
    require_table,
)

# --- Laws of the other users ---


EXP_EPSILONS = Fraction(21, 20), Fraction(3, 2)
MAX_DATASET_INPUTS, MAX_PAIRS = 12, 16
"""Largest number of inputs of a table, and of pairs of them, that are compared."""
MIXTURE_TOLERANCE = 1e-9
Element = TypeVar("Element")
FloatLaw = tuple[Floats, Floats]
"""Values and their probabilities."""


def require_other_users(case: MechanismCase) -> str:
    """Returns why a check of ``other_users()`` does not apply; empty if the law states all messages of the others."""
    return require_table(case) or (
        "" if case.mechanism.other_users() else "its law does not state all messages that others may send"
    )


@conformance_check(
    "other_users() leaves out a message that some other user may send",
    "the bound all-crowds may be below the truth",
    certainty=EXACT_UP_TO_ROUNDING,
    why_not=require_other_users,
)
def every_other_user_is_covered(case: MechanismCase) -> Iterator[str]:
    """Checks, for every pair and third input, that G is below a mixture of one family's laws in convex order."""
    rows, families = _evenly_spaced(case.rows, MAX_DATASET_INPUTS), list(case.mechanism.other_users())
    families += [one.swapped() for one in families if not one.symmetric]
    for ratio in EXP_EPSILONS:
        kinds = [[_float_law(gain_law_of_pair(kind, ratio)) for kind in one.user_pairs] for one in families]
        # Similar inputs share a few laws, each of which is compared once.
        known: dict[tuple[int, bytes], bool] = {}

        def is_covered(law: FloatLaw, family: int, kinds: Any = kinds, known: Any = known) -> bool:
            key = family, np.concatenate(law).tobytes()
            if key not in known:
                known[key] = is_below_a_mixture(law, kinds[family])
            return bool(known[key])

        for a, b in _evenly_spaced(list(itertools.permutations(range(len(rows)), 2)), MAX_PAIRS):
            laws = [_float_law(gain_law(rows[a], rows[b], third, ratio)) for third in rows]
            is_informative = max(values.max() for values, _ in laws) > 0
            if is_informative and not any(all(is_covered(law, one) for law in laws) for one in range(len(kinds))):
                yield f"at e^ε = {ratio}, inputs {a} and {b} of those compared are not covered"


@conformance_check(
    "other_users() states a larger common part than there is",
    "the bound all-crowds may be below the truth",
    certainty=EXACT,
    why_not=require_other_users,
)
def the_common_part_is_common(case: MechanismCase) -> Iterator[str]:
    """Checks that γ is at most the sum of the least probabilities of each message."""
    common = sum((min(column) for column in zip(*case.rows, strict=True)), Fraction(0))
    stated = max(one.gamma for one in case.mechanism.other_users())
    if stated > common:
        yield f"it is {stated:.12g}, and all rows have {float(common):.12g} in common"


def is_below_a_mixture(law: FloatLaw, kinds: Sequence[FloatLaw]) -> bool:
    """Returns True if some mixture of the kinds has an E(G − t)_+ nowhere below that of the law: a linear program."""
    # Imported here because most checks do without it.
    from scipy.optimize import linprog

    levels = np.unique(np.concatenate([values for values, _ in (law, *kinds)]))
    wanted, above = _expected_excess(law, levels), np.array([_expected_excess(kind, levels) for kind in kinds]).T
    if (above >= wanted[:, None] - MIXTURE_TOLERANCE).all(axis=0).any():
        return True
    found = linprog(
        -np.eye(len(kinds) + 1)[-1],
        A_ub=np.hstack([-above, np.ones((len(levels), 1))]),
        b_ub=-wanted,
        A_eq=[[1.0] * len(kinds) + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * len(kinds) + [(None, 1.0)],
    )
    return bool(found.status == 0 and found.x[-1] > -MIXTURE_TOLERANCE)


def _float_law(law: RationalGainLaw) -> FloatLaw:
    values = sorted(law)
    return np.array([float(value) for value in values]), np.array([float(law[value]) for value in values])


def _expected_excess(law: FloatLaw, levels: Floats) -> Floats:
    """Returns E(G − t)_+ at each level t."""
    values, chances = law
    return np.asarray(np.maximum(values[None, :] - levels[:, None], 0.0) @ chances)


def _evenly_spaced(many: Sequence[Element], most: int) -> list[Element]:
    """Returns at most ``most`` evenly spaced elements."""
    return list(many[:: max(1, -(-len(many) // most))])


OTHER_USERS_CHECKS: tuple[Check[MechanismCase], ...] = (every_other_user_is_covered, the_common_part_is_common)


# --- Inputs ---


INVALID_VALUES: tuple[Any, ...] = (
    [],
    None,
    "text",
    np.array(["a", "b"]),
    float("nan"),
    [float("nan")],
    [[float("nan")]],
    [10**9],
    [[10**9]],
    [True],
)
"""Values outside every domain."""


def bad_values_are_refused(case: MechanismCase, bad: Any) -> Iterator[str]:
    """Checks that values outside the domain raise an exception whose message names the mechanism."""
    with collect_refusals(ValueError, TypeError) as sentences:
        case.mechanism.encode(bad, rng=case.generator())
    if not sentences:
        yield f"encode({bad!r}) returned messages"
    for sentence in sentences:
        if not sentence.startswith(case.class_name):
            yield f"the message for {bad!r} does not begin with {case.class_name}: {sentence!r}"
        if not sentence.endswith("."):
            yield f"the message for {bad!r} does not end with a full stop: {sentence!r}"


def _build_refusal_check(bad: Any) -> Check[MechanismCase]:
    wrong = f"The bad value {bad!r} is not refused as it should be"
    meaning = "bad data must stop a collection before anything is encoded, with an error that names the expected value"
    return Check(f"{bad!r} is refused with a sentence", partial(bad_values_are_refused, bad=bad), wrong, meaning)


@conformance_check(
    "The canonical form of a value is not its own canonical form",
    "a value that is checked twice would become another one",
)
def the_canonical_form_is_stable(case: MechanismCase) -> Iterator[str]:
    """Checks that ``check`` does not change its own result, and that inputs of table and probe are canonical."""
    mechanism = case.mechanism
    for name, values in (("the table's inputs" if mechanism.has_table else "probe()", case.values),
                         ("probe()", mechanism.audit_pair())):  # fmt: skip
        once = mechanism.check(values)
        twice = mechanism.check(once)
        if once.shape != twice.shape or once.dtype != twice.dtype or not np.array_equal(once, twice):
            yield f"check() changes values of {name} that it gave itself"
        if len(once) != len(values):
            yield f"check() makes {len(once)} values of {len(values)}"


INPUT_CHECKS: tuple[Check[MechanismCase], ...] = (
    *map(_build_refusal_check, INVALID_VALUES),
    the_canonical_form_is_stable,
)


# --- The law and its local guarantee ---


@conformance_check(
    "The table's rows are not distributions",
    "no number computed from this law means anything",
    certainty=EXACT,
    why_not=require_table,
)
def the_output_law_is_normalised(case: MechanismCase) -> Iterator[str]:
    """Checks that every row of the table is a distribution, exactly."""
    for place, row in enumerate(case.rows):
        if sum(row) != 1:
            yield f"the probabilities of input {place} sum to 1 and {float(sum(row) - 1):.3g}"
        if min(row) < 0:
            yield f"input {place} has a negative probability"


@conformance_check(
    "The executed law breaks the local guarantee",
    "a message alone reveals more about its user than local_epsilon allows",
    certainty=EXACT,
    why_not=require_table,
)
def the_local_guarantee_holds_exactly(case: MechanismCase) -> Iterator[str]:
    """Checks that no likelihood ratio exceeds e^epsilon; only mechanisms with dummies may have no local guarantee."""
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


def require_local_without_table(case: MechanismCase) -> str:
    """Returns why the check does not apply; empty for a mechanism without a table but with a local guarantee."""
    alone = "" if case.mechanism.local_epsilon is not None else "a message alone promises nothing"
    several = "its parts keep their promises each by itself" if isinstance(case.mechanism, HasParts) else ""
    return require_no_table(case) or alone or several


@conformance_check(
    "The stated parameters break the local guarantee",
    "a message alone reveals more about its user than epsilon allows",
    certainty="certain: ball arithmetic",
    why_not=require_local_without_table,
)
def without_a_table_the_parameters_keep_the_promise(case: MechanismCase) -> Iterator[str]:
    """Checks that the ratios of the parameters and of the blanket's pairs are at most e^epsilon."""
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


@conformance_check(
    "has_table is False, but table() does not refuse",
    "say has_table = True, so that the law is checked exactly",
    why_not=require_no_table,
)
def without_a_table_it_is_refused(case: MechanismCase) -> Iterator[str]:
    """Checks that ``table`` raises ValueError with a message that names the mechanism."""
    with collect_refusals(ValueError) as sentences:
        case.mechanism.table()
    if not sentences:
        yield "table() returned"
    for sentence in sentences:
        if not (sentence.startswith(f"{case.class_name}: ") and sentence.endswith(" as a table.")):
            yield f"expected the sentence '{case.class_name}: … as a table.', got {sentence!r}"


def largest_ratio(first: Probabilities, second: Probabilities) -> Fraction | None:
    """Returns the largest likelihood ratio, without 0/0; None if a positive probability is divided by 0."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a > 0]
    return None if any(b <= 0 for _, b in pairs) else max(a / b for a, b in pairs)


LAW_CHECKS: tuple[Check[MechanismCase], ...] = (
    the_output_law_is_normalised,
    the_local_guarantee_holds_exactly,
    without_a_table_the_parameters_keep_the_promise,
    without_a_table_it_is_refused,
)

MAX_COUNT_VECTORS = 400_000
"""Largest number of vectors of counts, over all pairs of inputs, for a blanket's exact divergence."""
TIGHTNESS_TOLERANCE = 1e-9
MAX_ORDERED_INPUTS, MIXTURE_EXP_EPSILONS = 9, (Fraction(21, 20), Fraction(3, 2))
"""Largest number of inputs to compare in convex order, and the e^ε to compare at."""
TOO_MANY_RATIOS_REASON = "it has too many different likelihood ratios to enumerate; take a smaller instance"


@conformance_check(
    "The ratio p of variation_ratio() is too small",
    "every bound computed from it may be below the truth",
    certainty=EXACT,
    why_not=require_bounded_ratios,
)
def the_ratio_is_at_most_p(case: MechanismCase) -> Iterator[str]:
    """Checks that p holds for every pair of inputs."""
    p, rows = case.mechanism.variation_ratio().p, case.hiding_table.rows
    if math.isinf(p):
        return
    for a, b in itertools.permutations(range(len(rows)), 2):
        ratio = largest_ratio(rows[a], rows[b])
        if ratio is None:
            yield f"inputs {a} and {b} have an infinite ratio, p is {p:.9g}"
        elif ratio > Fraction(p):
            yield f"inputs {a} and {b} have the ratio {float(ratio):.17g}, p is {p:.17g}"


@conformance_check(
    "The total variation β of variation_ratio() is too small",
    "every bound computed from it may be below the truth",
    certainty=EXACT,
    why_not=require_bounded_ratios,
)
def the_total_variation_is_at_most_beta(case: MechanismCase) -> Iterator[str]:
    """Checks that β holds for every pair of inputs."""
    beta = case.mechanism.variation_ratio().beta
    for (a, b), variation in total_variations(case).items():
        if variation > Fraction(beta):
            yield f"inputs {a} and {b} have total variation {float(variation):.17g}, β is {beta:.17g}"


def require_tight(case: MechanismCase) -> str:
    """Returns why a check of tightness does not apply; empty if the law claims to be tight."""
    return require_bounded_ratios(case) or ("" if case.mechanism.law.tight else "its law does not say that it is tight")


@conformance_check(
    "law.tight is True, but no pair of inputs attains β",
    "guarantees hold, but they are worse than they could be; state the attained β or tight = False",
    certainty=EXACT,
    why_not=require_tight,
)
def some_pair_attains_beta(case: MechanismCase) -> Iterator[str]:
    """Checks that β is the largest total variation if the law claims to be tight."""
    beta, largest = case.mechanism.variation_ratio().beta, float(max(total_variations(case).values()))
    if not largest >= beta * (1 - TIGHTNESS_TOLERANCE):
        yield f"the largest total variation is {largest:.12g}, β is {beta:.12g}"


@conformance_check(
    "The others' messages do not contain the parts that q and q_common state",
    "every bound computed from variation_ratio() may be below the truth",
    certainty=EXACT,
    why_not=require_bounded_ratios,
)
def the_others_contain_the_decomposition(case: MechanismCase) -> Iterator[str]:
    """Checks that R_i ≥ r0·Q0 + r1·Q1 + (γ/q_common)·Q_c pointwise, exactly, for all pairs and other users.

    Either input may be the one that q0 is for, because both directions are always taken.
    """
    parameters = case.mechanism.variation_ratio()
    q_pair = tuple(map(Fraction, parameters.q_pair))
    q_common = max(q_pair) if parameters.q_common is None else Fraction(parameters.q_common)
    # α and pα per unit of |x − y|.
    unlikely = Fraction(0) if math.isinf(parameters.p) else 1 / (Fraction(parameters.p) - 1)
    likely = 1 + unlikely
    table = case.hiding_table
    for a, b in case.input_pairs:
        columns = set(zip(table.rows[a], table.rows[b], table.blanket, strict=True))
        if not all(min(x, y) >= unlikely * abs(x - y) for x, y, _ in columns):
            yield f"inputs {a} and {b} have no common part for the stated p"
            continue
        holds = [
            all(
                floor >= likely * abs(x - y) / (q0 if x > y else q1) + (min(x, y) - unlikely * abs(x - y)) / q_common
                for x, y, floor in columns
            )
            for q0, q1 in (q_pair, q_pair[::-1])
        ]
        if not any(holds):
            yield f"for inputs {a} and {b} some other user's law is too small"


def require_enumerable_blankets(case: MechanismCase) -> str:
    """Returns why a check of blankets does not apply; empty if the vectors of counts can be enumerated."""
    if require_bounded_ratios(case):
        return require_bounded_ratios(case)
    users, ratio = max(BLANKET_LEVELS)
    most = len(case.input_pairs) * math.comb(users + len(case.hiding_table.blanket), users)
    if most <= MAX_COUNT_VECTORS:
        return ""
    # Equal values of G are merged, which usually leaves few.
    sizes = [len(case.gain_law(a, b, ratio)) for a, b in case.input_pairs]
    counts = sum(math.comb(users + size - 1, users) for size in sizes)
    return "" if counts <= MAX_COUNT_VECTORS else TOO_MANY_RATIOS_REASON


def require_enumerable_tight_blankets(case: MechanismCase) -> str:
    """Returns why a check of tight blankets does not apply; empty if the law claims tightness and can be enumerated."""
    return require_tight(case) or require_enumerable_blankets(case)


@conformance_check(
    "blankets() leave out the worst pair of inputs",
    "the blanket bound may be below the truth",
    certainty=EXACT_UP_TO_ROUNDING,
    why_not=require_enumerable_blankets,
)
def the_blanket_covers_the_worst_pair(case: MechanismCase) -> Iterator[str]:
    """Checks that the blankets' divergence is at least that of every pair's own blanket.

    A pair's own blanket is the pointwise least of all rows.
    """
    for users, ratio, truth, claimed in case.blanket_divergences:
        if not claimed >= float(truth) - 1e-12:
            yield f"with n = {users} and e^ε = {ratio} they give {claimed:.12g}, the worst pair {float(truth):.12g}"


@conformance_check(
    "law.tight is True, but blankets() are worse than the worst pair of inputs",
    "guarantees hold, but they are worse than they could be; state the least blanket or tight = False",
    certainty=EXACT_UP_TO_ROUNDING,
    why_not=require_enumerable_tight_blankets,
)
def the_blanket_covers_no_more(case: MechanismCase) -> Iterator[str]:
    """Checks that the blankets' divergence is that of the worst pair if the law claims to be tight."""
    for users, ratio, truth, claimed in case.blanket_divergences:
        if not claimed <= float(truth) * (1 + 1e-6) + 1e-12:
            yield f"with n = {users} and e^ε = {ratio} they give {claimed:.12g}, the worst pair {float(truth):.12g}"


def require_tight_single_message(case: MechanismCase) -> str:
    """Returns why the check does not apply; empty if the law claims to be tight and every user sends one message."""
    alone = "" if case.mechanism.one_message_each else "users send more than one message"
    return require_tight(case) or alone


@conformance_check(
    "law.tight is True, but attacks() leave a gap",
    "guarantees hold, but the lower bound beside them is needlessly small; give the others of an attack the input that "
    "hides worst, or state tight = False",
    certainty=EXACT_UP_TO_ROUNDING,
    why_not=require_tight_single_message,
)
def some_attack_tells_the_most(case: MechanismCase) -> Iterator[str]:
    """Checks that an attack attains max Σ (P − Q)²/R over all inputs if the law claims tightness.

    R is the law of all others. That is the information in the shuffled messages of many users. If the law states no
    attack, those of the table count.
    """
    derived = case.mechanism.derived_attacks()
    pairs = case.mechanism.attacks() or (() if derived is None else derived())
    known = max((pair.spread() for pair in pairs), default=0.0)
    worst = max(_chi_square_divergences(case))
    if not known >= worst * (1 - TIGHTNESS_TOLERANCE):
        yield f"the attacks attain at most {known:.9g}, but {worst:.9g} is possible if all others hold one input"


def _chi_square_divergences(case: MechanismCase) -> Iterator[float]:
    """Yields, for every input that all others may hold, the largest Σ (P − Q)²/R over all pairs of inputs."""
    rows = np.array([[float(chance) for chance in row] for row in case.rows])
    for third in rows:
        there = third > 0
        products = rows[:, there] / third[there] @ rows[:, there].T
        own = np.diag(products)
        yield float((own[:, None] + own - 2 * products).max())


def require_mixture_cover(case: MechanismCase) -> str:
    """Returns why the check does not apply; empty if the law claims that its blankets cover mixtures."""
    covers = case.mechanism.law.covers_mixtures and case.mechanism.messages_per_user == 1
    return require_table(case) or ("" if covers else "its law does not say that its blankets cover mixtures")


@conformance_check(
    "law.covers_mixtures is True, but blankets() do not cover every pair of inputs in convex order",
    "bounds of mixtures of it with other randomizers may be below the truth",
    certainty=EXACT,
    why_not=require_mixture_cover,
)
def the_blankets_cover_mixtures(case: MechanismCase) -> Iterator[str]:
    """Checks that the G of every two inputs, also equal ones, is below that of one of the blankets in convex order."""
    ways = [way for pair in case.mechanism.blankets() for way in (pair, pair.swapped())]
    inputs = range(min(MAX_ORDERED_INPUTS, len(case.hiding_table.rows)))
    for ratio in MIXTURE_EXP_EPSILONS:
        covers = [gain_law_of_pair(way, ratio) for way in ways]
        for a, b in itertools.product(inputs, repeat=2):
            if not any(is_below_in_convex_order(case.gain_law(a, b, ratio), cover) for cover in covers):
                yield f"at e^ε = {ratio}, inputs {a} and {b} are not covered"


def require_two_messages(case: MechanismCase) -> str:
    """Returns why the check does not apply; empty if the law states that there are two messages."""
    return require_table(case) or ("its law has no coin_range()" if case.mechanism.coin_range() is None else "")


@conformance_check(
    "coin_range() is not the range of one message's probability",
    "the bound for two messages may be below the truth",
    certainty=EXACT,
    why_not=require_two_messages,
)
def the_coin_is_that_of_the_table(case: MechanismCase) -> Iterator[str]:
    """Checks that two messages are ever sent, and that ``coin_range`` has the extreme probabilities of one of them."""
    columns = [(min(column), max(column)) for column in zip(*case.rows, strict=True) if max(column) > 0]
    if len(columns) != 2:
        yield f"{len(columns)} messages may be sent, not two"
    elif case.mechanism.coin_range() not in columns:
        yield "neither message has these extreme probabilities"


def total_variation(first: Probabilities, second: Probabilities) -> Fraction:
    """Returns Σ (P − Q)_+."""
    return sum((max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))


def total_variations(case: MechanismCase) -> dict[tuple[int, int], Fraction]:
    """Returns the total variation of every pair of inputs."""
    rows = case.hiding_table.rows
    return {(a, b): total_variation(rows[a], rows[b]) for a, b in case.input_pairs}


PRIVACY_CHECKS: tuple[Check[MechanismCase], ...] = (
    the_ratio_is_at_most_p,
    the_total_variation_is_at_most_beta,
    some_pair_attains_beta,
    the_others_contain_the_decomposition,
    the_blanket_covers_the_worst_pair,
    the_blanket_covers_no_more,
    some_attack_tells_the_most,
    the_blankets_cover_mixtures,
    the_coin_is_that_of_the_table,
)


# --- Guarantees and attacks by brute force ---


PROTOCOL_USER_COUNTS, PROTOCOL_EXP_EPSILONS = (2, 3), (Fraction(9, 8), Fraction(3, 2))
TOO_LARGE_REASON = "its table is too large for brute force"
MAX_OUTCOMES = 3_000_000
"""Largest number of datasets × sequences of messages for the check of two and three users."""


def require_enumerable_protocol(case: MechanismCase) -> str:
    """Returns why the check does not apply; empty if the datasets of two users can be enumerated."""
    if require_table(case):
        return require_table(case)
    return "" if _count_outcomes(case, min(PROTOCOL_USER_COUNTS)) <= MAX_OUTCOMES else TOO_LARGE_REASON


@conformance_check(
    "A guarantee is below the truth",
    "the guarantee that amplify() returns does not hold",
    certainty=EXACT,
    why_not=require_enumerable_protocol,
    slow=True,
)
def no_bound_is_below_the_real_protocol(case: MechanismCase) -> Iterator[str]:
    """Checks, for two and three users, that δ of ``amplify`` is at least the worst divergence over all datasets."""
    rows = [list(row) for row in case.rows]
    for users in PROTOCOL_USER_COUNTS:
        if _count_outcomes(case, users) > MAX_OUTCOMES:
            continue
        curve = amplify(case.mechanism, users, effort=QUICK_EFFORT)
        for ratio in PROTOCOL_EXP_EPSILONS:
            if case.mechanism.messages_per_user > 1:
                truth = multi_message_divergence.worst_divergence(
                    multi_message_divergence.report_laws(case.table), users, ratio
                )
            else:
                truth = exact_enumeration.worst_divergence(rows, users, ratio)
            upper = curve.delta(math.log(float(ratio))).upper
            if not upper >= float(truth) * (1 - bounds.RELATIVE_TOLERANCE):
                yield (
                    f"with n = {users} and e^ε = {ratio}, amplify() says δ ≤ {upper:.9g}, "
                    f"some dataset has δ = {float(truth):.9g}"
                )


def require_enumerable_dataset(case: MechanismCase) -> str:
    """Returns why the check does not apply; empty if all datasets of some number of users can be enumerated."""
    if require_table(case):
        return require_table(case)
    return "" if bounds.feasible_user_counts(case.mechanism) else TOO_LARGE_REASON


@conformance_check(
    "A bound is below the truth, or an attack above it",
    "bounds use wrong properties of its law",
    certainty=EXACT,
    why_not=require_enumerable_dataset,
    slow=True,
)
def every_bound_and_attack_holds_for_all_datasets(case: MechanismCase) -> Iterator[str]:
    """Checks, for up to seven users, that no bound is below the worst dataset and no attack above it."""
    # By default ``all-crowds`` does not apply to so few users.
    guarantees = [*(bound for bound in BOUNDS if bound.guarantees), WorstDatasetBound(fewest=1)]
    for users in bounds.feasible_user_counts(case.mechanism):
        for ratio in bounds.EXP_EPSILONS:
            truth = bounds.worst_dataset_divergence(case.mechanism, users, ratio)
            found = bounds.check_upper_bounds(guarantees, case.mechanism, truth, users, ratio)
            yield from (wrong for _, wrong in found if wrong)
            yield from bounds.check_attack(case.mechanism, truth, users, ratio)


def _count_outcomes(case: MechanismCase, users: int) -> int:
    inputs, outputs = len(case.rows), len(case.rows[0])
    return int(inputs ** (users + 1) * outputs**users)


PROTOCOL_CHECKS: tuple[Check[MechanismCase], ...] = (
    no_bound_is_below_the_real_protocol,
    every_bound_and_attack_holds_for_all_datasets,
)


# --- Settings and pickling ---


def require_numeric_settings(case: MechanismCase) -> str:
    """Returns the reason why the check does not apply; empty if a plan can name the mechanism.

    It can if the mechanism is built from numbers or from a table of them.
    """
    named = catalogue.is_buildable_by_name(type(case.mechanism))
    return "" if named else "it is not built from numbers (built_from_numbers = False)"


@conformance_check(
    "The settings do not build the same mechanism",
    "a saved plan would run another mechanism than the one that was planned",
    why_not=require_numeric_settings,
)
def the_settings_build_the_same_mechanism(case: MechanismCase) -> Iterator[str]:
    """Checks that settings are numbers and texts by the constructor's names, and that they build an equal mechanism.

    A mechanism that is made of others is built from its document in a plan.
    """
    settings = case.mechanism.settings()
    if case.mechanism.combines_mechanisms:
        yield from find_differences(
            case, catalogue.from_document(json.loads(json.dumps(case.mechanism.to_document()))), "read again"
        )
        return
    for name, value in settings.items():
        if name != case.mechanism.table_setting and not (value is None or isinstance(value, int | float | str)):
            yield f"setting {name} is no number or text but {type(value).__name__}"
    yield from find_differences(case, type(case.mechanism)(**settings), "built from its settings")


@conformance_check(
    "The mechanism does not survive pickling",
    "collections on several processes or machines cannot use it",
    why_not=require_numeric_settings,
)
def it_survives_pickling(case: MechanismCase) -> Iterator[str]:
    """Checks that the unpickled mechanism is the same, also with the caches of a mechanism that was used."""
    mechanism = case.mechanism
    for use in (mechanism.variation_ratio, mechanism.blankets, mechanism.attacks):
        # Aggregate noise has no law for single messages.
        with suppress(NotApplicable):
            use()
    mechanism.variance(case.values[:1])
    mechanism.estimate(case.send_messages(case.values[:1], case.generator(4)), users=1)
    yield from find_differences(case, pickle.loads(pickle.dumps(mechanism)), "after pickling")


def find_differences(case: MechanismCase, other: Any, how: str) -> Iterator[str]:
    """Yields the differences between the mechanism and another one that should be equal."""
    if other != case.mechanism:
        yield f"{how}, it is not equal to itself"
    if other.settings() != case.mechanism.settings():
        yield f"{how}, it has other settings"
    values = np.repeat(case.values[:2], 50, axis=0)
    sent, again = (
        one.pack(MechanismCase(one, case.seed).send_messages(values, case.generator(4)))
        for one in (case.mechanism, other)
    )
    if not np.array_equal(sent, again):
        yield f"{how}, it sends other messages from the same seed"


SETTINGS_CHECKS: tuple[Check[MechanismCase], ...] = (the_settings_build_the_same_mechanism, it_survives_pickling)


# --- Messages as bytes ---


@conformance_check(
    "The wire does not have the stated width",
    "files of messages could not be read, and sizes would tell messages apart",
)
def rows_have_the_stated_width(case: MechanismCase) -> Iterator[str]:
    """Checks that ``pack`` gives ``message_bytes`` bytes for every message, and no more than its bits need."""
    mechanism, wire = case.mechanism, case.mechanism.pack(case.messages)
    if wire.dtype != np.uint8:
        yield f"pack() gives {wire.dtype}, not bytes (uint8)"
    if wire.shape != (len(case.messages), mechanism.message_bytes):
        expected = (len(case.messages), mechanism.message_bytes)
        yield f"pack() of {expected[0]} messages gives shape {wire.shape}, not {expected}"
    if mechanism.message_bytes != -(-mechanism.message_bits // 8):
        yield f"{mechanism.message_bits} bits are not {mechanism.message_bytes} bytes"


@conformance_check("Messages do not survive the wire", "the estimate is computed from other messages than were sent")
def messages_survive_the_wire(case: MechanismCase) -> Iterator[str]:
    """Checks that ``pack`` and ``unpack`` are inverse."""
    arrived = np.asarray(case.mechanism.unpack(case.mechanism.pack(case.messages)))
    if arrived.shape != np.shape(case.messages):
        yield f"messages of shape {np.shape(case.messages)} arrive with shape {arrived.shape}"
    elif not np.array_equal(arrived, case.messages):
        different = (arrived != case.messages).reshape(len(arrived), -1).any(axis=1)
        yield f"{int(different.sum())} of {len(arrived)} messages arrive as other ones"


@conformance_check(
    "Bytes of another width are not refused", "messages of another mechanism would be read as if they were its own"
)
def another_width_is_refused(case: MechanismCase) -> Iterator[str]:
    """Checks that rows of another width raise an exception that says what was expected."""
    wrong = np.zeros((1, case.mechanism.message_bytes + 1), dtype=np.uint8)
    with collect_refusals(ValueError) as sentences:
        case.mechanism.unpack(wrong)
    if not sentences:
        yield f"unpack() took a row of {wrong.shape[1]} bytes"
    elif "expected" not in sentences[0]:
        yield f"the refusal does not say what was expected: {sentences[0]!r}"


ENCODING_CHECKS: tuple[Check[MechanismCase], ...] = (
    rows_have_the_stated_width,
    messages_survive_the_wire,
    another_width_is_refused,
)
