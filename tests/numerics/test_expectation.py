"""The engine: whichever route it takes holds the exact value, and the routes agree where more than one applies."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from flint import arb
from hypothesis import given, settings, strategies as st

from shuffledp.numerics import contour_integral, positive_part
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.numerics.distributions import Bracket, FiniteLaw
from shuffledp.numerics.positive_part import PositivePartMean, positive_part_mean
from shuffledp.privacy.dominating_pairs import exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from tests.oracle.exact_enumeration import hockey_stick_of_counts

from .exact_law import (
    KINDS,
    ExactLaw,
    encloses,
    finite_law,
    laws,
    lower_end,
    overlap,
    random_law,
    relative_width,
    upper_end,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_random_laws_are_enclosed(kind: str, size: int) -> None:
    """Whatever route is taken, the bracket holds the exact value."""
    rng = Random(f"engine {kind} {size}")
    for _ in range(25):
        law, count = random_law(rng, size, kind), rng.randint(1, 12 if size < 4 else 6)
        assert encloses(positive_part_mean(law.finite, count), law.positive_part_mean(count))


@settings(deadline=None, derandomize=True, max_examples=120)
@given(laws(), st.integers(1, 6))
def test_any_law_is_enclosed(law: ExactLaw, count: int) -> None:
    """No law that an adversary finds escapes its bracket."""
    assert encloses(positive_part_mean(law.finite, count), law.positive_part_mean(count))


@pytest.mark.parametrize("values", [(0, -1), (-1, -2, -3), (0, 0, 0), (0, Fraction(-1, 10**30), -5, -7)])
def test_no_positive_value_is_exactly_zero(values: tuple[Fraction, ...]) -> None:
    """Where no value is positive both sides are exactly 0, without computing anything."""
    law = finite_law(values, [Fraction(1, len(values))] * len(values))
    found = positive_part_mean(law, 10**9)
    assert (found.lower_float(), found.upper_float()) == (0.0, 0.0)
    assert found.method == "no positive value"


def test_a_value_that_cannot_be_told_from_zero_is_counted() -> None:
    """A ball around 0 whose midpoint is not positive is not 0: its upper end, times n, is the upper side."""

    def atoms() -> list[tuple[arb, arb]]:
        return [(arb(-1e-40, 1e-30), arb(1) / 2), (arb(-1), arb(1) / 2)]

    found = positive_part_mean(FiniteLaw(atoms), 1000)
    assert found.upper_float() >= 1000 * 0.99e-30
    assert found.lower_float() == 0.0


def test_values_that_coincide() -> None:
    """A value listed several times is one value: every route still holds the exact result."""
    half, eighth = Fraction(1, 2), Fraction(1, 8)
    law = ExactLaw((Fraction(1), Fraction(1), Fraction(-1), Fraction(-1)), (eighth, eighth, half, 2 * eighth))
    for count in (1, 5, 9):
        exact = law.positive_part_mean(count)
        assert encloses(positive_part_mean(law.finite, count), exact)
        assert encloses(positive_part.bracket_by_double_recurrence(law.finite, count, -math.inf), exact)
        assert encloses(
            contour_integral.bracket(law.finite, count, contour_integral.make_plan(law.finite, count, 1e-6)), exact
        )


def test_one_value_only() -> None:
    """A sum of constants is n times the constant where that is positive, and 0 otherwise."""
    assert encloses(positive_part_mean(finite_law([-3], [1]), 7), Fraction(0))
    assert encloses(positive_part_mean(finite_law([0], [1]), 7), Fraction(0))


def routes(law: FiniteLaw, count: int, log_mass: float) -> list[Bracket]:
    """Every route that can take this law."""
    size = len(law.atoms())
    found = [contour_integral.bracket(law, count, contour_integral.make_plan(law, count, 5e-10))]
    if size <= 3:
        found.append(positive_part.bracket_by_recurrence(law, count, log_mass))
    if size == 4 and positive_part.double_recurrence_steps(law, count, log_mass) <= 150_000:
        found.append(positive_part.bracket_by_double_recurrence(law, count, log_mass))
    if positive_part.count_vectors(size, count) <= 3_000:
        found.append(positive_part.bracket_by_enumeration(law, count))
    return found


def assert_agree(found: list[Bracket]) -> None:
    """All enclosures of one number overlap pairwise."""
    for index, one in enumerate(found):
        for other in found[:index]:
            assert overlap(one, other), (one, other)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_routes_agree_on_random_laws(size: int) -> None:
    """Every pair of routes gives overlapping brackets, from one summand to a hundred."""
    rng = Random(size)
    for _ in range(25):
        law, count = (
            random_law(rng, size, rng.choice(KINDS[:3])),
            rng.choice((1, 2, 7, 20, 40, 100 if size < 4 else 30)),
        )
        if law.has_positive_value:
            assert_agree(routes(law.finite, count, -math.inf))


REAL: dict[str, VariationRatio] = {
    "any 1-LDP": VariationRatio.from_ldp(1.0),
    "any 4-LDP": VariationRatio.from_ldp(4.0),
    "balls into bins": VariationRatio(p=math.inf, beta=1.0, q=16.0),
    "randomized response on 16": VariationRatio(p=math.e, beta=(math.e - 1) / (math.e + 15), q=math.e, q_common=1.0),
    "the same without its common ratio": VariationRatio(p=math.e, beta=(math.e - 1) / (math.e + 15), q=math.e),
    "asymmetric": VariationRatio(p=9.0, beta=0.6, q=(9.0, 3.0)),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("users", [10**3, 10**4, 10**5, 10**6])
@pytest.mark.parametrize("deviations", [1.0, 5.0])
def test_routes_agree_for_many_users(name: str, users: int, deviations: float) -> None:
    """Walk, double walk and contour overlap at n = 1e3 … 1e6, each as narrow as it promises."""
    family = PositivePartMean(lambda epsilon: REAL[name].pair(epsilon).law(epsilon), users)
    epsilon = deviations * family.natural_scale()
    law = family.law_at(epsilon)
    log_mass = family.log_estimate(epsilon) - 60.0
    found = routes(law, users, log_mass)
    assert_agree(found)
    widths = {bracket.method: relative_width(bracket) for bracket in found}
    assert widths["contour"] < (1e-7 if users >= 10**5 else 1e-3)
    assert widths.get("recurrence", 0.0) < 1e-14
    assert widths.get("double recurrence", 0.0) < 1e-13


@pytest.mark.parametrize("users", [10**3, 10**5])
def test_the_engine_overlaps_every_route(users: int) -> None:
    """What the engine returns agrees with each route run by hand, with and without a common part."""
    for parameters in REAL.values():
        family = PositivePartMean(lambda epsilon, p=parameters: p.pair(epsilon).law(epsilon), users)
        epsilon = 4 * family.natural_scale()
        law = family.law_at(epsilon)
        assert_agree([positive_part_mean(law, users), *routes(law, users, family.log_estimate(epsilon) - 60)])


def test_each_route_is_taken_somewhere() -> None:
    """The engine takes the exact route that is cheap enough: all five occur."""
    few = VariationRatio.from_ldp(1.0).pair(0.3).law(0.3)
    shared = REAL["randomized response on 16"]
    taken = {
        positive_part_mean(few, 1000).method,
        positive_part_mean(shared.pair(0.3).law(0.3), 8).method,
        positive_part_mean(shared.pair(0.3).law(0.3), 100).method,
        positive_part_mean(shared.pair(0.01).law(0.01), 10**6).method,
        positive_part_mean(finite_law([-1, -2], [Fraction(1, 2)] * 2), 10**6).method,
    }
    assert taken == {"recurrence", "enumeration", "double recurrence", "contour", "no positive value"}


def test_the_mean_over_n_is_the_divergence() -> None:
    """D(x) = E(S)_+ / n equals the divergence of the counts, computed as such in fractions."""
    first, second = [Fraction(3, 8), Fraction(1, 8), Fraction(1, 2)], [Fraction(1, 8), Fraction(3, 8), Fraction(1, 2)]
    hiding = [Fraction(1, 6), Fraction(1, 4), Fraction(1, 3)]
    pair = exact_pair([tuple(map(to_rational, c)) for c in zip(first, second, hiding, strict=True)], symmetric=False)
    for users in (1, 2, 5):
        found = PositivePartMean(pair.law, users).bracket(0.0)
        exact = hockey_stick_of_counts(first, second, hiding, users, 1)
        assert lower_end(found.lower) <= exact <= upper_end(found.upper)
        assert relative_width(found) < 1e-14


@pytest.mark.parametrize("users", [3, 300, 3000, 10**6, 10**9])
def test_the_estimate_steers_well(users: int) -> None:
    """The float estimate of log D is close to the certified value at every n."""
    for parameters in REAL.values():
        family = PositivePartMean(lambda epsilon, p=parameters: p.pair(epsilon).law(epsilon), users)
        for deviations in (0.0, 1.0, 4.0):
            epsilon = deviations * family.natural_scale()
            value = family.bracket(epsilon)
            if value.lower > 0:
                assert family.log_estimate(epsilon) == pytest.approx(value.log_upper(), abs=0.01)


def test_the_estimate_of_nothing() -> None:
    """Where no value is positive the estimate is minus infinity."""
    family = PositivePartMean(lambda epsilon: VariationRatio.from_ldp(1.0).pair(epsilon).law(epsilon), 100)
    assert family.log_estimate(1.5) == -math.inf
    assert family.bracket(1.5).upper_float() == 0.0


def test_bracket_as_floats_and_logs() -> None:
    """Floats are rounded outwards, the lower one is at least 0, and logs of 0 are minus infinity."""
    third = Bracket(arb(1) / 3, arb(1) / 3, "test")
    assert Fraction(third.lower_float()) < Fraction(1, 3) < Fraction(third.upper_float())
    below = Bracket(arb(-1), arb(0), "test")
    assert below.lower_float() == 0.0
    assert below.log_upper() == -math.inf
    assert below.log_lower() == -math.inf
    halved = Bracket(arb(1), arb(3), "test").scaled(7)
    assert Fraction(halved.lower_float()) <= Fraction(1, 7)
    assert Fraction(halved.upper_float()) >= Fraction(3, 7)
    assert halved.method == "test"


@pytest.mark.parametrize("seed", range(40))
def test_a_quick_proof_is_never_wrong(seed: int) -> None:
    """Chernoff's bound proves levels above the value, never one below it; what it cannot prove the engine decides."""
    rng = Random(seed)
    weights = [rng.randint(1, 20) for _ in range(rng.choice([2, 3, 5]))]
    values = [Fraction(rng.randint(10, 40), 16), *(Fraction(rng.randint(-32, 20), 16) for _ in weights[1:])]

    def law(x: float) -> FiniteLaw:
        exact = [
            (to_rational(value - Fraction(x)), to_rational(Fraction(weight, sum(weights))))
            for value, weight in zip(values, weights, strict=True)
        ]
        return FiniteLaw(lambda: [(arb(value), arb(weight)) for value, weight in exact])

    mean = PositivePartMean(law, rng.choice([3, 50, 2000]))
    found = mean.bracket(1.0)
    low, high = found.lower_float(), found.upper_float()
    assert not mean.is_at_most(low * 0.999, 1.0) or low == 0
    assert mean.is_at_most(high * 1.001 + 1e-300, 1.0)
    assert mean.is_at_most(min(1.0, high * 1e3 + 1e-300), 1.0)
