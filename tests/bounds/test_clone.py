"""Bounds that know only the local ε: known numbers, independent formulas, regimes, and never below the tighter ones."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest
from mpmath import mp, mpf

from shuffledp import NotApplicable, VariationRatio, amplify
from shuffledp.numerics.ball_arithmetic import to_rational
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.privacy.dominating_pairs import exact_pair
from tests.numerics.exact_law import fraction_of
from tests.oracle.exact_enumeration import hockey_stick_of_counts, random_extremal_table, worst_divergence
from tests.oracle.highprecision import delta_published

from .rounded_parameters import epsilon_below

CLONES = ["clone", "stronger-clone"]
LOCAL = [*CLONES, "clone-analytic", "stronger-clone-analytic", "efmrtt19", "blanket-hoeffding-generic"]


@pytest.mark.parametrize(("bound", "expected"), [("clone", 0.0530053), ("stronger-clone", 0.0432062)])
def test_known_numbers(bound: str, expected: float) -> None:
    """n = 1e4, ε0 = 1, δ = 1e-6: clones 0.0530053, stronger clones 0.0432062."""
    value = amplify(VariationRatio.from_ldp(1.0), 10**4, bound=bound).epsilon(1e-6)
    assert round(value.upper, 7) == expected
    assert value.guarantee
    assert value.certified


@pytest.mark.parametrize("users", [1, 2, 8])
@pytest.mark.parametrize("p", [2.0, 5.0])
def test_the_clone_pairs_by_direct_sum(users: int, p: float) -> None:
    """δ equals the direct sum over the counts of clones, from above, for both versions of the argument."""
    beta = (Fraction(p) - 1) / (Fraction(p) + 1)
    for bound, q in [("stronger-clone", Fraction(p)), ("clone", 2 * Fraction(p) ** 2 / (Fraction(p) + 1))]:
        for epsilon in (0.0, 0.3, 0.6):
            value = amplify(VariationRatio(p, float(beta), p), users, bound=bound).delta(epsilon).upper
            with mp.workdps(40):
                exact = delta_published(p, beta, q, q, users, epsilon)
                assert mpf(value) >= exact
                assert value == pytest.approx(float(exact), rel=1e-12)


def test_clones_by_their_own_definition() -> None:
    """C ~ Bin(n−1, e^-ε0) clones, each an even coin, and user 1's own coin of odds e^ε0: exact fractions at ε = 0."""
    p = Fraction(3)
    for users in (1, 3, 6):
        laws = [[p / (p + 1), 1 / (p + 1)], [1 / (p + 1), p / (p + 1)]]
        exact = hockey_stick_of_counts(*laws, [1 / (2 * p)] * 2, users, 1)
        value = Fraction(amplify(VariationRatio(3.0, 0.5, 3.0), users, bound="clone").delta(0.0).upper)
        assert exact <= value <= exact * (1 + Fraction(1, 10**13))


@pytest.mark.parametrize("seed", range(6))
def test_extremal_tables_are_bounded(seed: int) -> None:
    """No dataset of a random extremal randomizer is above any bound that knows only its local ratio."""
    rng = Random(seed)
    p = rng.choice((2, 3, 6))
    table = random_extremal_table(rng, 3, 3, p)
    parameters = VariationRatio(float(p), (p - 1) / (p + 1), float(p))
    for users, ratio in [(2, Fraction(3, 2)), (3, Fraction(1)), (4, Fraction(5, 4))]:
        worst = worst_divergence(table, users, ratio)
        for bound in CLONES:
            assert Fraction(amplify(parameters, users, bound=bound).delta(epsilon_below(ratio)).upper) >= worst


def random_parameters(rng: Random, *, common_above: bool) -> VariationRatio:
    """Finite p, any legal β and q, equal or not, with or without a common ratio of its own, maybe above the others."""
    while True:
        p = math.exp(rng.uniform(0.05, 5))
        beta = (p - 1) / (p + 1) * rng.choice((1.0, rng.random()))
        q0 = max(1 + beta, math.exp(rng.uniform(0, 4)))
        q1 = rng.choice((q0, q0 * rng.uniform(1, 5)))
        common = max(p, q0, q1) * rng.uniform(1, 30) if common_above else rng.choice((None, 1.0, max(q0, q1)))
        try:
            return VariationRatio(p, beta, rng.choice(((q0, q1), (q1, q0))), q_common=common)
        except ValueError:
            continue


