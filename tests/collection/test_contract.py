"""What every engine promises: one message per row, never another one on a retry, and an order that tells nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import OUE, PureDUMP
from shuffledp._core.errors import ShuffledpError
from shuffledp.collection import batch_processing, engine as embedded, message_files
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.files import FileTable
from shuffledp.testing import engines
from shuffledp.testing._check_framework import Check
from shuffledp.testing.engines import KEY, EngineUnderTest
from tests.collection import (
    COLOURS,
    build_batch_spec,
    expected_messages,
    list_paths,
    new_ledger,
    random_column,
    read_messages,
    small_plan,
    sort_messages,
    write_messages,
    write_table,
)

# Each plan on each engine.
pytestmark = pytest.mark.usefixtures("each_curve_once")


def encode(engine: Engine, name: str, path: Path, rows: int, directory: Path) -> Any:
    """Run the first step alone; return the column."""
    plan = small_plan(name)
    column, table = plan.column("value"), FileTable(path)
    assert engine.check(table, column) == rows
    engine.encode(table, column, KEY, build_batch_spec(plan, rows), directory)
    return column


@pytest.mark.parametrize("name", ["krr", "laplace"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_messages_are_those_of_the_key(
    engine: Engine, name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoding is a function of the key and the rows, the same in every engine; shuffling sorts its messages."""
    rows = 700
    array = random_column(name, rows)
    path = write_table(tmp_path / f"data{suffix}", other=pa.array(range(rows)), value=array)
    sample = engines.ColumnSample(small_plan(name).column("value"), array)
    assert list(engines.find_wrong_messages(engine, sample, path, tmp_path)) == []
    assert list(engines.find_wrong_statistic(engine, sample, tmp_path / "shuffled")) == []
    mechanism = sample.mechanism
    wanted = expected_messages(mechanism, sample.column.read_values(array), KEY)
    np.testing.assert_array_equal(wanted, sample.expected_messages())
    width = mechanism.message_bytes
    assert read_messages(tmp_path / "encoded", width) == [row.tobytes() for row in wanted]
    assert read_messages(tmp_path / "shuffled", width) == sort_messages(wanted)
    total = engine.aggregate(mechanism, tmp_path / "shuffled", rows)
    assert (total.messages, total.refused) == (rows, 0)
    np.testing.assert_array_equal(total.statistic, mechanism.accumulate(mechanism.unpack(wanted)))


@pytest.mark.parametrize("name", ["krr", "laplace"])
def test_a_retry_gives_the_same_messages(engine: Engine, name: str, tmp_path: Path) -> None:
    """Over what is complete, and elsewhere."""
    sample = engines.ColumnSample(small_plan(name).column("value"), random_column(name, 300))
    path = write_table(tmp_path / "data.parquet", value=sample.array)
    assert list(engines.find_retry_differences(engine, sample, path, tmp_path)) == []


