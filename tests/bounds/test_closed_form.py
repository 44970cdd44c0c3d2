"""Closed forms: equal to their formulas written anew, above what they bound, refused by name outside their regimes."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from mpmath import mp, mpf

from shuffledp import NotApplicable, VariationRatio, amplify

FORMS = ["analytic", "analytic-published", "asymptotic"]


def random_parameters(rng: Random) -> VariationRatio:
    """Any legal parameters: p = ∞, γ = 0, a smaller q_common, unequal q's among them."""
    while True:
        p = rng.choice((math.inf, math.exp(rng.uniform(0.05, 6))))
        most = 1.0 if math.isinf(p) else (p - 1) / (p + 1)
        beta = most * rng.choice((1.0, rng.random(), 0.02 * rng.random()))
        q = max(1 + beta, math.exp(rng.uniform(0, 4)))
        q_pair = rng.choice((q, q, (q, q * rng.uniform(1, 3))))
        common = rng.choice((None, 1.0, rng.uniform(1, q)))
        try:
            return VariationRatio(p, beta, q_pair, q_common=common)
        except ValueError:
            continue


def random_size(rng: Random) -> tuple[int, float]:
    """Users and δ."""
    return int(10 ** rng.uniform(1.5, 7)), 10 ** rng.uniform(-10, -1)


def letters(parameters: VariationRatio) -> dict[str, mpf]:
    """The formulas' letters at the precision in force, derived here from the floats."""
    q0, q1 = parameters.q_pair
    common = max(q0, q1) if parameters.q_common is None else parameters.q_common
    q = max(q0, q1, common)
    beta = mpf(parameters.beta)
    if math.isinf(parameters.p):
        alpha, p_alpha = mpf(0), beta
    else:
        p = mpf(parameters.p)
        if beta >= (p - 1) / (p + 1) * (1 - mpf("1e-12")):
            beta = (p - 1) / (p + 1)
        alpha, p_alpha = beta / (p - 1), p * beta / (p - 1)
    gamma = 1 - alpha - p_alpha
    gamma = mpf(0) if gamma < mpf("1e-25") else gamma
    # Where rounding put the hiding probabilities beyond 1 all ratios are raised by the same factor.
    excess = max(mpf(1), p_alpha / q0 + p_alpha / q1 + gamma / common)
    q, common = q * excess, common * excess
    return {
        "alpha": alpha,
        "p_alpha": p_alpha,
        "beta": beta,
        "gamma": gamma,
        "r": p_alpha / q,
        "q_c": mpf(common),
    }


def sound_formula(parameters: VariationRatio, n: int, delta: mpf) -> mpf | None:
    """The sound closed form, None where it does not apply."""
    v = letters(parameters)
    beta, r, q_c = v["beta"], v["r"], v["q_c"]
    if beta == 0:
        return mpf(0)
    log, m = mp.log(6 / delta), v["gamma"] / q_c
    omega = 2 * r * (n - 1) - mp.sqrt(min(4 * r, mpf(1) / 2) * (n - 1) * log)
    if omega <= 0:
        return None
    omega_2 = max(mpf(0), m * (n - 1) - mp.sqrt(min(2 * m, mpf(1) / 2) * (n - 1) * log))
    a, k = (v["p_alpha"] + v["alpha"]) / 2, r * q_c * omega_2
    star = max(mp.sqrt(omega), beta * mp.sqrt(log / 2) / (2 * a))
    if a * star**2 - beta * mp.sqrt(log / 2) * star + k <= 0:
        return None
    s = (-a * mp.sqrt(2 / log) + mp.sqrt(2 * a**2 / log + 4 * a * (k + beta / 2))) / (2 * a)
    c = max(omega, s**2)
    return mp.log(1 + beta * (mp.sqrt(2 * log * c) + 1) / (a * c - beta * mp.sqrt(log * c / 2) + k))


def published_formula(parameters: VariationRatio, n: int, delta: mpf) -> mpf | None:
    """[VR] Theorem 4.7 with its condition corrected, None where it does not apply."""
    v = letters(parameters)
    beta, r = v["beta"], v["r"]
    if beta == 0:
        return mpf(0)
    log = mp.log(4 / delta)
    g = v["gamma"] * r / (1 - 2 * r) if v["gamma"] else mpf(0)
    a = (v["p_alpha"] + v["alpha"]) / 2 - g
    omega = 2 * r * (n - 1) - mp.sqrt(min(6 * r, mpf(1) / 2) * (n - 1) * log)
    if a < 0 or omega <= 0 or a * omega + a * mp.sqrt(2 * omega / log) < g * (n - 1) + beta / 2:
        return None
    root = mp.sqrt(omega * log / 2)
    below = v["alpha"] * omega + beta * (omega / 2 - root) + g * (n - 1 - omega)
    return mp.log(1 + beta * (2 * root + 1) / below) if below > 0 else None


