"""Data in memory: the same messages and estimates as from a file, and a fingerprint of what they hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from shuffledp import collection
from shuffledp.collection import engine as embedded
from shuffledp.collection.collect import CollectionRequest, collect, run_collection
from shuffledp.collection.engine import Engine, create_engine
from shuffledp.collection.input.base import Table
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.tables import MemoryTable, open_input
from shuffledp.collection.resumable_job import Job
from tests.collection import build_batch_spec, list_paths, random_column, read_messages, small_plan, write_table

KEY = bytes(range(32))
ROWS = 900


class Frame:
    """A data frame of a library that only speaks Arrow's C interface, as polars does."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = table.column_names

    def __getitem__(self, names: list[str]) -> Frame:
        return Frame(self._table.select(names))

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self._table.__arrow_c_stream__(schema)


class Series:
    """A series of such a library, its texts as views."""

    def __init__(self, array: pa.Array) -> None:
        self.name = "colour"
        self._array = pa.chunked_array([array.cast(pa.string_view()) if pa.types.is_string(array.type) else array])

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self._array.__arrow_c_stream__(schema)


def forms_of(array: pa.Array) -> dict[str, Any]:
    """The same column in every form, where it is one of two and where it is alone."""
    two = pa.table({"other": pa.array([object.__name__] * len(array)), "value": array})
    halves = [array.slice(0, len(array) // 3), array.slice(len(array) // 3)]
    frame = pd.DataFrame({"mixed": [1, "a"] * (len(array) // 2), "value": array.to_pylist()})
    return {
        "table": two,
        "batch": two.to_batches()[0],
        "array": array,
        "chunked": pa.chunked_array(halves),
        "data frame": frame,
        "series": frame["value"],
        "frame by the C interface": Frame(two),
        "series by the C interface": Series(array),
    }


@pytest.mark.parametrize("name", ["krr", "laplace", "harmony"])
def test_messages_are_those_of_the_file(name: str, tmp_path: Path) -> None:
    """Under one key, whatever form the data have."""
    array, plan, engine = random_column(name, ROWS), small_plan(name), create_engine("embedded")
    column = plan.column("value")
    table: Table = FileTable(write_table(tmp_path / "data.parquet", value=array))
    engine.encode(table, column, KEY, build_batch_spec(plan, ROWS), tmp_path / "file")
    wanted = read_messages(tmp_path / "file", plan.mechanism.message_bytes)
    for form, data in forms_of(array).items():
        table = open_input(data, "value")
        assert engine.check(table, column) == ROWS
        engine.encode(table, column, KEY, build_batch_spec(plan, ROWS), tmp_path / form)
        assert read_messages(tmp_path / form, plan.mechanism.message_bytes) == wanted, form


def test_categories_of_a_data_frame_are_texts(tmp_path: Path) -> None:
    """A pandas categorical is collected as the texts that it stands for."""
    frame = pd.DataFrame({"colour": pd.Categorical(random_column("krr", ROWS).to_pylist())})
    report = collect(small_plan("krr", users=ROWS), frame, out=tmp_path / "out")
    assert report.guarantee.users == ROWS
    assert sorted(report.quantities[0].labels) == ["blue", "green", "grey", "red"]


def test_texts_may_be_views() -> None:
    """As polars hands them over: alone, in a dictionary, in lists."""
    texts = pa.array(["red", "blue", "red"]).cast(pa.string_view())
    categorical = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), texts.slice(0, 2))
    for data in (texts, categorical):
        table = open_input(data)
        assert isinstance(table, MemoryTable)
        assert table.columns["value"].to_pylist() == ["red", "blue", "red"]
        (batch,) = table.batches(small_plan("krr").column("value"), 10)
        assert small_plan("krr").column("value").read_values(batch).tolist() == [0, 2, 0]
    lists = pa.LargeListArray.from_arrays(pa.array([0, 2], pa.int64()), texts.slice(0, 2))
    assert small_plan("privset").column("value").read_values(lists).tolist() == [[0, 2]]


def test_a_single_column_needs_no_name(tmp_path: Path) -> None:
    """In memory and in a file; several need one, and a wrong one is told what there is."""
    array, plan = random_column("krr", ROWS), small_plan("krr", users=ROWS)
    assert collection.encode(plan, Series(array), out=tmp_path / "series.parquet") == ROWS
    for name in ("data.parquet", "data.csv"):
        path = write_table(tmp_path / name, colour=array)
        assert collection.encode(plan, path, out=tmp_path / f"{name}.messages") == ROWS
    both = pa.table({"a": array, "b": array})
    for data in (both, write_table(tmp_path / "both.csv", a=array, b=array)):
        with pytest.raises(ValueError, match=r"^input: expected the name of a column of .*, which has 2\.$"):
            collect(plan, data, out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"^input: the data has no column 'c'; it has a, b\.$"):
        collect(plan, both, "c", out=tmp_path / "out")
    with pytest.raises(TypeError, match=r"^input: expected a path, or a data frame.*, got dict\.$"):
        collect(plan, {"a": 1}, out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"^input: expected at least one row, got none in the data\.$"):
        collect(plan, array.slice(0, 0), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_fingerprint_is_of_what_is_held() -> None:
    """However it is divided or cut out of something larger; one other value changes it."""
    array = random_column("krr", 200_000)
    larger = pa.concat_arrays([array.slice(0, 7), array])
    known = [
        open_input(data).fingerprint()
        for data in (array, pa.chunked_array([array.slice(0, 5), array.slice(5)]), larger.slice(7))
    ]
    assert known[0] == known[1] == known[2]
    changed = pa.array([*array.to_pylist()[:-1], "red" if array[-1].as_py() != "red" else "blue"])
    assert open_input(changed).fingerprint() != known[0]
    assert open_input(array.slice(1)).fingerprint() != known[0]


def test_a_killed_collection_goes_on_with_the_same_data_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other data are not taken for those that it began with."""
    array, plan = random_column("krr", ROWS), small_plan("krr", users=ROWS)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(embedded.EmbeddedEngine, "shuffle", full)
        with pytest.raises(Exception, match="continue with resume=True"):
            collect(plan, array, out=tmp_path / "out")
    key = (tmp_path / "out" / "work" / "key").read_bytes()
    with pytest.raises(ValueError, match="the input is not the one"):
        collect(plan, random_column("krr", ROWS, seed=2), out=tmp_path / "out", resume=True)
    collect(plan, array, out=tmp_path / "out", resume=True)
    create_engine("embedded").encode(
        open_input(array), plan.column("value"), key, build_batch_spec(plan, ROWS), tmp_path / "again"
    )
    assert read_messages(tmp_path / "out" / "messages", 1) == sorted(read_messages(tmp_path / "again", 1))


def test_every_engine_takes_data_in_memory(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad value leaves nothing; a good collection leaves no raw data, nor does one that was stopped."""
    plan, array = small_plan("krr", users=ROWS), random_column("krr", ROWS)
    with pytest.raises(ValueError, match="got something else in 1 of 2 values"):
        collect(plan, pa.array(["red", "pink"]), out=tmp_path / "out", engine=engine)
    assert list_paths(tmp_path) == []
    table = open_input(array)
    assert isinstance(table, MemoryTable)
    request = CollectionRequest(plan, table, ("value",), tmp_path / "out")

    class Stopped(BaseException):
        """Stands for a kill."""

    def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Job, "forget_order", stop)
        with pytest.raises(Stopped):
            run_collection(request, engine)
    assert not (tmp_path / "out" / "work" / "input").exists()
    run_collection(dataclasses.replace(request, resume=True), engine)
    assert len(read_messages(tmp_path / "out" / "messages", 1)) == ROWS
    assert not [path for path in list_paths(tmp_path / "out") if "input" in path or "work" in path]
