"""``Participation``: what it takes, what it says, and its curves against every sample, dataset and coin, exactly."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import shuffledp as sdp
from shuffledp.bounds.participation import Participation, format_rate, parse_rate

RATIO = 3
MECHANISM = sdp.KRR(epsilon=math.log(RATIO), options=2)
LIE = Fraction(1, RATIO + 1)
Law = dict[Any, Fraction]


def messages(values: tuple[int, ...]) -> Law:
    """How many ones are sent, each value turned over with probability 1/4; and how many messages there are."""
    law: Law = {(0, 0): Fraction(1)}
    for value in values:
        after: Law = defaultdict(Fraction)
        for (ones, sent), chance in law.items():
            one = 1 - LIE if value else LIE
            after[ones + 1, sent + 1] += chance * one
            after[ones, sent + 1] += chance * (1 - one)
        law = after
    return law


def sampled(data: tuple[int, ...], weights: dict[tuple[int, ...], Fraction], *, known: bool) -> Law:
    """The law of the messages over all samples, each a tuple of people; with the sample, where it is known."""
    law: Law = defaultdict(Fraction)
    for sample, weight in weights.items():
        for seen, chance in messages(tuple(data[person] for person in sample)).items():
            law[(sample, seen) if known else seen] += weight * chance
    return law


def weights_of(schedule: Participation) -> dict[tuple[int, ...], Fraction]:
    people = range(schedule.of or 0)
    if schedule.rate is None:
        samples = list(itertools.combinations(people, schedule.expected_users))
        return dict.fromkeys(samples, Fraction(1, len(samples)))
    each = schedule.rate
    return {
        sample: each**size * (1 - each) ** (len(people) - size)
        for size in range(len(people) + 1)
        for sample in itertools.combinations(people, size)
    }


def rounds_of(law: Law, rounds: int) -> Law:
    result: Law = {(): Fraction(1)}
    for _ in range(rounds):
        result = {(*before, seen): a * b for before, a in result.items() for seen, b in law.items()}
    return result


def worst(schedule: Participation, factor: Fraction, *, known: bool = False) -> Fraction:
    """The largest divergence D_factor over all data of neighbours, person 0 the one who differs."""
    weights, found = weights_of(schedule), Fraction(0)
    if known:
        # Of a person who was drawn: the promise to one who was not is better.
        weights = {sample: weight for sample, weight in weights.items() if 0 in sample}
        total = sum(weights.values())
        weights = {sample: weight / total for sample, weight in weights.items()}
    for others in itertools.combinations_with_replacement(range(2), (schedule.of or 1) - 1):
        laws = [rounds_of(sampled((x, *others), weights, known=known), schedule.rounds) for x in (0, 1)]
        for one, other in (laws, laws[::-1]):
            gain = sum((max(Fraction(0), p - factor * other.get(seen, 0)) for seen, p in one.items()), Fraction(0))
            found = max(found, gain)
    return found


@pytest.mark.parametrize(
    "schedule",
    [
        Participation(2, 4),
        Participation(2, 4, rounds=2),
        Participation(3, 4),
        Participation(of=4, rate=Fraction(1, 2)),
        Participation(of=4, rate=Fraction(1, 4), rounds=2),
        Participation(of=3, rate=Fraction(4, 5)),
    ],
    ids=str,
)
def test_every_small_case_is_covered(schedule: Participation) -> None:
    """Brute force over all samples and datasets in exact fractions: the curves are above, secret or known."""
    secret, known = (make(MECHANISM, effort="quick") for make in (schedule.curve, schedule.disclosed_sample_curve))
    for factor in (Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(5, 2)):
        # The next float below: a smaller ε has a larger δ.
        epsilon = max(0.0, math.log(factor) - 1e-15)
        for curve, is_known in ((secret, False), (known, True)):
            truth, value = worst(schedule, factor, known=is_known), curve.delta(epsilon).upper
            assert truth <= Fraction(value) * (1 + Fraction(1, 10**9))
            assert truth <= Fraction(float(curve.profile([epsilon]).upper[0])) * (1 + Fraction(1, 10**9))


def test_the_oracle_is_near() -> None:
    """Without sampling and rounds the curve of randomized response is exact, so that the comparison means something."""
    truth = worst(Participation(3, 3), Fraction(1))
    assert Participation(3).curve(MECHANISM).delta(0.0).upper == pytest.approx(float(truth), rel=1e-6)
    sample = worst(Participation(2, 4), Fraction(1))
    assert Participation(2, 4).curve(MECHANISM).delta(0.0).upper <= 1.5 * float(sample)


@pytest.mark.exhaustive
def test_rounds_and_samples_are_those_of_the_functions() -> None:
    """Fixed samples by ``subsample``, coins by ``poisson``, rounds by ``compose``."""
    mechanism = sdp.KRR(1.0, 8)
    once = sdp.amplify(mechanism, 500, effort="quick")
    assert Participation(500).curve(mechanism, effort="quick").epsilon(1e-6).upper == once.epsilon(1e-6).upper
    expected = sdp.compose(sdp.subsample(once, 5000), 3).epsilon(1e-6).upper
    assert Participation(500, 5000, rounds=3).curve(mechanism, effort="quick").epsilon(1e-6).upper == expected
    known = Participation(500, 5000, rounds=3).disclosed_sample_curve(mechanism, effort="quick").epsilon(1e-6).upper
    assert known == sdp.compose(once, 3).epsilon(1e-6).upper
    coins = sdp.poisson(mechanism, 5000, Fraction(1, 10), colluding=50)  # type: ignore[arg-type]
    assert Participation(of=5000, rate="10%").curve(mechanism, colluding=50, effort="quick").epsilon(1e-6).upper == (  # type: ignore[arg-type]
        coins.epsilon(1e-6).upper
    )
    assert coins.delta(0.01).upper >= sdp.poisson(mechanism, 4950, Fraction(1, 10)).delta(0.01).upper  # type: ignore[arg-type]


def test_colluding_people_toss_no_coin_that_hides() -> None:
    """K of N people collude: what is left is the coins of the others."""
    mechanism = sdp.KRR(1.0, 8)
    assert sdp.poisson(mechanism, 1000, 0.1, colluding=200).delta(0.02).upper == pytest.approx(
        sdp.poisson(mechanism, 800, 0.1).delta(0.02).upper, rel=1e-12
    )
    with pytest.raises(ValueError, match="colluding must be below population = 10, got 10"):
        sdp.poisson(mechanism, 10, 0.5, colluding=10)


@pytest.mark.parametrize("given", ["2%", "0.02", 0.02, Decimal("0.02"), Fraction(1, 50), " 2 %".replace(" ", "")])
def test_a_rate_is_the_decimal_that_is_written(given: Any) -> None:
    """Exactly, whatever its type."""
    assert parse_rate("x", given) == Fraction(1, 50)
    assert format_rate(parse_rate("x", given)) == "0.02"
    assert Participation(of=5_000_000, rate=given).expected_users == 100_000


def test_told_and_read_again() -> None:
    """What JSON, plans and ledgers hold is enough."""
    for schedule in (Participation(5), Participation(5, 9, rounds=3), Participation(of=90, rate="12.5%", rounds=2)):  # type: ignore[arg-type]
        document = {"users": schedule.expected_users, **schedule.to_document()}
        assert Participation.from_document(document) == schedule
    assert Participation(5, 5).sampling_document() == {}
    assert Participation(5, 9).sampling_document() == {"of": 9}
    assert Participation(of=90, rate="12.5%").sampling_document() == {"of": 90, "rate": "0.125"}  # type: ignore[arg-type]


def test_fewer_keep_the_share() -> None:
    """If some do not answer, as large a part of those who were not drawn would not either."""
    assert Participation(100, 1000).scaled_to(50) == Participation(50, 500)
    assert Participation(100, 1000).scaled_to(200) == Participation(200, 1000)
    assert Participation(100).scaled_to(50) == Participation(50)
    assert Participation(of=1000, rate="0.1").scaled_to(50) == Participation(of=500, rate="0.1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "expected users, or of and rate, got neither"),
        ({"users": 0}, "users must be at least 1"),
        ({"users": 5, "of": 4}, "of must be at least the 5 users who are drawn, got 4"),
        ({"rate": "2%"}, "rate needs of"),
        ({"users": 5, "of": 40, "rate": "2%"}, "give users or rate, not both"),
        ({"of": 4, "rate": "2%"}, "of times rate must be at least 1 person a round, got 0.08"),
        ({"of": 4, "rate": 2}, "rate must be above 0 and at most 1, got 2"),
        ({"of": 4, "rate": "few"}, "rate must be a number such as 2% or 0.02, got 'few'"),
        ({"of": 4, "rate": Fraction(1, 3)}, "rate must be a decimal of at most 18 digits"),
        ({"users": 5, "rounds": 0}, "rounds must be at least 1"),
    ],
)
def test_nonsense_is_refused(given: dict[str, Any], sentence: str) -> None:
    """One sentence for each."""
    with pytest.raises((ValueError, TypeError), match=f"Participation: {sentence}"):
        Participation(**given)