@pytest.mark.parametrize("common_above", [False, True])
def test_never_below_the_variation_ratio_bound(common_above: bool) -> None:
    """What knows less is never smaller: clones ≥ stronger clones ≥ variation-ratio, at random parameters."""
    rng = Random(5)
    for _ in range(40):
        parameters = random_parameters(rng, common_above=common_above)
        users = int(10 ** rng.uniform(0, 3.5))
        epsilon = rng.uniform(0, 0.5)
        sizes = [amplify(parameters, users, bound=b).delta(epsilon) for b in ("variation-ratio", *reversed(CLONES))]
        for tighter, looser in pairwise(sizes):
            assert tighter.upper - tighter.slack <= looser.upper * (1 + 1e-9), parameters


def test_a_common_ratio_above_the_local_ratio_counts() -> None:
    """A protocol whose common part is rare among the others: its exact divergence is below every guarantee.

    User 1 sends a, b or c; the others send c a thousand times less often than user 1 does. So the largest ratio
    between the users' laws is that of c, not p or q.
    """
    p, beta, q, q_common, users, ratio = Fraction(3), Fraction(1, 8), Fraction(3), Fraction(1024), 12, Fraction(2)
    alpha = beta / (p - 1)
    gamma, r = 1 - alpha - p * alpha, p * alpha / q
    first, second = [p * alpha, alpha, gamma], [alpha, p * alpha, gamma]
    true = hockey_stick_of_counts(first, second, [r, r, gamma / q_common], users, ratio)
    stated = VariationRatio(3.0, 0.125, (3.0, 3.0), q_common=1024.0)
    for bound in ("variation-ratio", "best", *CLONES):
        assert Fraction(amplify(stated, users, bound=bound).delta(epsilon_below(ratio)).upper) >= true, bound


def test_the_default_counts_a_common_ratio_above_the_local_ratio() -> None:
    """The same with 1,000 users: the smallest guarantee is at least the protocol's divergence, computed exactly."""

    p, beta, q, q_common, users, epsilon = Fraction(3), Fraction(1, 64), Fraction(3), Fraction(2**20), 1000, 0.5
    alpha = beta / (p - 1)
    gamma, r = 1 - alpha - p * alpha, p * alpha / q
    laws = [(p * alpha, alpha, r), (alpha, p * alpha, r), (gamma, gamma, gamma / q_common)]
    pair = exact_pair([tuple(map(to_rational, law)) for law in laws], symmetric=True)
    true = fraction_of(PositivePartMean(pair.law, users).bracket(epsilon).lower.lower())
    stated = VariationRatio(3.0, float(beta), (3.0, 3.0), q_common=float(q_common))
    assert Fraction(amplify(stated, users, effort="quick").delta(epsilon).upper) >= true


@pytest.mark.parametrize("bound", LOCAL)
def test_an_infinite_ratio_is_refused(bound: str) -> None:
    """p = ∞ is no local ε: refused with the reason."""
    with pytest.raises(NotApplicable, match="finite local ratio"):
        amplify(VariationRatio(math.inf, 0.5, 3.0), 1000, bound=bound)


def test_a_larger_ratio_to_the_others_is_the_local_ratio() -> None:
    """Where q exceeds p the local ratio is q."""
    value = amplify(VariationRatio(2.0, 0.1, 5.0), 100, bound="stronger-clone").delta(0.1)
    assert value.upper == amplify(VariationRatio(5.0, 2 / 3, 5.0), 100, bound="stronger-clone").delta(0.1).upper


def independent(bound: str, epsilon_local: mpf, users: int, delta: mpf) -> mpf:
    """The three closed forms, from the papers."""
    p, log = mp.exp(epsilon_local), mp.log(4 / delta)
    if bound == "clone-analytic":
        return mp.log(1 + (p - 1) / (p + 1) * (8 * mp.sqrt(p * log / users) + 8 * p / users))
    if bound == "stronger-clone-analytic":
        return mp.log(1 + (p - 1) * (4 * mp.sqrt(2 * log / ((p + 1) * users)) + mpf(4) / users))
    return 12 * epsilon_local * mp.sqrt(mp.log(1 / delta) / users)


