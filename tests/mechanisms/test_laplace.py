"""Laplace noise on a grid."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

import shuffledp as sdp
from shuffledp.mechanisms.mean import laplace
from shuffledp.mechanisms.mean.laplace import Laplace
from shuffledp.numerics.ball_arithmetic import precision
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy.curve import CurveSource, NumericCurve
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import rounding_and_digits
from tests.oracle import exact_enumeration


def point_rows(mechanism: Laplace) -> list[list[Fraction]]:
    return [mechanism.law.noise.fraction_law(k) for k in range(mechanism.grid + 1)]


@pytest.mark.parametrize("grid", [1, 2, 3, 4, 9, 16])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_parameters_against_the_table(grid: int, epsilon: float) -> None:
    """Over all pairs of points: β is the largest total variation, p the largest ratio; both at the two ends."""
    mechanism = Laplace(epsilon, grid=grid)
    rows, parameters = point_rows(mechanism), mechanism.variation_ratio()
    variations, ratios = [], []
    for a, b in itertools.permutations(rows, 2):
        variations.append(sum(max(x - y, Fraction(0)) for x, y in zip(a, b, strict=True)))
        ratios.append(max(x / y for x, y in zip(a, b, strict=True)))
    assert float(max(variations)) == pytest.approx(parameters.beta, rel=1e-15)
    assert max(variations) <= Fraction(parameters.beta)
    assert float(max(ratios)) == pytest.approx(parameters.p, rel=1e-15)
    assert max(ratios) <= Fraction(parameters.p)
    assert parameters.q_common is None
    if grid % 2 == 0:
        assert parameters.beta == pytest.approx(1 - math.exp(-epsilon / 2), rel=1e-14)


def test_the_ratio_stays_below_the_promise() -> None:
    """ε' is the float below ε, so every ratio is below e^ε."""
    mechanism = Laplace(0.7, grid=3)
    assert mechanism.noise.rate * 3 < Fraction(0.7)
    with ctx.workprec(300):
        limit = arb(0.7).exp()
        for a, b in itertools.permutations(point_rows(mechanism), 2):
            for x, y in zip(a, b, strict=True):
                assert arb(x.numerator) / x.denominator < limit * (arb(y.numerator) / y.denominator)


def test_one_step_is_randomized_response() -> None:
    """With a grid of one step: e^ε/(e^ε + 1) against 1/(e^ε + 1)."""
    (near, far), _ = point_rows(Laplace(1.0, grid=1))
    assert float(near / far) == pytest.approx(math.e, rel=1e-15)


