"""Gaussian noise in the unit ball: the moves that spread G, the finite laws, and the guarantee against an attack."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import permutations

import numpy as np
import pytest
from scipy.special import ndtr

import shuffledp as sdp
from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.bounds.worst_dataset_bound import WorstDatasetBound
from shuffledp.mechanisms.vector._gaussian_worst_dataset import (
    FULL_CELL,
    AngleCell,
    BallOtherUsers,
    BallWorstDataset,
    KindLaw,
    KindParameters,
    MixtureDomination,
    build_ball_other_users,
    compute_gain_distribution,
    domination_slack,
)
from shuffledp.mechanisms.vector.gaussian import GaussianVector, SingleMessageLoss

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def mean(covariance: Floats, tilt: float, ratio: float) -> float:
    """E Φ(G) of a smooth convex Φ, by quadrature in two normal numbers."""
    a, g, b = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    first = math.sqrt(a)
    along = g / first if first else 0.0
    across = math.sqrt(max(0.0, b - along**2))
    u, v = np.meshgrid(POINTS, POINTS, indexing="ij")
    gain = np.exp(first * u - a / 2) - ratio * np.exp(along * u + across * v - b / 2)
    return float(WEIGHTS @ np.logaddexp(0.0, tilt * (gain - 0.3)) @ WEIGHTS)


def gram(points: Floats, sigma: float) -> Floats:
    apart = (points[:2] - points[2]) / sigma
    return np.asarray(apart @ apart.T)


def of_triple(triple: KindParameters) -> Floats:
    line = np.array([triple.first, -triple.second])
    return np.asarray(triple.away**2 + np.outer(line, line))


def test_adding_to_the_covariance_and_parting_spread() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        root, more = rng.normal(size=(2, 2)) * 0.4, rng.normal(size=(2, 2)) * 0.3
        covariance = root @ root.T
        tilt, ratio = rng.uniform(0.5, 3), rng.uniform(1, 1.5)
        assert mean(covariance + more @ more.T, tilt, ratio) >= mean(covariance, tilt, ratio) - 1e-9
        parted = covariance.copy()
        least = -math.sqrt(covariance[0, 0] * covariance[1, 1])
        parted[0, 1] = parted[1, 0] = covariance[0, 1] - rng.uniform() * (covariance[0, 1] - least)
        assert mean(parted, tilt, ratio) >= mean(covariance, tilt, ratio) - 1e-9


def is_reached(covariance: Floats, triple: KindParameters) -> bool:
    """Whether a semidefinite matrix and lowering g lead from a triple's covariance to a kind's."""
    kind = of_triple(triple)
    one, two = kind[0, 0] - covariance[0, 0], kind[1, 1] - covariance[1, 1]
    if min(one, two) < -1e-9:
        return False
    return bool(kind[0, 1] <= covariance[0, 1] + math.sqrt(max(one, 0.0) * max(two, 0.0)) + 1e-9)


def on_a_circle(parts: Floats) -> Floats:
    """Two inputs and another user's, their arcs π less these."""
    turns = np.array([math.pi - parts[0], -(math.pi - parts[1]), 0.0])
    return np.column_stack([np.cos(turns), np.sin(turns)])


def around(first: float, second: float, depth: int) -> AngleCell:
    """The cell that holds β_0 and β_1, in parts of π, after so many cuts."""
    cell = FULL_CELL
    for _ in range(depth):
        cell = next(
            half
            for half in cell.split()
            if half.low <= first <= half.high and half.other_low <= second <= half.other_high
        )
    return cell


