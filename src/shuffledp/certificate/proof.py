"""A proof, or a disproof, that a user hidden by a given law is (ε, δ)-private: D_{e^ε}(P‖Q) ≤ δ.

Everything rests on identity (★): with n messages in all and G = (first − e^ε·second)/hiding under the law ``hiding``,
D = (1/n)·E(S)_+, S = G_1 + … + G_n. E(S)_+ is bounded from both sides by counts (``certificate.counts``) where there
are few of them, and by a contour sum (``certificate.line``) elsewhere.

e^ε is replaced by a rational just below it for a proof (D falls as e^ε grows), just above it for a disproof.
This is a second opinion, written for plainness: no evaluation, bound or rounding of ``shuffledp.numerics``, the engine,
is used here or in the two files that it imports, only ``precision``, which sets the working precision of the ball
arithmetic (FLINT) that both rest on. The law to judge comes from ``certificate.one_law``: of raw parameters it is
derived a second time; of a mechanism it is what its class says, the same class that the engine asks, checked against
its own table where a message has at most 8 bits and that table is small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from flint import arb, fmpq

from shuffledp.certificate.counts import (
    PROOF_BITS,
    ZERO,
    Atom,
    Number,
    binomial_sums,
    enumerated,
    few_binomials,
    few_vectors,
    positive,
)
from shuffledp.certificate.line import Line, Sides
from shuffledp.numerics.ball import precision

Class = tuple[Number, Number, Number]
"""First, second and hiding probability of one class of messages."""
Mean = Callable[[Sequence[Atom], int, Number], Number]
"""E(S)_+ of a law and a number of draws, precise enough for a target."""

EXPONENTIAL_BITS = 192
GUARD_BITS = 96


class Verdict(Enum):
    """What is known of a claim."""

    YES = "yes"
    NO = "no"
    OPEN = "cannot decide"


@dataclass(frozen=True)
class Finding:
    """A verdict, why, and how it was found.

    ``verdict``: yes, no, or cannot decide. ``reason``: one sentence. ``method``: what was computed, and from what.

    >>> import dataclasses, shuffledp as sdp
    >>> claim = sdp.certify(sdp.KRR(2.0, options=16), 5000, delta=1e-6)
    >>> sdp.verify(claim).verdict.value
    'yes'
    >>> sdp.verify(dataclasses.replace(claim, epsilon=claim.epsilon / 2)).verdict.value
    'no'
    """

    verdict: Verdict
    reason: str
    method: str

    def __str__(self) -> str:
        return f"{self.verdict.value}: {self.reason} ({self.method})"


def exponential(x: Fraction) -> tuple[fmpq, fmpq]:
    """Rationals just below and just above e^x for x ≥ 0: Taylor's series of x/2^k in whole units, squared k times.

    Each term is rounded down for the lower and up for the upper sum. The series stops at an upper term of one unit;
    from there on each term is at most half the one before it, so that all further ones are at most one unit in sum.
    """
    halvings = math.ceil(x).bit_length() + 2
    small = x / 2**halvings
    bits = EXPONENTIAL_BITS + 2 * halvings
    one = 1 << bits
    low = high = low_term = high_term = one
    k = 0
    while high_term > 1:
        k += 1
        low_term = low_term * small.numerator // (small.denominator * k)
        high_term = -(-high_term * small.numerator // (small.denominator * k))
        low, high = low + low_term, high + high_term
    high += 1
    for _ in range(halvings):
        low, high = low * low >> bits, -(-high * high >> bits)
    return fmpq(low, one), fmpq(high, one)


def judge(classes: Sequence[Class], users: int, epsilon: Fraction, delta: Fraction) -> Finding:
    """Whether D_{e^ε}(P‖Q) ≤ δ: user 1's message is by the law ``first`` or ``second``, the others' by ``hiding``.

    Requires: each of the three laws sums to 1; a class that hides with probability 0 reveals user 1.
    """
    with precision(PROOF_BITS):
        bound = fmpq(delta.numerator, delta.denominator)
        below, above = exponential(epsilon)
        low, high = _summand(classes, below), _summand(classes, above)
        if low is None or high is None:
            return Finding(Verdict.OPEN, "a hiding probability is not known to be positive.", "none")
        if low.never_positive and low.revealed <= bound:
            return Finding(Verdict.YES, "no message is e^ε times likelier under one input.", "likelihood ratios")
        if high.revealed > bound:
            return _disproved(high, users, arb(0), bound, "messages that nobody hides")
        if low.never_positive or not any(value > 0 for value, _ in high.atoms):
            return Finding(Verdict.OPEN, "e^ε is too near to the largest likelihood ratio.", "likelihood ratios")
        if few_vectors(low.merged, users):
            return _by_sum(enumerated, "enumeration of all counts", low, high, users, bound)
        quick = _by_contour(low, high, users, bound, attempts=1)
        if quick.verdict is not Verdict.OPEN:
            return quick
        if few_binomials(low.merged, users):
            return _by_sum(binomial_sums, "binomial sums in balls", low, high, users, bound)
        return _by_contour(low, high, users, bound, attempts=8)


def divergence(classes: Sequence[Class], users: int, epsilon: Fraction, smoothing: float) -> Sides | None:
    """Both sides of the divergence itself, by one contour sum (or by counts for few users); None where it is too long.

    Requires: as for ``judge``. The smaller ``smoothing``, the nearer they are, relatively.
    """
    with precision(GUARD_BITS + 2 * users.bit_length() + PROOF_BITS):
        below, above = exponential(epsilon)
        low, high = _summand(classes, below), _summand(classes, above)
        if low is None or high is None:
            return None
        revealed = arb(low.revealed).union(arb(high.revealed))
        if low.never_positive or not any(value > 0 for value, _ in high.atoms):
            return Sides(revealed.lower(), revealed.upper()) if low.never_positive else None
        if few_vectors(low.merged, users):
            least, most = arb(enumerated(high.merged, users)), arb(enumerated(low.merged, users))
            return Sides((least / users + revealed).lower(), (most / users + revealed).upper())
    with precision(GUARD_BITS + 2 * users.bit_length()):
        atoms = [(arb(a).union(arb(b)), arb(weight)) for (a, weight), (b, _) in zip(low.atoms, high.atoms, strict=True)]
        sides = Line(atoms, users).sides(smoothing)
        if sides is None:
            return None
        lower = sides.lower.max(arb(0)) / users + revealed
        return Sides(lower.lower(), (sides.upper / users + revealed).upper())


def _by_sum(mean: Mean, method: str, low: _Summand, high: _Summand, users: int, bound: fmpq) -> Finding:
    """Compare E(S)_+ itself with its target."""
    target = users * (bound - low.revealed)
    if mean(low.merged, users, target) <= target:
        return _proved(method)
    target = users * (bound - high.revealed)
    value = mean(high.merged, users, target)
    if value > target:
        return _disproved(high, users, arb(value), bound, method)
    return Finding(Verdict.OPEN, "δ is too near to the divergence itself.", method)


def _by_contour(low: _Summand, high: _Summand, users: int, bound: fmpq, *, attempts: int) -> Finding:
    """Smooth less and less, until one side decides or the sum would cost too much."""
    method = "contour sum in balls"
    with precision(GUARD_BITS + 2 * users.bit_length()):
        # One ball for each value holds it at both rationals, hence at e^ε itself.
        atoms = [(arb(a).union(arb(b)), arb(weight)) for (a, weight), (b, _) in zip(low.atoms, high.atoms, strict=True)]
        target = users * (arb(bound) - arb(low.revealed).union(arb(high.revealed)))
        line = Line(atoms, users)
        smoothing = 1e-3
        for _ in range(attempts):
            sides = line.sides(smoothing)
            if sides is None:
                break
            if sides.upper <= target:
                return _proved(method)
            if sides.lower > target:
                return _disproved(high, users, sides.lower, bound, method)
            middle = (sides.lower + sides.upper) / 2
            gap = abs(float((middle / target - 1).mid())) if target > 0 else 0.0
            smoothing = min(smoothing / 8, max(gap / 3, smoothing / 1000))
        return Finding(Verdict.OPEN, "the sum that would decide it is too long.", method)


def _proved(method: str) -> Finding:
    return Finding(Verdict.YES, "the divergence is at most δ.", method)


def _disproved(summand: _Summand, users: int, mean: arb, bound: fmpq, method: str) -> Finding:
    least = float((mean.lower() / users + arb(summand.revealed)).lower())
    reason = f"this bound's divergence is above δ: at least {least:.7g} against {float(arb(bound)):.7g}."
    return Finding(Verdict.NO, reason, method)


@dataclass(frozen=True)
class _Summand:
    """The law of G, and the divergence of the messages that nobody else ever sends."""

    atoms: list[Atom]
    revealed: Number

    @property
    def never_positive(self) -> bool:
        return all(value <= 0 for value, _ in self.atoms)

    @property
    def merged(self) -> list[Atom]:
        """Equal exact values as one, the rest as it is."""
        exact: dict[fmpq, Number] = {}
        balls: list[Atom] = []
        for value, weight in self.atoms:
            if isinstance(value, fmpq):
                exact[value] = exact.get(value, ZERO) + weight
            else:
                balls.append((value, weight))
        return [*exact.items(), *balls]


def _summand(classes: Sequence[Class], ratio: fmpq) -> _Summand | None:
    """G = (first − ratio·second)/hiding; exact classes that agree for every ratio are put together.

    None if a hiding probability may be 0. The order of the values does not depend on the ratio.
    """
    revealed: Number = fmpq(0)
    kinds: dict[tuple[fmpq, fmpq], fmpq] = {}
    balls: list[Atom] = []
    for first, second, hiding in classes:
        if hiding == 0:
            revealed += positive(first - ratio * second)
        elif not hiding > 0:
            return None
        elif isinstance(first, fmpq) and isinstance(second, fmpq) and isinstance(hiding, fmpq):
            kind = first / hiding, second / hiding
            kinds[kind] = kinds.get(kind, fmpq(0)) + hiding
        else:
            balls.append(((first - ratio * second) / hiding, hiding))
    exact = [(first - ratio * second, hiding) for (first, second), hiding in kinds.items()]
    return _Summand([*exact, *balls], revealed)