def excess(values: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """E(G − t)_+ at every level t, by sorting."""
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    mass = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
    first = np.append(np.cumsum((weights * values)[::-1])[::-1], 0.0)
    at = np.searchsorted(values, levels, side="right")
    return first[at] - levels * mass[at]


@pytest.mark.exhaustive("9")
@pytest.mark.parametrize("grid", [1, 2, 3, 6, 9])
def test_the_two_ends_are_the_worst_pair(grid: int) -> None:
    """For every pair of points, every E(G − t)_+ is at most that of the two ends: convex order, exactly.

    The mechanism's λ is e to a power; here a rational λ, so that all is exact.
    """
    for step in (Fraction(9, 10), Fraction(1, 2), Fraction(1, 7)):
        inside, end = (1 - step) / (1 + step), 1 / (1 + step)
        rows = [
            [(end if y in (0, grid) else inside) * step ** abs(y - k) for y in range(grid + 1)] for k in range(grid + 1)
        ]
        floor = [min(column) for column in zip(*rows, strict=True)]
        for ratio in (Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(4)):
            laws = {
                (k, l): [(a - ratio * b) / w for a, b, w in zip(rows[k], rows[l], floor, strict=True)]
                for k, l in itertools.permutations(range(grid + 1), 2)
            }
            worst = laws[0, grid]
            for values in laws.values():
                if max(values) <= 0:
                    continue
                for t in {*values, *worst}:
                    ours = sum(w * max(v - t, Fraction(0)) for v, w in zip(values, floor, strict=True))
                    theirs = sum(w * max(v - t, Fraction(0)) for v, w in zip(worst, floor, strict=True))
                    # The revealed rest adds max(−t, 0) on both sides.
                    assert ours <= theirs


@pytest.mark.parametrize("grid", [127, 1024])
@pytest.mark.parametrize("epsilon_local", [0.5, 2.0, 6.0])
def test_the_two_ends_are_the_worst_pair_on_fine_grids(grid: int, epsilon_local: float) -> None:
    """The same in floats, for pairs with one end; replacing the other point by an end only spreads G."""
    step, y = math.exp(-epsilon_local / grid), np.arange(grid + 1)
    mass = np.where((y == 0) | (y == grid), 1.0, 1 - step) / (1 + step)

    def law(k: int) -> np.ndarray:
        return np.asarray(mass * step ** np.abs(y - k))

    floor = np.minimum(law(0), law(grid))
    for ratio in (1.0, 1.02, math.exp(epsilon_local / 3)):
        worst = (law(0) - ratio * law(grid)) / floor
        for k in range(1, grid, 5):
            for values in ((law(0) - ratio * law(k)) / floor, (law(k) - ratio * law(0)) / floor):
                if values.max() <= 0:
                    continue
                levels = np.concatenate([values, worst])
                gap = excess(worst, floor, levels) - excess(values, floor, levels)
                assert gap.min() >= -1e-12 * np.abs(levels).max()


def test_many_points_are_divided_between_few() -> None:
    """On a fine grid the laws still sum to 1, the bound is above that of all points, and by less than 1e-3 of δ."""
    mechanism = Laplace(1.0, grid=700)
    pair = mechanism.blankets()[0]
    with precision(128):
        classes = pair.classes()
    assert len(classes) < 2 * laplace.MAX_POINTS_PER_SIDE + 6
    for law in zip(*classes, strict=True):
        assert abs(sum(law, arb(0)) - 1) < 1e-12
    coarse = PositivePartMean(pair.law, 3000).bracket(0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laplace, "MAX_POINTS_PER_SIDE", 700)
        full = Laplace(1.0, grid=700).blankets()[0]
        assert len(full.classes()) == 702
        fine = PositivePartMean(full.law, 3000).bracket(0.05)
    assert fine.upper < coarse.lower
    assert coarse.upper < fine.lower * 1.001


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 9.0])
@pytest.mark.parametrize("grid", [2, 7, 64])
def test_every_pair_of_points_on_one_side_is_covered(epsilon: float, grid: int) -> None:
    """For any two points on one side some near pair's parameters hold: ratio, distance and ratios to the blanket."""
    mechanism = Laplace(epsilon, grid=grid)
    with precision(160):
        laws = np.array([[float(chance.mid()) for chance in mechanism.law.noise.point_law(k)] for k in range(grid + 1)])
    blanket = laws.min(axis=0)

    def covers(parameters: VariationRatio, first: np.ndarray, second: np.ndarray) -> bool:
        q0, q1 = parameters.q_pair
        slack = 1 + 1e-12
        ratios = np.maximum(first / second, second / first)
        return bool(
            ratios.max() <= parameters.p * slack
            and np.maximum(first - second, 0).sum() <= parameters.beta * slack
            and (first <= q0 * slack * blanket)[first > second].all()
            and (second <= q1 * slack * blanket)[second > first].all()
            and (np.minimum(first, second) <= parameters.q_common * slack * blanket).all()
        )

    for a, b in itertools.combinations(range(grid // 2 + 1), 2):
        assert any(covers(parameters, laws[a], laws[b]) for parameters in mechanism.law.near_pairs())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 6.0, 9.0])
def test_near_pairs_are_not_the_worst(epsilon: float) -> None:
    """Covering the near pairs costs nothing: the ends are worse, at the ε that a small δ asks for."""
    mechanism = Laplace(epsilon)
    ends, *near = mechanism.blankets()
    for users in (1_000, 10_000, 1_000_000):
        alone = NumericCurve(CurveSource("", "", users), (lambda _: ends,), ends.largest_log_ratio()).epsilon(1e-6)
        for pair in near:
            for way in (pair, pair.swapped()):
                assert PositivePartMean(way.law, users).bracket(alone.upper).upper <= 1e-6