@pytest.mark.parametrize("sigma", [1.0, 2.0, 6.0])
def test_every_acute_triple_on_a_circle_is_below_its_cells_and_the_widest_kind(sigma: float) -> None:
    rng = np.random.default_rng(2)
    crowds = BallWorstDataset(sigma)
    for _ in range(300):
        parts = rng.dirichlet([0.3, 0.7, 0.4])
        parts[:2] = np.sort(parts[:2])
        covariance = gram(on_a_circle(parts * math.pi), sigma)
        for depth in (0, 3, 7):
            cell = around(float(parts[0]), float(parts[1]), depth)
            assert cell.is_needed
            assert is_reached(covariance, crowds.cell_kind(cell))
        assert is_reached(covariance, crowds.widest_kind)


def test_every_triple_of_a_ball_is_below_the_widest_kind() -> None:
    """E Φ of random triples, on a circle or not, in any dimension."""
    rng = np.random.default_rng(3)
    for sigma in (1.5, 4.0):
        widest = of_triple(BallWorstDataset(sigma).widest_kind)
        for _ in range(5):
            tilt, ratio = rng.uniform(0.3, 2), rng.uniform(1, 1.2)
            most = mean(widest, tilt, ratio)
            for _ in range(15):
                points = rng.normal(size=(3, 3))
                points *= (rng.uniform(size=(3, 1)) ** 0.2) / np.linalg.norm(points, axis=1, keepdims=True)
                assert mean(gram(points, sigma), tilt, ratio) <= most + 1e-9


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize(
    "triple", [KindParameters(0.9, 0.1, 0.3), KindParameters(0.3, 0.6, 0.5), KindParameters(0.2, 0.01, 0.05)]
)
def test_a_finite_law_is_above_its_kind(triple: KindParameters, even: bool) -> None:
    """Means are kept, but for what is left out, and every E Φ grows: a little."""
    classes = KindLaw(triple, 6.0, 0.0, 0.01, even).classes.triples
    floats = np.array([[float(Fraction(int(x.p), int(x.q))) for x in each] for each in classes])
    first, second, hiding = floats.T
    tail = math.erfc(6 / math.sqrt(2)) / 2
    assert hiding.sum() == pytest.approx(1, abs=1e-12)
    assert 1 - 3.01 * tail - 1e-12 <= first.sum() <= 1 + 1e-12
    assert 1 - 2.01 * tail - 1e-12 <= second.sum() <= 1 + 1e-12
    for tilt, ratio in ((0.5, 1.0), (1.0, 1.1), (3.0, 1.3)):
        gain = (first - ratio * second) / hiding
        found = float(hiding @ np.logaddexp(0.0, tilt * (gain - 0.3)))
        exact = mean(of_triple(triple), tilt, ratio)
        assert exact - 5 * tilt * tail <= found <= exact * 1.02


def test_a_cut_for_each_other_user_counts_once() -> None:
    """E(ΣG_i)_+/m is at most the same of G'_i and the largest mean of what is left out, in all crowds of three."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        chances = rng.dirichlet(np.ones(4), size=3)
        gains, cuts = rng.normal(size=(3, 4)) - 0.2, rng.uniform(size=(3, 4)) * (rng.uniform(size=(3, 4)) < 0.3)
        weight = np.einsum("i,j,k->ijk", *chances)

        def part(values: Floats, weight: Floats = weight) -> float:
            total = values[0][:, None, None] + values[1][None, :, None] + values[2][None, None, :]
            return float((weight * np.maximum(total, 0)).sum()) / 3

        assert part(gains) <= part(gains - cuts) + (chances * cuts).sum(axis=1).max() + 1e-12


def test_a_law_that_is_nearly_below_others_counts_once() -> None:
    """E(G − c)_+ ≤ E(K − c)_+ + η at every c: then E(ΣG)_+/m is at most that of K's, and η, in all crowds of three."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        chances, gain = rng.dirichlet(np.ones(4), size=2), rng.normal(size=(2, 4))
        places = np.concatenate([gain.ravel(), [-9.0, 9.0]])
        means = [np.maximum(gain[k] - places[:, None], 0) @ chances[k] for k in (0, 1)]
        most = max(0.0, float((means[0] - means[1]).max()))
        found = []
        for k in (0, 1):
            total = gain[k][:, None, None] + gain[k][None, :, None] + gain[k][None, None, :]
            weight = np.einsum("i,j,k->ijk", *[chances[k]] * 3)
            found.append(float((weight * np.maximum(total, 0)).sum()) / 3)
        assert found[0] <= found[1] + most + 1e-12


