"""Plausible mistakes with data: one helpful sentence each, no value of a person, and nothing is left behind."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp.tasks import Frequency, Intervals, ItemSets, KeyValue, Location, Mean, Task, VectorMean
from tests.cli import run
from tests.collection import list_paths

SECRETS = ("4711", "hunter2", "Siegfried")
"""Values that people hold in the files below: none of them is ever told."""
ROWS = "name,age,likes,lat,lon\n" + "".join(
    f"Siegfried{i % 40},{20 + i % 50},tea;milk,47.{i},8.{i}\n" for i in range(99)
)
TEXTS = {
    "good.csv": ROWS,
    "headless.csv": "hunter2,4711\nhunter2,4712\n",
    "semicolon.csv": ROWS.replace(";", "/").replace(",", ";"),
    "empty.csv": "",
    "header.csv": "name,age\n",
    "gap.csv": "age,likes\n30,tea\n,\n40,milk\n",
    "allgaps.csv": "age,other\n,1\n,2\n",
    "nan.csv": "age\n30\nnan\n",
    "inf.csv": "age\n30\ninf\n",
    "negative.csv": "age\n30\n-4711\n",
    "large.csv": "age\n30\n4711\n",
    "mixed.csv": "age\n30\nhunter2\n",
    "comma.csv": 'age\n"4711,5"\n',
    "twice.csv": "age,age\n1,2\n",
    "ragged.csv": "age,other\n1,2\n4711\n",
    "long.csv": "likes\ntea;milk;wine\n",
    "unknown.csv": "likes\nhunter2;tea\n",
    "pipes.csv": "likes\ntea|milk\n",
    "pairs.csv": "rated\ntea:5;milk:4711\n",
    "nopairs.csv": "rated\nhunter2\n",
    "twicekey.csv": "rated\ntea:5;tea:4\n",
    "wordpairs.csv": "rated\ntea:hunter2\n",
    "offmap.csv": "lat,lon\n47.0,8.0\n4711,8.5\n",
    "onecoordinate.csv": "place\n47.0\n",
    "threecoordinates.csv": "place\n47;8;9\n",
    "users.csv": "who,age\na,30\n,40\n",
    "percent.csv": "age\n4711%\n",
    "euro.csv": "age\n€4711\n",
    "thousands.csv": 'age\n"4,711"\n',
    "spaced.csv": "name, age\nhunter2, 30\n",
    "days.csv": "day\n2026-01-31\n31.01.2026\n",
    "minutes.csv": "lat,lon\n47°11'N,8°30'E\n",
    "swapped.csv": "lat,lon\n8.5,47.11\n",
    "likejson.csv": 'likes\n"[""tea"", ""milk""]"\n',
    "equals.csv": "rated\ntea=5;milk=3\n",
    "rows.json": '[{"age": 4711}]',
    "notes.txt": "hunter2",
    "categories.txt": "tea\nmilk\n",
}
PLANS: dict[str, tuple[Task, sdp.Mechanism]] = {
    "age": (Mean(0, 120), sdp.Laplace(2.0)),
    "likes": (ItemSets(["tea", "milk", "wine"], 2), sdp.PrivSet(2.0, 5, 2)),
    "drink": (Frequency(["tea", "milk"]), sdp.KRR(2.0, 2)),
    "rated": (KeyValue(["tea", "milk"], 0, 5, items=2), sdp.PCKV(2.0, 2, 2)),
    "map": (Location(5, 10, 45, 48, 2, 2, "degrees"), sdp.KRR(2.0, 4)),
    "both": (VectorMean(2, Intervals((0, 0), (100, 10))), sdp.Harmony(2.0, 2)),
}


@pytest.fixture(scope="module")
def mess(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one file of each kind of mistake."""
    room = tmp_path_factory.mktemp("mess")
    for name, text in TEXTS.items():
        (room / name).write_text(text, "utf-8")
    (room / "latin.csv").write_bytes("name\nSiegfried\xe4\n".encode("latin-1"))
    (room / "utf16.csv").write_text("age\n4711\n", "utf-16")
    (room / "false.csv.gz").write_text("age\n4711\n", "utf-8")
    (room / "cut.csv.gz").write_bytes(gzip.compress(ROWS.encode() * 50)[:300])
    (room / "false.csv.zip").write_text("age\n4711\n", "utf-8")
    with zipfile.ZipFile(room / "two.csv.zip", "w") as archive:
        archive.writestr("a.csv", "age\n1\n")
        archive.writestr("b.csv", "age\n2\n")
    (room / "false.parquet").write_text("age\n4711\n", "utf-8")
    (room / "false.feather").write_text("age\n4711\n", "utf-8")
    pq.write_table(pa.table({"age": [[4711]], "likes": [3]}), room / "nested.parquet")
    (room / "bare").mkdir()
    (room / "formats").mkdir()
    (room / "formats" / "a.csv").write_text("age\n1\n", "utf-8")
    pq.write_table(pa.table({"age": [1]}), room / "formats" / "b.parquet")
    (room / "copies").mkdir()
    for name in ("a.csv", "b.csv"):
        (room / "copies" / name).write_text("age\n4711\n", "utf-8")
    for name, (task, mechanism) in PLANS.items():
        sdp.Plan(task, mechanism, users=100, epsilon=3.0, delta=1e-6).save(room / f"{name}.json")
    return room


