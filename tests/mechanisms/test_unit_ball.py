"""Means of vectors in the unit ball: PrivUnit, PrivUnitOptimized, PrivUnitG and PrivHS.

Statistical tests have fixed seeds; unless said otherwise a false alarm has a probability below 1e-7 each.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import mpmath
import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.vector._unit_ball_parts import heights, split_directions
from shuffledp.mechanisms.vector.privunit import PrivUnit, PrivUnitOptimized
from shuffledp.mechanisms.vector.privunit_g_and_privhs import PrivHS, PrivUnitG
from tests.oracle.exact_enumeration import hockey_stick_of_counts

KINDS: list[Any] = [PrivUnit, PrivUnitOptimized, PrivUnitG, PrivHS]
every_kind = pytest.mark.parametrize("kind", KINDS)


def unit_vectors(rows: int, dimension: int, seed: int = 1) -> Any:
    vectors = np.random.default_rng(seed).normal(size=(rows, dimension))
    return vectors / np.linalg.norm(vectors, axis=1)[:, None]


# --- the numbers of the paper -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "optimized", "half_space"),
    [(1.0, 6.33, 7.35), (2.0, 1.615, 2.706), (4.0, 0.435, 1.688), (8.0, 0.132, 1.571)],
)
def test_the_errors_at_1024_numbers(epsilon: float, optimized: float, half_space: float) -> None:
    """Error over d, within 1% of the stated values; the published cap and normal vectors cost a little."""
    assert PrivUnitOptimized(epsilon, 1024).estimator.squared_error / 1024 == pytest.approx(optimized, rel=0.01)
    assert PrivHS(epsilon, 1024).estimator.squared_error / 1024 == pytest.approx(half_space, rel=0.01)
    best = PrivUnitOptimized(epsilon, 1024).estimator.squared_error
    assert best <= PrivUnitG(epsilon, 1024).estimator.squared_error * (1 + 1e-3)
    assert PrivUnitG(epsilon, 1024).estimator.squared_error <= best * 1.01
    assert best * 1.01 <= PrivUnit(epsilon, 1024).estimator.squared_error <= best * 1.5


def error_by_quadrature(dimension: int, height: float, epsilon: float) -> float:
    """1/m²−1 where the cap is chosen with p(1−q)/(q(1−p)) = e^ε, all by integrating the density of the height."""
    power = mpmath.mpf(dimension - 3) / 2
    width = 1 / math.sqrt(dimension)
    grid = [height + k * width for k in range(12) if height + k * width < 1] + [1]

    def density(t: Any) -> Any:
        return (1 - t * t) ** power

    whole = 2 * mpmath.quad(density, [k * width for k in range(14) if k * width < 1] + [1])
    q = mpmath.quad(density, grid) / whole
    up = mpmath.quad(lambda t: t * density(t), grid) / whole
    p = mpmath.exp(epsilon) * q / (1 - q + mpmath.exp(epsilon) * q)
    return float(1 / (up * (p / q - (1 - p) / (1 - q))) ** 2 - 1)


@pytest.mark.parametrize(("dimension", "epsilon"), [(4, 1.0), (30, 3.0), (1024, 8.0)])
def test_the_error_against_quadrature(dimension: int, epsilon: float) -> None:
    """The ideal error by quadrature, plus what the noise of the lattice adds; and no other height does better."""
    mechanism = PrivUnitOptimized(epsilon, dimension)
    ideal = error_by_quadrature(dimension, mechanism.height, epsilon)
    noise = dimension * (4 + 1 / 6) * mechanism.estimator.step**2
    assert mechanism.estimator.squared_error == pytest.approx((ideal + 1) * (1 + noise) - 1, rel=2e-5)
    assert noise < 1e-4
    for factor in (0.9, 0.98, 1.02, 1.1):
        assert error_by_quadrature(dimension, mechanism.height * factor, epsilon) > ideal


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_the_half_space_scale(epsilon: float) -> None:
    """(e^ε+1)/(e^ε−1)·√π·Γ((d+1)/2)/Γ(d/2), as printed."""
    for d in (2, 3, 50, 1024):
        printed = math.sqrt(math.pi) / math.tanh(epsilon / 2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        assert PrivHS(epsilon, d).estimator.scale == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize(
    "mechanism", [kind(epsilon, d) for kind in KINDS for epsilon, d in ((4.0, 257), (1.0, 300))], ids=repr
)
def test_large_vectors(mechanism: Any) -> None:
    """Mean and stated variance at d about 300, with vectors of all lengths, through the wire.

    Each coordinate's error, squared and scaled, averages 1: the sum is within six of its standard deviations √(2d),
    a false alarm in 1e8 at most.
    """
    d, users = mechanism.dimension, 400
    values = unit_vectors(users, d) * np.random.default_rng(2).uniform(0, 1, (users, 1))
    values[:9] = 0.0
    values[1, 0], values[2, 1], values[3, 2] = 1.0, 1e-200, 1e-320
    messages = mechanism.encode(values, rng=np.random.default_rng(3))
    estimate = mechanism.estimate(mechanism.unpack(mechanism.pack(messages)))
    squares = (estimate.value - mechanism.truth(values)) ** 2 / mechanism.variance(values)
    assert abs(squares.sum() - d) < 6 * math.sqrt(2 * d)
    assert estimate.variance.sum() == pytest.approx(mechanism.variance(values).sum(), rel=0.05)


# --- privacy ------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize(("epsilon", "dimension"), [(0.1, 2), (1.0, 3), (4.0, 1024), (8.0, 100), (30.0, 16)])
def test_the_guarantee_is_certified(kind: Any, epsilon: float, dimension: int) -> None:
    """1 + (1−γ)/(γs) ≤ e^ε, from exact fractions and a lower bound of e^ε; and not far below but for PrivUnit."""
    mechanism = kind(epsilon, dimension)
    gamma, share = mechanism.response.uniform_share, mechanism.response.share
    with mpmath.workdps(60):
        ratio = 1 + (1 - gamma) / (gamma * share)
        log_ratio = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert log_ratio <= mpmath.mpf(epsilon)
        if kind is not PrivUnit and epsilon < 20:
            assert log_ratio >= epsilon - 1e-5
    assert 0 < share <= Fraction(1, 2)


@pytest.mark.parametrize("kind", [PrivUnit, PrivUnitOptimized])
@pytest.mark.parametrize(("epsilon", "dimension"), [(1.0, 2), (4.0, 33), (8.0, 1024)])
def test_the_own_share_is_the_caps_less_the_float_error(kind: Any, epsilon: float, dimension: int) -> None:
    """q·e^−2κ with q by quadrature, and κ summed up by hand."""
    mechanism = kind(epsilon, dimension)
    with mpmath.workdps(30):
        start = mpmath.asin(mechanism.height)
        width = 1 / mpmath.sqrt(dimension)
        steps = [start + k * width for k in range(14) if start + k * width < mpmath.pi / 2] + [mpmath.pi / 2]
        inside = mpmath.quad(lambda t: mpmath.cos(t) ** (dimension - 2), steps)
        whole = mpmath.beta(mpmath.mpf(dimension - 1) / 2, mpmath.mpf(1) / 2)
        places = -round(math.log2(mechanism.estimator.step))
        error = math.sqrt(dimension) * 2.0 ** (places - 38) + dimension * 2.0 ** (places - 51) + 2.0**-30
        wanted = inside / whole * mpmath.exp(-2 * error)
        assert float(mechanism.response.share) == pytest.approx(float(wanted), rel=1e-11)
        assert mpmath.mpf(mechanism.response.share.numerator) / mechanism.response.share.denominator <= wanted
    assert mechanism.report.realisation_error < 2e-6


def random_density(rng: Random, low: Fraction, high: Fraction, weights: list[Fraction]) -> list[Fraction]:
    """Numbers from ``low`` to ``high`` whose mean under the weights is 1, some of them at the ends."""
    raw = [low + (high - low) * Fraction(rng.choice([0, 8, rng.randint(0, 8)]), 8) for _ in weights]
    mean = sum((w * f for w, f in zip(weights, raw, strict=True)), Fraction(0))
    end = low if mean > 1 else high
    share = (mean - 1) / (mean - end) if mean != end else Fraction(0)
    return [f + share * (end - f) for f in raw]


@pytest.mark.parametrize("seed", range(40))
def test_two_levels_dominate_every_density_between_them(seed: int) -> None:
    """Any two laws with densities from γ to γ + (1−γ)/s diverge less than two disjoint own sets of share s.

    The hiding law is γ times the common one, for one, two and three users; exact fractions.
    """
    rng = Random(seed)
    gamma, share = Fraction(rng.randint(2, 14), 16), Fraction(rng.randint(1, 8), 16)
    high = gamma + (1 - gamma) / share
    sizes = [rng.randint(1, 5) for _ in range(4)]
    weights = [Fraction(size, sum(sizes)) for size in sizes]
    laws = [[w * f for w, f in zip(weights, random_density(rng, gamma, high, weights), strict=True)] for _ in range(2)]
    worst = [share * high, share * gamma, (1 - 2 * share) * gamma]
    swapped = [worst[1], worst[0], worst[2]]
    floor = [share * gamma, share * gamma, (1 - 2 * share) * gamma]
    for users in (1, 2, 3):
        for ratio in (Fraction(9, 8), Fraction(2)):
            real = divergence(laws[0], laws[1], [gamma * w for w in weights], users, ratio)
            assert real <= divergence(worst, swapped, floor, users, ratio)


def divergence(first: Any, second: Any, hiding: Any, users: int, ratio: Fraction) -> Fraction:
    """Against a hiding law of mass below 1: the rest is a class of its own that user 1 never sends."""
    rest = 1 - sum(hiding, Fraction(0))
    kept = [triple for triple in zip(first, second, hiding, strict=True) if triple[2] > 0]
    columns = [list(column) for column in zip(*kept, (Fraction(0), Fraction(0), rest), strict=True)]
    return hockey_stick_of_counts(*columns, users, ratio)


@pytest.mark.parametrize("dimension", [2, 3, 64])
def test_half_spaces_are_exact_halves(dimension: int) -> None:
    """Turned sign bits turn the message, and exactly one of the two is in the own set, ties included."""
    mechanism = PrivHS(1.0, dimension)
    words = np.random.default_rng(4).integers(0, 1 << 64, (500, mechanism.proposal.word_count), dtype=np.uint64)
    turned = words.copy()
    turned[:, 2 * words.shape[1] // 3 :] ^= np.uint64(1 << 63)
    messages, opposite = mechanism.proposal.draw_messages(words), mechanism.proposal.draw_messages(turned)
    np.testing.assert_array_equal(messages, -opposite)
    messages[:3, 0], messages[:3, 1] = 0, [5, -5, 7]
    opposite[:3] = -messages[:3]
    directions = unit_vectors(500, dimension, seed=5)
    directions[:3] = np.eye(dimension)[0]
    ahead, behind = (
        mechanism.proposal.in_response_set(directions, messages),
        mechanism.proposal.in_response_set(directions, opposite),
    )
    assert (ahead ^ behind).all()
    assert (ahead ^ mechanism.proposal.in_response_set(-directions, messages)).all()
    assert (heights(directions, messages)[:3] == 0).all() or dimension > 2


@pytest.mark.parametrize(("epsilon", "dimension"), [(1.0, 2), (4.0, 50)])
def test_own_sets_of_normal_vectors_have_the_stated_share(epsilon: float, dimension: int) -> None:
    """100,000 reference vectors: the share in an own set is P(N ≥ h) within six standard errors; the bounds hold it."""
    mechanism = PrivUnitG(epsilon, dimension)
    share = math.erfc(mechanism.height / math.sqrt(2)) / 2
    assert float(mechanism.response.share) < share < float(mechanism.response.share) * math.exp(mechanism.share_error)
    assert mechanism.share_error < 2e-6
    words = np.random.default_rng(6).integers(0, 1 << 64, (100_000, mechanism.proposal.word_count), dtype=np.uint64)
    messages = mechanism.proposal.draw_messages(words)
    direction = np.tile(unit_vectors(1, dimension), (len(messages), 1))
    seen = mechanism.proposal.in_response_set(direction, messages).mean()
    assert abs(seen - share) <= 6 * math.sqrt(share * (1 - share) / len(messages))


@pytest.mark.parametrize("mechanism", [PrivHS(2.0, 3), PrivUnitG(2.0, 3), PrivUnitG(1.0, 20)], ids=repr)
def test_messages_follow_the_reference_and_the_acceptance(mechanism: PrivHS | PrivUnitG) -> None:
    """P(own set) is γs + (1−γ)(1+ℓ)/2 for a vector of length ℓ; reference draws weighted by C·acceptance say the same.

    Six standard errors each; what the opposite direction's own set has is never in the direction's.
    """
    users, rng = 30_000, np.random.default_rng(7)
    gamma, share = float(mechanism.response.uniform_share), float(mechanism.response.share)
    unit = unit_vectors(1, mechanism.dimension)
    for length in (1.0, 0.5):
        values = mechanism.check(np.tile(unit * length, (users, 1)))
        directions, _ = split_directions(values)
        own = mechanism.proposal.in_response_set(directions, mechanism.encode(values, rng=rng)).mean()
        both = gamma * share + (1 - gamma) * (1 + length) / 2
        assert abs(own - both) <= 6 * math.sqrt(both * (1 - both) / users)
        words = rng.integers(0, 1 << 64, (users, mechanism.proposal.word_count), dtype=np.uint64)
        messages = mechanism.proposal.draw_messages(words)
        accept = mechanism.proposal.acceptance(values, messages)
        assert accept.max() <= 1
        assert accept.min() >= gamma / mechanism.proposal.ratio * (1 - 1e-12)
        weights = accept * mechanism.proposal.ratio
        assert abs(weights.mean() - 1) <= 6 * weights.std() / math.sqrt(users)
        inside = weights * mechanism.proposal.in_response_set(directions, messages)
        assert abs(inside.mean() - both) <= 6 * inside.std() / math.sqrt(users)
        alone = [mechanism.proposal.acceptance(values[k : k + 1], messages[k : k + 1])[0] for k in range(20)]
        assert alone == accept[:20].tolist()
    low, high = math.log(gamma), math.log(mechanism.proposal.ratio)
    assert mechanism.proposal.deletion_epsilon == pytest.approx(max(-low, high), rel=1e-5)
    assert mechanism.proposal.deletion_epsilon >= max(-low, high) * (1 - 1e-15)


@pytest.mark.parametrize("mechanism", [PrivUnitOptimized(3.0, 3), PrivUnit(4.0, 40)], ids=repr)
def test_caps_are_hit_as_often_as_stated(mechanism: PrivUnit | PrivUnitOptimized) -> None:
    """P(⟨V, x⟩ ≥ height) is γq + 1 − γ, within six standard errors and what the noise blurs at the edge."""
    users = 30_000
    values = np.tile(unit_vectors(1, mechanism.dimension), (users, 1))
    heights = mechanism.encode(values, rng=np.random.default_rng(8)) @ values[0] * mechanism.estimator.step
    gamma, share = float(mechanism.response.uniform_share), float(mechanism.response.share)
    wanted = gamma * share + 1 - gamma
    seen = (heights >= mechanism.height).mean()
    blur = (np.abs(heights - mechanism.height) < 10 * mechanism.estimator.step).mean()
    assert blur < 0.08
    assert abs(seen - wanted) <= 6 * math.sqrt(wanted * (1 - wanted) / users) + blur


@every_kind
def test_amplification(kind: Any) -> None:
    """The certified ε of 10,000 users, not above any ε0-LDP randomizer's; an attack only where its law is exact."""
    mechanism = kind(3.0, 256)
    value = sdp.amplify(mechanism, 10_000, effort="quick").epsilon(1e-6)
    general = sdp.amplify(sdp.VariationRatio.from_ldp(3.0), 10_000, effort="quick").epsilon(1e-6)
    assert value.certified
    assert value.guarantee
    assert (value.lower is None) == (kind is not PrivHS)
    assert 0.1 < value.upper <= general.upper * (1 + 1e-9)


