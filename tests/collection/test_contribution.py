"""A person is not a row: at most so many rows of each user, the first ones, whoever reads; ids go nowhere."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shuffledp.bounds.amplify import amplify
from shuffledp.cli.app import app
from shuffledp.collection.collect import CollectionRequest, collect, run_collection
from shuffledp.collection.engine import create_engine
from shuffledp.collection.input import table_views
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.table_views import MAX_ID_BYTES, IdHash, RowsPerUserTable
from shuffledp.collection.input.tables import open_input
from shuffledp.collection.resumable_job import Job
from shuffledp.ledger.collection_guarantee import CurveInputs, Guarantee
from shuffledp.privacy.group_privacy import group
from shuffledp.spark.engine import Spark
from shuffledp.storage import sorting
from tests.collection import list_paths, new_ledger, random_column, small_plan, write_table

# Many collections by a few plans.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

COLUMN = small_plan("krr").column("value")
ROWS = 3000
CHEAP = {"epsilon_local": 0.5, "epsilon": 50.0, "bound": "clone"}


def ids_of(rows: int, people: int = 900, seed: int = 2) -> list[str]:
    """Whose each row is: some have one row, some many; of all lengths."""
    numbers = (people * np.random.default_rng(seed).random(rows) ** 2).astype(int)
    return [f"{'x' * (number % 40)}{number:04d}" for number in numbers]


def first_rows(ids: list[Any], most: int) -> list[int]:
    """The rows that are used, by a loop."""
    seen: Counter[Any] = Counter()
    kept = []
    for row, one in enumerate(ids):
        if seen[one] < most:
            kept.append(row)
        seen[one] += 1
    return kept


def values_of(table: Any) -> list[Any]:
    return [value for array in table.batches(COLUMN, 700) for value in array.to_pylist()]


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("form", ["parquet", "csv", "directory", "table", "numbers", "bytes"])
def test_the_first_rows_of_each_user_are_used(form: str, most: int, tmp_path: Path) -> None:
    """Against a loop over the rows, whatever the ids are and wherever they stand."""
    ids: list[Any] = ids_of(ROWS)
    array = random_column("krr", ROWS)
    if form == "numbers":
        ids = [hash(one) for one in ids]
    elif form == "bytes":
        ids = [one.encode() + b"\0\xff" for one in ids]
    columns = {"who": pa.array(ids), "value": array}
    data: Any = pa.table(columns)
    if form in ("parquet", "csv", "numbers"):
        data = write_table(tmp_path / f"data.{'parquet' if form == 'numbers' else form}", **columns)
    elif form == "directory":
        data = tmp_path / "data"
        data.mkdir()
        for start in range(0, ROWS, 1000):
            part = {name: column.slice(start, 1000) for name, column in columns.items()}
            write_table(data / f"part-{start:05d}.parquet", **part)
    table = open_input(data, "value", "who", most)
    kept = first_rows(ids, most)
    assert values_of(table) == [array[row].as_py() for row in kept]
    counted = table.count_rows(len(kept))
    assert (counted.used, counted.left_out, counted.users) == (len(kept), ROWS - len(kept), len(set(ids)))
    assert table.per_person == most


def test_many_users_are_sorted_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows, in small runs and ranges; what is on disk for a moment holds no id, and is gone."""
    ids, array = ids_of(20_000, people=5000), random_column("krr", 20_000)
    path = write_table(tmp_path / "data.parquet", who=pa.array(ids), value=array)
    monkeypatch.setattr(table_views, "MAX_IN_MEMORY_BYTES", 10_000)
    monkeypatch.setattr(table_views, "READ_ROWS", 1000)
    monkeypatch.setattr(sorting, "RUN_BYTES", 50_000)
    monkeypatch.setattr(sorting, "MERGE_BYTES", 9000)
    rooms: list[Path] = []
    sort = sorting.sort_on_disk

    def spied(batches: Any, width: int, room: Path, rows: int) -> Any:
        for number, wire in enumerate(sort(batches, width, room, rows)):
            if number == 0:
                rooms.append(room)
                written = b"".join(file.read_bytes() for file in room.iterdir())
                assert len(written) == 20_000 * table_views.RECORD_BYTES
                assert not any(one.encode() in written for one in set(ids))
            yield wire

    monkeypatch.setattr(sorting, "sort_on_disk", spied)
    table = open_input(path, "value", "who", 2)
    assert values_of(table) == [array[row].as_py() for row in first_rows(ids, 2)]
    assert len(rooms) == 1
    assert not rooms[0].exists()


