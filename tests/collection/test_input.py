"""What the rows of a path are: the same for every engine, as its own readers see them, or a sentence."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp import collection
from shuffledp._core.errors import ShuffledpError
from shuffledp.collection.collect import collect
from shuffledp.collection.engine import Engine, create_engine
from shuffledp.collection.input import files
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.tables import open_input
from shuffledp.collection.resumable_job import Job
from shuffledp.spark.engine import Spark
from shuffledp.testing.engines import KEY
from tests.collection import (
    COLOURS,
    build_batch_spec,
    list_paths,
    random_column,
    read_messages,
    small_plan,
    write_table,
)

PLAN = small_plan("krr")
COLUMN = PLAN.column("value")
HIDDEN = ("_metadata", "_common_metadata", "_part.parquet", ".part-7.parquet.crc", ".hidden.parquet", "_SUCCESS")
ODD = ("a[1]", "a{b,c}", "a*", "a?", "a b", "a\\b", "a%20b", "a,b", "x=1", "a#b", "a:b", "_a")


def rows_of(path: Path, room: Path, engine: Engine | None = None) -> int:
    """How many rows an engine counts and encodes."""
    engine = create_engine("embedded") if engine is None else engine
    table = FileTable(path)
    users = engine.check(table, COLUMN)
    encoded = room / "encoded"
    engine.encode(table, COLUMN, KEY, build_batch_spec(PLAN, users), encoded)
    assert len(read_messages(encoded, 1)) == users
    shutil.rmtree(encoded)
    return users


def refusal(path: Path, engine: Engine | None = None) -> str:
    """The sentence with which an engine refuses a path."""
    engine = create_engine("embedded") if engine is None else engine
    with pytest.raises((ValueError, ShuffledpError)) as caught:
        engine.check(FileTable(path), COLUMN)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def parts_in(directory: Path, count: int = 3) -> Path:
    """A directory of files with different rows, 100 each."""
    directory.mkdir(parents=True)
    for number in range(count):
        write_table(directory / f"part-{number}.parquet", value=random_column("krr", 100, seed=number))
    return directory


# --- files that are there twice, or not by themselves -------------------------------------------------------------


def test_a_link_to_a_file_beside_it_is_no_second_file(tmp_path: Path) -> None:
    """Hard or symbolic: whoever is in it would count twice."""
    for number, link in enumerate((os.link, os.symlink)):
        data = parts_in(tmp_path / f"data{number}")
        link(data / "part-1.parquet", data / "part-9.parquet")
        assert "part-9.parquet and part-1.parquet are two names of the same file" in refusal(data)


def test_a_copy_of_a_file_is_no_second_file(tmp_path: Path) -> None:
    """Known by its bytes; files without rows, which writers leave in numbers, are no people."""
    data = parts_in(tmp_path / "data")
    for number in (5, 6):
        write_table(data / f"part-{number}.parquet", value=pa.array([], pa.string()))
    assert rows_of(data, tmp_path) == 300
    shutil.copy(data / "part-1.parquet", data / "part-7.parquet")
    assert "part-7.parquet is a copy of part-1.parquet, whose people would count twice" in refusal(data)
    with pytest.raises(ValueError, match=r"is a copy of part-1\.parquet"):
        collection.encode(small_plan("krr"), data, "value", out=tmp_path / "ours.messages")


@pytest.mark.parametrize("kind", ["Delta", "Iceberg", "Hudi"])
def test_a_table_with_a_history_is_left_to_its_own_reader(kind: str, tmp_path: Path) -> None:
    """900 live rows in files of 1,900; the directory itself, a directory in it, and one of its files."""
    table = parts_in(tmp_path / "lake" / ("data" if kind == "Iceberg" else ""), 2)
    lake = tmp_path / "lake"
    if kind == "Delta":
        (lake / "_delta_log").mkdir()
        added = {"add": {"path": "part-0.parquet", "dataChange": True}}
        (lake / "_delta_log" / f"{0:020d}.json").write_text(json.dumps(added), "utf-8")
    elif kind == "Hudi":
        (lake / ".hoodie").mkdir()
    else:
        (lake / "metadata").mkdir()
        (lake / "metadata" / "v1.metadata.json").write_text("{}", "utf-8")
    links = tmp_path / "links"
    links.mkdir()
    (links / "part.parquet").symlink_to(table / "part-0.parquet")
    for path in {lake, table, table / "part-0.parquet", links}:
        told = refusal(path)
        assert f"a {kind} table" in told
        assert "export its current rows" in told


def test_nested_and_strange_files_are_not_left_out_in_silence(tmp_path: Path) -> None:
    """Partitioned data, a CSV file among the others, a Parquet file without its suffix, a link to a directory."""
    data = parts_in(tmp_path / "nested")
    parts_in(data / "year=2024" / "month=1")
    shutil.move(data / "year=2024", data / "2024")
    assert "such as 2024/month=1/part-0.parquet" in refusal(data)
    data = parts_in(tmp_path / "mixed")
    write_table(data / "more.csv", value=random_column("krr", 5))
    assert "part-0.parquet and more.csv are files of different formats" in refusal(data)
    data = parts_in(tmp_path / "bare")
    shutil.move(data / "part-1.parquet", data / "part-1")
    assert "has part-1, a Parquet file without the suffix" in refusal(data)
    data = parts_in(tmp_path / "linked")
    (data / "more").symlink_to(tmp_path / "nested")
    assert "has a link to a directory, more" in refusal(data)


def test_hidden_files_are_not_data(tmp_path: Path) -> None:
    """As for Spark: what begins with _ or . is not read, by anybody; where there is nothing else, that is told."""
    data = parts_in(tmp_path / "data")
    whole = random_column("krr", 50, seed=9)
    for name in (
        "_metadata",
        "_common_metadata",
        "_part.parquet",
        ".part-0.parquet.crc",
        ".hidden.parquet",
        "_SUCCESS",
    ):
        pq.write_table(pa.table({"value": whole}), data / name)
    (data / "part-8.parquet._COPYING_").write_bytes(b"PAR1")
    (data / "notes.txt").write_text("about these", "utf-8")
    parts_in(data / "_temporary")
    parts_in(data / ".staging")
    (data / "empty").mkdir()
    assert rows_of(data, tmp_path) == 300
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("_part.parquet", ".part.parquet"):
        write_table(hidden / name, value=whole)
    assert "expected files of rows (.parquet, .pq, .csv, .tsv, .arrow, .feather) in the directory" in refusal(hidden)


@pytest.mark.parametrize(
    "name", ["a[1]", "a{b,c}", "a*", "a?", "a b", "a\\b", "a%20b", "a,b", "x=1", "a#b", "a:b", "_a"]
)
def test_a_name_is_a_name_and_no_pattern(name: str, tmp_path: Path) -> None:
    """Of directories and of files, beside others that a pattern would find; of a file whose directory looks hidden."""
    for other in ("a1", "ab", "ac", "aX"):
        parts_in(tmp_path / other, 1)
    data = parts_in(tmp_path / name)
    assert rows_of(data, tmp_path) == 300
    assert rows_of(data / "part-1.parquet", tmp_path) == 100
    if not name.startswith("_"):
        shutil.copy(data / "part-2.parquet", data / f"{name}.parquet")
        (data / "part-2.parquet").unlink()
        write_table(data / "a1.parquet", value=random_column("krr", 7, seed=5))
        assert rows_of(data, tmp_path) == 307
        assert rows_of(data / f"{name}.parquet", tmp_path) == 100


def test_suffixes_in_capitals(tmp_path: Path) -> None:
    """They are the same suffixes, alone and in a directory."""
    array = random_column("krr", 60)
    for name in ("data.PARQUET", "data.Pq", "data.pq"):
        pq.write_table(pa.table({"value": array}), tmp_path / name)
        assert rows_of(tmp_path / name, tmp_path) == 60
    write_table(tmp_path / "data.csv", value=array).rename(tmp_path / "data.CSV")
    assert rows_of(tmp_path / "data.CSV", tmp_path) == 60
    data = parts_in(tmp_path / "data.d", 2)
    (data / "part-0.parquet").rename(data / "part-0.PARQUET")
    (data / "part-1.parquet").rename(data / "part-1.pq")
    assert rows_of(data, tmp_path) == 200


# --- Parquet ------------------------------------------------------------------------------------------------------


def test_a_column_has_one_type_in_all_files(tmp_path: Path) -> None:
    """Files of another type, or without the column, are neither cast nor read as nulls."""
    for number, other in enumerate((pa.array([1, 2]), pa.array([b"red"]))):
        data = parts_in(tmp_path / f"data{number}", 2)
        write_table(data / "part-9.parquet", value=other)
        wanted = f"column 'value' is {other.type} in part-9.parquet, but string in the files before"
        assert wanted in refusal(data)
    data = parts_in(tmp_path / "without", 2)
    write_table(data / "part-9.parquet", other=random_column("krr", 5))
    assert "has no column 'value'; it has other" in refusal(data)
    data = parts_in(tmp_path / "large", 1)
    texts = random_column("krr", 30, seed=4)
    write_table(data / "part-8.parquet", value=texts.cast(pa.large_string()))
    write_table(data / "part-9.parquet", value=texts.slice(5).dictionary_encode())
    assert rows_of(data, tmp_path) == 155


def test_columns_that_differ_in_case_only(tmp_path: Path) -> None:
    """The one that was named is read; a name that is there twice names none."""
    path = tmp_path / "data.parquet"
    write_table(path, VALUE=pa.array([1] * 40), value=random_column("krr", 40), Value=pa.array(["pink"] * 40))
    assert rows_of(path, tmp_path) == 40
    table = pa.table([random_column("krr", 40), random_column("krr", 40)], names=["value", "value"])
    pq.write_table(table, tmp_path / "twice.parquet")
    assert "has 2 columns 'value'; give each its own name" in refusal(tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match=r"^input: the data has 2 columns 'value'; give each its own name\.$"):
        open_input(table, "value")


def lying(path: Path, told: int) -> Path:
    """A file of 40 rows whose footer tells of another number."""
    pq.write_table(pa.table({"value": random_column("krr", 40)}), path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    changed = content[start:-8]
    # Numbers are zigzag varints: 40 is 0x50, in fields 3 and 5 of the footer's parts.
    for field in (b"\x26", b"\x16"):
        changed = changed.replace(field + b"\x50", field + _zigzag(told))
    path.write_bytes(content[:start] + changed + len(changed).to_bytes(4, "little") + b"PAR1")
    assert pq.read_metadata(path).num_rows == told
    return path


@pytest.mark.parametrize("told", [39, 41, 4_000, 10**6])
def test_the_rows_are_those_that_can_be_read(told: int, tmp_path: Path) -> None:
    """A footer that tells of another number of rows than the pages is not believed."""
    assert "is damaged" in refusal(lying(tmp_path / "data.parquet", told))


def _zigzag(number: int) -> bytes:
    number, result = number << 1, b""
    while number > 127:
        result, number = result + bytes([number & 127 | 128]), number >> 7
    return result + bytes([number])


# --- CSV ----------------------------------------------------------------------------------------------------------

GOOD = {
    "quoted newlines": 'value,other\nred,"a\nb"\ngreen,"\n\n"\nblue,c\n',
    "a newline in the header": '"ot\nher",value\n1,red\n2,green\n',
    "quoted commas": 'other,value\n"a,b",red\n"c,",green\n',
    "quotes inside": 'other,value\n"a ""b""",red\n"""",green\n',
    "everything quoted": '"value","other"\n"red","1"\n"green","2"\n',
    "byte order mark": "\ufeffvalue,other\nred,1\ngreen,2\n",
    "byte order mark before a quote": '\ufeff"value",other\nred,1\n',
    "carriage returns": "value,other\r\nred,1\r\ngreen,2\r\n",
    "no newline at the end": "value,other\nred,1\ngreen,2",
    "blank lines": "value,other\n\nred,1\n\n\ngreen,2\n\n",
    "NUL elsewhere": "value,other\nred,a\0b\ngreen,2\n",
    "one column": "value\nred\ngreen\nred\n",
}
BAD = {
    "too many fields": ("value,other\nred,1\nsecret,2,3\n", "Expected 2 columns, got 3"),
    "too few fields": ("value,other\nred,1\nsecret\n", "Expected 2 columns, got 1"),
    "the column twice": ("value,value\nred,green\n", "has 2 columns 'value'"),
    "NUL in a value": ("value,other\nre\0d,1\n", "expected one of the plan's 4 categories"),
    "a newline in a value": ('value,other\n"re\nd",1\n', "expected one of the plan's 4 categories"),
    "no header": ("", "cannot read"),
    "another separator": ("value;other\nred;1\n", "has no column 'value'"),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_csv_file_is_read_as_a_csv_reader_does(case: str, tmp_path: Path) -> None:
    """Against Python's own reader: the same rows, no phantom among them."""
    path = tmp_path / "data.csv"
    path.write_bytes(GOOD[case].encode())
    with path.open(encoding="utf-8-sig", newline="") as file:
        wanted = [row["value"] for row in csv.DictReader(file)]
    found = [value for array in FileTable(path).batches(COLUMN, 1000) for value in array.to_pylist()]
    assert found == wanted
    assert rows_of(path, tmp_path) == len(wanted)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_csv_file_is_a_sentence(case: str, tmp_path: Path) -> None:
    """The same one whoever reads; a row that does not fit is not quoted."""
    path = tmp_path / "data.csv"
    path.write_text(BAD[case][0], "utf-8", newline="")
    told = refusal(path)
    assert BAD[case][1] in told
    assert "secret" not in told


