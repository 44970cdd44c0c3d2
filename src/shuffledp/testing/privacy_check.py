"""Whether what bounds are told of a law holds: variation-ratio parameters, decomposition, privacy blanket, exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from shuffledp.testing.case import LEVELS, Case, Probabilities, with_ratios, with_table
from shuffledp.testing.check import EXACT, ROUNDED, Check, checks
from shuffledp.testing.convex_order import is_below, law_of_pair
from shuffledp.testing.law_check import largest_ratio

MOST_COUNTS = 400_000
"""How many vectors of counts, over all pairs of inputs, a blanket's exact divergence may need."""
CLOSE_TO_TIGHT = 1e-9
MOST_INPUTS, MIXTURE_RATIOS = 9, (Fraction(21, 20), Fraction(3, 2))
"""How many inputs are compared in convex order, and at which e^ε."""
TOO_MANY_RATIOS = "it has too many different likelihood ratios to enumerate; take a smaller instance"


@checks(
    "The ratio p of variation_ratio() is too small",
    "every bound computed from it may be below the truth",
    certainty=EXACT,
    why_not=with_ratios,
)
def the_ratio_is_at_most_p(case: Case) -> Iterator[str]:
    """p holds for every pair of inputs."""
    p, rows = case.mechanism.variation_ratio().p, case.hiding.rows
    if math.isinf(p):
        return
    for a, b in itertools.permutations(range(len(rows)), 2):
        ratio = largest_ratio(rows[a], rows[b])
        if ratio is None:
            yield f"inputs {a} and {b} have an infinite ratio, p is {p:.9g}"
        elif ratio > Fraction(p):
            yield f"inputs {a} and {b} have the ratio {float(ratio):.17g}, p is {p:.17g}"


@checks(
    "The total variation β of variation_ratio() is too small",
    "every bound computed from it may be below the truth",
    certainty=EXACT,
    why_not=with_ratios,
)
def the_total_variation_is_at_most_beta(case: Case) -> Iterator[str]:
    """β holds for every pair of inputs."""
    beta = case.mechanism.variation_ratio().beta
    for (a, b), variation in variations(case).items():
        if variation > Fraction(beta):
            yield f"inputs {a} and {b} have total variation {float(variation):.17g}, β is {beta:.17g}"


def needs_tight(case: Case) -> str:
    """Only where the law says that it is tight."""
    return with_ratios(case) or ("" if case.mechanism.law.tight else "its law does not say that it is tight")


@checks(
    "law.tight is True, but no pair of inputs attains β",
    "guarantees hold, but they are worse than they could be; state the attained β or tight = False",
    certainty=EXACT,
    why_not=needs_tight,
)
def some_pair_attains_beta(case: Case) -> Iterator[str]:
    """Where the law says that it is tight, β is the largest total variation."""
    beta, largest = case.mechanism.variation_ratio().beta, float(max(variations(case).values()))
    if not largest >= beta * (1 - CLOSE_TO_TIGHT):
        yield f"the largest total variation is {largest:.12g}, β is {beta:.12g}"


@checks(
    "The others' messages do not contain what q and q_common say",
    "every bound computed from variation_ratio() may be below the truth",
    certainty=EXACT,
    why_not=with_ratios,
)
def the_others_contain_the_decomposition(case: Case) -> Iterator[str]:
    """R_i ≥ r0·Q0 + r1·Q1 + (γ/q_common)·Q_c pointwise, for every pair of inputs and all that hides it, exactly.

    Either input may be the one that q0 is for, as both directions are always taken.
    """
    parameters = case.mechanism.variation_ratio()
    q_pair = tuple(map(Fraction, parameters.q_pair))
    q_common = max(q_pair) if parameters.q_common is None else Fraction(parameters.q_common)
    # α and pα per unit of |x − y|.
    unlikely = Fraction(0) if math.isinf(parameters.p) else 1 / (Fraction(parameters.p) - 1)
    likely = 1 + unlikely
    table = case.hiding
    for a, b in case.input_pairs:
        columns = set(zip(table.rows[a], table.rows[b], table.floor, strict=True))
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


def blankets_in_reach(case: Case) -> str:
    """Only where the vectors of counts can be enumerated."""
    if with_ratios(case):
        return with_ratios(case)
    users, ratio = max(LEVELS)
    most = len(case.input_pairs) * math.comb(users + len(case.hiding.floor), users)
    if most <= MOST_COUNTS:
        return ""
    # Equal values of G are merged, which usually leaves a few.
    sizes = [len(case.gain(a, b, ratio)) for a, b in case.input_pairs]
    counts = sum(math.comb(users + size - 1, users) for size in sizes)
    return "" if counts <= MOST_COUNTS else TOO_MANY_RATIOS


def tight_blankets_in_reach(case: Case) -> str:
    """The same, where the law says that it is tight."""
    return needs_tight(case) or blankets_in_reach(case)