@pytest.mark.exhaustive
def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen times the rows, no more memory than a bit a row: nothing is held for each user."""
    monkeypatch.setattr(table_views, "MAX_IN_MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(table_views, "READ_ROWS", 1 << 14)
    monkeypatch.setattr(sorting, "RUN_BYTES", 1 << 20)
    monkeypatch.setattr(sorting, "MERGE_BYTES", 1 << 19)
    peaks = []
    for number, rows in enumerate((100_000, 1_600_000)):
        path = tmp_path / f"data{number}.parquet"
        pq.write_table(pa.table({"who": np.arange(rows), "value": np.zeros(rows, np.int8)}), path)
        tracemalloc.start()
        chosen = RowsPerUserTable(FileTable(path), "who", 1).selection
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert chosen.used == chosen.users == rows
    assert peaks[1] < peaks[0] + 1_600_000 // 8 + (2 << 20)


def test_hashes_are_equal_where_ids_are() -> None:
    """And nowhere else: beginnings, zeros behind, lengths around blocks; another process has another key."""
    ids = [
        "a",
        "a\0",
        "ab",
        "abcdefgh",
        "abcdefghi",
        "abcdefgh\0",
        "x" * 23,
        "x" * 24,
        "x" * 25,
        "x" * 40,
        "x" * MAX_ID_BYTES,
    ]
    hashing = IdHash("who")
    rows = hashing.hash_ids(pa.array(ids * 2))
    assert rows.shape == (2 * len(ids), 16)
    np.testing.assert_array_equal(rows[: len(ids)], rows[len(ids) :])
    assert len({row.tobytes() for row in rows}) == len(ids)
    for form in (pa.large_string(), pa.string_view(), pa.binary()):
        np.testing.assert_array_equal(hashing.hash_ids(pa.array(ids).cast(form)), rows[: len(ids)])
    sliced = pa.array(["other", *ids, "more"]).slice(1, len(ids))
    np.testing.assert_array_equal(hashing.hash_ids(sliced), rows[: len(ids)])
    np.testing.assert_array_equal(hashing.hash_ids(pa.array(ids).dictionary_encode()), rows[: len(ids)])
    assert not np.array_equal(IdHash("who").hash_ids(pa.array(ids)), rows[: len(ids)])
    numbers = hashing.hash_ids(pa.array([0, 1, 2**63 - 1, -1], pa.int64()))
    assert len({row.tobytes() for row in numbers}) == 4
    assert hashing.hash_ids(pa.array([], pa.string())).shape == (0, 16)


@pytest.mark.parametrize(
    ("columns", "user", "part"),
    [
        ({"who": pa.array(["a", None, "b"])}, "who", "got 1 rows without one; leave them out"),
        ({"who": pa.array(["a", "", ""])}, "who", "got 2 rows without one; leave them out"),
        ({"who": pa.array([1, None, None])}, "who", "got 2 rows without one; leave them out"),
        ({"who": pa.array([1.5, 2.5, 3.5])}, "who", "expected texts or whole numbers that identify users"),
        ({"who": pa.array(["s" * 2000] * 3)}, "who", "expected ids of at most 1024 bytes, got one of 2000"),
        ({"who": pa.array(["secret"] * 3)}, "whose", "has no column 'whose'; it has who, value"),
        ({"who": pa.array(["secret"] * 3)}, "value", "the column of the users, 'value', is not collected"),
    ],
)
def test_what_says_nobody_is_a_sentence(columns: dict[str, Any], user: str, part: str, tmp_path: Path) -> None:
    """Nothing is written, and no id is told."""
    path = write_table(tmp_path / "data.parquet", **columns, value=pa.array(["red"] * 3))
    with pytest.raises(ValueError, match=r"\.$") as caught:
        collect(small_plan("krr"), path, "value", out=tmp_path / "out", user=user, allow_weaker=True)
    assert part in str(caught.value)
    assert "secret" not in str(caught.value)
    assert list_paths(tmp_path) == ["data.parquet"]


def test_wrong_questions_are_sentences(tmp_path: Path) -> None:
    """Of the number of rows, and of data that have no users."""
    array = random_column("krr", 10)
    for most in (0, -1, 1.5):
        with pytest.raises(ValueError, match=r"^input: rows_per_user must be"):
            open_input(pa.table({"who": array, "value": array}), "value", "who", most)
    with pytest.raises(ValueError, match=r"needs the column of the users; name it with user"):
        open_input(array, "value", rows_per_user=2)
    with pytest.raises(ValueError, match=r"^input: expected data with a column 'who' of users, got a single column\.$"):
        open_input(array, "value", "who")
    table = pa.table({"who": array, "value": array})
    assert open_input(table, None, "who").choose_columns(()) == ("value",)
    path = write_table(tmp_path / "data.csv", who=array, value=array)
    assert open_input(path, None, "who").choose_columns(()) == ("value",)


def test_the_promise_is_about_a_person(tmp_path: Path) -> None:
    """Group privacy of all rows that are used; the report says so, and that there is no certificate."""
    ids, array = ids_of(ROWS), random_column("krr", ROWS)
    data = pa.table({"who": ids, "value": array})
    kept = first_rows(ids, 3)
    plan = small_plan("krr", users=ROWS, **CHEAP)
    report = collect(plan, data, "value", out=tmp_path / "out", user="who", rows_per_user=3)
    held = report.guarantee
    assert (held.users, held.per_person) == (len(kept), 3)
    alone = amplify(plan.mechanism, len(kept), bound=plan.bound)
    assert held.value.upper == group(alone, 3).epsilon(plan.delta).upper
    assert held.value.upper > 3 * alone.epsilon(plan.delta).upper
    with pytest.raises(ValueError, match="expected one row of each person"):
        held.claim()
    assert not (tmp_path / "out" / "certificate.json").exists()
    people = len(set(ids))
    words = (tmp_path / "out" / "report.md").read_text("utf-8")
    wanted = (
        f"one of the {people:,} users had held any other values in all their rows, at most 3 of the {len(kept):,}, "
        "whose number"
    )
    for told in (wanted, f"{ROWS - len(kept):,} rows were left out", "none: expected one row of each person, got more"):
        assert told in words
    document = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert document["rows"] == {"used": len(kept), "left_out": ROWS - len(kept), "users": people, "per_person": 3}
    assert document["guarantee"]["per_person"] == 3
    assert "rows left out" in str(report)


def test_one_row_of_each_is_a_user_each(tmp_path: Path) -> None:
    """With a certificate, as without the column; which then is what it says: a row is a person."""
    ids, array = ids_of(ROWS), random_column("krr", ROWS)
    plan = small_plan("krr", users=900, **CHEAP)
    data = pa.table({"who": ids, "value": array})
    report = collect(plan, data, "value", out=tmp_path / "bounded", user="who")
    users = len(set(ids))
    assert report.guarantee == Guarantee(plan, users)
    assert f"At most one row of each of {users:,} people" in report.statement()
    assert report.guarantee.claim() == Guarantee(plan, users).claim()
    ids_apart = "Each id in the users' column is a different person."
    assert ids_apart in report.document()["guarantee"]["conditions"]
    assert f"\n- {ids_apart}\n" in (tmp_path / "bounded" / "report.md").read_text("utf-8")
    report = collect(plan, data, "value", out=tmp_path / "rows")
    assert report.guarantee.users == ROWS
    assert "Each row was taken as one person" in report.statement()
    page = (tmp_path / "rows" / "report.md").read_text("utf-8")
    assert "Each row was taken as one person" in page
    assert "\n- Each row is a different person.\n" in page
    assert report.document()["rows"] == {"used": ROWS, "left_out": 0, "users": None, "per_person": 1}


def test_a_weaker_promise_is_refused_for_a_person(tmp_path: Path) -> None:
    """What one row keeps, three do not."""
    ids, array = ids_of(ROWS), random_column("krr", ROWS)
    target = Guarantee(small_plan("krr", users=ROWS, **CHEAP), ROWS).value.upper * 2
    plan, data = small_plan("krr", users=ROWS, **(CHEAP | {"epsilon": target})), pa.table({"who": ids, "value": array})
    with pytest.raises(Exception, match=r"rows, up to 3 of one person, took part where 3000 were planned"):
        collect(plan, data, "value", out=tmp_path / "out", user="who", rows_per_user=3)
    assert not (tmp_path / "out").exists()


def test_a_recipe_tells_how_many_rows_a_person_has() -> None:
    """And is read again; recipes from before are of one."""
    plan = small_plan("krr")
    recipe = Guarantee(plan, 500, 4).curve_inputs
    assert recipe.to_document()["per_person"] == 4
    assert CurveInputs.from_document(recipe.to_document()) == recipe
    old = {name: value for name, value in recipe.to_document().items() if name != "per_person"}
    assert CurveInputs.from_document(old) == Guarantee(plan, 500).curve_inputs
    assert recipe != Guarantee(plan, 500).curve_inputs


def test_ids_stay_with_the_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the key is destroyed, and after everything: no file in the output holds an id."""
    ids = [f"person-{number % 400:05d}" for number in range(1000)]
    path = write_table(tmp_path / "data.parquet", who=pa.array(ids), value=random_column("krr", 1000))
    plan = small_plan("krr", users=400, **CHEAP)
    new_ledger(tmp_path / "ledger")
    request = CollectionRequest(
        plan, open_input(path, "value", "who"), ("value",), tmp_path / "out", tmp_path / "ledger"
    )

    class Stopped(BaseException):
        """Stands for a kill."""

    def stop(*_: object) -> None:
        raise Stopped

    def written() -> bytes:
        return b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())

    with monkeypatch.context() as patched:
        patched.setattr(Job, "forget_order", stop)
        with pytest.raises(Stopped):
            run_collection(request, create_engine("embedded"))
    assert b"person-" not in written()
    other = CollectionRequest(
        plan, open_input(path, "value", "who", 2), ("value",), tmp_path / "out", tmp_path / "ledger", resume=True
    )
    with pytest.raises(ValueError, match="the input is not the one"):
        run_collection(other, create_engine("embedded"))
    again = CollectionRequest(
        plan, open_input(path, "value", "who"), ("value",), tmp_path / "out", tmp_path / "ledger", resume=True
    )
    report = run_collection(again, create_engine("embedded"))
    assert report.guarantee.users == 400
    assert report.rows is not None
    assert report.rows.left_out == 600
    assert b"person-" not in written()


