"""The exact curve of shuffled messages: rational enumeration, the hockey-stick engine, and the clone formula."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import NotApplicable, VariationRatio, amplify, trade_off
from shuffledp.privacy.shuffled_tradeoff import CloneErrors, binomial_window, shuffled_trade_off
from shuffledp.privacy.tradeoff import PiecewiseTradeOff
from shuffledp.privacy.tradeoff_mixtures import exchanged, exchanged_bound
from tests.oracle.tradeoff import delta_of_curve, mixture, shuffled_extremes, tradeoff_curve, value_at

GRID = [Fraction(k, 64) for k in range(65)]


@pytest.mark.parametrize(("users", "ratio"), [(1, 3), (2, 3), (7, 2), (12, 5), (30, 4)])
def test_the_clone_pair_against_rational_arithmetic(users: int, ratio: int) -> None:
    """Every value to 1e-15, and δ at several ratios."""
    first, second, w = shuffled_extremes(users, Fraction(ratio))
    truth = tradeoff_curve(mixture(first, second, w), mixture(second, first, w))
    parameters = VariationRatio(p=float(ratio), beta=(ratio - 1) / (ratio + 1), q=float(ratio))
    found = shuffled_trade_off(parameters.pair(0.0), users)
    for x in GRID:
        assert float(found.fnr(float(x))) == pytest.approx(float(value_at(truth, x)), abs=1e-15)
    for step in (Fraction(1), Fraction(9, 8), Fraction(2)):
        assert found.delta(math.log(step)) == pytest.approx(float(delta_of_curve(truth, step)), abs=1e-15)


def brute(parameters: VariationRatio, users: int) -> PiecewiseTradeOff:
    """All vectors of counts of the sound pair, by explicit multinomials in fractions."""

    def exact(number: object) -> Fraction:
        return Fraction(int(number.p), int(number.q))  # type: ignore[attr-defined]

    classes = parameters.pair(0.0).exact
    assert classes is not None
    triples = [tuple(map(exact, c)) for c in classes]
    laws: tuple[dict, dict] = ({}, {})
    others: dict[tuple[int, ...], Fraction] = {(0,) * len(triples): Fraction(1)}
    for _ in range(users - 1):
        others = _one_more(others, [hiding for _, _, hiding in triples])
    for place in (0, 1):
        laws[place].update(_one_more(others, [triple[place] for triple in triples]))
    return PiecewiseTradeOff.from_laws(*laws)


def _one_more(law: dict, chances: list[Fraction]) -> dict:
    result: dict = {}
    for counts, mass in law.items():
        for k, chance in enumerate(chances):
            if chance:
                more = (*counts[:k], counts[k] + 1, *counts[k + 1 :])
                result[more] = result.get(more, Fraction(0)) + mass * chance
    return result


PARAMETERS = [
    VariationRatio(3.0, 0.25, 3.0),
    VariationRatio(4.0, 0.375, 4.0, 1.5),
    VariationRatio(3.0, 0.25, (2.0, 5.0)),
    VariationRatio(math.inf, 0.5, 4.0),
    VariationRatio(math.inf, 1.0, 4.0),
]


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_variation_ratio_pairs_against_explicit_counts(parameters: VariationRatio) -> None:
    """γ > 0, p = ∞ and asymmetric q, six users, both directions."""
    wanted, found = brute(parameters, 6), shuffled_trade_off(parameters.pair(0.0), 6)
    x = np.linspace(0, 1, 65)
    assert np.allclose(found.fnr(x), wanted.fnr(x), rtol=0, atol=1e-15)
    assert np.allclose(found.inverse().fnr(x), wanted.inverse().fnr(x), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("parameters", "users"), [*((one, 60) for one in PARAMETERS), (VariationRatio.from_ldp(1.0), 3000)]
)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_delta_from_the_curve_is_the_engines(parameters: VariationRatio, users: int, share: float) -> None:
    """The larger of both directions equals the certified value to 1e-12, relatively too."""
    curve = amplify(parameters, users, bound="variation-ratio")
    epsilon = share * curve.epsilon(1e-5).upper
    if math.isinf(epsilon):
        epsilon = 2.0
    found = shuffled_trade_off(parameters.pair(0.0), users)
    engine = curve.delta(epsilon)
    assert found.divergence(epsilon) == pytest.approx(engine.upper, rel=1e-12, abs=engine.slack)
    assert found.divergence(epsilon) == pytest.approx(engine.upper, abs=1e-12)


def test_the_clone_formula_is_on_the_exact_curve() -> None:
    """Sums over clones of incomplete beta functions, at n where the counts can still be visited."""
    errors = CloneErrors(1.5, 800)
    curve = shuffled_trade_off(VariationRatio.from_ldp(1.5).pair(0.0), 800)
    fpr, fnr = errors.exact_errors([0.5, 0.8, 0.97, 1.0, 1.05, 1.3, 2.0])
    assert np.allclose(curve.fnr(fpr), fnr, rtol=0, atol=1e-13)
    inner = PiecewiseTradeOff(*_extremes(800, errors.weight))
    x, y = errors.inner_errors([0.8, 1.0, 1.2])
    assert np.allclose(inner.fnr(x), y, rtol=0, atol=1e-12)
    assert np.allclose(exchanged(inner, errors.weight).fnr(fpr), fnr, rtol=0, atol=1e-12)
    for epsilon in (0.0, 0.05, 0.2):
        assert errors.published_delta(epsilon) == pytest.approx(
            exchanged_bound(inner, errors.weight).delta(epsilon), abs=1e-12
        )


def _extremes(users: int, w: float) -> tuple[np.ndarray, np.ndarray]:
    """P_0 = (A+1, C−A) against Q_0 = (A, C−A+1), outcome by outcome."""
    masses: dict[tuple[int, int], list[float]] = {}
    clones = binomial_window(users - 1, 2 * w)
    for c, chance in zip(clones.counts.tolist(), clones.masses.tolist(), strict=True):
        split = binomial_window(c, 0.5)
        for a, part in zip(split.counts.tolist(), split.masses.tolist(), strict=True):
            masses.setdefault((a + 1, c - a), [0.0, 0.0])[0] += chance * part
            masses.setdefault((a, c - a + 1), [0.0, 0.0])[1] += chance * part
    both = np.array(list(masses.values()))
    return both[:, 0] / both[:, 0].sum(), both[:, 1] / both[:, 1].sum()


def test_a_million_users() -> None:
    """The certified curve is below points of the exact one, by little."""
    curve = amplify(VariationRatio.from_ldp(1.0), 10**6, effort="quick")
    lower = trade_off(curve, points=200)
    errors = CloneErrors(1.0, 10**6)
    fpr, fnr = errors.exact_errors([0.995, 1.0, 1.002, 1.01])
    assert np.all(lower.fnr(fpr) <= fnr + 1e-12)
    assert np.all(lower.fnr(fpr) >= fnr - 2e-7)


def test_binomial_masses() -> None:
    """Against exact integers, in the middle and in the tail, and the ends."""
    found = binomial_window(60, 0.25)
    for k, mass in zip(found.counts.tolist(), found.masses.tolist(), strict=True):
        assert mass == pytest.approx(math.comb(60, k) * 3 ** (60 - k) / 4**60, rel=1e-13)
    assert binomial_window(5, 1.0).counts.tolist() == [5]
    assert binomial_window(5, 0.0).counts.tolist() == [0]
    assert binomial_window(0, 0.3).masses.tolist() == [1.0]


def test_too_many_vectors_are_refused_by_name() -> None:
    """The sentence names the way that has no such limit."""
    with pytest.raises(NotApplicable, match="trade_off"):
        shuffled_trade_off(VariationRatio.from_ldp(1.0).pair(0.0), 1e7)