@checks(
    "blankets() leave out the worst pair of inputs",
    "the blanket bound may be below the truth",
    certainty=ROUNDED,
    why_not=blankets_in_reach,
)
def the_blanket_covers_the_worst_pair(case: Case) -> Iterator[str]:
    """The blankets' divergence is at least that of every pair's own blanket: the pointwise least of all rows."""
    for users, ratio, truth, claimed in case.blanket_divergences:
        if not claimed >= float(truth) - 1e-12:
            yield f"with n = {users} and e^ε = {ratio} they give {claimed:.12g}, the worst pair {float(truth):.12g}"


@checks(
    "law.tight is True, but blankets() are worse than the worst pair of inputs",
    "guarantees hold, but they are worse than they could be; state the least blanket or tight = False",
    certainty=ROUNDED,
    why_not=tight_blankets_in_reach,
)
def the_blanket_covers_no_more(case: Case) -> Iterator[str]:
    """Where the law says that it is tight, equality for the worst one."""
    for users, ratio, truth, claimed in case.blanket_divergences:
        if not claimed <= float(truth) * (1 + 1e-6) + 1e-12:
            yield f"with n = {users} and e^ε = {ratio} they give {claimed:.12g}, the worst pair {float(truth):.12g}"


def needs_tight_messages(case: Case) -> str:
    """Only where the law says that it is tight, and every user sends one message."""
    alone = "" if case.mechanism.one_message_each else "users send more than one message"
    return needs_tight(case) or alone


@checks(
    "law.tight is True, but attacks() leave a gap",
    "guarantees hold, but the lower bound beside them says that they could be better than they can; let the others of "
    "an attack hold what hides worst, or state tight = False",
    certainty=ROUNDED,
    why_not=needs_tight_messages,
)
def some_attack_tells_the_most(case: Case) -> Iterator[str]:
    """Where the law says that it is tight, an attack attains max Σ (P − Q)²/R over all inputs, R what all others send.

    That is what the shuffled messages of many users tell; where the law states no attack, the table's are taken.
    """
    derived = case.mechanism.derived_attacks()
    pairs = case.mechanism.attacks() or (() if derived is None else derived())
    known = max((pair.spread() for pair in pairs), default=0.0)
    worst = max(_spreads(case))
    if not known >= worst * (1 - CLOSE_TO_TIGHT):
        yield f"the attacks tell {known:.9g} at most, where others who all hold one input leave {worst:.9g}"


def _spreads(case: Case) -> Iterator[float]:
    """For every input that all others may hold, the largest over all pairs of inputs."""
    rows = np.array([[float(chance) for chance in row] for row in case.rows])
    for third in rows:
        there = third > 0
        products = rows[:, there] / third[there] @ rows[:, there].T
        own = np.diag(products)
        yield float((own[:, None] + own - 2 * products).max())


def needs_cover(case: Case) -> str:
    """Only where the law says that its blankets cover mixtures."""
    covers = case.mechanism.law.covers_mixtures and case.mechanism.messages_per_user == 1
    return with_table(case) or ("" if covers else "its law does not say that its blankets cover mixtures")


@checks(
    "law.covers_mixtures is True, but blankets() do not cover every pair of inputs in convex order",
    "bounds of mixtures of it with other randomizers may be below the truth",
    certainty=EXACT,
    why_not=needs_cover,
)
def the_blankets_cover_mixtures(case: Case) -> Iterator[str]:
    """Every pair of inputs, equal ones included, has a G below that of one of the blankets in convex order."""
    ways = [way for pair in case.mechanism.blankets() for way in (pair, pair.swapped())]
    inputs = range(min(MOST_INPUTS, len(case.hiding.rows)))
    for ratio in MIXTURE_RATIOS:
        covers = [law_of_pair(way, ratio) for way in ways]
        for a, b in itertools.product(inputs, repeat=2):
            if not any(is_below(case.gain(a, b, ratio), cover) for cover in covers):
                yield f"at e^ε = {ratio}, inputs {a} and {b} are not covered"


def needs_coin(case: Case) -> str:
    """Only where the law says that there are two messages."""
    return with_table(case) or ("its law names no coin" if case.mechanism.coin_range() is None else "")


@checks(
    "coin_range() is not the range of one message's probability",
    "the bound for two messages may be below the truth",
    certainty=EXACT,
    why_not=needs_coin,
)
def the_coin_is_that_of_the_table(case: Case) -> Iterator[str]:
    """Two messages that are ever sent, and the extreme probabilities of one of them over all inputs."""
    columns = [(min(column), max(column)) for column in zip(*case.rows, strict=True) if max(column) > 0]
    if len(columns) != 2:
        yield f"{len(columns)} messages may be sent, not two"
    elif case.mechanism.coin_range() not in columns:
        yield "neither message has these extreme probabilities"


def total_variation(first: Probabilities, second: Probabilities) -> Fraction:
    """Σ (P − Q)_+."""
    return sum((max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))


def variations(case: Case) -> dict[tuple[int, int], Fraction]:
    """The total variation of every pair of inputs."""
    rows = case.hiding.rows
    return {(a, b): total_variation(rows[a], rows[b]) for a, b in case.input_pairs}


PRIVACY_CHECKS: tuple[Check[Case], ...] = (
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
