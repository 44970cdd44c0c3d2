"""Rounds composed from proved points (ε, δ) of one round: chords between them, and whole numbers on a grid.

Theorem: D_x(P‖Q), x = e^ε, is convex and falls in x, and is 1 at x = 0: between two points it is below their chord
(connect the dots, Doroshenko et al. 2022). At x < 1 it is 1 − x + x·D_{1/x}(Q‖P), where the points serve as well, which
hold for both directions. What is below a function Σ q_k·(x_k − x)_+ + p, q_k ≥ 0, stays below it when one round of many
is exchanged for it, since D_x of several rounds is a positive mixture of D over the arguments of any one of them: all
rounds are below the product of the measures with mass p_k = x_k·q_k at the loss log x_k and p at infinity. This holds
for inputs that are chosen after earlier rounds were seen, too.

Every step is rounded up: masses to whole numbers of a unit, the smallest losses to larger ones, the largest to
infinity. Points above the chords over them are left out, and a jump q_k below 0 would count as 0: both only raise it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from flint import arb, fmpq, fmpz_poly

from shuffledp.numerics.ball import precision

GUARD_BITS = 96
CUT = Fraction(1, 10**6)
"""Share of δ that rounding the outermost losses may cost in all."""
MOST_PLACES = 3_000_000
"""How many places of a grid are looked at."""


class LossesTooFar(Exception):
    """The sum would be too long."""


def rational(number: Fraction) -> fmpq:
    """The same for FLINT."""
    return fmpq(number.numerator, number.denominator)


@dataclass(frozen=True)
class Chords:
    """An upper bound of D_x for x ≥ 1, by points (ε, δ) of both directions of a pair, in rising order of ε."""

    points: Sequence[tuple[Fraction, Fraction]]

    @cached_property
    def _ends(self) -> list[tuple[arb, arb]]:
        """At the precision with which it is first asked."""
        given = [(arb(rational(epsilon)).exp(), arb(rational(delta))) for epsilon, delta in self.points]
        return given if self.points and self.points[0][0] == 0 else [(arb(1), arb(1)), *given]

    def at(self, x: arb) -> arb:
        """At least D_x, for x ≥ 1."""
        ends = self._ends
        low, high = 0, len(ends)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if ends[middle][0] <= x else (low, middle)
        before, value = ends[low]
        if low + 1 == len(ends):
            return value
        after, next_value = ends[low + 1]
        chord = value + (next_value - value) * (x - before) / (after - before)
        # Where it is not known on which side of the next point x is, the value there counts as well.
        return arb(chord.upper()) if x <= after else arb(chord.upper()).max(next_value)


@dataclass(frozen=True)
class Measure:
    """Masses in whole units of 2^−bits at the losses step·(low + place), and at infinity."""

    step: Fraction
    bits: int
    low: int
    masses: Sequence[int]
    infinite: int

    @classmethod
    def of(cls, values: Sequence[arb], step: Fraction, bits: int) -> Measure:
        """The measure of the chords between values of D at e^(step·k), k = 0, 1, …, and of their mirror images."""
        last = len(values) - 1
        with precision(bits + GUARD_BITS + step.denominator.bit_length()):
            ratio = arb(rational(step)).exp()
            above = list(accumulate([ratio] * last, lambda x, y: x * y, initial=arb(1)))
            right = list(enumerate(zip(above, values, strict=True)))
            left = [(-k, (1 / x, 1 - (1 - value) / x)) for k, (x, value) in reversed(right[1:])]
            # The first one is of no mass: D is 1 at x = 0.
            dots = _hull([(-last, (arb(0), arb(1))), *left, *right])
            slopes = [(w - v) / (y - x) for (_, (x, v)), (_, (y, w)) in pairwise(dots)]
            masses = [0] * (2 * last + 1)
            for (place, (x, _)), before, after in zip(dots[1:], slopes, [*slopes[1:], arb(0)], strict=True):
                masses[place + last] = _units(x * (after - before), bits)
            return cls(step, bits, -last, masses, _units(values[last], bits))

    def times(self, rounds: int, budget: int) -> Measure:
        """The same so many times; the outermost masses, about ``budget`` units in all, may be moved."""
        result: Measure | None = None
        base, done, count = self, 0, 1
        while True:
            if rounds & count:
                done += count
                result = base if result is None else result.joined(base)._trimmed(budget * done // rounds)
            if 2 * count > rounds:
                break
            base = base.joined(base)._trimmed(budget * 2 * count // rounds)
            count *= 2
        assert result is not None, "there is a round"
        return result

    def joined(self, other: Measure) -> Measure:
        """Both, independently; each mass rounded up."""
        if len(self.masses) + len(other.masses) > MOST_PLACES:
            raise LossesTooFar("the losses of all rounds are too far apart for the grid.")
        product = fmpz_poly(list(self.masses)) * fmpz_poly(list(other.masses))
        round_up = (1 << self.bits) - 1
        masses = [int(mass) + round_up >> self.bits for mass in product.coeffs()] or [0]
        infinite = self.infinite * (sum(other.masses) + other.infinite) + other.infinite * sum(self.masses)
        return Measure(self.step, self.bits, self.low + other.low, masses, infinite + round_up >> self.bits)

    def _trimmed(self, budget: int) -> Measure:
        """Small losses are raised to one, large ones to infinity, each as long as that is within the budget."""
        masses, low, infinite = list(self.masses), self.low, self.infinite
        sums = list(accumulate(masses))
        first = min(bisect_right(sums, budget), len(masses) - 1)
        if first:
            masses = [sums[first], *masses[first + 1 :]]
            low += first
        cut = 0
        while len(masses) > 1 and cut + masses[-1] <= budget:
            cut += masses.pop()
        return Measure(self.step, self.bits, low, masses, infinite + cut)

    @cached_property
    def _tails(self) -> tuple[list[int], list[arb]]:
        """For each place, Σ of the masses from it on, and the same weighed by e^(−loss)."""
        with precision(self.bits + GUARD_BITS):
            ratio = (-arb(rational(self.step))).exp()
            weight = (-arb(rational(self.step * (self.low + len(self.masses) - 1)))).exp()
            plain, weighed = [0], [arb(0)]
            for mass in reversed(self.masses):
                plain.append(plain[-1] + mass)
                weighed.append(weighed[-1] + mass * weight)
                weight = weight / ratio
            return plain[::-1], weighed[::-1]

    def delta(self, epsilon: Fraction) -> arb:
        """Σ mass·(1 − e^(ε − loss))_+, with what is at infinity: at least the divergence at e^ε."""
        # Where losses and ε are the same, it does not matter on which side they are.
        place = min(max(0, epsilon // self.step - self.low + 1), len(self.masses))
        plain, weighed = self._tails
        with precision(self.bits + GUARD_BITS):
            finite = plain[place] - arb(rational(epsilon)).exp() * weighed[place]
            return (finite.max(arb(0)) + self.infinite) / (1 << self.bits)


def _hull(dots: Sequence[tuple[int, tuple[arb, arb]]]) -> list[tuple[int, tuple[arb, arb]]]:
    """Those that are certainly below the chords over them; of the others the chords serve."""
    kept: list[tuple[int, tuple[arb, arb]]] = []
    for dot in dots:
        while len(kept) > 1 and not _is_below(kept[-1][1], kept[-2][1], dot[1]):
            kept.pop()
        kept.append(dot)
    return kept


def _is_below(dot: tuple[arb, arb], before: tuple[arb, arb], after: tuple[arb, arb]) -> bool:
    rise, run = dot[1] - before[1], dot[0] - before[0]
    return bool(rise * (after[0] - before[0]) < (after[1] - before[1]) * run)


def composed(values: Sequence[arb], rounds: int, step: Fraction, delta: Fraction) -> Measure:
    """So many rounds, each with these values at e^(step·k), k = 0, 1, …; δ is what matters."""
    bits = bits_for(delta, rounds)
    return Measure.of(values, step, bits).times(rounds, int(CUT * delta * 2**bits))


def bits_for(delta: Fraction, rounds: int) -> int:
    """A unit of 2^−bits is of no weight against δ, however often masses are rounded."""
    return GUARD_BITS + rounds.bit_length() + (delta.denominator // max(1, delta.numerator)).bit_length()


def _units(number: arb, bits: int) -> int:
    """The least whole number of units that is not below, and not below 0."""
    whole = (number * (1 << bits)).upper().ceil().unique_fmpz()
    assert whole is not None, "the precision holds a whole number of units"
    return max(0, int(whole))