def test_roles_apart(tmp_path: Path) -> None:
    """The encoder bounds the rows, and says how many in its bundle: shuffler and estimator promise for as many."""
    ids, array = ids_of(ROWS), random_column("krr", ROWS)
    path = write_table(tmp_path / "data.csv", who=pa.array(ids), value=array)
    plan = small_plan("krr", users=ROWS, **CHEAP)
    plan.save(tmp_path / "plan.json")
    kept = len(first_rows(ids, 2))
    runner, plan_path, bundle = CliRunner(), str(tmp_path / "plan.json"), tmp_path / "m.messages"
    steps = [
        ["encode", plan_path, "--input", str(path), "--column", "value", "--out", str(bundle), "--user",
         "who", "--rows-per-user", "2", "--json"],
        ["shuffle", str(bundle), "--out", str(tmp_path / "shuffled"), "--plan", plan_path, "--ledger",
         str(new_ledger(tmp_path / "ledger").path)],
        ["estimate", plan_path, "--input", str(tmp_path / "shuffled"), "--out", str(tmp_path / "result"),
         "--no-ledger", "--json"],
    ]  # fmt: skip
    for step in steps:
        found = runner.invoke(app, step)
        assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["guarantee"]["users"] == kept
    assert document["guarantee"]["epsilon"]["upper"] == Guarantee(plan, kept, 2).value.upper
    assert "unless a column identified the users" in document["statement"]