@pytest.mark.parametrize("width", [1, 2, 3, 16])
def test_the_shuffled_files_are_a_function_of_the_multiset(
    engine: Engine, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same messages in another order, in other files, give the same bytes; and they are in order."""
    monkeypatch.setattr(message_files, "GROUP_ROWS", 100)
    monkeypatch.setattr(message_files, "GROUPS_PER_FILE", 3)
    assert list(engines.find_order_leaks(engine, width, tmp_path)) == []
    for number in range(3):
        names = sorted(path.name for path in (tmp_path / f"shuffled{number}").iterdir())
        assert names == ["_manifest.json", *(f"messages-{file:05d}.parquet" for file in range(4))]


def test_a_shuffle_that_was_killed_is_done_again(engine: Engine, tmp_path: Path) -> None:
    """What it left on its way, other messages among it, is not in the way and does not come out."""
    assert list(engines.find_kill_leftovers(engine, tmp_path)) == []


@pytest.mark.parametrize("width", [2, 16])
def test_names_and_row_groups_depend_on_the_number_of_messages_only(
    engine: Engine, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the messages are: as many files, row groups and rows, and no words in the files' footers."""
    monkeypatch.setattr(message_files, "GROUP_ROWS", 64)
    monkeypatch.setattr(message_files, "GROUPS_PER_FILE", 4)
    assert list(engines.find_shape_leaks(engine, width, tmp_path)) == []
    shape = engines.read_file_shapes(tmp_path / "shuffled0")
    assert shape == engines.read_file_shapes(tmp_path / "shuffled1")
    assert [groups for _, groups, _, _ in shape] == [[64] * 4, [64] * 4, [64, 25]]
    assert {words for _, _, words, _ in shape} == {None}


@pytest.mark.parametrize("check", engines.ENGINE_CHECKS, ids=lambda check: check.name.replace(" ", "-"))
def test_the_suite_that_anybody_can_run(engine: Engine, check: Check[EngineUnderTest], tmp_path: Path) -> None:
    """``check_engine`` of the package, check by check."""
    assert check.find_failure(EngineUnderTest(engine, tmp_path)) is None


@pytest.mark.parametrize("name", ["krr", "oue", "privset", "privkv", "harmony", "privunit-optimized", "pure-dump"])
def test_a_whole_collection(engine: Engine, name: str, tmp_path: Path) -> None:
    """The report's estimates are those of the released messages, and nothing else is left."""
    rows = 600
    path = write_table(tmp_path / "data.parquet", value=random_column(name, rows))
    plan = small_plan(name, users=rows)
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    request = CollectionRequest(plan, FileTable(path), ("value",), tmp_path / "out", ledger.path)
    report = run_collection(request, engine)
    mechanism = plan.mechanism
    kept = read_messages(tmp_path / "out" / "messages", mechanism.message_bytes)
    assert len(kept) == rows * mechanism.messages_per_user
    assert kept == sorted(kept)
    assert report.guarantee.users == rows
    wire = np.frombuffer(b"".join(kept), dtype=np.uint8).reshape(len(kept), -1)
    again = mechanism.estimate(mechanism.unpack(wire))
    np.testing.assert_allclose(report.estimate.value, again.value, rtol=1e-12)
    names = [path.split("/")[0] for path in list_paths(tmp_path / "out")]
    assert sorted(set(names)) == [
        "certificate.json",
        "estimates.csv",
        "estimates.json",
        "estimates.parquet",
        "estimates.png",
        "messages",
        "plan.json",
        "report.json",
        "report.md",
    ]


def missing(array: pa.Array) -> dict[str, Any]:
    return {"other": array}


def spoiled(value: Any) -> Any:
    def spoil(array: pa.Array) -> dict[str, Any]:
        return {"value": pa.array([*array.to_pylist()[:-1], value])}

    return spoil


@pytest.mark.parametrize(
    ("name", "spoil", "part"),
    [
        ("krr", missing, "has no column 'value'; it has other"),
        ("krr", spoiled("pink"), "expected one of the plan's 4 categories, got something else in 1 of 50 values"),
        ("krr", spoiled(None), "row 50, column 'value': expected a value in every row, got 1 without one"),
        ("krr", lambda array: {"value": array.slice(0, 0)}, "expected at least one row, got none"),
        ("krr", lambda array: {"value": pa.array([1.5] * len(array))}, "expected one of the plan's 4 categories"),
        ("oue", spoiled(40), "expected whole numbers from 0 to 39, got something else in 1 of 50 values"),
        ("oue", spoiled(-1), "expected whole numbers from 0 to 39, got something else in 1 of 50 values"),
        ("oue", lambda array: {"value": pa.array(["many"] * len(array))}, "expected whole numbers"),
        ("laplace", spoiled(60.5), "expected numbers from -20 to 60, got something else in 1 of 50 values"),
        ("laplace", spoiled(float("nan")), "expected a value in every row, got 1 without one"),
        ("laplace", lambda array: {"value": pa.array(["much"] * len(array))}, "expected numbers"),
        ("privset", spoiled(["red"]), "row 50, column 'value': expected 2 items in every row, got fewer in 1 rows"),
        ("privset", spoiled(["red", "blue", "green"]), "expected at most 2 items in every row, got more in 1 of 50"),
        ("privset", lambda array: {"value": pa.array([3] * len(array))}, "expected a list in every row"),
    ],
)
def test_a_bad_table_is_a_sentence_and_nothing_is_written(
    engine: Engine, name: str, spoil: Any, part: str, tmp_path: Path
) -> None:
    """Exactly the files that were there before are there after."""
    path = write_table(tmp_path / "data.parquet", **spoil(random_column(name, 50)))
    ledger = new_ledger(tmp_path / "ledger.sqlite")
    request = CollectionRequest(
        small_plan(name), FileTable(path), ("value",), tmp_path / "out", ledger.path, allow_weaker=True
    )
    before = ledger.path.read_bytes()
    with pytest.raises((ValueError, ShuffledpError)) as caught:
        run_collection(request, engine)
    message_ = str(caught.value)
    assert part in message_
    assert message_.endswith(".")
    assert "\n" not in message_
    assert list_paths(tmp_path) == ["data.parquet", "ledger.sqlite"]
    assert ledger.path.read_bytes() == before


def test_parts_and_chunks_divide_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded engine's parts are files of their own, each chunk with a stream of its own."""
    monkeypatch.setattr(batch_processing, "CHUNK_ROWS", 100)
    monkeypatch.setattr(embedded, "CHUNKS_PER_PART", 3)
    array = random_column("krr", 950)
    path = write_table(tmp_path / "data.parquet", value=array)
    from shuffledp.collection.engine import create_engine

    column = encode(create_engine("embedded"), "krr", path, 950, tmp_path / "encoded")
    wanted = expected_messages(column.mechanism, column.read_values(array), KEY, part_rows=300)
    assert read_messages(tmp_path / "encoded", 1) == [row.tobytes() for row in wanted]
    assert len(list_paths(tmp_path / "encoded")) == 4


def test_a_directory_of_files_is_one_table(engine: Engine, tmp_path: Path) -> None:
    """Rows of all files, in the order of their names; a file that is changed is noticed; other files are ignored."""
    array = random_column("krr", 300)
    (tmp_path / "data").mkdir()
    for number, start in enumerate((0, 100, 200)):
        write_table(tmp_path / "data" / f"part-{number}.parquet", value=array.slice(start, 100))
    (tmp_path / "data" / "_SUCCESS").touch()
    column = small_plan("krr").column("value")
    table = FileTable(tmp_path / "data")
    assert engine.check(table, column) == 300
    found = pa.concat_arrays(list(table.batches(column, 64)))
    assert found.to_pylist() == array.to_pylist()
    before = table.fingerprint()
    write_table(tmp_path / "data" / "part-1.parquet", value=array)
    assert table.fingerprint() != before
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"expected files of rows .* in the directory"):
        FileTable(tmp_path / "empty")


