"""Is a claim true? Rebuild the law of the randomizer, compare it with the claimed one, prove D ≤ δ for it.

The file is trusted for nothing but its question: which randomizer, how many users, which bound, which (ε, δ). What a
mechanism says of itself is asked of the same class that the engine asks: its blankets or parameters, its table, and how
many messages hide each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from os import PathLike
from typing import Any

from flint import arb, fmpq, fmpq_mat

from shuffledp.bounds import BOUND_OF
from shuffledp.certificate.claim import (
    ALL_CROWDS,
    MOST_CLASSES,
    MOST_USERS,
    PROBABILITIES,
    PROVABLE,
    Claim,
    ClassText,
    build,
)
from shuffledp.certificate.counts import Number
from shuffledp.certificate.crowds import Family, judge_crowds
from shuffledp.certificate.proof import Class, Finding, Verdict, exponential, judge
from shuffledp.certificate.reader import exact_number, read
from shuffledp.errors import ShuffledpError
from shuffledp.mechanisms import visitor
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.numerics.ball import precision
from shuffledp.privacy.others import Others
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.variation_ratio import VariationRatio

Law = list[Class]
"""The classes of one direction."""
Kind = tuple[tuple[tuple[Fraction, Fraction, Fraction], int], ...]
"""A pair of inputs of a table: how often each (first, second, least of all inputs) stands in a column."""

SNAP = Fraction(1, 10**12)
BALL_BITS = 512
SAME = 1e-14
"""Relative distance at which a claimed decimal is the rebuilt one; what is proved is the rebuilt one anyway."""
MOST_MESSAGE_BITS = 8
MOST_ITEMS = 6
"""A table of exponentially many inputs is written down only if every setting is at most this."""
MOST_CELLS_OF_PAIRS = 5_000_000


class _Refuted(Exception):
    """The claim is wrong, and why."""


class _Stranger(Exception):
    """The claim is about a class that is not the one known here by that name."""


class _TooMany(Exception):
    """There is more to prove than is looked at."""


def verify(claim: Claim | str | PathLike[str], notice: Callable[[str], None] = lambda text: None) -> Finding:
    """Prove a claim again: yes (proved), no (disproved) or cannot decide, with the reason and the method.

    ``claim``: what ``certify`` returned, or the path of its file. ``notice`` hears what is being done. Where the
    mechanism is somebody else's, its class must be known here (``--mechanism-file``, or an installed package), and the
    method says that the law is what that class states.

    >>> from shuffledp import VariationRatio
    >>> from shuffledp.certificate.certify import certify
    >>> from shuffledp.certificate.verify import verify
    >>> print(verify(certify(VariationRatio.of_ldp(1.0), 1000, delta=1e-6, effort="quick")))
    yes: the divergence is at most delta for the only law. (binomial sums in balls; law from the parameters)
    """
    if not isinstance(claim, Claim):
        claim = read(claim)
    try:
        laws, messages, origin = _to_prove(claim)
    except _Refuted as refuted:
        return Finding(Verdict.NO, str(refuted), "the law, rebuilt")
    except _Stranger as stranger:
        return Finding(Verdict.OPEN, str(stranger), "whose law it is")
    except _TooMany as many:
        return Finding(Verdict.OPEN, str(many), "how many laws there are")
    epsilon, delta = Fraction(claim.epsilon), Fraction(claim.delta)
    noun = "family of laws" if claim.bound == ALL_CROWDS else "law"
    open_: Finding | None = None
    methods: dict[str, None] = {}
    for number, law in enumerate(laws, 1):
        notice(f"proving {noun} {number} of {len(laws)}")
        finding = _judged(law, messages, epsilon, delta)
        methods[finding.method] = None
        method = f"{'; '.join(methods)}; {origin}"
        if finding.verdict is Verdict.NO:
            return Finding(Verdict.NO, finding.reason, method)
        if finding.verdict is Verdict.OPEN and open_ is None:
            open_ = finding
    if open_ is not None:
        return Finding(Verdict.OPEN, open_.reason, method)
    return Finding(Verdict.YES, f"the divergence is at most delta for {_count(len(laws), claim.bound)}.", method)


def _judged(law: Law | Family, messages: int, epsilon: Fraction, delta: Fraction) -> Finding:
    if isinstance(law, Family):
        return judge_crowds(law, messages - 1, epsilon, delta)
    return judge(law, messages, epsilon, delta)


def _count(number: int, bound: str) -> str:
    if bound == ALL_CROWDS:
        return "every crowd" if number == 1 else f"every crowd, in {number} directions"
    return "the only law" if number == 1 else f"all {number} laws"


# --- the laws to prove --------------------------------------------------------------------------------------------


def _to_prove(claim: Claim) -> tuple[Sequence[Law | Family], int, str]:
    if claim.bound == ALL_CROWDS:
        return _crowds(claim)
    return _laws(claim)


def _laws(claim: Claim) -> tuple[list[Law], int, str]:
    """Every law that must be proved, for how many messages, and where it comes from."""
    if claim.bound not in PROVABLE:
        what = "no numeric bound that guarantees" if claim.bound in BOUND_OF else "unknown"
        raise _Refuted(f"the bound {claim.bound!r} is {what}; expected one of {', '.join((*PROVABLE, ALL_CROWDS))}.")
    _demand_theorem(claim)
    _, above = exponential(Fraction(claim.epsilon))
    if "parameters" in claim.randomizer:
        if claim.bound == "optimal":
            raise _Refuted("the bound 'optimal' needs a randomizer, not parameters.")
        parameters = Parameters.of(claim.randomizer["parameters"]).for_bound(claim.bound)
        laws = parameters.laws(above)
        _compare(claim, laws)
        return laws, claim.users, "law from the parameters"
    mechanism, messages, whose = _mechanism(claim)
    kinds = _kinds(mechanism)
    checked = "law from the mechanism" if kinds is None else "law checked against the table of all its messages"
    checked += whose
    if claim.bound == "optimal":
        laws = _blankets(mechanism)
        _compare(claim, laws)
        return _distinct([*laws, *map(_law_of_kind, kinds or ())]), messages, checked
    parameters = Parameters.of(mechanism.variation_ratio().describe()).for_bound(claim.bound)
    laws = parameters.laws(above)
    _compare(claim, laws)
    for kind in kinds or ():
        parameters.check(kind)
    return laws, messages, checked


def _demand_theorem(claim: Claim) -> None:
    if claim.theorem != BOUND_OF[claim.bound].theorem:
        raise _Refuted(f"the theorem of {claim.bound} is {BOUND_OF[claim.bound].theorem!r}, got {claim.theorem!r}.")


def _mechanism(claim: Claim) -> tuple[Mechanism, int, str]:
    """The mechanism that is claimed about, how many messages hide each other, and a remark whose it is."""
    mechanism = build(claim.randomizer)
    whose = _whose(claim, mechanism)
    messages = mechanism.hiding_messages(claim.users)
    if messages > MOST_USERS:
        raise ValueError(f"certificate: expected at most {MOST_USERS} messages that hide each other, got {messages}.")
    return mechanism, messages, whose


def _whose(claim: Claim, mechanism: Mechanism) -> str:
    """A remark where the law is not this package's; stop where it is not the claimed class's."""
    here = visitor.origin(type(mechanism))
    if here == claim.origin:
        return "" if here is None else f", both as stated by {here}, which is not of shuffledp"
    ours = "shuffledp"
    raise _Stranger(
        f"the claim is about {claim.randomizer['mechanism']!r} of {claim.origin or ours}, "
        f"and the one of that name here is of {here or ours}."
    )


def _compare(claim: Claim, laws: Sequence[Law]) -> None:
    """Refute at the first difference between the claimed and the rebuilt law."""
    _compare_laws("direction", claim.law, laws)


def _compare_laws(
    what: str, claimed: Sequence[Sequence[ClassText]], rebuilt: Sequence[Sequence[Class]], before: str = ""
) -> None:
    if len(claimed) != len(rebuilt):
        raise _Refuted(f"{before}the law has {len(claimed)} {what}s in the file and {len(rebuilt)} in truth.")
    for number, (classes, truth) in enumerate(zip(claimed, rebuilt, strict=True), 1):
        if len(classes) != len(truth):
            raise _Refuted(f"{before}{what} {number} has {len(classes)} classes in the file and {len(truth)} in truth.")
        for place, (texts, numbers) in enumerate(zip(classes, truth, strict=True), 1):
            for name, chance in zip(PROBABILITIES, numbers, strict=True):
                _demand_same(f"{before}{what} {number}, class {place}: {name}", texts[name], chance)


def _demand_same(what: str, text: str, number: Number) -> None:
    if not _same(text, number):
        raise _Refuted(f"{what} is {_short(text)} in the file and {_short(str(number))} in truth.")


def _same(text: str, number: Number) -> bool:
    with precision(BALL_BITS):
        claimed = exact_number(text)
        if isinstance(claimed, fmpq) and isinstance(number, fmpq):
            return bool(claimed == number)
        ball, truth = arb(claimed), arb(number)
        # A claimed ball must be narrow, or it would say nothing.
        return bool(ball.rad() <= SAME * abs(truth)) and bool(abs(ball - truth) <= SAME * abs(truth))


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def _blankets(mechanism: Mechanism) -> list[Law]:
    """The mechanism's own blankets, each in every direction that may differ."""
    result: list[Law] = []
    with precision(BALL_BITS):
        for pair in mechanism.blankets():
            for way in (pair,) if pair.symmetric else (pair, pair.swapped()):
                result.append(_classes(way))
    return result


