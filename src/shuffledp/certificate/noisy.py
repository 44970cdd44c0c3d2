"""Dummies, and others' messages that are dummies by chance: is a user among them (ε, δ)-private?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from shuffledp.certificate.proof import Class, Finding, Verdict, divergence
from shuffledp.numerics.ball import precision

BITS = 192
SMOOTHING = 1e-4
ROOM = 2.0**-13
"""Of δ, about what sizes of the crowd may have that are left out at either end."""
STRATA, EVERY_SIZE = 24, 48
"""Into how many parts the sizes are divided, unless each of so few can be one."""
LEAST_DELTA = 1e-280
METHOD = "contour sums in balls for the sizes of the crowd, by strata"


@dataclass(frozen=True)
class NoisyCrowd:
    """``messages`` that hide for certain, and each of ``others`` more with probability ``chance``, independently."""

    messages: int
    others: int
    chance: Fraction

    def judged(self, law: Sequence[Class], epsilon: Fraction, delta: Fraction) -> Finding:
        """Whether E[D_{M+H}] ≤ δ, H ~ Bin(others, chance), where D_m is the divergence among m messages of the law.

        Theorem: D_m falls with m, as one more message is post-processing. So sizes from a up to before b have at most
        their chance times D_{M+a} and at least their chance times D_{M+b−1}; fewer than the first at most D_M.
        """
        with precision(BITS + delta.denominator.bit_length()):
            edges = self._edges(max(float(delta), LEAST_DELTA))
            chances = [self._fewer(edge) for edge in edges]
            masses = [after - before for before, after in zip(chances, [*chances[1:], arb(1)], strict=True)]
        sides = [divergence(law, self.messages + edge, epsilon, SMOOTHING) for edge in (0, *edges)]
        if any(one is None for one in sides):
            return Finding(Verdict.OPEN, "the sum that would decide it is too long.", METHOD)
        whole, *among = [one for one in sides if one is not None]
        with precision(BITS + delta.denominator.bit_length()):
            bound = arb(fmpq(delta.numerator, delta.denominator))
            upper = chances[0] * whole.upper
            for mass, one in zip(masses, among, strict=True):
                upper += mass.max(arb(0)) * one.upper
            lower = arb(0)
            for mass, following in zip(masses, among[1:], strict=False):
                lower += mass * following.lower
            if upper <= bound or whole.upper <= bound:
                return Finding(Verdict.YES, "the divergence is at most δ.", METHOD)
            if lower > bound:
                reason = f"this bound's divergence is above δ: at least {float(lower.lower()):.7g}."
                return Finding(Verdict.NO, reason, METHOD)
        return Finding(Verdict.OPEN, "δ is too near to the divergence itself.", METHOD)

    def _edges(self, delta: float) -> list[int]:
        """From where fewer are unlikely enough to where more hardly count."""
        mean = self.others * float(self.chance)
        far = math.sqrt(-2 * mean * math.log(delta * ROOM))
        low, high = max(0, math.floor(mean - far)), min(self.others, math.ceil(mean + 4 * math.sqrt(mean)) + 1)
        parts = high - low if high - low <= EVERY_SIZE else STRATA
        return sorted({low + (high - low) * step // max(parts, 1) for step in range(parts + 1)})

    def _fewer(self, count: int) -> arb:
        """P(H < count): 1 − P(H ≥ count), an incomplete beta function."""
        if count <= 0:
            return arb(0)
        return 1 - arb(fmpq(self.chance.numerator, self.chance.denominator)).beta_lower(
            count, self.others - count + 1, regularized=True
        )
