"""Second proofs of noise with a law of its own: against brute force at tiny sizes, the engine, and false claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq
from mpmath import mp, mpf
from shuffledp_verify import Verdict
from shuffledp_verify._split_and_mix import MAX_COUNTED_OWNERS, Colourings
from shuffledp_verify.arithmetic import precision
from shuffledp_verify.noise import (
    NOISE_CLASSES,
    CancellingCounts,
    DivergenceTarget,
    LossTable,
    PaddedNoise,
    compose_losses,
    decide_noise,
    enclose_bounded_loss,
    enclose_laplace,
    enclose_moved_message,
    enclose_polya,
    enclose_skellam,
    poisson_law,
    read_noise,
)

import shuffledp as sdp
from shuffledp.mechanisms.correlated_noise.split_and_mix import mixing_distance
from tests.oracle.cancelling_noise import divergence, pair_law

BITS = 192


def exact(number: float) -> fmpq:
    return fmpq(*number.as_integer_ratio())


def factor(epsilon: float) -> arb:
    return arb(epsilon).exp()


# --- counts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "shape", "ratio"), [(1.0, 4.0, 0.3), (1.6, 0.5, 0.2), (1.3, 2.0, 0.25)])
@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 2)])
def test_cancelling_noise_encloses_all_four_counts(rate: float, shape: float, ratio: float, share: Fraction) -> None:
    """The shape below 1 has no law that falls on both sides of one place."""
    law = pair_law(share.numerator, share.denominator, rate, shape, ratio, cut=14)
    flood = CancellingCounts(*map(exact, (rate, shape, ratio)), fmpq(share.numerator, share.denominator))
    with precision(BITS):
        cells = flood.losses(1e-14)
        assert cells is not None
        for epsilon in (0.0, 0.4, 1.1):
            low, high = divergence(law, epsilon, (1, -1))
            grid = compose_losses([(one, 1) for one in cells], rate / 512, factor(epsilon), 1e-14)
            assert grid is not None
            assert float(grid.lower) <= high
            assert low <= float(grid.upper) <= high + 1e-4
            if share == 1:
                sides = flood.enclose(factor(epsilon), 1e-14)
                assert sides is not None
                assert low - 1e-12 <= float(sides.lower) <= float(sides.upper) <= high + 1e-12
                assert float(sides.upper - sides.lower) < 1e-12


def test_poisson_dummies_enclose_the_sum_over_all_counts() -> None:
    mean, reach = 2.5, 40
    law = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(reach)]
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        cells = [
            law[x] * law[y] - math.exp(epsilon) * law[x + 1] * (law[y - 1] if y else 0.0)
            for x, y in itertools.product(range(reach - 1), range(reach - 1))
        ]
        truth = math.fsum(max(0.0, cell) for cell in cells)
        with precision(BITS):
            sides = enclose_moved_message(poisson_law(arb(exact(mean)), arb(1e-16)), factor(epsilon))
            assert sides is not None
            assert float(sides.lower) - 1e-12 <= truth <= float(sides.upper) + 1e-12
            assert float(sides.upper - sides.lower) < 1e-12


def test_parts_on_a_grid_enclose_their_product() -> None:
    """Two parts of three messages, one of which only one world sends; every way to combine three of them."""
    first, second = np.array([0.5, 0.3, 0.15]), np.array([0.2, 0.45, 0.35])
    cells = LossTable(first, second, arb(0.05), arb(0.05))
    for epsilon in (0.0, 0.7, 1.9):
        total = 1 - (1 - 0.05) ** 3
        for chosen in itertools.product(range(3), repeat=3):
            p, q = np.prod(first[list(chosen)]), np.prod(second[list(chosen)])
            total += max(0.0, p - math.exp(epsilon) * q)
        with precision(BITS):
            sides = compose_losses([(cells, 3)], 2.0**-10, factor(epsilon), 1e-14)
            assert sides is not None
            assert float(sides.lower) <= total <= float(sides.upper) + 1e-12
            assert float(sides.lower) >= total - 5e-3
            assert float(sides.upper) <= total + 1e-5


def test_a_grid_that_is_too_fine_or_too_long_is_refused() -> None:
    cells = LossTable(np.array([0.5, 0.5]), np.array([0.25, 0.75]), arb(0), arb(0))
    with precision(BITS):
        assert compose_losses([(cells, 1)], 2.0**-20, factor(0.1), 1e-9) is None
        assert compose_losses([(cells, 10**6)], 2.0**-10, factor(0.1), 1e-9) is None


# --- sums -------------------------------------------------------------------------------------------------------------


def polya(rate: float, shape: Fraction, reach: int) -> dict[int, mpf]:
    """Differences of two negative binomials, by all pairs."""
    q, a = mp.exp(-mpf(rate)), mpf(shape.numerator) / shape.denominator
    single = [mp.binomial(a + k - 1, k) * q**k * (1 - q) ** a for k in range(reach)]
    law: Counter[int] = Counter()
    for x, y in itertools.product(range(reach), repeat=2):
        law[x - y] += single[x] * single[y]
    return dict(law)


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("shape", [Fraction(1), Fraction(1, 3)])
def test_noise_of_sums_is_the_sum_over_its_law(shift: int, shape: Fraction) -> None:
    rate, reach = 0.75, 70
    law = polya(rate, shape, reach)
    for epsilon in (0.0, 0.3, 1.2):
        cells = [
            chance - mp.exp(epsilon) * law.get(z - shift, mpf(0)) for z, chance in law.items() if z > shift - reach
        ]
        truth = float(sum(max(mpf(0), cell) for cell in cells))
        with precision(BITS):
            if shape == 1:
                sides = enclose_laplace(Fraction(rate), shift, Fraction(epsilon))
                assert float(sides.lower) - 1e-14 <= truth <= float(sides.upper) + 1e-14
            found = enclose_polya(Fraction(rate), shift, shape, factor(epsilon), 1e-16)
            assert found is not None
            assert float(found.lower) - 1e-14 <= truth <= float(found.upper) + 1e-14
            assert float(found.upper - found.lower) < 1e-14


def test_bounded_losses_and_skellam_noise_are_the_printed_ones() -> None:
    with precision(BITS):
        coin = enclose_bounded_loss(Fraction(2), Fraction(1, 2))
        assert float(coin.upper) == pytest.approx(math.tanh(1) - (math.exp(0.5) - 1) / (1 + math.exp(2)), rel=1e-12)
        assert float(enclose_bounded_loss(Fraction(2), Fraction(2)).upper) == 0.0
        variance, square, total, epsilon = 900.0, 64.0, 11.0, 1.0
        found = enclose_skellam(*map(Fraction, (variance, square, total, epsilon)))
    orders = np.arange(2, 60, dtype=float)
    rest = np.minimum(((2 * orders - 1) * square + 6 * total) / (4 * variance**2), 3 * total / (2 * variance))
    powers = (orders - 1) * (orders * square / (2 * variance) + rest - epsilon)
    least = (np.exp(powers) / (orders - 1) * (1 - 1 / orders) ** orders).min()
    assert float(found.upper) == pytest.approx(least, rel=1e-9)


def test_padding_is_the_chance_that_somebody_does_not_fit() -> None:
    noise = {"kind": "laplace", "rate": Fraction(1), "shift": Fraction(1)}
    numbers = {"users": 3, "places": 6, "rate": 1.0, "ratio": 0.5, "single": 0.5, "pairs": 0.75}
    facts = {"kind": "padded", **{name: Fraction(number) for name, number in numbers.items()}, "noise": noise}
    padded = read_noise(facts)
    assert isinstance(padded, PaddedNoise)

    def chances(shape: float, ratio: mpf) -> list[mpf]:
        return [mp.binomial(shape + k - 1, k) * ratio**k * (1 - ratio) ** shape for k in range(6)]

    single, pairs = chances(0.5, mp.exp(-1)), chances(0.75, mpf(0.5))
    fits = sum(single[x] * pairs[f] for x in range(6) for f in range(6) if x + 2 * f < 6)
    with precision(BITS):
        distance = padded.distance()
        assert distance is not None
        assert float(distance) == pytest.approx(float(3 * (1 - fits)), rel=1e-12)
        sides = padded.enclose(DivergenceTarget(Fraction(1), Fraction(2)))
        assert sides is not None
        assert float(sides.upper) == pytest.approx((1 + math.e) * float(distance), rel=1e-12)


# --- mixing -----------------------------------------------------------------------------------------------------------


def components(owners: int, places: int, order: tuple[int, ...]) -> int:
    group = list(range(owners))
    for place, goes in enumerate(order):
        one, other = group[place // places], group[goes // places]
        group = [one if each == other else each for each in group]
    return len(set(group))


@pytest.mark.parametrize(("owners", "places"), [(2, 2), (2, 3), (3, 2), (4, 2), (5, 1), (2, 4)])
def test_colourings_count_the_components_of_all_permutations(owners: int, places: int) -> None:
    counts = Counter(components(owners, places, order) for order in itertools.permutations(range(owners * places)))
    for base in (2, 3, 10):
        truth = sum(Fraction(base) ** (c - 1) * k for c, k in counts.items()) / math.factorial(owners * places) - 1
        with precision(BITS):
            excess = Colourings(owners, places, base).excess()
            assert excess is not None
            assert excess.overlaps(arb(fmpq(truth.numerator, truth.denominator)))


@pytest.mark.parametrize(("owners", "places", "base"), [
    (MAX_COUNTED_OWNERS, 4, 1 << 16), (MAX_COUNTED_OWNERS + 1, 6, 1 << 20), (150, 6, 100_003), (400, 4, 100_003),
    (1000, 8, 1 << 20), (10_000, 7, 1 << 21), (1_000_000, 6, (1 << 31) - 1),
])  # fmt: skip
def test_many_owners_are_bounded_as_the_engine_bounds_them(owners: int, places: int, base: int) -> None:
    """Up to 512 owners the engine's value is exact: ours is not below, and not above by much where it is small."""
    engine = mixing_distance(owners, places, base)
    with precision(256):
        found = Colourings(owners, places, base).distance()
        assert found is not None
        ratio = float(found / engine)
        assert ratio >= 1 - 1e-12
        assert ratio <= 1 + 1e-3 if float(engine) < 0.01 else True


