"""Laws of messages, from the text of a claim or from parameters, and their comparison.

A law is a list of classes of messages, each with its probability under the user's first value, under the second, and in
another user's message. A claim writes these as exact fractions, or as decimals with a radius.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import Any

from flint import arb, fmpq, fmpq_mat

from shuffledp_verify.arithmetic import Number, fraction, precision, rational, round_up_to_float
from shuffledp_verify.divergence import Class
from shuffledp_verify.verdict import Refuted
from shuffledp_verify.worst_dataset_bound import LawFamily

ClassText = dict[str, str]
"""One class of messages: its three probabilities as text."""
LawText = tuple[tuple[ClassText, ...], ...]
"""Some laws, such as one for each direction of the divergence."""
Law = list[Class]
"""The classes of one direction."""

PROBABILITY_NAMES = ("first", "second", "hiding")
TEXT_BITS = 160
TEXT_DIGITS = 40
MAX_FRACTION_DIGITS = 2000
"""A fraction of more digits is written as a decimal with its radius."""
BALL_BITS = 512
DECIMAL_TOLERANCE = 1e-14
"""Largest relative difference between a claimed decimal and the rebuilt number; the proof uses the rebuilt one."""
MAX_SUM_ERROR = 1e-25
"""Largest distance from 1 of a sum of decimals; claimed numbers have seven digits and a larger margin."""

_FRACTION = re.compile(r"\d+(/[1-9]\d*)?")
_BALL = re.compile(r"\[-?\d+(\.\d+)?(e[+-]?\d{1,4})? \+/- \d+(\.\d+)?(e[+-]?\d{1,4})?\]")


# --- Laws as text ---


def format_number(number: Number) -> str:
    """Returns a probability as text: a fraction, or a decimal with its radius.

    Args:
        number: An exact rational, or a ball.

    Returns:
        The text.
    """
    if isinstance(number, fmpq):
        text = str(number)
        if len(text) <= MAX_FRACTION_DIGITS:
            return text
        number = arb(number)
    text = number.str(TEXT_DIGITS)
    return text if text.startswith("[") else f"[{text} +/- 0]"


def is_probability_text(value: Any) -> bool:
    """Returns True for the text of a fraction or of a ball."""
    return isinstance(value, str) and bool(_FRACTION.fullmatch(value) or _BALL.fullmatch(value))


def is_fraction_text(value: Any) -> bool:
    """Returns True for the text of a fraction."""
    return isinstance(value, str) and bool(_FRACTION.fullmatch(value))


def parse_number(text: str) -> Number:
    """Returns a probability from its text: a fraction, or a ball at the working precision."""
    if _FRACTION.fullmatch(text):
        top, _, bottom = text.partition("/")
        return fmpq(int(top), int(bottom or 1))
    return arb(text)


def parse_law(texts: Sequence[ClassText]) -> Law:
    """Returns the law that a claim writes.

    Args:
        texts: The probabilities of each class.

    Returns:
        The classes, as balls if they are not exact.

    Raises:
        Refuted: If they are not a law: a probability is negative; those of another user do not sum to 1; or those of
            the user's values, which may be bounds (the first from above, the second from below), have too small or too
            large a sum.
    """
    with precision(BALL_BITS):
        law: Law = []
        for one in texts:
            first, second, hiding = (parse_number(one[name]) for name in PROBABILITY_NAMES)
            law.append((first, second, hiding))
        for place, name in enumerate(PROBABILITY_NAMES):
            column = [one[place] for one in law]
            if any(number < 0 for number in column):
                raise Refuted(f"a probability of the law in the file is negative ({name}).")
            total = sum(column[1:], column[0])
            error = arb(0 if isinstance(total, fmpq) else MAX_SUM_ERROR)
            enough, not_too_much = arb(total) >= 1 - error, arb(total) <= 1 + error
            if not (enough or name == "second") or not (not_too_much or name == "first"):
                raise Refuted(f"the probabilities of the law in the file do not sum to 1 ({name}).")
        return law


# --- Comparison of laws ---


def compare_laws(
    what: str, claimed: Sequence[Sequence[ClassText]], rebuilt: Sequence[Sequence[Class]], before: str = ""
) -> None:
    """Compares the laws of a claim with rebuilt ones.

    Args:
        what: The name of one of the laws, for messages.
        claimed: The laws of the claim.
        rebuilt: The rebuilt laws.
        before: The beginning of messages.

    Raises:
        Refuted: At the first difference.
    """
    if len(claimed) != len(rebuilt):
        raise Refuted(f"{before}the law has {len(claimed)} {what}s in the file and {len(rebuilt)} in truth.")
    for number, (classes, truth) in enumerate(zip(claimed, rebuilt, strict=True), 1):
        if len(classes) != len(truth):
            raise Refuted(f"{before}{what} {number} has {len(classes)} classes in the file and {len(truth)} in truth.")
        for place, (texts, numbers) in enumerate(zip(classes, truth, strict=True), 1):
            for name, chance in zip(PROBABILITY_NAMES, numbers, strict=True):
                check_number(f"{before}{what} {number}, class {place}: {name}", texts[name], chance)


def check_number(what: str, text: str, number: Number) -> None:
    """Refutes the claim unless its text is this number."""
    if not _is_same_number(text, number):
        raise Refuted(f"{what} is {_abbreviate(text)} in the file and {_abbreviate(str(number))} in truth.")


def _is_same_number(text: str, number: Number) -> bool:
    with precision(BALL_BITS):
        claimed = parse_number(text)
        if isinstance(claimed, fmpq) and isinstance(number, fmpq):
            return bool(claimed == number)
        ball, truth = arb(claimed), arb(number)
        # A wide claimed ball would contain almost any number.
        return bool(ball.rad() <= DECIMAL_TOLERANCE * abs(truth)) and bool(
            abs(ball - truth) <= DECIMAL_TOLERANCE * abs(truth)
        )


def _abbreviate(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def distinct_laws(laws: Sequence[Law]) -> list[Law]:
    """Returns each exact law of G once; classes in the same proportion count as one class."""
    seen: set[Any] = set()
    result = []
    for law in laws:
        key = proportions(law)
        if key is None or key not in seen:
            result.append(law)
            seen.add(key)
    return result


def proportions(law: Sequence[Class]) -> frozenset[Any] | None:
    """Returns the proportions of the classes, which determine the law of G; None if they are not exact."""
    weights: dict[Any, fmpq] = {}
    for first, second, hiding in law:
        if not (isinstance(first, fmpq) and isinstance(second, fmpq) and isinstance(hiding, fmpq)):
            return None
        if hiding != 0:
            kind = first / hiding, second / hiding
            weights[kind] = weights.get(kind, fmpq(0)) + hiding
        elif first != 0 or second != 0:
            return None
    return frozenset(weights.items())


# --- Variation-ratio parameters ---

PairKind = tuple[tuple[tuple[Fraction, Fraction, Fraction], int], ...]
"""A pair of values of a table: triples (first, second, least over all values) of columns, each with its number."""

BETA_TOLERANCE = Fraction(1, 10**12)


@dataclass(frozen=True)
class VariationRatioParameters:
    """Variation-ratio parameters as exact rationals; p is None for infinity.

    The sound variation-ratio reduction: a law of at most four classes whose divergence bounds that of every randomizer
    with these parameters.
    """

    p: fmpq | None
    beta: fmpq
    q0: fmpq
    q1: fmpq
    q_common: fmpq

    @classmethod
    def from_description(cls, words: Mapping[str, float | str]) -> VariationRatioParameters:
        """Returns the parameters of a claim.

        Args:
            words: Floats, taken exactly, or the text "inf".

        Returns:
            The parameters.

        Raises:
            ValueError: If they are not valid parameters.
        """
        named = {name: float(number) for name, number in words.items()}
        p = None if math.isinf(named["p"]) else require_finite(named["p"])
        rest = [require_finite(named[name]) for name in ("beta", "q0", "q1", "q_common")]
        result = cls(p, *rest)
        snap = rational(BETA_TOLERANCE)
        if p is not None and p <= 1:
            raise ValueError(f"certificate: p must be above 1, got {named['p']!r}.")
        if not 0 <= result.beta <= result.largest_beta * (1 + snap):
            raise ValueError(f"certificate: beta must be between 0 and (p-1)/(p+1), got {named['beta']!r}.")
        if min(rest[1:]) < 1:
            raise ValueError("certificate: q0, q1 and q_common must be at least 1.")
        if result._hiding > 1 + snap:
            raise ValueError("certificate: r0 + r1 + γ/q_common must be at most 1.")
        return result

    @property
    def largest_beta(self) -> fmpq:
        """The largest β that p allows."""
        return fmpq(1) if self.p is None else (self.p - 1) / (self.p + 1)

    @cached_property
    def total_variation(self) -> fmpq:
        """β, or its maximum if β is within 1e-12 of it."""
        nearly = self.largest_beta * (1 - rational(BETA_TOLERANCE))
        return self.largest_beta if self.beta >= nearly else self.beta

    @property
    def alpha(self) -> fmpq:
        """α of the reduction."""
        return fmpq(0) if self.p is None else self.total_variation / (self.p - 1)

    @property
    def p_alpha(self) -> fmpq:
        """pα = α + β."""
        return self.alpha + self.total_variation

    @property
    def gamma(self) -> fmpq:
        """γ of the reduction."""
        return 1 - self.alpha - self.p_alpha

    @property
    def _hiding(self) -> fmpq:
        return self.p_alpha / self.q0 + self.p_alpha / self.q1 + self.gamma / self.q_common

    @property
    def ratios(self) -> tuple[fmpq, fmpq, fmpq]:
        """q0, q1 and q_common, raised together if rounding puts the sum of their condition above 1."""
        excess = max(fmpq(1), self._hiding)
        return self.q0 * excess, self.q1 * excess, self.q_common * excess

    def for_bound(self, bound: str) -> VariationRatioParameters:
        """Returns the parameters that a bound uses; the clone bounds use only the largest ratio.

        Args:
            bound: The name of the bound.

        Returns:
            The parameters.

        Raises:
            Refuted: If the bound needs a finite p and p is infinite.
        """
        if bound == "variation-ratio":
            return self
        if self.p is None:
            raise Refuted(f"the bound {bound!r} needs a finite p.")
        ratio = max(self.p, self.q0, self.q1, self.q_common)
        hiding = ratio if bound == "stronger-clone" else round_up_to_float(2 * ratio * ratio / (ratio + 1))
        return VariationRatioParameters(ratio, (ratio - 1) / (ratio + 1), hiding, hiding, hiding)

    def laws(self, above: fmpq) -> list[Law]:
        """Returns the laws of both directions, or one law if they are equal; ``above`` is at least e^ε."""
        swapped = VariationRatioParameters(self.p, self.beta, self.q1, self.q0, self.q_common)
        return [way._law(above) for way in ((self,) if self.q0 == self.q1 else (self, swapped))]

    def _law(self, above: fmpq) -> Law:
        """Returns the law of one direction.

        The reduction grows with β only while q_common·(e^ε − 1) ≤ q1·(e^ε − 1/p); otherwise q1 is raised.

        The required q1 grows with e^ε, and a larger q1 than required is sound.
        """
        q0, q1, q_common = self.ratios
        disjoint = self.p is None and self.beta >= 1
        if not disjoint:
            inverse = fmpq(0) if self.p is None else 1 / self.p
            q1 = max(q1, q_common * (above - 1) / (above - inverse))
        classes = [
            (self.p_alpha, self.alpha, self.p_alpha / q0),
            (self.alpha, self.p_alpha, self.p_alpha / q1),
            (self.gamma, self.gamma, self.gamma / q_common),
        ]
        rest = 1 - sum((hiding for _, _, hiding in classes), fmpq(0))
        return [c for c in [*classes, (fmpq(0), fmpq(0), rest)] if c[2] != 0]

    def check(self, kind: PairKind) -> None:
        """Refutes the claim unless the parameters hold for a pair of values and all messages that hide it.

        Either input may be the one of q0, because both directions are proved.
        With the pair's own β ≤ ours (the bound grows with β): every input's probability is at least
        p|a−b|/((p−1)q) + (min(a,b) − |a−b|/(p−1))/q_common, where a, b are the pair's.
        """
        q0, q1, q_common = (fraction(q) for q in self.ratios)
        p = None if self.p is None else fraction(self.p)
        likely, unlikely = (Fraction(1), Fraction(0)) if p is None else (p / (p - 1), 1 / (p - 1))
        variation = sum((max(a - b, Fraction(0)) * count for (a, b, _), count in kind), Fraction(0))
        if variation > fraction(self.total_variation):
            raise Refuted(f"the mechanism's total variation is {float(variation):.9g}, above beta.")
        holds: dict[bool, bool] = {False: True, True: True}
        for (a, b, least), _ in kind:
            gap, common = abs(a - b), min(a, b) - abs(a - b) * unlikely
            if common < 0:
                raise Refuted(f"the mechanism's ratio {float(max(a, b) / min(a, b)):.9g} is above p.")
            for swapped in holds:
                ratio = q0 if (a > b) != swapped else q1
                holds[swapped] &= least >= likely * gap / ratio + common / q_common
        if not any(holds.values()):
            raise Refuted("the mechanism's ratios to what hides it are above q0, q1 or q_common.")


def require_finite(number: float) -> fmpq:
    """Returns a parameter exactly; raises ValueError if it is not finite."""
    if not math.isfinite(number):
        raise ValueError("certificate: beta, q0, q1 and q_common must be finite.")
    return rational(number)


def pair_law(kind: PairKind) -> Law:
    """Returns the law of a pair of values of a table: the pair against the pointwise minimum, and the rest."""
    classes = [tuple(count * rational(x) for x in triple) for triple, count in kind]
    rest = 1 - sum((c[2] for c in classes), fmpq(0))
    return [(first, second, hiding) for first, second, hiding in [*classes, (fmpq(0), fmpq(0), rest)]]


# --- Families of laws of other users ---


def is_mirror_image(one: Sequence[Sequence[Class]], other: Sequence[Sequence[Class]]) -> bool:
    """Returns True if exchanging the two values turns one family into the other; False for inexact laws."""
    laws = {proportions(law) for law in one}
    return None not in laws and laws == {proportions([(b, a, h) for a, b, h in law]) for law in other}


def check_extreme_laws(family: LawFamily, p: fmpq) -> None:
    """Refutes a family that lacks an extreme law of a local ε; the extreme laws are derived here a second time.

    Messages have weights of 1 or p under the two values and another user's; three equations say that each law sums to
    1, so that the extreme ones have at most three messages. If the two values have the same law, G is never above 0.

    Args:
        family: The laws of a claim.
        p: e^ε of the local guarantee.

    Raises:
        Refuted: If one is missing, or γ is above 1/p.
    """
    there = {proportions(law) for law in family.kinds}
    for chosen in combinations(product((fmpq(1), p), repeat=3), 3):
        matrix = fmpq_mat(3, 3, [message[law] for law in range(3) for message in chosen])
        if matrix.det() == 0:
            continue
        masses = matrix.solve(fmpq_mat(3, 1, [1, 1, 1])).entries()
        if min(masses) < 0:
            continue
        law = [(m * a, m * b, m * h) for m, (a, b, h) in zip(masses, chosen, strict=True) if m > 0]
        if any(a != b for a, b, _ in law) and proportions(law) not in there:
            raise Refuted("the kinds of others lack one that a local ε allows.")
    if family.gamma * p > 1:
        raise Refuted("gamma is above 1/p.")
