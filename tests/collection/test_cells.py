"""Data as people have it: every format and every way to write a value gives the same rows, by rules that are told."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import json
import re
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp._core.errors import error_phrase
from shuffledp._core.message_phrases import write_option
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.tables import open_input, prepare_table
from shuffledp.tasks import Frequency, Intervals, ItemSets, KeyValue, Location, Mean, Ranges, Rules, Task, VectorMean
from shuffledp.tasks.column_reader import ColumnReader

ROWS = 300
TABLE = pa.table({"colour": ["red", "green", "blue"] * 100, "age": np.arange(ROWS) % 7, "who": np.arange(ROWS) // 3})
RED = sdp.Plan(Frequency(["red", "green", "blue"]), sdp.KRR(5.0, 3), users=ROWS, epsilon=5.0, delta=1e-6)


def written(room: Path) -> dict[str, Any]:
    """The same table in every form that is read."""
    text = io.BytesIO()
    pc.write_csv(TABLE, text)
    plain = text.getvalue()
    (room / "data.csv").write_bytes(plain)
    (room / "data.csv.gz").write_bytes(gzip.compress(plain))
    (room / "data.tsv").write_bytes(plain.replace(b",", b"\t"))
    with zipfile.ZipFile(room / "data.csv.zip", "w") as archive:
        archive.writestr("data.csv", plain)
    pq.write_table(TABLE, room / "data.parquet")
    feather.write_feather(TABLE, room / "data.feather")
    with pa.OSFile(str(room / "data.arrows"), "wb") as file, pa.ipc.new_stream(file, TABLE.schema) as stream:
        stream.write_table(TABLE, max_chunksize=70)
    for number in range(3):
        place = room / "parts" / f"year={2020 + number}"
        place.mkdir(parents=True)
        pc.write_csv(TABLE.slice(100 * number, 100), place / "part.csv")
        pc.write_csv(TABLE.slice(100 * number, 100), room / f"piece-{number}.csv")
    pieces = [str(room / f"piece-{number}.csv") for number in range(3)]
    single = ["data.csv", "data.csv.gz", "data.tsv", "data.csv.zip", "data.parquet", "data.feather", "data.arrows"]
    return {
        **{name: str(room / name) for name in single},
        "partitions": str(room / "parts"), "several": pieces, "a pattern": str(room / "piece-?.csv"),
        "pandas": TABLE.to_pandas(), "arrow": TABLE,
    }  # fmt: skip


def test_every_form_gives_the_same_rows(tmp_path: Path) -> None:
    """Files, compressed or not, partitions, patterns and frames; a column of numbers is the same numbers in each."""
    ages = ColumnReader(("age",), Frequency(7), sdp.KRR(2.0, 7))
    for name, data in written(tmp_path).items():
        table = open_input(data, ("colour",))
        found = [value for array in table.batches(RED.column("colour"), 64) for value in array.to_pylist()]
        assert found == TABLE["colour"].to_pylist(), name
        numbers = np.concatenate([ages.read_values(array) for array in open_input(data, ("age",)).batches(ages, 64)])
        assert numbers.tolist() == TABLE["age"].to_pylist(), name


def test_standard_input_is_read_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV, or what begins as another format does; kept for as long as the table is."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "room"))
    (tmp_path / "room").mkdir()
    forms = written(tmp_path)
    for name in ("data.csv", "data.csv.gz", "data.parquet"):
        given = SimpleNamespace(buffer=io.BytesIO(Path(forms[name]).read_bytes()), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", given)
        table = open_input("-", ("colour",))
        assert sum(len(batch) for batch in table.read(["colour"], 64)) == ROWS
        assert table.fingerprint()
        del table
        assert not list((tmp_path / "room").iterdir())


@pytest.mark.parametrize(
    ("cells", "names", "numbers"),
    [
        (pa.array([1.0, 2.0, 1.0]), ("1", "2"), [0, 1, 0]),
        (pa.array(["1.0", " 2", "1"]), ("1", "2"), [0, 1, 0]),
        (pa.array([True, False]), ("False", "True"), [1, 0]),
        (pa.array(["TRUE", "false"]), ("False", "True"), [1, 0]),
        (pa.array([decimal.Decimal("2.00"), decimal.Decimal("1.50")]), ("1.50", "2"), [1, 0]),
        (pa.array([datetime.date(2026, 1, 31)]), ("2026-01-30", "2026-01-31"), [1]),
        (pa.array([datetime.datetime(2026, 1, 30)]), ("2026-01-30", "2026-01-31"), [0]),
        (pa.array(["b", "a"]).dictionary_encode(), ("a", "b"), [1, 0]),
        (pa.array(["1.0", "0"]), None, [1, 0]),
        (pa.array([1.0, 0.0]), None, [1, 0]),
    ],
)
def test_categories_however_they_are_kept(cells: pa.Array, names: tuple[str, ...] | None, numbers: list[int]) -> None:
    task = Frequency(2 if names is None else names)
    assert ColumnReader(("cell",), task, sdp.KRR(2.0, 2)).read_values(cells).tolist() == numbers


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["2.5", "0", "+5", "1e1"]),
        pa.array([2.5, 0, 5, 10]),
        pa.array([decimal.Decimal("2.5"), decimal.Decimal(0), decimal.Decimal(5), decimal.Decimal(10)]),
    ],
)
def test_numbers_however_they_are_kept(cells: pa.Array) -> None:
    found = ColumnReader(("cell",), Mean(0, 10), sdp.Laplace(2.0)).read_values(cells)
    np.testing.assert_allclose(found, [0.25, 0, 0.5, 1.0])


def test_lists_pairs_places_and_vectors_in_text() -> None:
    """A CSV file carries everything."""
    sets = ColumnReader(("cell",), ItemSets(["a", "b", "c"], 2), sdp.PrivSet(2.0, 5, 2))
    assert sets.read_values(pa.array(["a; c", "b;b;", "c"])).tolist() == [[0, 2], [1, 4], [2, 4]]
    pairs = ColumnReader(("cell",), KeyValue(["x:y", "z"], 0, 10, items=2), sdp.PCKV(2.0, 2, 2), Rules(separator="|"))
    assert pairs.read_values(pa.array(["x:y:10|z:5", "z:0"])).tolist() == [[[0, 1], [1, 0]], [[1, -1], [-1, 0]]]
    assert pairs.read_values(pa.array([[("z", 5.0)]], pa.map_(pa.string(), pa.float64()))).tolist() == [
        [[1, 0], [-1, 0]]
    ]
    box = VectorMean(2, Intervals((0, 100), (10, 200), ("short", "long")))
    both = ColumnReader(("short", "long"), box, sdp.Harmony(2.0, 2))
    struct = pa.StructArray.from_arrays([pa.array(["0", "10"]), pa.array([150, 200])], ["short", "long"])
    assert both.read_values(struct).tolist() == [[-1, 0], [1, 1]]
    assert ColumnReader(("cell",), box, sdp.Harmony(2.0, 2)).read_values(pa.array(["0;150", "10;200"])).tolist() == [
        [-1, 0],
        [1, 1],
    ]
    assert Task.to_document(box)["domain"] == {"low": [0.0, 100.0], "high": [10.0, 200.0], "names": ["short", "long"]}
    plan = sdp.Plan(box, sdp.Harmony(2.0, 2), users=10, epsilon=1.0, delta=1e-6)
    assert sdp.Plan.parse(plan.text()) == plan


@pytest.mark.parametrize("names", [("lat", "lon"), ("Longitude", "Latitude"), ("a", "b")])
def test_latitude_and_longitude_by_name(names: tuple[str, str]) -> None:
    """In whatever order they are named; without names that tell it, latitude first."""
    task = Location(0, 20, 40, 50, 2, 1, "degrees")
    ordered = task.resolve_columns(names)
    assert ordered == (names if names[0] != "Longitude" else names[::-1])
    places = pa.StructArray.from_arrays([pa.array([45.0, 41.0]), pa.array(["5", "15"])], list(ordered))
    assert ColumnReader(ordered, task, sdp.KRR(2.0, 2)).read_values(places).tolist() == [0, 1]


# --- rules --------------------------------------------------------------------------------------------------------

GAPS = pa.table({"number": ["1", "", "NaN", "50", "-3", "x"], "word": ["a", "NA", "", "b", "a", "a"]})


def test_rows_without_a_value() -> None:
    """Refused with their place; dropped; a category; or an empty list."""
    numbers = ColumnReader(("number",), Mean(-10, 60), sdp.Laplace(2.0), Rules(missing="drop", gaps=("x",)))
    table = prepare_table(open_input(GAPS, ("number",)), numbers, None, False)
    assert [array.to_pylist() for array in table.batches(numbers, 10)] == [["1", "50", "-3"]]
    assert table.count_rows(3).dropped == 3
    assert table.locate_row(1) == "the data, row 4"
    words = ColumnReader(("word",), Frequency(["a", "b", "(missing)"]), sdp.KRR(2.0, 3), Rules("category", ("NA",)))
    assert words.read_values(GAPS["word"].combine_chunks()).tolist() == [0, 2, 2, 1, 0, 0]
    lists = ColumnReader(("word",), ItemSets(["a", "b", "NA"], 1), sdp.PrivSet(2.0, 4, 1), Rules("empty"))
    assert lists.read_values(GAPS["word"].combine_chunks()).tolist() == [[0], [2], [3], [1], [0], [0]]
    with pytest.raises(ValueError, match="expected a plan with the category"):
        ColumnReader(("word",), Frequency(["a", "b"]), sdp.KRR(2.0, 2), Rules("category")).read_values(
            GAPS["word"].combine_chunks()
        )


def test_clipped_numbers_are_counted() -> None:
    column = ColumnReader(("number",), Mean(0, 10), sdp.Laplace(2.0), Rules(clip=True))
    cells = pa.array([-5.0, 0.0, 5.0, 10.5, 1e300])
    assert column.read_values(cells).tolist() == [0, 0, 0.5, 1, 1]
    assert column.count_changes(cells).clipped == 3
    with pytest.raises(ValueError, match=r"expected numbers from 0 to 10, got something else in 1 of 2 values"):
        column.read_values(pa.array([5.0, float("inf")]))


def test_both_engines_follow_the_rules(engine: Engine, tmp_path: Path) -> None:
    """Rows dropped, numbers clipped, two columns joined: the report tells the rules, and exact counts to nobody."""
    path = tmp_path / "data.csv"
    rows = [f"{i % 5},{'' if i % 10 == 0 else 100 * (i % 3)}" for i in range(2000)]
    path.write_text("short,long\n" + "\n".join(rows) + "\n", "utf-8")
    task = VectorMean(2, Intervals((0, 0), (5, 150), ("short", "long")))
    plan = sdp.Plan(task, sdp.Harmony(4.0, 2), users=1800, epsilon=5.0, delta=1e-6)
    rules = Rules(missing="drop", clip=True)
    column = plan.column("short", "long", rules=rules)
    table = prepare_table(open_input(path, column.names), column, None, False)
    report = run_collection(CollectionRequest(plan, table, column.names, tmp_path / "out", rules=rules), engine)
    assert report.guarantee.users == 1800
    assert report.tally.clipped == 600
    (quantity,) = report.quantities
    assert quantity.labels == ("short", "long")
    assert quantity.low is not None
    assert quantity.high is not None
    kept = [i for i in range(2000) if i % 10]
    truth = np.array([np.mean([i % 5 for i in kept]), np.mean([min(150, 100 * (i % 3)) for i in kept])])
    # Two estimates beyond 6 standard errors: at most once in 1e8.
    assert quantity.standard_error is not None
    assert (np.abs(quantity.value - truth) < 6 * quantity.standard_error).all()
    told = (tmp_path / "out" / "report.json").read_text("utf-8")
    assert "Numbers beyond the interval were moved to its ends" in told
    assert json.loads(told)["rows"]["dropped"] == 200
    # As a number or a word of its own: the digits of an estimate may happen to hold it.
    assert re.search(r"(?<![\d.])600(?!\d)", told) is None
    assert "600 numbers clipped" in report.private_counts_text()


def test_rows_of_a_user_are_gathered(tmp_path: Path) -> None:
    """Into a set, or into pairs whose numbers are averaged; in the order in which users come."""
    data = pa.table({"who": ["b", "a", "b", "b", "a"], "what": ["x", "y", "z", "x", "y"], "much": [1.0, 2, 3, 3, 4]})
    sets = ColumnReader(("what",), ItemSets(["x", "y", "z"], 2), sdp.PrivSet(2.0, 5, 2))
    table = prepare_table(open_input(data, ("what",), "who", gather=True), sets, "who", True)
    assert [sets.read_values(array).tolist() for array in table.batches(sets, 10)] == [[[0, 2], [1, 4]]]
    pairs = ColumnReader(("what", "much"), KeyValue(["x", "y", "z"], 0, 4, items=2), sdp.PCKV(2.0, 3, 2))
    table = prepare_table(open_input(data, pairs.names, "who", gather=True), pairs, "who", True)
    (found,) = [pairs.read_values(array).tolist() for array in table.batches(pairs, 10)]
    assert found == [[[0, 0.0], [2, 0.5]], [[1, 0.5], [-1, 0.0]]]
    assert table.count_rows(2).gathered


# --- a look before a plan -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "task", "domain"),
    [
        (pa.array(["b", "a", "b", "a"]), "frequency", {"categories": ["a", "b"]}),
        (pa.array([1.25, 9.5, 3.0]), "mean", {"low": 1.0, "high": 9.5}),
        (pa.array([True, False, True]), "count", {"low": 0.0, "high": 1.0}),
        (pa.array(["yes", "no", "yes"]), "count", {"low": 0.0, "high": 1.0}),
        (pa.array(["2026-01-30", "2026-02-01"]), "range-queries",
         {"categories": ["2026-01-30", "2026-01-31", "2026-02-01"]}),
        (pa.array(["a;b", "a", ""]), "set-valued", {"categories": ["a", "b"]}),
        (pa.array(["a:1;b:3", "a:2"]), "key-value", {"keys": ["a", "b"], "low": 1.0, "high": 3.0}),
        (pa.table({"lat": [47.21, 47.39], "lon": [8.4, 8.69]}), "location",
         {"west": 8.4, "east": 8.7, "south": 47.21, "north": 47.39}),
        (pa.table({"p": [1.0, 3.0], "q": [100, 900]}), "vector-mean",
         {"low": [1.0, 100.0], "high": [3.0, 900.0], "names": ["p", "q"]}),
    ],
)  # fmt: skip
def test_kind_and_range_are_read(data: Any, task: str, domain: dict[str, Any]) -> None:
    """And what was read is named: it is a release."""
    from shuffledp.tasks import registry

    names = data.column_names if isinstance(data, pa.Table) else None
    found = sdp.collection.preview(data, names, rules=Rules(missing="empty"))
    assert (found.users, found.task) == (len(data), task)
    assert registry.from_options(found.task, found.task_options).to_document()["domain"] == domain
    assert found.settings_from_data if task != "count" else not found.settings_from_data


def test_gaps_are_pointed_out_before_a_plan_is_made() -> None:
    """What `collect` would stop at, and categories that look as if they stood for none; neither count nor row."""
    gaps = "Some rows have no value, and collect will refuse them"
    for cells in (pa.array([1.5, None, 2.5]), pa.array(["1.5", "NaN", "2.5"]), pa.array(["a", "", "a", "b", "b"])):
        assert gaps in sdp.collection.preview(cells).format_text()
        assert gaps not in sdp.collection.preview(cells, rules=Rules(missing="drop")).format_text()
    states = pa.array(["TX", "NA", "TX", "AK", "AK"])
    assert "One category is 'NA'" in sdp.collection.preview(states).format_text()
    assert "NA" not in sdp.collection.preview(states, rules=Rules("category", ("NA",))).format_text()


def test_what_is_given_is_not_read() -> None:
    from shuffledp.tasks.domain import TaskOptions

    given = TaskOptions(low=(0.0,), high=(10.0,))
    found = sdp.collection.preview(pa.array([1.0, 2.0]), given=given)
    assert (found.task_options, found.settings_from_data) == (given, ())
    assert "release" not in found.format_text()
    seen = sdp.collection.preview(pa.array([3, 1, 5] * 2), task="range-queries")
    assert seen.task_options.labels == ("1", "2", "3", "4", "5")
    assert (
        "a release of its own, which no ε covers; to be safe, give public ones by --categories FILE"
        in seen.format_text()
    )
    ordered = Ranges(seen.task_options.build_option_domain())
    plan = sdp.Plan(ordered, sdp.RangeQueries(2.0, 3), 6, 5.0, 1e-6, read_from_data=seen.settings_from_data)
    assert sdp.Plan.parse(plan.text()).read_from_data == ("categories",)


def searches(words: int, rows: int, seed: int) -> list[str]:
    """What people typed: the word of rank r about 1/r as often as the first (Zipf's law)."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, words + 1)
    return [f"private {place}" for place in rng.choice(words, rows, p=weights / weights.sum())]


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (searches(5000, 20_000, 1), None),
        (searches(200_000, 100_000, 2), None),
        ([f"user{place}@private.example" for place in range(11)], None),
        ([f"private{place}" for place in range(40)] * 2 + ["private0"] * 1000, None),
        ([f"private {place};private {place + 1}" for place in range(300)], None),
        ([f"private {place}:2;private {place + 1}:3" for place in range(300)], None),
        ([4_000_000_000 + 7 * place for place in range(300)], "frequency"),
        (["1980-02-03", "1990-03-04", *(f"19{year}-01-01" for year in range(20, 80))], "frequency"),
        ([place + 0.5 for place in range(300)], "range-queries"),
    ],
    ids=["words", "more words", "addresses", "one common word", "sets", "pairs", "ids", "births", "numbers"],
)
def test_rare_values_do_not_become_a_public_plan(cells: list[Any], task: str | None) -> None:
    """Neither they nor any of them: the sentence names the search that finds the common ones, and how to insist."""
    with pytest.raises(ValueError, match="find the common ones by task='heavy-hitters'") as told:
        sdp.collection.preview(pa.array(cells), task=task)
    assert "a public file" in str(told.value)
    assert "insist by domain_from_data=True" in str(told.value)
    on_command_line = error_phrase(told.value).write(write_option)
    assert re.search(r"`shuffledp plan --task heavy-hitters --(strings 64|bits 48)`", on_command_line)
    assert "insist by --domain-from-data" in on_command_line
    assert not any(str(cell) in str(told.value) for cell in (*cells, "private"))
    found = sdp.collection.preview(pa.array(cells), task=task, domain_from_data=True)
    assert found.task_options.labels
    assert "release of its own" in found.format_text()


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (["red", "green", "blue"], None),
        ([f"department {place}" for place in range(20) for _ in range(3)], None),
        ([f"country {place % 195}" for place in range(2500)], None),
        ([f"airport {place % 100}" for place in range(5000)] + [f"strip {place}" for place in range(90)], None),
        ([place * 1000 for place in range(30)], "range-queries"),
    ],
)
def test_public_lists_are_read(cells: list[Any], task: str | None) -> None:
    """Few values, many of many people each, some rare ones among them, and steps between two numbers."""
    assert sdp.collection.preview(pa.array(cells), task=task).task_options.labels


def test_rows_of_one_person_are_one_person() -> None:
    """A word that a person typed thirty times is a word of one person, in rows and in lists."""
    rows = [(user, f"private {user % 40}") for user in range(120) for _ in range(30)]
    table = pa.table({"who": [user for user, _ in rows], "word": [word for _, word in rows]})
    with pytest.raises(ValueError, match="most of them of fewer than 10 people"):
        sdp.collection.preview(table, "word", user="who", rows_per_user=30)
    with pytest.raises(ValueError, match="most of them of fewer than 10 people"):
        sdp.collection.preview(table, "word", user="who", gather=True)
    assert sdp.collection.preview(table, "word").task_options.labels


def test_values_that_cannot_be_seen_do_not_become_categories() -> None:
    """They are not repeated; zero-width spellings of a name are that name."""
    with pytest.raises(ValueError, match="2 different values with control characters") as told:
        sdp.collection.preview(pa.array(["red", "gre\x1ben", "bl\tue"] * 20))
    assert "gre" not in str(told.value)
    seen = sdp.collection.preview(pa.array(["cafe\u0301", "caf\u00e9", "caf\u00e9\u200b", "tea", "\ufefftea"] * 20))
    assert seen.task_options.labels == ("caf\u00e9", "tea")