def test_one_place_of_many_owners_has_no_bound() -> None:
    with precision(BITS):
        assert Colourings(10_000, 1, 1 << 20).distance() is None
        assert Colourings(1, 3, 1 << 20).distance() == 0


# --- judged -----------------------------------------------------------------------------------------------------------

CASES = {
    "cancelling": (sdp.CancellingNoise(options=16, rate=0.45, shape=30, ratio=0.93, honest=10_000), 10_000, 1e-6),
    "fewer": (sdp.CancellingNoise(options=5, rate=1.2, shape=12, ratio=0.6, honest=100), 90, 1e-3),
    "shuffler": (sdp.CancellingNoise(options=16, rate=0.45, shape=30, ratio=0.93, honest=0), 5, 1e-6),
    "padded": (sdp.CancellingNoise(options=4, rate=0.7, shape=5, ratio=0.6, honest=20, places=64), 20, 1e-1),
    "poisson": (sdp.PoissonDUMP(options=1024, mean=100.0, honest=1000), 1000, 1e-9),
    "sum": (sdp.SplitAndMix(rate=0.01, levels=100, modulus=1 << 20, messages=9, honest=1000), 1000, 1e-6),
    "part": (sdp.SplitAndMix(rate=0.01, levels=100, modulus=1 << 20, messages=9, honest=1000), 900, 1e-6),
    "skellam": (
        sdp.SplitAndMixVector(dimension=2, scale=300, levels=32, modulus=1 << 20, messages=8, honest=1000), 1000, 1e-5,
    ),
    "vector": (
        sdp.SplitAndMixVector(
            dimension=2, scale=40, levels=6, modulus=1 << 20, messages=8, honest=1000, noise="laplace"
        ), 900, 1e-5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_engines_value_is_proved_and_less_is_not(case: str) -> None:
    mechanism, users, delta = CASES[case]
    value = sdp.amplify(mechanism, users).epsilon(delta).upper
    facts = mechanism.aggregate_loss(users).noise_facts()
    assert facts is not None
    parts = [(read_noise(facts), 1)]
    assert decide_noise(parts, Fraction(value * (1 + 1e-7)), Fraction(delta)).verdict is Verdict.YES
    less = decide_noise(parts, Fraction(value * 0.97), Fraction(delta)).verdict
    expected = Verdict.OPEN if case in ("skellam", "vector") else Verdict.NO
    assert less is expected


def test_every_kind_has_a_name_of_its_own() -> None:
    names = [kind.kind for kind in NOISE_CLASSES]
    assert len(set(names)) == len(names)
    with pytest.raises(KeyError):
        read_noise({"kind": "uniform"})


def test_noise_that_is_not_composed_is_left_open() -> None:
    noise = read_noise({"kind": "laplace", "rate": Fraction(1), "shift": Fraction(1)})
    assert decide_noise([(noise, 2)], Fraction(2), Fraction(1, 10)).verdict is Verdict.OPEN