def asymptotic_formula(parameters: VariationRatio, n: int, delta: mpf) -> mpf | None:
    """[VR] Theorem 4.8, None where it does not apply."""
    v = letters(parameters)
    beta, r = v["beta"], v["r"]
    if beta == 0:
        return mpf(0)
    if n < 8 * mp.log(2 / delta) / r:
        return None
    # β(1+p)/(p−1) = pα + α, which stays finite at p = ∞.
    extremes = v["p_alpha"] + v["alpha"]
    c = max(mpf(0), 4 * (1 - 3 * r) / (9 * (1 - 2 * r))) if v["gamma"] else mpf(0)
    spread = mp.sqrt(32 * mp.log(4 / delta) / (r * (n - 1))) + 4 / (r * n)
    return mp.log(1 + beta / ((1 - c) * extremes + c) * spread)


FORMULAS = {"analytic": sound_formula, "analytic-published": published_formula, "asymptotic": asymptotic_formula}


@pytest.mark.parametrize("bound", FORMS)
def test_it_equals_its_formula_written_anew(bound: str) -> None:
    """On 400 random inputs the value is the formula's, rounded up and capped by log p, or refused where it is."""
    rng, applied, refused = Random(f"formula {bound}"), 0, 0
    for _ in range(400):
        parameters, (users, delta) = random_parameters(rng), random_size(rng)
        with mp.workdps(40):
            exact = FORMULAS[bound](parameters, users, mpf(delta))
            try:
                value = amplify(parameters, users, bound=bound).epsilon(delta)
            except NotApplicable:
                refused += 1
                assert exact is None
                continue
            applied += 1
            assert exact is not None
            cap = mpf("inf") if math.isinf(parameters.p) else mp.log(mpf(parameters.p))
            exact = min(exact, cap)
            assert mpf(value.upper) >= exact
            assert value.upper == pytest.approx(float(exact), rel=1e-12)
            assert mpf(value.upper) - mpf(value.slack) <= exact * (1 + mpf("1e-30"))
    assert min(applied, refused) > 40


@pytest.mark.exhaustive
def test_the_sound_form_is_above_the_numeric_bound() -> None:
    """On 300 random inputs, γ > 0, p = ∞ and q_common < q among them, the closed form is a valid ε."""
    rng, tried = Random(12), 0
    kinds = {"common part": 0, "infinite": 0, "own common ratio": 0}
    while tried < 300:
        parameters, (users, delta) = random_parameters(rng), random_size(rng)
        users = min(users, 10**5)
        try:
            value = amplify(parameters, users, bound="analytic").epsilon(delta)
        except NotApplicable:
            continue
        tried += 1
        assert value.guarantee
        kinds["common part"] += parameters.gamma > 0
        kinds["infinite"] += math.isinf(parameters.p)
        kinds["own common ratio"] += parameters.q_common is not None
        numeric = amplify(parameters, users, bound="variation-ratio")
        assert numeric.delta(value.upper).upper <= delta, (parameters, users, delta)
    assert min(kinds.values()) > 60


@pytest.mark.exhaustive("asymptotic")
@pytest.mark.parametrize("bound", ["analytic-published", "asymptotic"])
def test_the_published_forms_are_above_the_published_pair(bound: str) -> None:
    """Wherever they apply, on 120 random inputs, their ε is valid for the published pair with the largest ratio."""
    rng, tried = Random(f"above {bound}"), 0
    while tried < 120:
        parameters, (users, delta) = random_parameters(rng), random_size(rng)
        users = min(users, 10**5)
        try:
            value = amplify(parameters, users, bound=bound).epsilon(delta)
        except NotApplicable:
            continue
        tried += 1
        numeric = amplify(parameters, users, bound="variation-ratio-published")
        assert numeric.delta(value.upper).upper <= delta, (parameters, users, delta)
        assert value.guarantee == (parameters.gamma == 0)


@pytest.mark.parametrize("bound", FORMS)
def test_without_a_common_part_every_form_is_sound(bound: str) -> None:
    """At γ = 0 all three are guarantees and are above the sound numeric bound."""
    rng, tried = Random(f"sound {bound}"), 0
    while tried < 40:
        p = rng.choice((math.inf, math.exp(rng.uniform(0.1, 4))))
        beta = 1.0 if math.isinf(p) else (p - 1) / (p + 1)
        parameters = VariationRatio(p, beta, max(1 + beta, math.exp(rng.uniform(0, 3))))
        users, delta = random_size(rng)
        try:
            value = amplify(parameters, users, bound=bound).epsilon(delta)
        except NotApplicable:
            continue
        tried += 1
        assert value.guarantee
        assert amplify(parameters, users, bound="variation-ratio").delta(value.upper).upper <= delta


@pytest.mark.parametrize("bound", FORMS)
def test_delta_of_epsilon_is_the_inverse(bound: str) -> None:
    """δ(ε(δ)) is δ, wherever ε(δ) exists below log p; and ε(δ(ε)) never exceeds ε."""
    rng, tried = Random(f"inverse {bound}"), 0
    while tried < 40:
        parameters, (users, delta) = random_parameters(rng), random_size(rng)
        curve = amplify(parameters, users, bound=bound)
        try:
            epsilon = curve.epsilon(delta).upper
        except NotApplicable:
            continue
        if not 0 < epsilon < parameters.largest_log_ratio():
            continue
        tried += 1
        back = curve.delta(epsilon)
        assert back.upper == pytest.approx(delta, rel=1e-6)
        assert curve.epsilon(back.upper).upper <= epsilon
        assert back.upper - back.slack <= delta * (1 + 1e-9)


