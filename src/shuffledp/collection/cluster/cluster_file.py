"""Files of shuffled messages at an address that Spark writes to: names, row groups and bytes follow from the multiset.

Spark's own writer writes them, so that workers need no other way to the file system; the driver gives them their names.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.collection import message, shuffling
from shuffledp.collection.cluster import counted_file, exact_shuffle
from shuffledp.collection.cluster.cluster_manifest import ClusterManifest
from shuffledp.collection.cluster.exact_shuffle import Layout
from shuffledp.collection.cluster.file_system import FileSystem
from shuffledp.collection.durable import UNFINISHED
from shuffledp.collection.engine.engine import EngineFailed
from shuffledp.collection.lot import Lot
from shuffledp.collection.manifest import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHOLE_FILES = {"spark.sql.files.maxPartitionBytes": str(1 << 40), "spark.sql.files.openCostInBytes": str(1 << 40)}
"""A task reads whole files, one at a time."""


def write(session: SparkSession, messages: DataFrame, lot: Lot, address: str) -> ClusterManifest:
    """All messages in order into a directory, which has its name, and then its manifest, when it is complete."""
    files = FileSystem(session)
    parent, name = address.rsplit("/", 1)
    for left in files.names(parent):
        if left == name or left.startswith(f"{name}{UNFINISHED}-"):
            # Of a run that was killed: whoever began this collection found the place empty.
            files.remove(f"{parent}/{left}")
    group = message.group_rows(lot.width)
    rows, total = _ordered(session, messages, lot.width, group * message.FILE_GROUPS)
    unfinished = f"{address}{UNFINISHED}-{os.urandom(8).hex()}"
    rows.write.options(**_writer(group)).parquet(unfinished)
    _give_names(files, unfinished, -(-total // (group * message.FILE_GROUPS)))
    made = ClusterManifest.of(lot, _digests(session, unfinished, lot.width) if total else [], address)
    if made.messages != total:
        raise EngineFailed(f"collect: expected {total} shuffled messages, got {made.messages}.")
    files.rename(unfinished, address)
    _put_manifest(files, made, address)
    return made


def _ordered(session: SparkSession, messages: DataFrame, width: int, rows: int) -> tuple[DataFrame, int]:
    """One row a message, in order, a partition for each file of so many; and how many there are."""
    if width <= shuffling.COUNTED_BYTES:
        counts = counted_file.counts_of(messages, width)
        return counted_file.ordered(session, counts, width, rows), int(counts.sum())
    layout = Layout.of(messages, width, rows)
    return exact_shuffle.ordered(messages, layout), layout.total


def _writer(group: int) -> Mapping[str, str]:
    """Row groups of one size, and nothing in the files but messages."""
    return {
        "compression": "zstd",
        "parquet.block.row.count.limit": str(group),
        "parquet.enable.dictionary": "false",
        "parquet.column.statistics.enabled": "false",
        "parquet.size.statistics.enabled": "false",
        # The older version lists several encodings, in an order that changes with the process.
        "parquet.writer.version": "PARQUET_2_0",
    }


def _give_names(files: FileSystem, directory: str, expected: int) -> None:
    """Spark's names hold a random number; ours the number of the file."""
    written = files.names(directory)
    parts = [name for name in written if name.startswith("part-")]
    if [int(name.split("-")[1]) for name in parts] != list(range(expected)):
        raise EngineFailed(f"collect: expected {expected} files of messages, got {len(parts)}.")
    for number, name in enumerate(parts):
        files.rename(f"{directory}/{name}", f"{directory}/messages-{number:05d}.parquet")
    for name in written:
        if not name.startswith("part-"):
            files.remove(f"{directory}/{name}")


def _digests(session: SparkSession, directory: str, width: int) -> list[tuple[str, int, str]]:
    before = {name: session.conf.get(name) for name in WHOLE_FILES}
    try:
        for name, value in WHOLE_FILES.items():
            session.conf.set(name, value)
        written = session.read.parquet(directory)
        few = width <= shuffling.COUNTED_BYTES
        return counted_file.digests(written, width) if few else exact_shuffle.digests(written, width)
    finally:
        for name, told in before.items():
            session.conf.set(name, str(told))


def _put_manifest(files: FileSystem, made: ClusterManifest, address: str) -> None:
    with tempfile.TemporaryDirectory() as room:
        made.write(Path(room))
        files.put(Path(room, NAME), f"{address}/{NAME}")
