"""A collection that reads several columns: the same rows from every kind of input, on every engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.tables import check_column_names, open_input
from shuffledp.collection.resumable_job import Job, JobArguments
from shuffledp.tasks.column_reader import ColumnReader

pytestmark = pytest.mark.usefixtures("no_pictures")

ROWS = 3000


class Sum(sdp.tasks.Frequency):
    """The sum of two columns: what a task of several columns looks like."""

    def resolve_columns(self, named: tuple[str, ...]) -> tuple[str, ...]:
        return named

    def read_values(self, column: ColumnReader, array: pa.Array) -> Any:
        first, second = array.flatten()
        return column.read_option_numbers(first, None) + column.read_option_numbers(second, None)


def plan() -> sdp.Plan:
    return sdp.Plan(Sum(5), sdp.KRR(4.0, 5), users=ROWS, epsilon=3.0, delta=1e-6)


def data() -> pa.Table:
    place = np.arange(ROWS)
    return pa.table({"one": place % 3, "other": place % 7, "two": place % 2})


def test_every_input_gives_the_same_rows(tmp_path: Path) -> None:
    pq.write_table(data(), tmp_path / "data.parquet", row_group_size=700)
    pc.write_csv(data(), tmp_path / "data.csv")
    column = plan().column("two", "one")
    expected = (np.arange(ROWS) % 2 + np.arange(ROWS) % 3).tolist()
    for given in (data(), data().to_pandas(), tmp_path / "data.parquet", tmp_path / "data.csv"):
        table = open_input(given, ("two", "one"))
        found = [value for array in table.batches(column, 640) for value in column.read_values(array).tolist()]
        assert found == expected


def test_a_fingerprint_is_of_every_column_that_is_read() -> None:
    known = open_input(data(), ("one", "two")).fingerprint()
    assert known == open_input(data(), ("one", "two")).fingerprint()
    changed = data().set_column(2, "two", pa.array(np.zeros(ROWS, dtype=np.int64)))
    assert known != open_input(changed, ("one", "two")).fingerprint()


def test_every_engine_reads_several_columns(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(data(), path, row_group_size=700)
    for number, given in enumerate((path, data())):
        table = open_input(given, ("two", "one"))
        report = run_collection(CollectionRequest(plan(), table, ("two", "one"), tmp_path / f"out-{number}"), engine)
        truth = np.bincount(np.arange(ROWS) % 2 + np.arange(ROWS) % 3, minlength=5)
        # Five estimates, two runs: beyond 6.5 standard errors at most once in 1e9.
        assert (np.abs(report.estimate.value - truth) < 6.5 * report.estimate.standard_error).all()


def test_an_unfinished_job_knows_its_columns(tmp_path: Path) -> None:
    for names, told in ((("one",), "one"), (("two", "one"), ["two", "one"])):
        out = tmp_path / "-".join(names)
        Job.begin(out, JobArguments(plan_of_one(), 1, names, {}, 10, None), "embedded")
        assert json.loads((out / "work" / "job.json").read_text())["column"] == told
        found = Job.find_unfinished(out)
        assert found is not None
        assert found.arguments.columns == names


def plan_of_one() -> sdp.Plan:
    return sdp.Plan(sdp.tasks.Frequency(5), sdp.KRR(4.0, 5), users=ROWS, epsilon=3.0, delta=1e-6)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"column": ["one", "two"]}, "input: the task 'frequency' reads one column, got 2 of them; name one."),
        ({"column": ["one", "one"]}, "input: expected each column once, got 'one' twice."),
        ({"column": 3}, "input: column must be a name or a list of names, got 3."),
        ({}, "input: expected the name of a column of the data, which has 3."),
    ],
)
def test_a_second_column_is_never_dropped(given: Mapping[str, Any], sentence: str, tmp_path: Path) -> None:
    for call in (sdp.collect, sdp.collection.encode):
        with pytest.raises((ValueError, TypeError)) as caught:
            call(plan_of_one(), data(), out=tmp_path / "out", **given)  # type: ignore[operator]
        assert str(caught.value) == sentence


def test_a_single_column_has_no_second_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected data with 2 columns, got a single one"):
        sdp.collect(plan(), pa.array([1, 2]), ["one", "two"], out=tmp_path / "out")
    assert check_column_names(None) == ()
    assert check_column_names("a") == ("a",)
    assert check_column_names(["a", "b"]) == ("a", "b")
