"""Wheel and Collision: laws with overlapping arcs, bounds against enumeration, decoding, the wire, large instances."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.sets_and_key_values.wheel_and_collision import Collision, Wheel
from shuffledp.sampling import rounding_and_digits
from shuffledp.sampling.hashing import best_buckets, best_prime, is_prime
from shuffledp.sampling.random_sources import SeededSource

SMALL = [
    Wheel(1.0, 4, 2, arc=0.2, circle=5),
    Wheel(1.0, 4, 2, arc=0.4, circle=5),
    Wheel(3.0, 6, 2, arc=0.3, circle=7),
    Wheel(0.5, 5, 1, arc=0.5, circle=5),
    Wheel(1.0, 5, 3, arc=0.2, circle=5),
    Collision(1.0, 2, 2, length=5),
    Collision(2.0, 3, 2, length=3),
    Collision(0.5, 3, 1, length=2),
]
small = pytest.mark.parametrize("mechanism", SMALL, ids=repr)


def point_sets(mechanism: Wheel | Collision) -> list[tuple[int, ...]]:
    """The sets of points that users may hold."""
    every = itertools.combinations(range(mechanism.arcs.hashing.points), mechanism.items)
    if isinstance(mechanism, Wheel):
        return list(every)
    return [held for held in every if len({point // 2 for point in held}) == mechanism.items]


def total_variation(first: tuple[Fraction, ...], second: tuple[Fraction, ...]) -> Fraction:
    return sum((max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))


@small
def test_supports_are_exact_for_every_set(mechanism: Wheel | Collision) -> None:
    """Own points lie under the report with probability L·u, others with exactly ℓ: the estimator is unbiased."""
    messages = mechanism.arcs.all_messages()
    codes, places = mechanism.arcs.hashing.codes, mechanism.arcs.places
    steps = (messages[:, -1:].astype(int) - messages[:, :-1].astype(int) @ codes.T) % places
    for held in point_sets(mechanism)[:4]:
        law = mechanism.arcs.law_of(held)
        assert sum(law) == 1
        for point in range(mechanism.arcs.hashing.points):
            chance = sum(p for p, on in zip(law, steps[:, point] < mechanism.arcs.arc_places, strict=True) if on)
            assert chance == (mechanism.arcs.true_arc_probability if point in held else mechanism.arcs.arc_share)


@small
def test_bounds_hold_against_enumeration(mechanism: Wheel | Collision) -> None:
    """Ratio, total variation and overlap of every pair of sets; exact for one item."""
    laws = [mechanism.arcs.law_of(held) for held in point_sets(mechanism)]
    parameters = mechanism.variation_ratio()
    worst = max(total_variation(a, b) for a, b in itertools.combinations(laws, 2))
    assert worst <= Fraction(parameters.beta)
    if mechanism.items == 1:
        assert float(worst) == pytest.approx(parameters.beta, rel=1e-12)
    assert max(map(max, laws)) / min(map(min, laws)) <= Fraction(parameters.p)
    # Some arcs are disjoint, so that the probability off them is the least one possible.
    if mechanism.items * mechanism.arcs.arc_places < mechanism.arcs.places:
        assert min(map(min, laws)) >= mechanism.arcs.response.outside_density / len(laws[0])


@small
def test_overlap_is_not_above_the_true_one(mechanism: Wheel | Collision) -> None:
    inside = mechanism.arcs.response.inside_density
    covered = [
        np.array([p * len(law) == inside for p in law]) for law in map(mechanism.arcs.law_of, point_sets(mechanism))
    ]
    least = min(Fraction(int((a & b).sum()), len(a)) for a, b in itertools.combinations(covered, 2))
    printed_only = 2 * mechanism.arcs.response.share - 1
    assert max(least, printed_only) >= mechanism.arcs.least_overlap


def test_overlap_for_independent_arcs() -> None:
    """Where all arcs are independent it is exact: two signed options of one user against those of another."""
    mechanism = Collision(1.0, 5, 2, length=7)
    share = Fraction(1, 7)
    assert mechanism.arcs.least_overlap == (1 - (1 - share) ** 2) ** 2


@pytest.mark.parametrize(("items", "epsilon"), [(2, 0.5), (3, 1.0), (4, 1.0), (8, 2.0), (50, 1.0)])
def test_beta_is_between_independence_and_print(items: int, epsilon: float) -> None:
    """For defaults the bound is within a few per cent of what fully independent arcs would give."""
    mechanism = Wheel(epsilon, 1000, items)
    h, ell = mechanism.arcs.response.share, mechanism.arcs.arc_share
    gap = mechanism.arcs.response.inside_density - mechanism.arcs.response.outside_density
    beta = mechanism.variation_ratio().beta
    assert beta < float(gap * h)
    assert beta >= float(gap * (h - (1 - (1 - ell) ** items) ** 2)) * (1 - 1e-12)
    assert beta <= float(gap * (h - (1 - (1 - ell) ** items) ** 2)) * 1.03


def test_printed_values_for_disjoint_arcs() -> None:
    """Without overlap, β is the table's sℓ(e^ε−1)/(sℓe^ε+1−sℓ) and s(e^ε−1)/(se^ε+l−s)."""
    wheel, collision = Wheel(1.0, 500, 3), Collision(1.0, 500, 3)
    for mechanism in (wheel, collision):
        h = float(mechanism.arcs.response.share)
        printed = h * math.expm1(1) / (h * math.e + 1 - h)
        assert float(
            (mechanism.arcs.response.inside_density - mechanism.arcs.response.outside_density)
            * mechanism.arcs.response.share
        ) == pytest.approx(printed, rel=1e-12)
    assert float(wheel.estimator.true_support) == pytest.approx(
        float(wheel.arcs.arc_share) * math.e / (3 * float(wheel.arcs.arc_share) * (math.e - 1) + 1), rel=1e-12
    )
    assert float(collision.arcs.true_arc_probability) == pytest.approx(
        math.e / (3 * math.e + collision.arcs.places - 3), rel=1e-12
    )