@pytest.mark.spark
def test_spark_uses_the_same_rows(spark: Spark, tmp_path: Path) -> None:
    """Of files whose order is not the one in which Spark reads them."""
    data = tmp_path / "data"
    data.mkdir()
    ids, array = ids_of(ROWS), random_column("krr", ROWS)
    for number, start in enumerate((0, 100, 2500)):
        stop = (100, 2500, ROWS)[number]
        columns = {"who": pa.array(ids[start:stop]), "value": array.slice(start, stop - start)}
        write_table(data / f"part-{number}.parquet", **columns)
    plan = small_plan("krr", users=900, **CHEAP)
    wanted = [array[row].as_py() for row in first_rows(ids, 2)]
    seen: list[list[str]] = []
    engine_input = Spark._read_input

    def spied(self: Spark, table: FileTable, column: Any) -> Any:
        seen.append(values_of(table))
        return engine_input(self, table, column)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Spark, "_read_input", spied)
        report = collect(plan, data, "value", out=tmp_path / "out", user="who", rows_per_user=2, engine=spark)
    assert seen == [wanted]
    assert report.guarantee.users == len(wanted)
    assert report.rows == collect(plan, data, "value", out=tmp_path / "embedded", user="who", rows_per_user=2).rows
    shutil.rmtree(data)
    assert not [path for path in list_paths(tmp_path / "out") if "input" in path or "work" in path]
