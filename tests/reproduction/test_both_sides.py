"""What a paper says and what comes out, both computed here, by formulas of this file or of tests/oracle."""

from __future__ import annotations

import ast
import math
import re
from decimal import Decimal
from pathlib import Path

import pytest
from scipy.optimize import brentq
from scipy.special import gammaln

import shuffledp as sdp
from research.reproduction import ITEMS
from research.reproduction.variation_ratio_tables import (
    PRINTED_TABLE_4,
    bisected_epsilon,
    count_digit_units,
    epsilon_with_allowance,
    format_like_table,
    format_rounded_up,
)
from tests.oracle.double_precision import delta_published_float, epsilon_published_float

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "too_small": ("reproduction/test_page_numbers", "test_betas_that_are_too_small"),
    "witch_hat": ("reproduction/test_page_numbers", "test_betas_of_the_witch_hat"),
    "cheu": ("errata/test_variation_ratio", "test_cheu_zhilyaev_is_above_its_published_bound"),
    "subset_attack": ("reproduction/test_page_numbers", "test_the_attack_on_the_subset_mechanism"),
    "hash_tight": ("reproduction/test_page_numbers", "test_how_far_local_hashing_is_above_attacks"),
    "seventy_five_percent": ("reproduction/test_page_numbers", "test_what_parallel_composition_saves"),
    "solver_triangle": ("reproduction/test_page_numbers", "test_sides_of_a_triangle"),
    "not_the_curve": ("reproduction/test_page_numbers", "test_how_far_theorem_4_2_is_above_the_curve"),
    "corollary_4_3": ("errata/test_tradeoff", "test_the_floors_of_the_corollary"),
    "logistic_gradient": ("reproduction/test_page_numbers", "test_the_advantage_with_and_without_the_factor"),
}
"""Claims whose two sides are computed beside this file, or among the errata."""
ABOVE = {(1.0, 10**6): 1, (1.0, 10**8): 1, (3.0, 10**6): 1, (3.0, 10**8): 1, (5.0, 10**6): 2, (5.0, 10**8): 2}
"""By how many units of the last digit Table 4's ε at T = 20 are above Algorithm 1's, rounded up; the others by none."""


@pytest.mark.parametrize(("local", "users"), sorted({(local, users) for local, users, _ in PRINTED_TABLE_4}))
def test_table_4(local: float, users: int) -> None:
    """Each of the 24 printed ε to its last digit: Algorithm 1 in exact arithmetic, rounded up, and what is missing."""
    delta, ratio = 0.01 / users, math.exp(local)
    exact = sdp.amplify(sdp.VariationRatio.from_ldp(local), users, bound="stronger-clone").epsilon(delta).upper
    if users == 10_000:
        assert exact == pytest.approx(
            epsilon_published_float(ratio, math.tanh(local / 2), ratio, users, delta), rel=1e-7
        )
    for halvings in (10, 20):
        printed, _ = PRINTED_TABLE_4[local, users, halvings]
        found = bisected_epsilon(local, exact, halvings)
        assert exact <= found < exact + local / 2**halvings
        missing = ABOVE.get((local, users), 0) if halvings == 20 else 0
        assert count_digit_units(found, printed) == missing
        last = Decimal(1).scaleb(Decimal(printed).as_tuple().exponent)  # type: ignore[arg-type]
        assert str(Decimal(format_rounded_up(found, printed)) + missing * last) == printed