def _classes(pair: HidingPair) -> Law:
    """At the working precision, where they are not exact."""
    return [(c[0], c[1], c[2]) for c in (pair.classes() if pair.exact is None else pair.exact)]


# --- the laws of all crowds ---------------------------------------------------------------------------------------


def _crowds(claim: Claim) -> tuple[list[Family], int, str]:
    """Every family of laws that must be proved, for how many messages, and where it comes from."""
    _demand_theorem(claim)
    if "parameters" not in claim.randomizer:
        mechanism, messages, whose = _mechanism(claim)
        return _families(claim, mechanism.others()), messages, f"laws of all others from the mechanism{whose}"
    if "local" not in claim.randomizer:
        raise _Refuted(f"the bound {claim.bound!r} needs ratios that hold both ways (local).")
    named = claim.randomizer["parameters"]
    Parameters.of(named)
    q_pair = named["q0"], named["q1"]
    ratios = VariationRatio(named["p"], named["beta"], q_pair, q_common=named["q_common"], local=True)
    families = _families(claim, ratios.others())
    if not (ratios.at_maximum and q_pair == (ratios.p, ratios.p)):
        return families, claim.users, "laws of all others from the parameters, as VariationRatio states them"
    _demand_all_ldp_kinds(families[0], _rational(ratios.p))
    return families, claim.users, "laws of all others from the parameters, all extreme ones of a local ε"


