"""The numbers of docs/reproduction.md about claims that are not reproduced: the print's side and ours, computed here.

The print's side is a formula of this file or of tests/oracle; each number is found in the page's own sentence, to the
digits that stand there.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from functools import cache
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

import shuffledp as sdp
from shuffledp.bounds.local_metric_solver import LocalMetricSolver
from shuffledp.bounds.metric_amplification import find_amplification
from shuffledp.bounds.metric_noise_laws import WitchHatNoise
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.privacy.metric_space import DistanceMatrix
from tests.oracle import double_precision
from tests.oracle.double_precision import delta_published_float

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"
LOCALS = (0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
SETTINGS = ((10_000, 16), (10_000, 128), (100_000, 16), (100_000, 128))

# Several mechanisms have the same printed parameters.
epsilon_published_float = cache(double_precision.epsilon_published_float)


def said(key: str) -> str:
    """What the page says of a claim."""
    (sentence,) = re.findall(rf"\*\*not reproduced\*\* \(`{key}`\): (.*)", PAGE.read_text("utf-8"))
    return str(sentence)


def percents(shares: list[float]) -> str:
    low, high = 100 * min(shares), 100 * max(shares)
    return f"{low:.1f}–{high:.1f}%" if low >= 0 else f"−{-low:.1f} to {high:.1f}%"


# --- [VR] Tables --------------------------------------------------------------------------------------------------


def variation(mechanism: Mechanism) -> float:
    """The largest total variation of two inputs' laws, from the exact table."""
    rows = mechanism.table().probabilities
    pairs = itertools.combinations(rows, 2)
    return float(max(sum(max(a - b, 0) for a, b in zip(*pair, strict=True)) for pair in pairs))


def test_betas_that_are_too_small() -> None:
    """At ε = 1: what is printed is below the mechanism's total variation for these two, and as large for others."""
    e, root = math.e, math.exp(0.5)
    sampled = 2 * (root - 1) / (5 * (root + 1))
    sets = (e - 1) * (comb(4, 2) - comb(2, 2)) / (e * comb(6, 2) - comb(4, 2) + comb(4, 2))
    assert sampled < 0.5 * variation(sdp.SamplingRAPPOR(1.0, 5, 2))
    assert sets < 0.8 * variation(sdp.PrivSet(1.0, 6, 2, size=2))
    corrected = (e - 1) * (comb(4, 2) - comb(2, 2)) / (e * (comb(6, 2) - comb(4, 2)) + comb(4, 2))
    assert corrected == pytest.approx(variation(sdp.PrivSet(1.0, 6, 2, size=2)), rel=1e-9)
    assert (e - 1) / (e + 3) == pytest.approx(variation(sdp.KRR(1.0, 4)), rel=1e-9)
    assert said("too_small") == "Too small as printed: sampling RAPPOR, PrivSet, Table 5."


def test_betas_of_the_witch_hat() -> None:
    """B = 4, m = 3, F = 1: the printed β falls with the distance to below 0; half of ∫|f_a − f_b| grows."""

    def density(y: float, x: float) -> float:
        return math.exp(-min(2 * abs(y - x), 3.0)) / (1 - math.exp(-3) + 8 * math.exp(-3))

    printed, true = [], []
    for distance in (0.5, 1.0, 2.0, 4.0):
        printed.append(2 * (math.exp(3) - math.exp(distance) + distance - 3) / (math.exp(3) - 1 + 8))
        a, b = -distance / 4, distance / 4
        kinks = sorted({-5.5, 5.5, a, b, 0.0, *(x + s * 1.5 for x in (a, b) for s in (-1, 1))})
        true.append(
            sum(quad(lambda y, a=a, b=b: abs(density(y, a) - density(y, b)) / 2, *ends)[0]
                for ends in itertools.pairwise(kinks))
        )  # fmt: skip
    assert printed == sorted(printed, reverse=True)
    assert true == sorted(true)
    wrong = [abs(one - other) > 1e-3 for one, other in zip(printed, true, strict=True)]
    assert f"wrong at {sum(wrong)} of {len(wrong)} distances" in said("witch_hat")
    assert printed[-1] < 0 < true[0]
    noise = WitchHatNoise(4.0, 3.0, 1.0)
    ours = [float(noise.total_variation(distance)) for distance in (0.5, 1.0, 2.0, 4.0)]
    assert ours[:3] == pytest.approx(true[:3], rel=1e-6)
    # From m on any two inputs are as far apart as any others.
    assert ours[3] >= true[3]