def test_half_spaces_are_as_tight_as_one_sign() -> None:
    """x against −x is binary randomized response: guarantee and attack are those of Harmony, another mechanism."""
    ours, theirs = (sdp.amplify(kind(2.0, 5), 3_000, effort="quick").epsilon(1e-6) for kind in (PrivHS, sdp.Harmony))
    assert ours.upper == pytest.approx(theirs.upper, rel=1e-9)
    assert ours.lower == pytest.approx(theirs.lower, rel=1e-9)


# --- values, messages, errors -------------------------------------------------------------------------------------


@every_kind
def test_large_dimensions_and_large_epsilon(kind: Any) -> None:
    """A thousand thousand numbers, and ε = 200, still give a message and finite answers."""
    wide = kind(2.0, 1 << 20)
    message = wide.encode(np.full((1, 1 << 20), 2.0**-10), rng=np.random.default_rng(1))
    assert message.shape == (1, 1 << 20)
    assert math.isfinite(wide.estimator.squared_error)
    for d, epsilon in ((2, 1e-5), (5, 200.0), (1000, 1e4)):
        sure = kind(epsilon, d)
        messages = sure.encode(np.eye(d)[:2], rng=np.random.default_rng(1))
        assert math.isfinite(sure.estimate(messages).value.sum())
        assert 1 < sure.variation_ratio().p <= math.exp(min(epsilon, 700)) * (1 + 1e-12)


