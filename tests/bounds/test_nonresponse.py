"""Samples of which some stay away: every response behaviour by enumeration, an attack, and the limits of the curve."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.bounds.participation import Participation
from shuffledp.bounds.subsampling import NonresponseCurve, nonresponse, poisson, round_failure
from shuffledp.privacy.curve import PrivacyCurve

KEEP = Fraction(3, 4)
TABLE = sdp.FromTable([[0.75, 0.25], [0.25, 0.75]])
COINS, FIXED = Fraction(1, 3), 3
PEOPLE = 5


def ones_sent(zeros: int, ones: int) -> list[Fraction]:
    """The law of how many ones are sent by users with these values, each kept with probability 3/4."""
    law = [Fraction(1)]
    for chance in [1 - KEEP] * zeros + [KEEP] * ones:
        law = [
            (law[k] if k < len(law) else 0) * (1 - chance) + (law[k - 1] * chance if k else 0)
            for k in range(len(law) + 1)
        ]
    return law


@cache
def release(value: int, others: tuple[int, int], came: int) -> list[Fraction]:
    """The law of the ones among the messages of a uniform subset of ``came`` out of one person and the others."""
    zeros, ones = others
    total = zeros + ones + 1
    law = [Fraction(0)] * (came + 1)
    for victim, some in product(range(2), range(zeros + 1)):
        rest = came - victim - some
        if not 0 <= rest <= ones:
            continue
        chance = Fraction(comb(zeros, some) * comb(ones, rest), comb(total, came))
        sent = ones_sent(some + victim * (1 - value), rest + victim * value)
        law = [known + chance * new for known, new in zip(law, sent, strict=True)]
    return law


def divergence(others: tuple[int, int], came: int, factor: Fraction) -> Fraction:
    """The hockey-stick divergence of both directions between the two values of one person."""
    one, two = (release(value, others, came) for value in (0, 1))
    pairs = list(zip(one, two, strict=True))
    return max(sum(max(a - factor * b, Fraction(0)) for a, b in some) for some in (pairs, [(b, a) for a, b in pairs]))


def chance_of(came: int, respondents: int, drawn: Fraction | int, people: int) -> Fraction:
    """How probably so many of the potential respondents are drawn."""
    if isinstance(drawn, Fraction):
        return comb(respondents, came) * drawn**came * (1 - drawn) ** (respondents - came)
    if drawn - came > people - respondents or came > drawn:
        return Fraction(0)
    return Fraction(comb(respondents, came) * comb(people - respondents, drawn - came), comb(people, drawn))


def datasets(respondents: int) -> Iterator[tuple[int, int]]:
    return ((zeros, respondents - 1 - zeros) for zeros in range(respondents))


def at_most(curve: PrivacyCurve, delta: float) -> Fraction:
    """A number just below e^ε of the curve, at which a divergence is a little more."""
    epsilon = curve.epsilon(delta).upper
    return Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**12)) if math.isfinite(epsilon) else Fraction(10**12)


@cache
def curve_of(came: int, drawn: Fraction | int, failure: float, colluding: int = 0) -> PrivacyCurve:
    how = {"rate": drawn} if isinstance(drawn, Fraction) else {"drawn": drawn}
    return nonresponse(TABLE, came, PEOPLE, failure=failure, colluding=colluding, up_to=0.3, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("drawn", [COINS, FIXED, 2])
@pytest.mark.parametrize("delta", [0.3, 0.1, 0.02])
def test_the_promise_holds_whoever_would_respond(drawn: Fraction | int, delta: float) -> None:
    """On average over how many come, for every number of people who would, and every dataset of theirs."""
    failure = round_failure(delta, 1)
    found = Fraction(0)
    for respondents in range(1, PEOPLE + 1):
        for others in datasets(respondents):
            total = sum(
                chance_of(came, respondents, drawn, PEOPLE)
                * divergence(others, came, at_most(curve_of(came, drawn, failure), delta))
                for came in range(1, respondents + 1)
                if chance_of(came, respondents, drawn, PEOPLE)
            )
            assert total <= delta
            found = max(found, total)
    assert found > 0


@pytest.mark.parametrize("drawn", [COINS, FIXED])
def test_the_promise_holds_if_somebody_tells_whether_they_were_drawn(drawn: Fraction | int) -> None:
    """One colluder, who responds or not: given what they know, the others are drawn alike."""
    delta = 0.1
    failure, honest = round_failure(delta, 1), PEOPLE - 1
    for respondents, is_drawn, responds in product(range(1, honest + 1), range(2), range(2)):
        left = drawn if isinstance(drawn, Fraction) else drawn - is_drawn
        beside = is_drawn * responds
        for others in datasets(respondents):
            total = sum(
                chance_of(came, respondents, left, honest)
                * divergence(others, came, at_most(curve_of(came + beside, drawn, failure, 1), delta))
                for came in range(1, respondents + 1)
                if chance_of(came, respondents, left, honest) and came + beside > 1
            )
            assert total <= delta


def product_divergence(rounds: list[tuple[tuple[int, int], int]], factor: Fraction) -> Fraction:
    """The divergence of several independent rounds of the same person, from the others' values and who came in each."""
    one, two = (
        [math.prod(cell) for cell in product(*(release(value, others, came) for others, came in rounds))]
        for value in (0, 1)
    )
    return sum((max(a - factor * b, Fraction(0)) for a, b in zip(one, two, strict=True)), Fraction(0))