@pytest.mark.parametrize(("local", "users"), sorted(ABOVE))
def test_table_4_program(local: float, users: int) -> None:
    """The six that are above Algorithm 1: by halving with the allowance, and by the oracle's δ on both sides of it."""
    key, delta, ratio = (local, users, 20), 0.01 / users, math.exp(local)
    curve = sdp.amplify(sdp.VariationRatio.from_ldp(local), users, bound="stronger-clone")
    program = bisected_epsilon(
        local, epsilon_with_allowance(local, users, lambda asked: curve.epsilon(asked).upper), 20
    )
    assert format_like_table(key, program) == PRINTED_TABLE_4[key][0]
    if users > 10**6:
        return

    def enough(epsilon: float) -> bool:
        added = delta / 10 * (ratio - math.exp(epsilon)) / (ratio + 1)
        share = (ratio - 1) / (ratio + 1)
        return delta_published_float(ratio, share, ratio, ratio, users, epsilon) + added <= delta

    assert enough(program)
    assert not enough(program - local / 2**20)


def subset_blanket(ratio: float, options: int, size: int, users: int, epsilon: float) -> float:
    """δ of the privacy blanket by Bennett with the subset mechanism's own law: G has four values."""
    ways, factor = math.comb(options, size), math.exp(epsilon)
    gamma = ways / (ratio * math.comb(options - 1, size - 1) + math.comb(options - 1, size))
    both = (math.comb(options - 2, size - 2) if size > 1 else 0) / ways
    one = math.comb(options - 2, size - 1) / ways
    values = [ratio * (1 - factor), ratio - factor, 1 - ratio * factor, 1 - factor]
    chances = [both, one, one, 1 - both - 2 * one]
    most = gamma * (ratio - factor)
    spread = gamma**2 * sum(chance * value**2 for chance, value in zip(chances, values, strict=True))
    u = (factor - 1) * most / spread
    kappa = spread / most**2 * ((1 + u) * math.log1p(u) - u)
    left = (1 - gamma * (1 - math.exp(-kappa))) ** users - (1 - gamma) ** users
    return most / (gamma * users * math.log1p(u)) * left


@pytest.mark.parametrize(("local", "options"), [(0.5, 16), (1.0, 16), (1.0, 128), (3.0, 128)])
def test_thirty_percent(local: float, options: int) -> None:
    """Of the subset mechanism: about 30% over clones, a sixth over the blanket with its own law, the best before."""
    ratio, users, delta = math.exp(local), 10_000, 1e-6
    size = max(1, round(options / (ratio + 1)))
    own, away = math.comb(options - 1, size - 1), math.comb(options - 1, size)
    together = math.comb(options - 2, size - 2) if size > 1 else 0
    beta = (ratio - 1) * (own - together) / (ratio * own + away)
    ours = epsilon_published_float(ratio, beta, ratio, users, delta)
    clones = epsilon_published_float(ratio, (ratio - 1) / (ratio + 1), ratio, users, delta)
    before = float(
        brentq(lambda e: subset_blanket(ratio, options, size, users, e) - delta, local * 1e-3, local * 0.999)
    )
    assert before < clones
    assert 0.1 < 1 - ours / before < 0.25
    assert 1 - ours / clones > 1 - ours / before
    if (local, options) == (1.0, 128):
        assert 1 - ours / clones == pytest.approx(0.31, abs=0.02)


def test_thirty_percent_hash() -> None:
    """Of local hashing by its printed β, l = 4 at ε0 = 1: less than 30% even over stronger clones."""
    users, ratio = 10_000, math.e
    clones = epsilon_published_float(ratio, (ratio - 1) / (ratio + 1), ratio, users, 1e-6)
    ours = epsilon_published_float(ratio, (ratio - 1) / (ratio + 3), ratio, users, 1e-6)
    assert 0.05 < 1 - ours / clones < 0.295


def test_cheu_small() -> None:
    """n·f(1−f) is n/4 at the most, and ε' = 0.01 asks for 2.6e8·log(4/δ)/… of it at both sizes of Figure 3."""
    for users in (10_000, 100_000):
        need = 33 / 5 / math.tanh(0.005) ** 2 * math.log(4 * 100 * users)
        assert need > users / 4
        need = 33 / 5 / math.tanh(0.75) ** 2 * math.log(4 * 100 * users)
        assert need < users / 4