@every_kind
def test_values_that_are_a_little_too_long(kind: Any) -> None:
    """A unit vector of 32-bit floats is taken; a longer vector is refused."""
    mechanism = kind(1.0, 7)
    short = unit_vectors(50, 7).astype(np.float32)
    assert np.linalg.norm(mechanism.check(short), axis=1).max() <= 1 + 1e-15
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: vectors must have length at most 1, got 1\.2\d+\.$"):
        mechanism.check(np.full((2, 7), 0.46))


@every_kind
def test_errors(kind: Any) -> None:
    """One sentence each."""
    who = kind.__name__
    with pytest.raises(ValueError, match=rf"^{who}: dimension must be at least 2, got 1\.$"):
        kind(1.0, 1)
    with pytest.raises(ValueError, match=rf"^{who}: epsilon must be above 0 and finite, got 0\.0\.$"):
        kind(0.0, 3)
    with pytest.raises(ValueError, match=rf"^{who}: expected vectors of 3 numbers, got 2\.$"):
        kind(1.0, 3).encode([[0.0, 1.0]])
    with pytest.raises(ValueError, match=rf"^{who}: .* cannot be written down as a table\.$"):
        kind(1.0, 3).table()
    with pytest.raises(ValueError, match=rf"^{who}: expected rows of \d+ bytes, got uint8 of shape \(1, 5\)\.$"):
        kind(1.0, 3).unpack(np.zeros((1, 5), dtype=np.uint8))