def _families(claim: Claim, others: Sequence[Others]) -> list[Family]:
    """Those of the file, rebuilt; and the other direction of what is said to be its own mirror image and is not."""
    found: list[Family] = []
    mirrored: list[Family] = []
    count = 0
    with precision(BALL_BITS):
        for one in others:
            for way in (one,) if one.symmetric else (one, one.swapped()):
                kinds = tuple(tuple(_classes(kind)) for kind in way.kinds)
                count += sum(map(len, kinds))
                if count > MOST_CLASSES:
                    raise _TooMany(f"there are more than {MOST_CLASSES} classes of messages.")
                found.append(Family(_rational(way.gamma), kinds))
            if one.symmetric and not _is_own_mirror(found[-1].kinds):
                mirrored.append(Family(found[-1].gamma, tuple(tuple(_classes(kind.swapped())) for kind in one.kinds)))
    if not found or len(claim.crowds) != len(found):
        raise _Refuted(f"there are {len(claim.crowds)} directions of crowds in the file and {len(found)} in truth.")
    for number, (text, family) in enumerate(zip(claim.crowds, found, strict=True), 1):
        before = f"direction {number}: "
        _demand_same(f"{before}gamma", text.gamma, family.gamma)
        _compare_laws("kind", text.kinds, family.kinds, before)
    return [*found, *mirrored]


def _is_own_mirror(kinds: Sequence[Sequence[Class]]) -> bool:
    """Whether exchanging the two inputs leaves the laws of G as they are; not where they are not exact."""
    laws = {_proportions(kind) for kind in kinds}
    return None not in laws and laws == {_proportions([(b, a, h) for a, b, h in kind]) for kind in kinds}


def _demand_all_ldp_kinds(family: Family, p: fmpq) -> None:
    """Refute unless every extreme law of a local ε is there, found a second time.

    Messages have weights of 1 or p under the two inputs and another user's; three equations say that each law sums to
    1, so that the extreme ones have at most three messages. Where the two inputs have one law G is never above 0.
    """
    there = {_proportions(kind) for kind in family.kinds}
    for chosen in combinations(product((fmpq(1), p), repeat=3), 3):
        matrix = fmpq_mat(3, 3, [message[law] for law in range(3) for message in chosen])
        if matrix.det() == 0:
            continue
        masses = matrix.solve(fmpq_mat(3, 1, [1, 1, 1])).entries()
        if min(masses) < 0:
            continue
        kind = [(m * a, m * b, m * h) for m, (a, b, h) in zip(masses, chosen, strict=True) if m > 0]
        if any(a != b for a, b, _ in kind) and _proportions(kind) not in there:
            raise _Refuted("the kinds of others lack one that a local ε allows.")
    if family.gamma * p > 1:
        raise _Refuted("gamma is above 1/p.")


