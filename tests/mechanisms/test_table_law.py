"""The law of a table as a part: exact fractions as they are, floats as they are run, and a class of one's own."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.table_law import TableLaw, UnitTable
from shuffledp.mechanisms.base.table_mechanism import TableEstimator
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.sampling.random_sources import RandomSource, resolve_source
from tests.oracle import exact_enumeration

HALF = Fraction(1, 2)


@pytest.mark.parametrize("options", [2, 3, 5])
def test_the_exact_table_of_randomized_response_has_its_law(options: int) -> None:
    """Units of 2^-64/d do not fit into 64 bits; parameters, blanket and one attack are still those of KRR, exactly."""
    krr = sdp.KRR(1.3, options)
    law = TableLaw.from_rows("Mine", krr.table().probabilities)
    assert law.table.units.dtype == object
    ours, theirs = law.variation_ratio(), krr.law.variation_ratio()
    assert (ours.p, ours.beta) == (theirs.p, theirs.beta)
    assert law.coin_range() == krr.coin_range()
    assert law.epsilon <= 1.3
    (mine,), (published,) = law.blankets(), krr.blankets()
    assert mine.exact is not None
    assert published.exact is not None
    assert sorted(mine.exact, key=str) == sorted(_put_together(published.exact), key=str)
    assert sdp.amplify(_OnlyLaw(law), 200, effort="quick").epsilon(1e-6).upper == pytest.approx(
        sdp.amplify(krr, 200, effort="quick").epsilon(1e-6).upper, rel=1e-12
    )


def _put_together(classes: Sequence[Any]) -> list[Any]:
    """Classes of one shape as one, as a table has them."""
    kept: dict[Any, Any] = {}
    for first, second, hiding in classes:
        key = (first / hiding, second / hiding)
        before = kept.get(key, (0, 0, 0))
        kept[key] = (before[0] + first, before[1] + second, before[2] + hiding)
    return list(kept.values())


@dataclass(frozen=True)
class _OnlyLaw(Randomizer):
    """A randomizer of which only the law is known."""

    law: TableLaw

    def variation_ratio(self) -> Any:
        return self.law.variation_ratio()

    def blankets(self) -> Any:
        return self.law.blankets()

    def attacks(self) -> Any:
        return self.law.attacks()

    def coin_range(self) -> Any:
        return self.law.coin_range()


def test_small_fractions_are_whole_numbers_and_fine_ones_answer_the_same() -> None:
    """The same random tables with units that fit and with units a thousand times finer than fit: one law."""
    rng = Random(3)
    for size in ((2, 3), (4, 3), (3, 6)):
        rows = exact_enumeration.random_table(rng, *size)
        small = TableLaw.from_rows("Mine", rows)
        assert small.table.units.dtype == np.int64
        fine = TableLaw("Mine", UnitTable(small.table.units.astype(object) * (1 << 72)))
        assert fine.table.fractions() == small.table.fractions() == tuple(map(tuple, rows))
        assert fine.variation_ratio() == small.variation_ratio()
        assert fine.epsilon == small.epsilon
        for ask in ("blankets", "attacks"):
            mine, theirs = getattr(fine, ask)(), getattr(small, ask)()
            assert [pair.exact for pair in mine] == [pair.exact for pair in theirs]


def test_floats_are_the_law_of_the_table_that_is_run() -> None:
    rows = [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    law, mechanism = TableLaw.from_rows("Mine", rows), sdp.FromTable(rows)
    assert law.table == mechanism.unit_table
    assert law.variation_ratio() == mechanism.variation_ratio()
    assert law.table.fractions() == mechanism.table().probabilities


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([[HALF, HALF]], "Mine: expected at least two rows of probabilities, all of one length."),
        ([[HALF, HALF], [Fraction(1)]], "Mine: expected at least two rows of probabilities, all of one length."),
        (
            [[HALF, HALF], [HALF, Fraction(1, 3)]],
            "Mine: the probabilities of input 1 must be 0 or more and sum to exactly 1.",
        ),
        (
            [[Fraction(3, 2), -HALF], [HALF, HALF]],
            "Mine: the probabilities of input 0 must be 0 or more and sum to exactly 1.",
        ),
        ([[0.5, 0.5]], "Mine: expected at least two inputs (rows) to tell apart and one output (column), got 1 and 2."),
        ([], "Mine: expected a table (rows are inputs, columns are outputs), got shape (0,)."),
        (3, "Mine: expected a table (rows are inputs, columns are outputs), got shape ()."),
    ],
)
def test_bad_tables(rows: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match="Mine") as caught:
        TableLaw.from_rows("Mine", rows)
    assert str(caught.value) == sentence


def test_tables_compare_and_travel_by_their_numbers() -> None:
    """Equal numbers are one table, whatever made them; what arrives cannot be written to."""
    table = UnitTable.from_rows("Mine", [[HALF, HALF], [Fraction(1, 4), Fraction(3, 4)]])
    again = UnitTable(np.array([[2, 2], [1, 3]]))
    assert table == again
    assert hash(table) == hash(again)
    assert table != UnitTable(np.array([[2, 2], [3, 1]]))
    for law in (TableLaw("Mine", table), TableLaw.from_rows("Mine", sdp.KRR(1.0, 3).table().probabilities)):
        law.variation_ratio()
        travelled = pickle.loads(pickle.dumps(law))
        assert travelled == law
        assert hash(travelled) == hash(law)
        with pytest.raises(ValueError, match="read-only"):
            travelled.table.units[0, 0] = 0


def test_units_that_are_too_fine_cannot_be_drawn() -> None:
    table = UnitTable.from_rows("Mine", sdp.KRR(1.0, 3).table().probabilities)
    with pytest.raises(ValueError, match=r"^UnitTable: drawing needs units of at least 2\^-62, got finer ones"):
        table.draw(np.zeros(3, dtype=np.int64), resolve_source(np.random.default_rng(1)))


@dataclass(frozen=True)
class Thirds(Mechanism):
    """One's own randomizer on three options by its exact table: the true one with probability 1/2, else another."""

    epsilon = 0.7

    @cached_property
    def rows(self) -> tuple[tuple[Fraction, ...], ...]:
        return tuple(tuple(HALF if x == y else Fraction(1, 4) for y in range(3)) for x in range(3))

    @cached_property
    def domain(self) -> Category:
        return Category("Thirds", 3)

    @cached_property
    def law(self) -> TableLaw:
        return TableLaw.from_rows("Thirds", self.rows)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("Thirds", 3)

    @cached_property
    def estimator(self) -> TableEstimator:
        return TableEstimator("Thirds", self.law.table)

    def randomize(self, values: Any, source: RandomSource) -> Any:
        return self.law.table.draw(values, source)

    def table(self) -> OutputTable:
        return OutputTable(np.arange(3), np.arange(3), self.rows)

    @classmethod
    def examples(cls) -> Sequence[Thirds]:
        return [cls()]


def test_a_class_of_ones_own_is_assembled_from_the_parts() -> None:
    """Ratio 2, β = 1/4; 30,000 users counted within six standard errors (a false alarm in 1e8, the seed is fixed)."""
    mine = Thirds()
    assert (mine.variation_ratio().p, mine.variation_ratio().beta) == (2.0, 0.25)
    value = sdp.amplify(mine, 1_000, effort="quick").epsilon(1e-6)
    assert value.lower is not None
    assert 0 < value.lower <= value.upper < 0.7
    held = np.repeat([0, 1, 2], [5_000, 10_000, 15_000])
    found = mine.estimate(mine.encode(held, rng=np.random.default_rng(5)))
    assert (np.abs(found.value - mine.truth(held)) < 6 * np.sqrt(mine.variance(held))).all()