COLLECT: list[tuple[str, str]] = [
    ("age good.csv --column Age", "has no column 'Age'; it has name, age, likes, lat, lon; did you mean 'age'"),
    ("age good.csv --column name", "good.csv, row 1, column 'name': expected numbers from 0 to 120, got other text"),
    ("age good.csv", "expected the name of a column of good.csv, which has 5"),
    ("age good.csv --column age --column lat", "the task 'mean' reads one column, got 2 of them"),
    ("age good.csv --column age --column age", "expected each column once, got 'age' twice"),
    ("age good.csv --column age --user age", "the column of the users, 'age', is not collected"),
    ("age good.csv --column age --user nobody", "has no column 'nobody'"),
    ("age good.csv --column age --rows-per-user 3", "needs the column of the users"),
    ("age good.csv --column age --gather", "gather needs the column of the users (--user)"),
    ("age good.csv --column age --user name --gather", "the task 'mean' takes no lists"),
    ("age good.csv --column age --clip --clip --missing drop --missing drop", "--clip was given twice"),
    (
        "age good.csv --column age --missing ignore",
        "missing must be one of refuse, drop, category, empty, got 'ignore'",
    ),
    ("age good.csv --column age --longer cut", "longer must be one of refuse, sample, got 'cut'"),
    ("age good.csv --column age --delimiter ;;", "delimiter must be one character such as ';', got ';;'"),
    ("likes good.csv --column likes --separator ,", "expected one of the plan's 3 categories, got something else"),
    ("age headless.csv --column age", "its first line must hold the names of columns"),
    ("age semicolon.csv --column age", "its fields seem to be separated by ';' (--delimiter)"),
    ("age empty.csv --column age", "cannot read empty.csv: Empty CSV file; it needs a line with the names of columns"),
    ("age header.csv --column age", "expected at least one row, got none in header.csv"),
    ("age gap.csv --column age", "gap.csv, row 2, column 'age': expected a value in every row, got 1 without one"),
    ("drink gap.csv --column likes", "gap.csv, row 2, column 'likes': expected a value in every row"),
    ("drink gap.csv --column likes --missing category", "expected a plan with the category '(missing)'"),
    ("age allgaps.csv --column age --missing drop", "no row of allgaps.csv has a value in age"),
    ("age nan.csv --column age", "nan.csv, row 2, column 'age': expected a value in every row"),
    ("age inf.csv --column age --clip", "inf.csv, row 2, column 'age': expected numbers from 0 to 120"),
    ("age negative.csv --column age", "negative.csv, row 2, column 'age': expected numbers from 0 to 120"),
    ("age large.csv --column age", "clip them (--clip), or plan for a wider domain"),
    ("age mixed.csv --column age", "mixed.csv, row 2, column 'age': expected numbers from 0 to 120, got other text"),
    ("age comma.csv --column age", "comma.csv, row 1, column 'age': expected numbers from 0 to 120, got other text"),
    ("age twice.csv --column age", "has 2 columns 'age'; give each its own name"),
    ("age ragged.csv --column age", "cannot read ragged.csv: CSV parse error: Expected 2 columns, got 1"),
    ("drink latin.csv --column name", "save it as UTF-8"),
    ("age utf16.csv --column age", "utf16.csv"),
    ("age false.csv.gz --column age", "cannot read false.csv.gz"),
    ("age cut.csv.gz --column age", "cut.csv.gz"),
    ("age false.csv.zip --column age", "cannot read false.csv.zip"),
    ("age two.csv.zip --column age", "expected one file in two.csv.zip, got 2"),
    ("age false.parquet --column age", "cannot read false.parquet"),
    ("age false.feather --column age", "cannot read false.feather"),
    ("age nested.parquet --column age", "nested.parquet, column 'age': expected numbers from 0 to 120, got list"),
    ("likes nested.parquet --column likes", "nested.parquet, column 'likes': expected a list in every row, got int64"),
    ("age good.csv --column age --input good.csv", "good.csv and good.csv are two names of the same file"),
    ("age copies --column age", "b.csv is a copy of a.csv"),
    ("age formats --column age", "b.parquet and a.csv are files of different formats"),
    ("age bare --column age", "expected files of rows"),
    ("age nowhere.csv --column age", "expected a file, got 'nowhere.csv', which is not one"),
    ("age *.xlsx --column age", "no file matches '*.xlsx'"),
    ("age notes.txt --column age", "expected a file whose name ends in .parquet"),
    ("age good.csv --column age --input -", "expected standard input or files, got both"),
    (
        "likes long.csv --column likes",
        "row 1, column 'likes': expected at most 2 items in every row, got more in 1 of 1",
    ),
    ("likes unknown.csv --column likes", "entries are separated by ';' (--separator)"),
    ("likes pipes.csv --column likes", "entries are separated by ';' (--separator)"),
    ("rated pairs.csv --column rated", "pairs.csv, row 1, column 'rated': expected numbers from 0 to 5"),
    ("rated nopairs.csv --column rated", "expected pairs such as key:2.5, separated by ';'"),
    ("rated twicekey.csv --column rated", "row 1, column 'rated': expected different keys in every row, got one twice"),
    ("rated wordpairs.csv --column rated", "expected numbers from 0 to 5, got other text"),
    ("map offmap.csv --column lat --column lon", "offmap.csv, row 2, columns 'lat', 'lon': location"),
    ("map onecoordinate.csv --column place", "expected two coordinates in every row"),
    ("map threecoordinates.csv --column place", "expected two coordinates in every row"),
    ("both good.csv --column age --column lat --column lon", "one for each of 2 coordinates, got 3"),
    ("both good.csv --column age", "good.csv, row 1, column 'age': expected 2 numbers in every row"),
    ("age percent.csv --column age", "got other text in 1 of 1 values; numbers are written as 1234.5"),
    ("age euro.csv --column age", "got other text in 1 of 1 values; numbers are written as 1234.5"),
    ("age thousands.csv --column age", "got other text in 1 of 1 values; numbers are written as 1234.5"),
    ("age spaced.csv --column age", "has no column 'age'; it has name, age; did you mean ' age'"),
    ("age rows.json --column age", "got 'rows.json'; save its rows as one of these, such as CSV"),
    ("map minutes.csv --column lat --column lon", "expected numbers as coordinates, got other text"),
    ("map swapped.csv --column lat --column lon", "plan a larger map, or check if the coordinates are swapped"),
    ("map swapped.csv --column lat", "expected two coordinates in every row"),
    ("likes likejson.csv --column likes", "expected one of the plan's 3 categories, got something else in 1 of 1"),
    ("rated equals.csv --column rated", "expected pairs such as key:2.5, separated by ';'"),
    ("age users.csv --column age --user who", "expected a user in every row, got 1 rows without one"),
]
PLAN: list[tuple[str, str]] = [
    ("--input good.csv", "expected the name of a column of good.csv, which has 5"),
    ("--column age", "--column needs --input"),
    ("--users 100", "give --task, or --input and --column to read it from a file"),
    ("--input good.csv --column name --task mean", "column 'name' of good.csv holds values that are not numbers"),
    ("--input good.csv --column nome", "has no column 'nome'; it has name, age, likes, lat, lon; did you mean 'name'"),
    ("--input headless.csv --column name", "its first line must hold the names of columns"),
    ("--input header.csv --column age", "expected at least one row, got none in header.csv"),
    ("--input allgaps.csv --column age", "no row of allgaps.csv has a value in column 'age'"),
    (
        "--input good.csv --column age --column likes --column name",
        "these columns suggest no task; name one with --task",
    ),
    ("--input good.csv --column age --column lat --task location", "give the map's edges, or columns called x and y"),
    ("--input good.csv --column age --task meen", "task must be one of frequency, mean"),
    ("--input good.csv --column age --low 1 --low 2 --high 5", "this task takes --low once, got it 2 times"),
    (
        "--input good.csv --column age --task frequency --domain-from-data --low 0",
        "--low does not go with --task frequency",
    ),
    ("--input good.csv --column age --task frequency", "find the common ones by `shuffledp plan --task heavy-hitters"),
    ("--task frequency --users 99 --domain 5 --domain-from-data", "plan: --domain-from-data needs --input"),
    ("--input good.csv --column 2", "has no column '2'; it has name, age, likes, lat, lon"),
    ("--input rows.json --column age", "save its rows as one of these, such as CSV"),
    ("--input days.csv --column day --task counts-over-time", "has days such as 2026-01-31 and other texts"),
    ("--input good.csv --column age --epsilon 2", "--epsilon was given twice"),
]


@pytest.mark.parametrize(("typed", "part"), COLLECT)
def test_collect(typed: str, part: str, mess: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, source, *rest = typed.split()
    arguments = ["collect", f"{plan}.json", "--input", source, *rest, "--no-ledger", "--out", "out"]
    _is_one_sentence(arguments, part, mess, monkeypatch)


@pytest.mark.parametrize(("typed", "part"), PLAN)
def test_plan(typed: str, part: str, mess: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["plan", *typed.split(), "--epsilon", "1", "--delta", "1e-6", "--out", "new.json"]
    _is_one_sentence(arguments, part, mess, monkeypatch)


def _is_one_sentence(arguments: list[str], part: str, mess: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mess)
    before = list_paths(mess)
    outcome = run(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err
    assert outcome.err.rstrip("\n").endswith((".", "?"))
    assert not any(secret in outcome.err for secret in SECRETS)
    assert list_paths(mess) == before
