"""Errors of the metric paper [MDP] and of the metric table of [VR]."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from scipy.integrate import quad

from tests.oracle.double_precision import delta_published_float
from tests.oracle.exact_enumeration import hockey_stick_of_counts, multinomial_law


def amplification_factor(users: int, delta: float, clone_bound: float) -> float:
    """The factor of Theorem 1 that multiplies the user's own weight; clone_bound is max_c R_ab(c)."""
    log_term, chance = math.log(4 / delta), 2 / clone_bound
    omega = (users - 1) * chance - math.sqrt(3 * (users - 1) * chance * log_term)
    assert omega > 2 * log_term
    root = math.sqrt(omega * log_term / 2)
    return (2 * root + 1) / (omega / 2 - root)


@pytest.mark.parametrize(("distance", "right"), [(0.1, 0.017369), (1.0, 0.21415), (3.0, 1.40085)])
def test_the_weight_of_the_amplified_distance(distance: float, right: float) -> None:
    """MD-1: the weight is tanh(D/2); the printed e^D/(e^D+1) puts equal inputs at a positive distance."""
    users, delta = 100_000, 1e-7
    bound = 50 * (1 + math.exp(distance))
    factor = amplification_factor(users, delta, bound)
    corrected = math.log1p(math.tanh(distance / 2) * factor)
    printed = math.log1p(math.exp(distance) / (math.exp(distance) + 1) * factor)
    assert corrected == pytest.approx(right, rel=1e-4)
    assert printed > corrected
    own = math.exp(distance) / (math.exp(distance) + 1)
    q = own * bound
    assert delta_published_float(math.exp(distance), math.tanh(distance / 2), q, q, users, corrected) <= delta
    at_zero = math.log1p(0.5 * amplification_factor(users, delta, 100.0))
    assert at_zero > 0.1


def test_the_clone_count_in_the_proof() -> None:
    """MD-2: P' = (a, b) happens with C = a + b - 1 clones; the printed C = a + b + 1 gives other numbers."""
    users, chance = 5, Fraction(1, 3)
    crowd = multinomial_law([chance / 2, chance / 2, 1 - chance], users - 1)
    clones = [
        math.comb(users - 1, c) * chance**c * (1 - chance) ** (users - 1 - c) if c < users else Fraction(0)
        for c in range(2 * users)
    ]

    def factored(a: int, b: int, total: int) -> Fraction:
        return clones[total] * math.comb(total, a - 1) / Fraction(2**total)

    for (a, b, _), probability in crowd.items():
        assert factored(a + 1, b, a + 1 + b - 1) == probability
    assert any(factored(a + 1, b, a + 1 + b + 1) != probability for (a, b, _), probability in crowd.items())


def test_the_tail_event_in_the_proof() -> None:
    """MD-3: |C - (n-1)p| < sqrt(3 (n-1) p L) has probability at least 1 - delta/2, not at most delta/2."""
    users, chance, delta = 200, 0.2, 1e-2
    mean = (users - 1) * chance
    width = math.sqrt(3 * mean * math.log(4 / delta))
    law = [math.comb(users - 1, c) * chance**c * (1 - chance) ** (users - 1 - c) for c in range(users)]
    inside = sum(value for c, value in enumerate(law) if abs(c - mean) < width)
    assert inside > delta / 2
    assert inside >= 1 - delta / 2


def test_solver_outputs_break_the_triangle_inequality() -> None:
    """MD-4: three points on a line get distances that break the triangle inequality by 0.6."""
    users, delta, diameter, step = 10_000, 1e-6, 2.17, 0.155
    factor = amplification_factor(users, delta, 2 * math.exp(diameter))

    def local(target: float) -> float:
        share = math.expm1(target) / factor
        solved = 2 * math.atanh(share) if share < 1 else math.inf
        return min(diameter, max(target, solved))

    raw = {(0, 1): local(step), (1, 2): local(step), (0, 2): local(2 * step)}
    assert raw[0, 2] > raw[0, 1] + raw[1, 2] + 0.6
    closure = {**raw, (0, 2): min(raw[0, 2], raw[0, 1] + raw[1, 2])}
    for pair, target in [((0, 1), step), ((1, 2), step), ((0, 2), 2 * step)]:
        assert closure[pair] <= raw[pair]
        assert min(closure[pair], math.log1p(math.tanh(closure[pair] / 2) * factor)) <= target + 1e-12


def padded_exponential(ab: Fraction, ac: Fraction, bc: Fraction) -> list[list[Fraction]]:
    """The 3 by 4 table for e^D(a,b) = ab, and so on."""
    distance = [[Fraction(1), ab, ac], [ab, Fraction(1), bc], [ac, bc, Fraction(1)]]
    sums = [sum(1 / value for value in row) for row in distance]
    norm = max(
        (distance[i][j] * max(sums[i], sums[j]) - min(sums[i], sums[j])) / (distance[i][j] - 1)
        for i, j in [(0, 1), (0, 2), (1, 2)]
    )
    return [[*(1 / value / norm for value in row), 1 - total / norm] for row, total in zip(distance, sums, strict=True)]


