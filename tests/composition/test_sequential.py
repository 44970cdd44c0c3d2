"""Rounds composed: certified on both sides, within 0.1% of the truth, for one pair and for many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.validation import Floats
from shuffledp.bounds.pointwise_minimum import BestCurve
from shuffledp.privacy.composition import ComposedCurve
from shuffledp.privacy.curve import PrivacyCurve
from tests.oracle.composition import divergence, gaussian_delta, merge_ratios, product
from tests.oracle.exact_enumeration import krr_table

from .known_curves import SOURCE, GaussianCurve, TableCurve, shuffled_counts

CLONES = sdp.amplify(sdp.VariationRatio.from_ldp(2.0), 10_000, bound="stronger-clone")


@pytest.mark.parametrize(("rounds", "truth"), [(1, 0.114400), (100, 1.347767), (1000, 4.812234)])
def test_stronger_clones(rounds: int, truth: float) -> None:
    """The values of theory.md §2 (six digits), and no more than 0.1% above them."""
    found = sdp.compose(CLONES, rounds).epsilon(1e-6)
    assert truth - 1e-6 <= found.upper <= truth * 1.001
    assert found.upper - found.slack <= truth + 1e-6
    assert found.slack <= 1e-3 * found.upper


def test_one_round_is_the_curve_itself() -> None:
    """K = 1 equals the direct value."""
    assert sdp.compose(CLONES, 1) is CLONES
    assert sdp.compose([CLONES]) is CLONES


@pytest.mark.parametrize("rounds", [2, 30, 1000, 50_000])
@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-15, 1e-30])
def test_gaussian_rounds(rounds: int, delta: float) -> None:
    """K Gaussian rounds are one with √K·μ: the closed form to sixty digits lies between the two sides."""
    curve = sdp.compose(GaussianCurve(SOURCE, 0.02), rounds)
    mu = 0.02 * math.sqrt(rounds)
    found = curve.epsilon(delta)
    assert gaussian_delta(mu, found.upper) <= delta
    least = found.upper - found.slack
    assert found.slack <= 1e-3 * found.upper + 1e-12
    if least > 0:
        assert gaussian_delta(mu, least) >= delta
    value = curve.delta(found.upper)
    assert value.upper - value.slack <= gaussian_delta(mu, found.upper) <= value.upper


def symmetric_pair(rng: Random) -> tuple[tuple[Fraction, Fraction], ...]:
    """A random pair and its mirror image with equal odds; zeros make infinite losses."""
    size = rng.randint(2, 4)

    def law() -> list[Fraction]:
        weights = [rng.choice([0, 1, 1, 2, 3, 5, 8, 40]) for _ in range(size)] + [1]
        return [Fraction(w, sum(weights)) for w in weights]

    pair = list(zip(law(), law(), strict=True))
    return tuple([(a / 2, b / 2) for a, b in pair] + [(b / 2, a / 2) for a, b in pair])


@pytest.mark.parametrize("seed", range(12))
def test_products_of_tables(seed: int) -> None:
    """Products outcome by outcome in exact rationals, different rounds and infinite losses included."""
    rng = Random(f"tables {seed}")
    curves: list[PrivacyCurve] = []
    rounds = []
    for _ in range(rng.randint(1, 2)):
        pair, times = symmetric_pair(rng), rng.randint(1, 2)
        curves += [TableCurve(SOURCE, (pair,))] * times
        rounds += [merge_ratios(pair)] * times
    exact = product(rounds)
    composed = sdp.compose(curves)
    for epsilon in (0.0, rng.random(), 4 * rng.random()):
        value, truth = composed.delta(epsilon), divergence(exact, epsilon)
        assert value.upper - value.slack <= truth * (1 + 1e-15)
        assert truth <= value.upper <= truth * 1.02 + 1e-9
    if len(curves) > 1:
        found = composed.epsilon(1e-3)
        if math.isfinite(found.upper):
            assert divergence(exact, found.upper) <= 1e-3
            least = found.upper - found.slack
            assert least <= 1e-9 or divergence(exact, least * (1 - 1e-12)) >= 1e-3 * (1 - 1e-9)


@pytest.mark.parametrize("users", [3, 6])
def test_shuffled_rounds_by_enumeration(users: int) -> None:
    """Two rounds of a shuffled protocol: every pair of count vectors, in exact rationals."""
    parameters = sdp.VariationRatio(p=3.0, beta=0.5, q=3.0)
    quarter = Fraction(1, 4)
    first, second = (3 * quarter, quarter, Fraction(0)), (quarter, 3 * quarter, Fraction(0))
    counts = merge_ratios(shuffled_counts(first, second, (quarter, quarter, 2 * quarter), users))
    exact = product([counts, counts])
    composed = sdp.compose(sdp.amplify(parameters, users, bound="variation-ratio"), 2)
    for epsilon in (0.0, 0.3, 1.0, 1.7):
        value, truth = composed.delta(epsilon), divergence(exact, epsilon)
        assert value.upper - value.slack <= truth <= value.upper <= truth * 1.01 + 1e-9


@pytest.mark.exhaustive
@pytest.mark.usefixtures("each_curve_once")
def test_a_loop_a_list_and_a_nest_agree() -> None:
    """Six rounds at once, as a list, or as three times two."""
    at_once = sdp.compose(CLONES, 6)
    listed = sdp.compose([CLONES] * 6)
    nested = sdp.compose(sdp.compose(CLONES, 2), 3)
    values = [curve.epsilon(1e-6).upper for curve in (at_once, listed, nested)]
    assert max(values) == pytest.approx(min(values), rel=1e-12)
    # Composing what was composed, and so discretised, already: above, by no more than the slacks.
    opaque = [_Opaque(SOURCE, sdp.compose(CLONES, times)) for times in (2, 4)]
    value = sdp.compose(opaque).epsilon(1e-6)
    assert values[0] - at_once.epsilon(1e-6).slack <= value.upper <= values[0] * 1.002


@dataclass(frozen=True)
class _Opaque(PrivacyCurve):
    """A curve that does not say what it is made of."""

    inside: PrivacyCurve

    def _epsilon(self, delta: float) -> sdp.BoundValue:
        raise NotImplementedError

    def _delta(self, epsilon: float) -> sdp.BoundValue:
        raise NotImplementedError

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self.inside._profile(epsilons)


@pytest.mark.usefixtures("each_curve_once")
def test_order_does_not_matter() -> None:
    """Different rounds in any order."""
    curves = [sdp.amplify(sdp.KRR(epsilon=e, options=8), 3000, effort="quick") for e in (0.5, 1.0, 2.0)]
    values = [sdp.compose([curves[k] for k in order]).epsilon(1e-7) for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0))]
    uppers = [value.upper for value in values]
    assert max(uppers) == pytest.approx(min(uppers), rel=1e-9)
    assert all(value.slack < 2e-3 * value.upper for value in values)
    assert sdp.compose(curves).epsilon(1e-7).upper > max(curve.epsilon(1e-7).upper for curve in curves)


def test_infinite_losses_add_up() -> None:
    """Disjoint messages that nobody hides: δ at infinite ε is 1 − (1 − δ₁)^K."""
    parameters = sdp.VariationRatio(p=math.inf, beta=1.0, q=4.0)
    curve = sdp.amplify(parameters, 8, bound="variation-ratio")
    alone = curve.delta(600.0).upper
    assert alone > 1e-3
    together = sdp.compose(curve, 5).delta(300.0)
    assert together.upper == pytest.approx(1 - (1 - alone) ** 5, rel=1e-3)
    assert together.upper >= 1 - (1 - alone) ** 5
    assert math.isinf(sdp.compose(curve, 5).epsilon(alone).upper)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 30.0])
def test_losses_that_are_nothing_or_everything(epsilon: float) -> None:
    """No finite loss at all, alone and next to a round whose losses are tiny: the answer holds on any grid."""
    quarter = Fraction(1, 4)
    pair = ((quarter, Fraction(0)), (Fraction(0), quarter), (3 * quarter, 3 * quarter))
    everything_or_nothing = TableCurve(SOURCE, (pair,))
    value = sdp.compose(everything_or_nothing, 3).delta(epsilon)
    assert 1 - 0.75**3 <= value.upper <= (1 - 0.75**3) * (1 + 1e-6)
    tiny = TableCurve(SOURCE, (_binary(Fraction(1, 2) + Fraction(1, 10**9)),))
    value = sdp.compose([everything_or_nothing, tiny, tiny]).delta(epsilon)
    assert 0.25 <= value.upper <= 0.25 * (1 + 1e-6)


def test_no_privacy_loss_stays_none() -> None:
    """Rounds that reveal nothing reveal nothing together, and rounds that reveal all reveal all."""
    half = Fraction(1, 2)
    nothing = TableCurve(SOURCE, (((half, half), (half, half)),))
    assert sdp.compose(nothing, 10).delta(0.0).upper <= 1e-12
    everything = TableCurve(SOURCE, (((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))),))
    assert sdp.compose(everything, 3).delta(5.0).upper == 1.0
    assert math.isinf(sdp.compose([everything, nothing]).epsilon(0.5).upper)


def test_the_smaller_of_two_bounds_composes_to_less_than_either() -> None:
    """``best`` composes the convex hull of the minimum: never above the best single bound, here below both."""
    early = TableCurve(SOURCE, (_binary(Fraction(55, 100)),))
    late = TableCurve(SOURCE, (_rare(Fraction(1, 20), 40),))
    best = BestCurve(SOURCE, (early, late), ())
    values = [sdp.compose(curve, 20).epsilon(1e-2).upper for curve in (best, early, late)]
    assert values[0] < min(values[1:]) * 0.999


def _binary(chance: Fraction) -> tuple[tuple[Fraction, Fraction], ...]:
    return ((chance, 1 - chance), (1 - chance, chance))


def _rare(chance: Fraction, ratio: int) -> tuple[tuple[Fraction, Fraction], ...]:
    rest = 1 - chance - chance / ratio
    return ((chance, chance / ratio), (chance / ratio, chance), (rest, rest))


@pytest.mark.exhaustive("Laplace")
@pytest.mark.parametrize("name", ["KRR", "Laplace", "OUE"])
def test_catalogue_rounds_are_between_simple_bounds(name: str) -> None:
    """At least one round's loss, at most basic composition; the sides are close."""
    mechanism = {
        "KRR": sdp.KRR(epsilon=2.0, options=16),
        "Laplace": sdp.Laplace(epsilon=1.0),
        "OUE": sdp.OUE(epsilon=1.0, options=10),
    }[name]
    curve = sdp.amplify(mechanism, 20_000, effort="quick")
    found = sdp.compose(curve, 4).epsilon(1e-6)
    assert curve.epsilon(1e-6).upper < found.upper < 4 * curve.epsilon(1e-6 / 4).upper
    assert found.slack < 1e-3 * found.upper
    assert found.guarantee
    assert found.certified


