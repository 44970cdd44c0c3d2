"""Attacks on arcs: what is said of two or three users' points, against the definition."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import pytest

import shuffledp as sdp
from shuffledp.mechanisms.sets_and_key_values.wheel_and_collision import (
    EQUAL_POWER_SUM_SETS,
    ArcResponse,
    independent_points,
    overlap_probability,
)
from shuffledp.numerics.ball_arithmetic import to_rational


@pytest.mark.parametrize("pair", EQUAL_POWER_SUM_SETS, ids=lambda pair: str(len(pair[0])))
def test_parallel_sets(pair: tuple[Sequence[int], Sequence[int]]) -> None:
    """Π(x−a) and Π(x−b) differ by a constant, and no number is in both."""
    first, second = pair
    products = []
    for held in pair:
        coefficients = [1]
        for point in held:
            padded = [*coefficients, 0]
            coefficients = [a - point * b for a, b in zip(padded, [0, *coefficients], strict=True)]
        products.append(coefficients)
    assert products[0][:-1] == products[1][:-1]
    assert products[0][-1] != products[1][-1]
    assert len({*first, *second}) == 2 * len(first)


@pytest.mark.parametrize(("prime", "arc", "items"), [(5, 1, 2), (7, 2, 2), (11, 3, 2), (7, 1, 3), (7, 2, 3)])
def test_where_two_users_arcs_meet(prime: int, arc: int, items: int) -> None:
    """Every polynomial of degree s, by hand."""
    first, second = EQUAL_POWER_SUM_SETS[items - 1]
    met = 0
    for coefficients in product(range(prime), repeat=items + 1):
        hit = [
            any(sum(a * x**j for j, a in enumerate(coefficients)) % prime < arc for x in held)
            for held in (first, second)
        ]
        met += all(hit)
    assert overlap_probability(prime, items + 1, arc, items) == Fraction(met, prime ** (items + 1))


def law_of_two_bits(arcs: ArcResponse, held: Sequence[int], users: Sequence[Sequence[int]]) -> list[Fraction]:
    """On the arcs of both users, of the first alone, of the second alone, or of neither: from the definition."""
    total = [Fraction(0)] * 4
    for message, chance in zip(arcs.all_messages().tolist(), arcs.law_of(held), strict=True):
        *seed, place = message
        codes = arcs.hashing.codes
        starts = [[sum(a * int(c) for a, c in zip(seed, codes[x], strict=True)) for x in user] for user in users]
        one, two = (any((place - at) % arcs.places < arcs.arc_places for at in each) for each in starts)
        total[2 * (not one) + (not two)] += chance
    return total


@pytest.mark.parametrize("mechanism", [sdp.Wheel(1.0, 4, 2, 0.2, 5), sdp.Wheel(2.0, 5, 2, 0.3, 7)], ids=str)
def test_the_law_of_parallel_sets(mechanism: sdp.Wheel) -> None:
    """The classes of the attack are those of the table, in fractions."""
    arcs, users = mechanism.arcs, EQUAL_POWER_SUM_SETS[1]
    laws = [law_of_two_bits(arcs, held, users) for held in users]
    # The first attack is on one point; then the others hold what the first user does.
    found = mechanism.attacks()[1].exact
    assert found is not None
    assert sorted(found) == sorted(tuple(map(to_rational, row)) for row in zip(*laws, laws[0], strict=True))


def test_how_many_points_are_independent() -> None:
    """All of three users' where seeds are long enough, none where they are not."""
    assert independent_points(sdp.Collision(0.5, 128, 4).arcs.hashing, 4, 2) == (True, 4)
    assert independent_points(sdp.Collision(3.0, 128, 4).arcs.hashing, 4, 2) == (True, 3)
    assert independent_points(sdp.Wheel(1.0, 128, 4).arcs.hashing, 4, 1) == (False, 0)


@pytest.mark.parametrize(
    ("mechanism", "least"),
    [
        (sdp.Wheel(1.0, 128, 4), 0.0214),
        (sdp.Collision(1.0, 128, 4), 0.0221),
        (sdp.Collision(0.5, 128, 4), 0.0102),
        (sdp.SQKR(1.0, 64), 0.0151),
        (sdp.SQKR(1.0, 64, level=1.0), 0.0356),
        (sdp.Repeated(sdp.PrivHS(0.5, 8), 3), 0.0334),
        (sdp.BallsIntoBins(1000, 61), 0.446),
        (sdp.CheuZhilyaev(2, 0.1, 2), 0.0546),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_what_attacks_attain(mechanism: sdp.Mechanism, least: float) -> None:
    value = sdp.amplify(mechanism, 10_000, effort="quick").epsilon(1e-6)
    assert value.lower is not None
    assert least <= value.lower <= value.upper
