"""Noise that honest users, or the shuffler, add together: its divergence a second time, from its kind and numbers.

A kind is read from facts, a flat table of exact numbers (and, of noise within noise, another such table). None of this
uses ``shuffledp.numerics`` but ``precision``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from flint import arb, arb_poly, fmpq

from shuffledp.certificate.flood import FloodedCounts
from shuffledp.certificate.line import Sides
from shuffledp.certificate.losses import FINEST, LossCells, together
from shuffledp.certificate.mixing import Colourings
from shuffledp.certificate.moved import moved, negative_binomial, poisson_counts
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.summed import bounded_loss, laplace_sum, polya_sum, skellam_sums
from shuffledp.numerics.ball import precision

Facts = Mapping[str, Any]
"""``kind``, its numbers as ``Fraction``, and ``noise``: the facts of the noise inside."""

BITS = 256
LEFT_OUT = 2.0**-34
"""Of δ, what is left out of a law."""
SMALLER = (Fraction(1, 2), Fraction(3, 4), Fraction(7, 8), Fraction(15, 16))
"""Parts of ε at which less may be proved, where what is added to δ grows with it."""
STEPS = (256, 1024)
"""Losses of a grid up to the scale of the noise: first few, then more."""
LARGEST_MEAN = 10**7


@dataclass(frozen=True)
class NoiseTarget:
    """(ε, δ), at the working precision."""

    epsilon: Fraction
    delta: Fraction

    @property
    def factor(self) -> arb:
        """e^ε."""
        return arb(_exact(self.epsilon)).exp()

    @property
    def left_out(self) -> float:
        return max(float(self.delta) * LEFT_OUT, 1e-280)

    @property
    def bits(self) -> int:
        """A working precision at which such a δ is told."""
        return BITS + max(0, self.delta.denominator.bit_length() - self.delta.numerator.bit_length())


class NoiseProof(ABC):
    """One kind of noise."""

    kind: ClassVar[str]
    summed: ClassVar[str]
    """How its law is summed, in words."""

    @property
    def method(self) -> str:
        return self.summed

    @classmethod
    @abstractmethod
    def read(cls, facts: Facts) -> Self:
        """From its facts; a KeyError where one is missing."""

    @abstractmethod
    def sides(self, target: NoiseTarget) -> Sides | None:
        """The divergence at ε from both sides, sharp enough for δ; None where that takes too long."""

    def cells(self, left_out: float) -> Sequence[LossCells] | None:
        """What independent cells tell together, where all of them are known."""
        return None

    @property
    def scale(self) -> float:
        """The loss that counts: a grid is a part of it."""
        return 1.0

    @property
    def largest(self) -> Fraction | None:
        """An ε from which the divergence is 0, if there is one."""
        return None


@dataclass(frozen=True)
class CancellingProof(NoiseProof):
    """Cancelling noise: geometric noise on two counts of each option, and pairs that flood both."""

    flood: FloodedCounts

    kind = "cancelling"
    summed = "sums over the joint law of the counts"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        return cls(FloodedCounts(*(_exact(facts[name]) for name in ("rate", "shape", "ratio", "share"))))

    def sides(self, target: NoiseTarget) -> Sides | None:
        if self.flood.share == 1:
            return self.flood.divergence(target.factor, target.left_out)
        return composed([(self, 1)], target)

    def cells(self, left_out: float) -> Sequence[LossCells] | None:
        return self.flood.cells(left_out)

    @property
    def scale(self) -> float:
        return float(self.flood.rate)


@dataclass(frozen=True)
class PoissonProof(NoiseProof):
    """A Poisson number of dummies of each option."""

    mean: Fraction

    kind = "poisson"
    summed = "sums over the joint law of the counts"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        return cls(facts["mean"])

    def sides(self, target: NoiseTarget) -> Sides | None:
        if self.mean > LARGEST_MEAN:
            return None
        return moved(poisson_counts(arb(_exact(self.mean)), arb(target.left_out)), target.factor)

    def cells(self, left_out: float) -> Sequence[LossCells] | None:
        if self.mean > LARGEST_MEAN:
            return None
        counts = poisson_counts(arb(_exact(self.mean)), arb(left_out))
        masses = counts.masses
        never = masses[0] if counts.first == 0 else None
        return LossCells.of(masses[:-1], masses[1:]), LossCells.of(masses[1:], masses[:-1], never)

    @property
    def scale(self) -> float:
        return math.sqrt(1 / max(float(self.mean), 0.1))


@dataclass(frozen=True)
class LaplaceProof(NoiseProof):
    """Discrete Laplace noise on a sum."""

    rate: Fraction
    shift: int

    kind = "laplace"
    summed = "geometric series of the noise"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        return cls(facts["rate"], int(facts["shift"]))

    def sides(self, target: NoiseTarget) -> Sides | None:
        return laplace_sum(self.rate, self.shift, target.epsilon)

    @property
    def largest(self) -> Fraction | None:
        return self.rate * self.shift


@dataclass(frozen=True)
class PolyaProof(NoiseProof):
    """Differences of negative binomials on each of ``sums`` sums, composed by dividing ε among them."""

    rate: Fraction
    shift: int
    shape: Fraction
    sums: int

    kind = "polya"
    summed = "sums over the law of the noise, a product of power series"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        return cls(facts["rate"], int(facts["shift"]), facts["shape"], int(facts["sums"]))

    def sides(self, target: NoiseTarget) -> Sides | None:
        each = NoiseTarget(target.epsilon / self.sums, target.delta / self.sums)
        found = polya_sum(self.rate, self.shift, self.shape, each.factor, each.left_out)
        if found is None:
            return None
        # One sum alone attains its own; of several together less than the sum of all is known from below.
        return Sides(found.lower if self.sums == 1 else arb(0), (found.upper * self.sums).upper())


@dataclass(frozen=True)
class BoundedProof(NoiseProof):
    """Any noise whose losses are bounded."""

    most: Fraction

    kind = "bounded"
    summed = "the largest loss of the noise"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        return cls(facts["largest"])

    def sides(self, target: NoiseTarget) -> Sides | None:
        return bounded_loss(self.most, target.epsilon)

    @property
    def largest(self) -> Fraction | None:
        return self.most


@dataclass(frozen=True)
class SkellamProof(NoiseProof):
    """Skellam noise on each of several sums."""

    variance: Fraction
    square: Fraction
    total: Fraction

    kind = "skellam"
    summed = "Rényi divergences of the noise by the printed theorem"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        return cls(facts["variance"], facts["square"], facts["total"])

    def sides(self, target: NoiseTarget) -> Sides | None:
        return skellam_sums(self.variance, self.square, self.total, target.epsilon)


class NearProof(NoiseProof):
    """Messages within η of ones that tell only the noise inside: δ(ε) = δ_inside(ε) + (1 + e^ε)·η.

    As δ falls with ε, that of a smaller ε holds too, for which (1 + e^ε)·η is less.
    """

    inside: NoiseProof

    @abstractmethod
    def distance(self) -> arb | None:
        """η, an upper bound; None where none is found."""

    def sides(self, target: NoiseTarget) -> Sides | None:
        distance, found = self.distance(), self.inside.sides(target)
        if distance is None or found is None:
            return None
        upper = (found.upper + (1 + target.factor) * distance).upper()
        if upper > arb(_exact(target.delta)):
            for epsilon in self._smaller(target.epsilon):
                less = NoiseTarget(epsilon, target.delta)
                other = self.inside.sides(less)
                if other is not None:
                    upper = upper.min((other.upper + (1 + less.factor) * distance).upper())
        return Sides(found.lower, upper)

    def _smaller(self, epsilon: Fraction) -> list[Fraction]:
        enough = self.inside.largest
        return [*([enough] if enough is not None and enough < epsilon else []), *(part * epsilon for part in SMALLER)]


@dataclass(frozen=True)
class MixedProof(NearProof):
    """Sums whose numbers are split into shares and mixed."""

    inside: NoiseProof
    mixing: Colourings
    sums: int

    kind = "mixed"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        owners, places, base = (int(facts[name]) for name in ("owners", "places", "base"))
        return cls(read_noise(facts["noise"]), Colourings(owners, places, base), int(facts["sums"]))

    @property
    def method(self) -> str:
        return f"{self.inside.method}; colourings that mixing keeps, counted exactly and bounded for many owners"

    def distance(self) -> arb | None:
        found = self.mixing.distance()
        return None if found is None else found * self.sums


@dataclass(frozen=True)
class PaddedProof(NearProof):
    """Noise that has to fit into fixed places: η is the chance that somebody's does not.

    One user's has ``single`` + 2·``pairs`` messages, negative binomials of these shapes with ratios e^−rate and ratio.
    """

    inside: NoiseProof
    users: int
    places: int
    rate: Fraction
    ratio: Fraction
    single: Fraction
    pairs: Fraction

    kind = "padded"

    @classmethod
    def read(cls, facts: Facts) -> Self:
        exact = (facts[name] for name in ("rate", "ratio", "single", "pairs"))
        return cls(read_noise(facts["noise"]), int(facts["users"]), int(facts["places"]), *exact)

    @property
    def method(self) -> str:
        return f"{self.inside.method}; the law of one user's messages, a product of power series"

    def distance(self) -> arb | None:
        alone = negative_binomial(arb(_exact(self.single)), (-arb(_exact(self.rate))).exp(), self.places)
        twice = [arb(0)] * self.places
        for count, chance in enumerate(
            negative_binomial(arb(_exact(self.pairs)), arb(_exact(self.ratio)), self.places)
        ):
            if 2 * count < self.places:
                twice[2 * count] = chance
        product = arb_poly(alone) * arb_poly(twice)
        fits = sum((product[count] for count in range(self.places)), arb(0))
        return (self.users * (1 - fits)).upper().max(arb(0))


NOISES: tuple[type[NoiseProof], ...] = (
    *(CancellingProof, PoissonProof, LaplaceProof, PolyaProof, BoundedProof, SkellamProof, MixedProof, PaddedProof),
)
"""Every kind that is known here."""


def read_noise(facts: Facts) -> NoiseProof:
    """The noise of some facts; a KeyError where they are not those of a known kind."""
    kind = {one.kind: one for one in NOISES}[facts["kind"]]
    return kind.read(facts)


def composed(parts: Sequence[tuple[NoiseProof, int]], target: NoiseTarget) -> Sides | None:
    """Independent noises together, each so many times, on a grid of losses."""
    copies = sum(times for _, times in parts)
    cells: list[tuple[LossCells, int]] = []
    for noise, times in parts:
        found = noise.cells(target.left_out / copies)
        if found is None:
            return None
        cells += [(one, times) for one in found]
    scale = min(noise.scale for noise, _ in parts)
    best: Sides | None = None
    for steps in STEPS:
        found_sides = together(cells, max(scale / steps, FINEST), target.factor, target.left_out / copies)
        if found_sides is None:
            break
        best = found_sides
        bound = arb(_exact(target.delta))
        if best.upper <= bound or best.lower > bound:
            break
    return best


def judge_noise(parts: Sequence[tuple[NoiseProof, int]], epsilon: Fraction, delta: Fraction) -> Finding:
    """Whether independent noises together, each so many times, are (ε, δ)-private."""
    target = NoiseTarget(epsilon, delta)
    alone = parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None
    method = parts[0][0].method if alone is not None else f"{parts[0][0].method}; losses on a grid in whole numbers"
    with precision(target.bits):
        bound = arb(_exact(delta))
        sides = composed(parts, target) if alone is None else alone.sides(target)
        if sides is None:
            return Finding(Verdict.OPEN, "the law of the noise is too long, or of a kind that is not composed.", method)
        if sides.upper <= bound:
            return Finding(Verdict.YES, "the divergence is at most δ.", method)
        if sides.lower > bound:
            least = float(sides.lower)
            reason = f"the noise's divergence is above δ: at least {least:.7g} against {float(bound):.7g}."
            return Finding(Verdict.NO, reason, method)
    return Finding(Verdict.OPEN, "δ is too near to what is proved.", method)


def _exact(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)