def test_an_attack_on_all_rounds() -> None:
    """Randomized response, everybody else alike: the product of the exact pairs, in rationals, is not below it."""
    users, rounds = 5, 2
    mechanism = sdp.KRR(epsilon=math.log(4), options=3)
    curve = sdp.compose(sdp.amplify(mechanism, users, effort="quick"), rounds)
    table = krr_table(3, 4)
    counts = merge_ratios(shuffled_counts(table[0], table[1], table[2], users))
    exact = product([counts] * rounds)
    for epsilon in (0.2, 0.8, 1.5):
        value = curve.delta(epsilon)
        assert value.lower is not None
        assert value.lower <= value.upper
        assert value.lower == pytest.approx(float(divergence(exact, epsilon)), rel=2e-2)
    many = sdp.compose(sdp.amplify(sdp.KRR(epsilon=1.0, options=8), 5000, effort="quick"), 30)
    found = many.epsilon(1e-6)
    assert found.lower is not None
    assert 0.9 * found.upper < found.lower <= found.upper
    assert sdp.compose([CLONES, sdp.amplify(mechanism, users, effort="quick")]).delta(1.0).lower is None


@pytest.mark.parametrize("bound", ["analytic", "blanket-bennett", "blanket-hoeffding", "clone-analytic", "efmrtt19"])
def test_closed_forms_compose_too(bound: str) -> None:
    """A bound that is 1 near ε = 0 and falls at once: composed, it is above the tight one and not absurd."""
    mechanism = sdp.KRR(epsilon=0.4, options=6)
    loose = sdp.amplify(mechanism, 20_000, bound=bound)
    found = sdp.compose(loose, 20).epsilon(1e-5)
    assert sdp.compose(sdp.amplify(mechanism, 20_000, effort="quick"), 20).epsilon(1e-5).upper < found.upper
    assert found.upper < 20 * loose.epsilon(1e-5 / 20).upper * 1.2


