"""Several queries at once: brute force over all datasets, exact statistics, sentences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms import catalogue

Law = dict[tuple[int, ...], Fraction]
"""How probable each count of messages is."""
EPSILONS = (0.05, 0.4, 1.0)


def response(options: int, keep: Fraction) -> list[list[Fraction]]:
    """Randomized response by hand: one row per value."""
    other = (1 - keep) / (options - 1)
    return [[keep if x == y else other for y in range(options)] for x in range(options)]


def added(first: Law, second: Law) -> Law:
    result: Law = {}
    for (a, p), (b, q) in itertools.product(first.items(), second.items()):
        key = tuple(x + y for x, y in zip(a, b, strict=True))
        result[key] = result.get(key, Fraction(0)) + p * q
    return result


def counted(rows: Iterable[Sequence[Fraction]]) -> Law:
    """The law of how often each message is there, where each row is the law of one message."""
    total: Law | None = None
    for row in rows:
        one = {tuple(int(k == y) for k in range(len(row))): p for y, p in enumerate(row)}
        total = one if total is None else added(total, one)
    assert total is not None
    return total


def product(parts: Sequence[Law]) -> Law:
    result: Law = {(): Fraction(1)}
    for part in parts:
        result = {a + b: p * q for (a, p), (b, q) in itertools.product(result.items(), part.items())}
    return result


def excess(first: Law, second: Law, epsilon: float) -> float:
    """δ of one direction."""
    ratio = math.exp(epsilon)
    return math.fsum(max(0.0, float(p) - ratio * float(second.get(key, 0))) for key, p in first.items())


def worst_answered(tables: Sequence[list[list[Fraction]]], users: int, epsilon: float) -> float:
    """Every question answered by everybody: over all rows of the victim, before and after, and of all others."""
    worst = 0.0
    laws = [
        {
            (own, others): counted([table[own], *(table[x] for x in others)])
            for own in range(len(table))
            for others in itertools.combinations_with_replacement(range(len(table)), users - 1)
        }
        for table in tables
    ]
    every = [itertools.combinations_with_replacement(range(len(table)), users - 1) for table in tables]
    rows = list(itertools.product(*(range(len(table)) for table in tables)))
    for others in itertools.product(*every):
        joint = {row: product([law[x, y] for law, x, y in zip(laws, row, others, strict=True)]) for row in rows}
        worst = max([worst, *(excess(joint[a], joint[b], epsilon) for a, b in itertools.permutations(rows, 2))])
    return worst


def worst_sampled(
    tables: Sequence[list[list[Fraction]]], shares: Sequence[Fraction], users: int, epsilon: float
) -> float:
    """One question drawn by each user: a message names its question."""
    rows = list(itertools.product(*(range(len(table)) for table in tables)))
    laws = [[share * p for table, share, x in zip(tables, shares, row, strict=True) for p in table[x]] for row in rows]
    worst = 0.0
    for others in itertools.combinations_with_replacement(laws, users - 1):
        found = [counted([own, *others]) for own in laws]
        worst = max([worst, *(excess(a, b, epsilon) for a, b in itertools.permutations(found, 2))])
    return worst


def tables_of(parts: Sequence[sdp.Mechanism]) -> list[list[list[Fraction]]]:
    """The laws of randomized responses, from ε alone."""
    return [response(one.options, one.estimator.true_support) for one in parts if isinstance(one, sdp.KRR)]


TWO = [sdp.KRR(0.7, 2), sdp.KRR(1.2, 3)]
THREE = [sdp.KRR(0.7, 2), sdp.KRR(1.5, 2), sdp.KRR(0.4, 2)]


@pytest.mark.parametrize(("parts", "users"), [(TWO, 2), (TWO, 3), (THREE, 2), (THREE, 3)])
def test_no_dataset_of_all_answered_tells_more(parts: Sequence[sdp.Mechanism], users: int) -> None:
    curve = sdp.amplify(sdp.AllAnswered(parts), users, effort="quick")
    for epsilon in EPSILONS:
        assert curve.delta(epsilon).upper >= worst_answered(tables_of(parts), users, epsilon) * (1 - 1e-9)


@pytest.mark.exhaustive("parts3")
@pytest.mark.parametrize(("parts", "users"), [(TWO, 2), (TWO, 3), (THREE, 2), (THREE, 3)])
def test_no_dataset_of_a_drawn_question_tells_more(parts: Sequence[sdp.Mechanism], users: int) -> None:
    shares = [Fraction(k + 1) for k in range(len(parts))]
    shares = [share / sum(shares) for share in shares]
    curve = sdp.amplify(sdp.Parallel(parts, shares), users, effort="quick")
    for epsilon in EPSILONS:
        assert curve.delta(epsilon).upper >= worst_sampled(tables_of(parts), shares, users, epsilon) * (1 - 1e-9)


def test_dummies_beside_responses() -> None:
    """A question whose users send the truth and uniform dummies, beside one of randomized response."""
    dummies, users = 2, 3
    made = sdp.AllAnswered([sdp.PureDUMP(2, dummies), sdp.KRR(1.0, 2)])
    curve = sdp.amplify(made, users, effort="quick")
    half = [Fraction(1, 2)] * 2
    table = tables_of(made.mechanisms)[0]
    for epsilon in EPSILONS:
        worst = 0.0
        for a, b in itertools.product(itertools.product((0, 1), repeat=users - 1), repeat=2):
            joint = {
                (x, y): product(
                    [
                        counted([[Fraction(int(k == v)) for k in (0, 1)] for v in (x, *a)] + [half] * dummies * users),
                        counted([table[v] for v in (y, *b)]),
                    ]
                )
                for x, y in itertools.product((0, 1), repeat=2)
            }
            worst = max([worst, *(excess(p, q, epsilon) for p, q in itertools.permutations(joint.values(), 2))])
        assert 0 < worst <= curve.delta(epsilon).upper * (1 + 1e-9)


def test_the_same_question_many_times_is_that_many_rounds() -> None:
    dump = sdp.PoissonDUMP(options=8, mean=200.0, honest=2000)
    once = sdp.amplify(dump, 2000)
    many = sdp.amplify(sdp.AllAnswered([dump] * 5), 2000)
    ours, theirs = many.epsilon(1e-6).upper, sdp.compose(once, 5).epsilon(1e-6).upper
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_one_question_is_the_mechanism_itself() -> None:
    alone = sdp.amplify(sdp.KRR(2.0, 2), 50, effort="quick").epsilon(1e-2).upper
    assert sdp.amplify(sdp.AllAnswered([sdp.KRR(2.0, 2)]), 50, effort="quick").epsilon(1e-2).upper == alone


def test_whoever_colludes_hides_nobody_in_any_question() -> None:
    made = sdp.AllAnswered([sdp.PoissonDUMP(8, 200.0, honest=2000), sdp.PoissonDUMP(3, 100.0, honest=1000)])
    lost = sdp.amplify(made, 500, colluding=100).epsilon(1e-5).upper
    assert lost == sdp.amplify(made, 400).epsilon(1e-5).upper > sdp.amplify(made, 500).epsilon(1e-5).upper


def test_whole_numbers_are_added_up_exactly() -> None:
    """Of whole numbers alone, and beside another question's: what is read is what each mechanism reads by itself."""
    rng = np.random.default_rng(4)
    parts = [sdp.KRR(1.0, 3), sdp.SplitAndMix.examples()[0], sdp.Piecewise(1.0)]
    columns = [rng.integers(0, 3, 500), rng.random(500), rng.uniform(-1, 1, 500)]
    made = sdp.AllAnswered(parts)
    messages = made.encode(columns, rng)
    found = made.queries(made.estimate(messages, users=500))
    for number, (part, one) in enumerate(zip(parts, found, strict=True)):
        own = made.encoding.decode_query(number, messages[messages[:, 0] == number])
        alone = part.estimate(own, users=500)
        assert one.value.tolist() == alone.value.tolist()
        assert one.variance.tolist() == alone.variance.tolist()
        assert one.error_law == alone.error_law