@pytest.mark.parametrize("mechanism", [Wheel(1.0, 40, 3), Wheel(1.0, 40, 3, arc=0.1, circle=11), Collision(2.0, 30, 2)])
def test_decoding_equals_the_definition(mechanism: Wheel | Collision) -> None:
    rng = np.random.default_rng(6)
    messages = rng.integers(0, mechanism.arcs.places, (600, mechanism.arcs.hashing.width + 1)).astype(
        rounding_and_digits.number_type(mechanism.arcs.places)
    )
    starts = messages[:, :-1].astype(int) @ mechanism.arcs.hashing.codes.T
    expected = ((messages[:, -1:].astype(int) - starts) % mechanism.arcs.places < mechanism.arcs.arc_places).sum(axis=0)
    np.testing.assert_array_equal(mechanism.arcs.support_counts(messages), expected)


@pytest.mark.parametrize(("items", "epsilon"), [(1, 1.0), (2, 0.3), (4, 1.0), (7, 3.0)])
def test_default_sizes_have_the_least_variance(items: int, epsilon: float) -> None:
    def variance(length: float) -> float:
        own = math.exp(epsilon) / (items * math.exp(epsilon) + length - items)
        return (1 / length) * (1 - 1 / length) / (own - 1 / length) ** 2

    best = best_buckets(epsilon, items)
    assert variance(best) <= min(variance(best * 0.99), variance(best * 1.01))
    primes = [length for length in range(items + 1, 4 * math.ceil(best)) if is_prime(length)]
    assert Collision(epsilon, 60, items).length == best_prime(epsilon, items) == min(primes, key=variance)
    wheel = Wheel(epsilon, 60, items)
    assert variance(wheel.arcs.places / wheel.arcs.arc_places) <= variance(best) * 1.01


