"""Sampled users: never below the exact divergence of a small population, and tight where the theorem is."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import shuffledp as sdp
from shuffledp.bounds.subsampling import poisson, subsample
from tests.composition.known_curves import SOURCE, GaussianCurve
from tests.oracle.composition import divergence, gaussian_delta
from tests.oracle.exact_enumeration import krr_table, shuffled_law

Law = dict[object, Fraction]


def without_replacement(table: list[list[Fraction]], data: tuple[int, ...], users: int) -> Law:
    """The counts of the messages of a uniform sample, by visiting every sample."""
    result: Law = defaultdict(Fraction)
    samples = list(itertools.combinations(data, users))
    for sample in samples:
        for counts, chance in shuffled_law([table[x] for x in sample], len(table[0])).items():
            result[counts] += chance / len(samples)
    return result


def independently(table: list[list[Fraction]], data: tuple[int, ...], rate: Fraction) -> Law:
    """The same when everybody decides alone."""
    result: Law = defaultdict(Fraction)
    for chosen in itertools.product((False, True), repeat=len(data)):
        weight = math.prod((rate if taken else 1 - rate for taken in chosen), start=Fraction(1))
        rows = [table[x] for x, taken in zip(data, chosen, strict=True) if taken]
        if not rows:
            result["nobody"] += weight
            continue
        for counts, chance in shuffled_law(rows, len(table[0])).items():
            result[counts] += chance * weight
    return result


def worst(laws: dict[tuple[int, ...], Law], epsilon: float) -> mpf:
    """The largest divergence over all datasets that differ in one person."""
    found = mpf(0)
    for one, other in itertools.permutations(laws, 2):
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1:
            first, second = laws[one], laws[other]
            keys = set(first) | set(second)
            pair = [(first.get(key, Fraction(0)), second.get(key, Fraction(0))) for key in keys]
            found = max(found, divergence(pair, epsilon))
    return found


@pytest.mark.parametrize(("options", "ratio", "population", "users"), [(2, 3, 5, 2), (2, 8, 4, 3), (3, 4, 4, 2)])
def test_every_small_population_is_covered(options: int, ratio: int, population: int, users: int) -> None:
    """All samples, all datasets, all neighbours, exactly: the curve is above."""
    table = krr_table(options, ratio)
    laws = {
        data: without_replacement(table, data, users)
        for data in itertools.combinations_with_replacement(range(options), population)
    }
    swaps = {
        (*data[:-1], x): without_replacement(table, (*data[:-1], x), users) for data in laws for x in range(options)
    }
    curve = subsample(sdp.amplify(sdp.KRR(epsilon=math.log(ratio), options=options), users, effort="quick"), population)
    for epsilon in (0.0, 0.1, 0.4, 0.9):
        truth = worst({**laws, **swaps}, epsilon)
        assert truth <= curve.delta(epsilon).upper * (1 + 1e-12)
        assert truth <= curve.profile([epsilon]).upper[0] * (1 + 1e-12)


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(3, 4)])
def test_independent_choices_are_covered(rate: Fraction) -> None:
    """The number of messages is seen, and the curve is still above every neighbouring pair."""
    table = krr_table(2, 3)
    laws = {data: independently(table, data, rate) for data in itertools.product(range(2), repeat=4)}
    curve = poisson(sdp.KRR(epsilon=math.log(3), options=2), 4, float(rate))
    for epsilon in (0.0, 0.2, 0.7):
        truth = worst(laws, epsilon)
        value = curve.delta(epsilon)
        assert truth <= value.upper
        assert value.upper - value.slack <= value.upper


def test_the_formula_at_one_point() -> None:
    """s·δ(log(1 + (e^ε − 1)/s)) of a Gaussian to sixty digits, and its inverse."""
    inside = sdp.amplify(sdp.KRR(epsilon=1.0, options=4), 1000, effort="quick")
    curve = subsample(inside, 8000)
    for epsilon in (0.0, 0.003, 0.02):
        with mp.workdps(30):
            inner = float(mp.log1p(mp.expm1(mpf(epsilon)) * 8))
        assert curve.delta(epsilon).upper == pytest.approx(inside.delta(inner).upper / 8, rel=1e-9)
    for delta in (1e-3, 1e-8):
        value = curve.epsilon(delta)
        assert curve.delta(value.upper).upper <= delta
        assert value.upper == pytest.approx(math.log1p(math.expm1(inside.epsilon(delta * 8).upper) / 8), rel=1e-12)
    assert curve.epsilon(0.2).upper == 0.0


def test_sampled_gaussian_rounds() -> None:
    """K rounds of a sampled Gaussian, against the exact symmetric pair convolved on a fine grid with another code."""
    share, mu, rounds = 0.1, 0.5, 8
    curve = sdp.compose(_Sampled(SOURCE, mu), rounds)
    # Independent route: masses of the symmetric extension between grid points, in plain floats, convolved directly.
    step = 1e-3

    def profile(epsilon: float) -> float:
        inner = math.log1p(math.expm1(epsilon) / share)
        return share * float(gaussian_delta(mu, inner))

    right = np.array([profile(step * k) for k in range(1502)])
    values = np.concatenate(((1 - np.exp(-step * np.arange(1501, 0, -1))), np.zeros(1502)))
    values[1501:] += right
    values[:1501] += np.exp(-step * np.arange(1501, 0, -1)) * right[:0:-1]
    x = np.exp(step * np.arange(-1501, 1502))
    slopes = np.diff(values) / np.diff(x)
    masses = x[1:-1] * np.diff(slopes)
    total = np.ones(1)
    for _ in range(rounds):
        total = np.convolve(total, masses)
    places = step * (np.arange(len(total)) - rounds * 1500)
    for epsilon in (0.05, 0.3):
        keep = places > epsilon
        truth = float(np.sum(total[keep] * -np.expm1(epsilon - places[keep])))
        value = curve.delta(epsilon)
        assert truth == pytest.approx(value.upper, rel=5e-3)
        assert value.slack < 5e-3 * value.upper


class _Sampled(GaussianCurve):
    """A tenth of the population in a Gaussian mechanism."""

    def _delta(self, epsilon: float) -> sdp.BoundValue:
        value = GaussianCurve(SOURCE, self.mu)._delta(math.log1p(math.expm1(epsilon) / 0.1))
        return self._value(value.upper * 0.1 * (1 + 1e-12), value.slack * 0.1 + value.upper * 1e-12)


def test_sampling_helps_before_composition() -> None:
    """A tenth of the people in each of twenty rounds, against everybody in all of them and against two rounds."""
    inside = sdp.amplify(sdp.VariationRatio.from_ldp(1.0), 5000, bound="stronger-clone")
    sampled = sdp.compose(subsample(inside, 50_000), 20)
    value = sampled.epsilon(1e-6)
    assert value.upper < 0.35 * sdp.compose(inside, 20).epsilon(1e-6).upper
    assert value.slack < 1e-3 * value.upper
    assert "50000 sampled without replacement" in sampled.theorem


def test_a_random_size_costs_little() -> None:
    """Poisson sampling is a little worse than drawing the mean number, and the sides are close."""
    mechanism = sdp.KRR(epsilon=1.0, options=8)
    fixed = subsample(sdp.amplify(mechanism, 20_000, effort="quick"), 100_000).epsilon(1e-6).upper
    value = poisson(mechanism, 100_000, 0.2).epsilon(1e-6)
    assert fixed <= value.upper <= 1.01 * fixed
    assert value.slack <= 0.03 * value.upper


def test_colluding_users_do_not_lower_the_share() -> None:
    """Who colludes hides nobody, but the victim is drawn as often as before, or oftener as far as colluders know."""
    mechanism = sdp.KRR(epsilon=1.0, options=8)
    drawn = sdp.amplify(mechanism, 1000, colluding=900, effort="quick")
    assert (drawn.users, drawn.messages) == (1000, 100)
    alone = sdp.amplify(mechanism, 100, effort="quick")
    share = 1000 / (10_000 - 900)
    assert subsample(drawn, 10_000).delta(0.0).upper == pytest.approx(share * alone.delta(0.0).upper, rel=1e-9)
    assert (subsample(drawn, 10_000).users, subsample(drawn, 10_000).messages) == (10_000, 100)
    with pytest.raises(ValueError, match="1000 users"):
        subsample(drawn, 500)


@pytest.mark.parametrize(("population", "colluding", "users"), [(3, 1, 2), (4, 2, 3), (5, 2, 3), (6, 2, 4)])
def test_colluding_people_know_whether_they_were_drawn(population: int, colluding: int, users: int) -> None:
    """All datasets of the honest, exactly: the analyst sees how many of them were drawn, and their messages."""
    table, honest = krr_table(2, 3), population - colluding
    curve = subsample(
        sdp.amplify(sdp.KRR(epsilon=math.log(3), options=2), users, colluding=colluding, effort="quick"), population
    )
    for epsilon in (0.0, 0.2, 0.5, 0.8, 1.0):
        truth = 0.0
        for data in itertools.product(range(2), repeat=honest):
            other, total = (1 - data[0], *data[1:]), mpf(0)
            for drawn in range(users - colluding, min(users, honest) + 1):
                ways = math.comb(colluding, users - drawn) * math.comb(honest, drawn)
                pair = {kept: without_replacement(table, kept, drawn) for kept in (data, other)}
                total += mpf(ways) / math.comb(population, users) * worst(pair, epsilon)
            truth = max(truth, float(total))
        value = curve.delta(epsilon)
        assert truth <= value.upper * (1 + 1e-12)
        assert value.lower is None or value.lower <= truth * (1 + 1e-12)


def test_everybody_is_the_curve_itself() -> None:
    """Nothing is gained where the sample is the population."""
    inside = sdp.amplify(sdp.KRR(epsilon=1.0, options=4), 100, effort="quick")
    assert subsample(inside, 100) is inside
    assert poisson(sdp.KRR(epsilon=1.0, options=4), 100, 1.0).epsilon(1e-3).upper == inside.epsilon(1e-3).upper


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda curve: subsample(curve, 50), "at least the curve's 100 users, got 50"),
        (lambda curve: subsample(0.5, 500), "expected a privacy curve"),
        (lambda curve: poisson(sdp.KRR(epsilon=1.0, options=4), 100, 0.0), "rate must be above 0"),
        (lambda curve: poisson(sdp.KRR(epsilon=1.0, options=4), 100, 1.5), "at most 1"),
    ],
)
def test_nonsense_is_refused(call: object, error: str) -> None:
    """One sentence for each."""
    with pytest.raises((ValueError, TypeError), match=error):
        call(sdp.amplify(sdp.KRR(epsilon=1.0, options=4), 100, effort="quick"))  # type: ignore[operator]


def test_several_messages_a_user_are_one_person_drawn() -> None:
    """The share of the population is that of people, not of the messages that hide each other."""
    once = sdp.amplify(sdp.PureDUMP(options=10, dummies=5), 1_000, effort="quick")
    drawn = subsample(once, 10_000)
    for epsilon in (0.05, 0.3):
        inner = math.log1p(math.expm1(epsilon) / 0.1)
        assert drawn.delta(epsilon).upper == pytest.approx(0.1 * once.delta(inner).upper, rel=1e-6)


def test_rounds_of_colluding_users_are_sampled_as_often_as_one_round() -> None:
    """Composing keeps count of everybody who sends: the share must not shrink to those who hide."""
    once = sdp.amplify(sdp.KRR(epsilon=1.0, options=8), 1000, colluding=900, effort="quick")
    both = sdp.compose(once, 2)
    drawn = subsample(both, 2000)
    assert drawn.delta(0.0).upper >= 0.5 * both.delta(0.0).upper
    assert (subsample(drawn, 10_000).users, subsample(drawn, 10_000).messages) == (10_000, 100)
    with pytest.raises(ValueError, match="1000 users"):
        subsample(both, 500)


@pytest.mark.exhaustive
def test_the_round_with_the_most_people_counts() -> None:
    """A person of the larger round is drawn as often as that round is large."""
    mechanism = sdp.KRR(epsilon=1.0, options=8)
    rounds = [sdp.amplify(mechanism, users, effort="quick") for users in (100, 200)]
    both = sdp.compose(rounds)
    together = subsample(both, 400)
    assert together.delta(0.0).upper >= 0.5 * both.delta(0.0).upper
    assert together.delta(0.0).upper >= subsample(rounds[1], 400).delta(0.0).upper


def test_a_sample_of_a_sample_is_one_sample() -> None:
    """100 of 200 of 400 people are 100 of 400: nothing more is gained on the way."""
    inside = sdp.amplify(sdp.KRR(epsilon=1.0, options=8), 100, effort="quick")
    twice, once = subsample(subsample(inside, 200), 400), subsample(inside, 400)
    for epsilon in (0.0, 0.02, 0.1):
        assert twice.delta(epsilon).upper == pytest.approx(once.delta(epsilon).upper, rel=1e-9)


def test_chosen_inputs_are_not_sampled() -> None:
    """Two near inputs among two people, one of whom is drawn, the other far away: Proposition 2 at the pair is wrong.

    The truth is D(½R(a) + ½R(c) ‖ ½R(b) + ½R(c)); where R(c) is nothing it is half of D(R(a)‖R(b)) at the same ε.
    """
    mechanism = sdp.Exponential([[0.0, 0.1, 8.0], [0.1, 0.0, 8.0], [8.0, 8.0, 0.0]])
    near, other, far = (np.array([float(x) for x in row]) for row in mechanism.table().probabilities)
    epsilon = 0.04
    truth = float(np.maximum(0, (near + far) / 2 - math.exp(epsilon) * (other + far) / 2).sum())
    inside = sdp.amplify(mechanism, 1, pair=(0, 1), effort="quick")
    assert 0.5 * inside.delta(math.log1p(2 * math.expm1(epsilon))).upper < truth
    for restricted in (inside, sdp.compose(inside, 2), sdp.amplify(mechanism, 1, diameter=1.0, effort="quick")):
        with pytest.raises(ValueError, match="subsample: expected a curve for all inputs"):
            subsample(restricted, 2)
    with pytest.raises(ValueError, match="poisson: expected a curve for all inputs"):
        poisson(mechanism.neighbours_between(0, 1), 10, 0.5)
    assert subsample(sdp.amplify(mechanism, 1, effort="quick"), 2).delta(epsilon).upper >= truth


def test_what_underflows_is_not_taken_for_nothing() -> None:
    """A positive δ at the end of the floats stays positive, times whatever share."""
    mechanism = sdp.CheuZhilyaev(options=2, flip=0.4, dummies=20_000)
    sampled = subsample(sdp.amplify(mechanism, 3, bound="optimal"), 6)
    assert sampled.profile([0.06]).upper[0] > 0
    assert poisson(mechanism, 3, 0.5, bound="optimal").delta(0.0902027202886284).upper > 0


def divergence_of(first: Law, second: Law, ratio: Fraction) -> Fraction:
    """The larger direction, in fractions."""
    keys = set(first) | set(second)
    nothing = Fraction(0)
    return max(
        sum((max(nothing, a.get(key, nothing) - ratio * b.get(key, nothing)) for key in keys), nothing)
        for a, b in ((first, second), (second, first))
    )


@pytest.mark.parametrize(("population", "users", "colluding"), [(3, 1, 0), (4, 2, 0), (5, 4, 0), (5, 3, 1)])
def test_the_attack_on_a_fixed_sample_is_its_exact_divergence(population: int, users: int, colluding: int) -> None:
    """All but one person hold a third option: what visiting every sample gives, in fractions."""
    mechanism, ratio = sdp.KRR(1.0, 3), Fraction(21, 20)
    table = [list(row) for row in mechanism.table().probabilities]
    others = (2,) * (population - 1)
    truth = divergence_of(*(without_replacement(table, (x, *others), users) for x in (0, 1)), ratio)
    curve = subsample(sdp.amplify(mechanism, users, colluding=colluding, effort="quick"), population)
    lower = curve.delta(math.log(ratio)).lower
    assert lower is not None
    assert lower <= truth
    assert lower == pytest.approx(float(truth), rel=1e-9)
    assert lower <= curve.delta(math.log(ratio)).upper


@pytest.mark.exhaustive
def test_the_attack_on_a_large_sample_is_near_the_guarantee() -> None:
    """The better the fewer rounds hide: from below for one round and for twenty, both directions being equal."""
    curve = subsample(sdp.amplify(sdp.KRR(1.0, 4), 500, effort="quick"), 5000)
    for together, near in ((curve, 1.08), (sdp.compose(curve, 20), 1.03)):
        value = together.epsilon(1e-6)
        assert value.lower is not None
        assert value.lower <= value.upper <= value.lower * near


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(3, 4)])
@pytest.mark.parametrize("secret", [True, False], ids=["secret", "known"])
def test_the_attack_where_coins_decide_is_below_its_exact_divergence(rate: Fraction, secret: bool) -> None:
    """Everybody's coin visited, in fractions; the few cells of sizes lose little."""
    mechanism, ratio, people = sdp.KRR(1.0, 3), Fraction(21, 20), 5
    table = [list(row) for row in mechanism.table().probabilities]
    if secret:
        truth = divergence_of(*(independently(table, (x, *[2] * (people - 1)), rate) for x in (0, 1)), ratio)
    else:
        truth = sum(
            math.comb(people - 1, came) * rate**came * (1 - rate) ** (people - 1 - came)
            * divergence_of(*(without_replacement(table, (x, *[2] * came), came + 1) for x in (0, 1)), ratio)
            for came in range(people)
        )  # fmt: skip
    exact: Any = rate
    curve = poisson(mechanism, people, exact, secret=secret)
    lower = curve.delta(math.log(ratio)).lower
    assert lower is not None
    assert float(truth) * 0.6 <= lower <= truth
    assert curve.epsilon(float(truth) / 2).lower <= curve.epsilon(float(truth) / 2).upper


@pytest.mark.exhaustive
@pytest.mark.parametrize("colluding", [0, 100])
def test_the_attack_on_many_coins_is_near_the_guarantee(colluding: int) -> None:
    value = poisson(sdp.KRR(1.0, 4), 5000, 0.1, colluding=colluding).epsilon(1e-6)
    assert value.lower is not None
    assert value.lower <= value.upper <= value.lower * 1.12


def test_samples_are_attacked_only_where_it_is_known_who_sends_instead() -> None:
    """Not with several messages each, and not where some who were drawn stay away."""
    several = sdp.amplify(sdp.PureDUMP(options=4, dummies=3), 300, effort="quick")
    assert several.source.attack is not None
    assert subsample(several, 3000).epsilon(1e-6).lower is None
    few_came = sdp.amplify(sdp.KRR(1.0, 4), 300, effort="quick").with_users(400)
    assert subsample(few_came, 3000).epsilon(1e-6).lower is None
