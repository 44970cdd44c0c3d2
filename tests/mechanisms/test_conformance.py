"""One suite that every mechanism of the catalogue must pass, on its own small examples.

The output table of an example is exact, so privacy and estimators are checked exactly (as fractions, or to rounding).
Statistical are only the test that ``encode`` follows the table and, for mechanisms whose law cannot be written down as
a table, the test of mean and variance: each raises a false alarm with probability at most 1e-7; with a few hundred of
them, and fixed seeds, the suite as a whole stays below 1e-4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.mechanisms.mechanism import HidingTable, Mechanism, OutputTable
from shuffledp.numerics.expectation import PositivePartMean
from tests.oracle import exact, reports

FALSE_ALARM = 1e-7
SAMPLES = 20_000


def _cases() -> Iterator[Any]:
    for name, kind in all_mechanisms().items():
        for number, example in enumerate(kind.examples()):
            yield pytest.param(example, id=f"{name}-{number}")


CASES = list(_cases())
TABLES = [case for case in CASES if case.values[0].has_table]
every_example = pytest.mark.parametrize("mechanism", CASES)
every_table = pytest.mark.parametrize("mechanism", TABLES)
every_other = pytest.mark.parametrize("mechanism", [case for case in CASES if case not in TABLES])


@cache
def table_of(mechanism: Mechanism) -> OutputTable:
    return mechanism.table()


@cache
def values_of(mechanism: Mechanism) -> Any:
    """A few inputs."""
    return table_of(mechanism).inputs if mechanism.has_table else mechanism.probe()


@cache
def some_messages(mechanism: Mechanism) -> Any:
    """All messages, or else a few that were sent."""
    if mechanism.has_table:
        return messages_of(mechanism, table_of(mechanism).messages)
    return mechanism.encode(np.repeat(mechanism.probe(), 8, axis=0), rng=np.random.default_rng(3))


def rows_of(mechanism: Mechanism) -> tuple[tuple[Fraction, ...], ...]:
    return table_of(mechanism).probabilities


@cache
def hiding_of(mechanism: Mechanism) -> HidingTable:
    return mechanism.hiding_table()


def input_pairs(mechanism: Mechanism) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(hiding_of(mechanism).rows)), 2))


def messages_of(mechanism: Mechanism, reports: Any) -> Any:
    """Reports as messages, those of a user next to each other."""
    return reports if mechanism.messages_per_user == 1 else reports.reshape(-1, *reports.shape[2:])


def largest_ratio(first: tuple[Fraction, ...], second: tuple[Fraction, ...]) -> Fraction:
    """Largest ratio, with 0/0 left out; a positive entry against 0 fails the caller's comparison loudly."""
    assert all(b > 0 for a, b in zip(first, second, strict=True) if a > 0)
    return max(a / b for a, b in zip(first, second, strict=True) if a > 0)