def test_wide_and_many_messages_are_worked_on_few_at_a_time() -> None:
    """Chunks and row groups shrink with the size of messages, whatever it is, and depend on nothing else."""
    assert [message_files.group_rows(width) for width in (1, 8, 16, 1 << 20, 1 << 30)] == [
        1 << 20,
        1 << 20,
        1 << 19,
        8,
        1,
    ]
    sizes = {
        options: batch_processing.rows_per_chunk(OUE(epsilon=1.0, options=options))
        for options in (8, 1024, 1 << 20, 1 << 28)
    }
    assert sizes == {8: 1 << 17, 1024: 1 << 17, 1 << 20: 128, 1 << 28: 1}
    many = PureDUMP(options=4, dummies=99_999)
    assert batch_processing.rows_per_chunk(many) == (1 << 24) // 100_000


@pytest.mark.parametrize("width", [3, 5, 8, 16])
def test_every_way_to_sort_gives_the_same_files(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory and on disk, against Python's own sort."""
    wire = np.random.default_rng(9).integers(0, 3, (5000, width), dtype=np.uint8) * np.uint8(127)
    encoded = write_messages(tmp_path / "encoded", [wire[:2000], wire[2000:]])
    files = message_files.list_message_files(encoded)
    for name, memory in (("memory", 1 << 20), ("disk", 0)):
        monkeypatch.setattr(message_files, "MAX_IN_MEMORY_BYTES", memory)
        (tmp_path / name).mkdir()
        messages = message_files.sort_messages(message_files.read_messages(files, width), width, 5000, tmp_path / name)
        assert message_files.write_messages(messages, width, tmp_path / name).messages == 5000
        assert read_messages(tmp_path / name, width) == sort_messages(wire)


def test_messages_out_of_order_are_noticed() -> None:
    """Whoever sorted wrongly is stopped, within a batch and between batches."""
    good = [np.array([[0, 1], [0, 2]], dtype=np.uint8), np.array([[1, 0]], dtype=np.uint8)]
    assert len(list(message_files.check_sorted(good))) == 2
    for bad in ([good[1], good[0]], [good[0][::-1]]):
        with pytest.raises(ValueError, match="not in order"):
            list(message_files.check_sorted(bad))


@pytest.mark.parametrize("name", ["harmony", "duchi", "privkv", "privset", "krr", "piecewise"])
def test_a_column_becomes_the_values_that_it_stands_for(name: str) -> None:
    """Against a loop over the rows."""
    array = random_column(name, 40)
    column = small_plan(name).column("value")
    found = column.read_values(array)
    for row, value in zip(found, array.to_pylist(), strict=True):
        if name == "krr":
            assert row == COLOURS.index(value)
        elif name == "privset":
            assert list(row) == sorted(COLOURS.index(option) for option in value)
        elif name == "harmony":
            np.testing.assert_allclose(row, [x / 5 - 1 for x in value])
        elif name in ("duchi", "piecewise"):
            np.testing.assert_allclose(row, (value - 20) / 40, atol=1e-12)
        else:
            held = {int(key): number for key, number in row if key >= 0}
            wanted = {COLOURS.index(pair["key"]): pair["value"] / 5 - 1 for pair in value}
            assert held == pytest.approx(wanted)