@pytest.mark.parametrize("grid", [1, 2, 7, 128, 129, 700, 1001])
def test_attacks_are_laws_and_below_the_bound(grid: int) -> None:
    """Every attack sums to 1 and claims no more than the blanket."""
    mechanism = Laplace(2.0, low=-0.3, high=1.1, grid=grid)
    bound = PositivePartMean(mechanism.blankets()[0].law, 50).bracket(0.4).upper
    for attack in mechanism.attacks():
        for law in zip(*attack.classes(), strict=True):
            assert abs(sum(law, arb(0)) - 1) < 1e-12
        for way in (attack, attack.swapped()):
            assert PositivePartMean(way.law, 50).bracket(0.4).lower <= bound


def test_the_variance_is_below_that_of_plain_noise() -> None:
    """Noise beyond the ends is replaced by its mean: the variance is below 2λ/(1−λ)², and the estimate finds it."""
    mechanism, users = Laplace(1.0), 200_000
    values = np.random.default_rng(1).random(users)
    plain = 2.0 / users
    exact = mechanism.variance(values)[0]
    assert 0.6 * plain < exact < 0.75 * plain
    estimate = mechanism.estimate(mechanism.encode(values, rng=np.random.default_rng(2)))
    assert estimate.variance[0] == pytest.approx(exact, rel=0.01)
    # Six standard errors: a false alarm in 5e8 (the seed is fixed).
    assert abs(estimate.value[0] - mechanism.truth(values)[0]) < 6 * math.sqrt(exact)


def test_messages_are_points_of_the_grid() -> None:
    """11 bits for 1025 points; anything else is refused."""
    mechanism = Laplace(0.1)
    messages = mechanism.encode(np.linspace(0, 1, 5000), rng=np.random.default_rng(3))
    assert messages.min() == 0
    assert messages.max() == 1024
    assert (mechanism.message_bits, mechanism.message_bytes) == (11, 2)
    with pytest.raises(ValueError, match=r"^Laplace: expected messages below 1025, got others in 1 of 1 rows\.$"):
        mechanism.unpack(np.array([[4, 1]], dtype=np.uint8))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 0.0}, "Laplace: epsilon must be above 0 and finite, got 0.0."),
        ({"epsilon": 701.0}, "Laplace: epsilon must be at most 700, got 701.0."),
        ({"low": 1.0}, "Laplace: low must be below high and both finite, got 1.0 and 1.0."),
        ({"low": -1e308, "high": 1e308}, "Laplace: low must be below high and both finite, got -1e+308 and 1e+308."),
        ({"high": math.nan}, "Laplace: high must be a number, got NaN."),
        ({"grid": 0}, "Laplace: grid must be at least 1, got 0."),
        ({"grid": 10**6}, "Laplace: grid must be at most 65536, got 1000000."),
    ],
)
def test_bad_settings(settings: dict[str, float], sentence: str) -> None:
    """One sentence each."""
    with pytest.raises((ValueError, TypeError)) as caught:
        Laplace(**{"epsilon": 1.0, **settings})  # type: ignore[arg-type]
    assert str(caught.value) == sentence


def test_bad_values() -> None:
    """Out of the interval: the first bad value is named; a table of a fine grid is refused."""
    with pytest.raises(ValueError, match=r"^Laplace: values must be from 0 to 1, got 1\.5\.$"):
        Laplace(1.0).encode([0.5, 1.5])
    with pytest.raises(ValueError, match=r"^Laplace: a table needs a grid of at most 256, got 1024\.$"):
        Laplace(1.0).table()


@pytest.mark.parametrize("epsilon", [1e-15, 700.0])
def test_extreme_epsilon(epsilon: float) -> None:
    """The smallest and the largest ε run and give finite numbers."""
    mechanism = Laplace(epsilon)
    estimate = mechanism.estimate(mechanism.encode(np.full(1000, 0.25), rng=np.random.default_rng(6)))
    assert np.isfinite(estimate.value).all()
    assert mechanism.variation_ratio().p > 1
    if epsilon > 1:
        assert estimate.value[0] == pytest.approx(0.25, abs=1e-2)


