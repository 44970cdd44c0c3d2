"""Variation-ratio parameters and their law, derived a second time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import fmpq

from shuffledp.certificate.every_pair import Kind
from shuffledp.certificate.written_law import Law, Refuted

SNAP = Fraction(1, 10**12)


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
    def of(cls, words: Mapping[str, float | str]) -> Parameters:
        """From floats, taken at their word, or the text "inf"; a sentence if they are no parameters."""
        named = {name: float(number) for name, number in words.items()}
        p = None if math.isinf(named["p"]) else rational(named["p"])
        rest = [rational(named[name]) for name in ("beta", "q0", "q1", "q_common")]
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
            raise Refuted(f"the bound {bound!r} needs a finite p.")
        ratio = max(self.p, self.q0, self.q1, self.q_common)
        hiding = ratio if bound == "stronger-clone" else float_above(2 * ratio * ratio / (ratio + 1))
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
        q0, q1, q_common = (fraction(q) for q in self.ratios)
        p = None if self.p is None else fraction(self.p)
        likely, unlikely = (Fraction(1), Fraction(0)) if p is None else (p / (p - 1), 1 / (p - 1))
        variation = sum((max(a - b, Fraction(0)) * count for (a, b, _), count in kind), Fraction(0))
        if variation > fraction(self.variation):
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


def rational(number: float) -> fmpq:
    """A float, exactly."""
    if not math.isfinite(number):
        raise ValueError("certificate: beta, q0, q1 and q_common must be finite.")
    return fmpq(*number.as_integer_ratio())


def fraction(number: fmpq) -> Fraction:
    """The same, as Python has it."""
    return Fraction(int(number.p), int(number.q))


def float_above(number: fmpq) -> fmpq:
    """The smallest float that is not below."""
    exact = fraction(number)
    nearest = float(exact)
    return rational(nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf))