def test_dimensions_and_epsilons_beyond_the_proof_are_refused() -> None:
    """The float error would be too large."""
    with pytest.raises(ValueError, match=r"^PrivUnit: dimension must be at most 1048576, got 1048577\.$"):
        PrivUnit(1.0, (1 << 20) + 1)
    with pytest.raises(
        ValueError, match=r"^PrivUnitG: epsilon must be above 7\.\d+e-08 for 9 numbers, .* got 1e-09\.$"
    ):
        PrivUnitG(1e-9, 9)


def test_messages_are_short_numbers() -> None:
    """Two bytes a coordinate for caps up to 4,096 numbers, then four; four for reference vectors, highest first."""
    assert PrivUnitOptimized(1.0, 1024).message_bits == 16 * 1024
    assert PrivUnitOptimized(1.0, 5000).message_bits == 32 * 5000
    assert PrivHS(1.0, 10).message_bytes == PrivUnitG(1.0, 10).message_bytes == 40
    wire = PrivHS(1.0, 2).pack(np.array([[1, -2]], dtype=np.int32))
    assert wire.tolist() == [[0, 0, 0, 1, 255, 255, 255, 254]]


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_the_published_cap_obeys_its_conditions(epsilon: float) -> None:
    """Some split ε0 + ε1 grants the height by one of the two printed inequalities, and q then has the ratio ε1 asks."""
    for d in (3, 100, 1024):
        mechanism = PrivUnit(epsilon, d)
        height, budget = mechanism.height, epsilon - mechanism._best_split[1]
        linear = height <= math.tanh(budget / 2) * math.sqrt(math.pi / (2 * (d - 1))) * (1 + 1e-12)
        cost = math.log(d) / 2 + math.log(6) - (d - 1) / 2 * math.log(1 - height**2) + math.log(height)
        assert linear or (height >= math.sqrt(2 / d) and cost <= budget * (1 + 1e-12))
        share = float(mechanism.response.share)
        assert math.log((1 - share) / share) <= budget + 1e-5