def test_what_a_row_held_is_not_told(tmp_path: Path) -> None:
    """Arrow quotes a number that is none, and a text that is no text."""
    path = tmp_path / "data.csv"
    told = {
        b"value\n1.5\nsecret\n": r"^data\.csv, row 2, column 'value': expected numbers .* got other text",
        b"value\nred\nsecret\xff\n": r"^input: cannot read data\.csv: .*; save it as UTF-8\.$",
    }
    for (content, sentence), name in zip(told.items(), ("laplace", "krr"), strict=True):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=sentence) as caught:
            create_engine("embedded").check(FileTable(path), small_plan(name).column("value"))
        assert "secret" not in str(caught.value)


def test_long_quoted_values_cross_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a block ends does not change what a row is."""
    monkeypatch.setattr(files, "CSV_BLOCK_BYTES", 4096)
    rng = np.random.default_rng(3)
    values = [COLOURS[k] for k in rng.integers(0, 4, 2000)]
    path = tmp_path / "data.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["other", "value"])
        writer.writerows((f'"x\n\r,{"y" * int(rng.integers(0, 60))}\n', value) for value in values)
    found = [value for array in FileTable(path).batches(COLUMN, 100) for value in array.to_pylist()]
    assert found == values


# --- known by content ---------------------------------------------------------------------------------------------


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    """Not by size, time or place: moved files are the same, other bytes are not."""
    first, second = parts_in(tmp_path / "first"), tmp_path / "second"
    known = FileTable(first).fingerprint()
    shutil.copytree(first, second)
    for path in second.iterdir():
        os.utime(path, ns=(5, 5))
    assert FileTable(second).fingerprint() == known
    path = second / "part-1.parquet"
    content, status = path.read_bytes(), path.stat()
    path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert FileTable(second).fingerprint() != known
    path.write_bytes(content)
    path.rename(second / "part-9.parquet")
    # The order of the rows is another one.
    assert FileTable(second).fingerprint() != known


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other values, the same size and the same time: nothing is released."""
    path = tmp_path / "data.csv"
    path.write_text("value\n" + "red\n" * 500, "utf-8")
    plan, status = small_plan("krr", users=500), path.stat()
    read, key = FileTable.read, Job.load_key

    def changing(self: FileTable, *arguments: Any) -> Any:
        yield from read(self, *arguments)
        path.write_text("value\n" + "red\n" * 499 + "blu\n", "utf-8")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def key_then_change(self: Job) -> bytes:
        monkeypatch.setattr(FileTable, "read", changing)
        return key(self)

    monkeypatch.setattr(Job, "load_key", key_then_change)
    with pytest.raises(ValueError, match=r"^input: the file has changed during the collection\.$"):
        collect(plan, path, "value", out=tmp_path / "out")
    assert list_paths(tmp_path) == ["data.csv"]


