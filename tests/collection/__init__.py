"""Tests of collections: small tables, plans for them, and the messages that a key gives, computed another way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shuffledp._core.validation import Bytes
from shuffledp.collection import batch_processing, message_files
from shuffledp.collection.message_files import BatchSpec, EncodedFile
from shuffledp.ledger.ledger import Ledger
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import KeyedSource
from shuffledp.tasks import Frequency, ItemSets, KeyValue, Mean, Task, VectorMean

COLOURS = ("red", "green", "blue", "grey")
FRAME_ROWS = 3000
"""Of the data frames that the tests of Spark share."""


def new_ledger(path: Path | str, *populations: str) -> Ledger:
    """A ledger that knows the people of the tests."""
    ledger = Ledger.create(path)
    for name in populations or ("test",):
        ledger.register(name)
    return ledger


def small_plan(name: str, users: int = 1000, epsilon: float = 3.0, **changes: Any) -> Plan:
    """A plan of one of the kinds that the tests use."""
    kinds: dict[str, tuple[Task, dict[str, Any]]] = {
        "krr": (Frequency(COLOURS), {"options": 4}),
        "krr-wide": (Frequency(1000), {"options": 1000}),
        "oue": (Frequency(40), {"options": 40}),
        "local-hash": (Frequency(40), {"options": 40}),
        "pure-dump": (Frequency(COLOURS), {"options": 4, "dummies": 30}),
        "laplace": (Mean(-20, 60), {}),
        "piecewise": (Mean(-20, 60), {}),
        "duchi": (Mean(-20, 60), {"dimension": 1}),
        "harmony": (VectorMean(3, 0, 10), {"dimension": 3}),
        "privunit-optimized": (VectorMean(3, -5, 5), {"dimension": 3}),
        "privset": (ItemSets(COLOURS, 2), {"options": 4, "items": 2}),
        "privkv": (KeyValue(COLOURS, 0, 10, items=3), {"keys": 4, "items": 3}),
    }
    task, settings = kinds[name]
    local = changes.pop("epsilon_local", None if name == "pure-dump" else 2.0)
    mechanism = catalogue.build(name.removesuffix("-wide"), local, settings)
    base: dict[str, Any] = {"users": users, "epsilon": epsilon, "delta": 1e-6, "population": "test"}
    return Plan(task, mechanism, **(base | changes))


def small_frame_plan(name: str, rows: int = FRAME_ROWS) -> Plan:
    """For the rows of a data frame, by a bound that costs next to nothing."""
    return small_plan(name, users=rows, epsilon_local=0.5, bound="efmrtt19")


def multiset(frame: Any) -> Counter[bytes]:
    """The messages of a data frame of Spark."""
    found: Counter[bytes] = Counter()
    for row in frame.collect():
        found[bytes(row[0])] += row[1]
    return found


def build_batch_spec(plan: Plan, rows: int) -> BatchSpec:
    """What an engine is told of a collection of so many users."""
    return BatchSpec.from_plan(plan, 1, rows, 1)


def random_column(name: str, rows: int, seed: int = 1) -> pa.Array:
    """A column that such a plan collects."""
    generator = np.random.default_rng(seed)
    sorts: dict[str, Any] = {
        "krr": lambda: np.array(COLOURS)[generator.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])].tolist(),
        "pure-dump": lambda: np.array(COLOURS)[generator.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])].tolist(),
        "krr-wide": lambda: (1000 * generator.random(rows) ** 3).astype(np.int64),
        "oue": lambda: (40 * generator.random(rows) ** 2).astype(np.int32),
        "local-hash": lambda: (40 * generator.random(rows) ** 2).astype(np.int32),
        "laplace": lambda: generator.uniform(-20, 60, rows),
        "piecewise": lambda: generator.uniform(-20, 60, rows),
        "duchi": lambda: generator.integers(-20, 61, rows),
        "harmony": lambda: generator.uniform(0, 10, (rows, 3)).tolist(),
        "privunit-optimized": lambda: generator.uniform(-2.8, 2.8, (rows, 3)).tolist(),
        "privset": lambda: [list(generator.choice(COLOURS, 2, replace=False)) for _ in range(rows)],
        "privkv": lambda: [
            [{"key": str(key), "value": float(generator.uniform(0, 10))} for key in COLOURS[: generator.integers(0, 4)]]
            for _ in range(rows)
        ],
    }
    return pa.array(sorts[name]())


def write_table(path: Path, **columns: Any) -> Path:
    """A file of these columns, by its suffix."""
    table = pa.table(columns)
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


def expected_messages(mechanism: Mechanism, values: NDArray[Any], key: bytes, part_rows: int | None = None) -> Bytes:
    """What encoding under a key gives, in the order of the input: parts of chunks, each with its own stream."""
    rows = []
    chunk_rows = batch_processing.CHUNK_ROWS
    part_rows = len(values) if part_rows is None else part_rows
    for part, start in enumerate(range(0, len(values), part_rows)):
        own = values[start : start + part_rows]
        for chunk, first in enumerate(range(0, len(own), chunk_rows)):
            source = KeyedSource(key, (part << 32) + chunk)
            rows.append(mechanism.pack(mechanism.randomize(own[first : first + chunk_rows], source)))
    return np.concatenate(rows)


def sort_messages(wire: Bytes) -> list[bytes]:
    """The messages sorted by Python itself."""
    return sorted(row.tobytes() for row in wire)


def read_messages(directory: Path, width: int) -> list[bytes]:
    """The messages of a directory of files, in the order in which they stand there."""
    return [
        row.tobytes()
        for wire in message_files.read_messages(message_files.list_message_files(directory), width)
        for row in wire
    ]


def read_encoded_file(path: Path) -> list[bytes]:
    """The messages of a bundle, in the order in which they stand there."""
    return [row.tobytes() for wire in EncodedFile.open(path).read() for row in wire]


def write_messages(directory: Path, parts: Sequence[Bytes]) -> Path:
    """Files of messages as an encoder might leave them."""
    directory.mkdir(parents=True)
    for number, wire in enumerate(parts):
        pq.write_table(pa.table({"message": message_files.to_arrow(wire)}), directory / f"part-{number:05d}.parquet")
    return directory


def list_paths(directory: Path) -> list[str]:
    """Every path below a directory."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