def test_it_is_written_down_and_read() -> None:
    for made in (*sdp.AllAnswered.examples(), *sdp.Parallel.examples()):
        assert catalogue.from_document(made.to_document()) == made


@pytest.mark.parametrize("name", ["all-answered", "parallel"])
@pytest.mark.parametrize("given", [None, "krr", 3, ["krr"], [{"epsilon": 1.0}], []])
def test_mechanisms_that_are_none(name: str, given: object) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        catalogue.build(name, None, {"mechanisms": given})
    assert str(caught.value).count(".") == 1 or "1.0" in str(caught.value)


def test_a_drawn_question_sends_one_message() -> None:
    with pytest.raises(ValueError, match=r"must send one message a user.*AllAnswered has less error"):
        sdp.Parallel([sdp.KRR(1.0, 2), sdp.PureDUMP(2, 3)])
    for wrong in ([], ["krr"], 3):
        with pytest.raises((ValueError, TypeError), match="AllAnswered: expected"):
            sdp.AllAnswered(wrong)  # type: ignore[arg-type]


def test_a_local_promise_is_the_sum() -> None:
    assert sdp.AllAnswered([sdp.KRR(1.0, 2), sdp.KRR(0.5, 3)]).local_epsilon == 1.5
    assert sdp.AllAnswered([sdp.KRR(1.0, 2), sdp.PureDUMP(2, 3)]).local_epsilon is None


def test_a_scaled_estimate_has_the_intervals_of_its_queries() -> None:
    """The error law of all queries in one row is scaled part by part."""
    several = sdp.AllAnswered([sdp.KRR(1.0, 3), sdp.KRR(2.0, 4)])
    values = np.stack([np.arange(200) % 3, np.arange(200) % 4], axis=1)
    found = several.estimate(several.encode(values, np.random.default_rng(1)), users=200)
    one_by_one = [one.transform(1 / 200).interval() for one in several.queries(found)]
    for end, limits in enumerate(found.transform(1 / 200).interval()):
        assert limits.tolist() == np.concatenate([one[end] for one in one_by_one]).tolist()
