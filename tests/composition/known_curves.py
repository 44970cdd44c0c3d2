"""Curves whose composition is known by other means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.privacy.curve import BoundValue, CurveSource, PrivacyCurve
from tests.oracle.exact_enumeration import add_one_message, multinomial_law

SOURCE = CurveSource("test", "test", 1, guarantee=True)
Outcomes = list[tuple[Fraction, Fraction]]


@dataclass(frozen=True)
class GaussianCurve(PrivacyCurve):
    """N(μ, 1) against N(0, 1), in balls."""

    mu: float

    @property
    def certified(self) -> bool:
        return True

    def _epsilon(self, delta: float) -> BoundValue:
        raise NotImplementedError

    def _delta(self, epsilon: float) -> BoundValue:
        with precision(300):
            mu, e, root = arb(self.mu), arb(epsilon), arb(2).sqrt()
            tail = (((e / mu - mu / 2) / root).erfc() - e.exp() * ((e / mu + mu / 2) / root).erfc()) / 2
            upper, lower = float(tail.upper()) * (1 + 1e-15), float(tail.lower()) * (1 - 1e-15)
        return self._value(upper, upper - lower)


@dataclass(frozen=True)
class TableCurve(PrivacyCurve):
    """The worse direction of finitely many pairs of outcomes, in exact rationals."""

    pairs: tuple[tuple[tuple[Fraction, Fraction], ...], ...]

    @property
    def certified(self) -> bool:
        return True

    def _epsilon(self, delta: float) -> BoundValue:
        raise NotImplementedError

    def _delta(self, epsilon: float) -> BoundValue:
        with precision(200):
            ratio = arb(epsilon).exp()
            best = arb(0)
            for pair in self.pairs:
                for turn in (0, 1):
                    total = arb(0)
                    for outcome in pair:
                        gap = _ball(outcome[turn]) - ratio * _ball(outcome[1 - turn])
                        total += gap.max(arb(0))
                    best = best.max(total)
            upper, lower = float(best.upper()) * (1 + 1e-15), float(best.lower()) * (1 - 1e-15)
        return self._value(upper, upper - lower)


def _ball(x: Fraction) -> arb:
    return arb(x.numerator) / x.denominator


def shuffled_counts(
    first: Sequence[Fraction], second: Sequence[Fraction], hiding: Sequence[Fraction], users: int
) -> Outcomes:
    """All count vectors with their probabilities under both inputs of user 1."""
    others = multinomial_law(tuple(hiding), users - 1)
    ones, twos = add_one_message(others, tuple(first)), add_one_message(others, tuple(second))
    return [(ones.get(key, Fraction(0)), twos.get(key, Fraction(0))) for key in sorted(set(ones) | set(twos))]
