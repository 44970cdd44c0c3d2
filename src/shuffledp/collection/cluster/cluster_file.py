"""Files of shuffled messages at an address that Spark writes to: names, row groups and bytes follow from the multiset.

Spark's own writer writes them, so that workers need no other way to the file system; the driver gives them their names.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp.array import Integers
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


def write(
    session: SparkSession, messages: DataFrame, lot: Lot, address: str
) -> tuple[ClusterManifest, Integers | None]:
    """All messages in order into a directory, which has its name, and then its manifest, when it is complete.

    Of messages of one or two bytes also how often each of them is there, as was found in the files.
    """
    files = FileSystem(session)
    parent, name = address.rsplit("/", 1)
    for left in files.names(parent):
        if left == name or left.startswith(f"{name}{UNFINISHED}-"):
            # Of a run that was killed: whoever began this collection found the place empty.
            files.remove(f"{parent}/{left}")
    unfinished, counts = f"{address}{UNFINISHED}-{os.urandom(8).hex()}", None
    if lot.width <= shuffling.COUNTED_BYTES:
        digests, counts = _counted(files, messages, lot.width, unfinished)
    else:
        digests = _ranged(files, messages, lot.width, unfinished)
    made = ClusterManifest.of(lot, digests, address)
    files.rename(unfinished, address)
    _put_manifest(files, made, address)
    return made, counts


def _counted(
    files: FileSystem, messages: DataFrame, width: int, directory: str
) -> tuple[list[tuple[str, int, str]], Integers]:
    """Files of messages of which there are few different ones."""
    counts = counted_file.counts_of(messages, width)
    _put(files, counted_file.ordered(files.session, counts, width, _rows(width)), width, int(counts.sum()), directory)
    digests, found = counted_file.read_again(files.session.read.parquet(directory), width)
    if (found != counts).any():
        raise EngineFailed("collect: expected the messages that were counted in their files, got others.")
    return digests, found


def _ranged(files: FileSystem, messages: DataFrame, width: int, directory: str) -> list[tuple[str, int, str]]:
    """Files of wide messages."""
    layout = Layout.of(messages, width, _rows(width))
    _put(files, exact_shuffle.ordered(messages, layout), width, layout.total, directory)
    digests = _digests(files.session, directory, width)
    found = sum(own for _, own, _ in digests)
    if found != layout.total:
        raise EngineFailed(f"collect: expected {layout.total} shuffled messages, got {found}.")
    return digests


def _rows(width: int) -> int:
    """Messages of a file, but for the last one."""
    return message.group_rows(width) * message.FILE_GROUPS


def _put(files: FileSystem, rows: DataFrame, width: int, total: int, directory: str) -> None:
    """Messages in order, a partition a file, with names that follow from their number."""
    rows.write.options(**_writer(message.group_rows(width))).parquet(directory)
    _give_names(files, directory, -(-total // _rows(width)))


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
        return exact_shuffle.digests(session.read.parquet(directory), width)
    finally:
        for name, told in before.items():
            session.conf.set(name, str(told))


def _put_manifest(files: FileSystem, made: ClusterManifest, address: str) -> None:
    with tempfile.TemporaryDirectory() as room:
        made.write(Path(room))
        files.put(Path(room, NAME), f"{address}/{NAME}")