def test_the_loops_of_the_lower_bound_search() -> None:
    """MD-5: loops that start at 1 and stop at total n - 1 miss most of the divergence."""
    table = padded_exponential(Fraction(2), Fraction(4), Fraction(4))
    users, ratio = 5, Fraction(5, 4)
    crowd = multinomial_law(table[2], users - 1)

    def law(own: list[Fraction], a: int, b: int, c: int) -> Fraction:
        counts, total = [a, b, c, users - a - b - c], Fraction(0)
        for output, chance in enumerate(own):
            before = tuple(k - (i == output) for i, k in enumerate(counts))
            total += chance * crowd.get(before, Fraction(0))
        return total

    def loop(triples: list[tuple[int, int, int]]) -> Fraction:
        gaps = (law(table[0], *triple) - ratio * law(table[1], *triple) for triple in triples)
        return sum((max(Fraction(0), gap) for gap in gaps), start=Fraction(0))

    everything = [(a, b, c) for a in range(users + 1) for b in range(users + 1 - a) for c in range(users + 1 - a - b)]
    from_one = [(a, b, c) for a in range(1, users + 1) for b in range(1, users - a) for c in range(1, users - a - b)]
    from_zero = [triple for triple in everything if sum(triple) <= users - 1]
    exact = hockey_stick_of_counts(table[0], table[1], table[2], users, ratio)
    assert loop(everything) == exact
    assert loop(from_one) < loop(from_zero) < exact


def test_the_padded_table_needs_a_metric() -> None:
    """MD-6: on a semi-metric that breaks the triangle inequality the padded table is not private."""

    def excess(ab: Fraction, ac: Fraction, bc: Fraction) -> Fraction:
        table, limits = padded_exponential(ab, ac, bc), {(0, 1): ab, (0, 2): ac, (1, 2): bc}
        ratios = []
        for i, j in permutations(range(3), 2):
            limit = limits[min(i, j), max(i, j)]
            ratios += [table[i][z] / table[j][z] / limit for z in range(4)]
        return max(ratios)

    assert excess(Fraction(4), Fraction(2), Fraction(2)) == 1
    assert excess(Fraction(8), Fraction(2), Fraction(2)) == 2


class WitchHat:
    """Density exp(-min(2|z-x|/F, m))/N on [-B-R, B+R], R = mF/2."""

    def __init__(self, half_width: float, level: float, scale: float) -> None:
        """half_width B, level m, scale F."""
        self.half_width, self.level, self.scale = half_width, level, scale
        self.reach = level * scale / 2
        self.norm = scale * (1 - math.exp(-level)) + 2 * half_width * math.exp(-level)

    def density(self, x: float, z: float) -> float:
        """Density of the output z at the input x."""
        return math.exp(-min(2 * abs(z - x) / self.scale, self.level)) / self.norm

    def integral(self, function: object, inputs: list[float]) -> float:
        """Integral over all outputs of a function with kinks at the inputs' brims and between them."""
        edge = self.half_width + self.reach
        kinks = {-edge, edge, *inputs, sum(inputs) / len(inputs)}
        kinks |= {x + sign * self.reach for x in inputs for sign in (-1, 1)}
        points = sorted(kinks)
        return sum(quad(function, a, b)[0] for a, b in pairwise(points))


@pytest.mark.parametrize("gap", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("parameters", [(1.0, 1.0, 1.0), (1.0, 2.0, 0.5), (1.0, 3.0, 1.0)])
def test_witch_hat_total_variation(gap: float, parameters: tuple[float, float, float]) -> None:
    """MD-7: the printed beta is positive at distance 0 and negative far off; the corrected one is exact."""
    half_width, level, scale = parameters
    hat = WitchHat(*parameters)
    first, second = -gap / 2, gap / 2
    true = hat.integral(lambda z: max(0.0, hat.density(first, z) - hat.density(second, z)), [first, second])
    reach = min(gap, level * scale)
    corrected = (scale * (1 - math.exp(-reach / scale)) - reach * math.exp(-level)) / hat.norm

    def printed(distance: float) -> float:
        x = distance / scale
        return 2 * (math.exp(level) - math.exp(x) + x - level) / (scale * math.expm1(level) + 2 * half_width)

    assert corrected == pytest.approx(true, rel=1e-9)
    assert printed(0.0) > 0.3
    private_distance = min(2 * gap / scale, level)
    for reading in (gap, private_distance):
        assert abs(printed(reading) - true) > 0.1
    assert printed(2 * level * scale) < 0


@pytest.mark.parametrize(("half_width", "level", "scale", "x"), [(4.98, 4.1, 2.37, 0.26), (4.92, 3.63, 2.72, 0.01)])
def test_witch_hat_variance(half_width: float, level: float, scale: float, x: float) -> None:
    """MD-8: the printed bound on the variance, with F where F^2 belongs, is 5% below the true variance."""
    hat, brim = WitchHat(half_width, level, scale), math.exp(-level)
    shrink = 1 - brim - level * brim
    factor = hat.norm / (scale * shrink)
    mean = hat.integral(lambda z: z * hat.density(x, z), [x])
    square = hat.integral(lambda z: z * z * hat.density(x, z), [x])
    true = factor**2 * (square - mean**2)
    edges = 2 / 3 * brim * ((half_width + hat.reach) ** 3 - hat.reach**3)
    middle = scale**3 / 2 - brim * scale**3 * (level**2 + 2 * level + 2) / 4
    exact = hat.norm / (scale * shrink) ** 2 * (edges + middle) + x * x * (factor - 1)

    def bound(power: int) -> float:
        sides = 8 * half_width**2 + 12 * level * scale * half_width + 6 * level**2 * scale**power
        inner = brim * half_width * sides + 6 * scale**3 + 3 * hat.norm * x * x
        return hat.norm * inner / (12 * (scale * shrink) ** 2)

    assert factor * mean == pytest.approx(x, rel=1e-8)
    assert exact == pytest.approx(true, rel=1e-8)
    assert bound(1) < 0.96 * true
    assert bound(2) > true