def total_variation(first: tuple[Fraction, ...], second: tuple[Fraction, ...]) -> Fraction:
    return sum((max(a - b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))


@every_table
def test_the_output_law_is_normalised(mechanism: Mechanism) -> None:
    """Every row of the table is a distribution, exactly."""
    for row in rows_of(mechanism):
        assert sum(row) == 1
        assert min(row) >= 0


@every_table
def test_the_local_guarantee_holds_exactly(mechanism: Mechanism) -> None:
    """No ratio of the executed law exceeds e^epsilon; only what hides among dummies promises nothing by itself."""
    rows = rows_of(mechanism)
    if mechanism.local_epsilon is None:
        assert mechanism.messages_per_user > 1
        assert "epsilon" not in mechanism.settings()
        return
    if np.isinf(mechanism.local_epsilon):
        pytest.fail("examples must have a finite local guarantee")
    with ctx.workprec(256):
        limit = arb(mechanism.local_epsilon).exp()
        for a, b in itertools.permutations(rows, 2):
            ratio = largest_ratio(a, b)
            assert arb(ratio.numerator) / ratio.denominator <= limit * (1 + arb(2) ** -150)


@every_table
def test_ratio_and_total_variation_are_what_the_parameters_say(mechanism: Mechanism) -> None:
    """p and beta hold for every pair of inputs, and some pair attains beta."""
    parameters = mechanism.variation_ratio()
    rows = hiding_of(mechanism).rows
    variations = [total_variation(rows[a], rows[b]) for a, b in input_pairs(mechanism)]
    for a, b in itertools.permutations(range(len(rows)), 2):
        assert np.isinf(parameters.p) or largest_ratio(rows[a], rows[b]) <= Fraction(parameters.p)
    assert max(variations) <= Fraction(parameters.beta)
    assert not mechanism.law.tight or float(max(variations)) >= parameters.beta * (1 - 1e-9)


@every_table
def test_the_others_contain_the_decomposition(mechanism: Mechanism) -> None:
    """R_i ≥ r0·Q0 + r1·Q1 + (γ/q_common)·Q_c pointwise, for every pair of inputs and all that hides it, exactly.

    Either input may be the one that q0 is for, as both directions are always taken.
    """
    parameters = mechanism.variation_ratio()
    q_pair = tuple(map(Fraction, parameters.q_pair))
    q_common = max(q_pair) if parameters.q_common is None else Fraction(parameters.q_common)
    # α and pα per unit of |x − y|.
    unlikely = Fraction(0) if np.isinf(parameters.p) else 1 / (Fraction(parameters.p) - 1)
    likely = 1 + unlikely
    table = hiding_of(mechanism)
    for a, b in input_pairs(mechanism):
        columns = list(zip(table.rows[a], table.rows[b], table.floor, strict=True))
        assert all(min(x, y) >= unlikely * abs(x - y) for x, y, _ in columns)
        holds = [
            all(
                floor >= likely * abs(x - y) / (q0 if x > y else q1) + (min(x, y) - unlikely * abs(x - y)) / q_common
                for x, y, floor in columns
            )
            for q0, q1 in (q_pair, q_pair[::-1])
        ]
        assert any(holds)


@every_table
def test_the_blanket_covers_the_worst_pair_and_no_more(mechanism: Mechanism) -> None:
    """The blankets' divergence is at least that of every pair's own blanket, with equality for the worst one."""
    for users, ratio in ((1, Fraction(11, 10)), (2, Fraction(5, 4)), (3, Fraction(21, 20))):
        truth = max(_blanket_divergence(mechanism, a, b, users, ratio) for a, b in input_pairs(mechanism))
        epsilon = float(np.log(float(ratio)))
        claimed = 0.0
        for pair in mechanism.blankets():
            for way in (pair, pair.swapped()):
                family = PositivePartMean(way.law, users)
                claimed = max(claimed, family.bracket(epsilon).upper_float())
        assert claimed >= float(truth) - 1e-12
        assert not mechanism.law.tight or claimed <= float(truth) * (1 + 1e-6) + 1e-12


def _blanket_divergence(mechanism: Mechanism, a: int, b: int, users: int, ratio: Fraction) -> Fraction:
    """Both directions of (1/n)·E(ΣG)_+ for one pair, from the table alone; equal values of G are merged first."""
    rows, floor = hiding_of(mechanism).rows, hiding_of(mechanism).floor
    worst = Fraction(0)
    for first, second in ((rows[a], rows[b]), (rows[b], rows[a])):
        weights: dict[Fraction, Fraction] = {}
        for x, y, w in zip(first, second, floor, strict=True):
            if w > 0:
                value = (x - ratio * y) / w
                weights[value] = weights.get(value, Fraction(0)) + w
        rest = 1 - sum(weights.values())
        weights[Fraction(0)] = weights.get(Fraction(0), Fraction(0)) + rest
        values = [value for value, weight in weights.items() if weight]
        mean = exact.positive_part_mean(values, [weights[value] for value in values], users)
        worst = max(worst, mean / users)
    return worst


@every_table
def test_encode_follows_the_table(mechanism: Mechanism) -> None:
    """The empirical law of the messages fits the table for every input (chi-square), and no other message appears."""
    from scipy.stats import chi2

    table = table_of(mechanism)
    wire = mechanism.pack(messages_of(mechanism, table.messages)).reshape(len(table.messages), -1)
    columns = {bytes(row): number for number, row in enumerate(wire)}
    assert len(columns) == len(table.messages)
    generator = np.random.default_rng(20_240_001)
    for value, row in zip(table.inputs, table.probabilities, strict=True):
        messages = mechanism.encode(np.repeat(value[None, ...], SAMPLES, axis=0), rng=generator)
        seen = np.zeros(len(columns))
        assert len(messages) == SAMPLES * mechanism.messages_per_user
        kinds, counts = np.unique(mechanism.pack(messages).reshape(SAMPLES, -1), axis=0, return_counts=True)
        for kind, count in zip(kinds, counts, strict=True):
            seen[columns[bytes(kind)]] = count
        expected = np.array([float(chance) for chance in row]) * SAMPLES
        assert (seen[expected == 0] == 0).all()
        rare = expected < 5
        observed = np.append(seen[~rare], seen[rare].sum())
        wanted = np.append(expected[~rare], expected[rare].sum())
        keep = wanted > 0
        statistic = float(((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum())
        assert statistic <= chi2.isf(FALSE_ALARM, max(1, keep.sum() - 1))


@every_table
def test_the_estimate_is_unbiased_with_the_stated_variance(mechanism: Mechanism) -> None:
    """For one user, and for two, mean and variance of the estimate over the exact law are as stated."""
    table = table_of(mechanism)

    def estimated(places: list[int]) -> Any:
        return mechanism.estimate(messages_of(mechanism, table.messages[places])).value

    singles = np.array([estimated([k]) for k in range(len(table.messages))])
    for value, row in zip(table.inputs, table.probabilities, strict=True):
        chances = np.array([float(chance) for chance in row])
        _compare(mechanism, value[None, ...], singles, chances)
    if len(table.messages) <= 60:
        pairs = list(itertools.product(range(len(table.messages)), repeat=2))
        estimates = np.array([estimated(list(pair)) for pair in pairs])
        first, last = table.probabilities[0], table.probabilities[-1]
        chances = np.array([float(first[a] * last[b]) for a, b in pairs])
        _compare(mechanism, table.inputs[[0, -1]], estimates, chances)


@every_other
def test_without_a_table_the_estimate_has_the_stated_mean_and_variance(mechanism: Mechanism) -> None:
    """Means of 100 users, 300 times: each component's mean is near the truth, and its spread is the stated variance.

    The means are nearly normal: their standard score beyond 6, or a sum of 300 squares beyond 1 ± 6·√(2/300), has a
    probability below 1e-8; over all components below 1e-6, and seeds are fixed.
    """
    users, times = 100, 300
    ends = mechanism.probe()
    for values in (ends[:1], ends[1:], np.concatenate([ends[:1], ends.mean(axis=0, keepdims=True) + 0.4 * ends[1:]])):
        crowd = np.resize(values, (users, *values.shape[1:]))
        messages = mechanism.encode(np.tile(crowd, (times, 1)), rng=np.random.default_rng(20_240_002))
        found = np.array([mechanism.estimate(part).value for part in np.split(messages, times)])
        stated = mechanism.variance(crowd)
        score = (found.mean(axis=0) - mechanism.truth(crowd)) / np.sqrt(stated / times)
        assert np.abs(score).max() <= 6
        spread = ((found - mechanism.truth(crowd)) ** 2).mean(axis=0) / stated
        assert np.abs(spread - 1).max() <= 6 * np.sqrt(2 / times)


@every_other
def test_without_a_table_the_parameters_keep_the_promise(mechanism: Mechanism) -> None:
    """The ratio of the parameters, and of the blanket's pair, is at most e^epsilon."""
    with ctx.workprec(256):
        limit = arb(mechanism.epsilon).exp() * (1 + arb(2) ** -50)
        assert arb(mechanism.variation_ratio().p) <= limit
        for pair in mechanism.blankets():
            assert pair.exact is not None
            assert all(arb(a / b) <= limit and arb(b / a) <= limit for a, b, _ in pair.exact if a != 0)
    with pytest.raises(ValueError, match=rf"^{type(mechanism).__name__}: .* as a table\.$"):
        mechanism.table()


def _compare(mechanism: Mechanism, values: Any, estimates: Any, chances: Any) -> None:
    mean = np.tensordot(chances, estimates, axes=1)
    spread = np.tensordot(chances, (estimates - mean) ** 2, axes=1)
    scale = max(1.0, float(np.abs(estimates).max()))
    np.testing.assert_allclose(mean, mechanism.truth(values), rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(spread, mechanism.variance(values), rtol=1e-8, atol=1e-9 * scale**2)


@every_example
def test_messages_survive_the_wire(mechanism: Mechanism) -> None:
    """pack and unpack are inverse, rows have the stated width, and rows of another width are refused."""
    messages = some_messages(mechanism)
    wire = mechanism.pack(messages)
    assert wire.dtype == np.uint8
    assert wire.shape == (len(messages), mechanism.message_bytes)
    np.testing.assert_array_equal(mechanism.unpack(wire), messages)
    with pytest.raises(ValueError, match="expected"):
        mechanism.unpack(np.zeros((1, mechanism.message_bytes + 1), dtype=np.uint8))


@every_example
def test_batches_add_up(mechanism: Mechanism) -> None:
    """Accumulating two batches and adding is accumulating all, in any order."""
    messages = np.concatenate([some_messages(mechanism)] * 3)
    whole = mechanism.accumulate(messages)
    shuffled = messages[np.random.default_rng(5).permutation(len(messages))]
    parts = mechanism.accumulate(shuffled[:7]) + mechanism.accumulate(shuffled[7:])
    np.testing.assert_allclose(np.asarray(whole, dtype=float), np.asarray(parts, dtype=float), rtol=1e-12)


@every_example
@pytest.mark.parametrize(
    "bad",
    [
        [],
        None,
        "text",
        np.array(["a", "b"]),
        float("nan"),
        [float("nan")],
        [[float("nan")]],
        [10**9],
        [[10**9]],
        [True],
    ],
    ids=repr,
)
def test_bad_values_are_refused_with_a_sentence(mechanism: Mechanism, bad: Any) -> None:
    """Values outside the domain raise one sentence that names the mechanism."""
    with pytest.raises((ValueError, TypeError)) as caught:
        mechanism.encode(bad, rng=np.random.default_rng(1))
    message = str(caught.value)
    assert message.startswith(type(mechanism).__name__)
    assert message.endswith(".")


@every_example
def test_the_system_source_is_the_default(mechanism: Mechanism) -> None:
    """Two encodings without a generator differ somewhere: they do not come from a fixed seed."""
    value = values_of(mechanism)[:1]
    values = np.repeat(value, 512, axis=0)
    assert (mechanism.pack(mechanism.encode(values)) != mechanism.pack(mechanism.encode(values))).any()


@pytest.mark.slow
@every_table
def test_no_bound_is_below_the_real_protocol(mechanism: Mechanism) -> None:
    """For two and three users, δ of the sound bound is at least the worst divergence over all datasets."""
    from shuffledp import amplify

    rows = [list(row) for row in rows_of(mechanism)]
    several = mechanism.messages_per_user > 1
    for users in (2, 3):
        if len(rows) ** (users + 1) * len(rows[0]) ** users > 3_000_000:
            continue
        curve = amplify(mechanism, users)
        for ratio in (Fraction(9, 8), Fraction(3, 2)):
            if several:
                truth = reports.worst_divergence(reports.laws_of(mechanism.table()), users, ratio)
            else:
                truth = exact.worst_divergence(rows, users, ratio)
            assert curve.delta(float(np.log(float(ratio)))).upper >= float(truth) * (1 - 1e-12)