# --- the law of parameters ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameters:
    """Variation-ratio parameters as exact rationals; p is None for infinity.

    The sound reduction of ``shuffledp.privacy.variation_ratio``, derived here a second time.
    """

    p: fmpq | None
    beta: fmpq
    q0: fmpq
    q1: fmpq
    q_common: fmpq

    @classmethod
    def of(cls, named: Mapping[str, float]) -> Parameters:
        """From floats, taken at their word; a sentence if they are no parameters."""
        p = None if math.isinf(named["p"]) else _rational(named["p"])
        rest = [_rational(named[name]) for name in ("beta", "q0", "q1", "q_common")]
        result = cls(p, *rest)
        snap = fmpq(SNAP.numerator, SNAP.denominator)
        if p is not None and p <= 1:
            raise ValueError(f"certificate: p must be above 1, got {named['p']!r}.")
        if not 0 <= result.beta <= result.most * (1 + snap):
            raise ValueError(f"certificate: beta must be between 0 and (p-1)/(p+1), got {named['beta']!r}.")
        if min(rest[1:]) < 1:
            raise ValueError("certificate: q0, q1 and q_common must be at least 1.")
        if result._hiding > 1 + snap:
            raise ValueError("certificate: r0 + r1 + γ/q_common must be at most 1.")
        return result

    @property
    def most(self) -> fmpq:
        """The largest β that p allows."""
        return fmpq(1) if self.p is None else (self.p - 1) / (self.p + 1)

    @cached_property
    def variation(self) -> fmpq:
        """β, and its maximum where it is within 1e-12 of that."""
        nearly = self.most * (1 - fmpq(SNAP.numerator, SNAP.denominator))
        return self.most if self.beta >= nearly else self.beta

    @property
    def unlikely(self) -> fmpq:
        """α."""
        return fmpq(0) if self.p is None else self.variation / (self.p - 1)

    @property
    def likely(self) -> fmpq:
        """pα = α + β."""
        return self.unlikely + self.variation

    @property
    def shared(self) -> fmpq:
        """γ."""
        return 1 - self.unlikely - self.likely

    @property
    def _hiding(self) -> fmpq:
        return self.likely / self.q0 + self.likely / self.q1 + self.shared / self.q_common

    @property
    def ratios(self) -> tuple[fmpq, fmpq, fmpq]:
        """q0, q1, q_common, raised together where rounding put their condition beyond 1."""
        excess = max(fmpq(1), self._hiding)
        return self.q0 * excess, self.q1 * excess, self.q_common * excess

    def for_bound(self, bound: str) -> Parameters:
        """The parameters that a bound works with: the clones know only the largest ratio."""
        if bound == "variation-ratio":
            return self
        if self.p is None:
            raise _Refuted(f"the bound {bound!r} needs a finite p.")
        ratio = max(self.p, self.q0, self.q1, self.q_common)
        hiding = ratio if bound == "stronger-clone" else _float_above(2 * ratio * ratio / (ratio + 1))
        return Parameters(ratio, (ratio - 1) / (ratio + 1), hiding, hiding, hiding)

    def laws(self, above: fmpq) -> list[Law]:
        """Both directions, or one where they are the same; ``above`` is at least e^ε."""
        swapped = Parameters(self.p, self.beta, self.q1, self.q0, self.q_common)
        return [way._law(above) for way in ((self,) if self.q0 == self.q1 else (self, swapped))]

    def _law(self, above: fmpq) -> Law:
        """The reduction grows with β only while q_common·(e^ε − 1) ≤ q1·(e^ε − 1/p): else q1 is raised.

        What q1 must be grows with e^ε, and a larger q1 than needed is sound.
        """
        q0, q1, q_common = self.ratios
        disjoint = self.p is None and self.beta >= 1
        if not disjoint:
            inverse = fmpq(0) if self.p is None else 1 / self.p
            q1 = max(q1, q_common * (above - 1) / (above - inverse))
        classes = [
            (self.likely, self.unlikely, self.likely / q0),
            (self.unlikely, self.likely, self.likely / q1),
            (self.shared, self.shared, self.shared / q_common),
        ]
        rest = 1 - sum((hiding for _, _, hiding in classes), fmpq(0))
        return [c for c in [*classes, (fmpq(0), fmpq(0), rest)] if c[2] != 0]

    def check(self, kind: Kind) -> None:
        """Refute unless the parameters hold for a pair of inputs and all that hides it.

        Either input may be the one that q0 is for, because both ways are proved.
        With the pair's own β ≤ ours (the bound grows with β): every input's probability is at least
        p|a−b|/((p−1)q) + (min(a,b) − |a−b|/(p−1))/q_common, where a, b are the pair's.
        """
        q0, q1, q_common = (_fraction(q) for q in self.ratios)
        p = None if self.p is None else _fraction(self.p)
        likely, unlikely = (Fraction(1), Fraction(0)) if p is None else (p / (p - 1), 1 / (p - 1))
        variation = sum((max(a - b, Fraction(0)) * count for (a, b, _), count in kind), Fraction(0))
        if variation > _fraction(self.variation):
            raise _Refuted(f"the mechanism's total variation is {float(variation):.9g}, above beta.")
        holds: dict[bool, bool] = {False: True, True: True}
        for (a, b, least), _ in kind:
            gap, common = abs(a - b), min(a, b) - abs(a - b) * unlikely
            if common < 0:
                raise _Refuted(f"the mechanism's ratio {float(max(a, b) / min(a, b)):.9g} is above p.")
            for swapped in holds:
                ratio = q0 if (a > b) != swapped else q1
                holds[swapped] &= least >= likely * gap / ratio + common / q_common
        if not any(holds.values()):
            raise _Refuted("the mechanism's ratios to what hides it are above q0, q1 or q_common.")


