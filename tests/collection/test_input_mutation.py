"""Hundreds of damaged tables of each kind: a sentence, or the rows that a plain reader finds, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from shuffledp.collection.input import files as parquet_page
from shuffledp.collection.input.files import DamagedFile, FileTable, check_pages

CASES = 500
MAX_MEGABYTES = 64
"""Beyond what one good file takes."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_damaged_table_is_a_sentence_or_is_read_right(kind: str, tmp_path: Path) -> None:
    """Bits flipped, bytes cut, doubled, inserted; footers edited, exchanged, of another length; with users and without.

    No case takes longer than the 20 seconds after which the process ends itself, and none takes much memory.
    """
    command = [sys.executable, "-m", "tests.collection.damaged_tables", kind, str(CASES), str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    document = json.loads(found.stdout)
    assert document["first"] == "rows"
    assert len(document["cases"]) == CASES
    assert [case for case in document["cases"] if case["what"] == "error" or case["same"] is False] == []
    # Some damage is none: the cases are of both sorts.
    sorts = Counter(case["what"] for case in document["cases"])
    assert sorts["sentence"] > CASES // 2
    assert sorts["rows"] > CASES // 50
    assert document["megabytes"] < MAX_MEGABYTES


def damage_of(path: Path, columns: list[str]) -> str:
    """What is said of a file."""
    with pytest.raises(DamagedFile) as caught:
        check_pages(path, pq.read_metadata(path), columns)
    return str(caught.value)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_good_files_of_all_sorts_are_sound(version: str, compression: str, tmp_path: Path) -> None:
    """Nulls, lists, maps, structs, booleans, texts, many pages and row groups, none at all."""
    rows = 5000
    table = pa.table(
        {
            "number": pa.array([None if row % 3 else row for row in range(rows)]),
            "text": pa.array([f"{row:0{1 + row % 300}d}" for row in range(rows)]),
            "list": pa.array([list(range(row % 5)) for row in range(rows)]),
            "map": pa.array([[("a", row)] for row in range(rows)], pa.map_(pa.string(), pa.int64())),
            "struct": pa.array([{"x": row, "y": [row]} for row in range(rows)]),
            "with.dot": pa.array([row % 2 == 0 for row in range(rows)]),
        }
    )
    for number, part in enumerate((table, table.slice(0, 1), table.slice(0, 0))):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(
            part, path, compression=compression, data_page_version=version, data_page_size=1000, row_group_size=777
        )
        check_pages(path, pq.read_metadata(path), table.column_names)


def test_pages_that_cannot_be_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large in memory, larger than the file, more values than the footer tells, no header."""
    path, file = tmp_path / "data.parquet", io.BytesIO()
    pq.write_table(pa.table({"value": ["red"] * 500}), file, use_dictionary=False, compression="none")
    path.write_bytes(file.getvalue())
    with monkeypatch.context() as patched:
        patched.setattr(parquet_page, "MAX_PAGE_BYTES", 100)
        assert "where at most 100 are read" in damage_of(path, ["value"])
    content = bytearray(file.getvalue())
    # After the four bytes of the beginning: the page's type, then its size in memory and in the file.
    assert content[4:7] == b"\x15\x00\x15"
    content[7:9] = b"\xff\xff"
    path.write_bytes(content)
    damage_of(path, ["value"])
    path.write_bytes(file.getvalue()[:4] + bytes([0xF]) * 300 + file.getvalue()[304:])
    damage_of(path, ["value"])
    # Columns that are not read need not be sound.
    check_pages(path, pq.read_metadata(path), ["other"])


# --- archives and files of Arrow --------------------------------------------------------------------------------------

COLOURS = ["red", "green", "blue"] * 200


def _zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr("rows.csv", content)
    return made.getvalue()


def _whole_files() -> dict[str, bytes]:
    """The same rows, packed in every way that is read."""
    rng = random.Random(1)
    text = ("value,other\n" + "".join(f"{colour},{rng.random()}\n" for colour in COLOURS)).encode()
    table = pa.table({"value": COLOURS, "other": [rng.random() for _ in COLOURS]})
    files, stream = io.BytesIO(), io.BytesIO()
    feather.write_feather(table, files, compression="lz4")
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    packed = pa.compress(text, "zstd", asbytes=True)
    return {
        "csv.zip": _zipped(text), "csv.gz": gzip.compress(text), "csv.bz2": bz2.compress(text), "csv.zst": packed,
        "feather": files.getvalue(), "arrows": stream.getvalue(),
    }  # fmt: skip


@pytest.mark.exhaustive
def test_damaged_archives_and_files_of_arrow_are_sentences(tmp_path: Path) -> None:
    """In a process of its own, which none of them ends; without damage all rows are read."""
    paths = []
    for kind, content in _whole_files().items():
        paths.append(tmp_path / f"rows.{kind}")
        paths[-1].write_bytes(content)
    done = subprocess.run([sys.executable, "-c", READING, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == len(paths)
    for whole, *sentences in found:
        assert whole == len(COLOURS)
        assert len(sentences) > 50
        for sentence in sentences:
            assert sentence.startswith("input: ")
            assert sentence.endswith(".")
            assert "\n" not in sentence


READING = """
import json, random, sys
from pathlib import Path
from shuffledp.collection.input.files import FileTable
from tests.collection.damaged_tables import truncate, duplicate, flip, overwrite, remove
found = []
for path in map(Path, sys.argv[1:]):
    content = path.read_bytes()
    told = [sum(map(len, FileTable(path).read(["value"], 1000)))]
    for number in range(120):
        rng, changed = random.Random(number), bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 3))):
            rng.choice((flip, overwrite, truncate, remove, duplicate))(rng, changed)
        path.write_bytes(bytes(changed))
        try:
            for batch in FileTable(path).read(["value"], 1000):
                batch.column(0).to_pylist()
        except ValueError as error:
            told.append(str(error))
    found.append(told)
