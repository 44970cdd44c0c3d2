"""Damaged tables, one after the other in one process: each is refused by a sentence, or read as a plain reader does.

python -m tests.collection.damaged_tables KIND CASES DIRECTORY prints what came of each case as JSON, with the memory
that it took. A process of its own, because a reader that is broken by a damaged file might take this one with it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shuffledp._core.errors import ShuffledpError
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection.engine import EmbeddedEngine
from shuffledp.collection.input.tables import open_input
from shuffledp.testing.engines import KEY
from tests.collection import build_batch_spec, random_column, read_messages, small_plan

ROWS = 60
TIMEOUT_SECONDS = 20
"""No case may take longer."""
PLAN = small_plan("krr")
COLUMN = PLAN.column("value")
Content = bytearray


def flip(rng: random.Random, content: Content) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def overwrite(rng: random.Random, content: Content) -> None:
    start = rng.randrange(len(content))
    content[start : start + rng.choice((1, 2, 4, 16))] = rng.randbytes(rng.choice((1, 2, 4, 16)))


def truncate(rng: random.Random, content: Content) -> None:
    del content[rng.randrange(len(content)) :]


def remove(rng: random.Random, content: Content) -> None:
    start = rng.randrange(len(content))
    del content[start : start + rng.randrange(1, 40)]


def duplicate(rng: random.Random, content: Content) -> None:
    start = rng.randrange(len(content))
    stop = rng.choice((len(content), start + rng.randrange(1, 200)))
    content[stop:stop] = content[start:stop]


def insert(rng: random.Random, content: Content) -> None:
    start = rng.randrange(len(content) + 1)
    content[start:start] = rng.choice(
        (b'"', b'""', b"\n", b"\r\n", b",", b"\0", b"\xff", b"\xef\xbb\xbf", b'"\n', b"\n\n")
    )


def edit_footer(rng: random.Random, content: Content) -> None:
    """Bytes between the data and the end, where numbers of rows, sizes and places stand."""
    length = int.from_bytes(content[-8:-4], "little")
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = len(content) - 8 - rng.randrange(min(length, len(content) - 8) or 1) - 1
        content[place] = rng.choice((content[place] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255, 127, 2))


def edit_length(rng: random.Random, content: Content) -> None:
    content[-8:-4] = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, rng.randrange(2 * len(content)))).to_bytes(4, "little")


def foreign_footer(rng: random.Random, content: Content) -> None:
    """The footer of another file."""
    other = parquet_file(rng)
    length = int.from_bytes(other[-8:-4], "little") + 8
    del content[-(int.from_bytes(content[-8:-4], "little") + 8) :]
    content += other[-length:]


GENERIC_MUTATIONS: tuple[Callable[[random.Random, Content], None], ...] = (flip, overwrite, truncate, remove, duplicate)
MUTATIONS = {
    "csv": (*GENERIC_MUTATIONS, insert, insert, insert),
    "parquet": (*GENERIC_MUTATIONS, edit_footer, edit_footer, edit_footer, edit_length, foreign_footer),
}


def csv_file(rng: random.Random) -> bytearray:
    """A good file with whatever quotes allow."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=rng.choice(("\n", "\r\n")), quoting=rng.choice((0, 0, 1)))
    writer.writerow(["who", "other", "value"])
    for row, value in enumerate(random_column("krr", ROWS, seed=rng.randrange(100)).to_pylist()):
        writer.writerow([f"p{row % 40}", rng.choice(("", "a b", 'a,"b"', "a\nb", "é")), value])
    return bytearray(text.getvalue().encode())


def parquet_file(rng: random.Random) -> bytearray:
    """A good file, by one of the ways to write one."""
    rows = rng.choice((ROWS, ROWS, 2 * ROWS))
    kind = rng.choice((pa.string(), pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.large_string()))
    columns = {
        "who": pa.array([f"p{row % 40}" for row in range(rows)]),
        "value": random_column("krr", rows, seed=rng.randrange(100)).cast(kind),
    }
    file = io.BytesIO()
    pq.write_table(
        pa.table(columns), file, compression=rng.choice(("none", "snappy", "zstd", "gzip")),
        use_dictionary=rng.choice((True, False)), row_group_size=rng.choice((7, 1000)),
        data_page_version=rng.choice(("1.0", "2.0")), write_page_checksum=rng.choice((True, False)),
    )  # fmt: skip
    return bytearray(file.getvalue())


def plain_rows(path: Path) -> list[Any]:
    """The values that a plain reader finds."""
    if path.suffix == ".parquet":
        return list(pq.ParquetFile(path).read(columns=["value"])["value"].to_pylist())
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        return [row["value"] for row in csv.DictReader(file)]


def read_outcome(path: Path, user: str | None, encoded: Path) -> tuple[str, Any]:
    """What becomes of a file: ("rows", the values), ("sentence", it), or ("error", what nobody should see)."""
    engine, table = EmbeddedEngine(Progress()), None
    try:
        table = open_input(path, "value", user)
        users = engine.check(table, COLUMN)
        table.fingerprint()
        engine.encode(table, COLUMN, KEY, build_batch_spec(PLAN, users), encoded)
        values = [value for array in table.batches(COLUMN, 1000) for value in array.to_pylist()]
        if len(values) != users or len(read_messages(encoded, 1)) != users:
            return "error", f"{users} rows were counted and {len(values)} read"
        return "rows", values
    except (ValueError, TypeError, ShuffledpError) as error:
        text = str(error)
        return ("sentence", text) if text.endswith(".") and "\n" not in text else ("error", f"no sentence: {text!r}")
    except Exception as error:
        return "error", repr(error)
    finally:
        for file in encoded.glob("*"):
            file.unlink()
        if encoded.exists():
            encoded.rmdir()


def run_case(kind: str, number: int, room: Path) -> dict[str, Any]:
    """One damaged file, by its number."""
    rng = random.Random(f"{kind}{number}")
    content = (csv_file if kind == "csv" else parquet_file)(rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if len(content) > 12:
            rng.choice(MUTATIONS[kind])(rng, content)
    path = room / f"data.{kind}"
    path.write_bytes(content)
    what, told = read_outcome(path, None, room / "encoded")
    found = {"number": number, "what": what, "told": told if what != "rows" else len(told), "same": None}
    if what == "rows":
        try:
            found["same"] = plain_rows(path) == told
        except Exception as error:
            found["same"], found["told"] = False, repr(error)
    bounded, told = read_outcome(path, "who", room / "encoded")
    if bounded == "error":
        found |= {"what": "error", "told": told}
    return found


def main(kind: str, cases: int, room: Path) -> None:
    """All cases, and the most memory that they took beyond the first good one, in megabytes."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(3))
    (room / "good").with_suffix(f".{kind}").write_bytes((csv_file if kind == "csv" else parquet_file)(random.Random(0)))
    first = read_outcome((room / "good").with_suffix(f".{kind}"), "who", room / "encoded")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = []
    for number in range(cases):
        signal.alarm(TIMEOUT_SECONDS)
        found.append(run_case(kind, number, room))
    signal.alarm(0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({"first": first[0], "megabytes": grown, "cases": found}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