def test_pairs_of_numbers_cover_the_real_protocol() -> None:
    """Three users, all datasets of the grid's points, exact to 2^-200: for a pair, and for a diameter."""
    mechanism = sdp.Laplace(epsilon=2.0, grid=3)
    rows = point_rows(mechanism)
    ratio = Fraction(9, 8)
    for a, b in ((0, 1), (0, 3), (1, 2)):
        truth = max(
            exact_enumeration.shuffled_divergence([rows] * 3, first, second, others, ratio)
            for first, second in ((a, b), (b, a))
            for others in itertools.combinations_with_replacement(range(4), 2)
        )
        value = sdp.amplify(mechanism, 3, pair=(a / 3, b / 3), effort="quick").delta(math.log(ratio))
        assert value.lower is not None
        assert value.lower * (1 - 1e-9) <= float(truth) <= value.upper * (1 + 1e-9)
        assert sdp.amplify(mechanism, 3, diameter=(b - a) / 3, effort="quick").delta(math.log(ratio)).upper >= float(
            truth
        )


def test_near_numbers_are_better_protected() -> None:
    """A metric mechanism: the nearer, the better; the ends are the whole; one number against itself tells nothing."""
    mechanism = sdp.Laplace(epsilon=2.0, grid=64)
    users, delta = 10_000, 1e-6
    values = [
        sdp.amplify(mechanism, users, pair=(0.0, x), effort="quick").epsilon(delta).upper
        for x in (0.0, 1e-14, 0.1, 1.0)
    ]
    assert values == sorted(values)
    assert values[1] < 1e-9
    whole = sdp.amplify(mechanism, users, effort="quick").epsilon(delta).upper
    assert values[3] == pytest.approx(whole, rel=1e-6)
    assert values[2] <= sdp.amplify(mechanism, users, diameter=0.1, effort="quick").epsilon(delta).upper < whole
    assert sdp.amplify(mechanism, users, diameter=5.0, effort="quick").epsilon(delta).upper == whole


@pytest.mark.parametrize(
    ("grid", "diameter", "users"),
    [
        (1, 0.1, 1),
        (1, 0.1, 3),
        (1, 0.75, 2),
        (2, 0.3, 2),
        (2, 0.9, 1),
        (3, 0.7, 2),
        (3, 0.2, 1),
        (1, 1.0, 2),
        (2, 2.0, 2),
    ],
)
def test_what_is_known_of_a_diameter_from_below_is_attained(grid: int, diameter: float, users: int) -> None:
    """Real datasets of numbers that are that near, exactly to 2^-200: some attains the lower bound, none the upper.

    Before rounding to the grid, that is: on the grid two numbers may be far apart, but only now and then.
    """
    mechanism = Laplace(2.0, grid=grid)
    points = point_rows(mechanism)
    low = Fraction(min(1.0, diameter))
    numbers = [Fraction(0), low, 1 - low, Fraction(1, 2), Fraction(1)]

    def law(number: Fraction) -> list[Fraction]:
        below = min(int(number * grid), grid - 1)
        up = number * grid - below
        return [(1 - up) * a + up * b for a, b in zip(points[below], points[below + 1], strict=True)]

    rows = [law(number) for number in numbers]
    near = [(a, b) for a, b in itertools.permutations(range(5), 2) if abs(numbers[a] - numbers[b]) <= diameter]
    curve = sdp.amplify(mechanism, users, diameter=diameter, effort="quick")
    for ratio in (Fraction(1), Fraction(9, 8), Fraction(2)):
        truth = max(
            exact_enumeration.shuffled_divergence([rows] * users, first, second, others, ratio)
            for first, second in near
            for others in itertools.combinations_with_replacement(range(5), users - 1)
        )
        value = curve.delta(math.log(ratio))
        assert value.lower is not None
        # The logarithm of the ratio is off by an ulp.
        assert value.lower * (1 - 1e-12) - 1e-15 <= truth <= value.upper * (1 + 1e-12)
        if users == 1:
            assert value.lower == pytest.approx(float(truth), rel=1e-9, abs=1e-15)


def test_the_number_of_a_diameter_is_not_beyond_it() -> None:
    """Sums in floats may be rounded up; the number is the last one that is near enough, in exact terms."""
    for low, size, high in ((0.1, 0.2, 1.0), (-1e9, 1e-7, 5.0), (0.3, 1e-30, 0.4), (-3.0, 7.5, 4.0), (0.0, 2.0, 1.0)):
        found = rounding_and_digits.largest_float_within(size, low, high)
        assert low <= found <= high
        assert Fraction(found) - Fraction(low) <= Fraction(size)
        beyond = math.nextafter(found, math.inf)
        assert beyond > high or Fraction(beyond) - Fraction(low) > Fraction(size)