def potential(covariance: Floats, ratio: float, places: Floats) -> Floats:
    """E(G − c)_+ by quadrature over log Y, with Black's formula for X."""
    a, g, b = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    along = g / math.sqrt(b)
    spread = math.sqrt(a - along**2)
    forward = np.exp(along * POINTS - along**2 / 2)[:, None]
    strike = ratio * np.exp(math.sqrt(b) * POINTS - b / 2)[:, None] + places
    safe = np.where(strike > 0, strike, 1.0)
    d = np.log(forward / safe) / spread + spread / 2
    call = np.where(strike > 0, forward * ndtr(d) - safe * ndtr(d - spread), forward - strike)
    return np.asarray(WEIGHTS @ call)


@lru_cache
def sharp(sigma: float) -> BallOtherUsers:
    return build_ball_other_users(sigma, 6.0, 1e-10, quick=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("epsilon", [0.0, 0.0173])
def test_few_kinds_are_above_all_triples(epsilon: float) -> None:
    """What the cells prove, looked at for random triples themselves: some mixture is above each, by quadrature."""
    rng = np.random.default_rng(6)
    sigma, others = 4.0, sharp(4.0)
    level = others.find_level(epsilon)
    assert level is not None
    kinds = others.few_kinds(level)
    places = np.sort(np.concatenate([-np.geomspace(1e-3, 3, 40), np.geomspace(1e-3, 3, 40)]))
    known = [potential(of_triple(kind.parameters) + 1e-12 * np.eye(2), math.exp(epsilon), places) for kind in kinds]
    weights = np.array([[i, j, 40 - i - j] for i in range(41) for j in range(41 - i)]) / 40
    mixtures = weights @ np.array(known)
    for _ in range(25):
        parts = rng.dirichlet([0.5, 0.5, 0.3]) * math.pi
        found = potential(gram(on_a_circle(parts), sigma) + 1e-9 * np.eye(2), math.exp(epsilon), places)
        # The kinds are finite laws, a little above their own, and 40 steps are coarse.
        assert float((found - mixtures).max(axis=1).min()) <= 1e-3 * float(found.max())


@pytest.mark.exhaustive
def test_what_is_wider_is_not_below() -> None:
    """The check is no rubber stamp."""
    others = sharp(4.0)
    level = others.find_level(0.02)
    assert level is not None
    above = MixtureDomination(
        [compute_gain_distribution(kind, 0.02) for kind in others.few_kinds(level)], domination_slack(6.0)
    )
    assert above.is_dominated(
        compute_gain_distribution(KindLaw(KindParameters(0.3, 0.2, 0.1), 6.0, 1e-10, 0.004, has_even_nodes=True), 0.02)
    )
    for wide in (KindParameters(0.52, 0.01, 0.01), KindParameters(0.3, 0.3, 0.5), BallWorstDataset(4.0).widest_kind):
        assert not above.is_dominated(
            compute_gain_distribution(KindLaw(wide, 6.0, 1e-10, 0.004, has_even_nodes=True), 0.02)
        )


@pytest.mark.parametrize("sigma", [1.0, 4.0, 30.0])
def test_one_message_alone(sigma: float) -> None:
    upper, lower = SingleMessageLoss(sigma, 1e-9, 5).profile(np.array([0.0, 0.3, 2.0, 60.0]))
    mu = 2 / sigma
    for place, epsilon in enumerate((0.0, 0.3, 2.0)):
        exact = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        assert exact <= upper[place] <= exact + 1e-8
        assert lower[place] <= upper[place]
    assert upper[3] < 1e-10


# --- against what is true -------------------------------------------------------------------------------------------


def true_delta(sigma: float, inputs: tuple[float, float], others: tuple[float, ...], epsilon: float) -> float:
    """The divergence of all messages in one dimension, in random order, on a grid."""
    width = 1.0 + 8.0 * sigma
    y, step = np.linspace(-width, width, 1201 if len(others) == 1 else 121, retstep=True)
    law = {x: np.exp(-(((y - x) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)) for x in (*inputs, *others)}
    found = []
    for one in inputs:
        held = (one, *others)
        orders = (
            [np.multiply.outer(law[a], law[b]) for a, b in permutations(held)]
            if len(held) == 2
            else [np.einsum("i,j,k->ijk", law[a], law[b], law[c]) for a, b, c in permutations(held)]
        )
        found.append(sum(orders) / len(orders))
    return float(np.maximum(found[0] - math.exp(epsilon) * found[1], 0).sum() * step ** len(held))


@pytest.mark.parametrize("crowds", [[(-1.0,), (0.0,), (1.0,)], [(-1.0, -1.0), (-1.0, 1.0), (0.0, 0.3), (1.0, 1.0)]])
@pytest.mark.parametrize("sigma", [1.5, 4.0, 12.0])
def test_tiny_crowds_against_what_is_true(sigma: float, crowds: list[tuple[float, ...]]) -> None:
    """Two or three users, both bounds: one message alone, and the absent user where it is asked for by hand."""
    mechanism, users, epsilon = GaussianVector(sigma, 1), 1 + len(crowds[0]), 0.1
    alone = sdp.amplify(mechanism, users).delta(epsilon)
    crowd = WorstDatasetBound(fewest=1).curve(mechanism.quick_form(), users).delta(epsilon)
    for others in crowds:
        true = true_delta(sigma, (1.0, -1.0), others, epsilon)
        assert 0 < true <= alone.upper + 1e-6
        assert true <= crowd.upper + 1e-6


@pytest.mark.exhaustive
def test_two_users_in_two_dimensions() -> None:
    """The other is at right angles to both: on a grid in four dimensions."""
    sigma, epsilon = 3.0, 0.1
    y, step = np.linspace(-1 - 6 * sigma, 1 + 6 * sigma, 57, retstep=True)

    def law(x: float) -> Floats:
        return np.asarray(np.exp(-(((y - x) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)))

    one, two, third = (np.multiply.outer(law(a), law(b)) for a, b in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0)))
    first, second = (np.multiply.outer(own, third) for own in (one, two))
    gap = first - math.exp(epsilon) * second
    true = float(np.maximum((gap + gap.transpose(2, 3, 0, 1)) / 2, 0).sum() * step**4)
    mechanism = GaussianVector(sigma, 2)
    assert 0.05 < true <= sdp.amplify(mechanism, 2).delta(epsilon).upper
    assert true <= WorstDatasetBound(fewest=1).curve(mechanism.quick_form(), 2).delta(epsilon).upper


def attack_delta(sigma: float, users: int, epsilon: float, turn: float = 0.0) -> float:
    """Opposite unit vectors, all others with one that is turned from the second: the law of G by Fourier transform."""
    steps, size = 0.004, 1 << 21
    fine = 200_001 if turn == 0 else 1501
    y = np.linspace(-11, 11, fine)
    weights = np.exp(-y * y / 2)
    points = np.array([[1.0, 0.0], [-1.0, 0.0], [-math.cos(turn), math.sin(turn)]])
    covariance = gram(points, sigma)
    first, second, beside = covariance[0, 0], covariance[1, 1], covariance[0, 1]
    if turn == 0:
        gain = np.exp(math.sqrt(first) * y - first / 2) - math.exp(epsilon)
    else:
        along = beside / math.sqrt(second)
        across = math.sqrt(first - along**2)
        other = np.exp(math.sqrt(second) * y - second / 2)[:, None]
        gain = np.exp(along * y[:, None] + across * y - first / 2) - math.exp(epsilon) * other
        gain, weights = gain.ravel(), np.multiply.outer(weights, weights).ravel()
    gain = gain[weights > 1e-18 * weights.max()]
    weights = weights[weights > 1e-18 * weights.max()]
    places = (gain - gain.min()) / steps
    low = np.floor(places).astype(int)
    assert low.max() < size - 2
    law = np.bincount(low, weights * (1 - places + low), size) + np.bincount(low + 1, weights * (places - low), size)
    total = np.fft.irfft(np.fft.rfft(law / weights.sum()) ** (users - 1), size)
    start, middle = (users - 1) * gain.min(), (users - 1) * -math.expm1(epsilon)
    found = np.arange(size) + size * np.round(((middle - start) / steps - np.arange(size)) / size)
    return float((total * np.maximum(start + steps * found, 0.0)).sum()) / (users - 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("sigma", "effort", "share"),
    [(4.0, "full", 0.98), (2.0, "full", 0.94), (8.0, "quick", 0.85), (4.0, "quick", 0.75), (2.0, "quick", 0.64)],
)
def test_the_guarantee_is_near_what_an_attack_attains(sigma: float, effort: str, share: float) -> None:
    value = sdp.amplify(GaussianVector(sigma, 16), 10_000, effort=effort).epsilon(1e-6)
    assert value.certified
    assert value.bound == "all-crowds"
    for turn in (0.0, 0.5 * math.pi, 0.8 * math.pi):
        assert attack_delta(sigma, 10_000, value.upper, turn) <= 1e-6
    assert attack_delta(sigma, 10_000, value.upper * share) >= 1e-6


def test_few_users_and_little_noise_keep_what_one_message_keeps() -> None:
    for multiplier, users in ((1.0, 10_000), (4.0, 10)):
        for effort in ("quick", "full"):
            value = sdp.amplify(GaussianVector(multiplier, 3), users, effort=effort).epsilon(1e-6)
            assert value.certified
            assert value.bound == "own-noise"
    assert sdp.amplify(GaussianVector(4.0, 3), 10).epsilon(1e-6).upper == pytest.approx(2.254085, rel=1e-5)


def test_the_mean_is_unbiased_and_its_variance_is_stated() -> None:
    mechanism = GaussianVector(1.5, 4)
    values = np.tile([[0.5, -0.5, 0.1, 0.0]], (20_000, 1))
    found = mechanism.estimate(mechanism.encode(values, np.random.default_rng(4)))
    deviation = np.sqrt(mechanism.variance(values))
    np.testing.assert_allclose(deviation, 1.5 / math.sqrt(20_000), rtol=1e-3)
    assert np.all(np.abs(found.value - values[0]) < 5 * deviation)
    messages = mechanism.encode(values, np.random.default_rng(5)) * mechanism.step
    np.testing.assert_allclose(messages.var(axis=0), mechanism.variance(values) * 20_000, rtol=0.05)


def test_it_says_what_it_cannot() -> None:
    with pytest.raises(ValueError, match=r"^GaussianVector: multiplier must be between 0.8 and 10000, got 0.1.$"):
        GaussianVector(0.1, 2)
    with pytest.raises(ValueError, match="dimension must be at most"):
        GaussianVector(1.0, 1 << 20)
    with pytest.raises(NotApplicable, match="has no bounded likelihood ratio"):
        GaussianVector(2.0, 2).variation_ratio()


def test_the_common_part_does_not_depend_on_the_dimension() -> None:
    assert build_ball_other_users(4.0, 5.0, 1e-9, quick=True).gamma == pytest.approx(
        math.exp(-1 / 32 - 5 / 4), rel=1e-4
    )
    assert GaussianVector(4.0, 1 << 16).realisation_error < 1e-2