print(json.dumps(found))
"""


def test_archives_that_cannot_be_read_in_pieces_are_refused(tmp_path: Path) -> None:
    """Another way of packing is unpacked as a whole, and a password is not asked for."""
    path = tmp_path / "rows.csv.zip"
    path.write_bytes(_zipped(b"value\nred\n", zipfile.ZIP_LZMA))
    with pytest.raises(ValueError, match=r"cannot read rows\.csv\.zip: its compression method is not supported"):
        list(FileTable(path).read(["value"], 10))
    locked = bytearray(_zipped(b"value\nred\n"))
    for place in (locked.index(b"PK\x03\x04") + 6, locked.index(b"PK\x01\x02") + 8):
        locked[place] |= 1
    path.write_bytes(bytes(locked))
    with pytest.raises(ValueError, match=r"cannot read rows\.csv\.zip: it has a password"):
        list(FileTable(path).read(["value"], 10))


LONG, ROWS = 2000, 1 << 19
MEASURING = """
import json, resource, sys
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.base import rechunk
list(FileTable(sys.argv[1]).read(["few"], 1 << 17))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(map(len, FileTable(sys.argv[1]).read(["value"], 1 << 17)))
try:
    sum(map(len, rechunk((one.column(0) for one in FileTable(sys.argv[1]).read(["value"], 1 << 17)), 1 << 17)))
    told = ""
except ValueError as error:
    told = str(error)
print(json.dumps([rows, told, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024]))
"""


@pytest.mark.exhaustive("delta.parquet", "list.parquet")
@pytest.mark.parametrize("kind", ["category.parquet", "list.parquet", "delta.parquet", "feather"])
def test_a_small_file_of_long_texts_takes_little_memory(kind: str, tmp_path: Path) -> None:
    """A gigabyte of texts that a dictionary, or one text like the one before, makes a file of kilobytes."""
    path = tmp_path / f"long.{kind}"
    indices = pa.array(np.zeros(ROWS, np.int32))
    value = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * LONG]))
    few = pa.array(np.zeros(ROWS, np.int8))
    if kind == "feather":
        feather.write_feather(pa.table({"value": value, "few": few}), path, compression="zstd")
    else:
        how = {"use_dictionary": False, "column_encoding": {"value": "DELTA_BYTE_ARRAY"}} if "delta" in kind else {}
        schema = pa.schema([
            ("value", {"c": value.type, "l": pa.list_(pa.string())}.get(kind[0], pa.string())), ("few", pa.int8())
        ])  # fmt: skip
        with pq.ParquetWriter(path, schema, compression="zstd", **how) as writer:
            # Written in pieces, so that the test does not take what it forbids.
            for start in range(0, ROWS, 1 << 14):
                part = value.slice(start, 1 << 14)
                if kind[0] != "c":
                    part = part.dictionary_decode()
                if kind[0] == "l":
                    part = pa.ListArray.from_arrays(pa.array(range(len(part) + 1), pa.int32()), part)
                writer.write_table(pa.table([part, few.slice(start, 1 << 14)], schema=schema))
    assert path.stat().st_size < 300_000
    done = subprocess.run([sys.executable, "-c", MEASURING, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows, told, megabytes = json.loads(done.stdout)
    assert rows == ROWS
    assert told == (
        "input: expected values of at most 1,024 bytes on average, got longer ones in 131,072 rows; choose another "
        "column, or shorten them."
    )
    assert megabytes < 350