@pytest.mark.parametrize("respondents", [(1, 2), (2, 3), (3, 3)])
def test_two_rounds_are_composed(respondents: tuple[int, int]) -> None:
    """Each round has its own potential respondents; ε is that of both rounds given who came in each."""
    delta = 0.2
    failure = round_failure(delta, 2)

    def factor(sizes: tuple[int, ...]) -> Fraction:
        curves = [curve_of(came, COINS, failure) for came in sizes if came]
        return at_most(sdp.compose(curves), delta) if curves else Fraction(1)

    sizes = list(product(*(range(count + 1) for count in respondents)))
    factors = {some: factor(some) for some in sizes}
    for others in product(*(datasets(count) for count in respondents)):
        total = sum(
            math.prod(chance_of(came, count, COINS, PEOPLE) for came, count in zip(some, respondents, strict=True))
            * product_divergence([(o, came) for o, came in zip(others, some, strict=True) if came], factors[some])
            for some in sizes
            if any(some)
        )
        assert 0 < total <= delta


def attained(respondents: int, rate: float, epsilon_of: dict[int, float]) -> float:
    """δ of an attack on KRR(1, 2) by somebody who knows who would respond: all others hold the second value."""
    keep = math.e / (1 + math.e)
    total = 0.0
    for came, epsilon in epsilon_of.items():
        chance = comb(respondents, came) * rate**came * (1 - rate) ** (respondents - came)
        ones = np.array([comb(came, k) * keep**k * (1 - keep) ** (came - k) for k in range(came + 1)])
        rest = np.array([comb(came - 1, k) * keep**k * (1 - keep) ** (came - 1 - k) for k in range(came)])
        flipped = np.convolve(rest, [keep, 1 - keep])
        share = came / respondents
        drawn = share * flipped + (1 - share) * ones
        total += chance * float(np.maximum(0.0, drawn - math.exp(epsilon) * ones).sum())
    return total


@pytest.mark.exhaustive("60")
@pytest.mark.parametrize("respondents", [1, 10, 60])
def test_an_attack_that_breaks_the_planned_coins_does_not_break_this(respondents: int) -> None:
    """36 of 360 people are expected and far fewer would come: at the plan's ε an attacker has far more than δ."""
    mechanism, delta = sdp.KRR(1.0, 2), 1e-6
    sizes = [m for m in range(1, respondents + 1) if comb(respondents, m) * 0.1**m * 0.9 ** (respondents - m) > 1e-12]
    planned = poisson(mechanism, 360, 0.1, bound="optimal").epsilon(delta).upper
    assert attained(respondents, 0.1, dict.fromkeys(sizes, planned)) > 20 * delta
    given = {
        m: nonresponse(mechanism, m, 360, rate=COINS * 3 / 10, failure=round_failure(delta, 1), bound="optimal")
        .epsilon(delta).upper
        for m in sizes
    }  # fmt: skip
    assert attained(respondents, 0.1, given) < delta


@pytest.mark.exhaustive("how2", "how6")
@pytest.mark.parametrize(("came", "of", "how", "most"), [
    (1, 360, {"rate": Fraction(1, 10)}, 1.0),
    (36, 360, {"rate": Fraction(1, 10)}, 0.1026),
    (40, 1_000, {"rate": Fraction(1, 10)}, 0.0936),
    (820, 10_000, {"rate": Fraction(1, 10)}, 0.0120),
    (9_450, 100_000, {"rate": Fraction(1, 10)}, 0.00300),
    (35, 2_000, {"drawn": 200}, 0.1019),
    (200, 2_000, {"drawn": 200}, 0.02735),
])  # fmt: skip
def test_how_sharp_it_is(came: int, of: int, how: dict[str, int], most: float) -> None:
    """KRR(1, 4) at δ = 1e-6: above the share of all people, which is no proof, and below what is known of who came."""
    mechanism = sdp.KRR(1.0, 4)
    curve = nonresponse(mechanism, came, of, failure=round_failure(1e-6, 1), effort="quick", **how)  # type: ignore[arg-type]
    found = curve.epsilon(1e-6)
    known = sdp.amplify(mechanism, came, effort="quick")
    assert found.certified
    assert sdp.subsample(known, of).epsilon(1e-6).upper < found.upper <= most
    assert found.upper <= known.epsilon(0.4e-6).upper


def test_the_curve() -> None:
    """It falls towards its failure probability, below which nothing is promised; rounds are composed with it."""
    failure = round_failure(1e-6, 10)
    curve = nonresponse(sdp.KRR(1.0, 4), 300, 5_000, rate=Fraction(1, 10), failure=failure)
    assert isinstance(curve, NonresponseCurve)
    points = curve.profile(np.linspace(0.0, 1.2, 60))
    assert (np.diff(points.upper) <= 0).all()
    assert (points.lower <= points.upper).all()
    assert failure <= points.upper[-1] < failure * (1 + 1e-9)
    assert math.isinf(curve.epsilon(failure * 0.99).upper)
    value = curve.epsilon(1e-6)
    assert curve.delta(value.upper).upper <= 1e-6
    ten = sdp.compose(curve, 10).epsilon(1e-6).upper
    assert value.upper < ten < 10 * value.upper
    with pytest.raises(ValueError, match="expected drawn or rate, got neither"):
        nonresponse(sdp.KRR(1.0, 4), 30, 500, failure=1e-7)


def test_more_people_than_were_drawn_are_no_sample() -> None:
    """The function refuses them; a schedule counts them as people who are known."""
    with pytest.raises(ValueError, match="came must be at most the 200 people who can have been drawn, got 210"):
        nonresponse(sdp.KRR(1.0, 4), 210, 2_000, drawn=200, failure=5e-7)
    assert Participation(200, 2_000).with_respondents(210, 1e-6) == Participation(210)
    assert Participation(200, 2_000).with_respondents(150, 0.01) == Participation(150)
    few = Participation(200, 2_000, rounds=5).with_respondents(150, 1e-6)
    assert (few.came, few.failure, few.participants, few.expected_users) == (150, 1e-7, 150, 200)