# --- both engines -------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_the_same_rows(spark: Spark, tmp_path: Path) -> None:
    """Odd and hidden names beside what a pattern would find, columns in capitals, quoted line breaks."""
    odd = tmp_path / "a[1]{b,c}*? \\x=1"
    odd.mkdir()
    parts_in(tmp_path / "a1b")
    for number, name in enumerate(ODD):
        write_table(odd / f"p{name}.parquet", value=random_column("krr", 10 + number, seed=number))
    for name in ("pa1", "pab", "paX"):
        write_table(odd / f"{name}.PARQUET", value=random_column("krr", 7, seed=len(name)).slice(len(name)))
        (odd / f"{name}.PARQUET").rename(odd / f"_{name}.parquet")
    for name in HIDDEN:
        pq.write_table(pa.table({"value": random_column("krr", 50, seed=9)}), odd / name)
    (odd / "pa:b.parquet").unlink()
    quoted = tmp_path / "quoted.csv"
    quoted.write_bytes(GOOD["quoted newlines"].encode())
    capitals = tmp_path / "capitals.parquet"
    write_table(capitals, VALUE=pa.array([1] * 40), value=random_column("krr", 40))
    hidden = write_table(tmp_path / "_a:b.parquet", value=random_column("krr", 20))
    for path in (odd, quoted, capitals, hidden):
        assert rows_of(path, tmp_path, spark) == rows_of(path, tmp_path)


@pytest.mark.spark
def test_spark_refuses_what_is_refused(spark: Spark, tmp_path: Path) -> None:
    """Bad CSV files by the same sentence; a file that lies about its rows; a file of another type."""
    path = tmp_path / "data.csv"
    for content, _ in BAD.values():
        path.write_text(content, "utf-8", newline="")
        assert refusal(path, spark) == refusal(path)
    refusal(lying(tmp_path / "lying.parquet", 10**6), spark)
    data = parts_in(tmp_path / "data", 2)
    write_table(data / "part-9.parquet", value=pa.array([1, 2]))
    assert refusal(data, spark) == refusal(data)