# --- [VR] Figures -------------------------------------------------------------------------------------------------


@cache
def points() -> list[tuple[int, int, float]]:
    return [(users, options, local) for users, options in SETTINGS for local in LOCALS]


def attack_on(mechanism: Mechanism, users: int, delta: float) -> float | None:
    """What is attained, without asking what is guaranteed."""
    attack = sdp.amplify(mechanism, users, effort="quick").source.attack
    return None if attack is None else attack.epsilon(delta)


@pytest.mark.exhaustive
def test_the_attack_on_the_subset_mechanism() -> None:
    """At all 44 points of Figure 1: Theorem 4.2 by a sum over one count, and what an attack attains."""
    below = []
    for users, options, local in points():
        mechanism = sdp.Subset(local, options)
        size, ratio = mechanism.size, math.exp(local)
        assert size is not None
        own, away = comb(options - 1, size - 1), comb(options - 1, size)
        together = comb(options - 2, size - 2) if size > 1 else 0
        beta = (ratio - 1) * (own - together) / (ratio * own + away)
        printed = epsilon_published_float(ratio, beta, ratio, users, 0.01 / users)
        attained = attack_on(mechanism, users, 0.01 / users)
        if attained is not None and attained > printed * (1 + 1e-9):
            below.append(attained / printed - 1)
    assert f"attains at {len(below)} of 44 points, by up to {100 * max(below):.2g}%" in said("subset_attack")


def primes(most: int) -> Iterator[int]:
    return (n for n in range(2, most + 1) if all(n % d for d in range(2, n)))


@pytest.mark.exhaustive
def test_how_far_local_hashing_is_above_attacks() -> None:
    """At all 44 points of Figure 2: the printed β without the hash in the message, and the best attack known."""
    gaps = []
    for users, options, local in points():
        ratio = math.exp(local)
        length = max(primes(max(2, round(ratio + 1))))
        printed = epsilon_published_float(ratio, (ratio - 1) / (ratio + length - 1), ratio, users, 0.01 / users)
        attained = attack_on(sdp.LocalHash(local, options, length), users, 0.01 / users)
        assert attained is not None
        gaps.append(printed / attained - 1)
    assert f"up to {100 * max(gaps):.0f}% above the best attack" in said("hash_tight")


@pytest.mark.exhaustive
def test_what_parallel_composition_saves() -> None:
    """At all 28 points of Figure 5: the mean of the levels' β against that of any randomizer, and an attack."""
    saved, attacked = [], []
    for options, users, local in itertools.product((64, 2048), (10_000, 100_000), (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0)):
        ratio, levels, delta = math.exp(local), int(math.log2(options)), 0.01 / users
        beta = sum((ratio - 1) / (ratio + options / 2**level - 1) for level in range(levels)) / levels
        basic = epsilon_published_float(ratio, math.tanh(local / 2), ratio, users, delta)
        saved.append(1 - epsilon_published_float(ratio, beta, ratio, users, delta) / basic)
        attained = attack_on(sdp.RangeQueries(local, levels), users, delta)
        attacked.append(1.0 if attained is None else 1 - attained / basic)
    assert f"“75% saved over basic composition”: {percents(saved)};" in said("seventy_five_percent")
    most = max(one for one in attacked if one < 1)
    assert f"saves more than {100 * most:.0f}%" in said("seventy_five_percent")


# --- [MDP] --------------------------------------------------------------------------------------------------------


