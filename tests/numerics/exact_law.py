"""Laws with rational values and weights, as the engine takes them, beside their exact expectations."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple

from flint import arb
from hypothesis import strategies as st

from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.numerics.distributions import Atoms, Bracket, FiniteLaw
from tests.oracle.exact_enumeration import positive_part_mean

KINDS = ("small integers", "rationals", "huge spread", "nearly equal")


class ExactLaw(NamedTuple):
    """A law of one summand in fractions."""

    values: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]

    @property
    def finite(self) -> FiniteLaw:
        return finite_law(self.values, self.weights)

    @property
    def has_positive_value(self) -> bool:
        return max(self.values) > 0

    def positive_part_mean(self, count: int) -> Fraction:
        return positive_part_mean(self.values, self.weights, count)


def finite_law(values: Sequence[Fraction | int], weights: Sequence[Fraction | int]) -> FiniteLaw:
    """The engine's law: balls around the same rationals at whatever precision is in force."""
    pairs = [(to_rational(Fraction(v)), to_rational(Fraction(w))) for v, w in zip(values, weights, strict=True)]

    def atoms() -> Atoms:
        return [(arb(value), arb(weight)) for value, weight in pairs]

    return FiniteLaw(atoms)


def fraction_of(exact: arb) -> Fraction:
    """The rational number that a ball of radius 0 stores."""
    assert exact.is_exact(), exact
    mantissa, exponent = exact.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def lower_end(ball: arb) -> Fraction:
    """The lower end of the ball, exactly."""
    return fraction_of(ball.mid()) - fraction_of(ball.rad())


def upper_end(ball: arb) -> Fraction:
    """The upper end of the ball, exactly."""
    return fraction_of(ball.mid()) + fraction_of(ball.rad())


def contains(ball: arb, exact: Fraction) -> bool:
    """Whether the ball encloses the number."""
    return lower_end(ball) <= exact <= upper_end(ball)


def encloses(bracket: Bracket, exact: Fraction) -> bool:
    """Whether the exact value lies between the two sides."""
    return lower_end(bracket.lower) <= exact <= upper_end(bracket.upper)


def relative_width(bracket: Bracket) -> float:
    """Distance of the two sides over the upper one."""
    upper = upper_end(bracket.upper)
    return float((upper - lower_end(bracket.lower)) / upper) if upper else 0.0


def overlap(one: Bracket, other: Bracket) -> bool:
    """Whether two enclosures of one number can both be right."""
    return bool(not one.upper < other.lower and not other.upper < one.lower)


def normalise(values: Sequence[Fraction], weights: Sequence[Fraction]) -> ExactLaw:
    """The law with these odds, turned over where its mean would be positive: every law of the engine has E[G] <= 0."""
    total = sum(weights)
    weights = tuple(w / total for w in weights)
    mean = sum(v * w for v, w in zip(values, weights, strict=True))
    return ExactLaw(tuple(-v if mean > 0 else v for v in values), weights)


def random_law(rng: Random, size: int, kind: str) -> ExactLaw:
    """A law with E[G] <= 0; ties of the sum, equal values and tiny weights are common."""
    if kind == "small integers":
        values = [Fraction(rng.randint(-4, 4)) for _ in range(size)]
    elif kind == "rationals":
        values = [Fraction(rng.randint(-40, 40), rng.randint(1, 20)) for _ in range(size)]
    elif kind == "huge spread":
        values = [rng.choice((-1, 1)) * Fraction(10) ** rng.randint(-8, 12) for _ in range(size)]
    else:
        base = Fraction(rng.randint(-3, 3))
        values = [base + Fraction(rng.randint(-2, 2), 10 ** rng.randint(3, 14)) for _ in range(size)]
        values[0] = Fraction(rng.randint(-5, 5))
    weights = [Fraction(rng.randint(1, 9)) for _ in range(size)]
    if rng.random() < 0.4:
        weights[rng.randrange(size)] /= 10 ** rng.randint(6, 15)
    law = normalise(values, weights)
    return law if min(law.values) < 0 or max(law.values) <= 0 else random_law(rng, size, kind)


@st.composite
def laws(draw: st.DrawFn, least_size: int = 2, most_size: int = 6) -> ExactLaw:
    """Any small law with E[G] <= 0, found adversarially."""
    size = draw(st.integers(least_size, most_size))
    number = st.one_of(
        st.integers(-3, 3).map(Fraction),
        st.fractions(-5, 5, max_denominator=30),
        st.builds(lambda sign, power: sign * Fraction(10) ** power, st.sampled_from((-1, 1)), st.integers(-9, 9)),
    )
    weight = st.one_of(st.integers(1, 9).map(Fraction), st.integers(6, 14).map(lambda power: Fraction(1, 10**power)))
    values = draw(st.lists(number, min_size=size, max_size=size))
    weights = draw(st.lists(weight, min_size=size, max_size=size))
    law = normalise(values, weights)
    return law if min(law.values) < 0 or max(law.values) <= 0 else normalise([Fraction(-1), *law.values[1:]], weights)