def test_theorem_4_8() -> None:
    """p = ∞ and β = 1: log(1 + √(32·log(4/δ)/(rn)) + 4/(rn)) with n = 32·log(2/δ)/(rε'²) is above ε' = 0.01."""
    for bins, delta in ((16, 1e-6), (128, 1e-7)):
        for target, looser in ((0.01, True), (0.5, False)):
            users = math.ceil(32 * math.log(2 / delta) * bins / target**2)
            c = max(0.0, 4 * (1 - 3 / bins) / (9 * (1 - 2 / bins)))
            factor = 1 / ((1 - c) + c)
            # The victim's own message comes on top of the n dummies.
            root = math.sqrt(32 * math.log(4 / delta) * bins / users)
            printed = math.log1p(factor * (root + 4 * bins / (users + 1)))
            assert (printed > target) == looser
            found = sdp.amplify(sdp.PureDUMP(bins), users, bound="asymptotic").epsilon(delta).upper
            assert found == pytest.approx(printed, rel=1e-6)


@pytest.mark.parametrize(("options", "local"), [(64, 1.0), (64, 3.0), (2048, 1.0)])
def test_separate_cohorts(options: int, local: float) -> None:
    """n/H users on each level: 80% is saved for d = 2048 and against its worst level only."""
    users, ratio, levels = 10_000, math.exp(local), int(math.log2(options))
    delta = 0.01 / users
    shares = [(ratio - 1) / (ratio + options / 2**level - 1) for level in range(levels)]
    advanced = epsilon_published_float(ratio, sum(shares) / levels, ratio, users, delta)
    worst, best = (
        epsilon_published_float(ratio, share, ratio, users // levels, delta) for share in (shares[-1], shares[0])
    )
    saved = 1 - advanced / worst
    assert (saved > 0.795) == (options == 2048)
    assert 1 - advanced / best < 0.6


def test_keeps_growing() -> None:
    """A random half-space's error, (B² − 1)/(m·d) with B = √π·Γ((d+1)/2)/(Γ(d/2)·tanh(ε/2)), falls at first."""
    d, total = 1024, 8.0

    def error(runs: int) -> float:
        local = total / runs
        scale = math.sqrt(math.pi) * math.exp(gammaln((d + 1) / 2) - gammaln(d / 2)) / math.tanh(local / 2)
        return float((scale**2 - 1) / (runs * d))

    errors = [error(runs) for runs in range(1, 9)]
    assert errors.index(min(errors)) == 3
    assert errors[0] == pytest.approx(1.571, abs=2e-3)
    assert errors[3] == pytest.approx(0.677, abs=2e-3)
    ours = sdp.Repeated(sdp.PrivHS(2.0, d), 4).variance([[1.0] + [0.0] * (d - 1)]).sum() / d
    assert ours == pytest.approx(errors[3], rel=1e-3)


def test_every_claim_that_is_not_reproduced_has_such_a_test() -> None:
    """Its key, which docs/reproduction.md shows, names a test here, beside it or among the errata."""
    page = (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    keys = set(re.findall(r"\*\*not reproduced\*\* \(`(\w+)`\)", page))
    assert keys
    here = {
        node.name
        for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    for key in keys:
        if key in ELSEWHERE:
            file, name = ELSEWHERE[key]
            assert f"def {name}(" in (ROOT / "tests" / f"{file}.py").read_text("utf-8"), key
        else:
            assert f"test_{key}" in here, key
    assert all(item.reference in page for item in ITEMS)


def test_the_published_pair_of_the_oracle_is_the_clones() -> None:
    """Both routes of Table 4 share no code: δ at the certified ε is the asked one."""
    exact = sdp.amplify(sdp.VariationRatio.from_ldp(1.0), 10_000, bound="stronger-clone").epsilon(1e-6).upper
    assert delta_published_float(math.e, math.tanh(0.5), math.e, math.e, 10_000, exact) == pytest.approx(1e-6, rel=1e-6)
