"""Tables: what is executed, exact parameters, blankets, estimates, reading files, sentences."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from shuffledp import amplify
from shuffledp.mechanisms.catalogue import all_mechanisms, build
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.table_and_density import FromTable
from shuffledp.numerics.positive_part import PositivePartMean
from tests.oracle import exact_enumeration


def floats(table: exact_enumeration.Table) -> list[list[float]]:
    return [[float(chance) for chance in row] for row in table]


def executed(mechanism: FromTable) -> tuple[tuple[Fraction, ...], ...]:
    return mechanism.table().probabilities


def random_tables() -> list[FromTable]:
    rng = Random(11)
    sizes = [(2, 2), (2, 5), (3, 3), (4, 3), (5, 6)]
    return [FromTable(floats(exact_enumeration.random_table(rng, *size))) for size in sizes for _ in range(4)]


def test_the_executed_table_is_the_given_one_to_the_last_digits() -> None:
    given = [[0.1, 0.0, 0.9 - 1e-300, 1e-300], [1 / 3, 0.0, 1 / 3, 1 / 3], [0.5, 0.25, 0.125, 0.125]]
    mechanism = FromTable(given)
    for row, run in zip(given, executed(mechanism), strict=True):
        assert sum(run) == 1
        for wanted, chance in zip(row, run, strict=True):
            assert (wanted == 0) == (chance == 0)
            assert float(chance) == pytest.approx(wanted, rel=1e-15, abs=2**-61)
    assert len(set(mechanism.unit_table.units.sum(axis=1).tolist())) == 1
    assert executed(mechanism)[2][2] == executed(mechanism)[2][3]


def test_rearranged_rows_stay_rearranged() -> None:
    """Entries that a row repeats stay equal, though a tenth is no whole number of units."""
    row = [0.1, 0.1, 0.1, 0.2, 0.5]
    units = FromTable([row[k:] + row[:k] for k in range(5)]).unit_table.units
    for k in range(5):
        np.testing.assert_array_equal(units[k], np.roll(units[0], -k))
    assert len(set(units[0].tolist())) == 3


def test_dyadic_tables_are_executed_as_they_are() -> None:
    given = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]]
    assert executed(FromTable(given)) == tuple(tuple(map(Fraction, row)) for row in given)


def test_rows_are_normalised() -> None:
    assert executed(FromTable([[0.5, 0.5 + 5e-10], [0.5, 0.5]]))[0][0] < Fraction(1, 2)


@pytest.mark.parametrize("mechanism", random_tables(), ids=repr)
def test_parameters_are_the_exact_maxima(mechanism: FromTable) -> None:
    """p, β and the least q_common over all pairs, columns and third rows, from the definitions."""
    rows, parameters = executed(mechanism), mechanism.variation_ratio()
    each = exact_enumeration.variation_ratio_of_table(rows).values()
    p = Fraction(parameters.p)
    assert parameters.p == pytest.approx(float(max(pair.p for pair in each)), rel=1e-15)
    assert math.log(parameters.p) == pytest.approx(mechanism.epsilon, rel=1e-14)
    assert parameters.beta == pytest.approx(float(max(pair.beta for pair in each)), rel=1e-15)
    least = Fraction(1)
    for first, second in itertools.combinations(rows, 2):
        for a, b, *others in zip(first, second, *rows, strict=True):
            common = min(a, b) - abs(a - b) / (p - 1)
            spare = min(others) - abs(a - b) / (p - 1)
            least = max(least, common / spare) if common > 0 else least
    assert parameters.q_common == pytest.approx(float(least), rel=1e-15)
    assert parameters.q_common >= float(least) * (1 - 1e-16)


@pytest.mark.parametrize("mechanism", random_tables(), ids=repr)
def test_blankets_are_those_of_every_pair(mechanism: FromTable) -> None:
    """The largest divergence over the blankets is the largest over all ordered pairs of rows, for two users."""
    rows = executed(mechanism)
    floor = [min(column) for column in zip(*rows, strict=True)]
    ratio = Fraction(11, 10)
    truth = max(
        exact_enumeration.positive_part_mean(
            [*((a - ratio * b) / h for a, b, h in zip(first, second, floor, strict=True)), Fraction(0)],
            [*floor, 1 - sum(floor)],
            2,
        )
        / 2
        for first, second in itertools.permutations(rows, 2)
    )
    ways = [way for pair in mechanism.blankets() for way in (pair, pair.swapped())]
    found = max(PositivePartMean(way.law, 2).bracket(math.log(1.1)).upper_float() for way in ways)
    assert found == pytest.approx(float(truth), rel=1e-9)


def test_the_table_of_randomized_response_is_randomized_response() -> None:
    krr = KRR(2.0, 40)
    mechanism = FromTable(floats(krr.table().probabilities))
    assert mechanism.epsilon == pytest.approx(2.0, rel=1e-14)
    ours, theirs = mechanism.variation_ratio().describe(), krr.variation_ratio().describe()
    assert ours == pytest.approx(theirs, rel=1e-13)
    (pair,) = mechanism.blankets()
    assert pair.symmetric
    assert len(pair.classes()) == 4
    assert amplify(mechanism, 1000, effort="quick").epsilon(1e-6).upper == pytest.approx(
        amplify(krr, 1000, effort="quick").epsilon(1e-6).upper, rel=1e-9
    )


def test_equal_rows_and_proportional_columns_count_once() -> None:
    plain = FromTable([[0.75, 0.25], [0.25, 0.75]])
    split = FromTable([[0.5, 0.25, 0.25], [0.25 / 1.5, 0.75, 0.25 / 3], [0.5, 0.25, 0.25]])
    assert split.variation_ratio().describe() == pytest.approx(plain.variation_ratio().describe(), rel=1e-14)
    assert len(FromTable([[0.5, 0.25, 0.25], [0.25, 0.625, 0.125]]).blankets()[0].classes()) == 3


def test_equal_rows_tell_nothing() -> None:
    mechanism = FromTable([[0.5, 0.5], [0.5, 0.5]])
    assert mechanism.epsilon == 0.0
    assert amplify(mechanism, 10, effort="quick").delta(0.1).upper == 0.0
    with pytest.raises(ValueError, match=r"^FromTable: no unbiased estimate exists, .*\(2 inputs, rank 1\)\.$"):
        mechanism.estimate(np.array([0, 1]))


def test_a_zero_against_a_probability_has_no_finite_ratio() -> None:
    """What one input never sends is added to δ; bounds that need a ratio refuse, and name the entries."""
    mechanism = FromTable([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    assert mechanism.epsilon == math.inf
    assert mechanism.encode(np.zeros(1000, dtype=int)).max() == 1
    sentence = (
        r"^FromTable: no finite ratio exists, because input 1 may send output 2 and input 0 never does; "
        r"give every input some probability there\.$"
    )
    for ask in (mechanism.variation_ratio, mechanism.blankets, lambda: amplify(mechanism, 100, bound="clone")):
        with pytest.raises(ValueError, match=sentence):
            ask()
    curve = amplify(mechanism, 100, effort="quick")
    assert curve.epsilon(0.4).upper == math.inf
    assert 0.5 <= curve.delta(1.0).upper < 0.5001


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(ValueError, match="no message is sent by all inputs often enough"):
        amplify(FromTable([[1.0, 0.0], [0.0, 1.0]]), 100, effort="quick")


def test_many_inputs_and_outputs() -> None:
    """300 inputs, each with its own chi-square over groups of outputs (chance of alarm 1e-6 in all)."""
    from scipy.stats import chi2

    rng = np.random.default_rng(4)
    chances = rng.dirichlet(np.ones(50), size=300)
    mechanism = FromTable(chances)
    values = rng.permutation(np.repeat(np.arange(300), 2000))
    messages = mechanism.encode(values, rng=rng)
    assert mechanism.message_bits == 6
    seen = np.zeros((300, 50))
    np.add.at(seen, (values, messages), 1)
    groups = np.arange(0, 50, 10)
    observed, expected = (np.add.reduceat(counts, groups, axis=1) for counts in (seen, 2000 * chances))
    statistic = ((observed - expected) ** 2 / expected).sum(axis=1)
    assert (statistic <= chi2.isf(1e-6 / 300, 4)).all()


def test_the_estimate_has_the_least_variance_for_a_uniform_crowd() -> None:
    """Any other unbiased linear estimate, such as the plain pseudo-inverse, has at least its variance."""
    mechanism = FromTable([[0.9, 0.05, 0.03, 0.02], [0.2, 0.3, 0.4, 0.1]])
    chances = mechanism.unit_table.units / mechanism.unit_table.total_units
    other = np.linalg.pinv(chances.T)
    theirs = chances @ (other**2).T - (chances @ other.T) ** 2
    crowd = np.array([0, 1] * 50)
    assert (mechanism.variance(crowd) <= 50 * theirs.sum(axis=0) + 1e-9).all()
    assert (mechanism.variance(crowd) < 45 * theirs.sum(axis=0)).any()


def test_attacks_are_below_the_bound() -> None:
    for mechanism in (*FromTable.examples(), random_tables()[9]):
        value = amplify(mechanism, 200, effort="quick").epsilon(1e-4)
        assert 0 < value.lower <= value.upper


def test_the_command_line_does_not_build_it_by_name() -> None:
    assert {"table", "density"} <= set(all_mechanisms())
    for name in ("table", "density"):
        with pytest.raises(ValueError, match=rf"^mechanism must be one of [a-z, -]*, got '{name}'\.$"):
            build(name, 1.0, {})


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[0.5, 0.5]], "expected at least two inputs (rows) to tell apart and one output (column), got 1 and 2."),
        ([[], []], "expected at least two inputs (rows) to tell apart and one output (column), got 2 and 0."),
        ([], "expected a table (rows are inputs, columns are outputs), got shape (0,)."),
        ([0.5, 0.5], "expected a table (rows are inputs, columns are outputs), got shape (2,)."),
        (None, "expected a table (rows are inputs, columns are outputs), got shape ()."),
        ([[0.5, 0.5], [1.0]], "expected rows of numbers, all of one length."),
        ([["a", "b"], ["c", "d"]], "expected a table of numbers, got <U1."),
        ([["1", "0"], ["0", "1"]], "expected a table of numbers, got <U1."),
        ([[True, False], [False, True]], "expected a table of numbers, got bool."),
        ([[0.5, 0.5], [1.5, -0.5]], "input 1, output 1: expected a probability, got -0.5."),
        ([[0.5, 0.5], [math.nan, 1.0]], "input 1, output 0: expected a probability, got nan."),
        ([[0.5, 0.5], [math.inf, 1.0]], "input 1, output 0: expected a probability, got inf."),
        ([[0.5, 0.5], [0.5, 0.4]], "the probabilities of input 1 must sum to 1 within 1e-09, got 0.9."),
        ([[0.5, 0.5], [0.0, 0.0]], "the probabilities of input 1 must sum to 1 within 1e-09, got 0.0."),
    ],
)
def test_bad_tables(matrix: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        FromTable(matrix)
    assert str(caught.value) == f"FromTable: {sentence}"


def test_the_table_cannot_be_changed_afterwards() -> None:
    given = np.array([[0.75, 0.25], [0.25, 0.75]])
    mechanism = FromTable(given)
    given[0] = [0.25, 0.75]
    assert mechanism.matrix[0, 0] == 0.75
    for array in (mechanism.matrix, mechanism.unit_table.units):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\ufeff0.5, 0.25,0.25\r\n\r\n.2,3e-1,0.5\r\n", encoding="utf-8")
    mechanism = FromTable.from_csv(path)
    np.testing.assert_array_equal(mechanism.matrix, [[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]])
    assert mechanism.settings() == {"epsilon": mechanism.epsilon, "inputs": 2, "outputs": 3}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n0.5,0.5\n0.5,0.5\n", "{path}, line 1, column 1: expected a probability, got 'a'."),
        ("0.5,0.5\n\n0.5,x1\n", "{path}, line 3, column 2: expected a probability, got 'x1'."),
        ("0.5,0.5\n0.5,\n", "{path}, line 2, column 2: expected a probability, got ''."),
        ("0.5,0.5\n-0.5,1.5\n", "{path}, line 2, column 1: expected a probability, got '-0.5'."),
        ("0.5,0.5\nnan,0.5\n", "{path}, line 2, column 1: expected a probability, got 'nan'."),
        ("0.5,0.5\n1.0\n", "{path}, line 2: expected 2 cells as in line 1, got 1."),
        ("0.5,0.5\n0.5,0.4\n", "{path}, line 2: expected cells that sum to 1 within 1e-09, got 0.9."),
        (" \n\n", "expected a table in {path}, got an empty file."),
        ("0.5,0.5\n", "expected at least two inputs (rows) to tell apart and one output (column), got 1 and 2."),
    ],
)
def test_bad_files(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        FromTable.from_csv(path)
    assert str(caught.value) == "FromTable: " + sentence.format(path=path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^FromTable: cannot read .*: No such file or directory\.$"):
        FromTable.from_csv(tmp_path / "missing.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match=r"^FromTable: cannot read .*\.$"):
        FromTable.from_csv(tmp_path / "binary.csv")