def test_sides_of_a_triangle() -> None:
    """Algorithm 1 on three places 0.153 apart, n = 10,000, δ = 1e-6: Corollary 1 solved by hand, and by the solver."""
    users, delta, step = 10_000, 1e-6, 0.153

    def factor(diameter: float) -> float:
        """e^D' − 1 over tanh(D/2), where the messages of others hide it with probability e^−diameter/2 each."""
        mean, log_term = (users - 1) * math.exp(-diameter), math.log(4 / delta)
        hiding = mean - math.sqrt(3 * mean * log_term)
        root = math.sqrt(hiding * log_term / 2)
        return (2 * root + 1) / (hiding / 2 - root)

    largest = float(brentq(lambda d: math.log1p(math.tanh(d / 2) * factor(d)) - 2 * step, 0.1, 4.0))
    near = 2 * math.atanh(math.expm1(step) / factor(largest))
    longer = largest - 2 * near
    assert f"is {longer:.2f} longer" in said("solver_triangle")
    target = DistanceMatrix.from_points(np.array([[0.0], [step], [2 * step]]))
    found = LocalMetricSolver(target, users, delta, find_amplification("corollary-1")).solve(diameters=1)[0].raw.matrix
    assert found[0, 2] - found[0, 1] - found[1, 2] == pytest.approx(longer, abs=0.005)


# --- [FDP] --------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_how_far_theorem_4_2_is_above_the_curve() -> None:
    """At all 15 points: (1−2w)·δ of the pair without common part at (e^ε−2w)/(1−2w), against the pair's own δ."""
    above = []
    for users, delta in ((1_000, 1e-5), (10_000, 1e-6), (100_000, 1e-8)):
        for local in (0.5, 1.0, 2.0, 3.0, 4.0):
            w, ratio = 1 / (math.exp(local) + 1), math.exp(local)

            def theorem(epsilon: float, w: float = w, users: int = users) -> float:
                inner = math.log((math.exp(epsilon) - 2 * w) / (1 - 2 * w))
                return (1 - 2 * w) * delta_published_float(math.inf, 1.0, 1 / w, 1 / w, users, inner)

            exact = epsilon_published_float(ratio, math.tanh(local / 2), ratio, users, delta)
            printed = float(brentq(lambda e, t=theorem, d=delta: t(e) - d, 1e-6, local, xtol=1e-12))
            assert sdp.amplify(sdp.VariationRatio.from_ldp(local), users, bound="mixture").epsilon(delta).upper == (
                pytest.approx(printed, rel=1e-4)
            )
            above.append(printed / exact - 1)
    assert f"Theorem 4.2 is {100 * min(above):.2g} to {100 * max(above):.2g}% above" in said("not_the_curve")


def test_the_advantage_with_and_without_the_factor() -> None:
    """Features up to 2: E[2Φ(g/2) − 1] over a normal start, g = σ(2|I|) as printed and 2σ(2|I|) as it is."""

    def advantage(scale: float) -> float:
        def density(start: float) -> float:
            return math.exp(-start * start / 2) / math.sqrt(2 * math.pi)

        found = quad(lambda i: (2 * ndtr(scale / (1 + math.exp(-2 * i)) / 2) - 1) * density(i), 0, 12)
        return 2 * float(found[0])

    sentence = said("logistic_gradient")
    assert f"as printed the advantage is {advantage(1.0):.3f}" in sentence
    assert f"where it is {advantage(2.0):.3f}" in sentence


def test_the_corollary_and_the_theorem_at_one_point() -> None:
    """n = 12, ε0 = 0.5, ε = 0.3: the theorem's δ by the pair without common part; the errata have the printed one."""
    w = 1 / (math.exp(0.5) + 1)
    inner = math.log((math.exp(0.3) - 2 * w) / (1 - 2 * w))
    right = (1 - 2 * w) * delta_published_float(math.inf, 1.0, 1 / w, 1 / w, 12, inner)
    assert f"the theorem's curve has {right:.3g}" in said("corollary_4_3")
    assert "gives δ = 0.00965" in said("corollary_4_3")