@pytest.mark.parametrize(
    ("bound", "epsilon_local", "users", "delta"),
    [
        ("clone-analytic", 1.0, 10**4, 1e-6),
        ("clone-analytic", 4.0, 10**6, 1e-8),
        ("stronger-clone-analytic", 1.0, 10**4, 1e-6),
        ("stronger-clone-analytic", 4.0, 10**6, 1e-8),
        ("efmrtt19", 0.499, 1000, 0.0099),
        ("efmrtt19", 0.1, 10**5, 1e-9),
    ],
)
def test_closed_forms_by_an_independent_formula(bound: str, epsilon_local: float, users: int, delta: float) -> None:
    """Each closed form equals its formula at 30 digits, rounded up, and is not below the numeric bound."""
    parameters = VariationRatio.from_ldp(epsilon_local)
    value = amplify(parameters, users, bound=bound).epsilon(delta)
    with mp.workdps(30):
        exact = min(independent(bound, mp.log(mpf(parameters.p)), users, mpf(delta)), mp.log(mpf(parameters.p)))
        assert mpf(value.upper) >= exact
        assert value.upper == pytest.approx(float(exact), rel=1e-14)
    numeric = "clone" if bound == "clone-analytic" else "stronger-clone"
    assert value.upper >= amplify(parameters, users, bound=numeric).epsilon(delta).upper


@pytest.mark.parametrize(
    ("bound", "epsilon_local", "users", "delta", "words"),
    [
        ("clone-analytic", 5.0, 1000, 1e-6, "n/(16·log(2/δ))"),
        ("stronger-clone-analytic", 5.0, 1000, 1e-6, "n/(8·log(2/δ)) − 1"),
        ("efmrtt19", 0.6, 10**4, 1e-6, "ε0 ≤ 1/2"),
        ("efmrtt19", 0.4, 999, 1e-6, "n ≥ 1000"),
        ("efmrtt19", 0.4, 10**4, 0.02, "δ ≤ 0.01"),
    ],
)
def test_outside_its_regime_a_closed_form_refuses(
    bound: str, epsilon_local: float, users: int, delta: float, words: str
) -> None:
    """Outside its condition the formula is not extrapolated: the inequality is named with its two sides."""
    curve = amplify(VariationRatio.from_ldp(epsilon_local), users, bound=bound)
    with pytest.raises(NotApplicable) as caught:
        curve.epsilon(delta)
    assert words in str(caught.value)
    assert " against " in str(caught.value)
    assert str(caught.value).startswith(bound)


def test_the_ends_of_a_regime_belong_to_it() -> None:
    """ε0 = 1/2, n = 1000, δ = 0.01 as the nearest floats are inside the regime that names them as its ends."""
    assert amplify(VariationRatio.from_ldp(0.25), 1000, bound="efmrtt19").epsilon(0.01).upper <= 0.25
    assert amplify(VariationRatio.from_ldp(0.5), 1000, bound="efmrtt19").epsilon(0.001).upper <= 0.5


@pytest.mark.parametrize("bound", ["clone-analytic", "stronger-clone-analytic", "efmrtt19"])
def test_closed_forms_bound_the_numeric_value(bound: str) -> None:
    """On random inputs in their regimes the closed forms are never below the numeric stronger-clone bound."""
    rng, tried = Random(bound), 0
    while tried < 25:
        epsilon_local = rng.uniform(0.05, 0.5) if bound == "efmrtt19" else rng.uniform(0.05, 4)
        parameters = VariationRatio.from_ldp(epsilon_local)
        users, delta = int(10 ** rng.uniform(2, 5)), 10 ** rng.uniform(-9, -1)
        try:
            value = amplify(parameters, users, bound=bound).epsilon(delta)
        except NotApplicable:
            continue
        tried += 1
        assert amplify(parameters, users, bound="stronger-clone").delta(value.upper).upper <= delta
