"""The second proof of rounds and samples: never below exact enumeration in fractions, and close to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import mpmath
import pytest
from flint import arb, fmpq
from shuffledp_verify.arithmetic import precision
from shuffledp_verify.composition import (
    Chords,
    Draw,
    GridTooLong,
    LossMeasure,
    RoundsComposition,
    SampleSizes,
    SizePoints,
    compose_rounds,
)

Outcomes = Mapping[Any, Fraction]
"""How probable each outcome is."""
ONE = Fraction(1)


def above(x: Fraction) -> Fraction:
    """A rational just above e^x."""
    with mpmath.workdps(60):
        return Fraction(str(mpmath.nstr(mpmath.exp(mpmath.mpf(x.numerator) / x.denominator), 50))) * (
            1 + Fraction(1, 10**45)
        )


def below(x: Fraction) -> Fraction:
    """A rational just below e^x."""
    return above(x) * (1 - Fraction(1, 10**44))


def hockey_stick(first: Outcomes, second: Outcomes, ratio: Fraction) -> Fraction:
    return sum((max(p - ratio * second.get(o, Fraction(0)), Fraction(0)) for o, p in first.items()), Fraction(0))


def both(first: Outcomes, second: Outcomes, ratio: Fraction) -> Fraction:
    return max(hockey_stick(first, second, ratio), hockey_stick(second, first, ratio))


def repeated(law: Outcomes, rounds: int) -> Outcomes:
    found: dict[Any, Fraction] = {(): ONE}
    for _ in range(rounds):
        again: dict[Any, Fraction] = {}
        for (before, chance), (outcome, p) in product(found.items(), law.items()):
            # The order of the outcomes tells nothing more.
            key = tuple(sorted((*before, outcome)))
            again[key] = again.get(key, Fraction(0)) + chance * p
        found = again
    return found


def is_above(bound: arb, exact: Fraction) -> bool:
    with precision(400):
        return bool(bound.upper() >= arb(fmpq(exact.numerator, exact.denominator)))


def float_above(number: Fraction) -> float:
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def points_of(curve: Callable[[Fraction], Fraction], step: float, last: int) -> tuple[tuple[float, float], ...]:
    """The exact curve at multiples of a step, rounded up."""
    places = [step * k for k in range(last + 1)]
    return tuple((place, min(1.0, float_above(curve(below(Fraction(place)))))) for place in places)


PAIRS: dict[str, tuple[Outcomes, Outcomes]] = {
    "coins": ({0: Fraction(3, 5), 1: Fraction(2, 5)}, {0: Fraction(2, 5), 1: Fraction(3, 5)}),
    "lopsided": ({0: Fraction(1, 2), 1: Fraction(1, 2)}, {0: Fraction(3, 4), 1: Fraction(1, 4)}),
    "revealing": (
        {0: Fraction(5, 8), 1: Fraction(23, 64), 2: Fraction(1, 64)},
        {0: Fraction(3, 8), 1: Fraction(39, 64), 3: Fraction(1, 64)},
    ),
}


class TestRounds:
    """Products of small laws, outcome by outcome."""

    @pytest.mark.parametrize("name", PAIRS)
    @pytest.mark.parametrize("rounds", [1, 2, 5, 8])
    def test_never_below_the_product(self, name: str, rounds: int) -> None:
        """At every ε, for coarse and fine points; fine ones are within a hundredth where both directions are alike."""
        first, second = PAIRS[name]
        products = repeated(first, rounds), repeated(second, rounds)
        for step, last, most in ((0.25, 4, 10.0), (2.0**-8, 200, 1.01 if name == "coins" else 1.5)):
            size = SizePoints(1, points_of(lambda ratio: both(first, second, ratio), step, last))
            for epsilon in (Fraction(0), Fraction(1, 10), Fraction(3, 4), Fraction(2)):
                exact = both(*products, above(epsilon))
                bound = RoundsComposition(rounds, None, step).bound([size], Fraction(1, 1000)).delta(epsilon)
                assert is_above(bound, exact)
                assert float(bound.upper()) <= float(exact) * most + 3e-8

    def test_where_points_are_missing(self) -> None:
        """Chords over what was left out are above, also at a point above them; without any nothing is promised."""
        first, second = PAIRS["coins"]
        points = points_of(lambda ratio: both(first, second, ratio), 0.0625, 16)
        raised = (*points[:5], (points[5][0], points[4][1]), *points[6:])
        exact = both(repeated(first, 4), repeated(second, 4), above(Fraction(1, 2)))
        for kept in (points, raised, points[::4], points[3:], points[-1:], ()):
            bound = (
                RoundsComposition(4, None, 0.0625).bound([SizePoints(1, kept)], Fraction(1, 100)).delta(Fraction(1, 2))
            )
            assert is_above(bound, exact)
        assert bound >= 1

    def test_many_rounds_of_a_normal_pair(self) -> None:
        """1,000 rounds of a normal mechanism are one of √1000 times its size."""

        def delta(mu: float, epsilon: float) -> float:
            return float(mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))

        mu, step = 0.01, 0.0005
        values = [arb(delta(mu, step * k) * (1 + 1e-12)) for k in range(180)]
        found = float(compose_rounds(values, 1000, Fraction(step), Fraction(1, 10**6)).delta(Fraction(3, 2)).upper())
        exact = delta(mu * math.sqrt(1000), 1.5)
        assert exact <= found <= exact * 1.01

    def test_a_chord_at_its_ends(self) -> None:
        """Between points the chord, at and beyond the last one its value; before the first the chord to 1."""
        with precision(128):
            curve = Chords([(Fraction(1), Fraction(1, 2)), (Fraction(2), Fraction(1, 4))])
            ends = arb(1).exp(), arb(2).exp()
            assert float(curve.evaluate(ends[0]).mid()) == pytest.approx(0.5)
            assert float(curve.evaluate((ends[0] + ends[1]) / 2).mid()) == pytest.approx(0.375)
            for beyond in (ends[1], ends[1] * 2, ends[1].union(ends[1] * 3)):
                assert curve.evaluate(beyond) >= arb(1) / 4
                assert float(curve.evaluate(beyond).upper()) == pytest.approx(0.25)
            assert float(curve.evaluate((1 + ends[0]) / 2).mid()) == pytest.approx(0.75)
            assert float(curve.evaluate(arb(1)).mid()) == pytest.approx(1.0)

    def test_too_long_a_grid(self) -> None:
        wide = LossMeasure(Fraction(1), 64, 0, [1] * 2_000_000, 0)
        with pytest.raises(GridTooLong):
            wide.join(wide)


# --- samples ----------------------------------------------------------------------------------------------------------

KEEP = Fraction(3, 4)


def shuffled(values: tuple[int, ...]) -> Outcomes:
    """How many ones are among the messages of randomized response."""
    found = {0: ONE}
    for value in values:
        one = KEEP if value else 1 - KEEP
        found = {
            count: found.get(count, Fraction(0)) * (1 - one) + found.get(count - 1, Fraction(0)) * one
            for count in range(len(found) + 1)
        }
    return found


def curve_of(users: int) -> Callable[[Fraction], Fraction]:
    """The exact worst divergence of so many users, over all datasets."""

    def worst(ratio: Fraction) -> Fraction:
        return max(
            both(shuffled((0, *others)), shuffled((1, *others)), ratio) for others in product((0, 1), repeat=users - 1)
        )

    return worst


def seen(values: tuple[int, ...], colluding: int, samples: Iterator[tuple[tuple[int, ...], Fraction]]) -> Outcomes:
    """What those who collude, the last ones, see of a random sample: who of them was drawn, how many, and the ones."""
    honest = len(values) - colluding
    found: dict[Any, Fraction] = {}
    for sample, chance in samples:
        known = tuple(person for person in sample if person >= honest)
        drawn = tuple(values[person] for person in sample if person < honest)
        for count, p in shuffled(drawn).items():
            key = known, len(drawn), count
            found[key] = found.get(key, Fraction(0)) + chance * p
    return found


def fixed(people: int, drawn: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    for sample in combinations(range(people), drawn):
        yield sample, Fraction(1, math.comb(people, drawn))


def flipped(people: int, rate: Fraction) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    for size in range(people + 1):
        for sample in combinations(range(people), size):
            yield sample, rate**size * (1 - rate) ** (people - size)


def worst_sample(people: int, colluding: int, rounds: int, ratio: Fraction, samples: Callable[[], Any]) -> Fraction:
    """Over all datasets, the first person's value replaced."""
    found = Fraction(0)
    for others in product((0, 1), repeat=people - 1):
        laws = [repeated(seen((value, *others), colluding, samples()), rounds) for value in (0, 1)]
        found = max(found, both(laws[0], laws[1], ratio))
    return found