def _rational(number: float) -> fmpq:
    if not math.isfinite(number):
        raise ValueError("certificate: beta, q0, q1 and q_common must be finite.")
    return fmpq(*number.as_integer_ratio())


def _fraction(number: fmpq) -> Fraction:
    return Fraction(int(number.p), int(number.q))


def _float_above(number: fmpq) -> fmpq:
    """The smallest float that is not below."""
    exact = _fraction(number)
    nearest = float(exact)
    return _rational(nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf))


# --- the law of a table -------------------------------------------------------------------------------------------


def _kinds(mechanism: Mechanism) -> list[Kind] | None:
    """Every ordered pair of inputs, each kind once; None where the table is too large to write down."""
    if mechanism.message_bits > MOST_MESSAGE_BITS:
        return None
    sizes = [size for size in mechanism.settings().values() if isinstance(size, int)]
    if mechanism.values.combines_items and max(sizes, default=math.inf) > MOST_ITEMS:
        return None
    try:
        table = mechanism.hiding_table()
    except (ValueError, ShuffledpError):
        return None
    rows = table.rows
    if len(rows) ** 2 * len(rows[0]) > MOST_CELLS_OF_PAIRS:
        return None
    # Small whole numbers in place of fractions make the many comparisons cheap.
    numbers = sorted({number for row in (*rows, table.floor) for number in row})
    place = {number: index for index, number in enumerate(numbers)}
    short = [[place[number] for number in row] for row in rows]
    least = [place[number] for number in table.floor]
    found = {
        frozenset(Counter(zip(first, second, least, strict=True)).items()): None
        for i, first in enumerate(short)
        for j, second in enumerate(short)
        if i != j
    }
    return [tuple(((numbers[a], numbers[b], numbers[h]), count) for (a, b, h), count in sorted(kind)) for kind in found]


def _law_of_kind(kind: Kind) -> Law:
    """The pair against the pointwise minimum, and the rest."""
    classes = [tuple(count * fmpq(x.numerator, x.denominator) for x in triple) for triple, count in kind]
    rest = 1 - sum((c[2] for c in classes), fmpq(0))
    return [(first, second, hiding) for first, second, hiding in [*classes, (fmpq(0), fmpq(0), rest)]]


def _distinct(laws: Sequence[Law]) -> list[Law]:
    """Exact laws of G once each: classes in the same proportion are one class."""
    seen: set[Any] = set()
    result = []
    for law in laws:
        key = _proportions(law)
        if key is None or key not in seen:
            result.append(law)
            seen.add(key)
    return result


def _proportions(law: Sequence[Class]) -> frozenset[Any] | None:
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