@pytest.mark.parametrize(
    "mechanism", [Wheel(1.0, 10**6, 4), Wheel(4.0, 300, 20), Collision(1.0, 10**5, 4), Collision(3.0, 50, 10)]
)
def test_large_instances(mechanism: Wheel | Collision) -> None:
    """They encode, survive the wire in the stated bits, and have curves."""
    row = np.arange(mechanism.items) * 3 + 1
    values = np.tile(row, (300, 1)) if isinstance(mechanism, Wheel) else np.tile(mechanism.audit_pair(), (150, 1, 1))
    messages = mechanism.encode(values)
    wire = mechanism.pack(messages)
    assert wire.shape == (300, -(-mechanism.message_bits // 8))
    assert mechanism.message_bits == (mechanism.arcs.places ** (mechanism.arcs.hashing.width + 1) - 1).bit_length()
    np.testing.assert_array_equal(mechanism.unpack(wire), messages)
    epsilon = amplify(mechanism, 100_000, effort="quick").epsilon(1e-6)
    assert 0 < epsilon.lower <= epsilon.upper < mechanism.epsilon


@pytest.mark.parametrize("mechanism", [Wheel(1.0, 30, 3), Wheel(1.0, 30, 3, arc=0.2, circle=7), Collision(1.0, 30, 3)])
def test_estimates_are_as_good_as_stated(mechanism: Wheel | Collision) -> None:
    """Over 200 runs: squared standardised errors are 1 on average, errors 0 (5 and 6 sigma: false alarm below 1e-5)."""
    rng = np.random.default_rng(11)
    sets = np.argsort(rng.random((500, 30)), axis=1)[:, :3]
    values = sets if isinstance(mechanism, Wheel) else np.stack([sets, rng.uniform(-1, 1, sets.shape)], axis=2)
    truth, spread = mechanism.truth(values), np.sqrt(mechanism.variance(values))
    errors = np.array(
        [(mechanism.estimate(mechanism.encode(values, rng=rng)).value - truth) / spread for _ in range(200)]
    )
    assert 0.9 < (errors**2).mean() < 1.1
    assert np.abs(errors.mean(axis=0)).max() < 6 / math.sqrt(200)


def test_many_overlapping_arcs_still_find_a_place() -> None:
    """One place is free when arcs are disjoint; the report still follows the law (chi-square, false alarm 1e-7)."""
    from scipy.stats import chi2

    mechanism = Wheel(5.0, 4, 2, arc=0.4, circle=5)
    starts = np.tile([[0, 1]], (50_000, 1))
    places = mechanism.arcs.draw_place(starts, SeededSource(np.random.default_rng(3)))
    inside = mechanism.arcs.response.inside_density / 5
    law = np.array([float(inside)] * 3 + [float((1 - 3 * inside) / 2)] * 2) * 50_000
    counts = np.bincount(places, minlength=5)
    assert ((counts - law) ** 2 / law).sum() < chi2.isf(1e-7, 4)


@pytest.mark.parametrize(("base", "count"), [(2, 1), (2, 70), (3, 41), (257, 9), (65_537, 5), (2**31 - 1, 6), (5, 1)])
def test_digits_survive_the_wire(base: int, count: int) -> None:
    rng = np.random.default_rng(base)
    rows = np.vstack([np.zeros(count, int), np.full(count, base - 1), rng.integers(0, base, (50, count))])
    rows = rows.astype(rounding_and_digits.number_type(base))
    wire = rounding_and_digits.pack(rows, base)
    assert wire.shape[1] == -(-rounding_and_digits.encoded_bits(base, count) // 8)
    numbers = [sum(int(d) * base ** (count - 1 - place) for place, d in enumerate(row)) for row in rows]
    assert [int.from_bytes(row.tobytes(), "big") for row in wire] == numbers
    back, good = rounding_and_digits.unpack(wire, base, count)
    assert good.all()
    np.testing.assert_array_equal(back, rows)


def test_drawn_digits_are_uniform() -> None:
    """Chi-square over all pairs of neighbouring digits; false alarm 1e-7."""
    from scipy.stats import chi2

    rows = rounding_and_digits.draw(SeededSource(np.random.default_rng(1)), 7, 20_000, 45)
    for place in (0, 19, 20, 43):
        counts = np.bincount(rows[:, place] * 7 + rows[:, place + 1], minlength=49)
        assert ((counts - 20_000 / 49) ** 2 / (20_000 / 49)).sum() < chi2.isf(1e-7, 48)


def test_other_bytes_are_refused() -> None:
    wheel = Wheel(1.0, 4, 2, arc=0.2, circle=5)
    with pytest.raises(ValueError, match=r"Wheel: expected messages below 5\^3, got others in 1 of 1 rows\."):
        wheel.unpack(np.array([[125]], dtype=np.uint8))
    with pytest.raises(ValueError, match="Wheel: expected rows of 1 bytes, got int64"):
        wheel.unpack(np.array([[1]]))


@pytest.mark.parametrize(
    ("kind", "arguments", "sentence"),
    [
        (Wheel, {"epsilon": 1.0, "options": 3, "items": 3}, "Wheel: items must be below the 3 options, got 3."),
        (Wheel, {"epsilon": 1.0, "options": 3, "items": 0}, "Wheel: items must be at least 1, got 0."),
        (
            Wheel,
            {"epsilon": 1.0, "options": 9, "items": 2, "circle": 9},
            "Wheel: circle must be a prime number such as 7 or 11, got 9.",
        ),
        (
            Wheel,
            {"epsilon": 1.0, "options": 9, "items": 2, "arc": 0.5, "circle": 11},
            "Wheel: 2 arcs must leave a part of the circle free, got arcs of 6 of 11 places.",
        ),
        (
            Wheel,
            {"epsilon": 1.0, "options": 9, "items": 2, "arc": 1.5},
            "Wheel: arc must be between 0 and 1, both excluded, got 1.5.",
        ),
        (Wheel, {"epsilon": -1.0, "options": 9, "items": 2}, "Wheel: epsilon must be above 0 and finite, got -1.0."),
        (
            Collision,
            {"epsilon": 1.0, "options": 2, "items": 3},
            "Collision: items must be at most the 2 options, got 3.",
        ),
        (
            Collision,
            {"epsilon": 1.0, "options": 5, "items": 3, "length": 3},
            "Collision: length must be at least 4, got 3.",
        ),
        (
            Collision,
            {"epsilon": 1.0, "options": 5, "items": 3, "length": 4},
            "Collision: length must be a prime number such as 3 or 5, got 4.",
        ),
    ],
)
def test_bad_settings_are_refused(kind: type, arguments: dict, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        kind(**arguments)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("mechanism", "values", "sentence"),
    [
        (Wheel(1.0, 5, 2), [[1, 1]], "Wheel: the items of a user must be different, got 1 twice in one row."),
        (Wheel(1.0, 5, 2), [[1, 2, 3]], "Wheel: expected 2 items per user, got rows of 3."),
        (
            Collision(1.0, 5, 2),
            [[[1, 0.5]]],
            "Collision: expected 2 pairs of option and value per user, got 1.",
        ),
        (
            Collision(1.0, 5, 2),
            [[[1, 0.5], [-1, 0.0]]],
            "Collision: expected 2 pairs of option and value per user, got 1.",
        ),
        (Collision(1.0, 5, 1), [[[1, 1.5]]], "Collision: values must be from -1 to 1, got 1.5."),
    ],
)
def test_bad_values_are_refused(mechanism: Wheel | Collision, values: object, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        mechanism.encode(values)
    assert str(caught.value) == sentence