def test_what_is_no_guarantee_stays_none() -> None:
    """One round of the published pair, and the whole is no guarantee; names and theorems are kept."""
    common = sdp.VariationRatio(p=8.0, beta=0.3, q=8.0)
    published = sdp.amplify(common, 500, bound="variation-ratio-published")
    composed = sdp.compose([CLONES, published])
    assert not composed.guarantee
    assert not composed.epsilon(1e-3).guarantee
    assert "stronger-clone" in composed.bound
    assert "Lemma 7.2" in composed.theorem
    assert composed.messages == 500
    assert isinstance(composed, ComposedCurve)


def test_profile_of_a_composition() -> None:
    """Many ε at once, as for any curve."""
    curve = sdp.compose(CLONES, 50)
    points = np.array([0.0, 0.2, 0.5])
    found = curve.profile(points)
    for place, epsilon in enumerate(points):
        assert found.upper[place] == pytest.approx(curve.delta(float(epsilon)).upper, rel=1e-2)
        assert found.lower[place] <= curve.delta(float(epsilon)).upper


@pytest.mark.parametrize(
    ("curves", "rounds", "error"),
    [
        ([], None, "at least one curve"),
        ([CLONES], 3, "rounds goes with one curve"),
        (CLONES, 0, "rounds must be at least 1"),
        (CLONES, 1.5, "whole number"),
        ([CLONES, 0.3], None, "expected privacy curves"),
    ],
)
def test_nonsense_is_refused(curves: object, rounds: float | None, error: str) -> None:
    """One sentence for each."""
    with pytest.raises((ValueError, TypeError), match=error):
        sdp.compose(curves, rounds)  # type: ignore[arg-type]