EPSILONS = (Fraction(0), Fraction(1, 16), Fraction(1, 4), Fraction(5, 8))
STEP, LAST = 2.0**-6, 100


@pytest.mark.parametrize(
    ("people", "drawn", "colluding", "rounds"),
    [(4, 2, 0, 1), (4, 2, 0, 2), (5, 3, 0, 1), (4, 1, 0, 3), (4, 2, 1, 1), (4, 2, 1, 2), (4, 3, 2, 1)],
)
def test_a_fixed_sample(people: int, drawn: int, colluding: int, rounds: int) -> None:
    """Never below brute force over all samples and datasets; what colludes knows whether it was drawn."""
    users = drawn - colluding
    plan = RoundsComposition(rounds, Draw(people, colluding, sample_size=drawn), STEP)
    bound = plan.bound([SizePoints(users, points_of(curve_of(users), STEP, LAST))], Fraction(1, 1000))
    for epsilon in EPSILONS:
        exact = worst_sample(people, colluding, rounds, above(epsilon), lambda: fixed(people, drawn))
        found = bound.delta(epsilon)
        assert is_above(found, exact)
        if rounds == 1:
            # It is what the theorem says, up to the chords.
            share = min(ONE, Fraction(drawn, people - colluding))
            theorem = share * curve_of(users)(1 + (above(epsilon) - 1) / share)
            assert float(found.upper()) == pytest.approx(float(theorem), rel=1e-2, abs=1e-6)


