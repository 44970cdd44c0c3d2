"""One round as it is drawn, and many of it: from points (ε, δ) of those who come to the divergence of all rounds.

Theorem: of a share s of a population, drawn at random without replacement, D_x is at most s times D_y of those drawn,
y = 1 + (x − 1)/s, x ≥ 1 ([VR] Proposition 2; it grows with s, since D is convex and falls). Where a coin decides for
each person, their number is independent of the data and seen by everybody, and given it they are such a sample: D_x is
at most the mean over the numbers. More people hide better: of a number in between the points of the smaller size serve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from shuffledp.certificate.chords import Chords, LossesTooFar, Measure, bits_for, composed, rational
from shuffledp.certificate.coin_sizes import Coins
from shuffledp.numerics.ball import precision

MOST_STEPS = 100_000
"""How many steps of the grid one round's loss may reach over."""
LEFT_OUT = 1e-6
"""Share of δ that the sizes which are in no cell may cost."""


@dataclass(frozen=True)
class Draw:
    """Who takes part in a round: some out of ``of`` people, ``colluding`` of whom tell what they know."""

    of: int
    colluding: int
    drawn: int | None = None
    """So many, without replacement; None where coins decide."""
    rate: str | None = None
    """Everyone with this probability, as a decimal, by a coin of their own."""

    @property
    def secret(self) -> int:
        """How many people do not collude: among them the sample is drawn, for all that the others know."""
        return self.of - self.colluding

    @property
    def chance(self) -> Fraction:
        """How probably a person is drawn, for all that those who collude know."""
        return Fraction(self.rate) if self.drawn is None else self.share(self.drawn)  # type: ignore[arg-type]

    def share(self, drawn: int) -> Fraction:
        """How probably a person is among so many."""
        return min(Fraction(1), Fraction(drawn, self.secret))


@dataclass(frozen=True)
class Size:
    """A number of users, and points (ε, δ) of one round of them: replacing a value is (ε, δ)-private."""

    users: int
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class DrawnRounds:
    """So many rounds, each drawn in the same way, on a grid of losses."""

    rounds: int
    draw: Draw | None
    step: float

    def bound(self, sizes: Sequence[Size], delta: Fraction) -> Measure | Once:
        """What is at least the divergence of all rounds, by proved points; δ is what matters."""
        return self.measure(sizes, delta) if self.rounds > 1 else self._once(sizes, delta)

    def measure(self, sizes: Sequence[Size], delta: Fraction) -> Measure:
        """The losses of all rounds, by proved points; δ is what matters."""
        step = Fraction(self.step)
        once = self._once(sizes, delta)
        with precision(once.bits):
            last = math.ceil(once.reach / self.step) + 1
            if last > MOST_STEPS:
                raise LossesTooFar("the losses of one round are too far apart for the grid.")
            values = [once.at(arb(rational(k * step)).exp()) for k in range(last + 1)]
        return composed(values, self.rounds, step, delta)

    def _once(self, sizes: Sequence[Size], delta: Fraction) -> Once:
        bits = 2 * bits_for(delta, self.rounds) + Fraction(self.step).denominator.bit_length()
        curves = [Chords([(Fraction(e), Fraction(d)) for e, d in size.points]) for size in sizes]
        if self.draw is None or self.draw.drawn is not None:
            share = Fraction(1) if self.draw is None else self.draw.chance
            return Once([(arb(1), share, curves[0])], arb(0), bits)
        coins = Coins(self.draw.secret, self.draw.chance)
        starts = [size.users for size in sizes]
        most = max(starts[-1], coins.most(LEFT_OUT * float(delta) / self.rounds))
        number, cells = 0, []
        for cell in coins.cells(starts, most):
            while number + 1 < len(starts) and starts[number + 1] <= cell.least:
                number += 1
            cells.append((cell.chance, self.draw.share(cell.most), curves[number]))
        # Of nobody there is nothing to see.
        outside = coins.below(starts[0]) if starts[0] > 1 else arb(0)
        return Once(cells, outside + coins.above(most), bits)


@dataclass(frozen=True)
class Once:
    """One round: cells of sizes with their chance, the share that is drawn, and the curve; and what is in no cell."""

    cells: Sequence[tuple[arb, Fraction, Chords]]
    outside: arb
    bits: int

    def delta(self, epsilon: Fraction) -> arb:
        """At least the divergence at e^ε."""
        with precision(self.bits):
            return self.at(arb(rational(epsilon)).exp())

    def at(self, x: arb) -> arb:
        """At least D_x for x ≥ 1, at a working precision of ``bits``."""
        total = self.outside
        for chance, curve in self._everybody:
            total += chance * curve.at(x)
        for chance, inverse, curve in self._drawn:
            total += chance * curve.at(1 + (x - 1) * inverse)
        return arb(total.upper()).min(arb(1))

    @cached_property
    def _everybody(self) -> list[tuple[arb, Chords]]:
        return [(chance, curve) for chance, share, curve in self.cells if share == 1]

    @cached_property
    def _drawn(self) -> list[tuple[arb, arb, Chords]]:
        """The chance times the share, and the inverse of the share."""
        found = [(chance, rational(share), curve) for chance, share, curve in self.cells if share < 1]
        return [(chance * share, arb(1 / share), curve) for chance, share, curve in found]

    @property
    def reach(self) -> float:
        """An ε from which on this hardly falls."""
        ends = [(float(share), float(curve.points[-1][0])) for _, share, curve in self.cells if curve.points]
        return max((math.log1p(share * math.expm1(min(end, 700.0))) for share, end in ends), default=0.0)