@pytest.mark.parametrize("bound", FORMS)
def test_delta_at_the_ends(bound: str) -> None:
    """Beyond log p δ is 0; where the formula proves nothing at an ε, δ is 1, never less."""
    parameters = VariationRatio(4.0, 0.4, 4.0)
    curve = amplify(parameters, 10**5, bound=bound)
    assert curve.delta(parameters.largest_log_ratio()).upper == 0.0
    assert curve.delta(0.0).upper == 1.0
    assert amplify(parameters, 2, bound=bound).delta(0.5).upper == 1.0


def test_no_variation_is_no_loss() -> None:
    """β = 0: ε = 0 by every form, in every regime."""
    for bound in FORMS:
        assert amplify(VariationRatio(3.0, 0.0, 3.0), 2, bound=bound).epsilon(1e-9).upper == 0.0


@pytest.mark.parametrize(
    ("bound", "parameters", "users", "delta", "words"),
    [
        ("analytic", VariationRatio(3.0, 0.25, 3.0), 20, 1e-6, "Ω = 2r(n−1) − √(min(4r, ½)(n−1)·log(6/δ)) > 0"),
        ("analytic", VariationRatio(34.35, 0.943, 4.81), 50, 1e-4, "A·s² − β·√(L/2)·s + K > 0"),
        ("analytic", VariationRatio(3.0, 0.25, 3.0), 1, 1e-6, "Ω"),
        ("analytic-published", VariationRatio(3.0, 0.5, 3.0), 20, 1e-6, "Ω = 2r(n−1) − √(min(6r, ½)(n−1)"),
        ("analytic-published", VariationRatio(3.0, 0.25, 1.5), 1000, 1e-6, "aΩ + a·√(2Ω/L) ≥ G'(n−1) + β/2"),
        ("analytic-published", VariationRatio(math.inf, 0.2, 1.5), 3000, 1e-3, "(p+1)α/2 ≥ γr/(1−2r)"),
        ("analytic-published", VariationRatio(math.inf, 0.9, 3.0), 50, 1e-6, "a positive denominator"),
        ("asymptotic", VariationRatio(3.0, 0.5, 3.0), 300, 1e-6, "n ≥ 8·log(2/δ)/r"),
        ("asymptotic", VariationRatio(3.0, 0.5, 3.0), 1, 0.5, "n ≥ 8·log(2/δ)/r"),
    ],
)
def test_outside_its_regime_it_refuses_by_name(
    bound: str, parameters: VariationRatio, users: int, delta: float, words: str
) -> None:
    """The failing inequality is named with the numbers of its two sides; nothing is extrapolated."""
    with pytest.raises(NotApplicable) as caught:
        amplify(parameters, users, bound=bound).epsilon(delta)
    message = str(caught.value)
    assert message.startswith(f"{bound}: needs {words}")
    assert " against " in message
    assert message.endswith(".")
    assert caught.value.bound == bound


def test_the_printed_condition_is_not_used() -> None:
    """Inputs that meet the printed condition of Theorem 4.7, at which δ is over 30 times the target, are refused."""
    for p, beta, q, users in [(34.35, 0.68, 4.81, 50), (8.49, 0.406, 7.36, 200), (3.98, 0.353, 3.24, 50)]:
        with pytest.raises(NotApplicable):
            amplify(VariationRatio(p, beta, q), users, bound="analytic-published").epsilon(1e-3)


def test_it_falls_with_users_and_delta() -> None:
    """More users or a larger δ never give a larger ε."""
    parameters = VariationRatio(9.0, 0.5, 9.0)
    for bound in ("analytic", "asymptotic"):
        by_users = [amplify(parameters, n, bound=bound).epsilon(1e-6).upper for n in (10**4, 10**5, 10**6, 10**9)]
        by_delta = [amplify(parameters, 10**5, bound=bound).epsilon(d).upper for d in (1e-9, 1e-6, 1e-3)]
        assert by_users == sorted(by_users, reverse=True)
        assert by_delta == sorted(by_delta, reverse=True)
        assert by_users[-1] < by_users[0] / 50


def test_fractions_of_the_letters() -> None:
    """The letters derived here are those of the package: a guard of this test's own formulas."""
    parameters = VariationRatio(4.0, 0.25, (4.0, 6.0), q_common=2.0)
    with mp.workdps(30):
        v = letters(parameters)
        assert abs(v["alpha"] - mpf(1) / 12) < mpf("1e-28")
        assert v["q_c"] == 2
        assert abs(v["r"] - mpf(1) / 18) < mpf("1e-28")
    assert Fraction(int(parameters.alpha.p), int(parameters.alpha.q)) == Fraction(1, 12)
