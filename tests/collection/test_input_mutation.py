"""Hundreds of damaged tables of each kind: a sentence, or the rows that a plain reader finds, in bounded memory."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp.collection.input import parquet_page
from shuffledp.collection.input.parquet_page import Damaged, demand_sound

CASES = 500
MOST_MEGABYTES = 64
"""Beyond what one good file takes."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_damaged_table_is_a_sentence_or_is_read_right(kind: str, tmp_path: Path) -> None:
    """Bits flipped, bytes cut, doubled, inserted; footers edited, exchanged, of another length; with users and without.

    No case takes longer than the 20 seconds after which the process ends itself, and none takes much memory.
    """
    command = [sys.executable, "-m", "tests.collection.mutation", kind, str(CASES), str(tmp_path)]
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
    assert document["megabytes"] < MOST_MEGABYTES


def damage_of(path: Path, columns: list[str]) -> str:
    """What is said of a file."""
    with pytest.raises(Damaged) as caught:
        demand_sound(path, pq.read_metadata(path), columns)
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
        demand_sound(path, pq.read_metadata(path), table.column_names)


def test_pages_that_cannot_be_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large in memory, larger than the file, more values than the footer tells, no header."""
    path, file = tmp_path / "data.parquet", io.BytesIO()
    pq.write_table(pa.table({"value": ["red"] * 500}), file, use_dictionary=False, compression="none")
    path.write_bytes(file.getvalue())
    with monkeypatch.context() as patched:
        patched.setattr(parquet_page, "MOST_PAGE_BYTES", 100)
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
    demand_sound(path, pq.read_metadata(path), ["other"])