@pytest.mark.parametrize(
    ("people", "rate", "colluding", "rounds"),
    [(4, "0.25", 0, 1), (4, "0.5", 1, 1), (3, "0.3", 0, 2), (3, "0.75", 0, 3)],
)
def test_coins(people: int, rate: str, colluding: int, rounds: int) -> None:
    """The same where a coin decides for each, with points of every size and of the smallest one."""
    plan = RoundsComposition(rounds, Draw(people, colluding, rate=rate), STEP)
    sizes = [SizePoints(users, points_of(curve_of(users), STEP, LAST)) for users in range(1, people - colluding + 1)]
    exact = [
        worst_sample(people, colluding, rounds, above(epsilon), lambda: flipped(people, Fraction(rate)))
        for epsilon in EPSILONS
    ]
    for given in (sizes, sizes[:1], sizes[:1] + sizes[-1:]):
        bound = plan.bound(given, Fraction(1, 1000))
        for epsilon, truth in zip(EPSILONS, exact, strict=True):
            assert is_above(bound.delta(epsilon), truth)
    # Without points for the smallest numbers these count in full.
    assert plan.bound(sizes[1:], Fraction(1, 1000)).delta(Fraction(0)) >= SampleSizes(
        people - colluding, Fraction(rate)
    ).mass(1)


@pytest.mark.parametrize(("people", "rate"), [(9, Fraction(1, 3)), (60, Fraction(1, 10)), (400, Fraction(1, 2))])
def test_how_many_come(people: int, rate: Fraction) -> None:
    """Cells and tails are never below the binomial law in fractions, and hardly above."""
    masses = [math.comb(people, k) * rate**k * (1 - rate) ** (people - k) for k in range(people + 1)]
    coins = SampleSizes(people, rate)
    first, last = int(coins.mean) // 2, coins.upper_quantile(1e-9)
    cells = coins.cells([first, int(coins.mean)], last)
    assert [cell.least for cell in cells[1:]] == [cell.most + 1 for cell in cells[:-1]]
    assert (cells[0].least, cells[-1].most) == (first, last)
    assert int(coins.mean) in [cell.least for cell in cells]
    for cell in cells:
        exact = sum(masses[cell.least : cell.most + 1], Fraction(0))
        assert float(exact) == pytest.approx(float(cell.chance.mid()), rel=1e-9)
        assert is_above(cell.chance, exact)
    for size in range(0, people + 1, 1 + people // 50):
        for tail, exact in (
            (coins.tail_below(size), sum(masses[:size])),
            (coins.tail_above(size), sum(masses[size + 1 :])),
        ):
            assert is_above(tail, Fraction(exact))
    assert float(sum(masses[last + 1 :])) <= 1e-9


def test_blocks_of_a_large_population() -> None:
    """Whole blocks at their largest mass: all together at most a thousandth too much."""
    coins = SampleSizes(10**10, Fraction(1, 5))
    cells = coins.cells([int(coins.mean - 7 * coins.deviation)], int(coins.mean + 7 * coins.deviation))
    assert 1 <= float(sum((cell.chance for cell in cells), arb(0)).mid()) + 1e-11 <= 1.002
