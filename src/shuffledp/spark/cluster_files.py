"""Files of shuffled messages at an address that Spark writes to.

Names, row groups and bytes of the files follow from the multiset of messages. Spark's own writer writes them, so that
workers need no other access to the file system; the driver renames them.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from shuffledp._core.validation import Integers
from shuffledp.collection import message_files
from shuffledp.collection.engine import EngineError
from shuffledp.collection.message_files import MANIFEST_NAME, BatchSpec, Manifest, read_manifest_fields
from shuffledp.spark import sorted_shuffle
from shuffledp.spark.sorted_shuffle import FileLayout
from shuffledp.storage.durable_files import UNFINISHED_SUFFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# --- File systems ---


@dataclass(frozen=True)
class FileSystem:
    """The file systems that a Spark session can access."""

    session: SparkSession

    def exists(self, address: str) -> bool:
        """Returns True if there is a file or directory."""
        system, path = self._open(address)
        return bool(system.exists(path))

    def list_names(self, address: str) -> list[str]:
        """Returns the sorted names in a directory; none if it does not exist."""
        system, path = self._open(address)
        return sorted(each.getPath().getName() for each in system.listStatus(path)) if system.exists(path) else []

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory; raises OSError if that fails."""
        system, path = self._open(source)
        if not system.rename(path, self._open(target)[1]):
            raise OSError(f"cannot rename {source} to {target}")

    def remove(self, address: str) -> None:
        """Deletes a file, or a directory and everything below it, if it exists."""
        system, path = self._open(address)
        system.delete(path, True)

    def upload(self, local: Path, address: str) -> None:
        """Copies a file of this machine to an address."""
        system, path = self._open(address)
        system.copyFromLocalFile(False, True, self._path(local.resolve().as_uri()), path)

    def _open(self, address: str) -> tuple[Any, Any]:
        path = self._path(address)
        context: Any = self.session.sparkContext
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path

    def _path(self, address: str) -> Any:
        jvm: Any = self.session.sparkContext._jvm
        return jvm.org.apache.hadoop.fs.Path(address)


# --- The manifest of messages that a cluster wrote ---
#
# Its checksum is a hash of the checksums of the files, so that no machine has to read all messages in sequence. The
# digest by which a ledger identifies them is derived from it.


FORMAT, VERSION = "shuffledp shuffled messages of a cluster", 1
ABSENT_FIELDS = ("bundles",)
"""Fields that it lacks: the messages are those of one collection, and not of bundles."""


@dataclass(frozen=True)
class ClusterManifest(Manifest):
    """The manifest of messages that are stored where Spark wrote them."""

    where: str = ""
    """Address of their directory."""

    def write(self, directory: Path) -> None:
        values = {name: value for name, value in asdict(self).items() if name not in ABSENT_FIELDS}
        document = {"format": FORMAT, "version": VERSION} | values
        (directory / MANIFEST_NAME).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Self:
        return cls(**read_manifest_fields(directory, cls, FORMAT, {VERSION: ABSENT_FIELDS}))

    @classmethod
    def from_files(cls, spec: BatchSpec, files: Sequence[tuple[str, int, str]], where: str) -> Self:
        """Returns the manifest of files, given their names, numbers of messages and SHA-256 in order."""
        hashed = hashlib.sha256("".join(f"{messages} {digest}\n" for _, messages, digest in files).encode()).hexdigest()
        total = sum(messages for _, messages, _ in files)
        return cls(
            spec.plan, spec.width, total, hashed, spec.users, spec.per_person, 0, 0, spec.noise, where=where
        )  # fmt: skip


def is_cluster_manifest(directory: Path) -> bool:
    """Returns True if the messages themselves are stored elsewhere."""
    try:
        return bool(json.loads((directory / MANIFEST_NAME).read_text("utf-8")).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


WHOLE_FILE_SETTINGS = {
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.openCostInBytes": str(1 << 40),
}
"""Settings by which a task reads whole files, one at a time."""


def write_shuffled(
    session: SparkSession, messages: DataFrame, spec: BatchSpec, address: str
) -> tuple[ClusterManifest, Integers | None]:
    """Writes all messages in order to a directory, which gets its name, and then its manifest, when it is complete.

    For messages of one or two bytes, also returns the count of each, as found in the files.
    """
    files = FileSystem(session)
    parent, name = address.rsplit("/", 1)
    for left in files.list_names(parent):
        if left == name or left.startswith(f"{name}{UNFINISHED_SUFFIX}-"):
            # Left by a killed run: whoever began this collection found the address empty.
            files.remove(f"{parent}/{left}")
    unfinished, counts = f"{address}{UNFINISHED_SUFFIX}-{os.urandom(8).hex()}", None
    if spec.width <= message_files.MAX_COUNTED_BYTES:
        digests, counts = _write_counted(files, messages, spec.width, unfinished)
    else:
        digests = _write_wide(files, messages, spec.width, unfinished)
    manifest = ClusterManifest.from_files(spec, digests, address)
    files.rename(unfinished, address)
    _upload_manifest(files, manifest, address)
    return manifest, counts


def _write_counted(
    files: FileSystem, messages: DataFrame, width: int, directory: str
) -> tuple[list[tuple[str, int, str]], Integers]:
    """Writes files of messages of one or two bytes."""
    counts = sorted_shuffle.count_each_message(messages, width)
    _write_parquet(
        files,
        sorted_shuffle.order_counts(files.session, counts, width, _rows_per_file(width)),
        width,
        int(counts.sum()),
        directory,
    )
    digests, found = sorted_shuffle.verify_files(files.session.read.parquet(directory), width)
    if (found != counts).any():
        raise EngineError("collect: expected the messages that were counted in their files, got others.")
    return digests, found


def _write_wide(files: FileSystem, messages: DataFrame, width: int, directory: str) -> list[tuple[str, int, str]]:
    """Writes files of wide messages."""
    layout = FileLayout.from_messages(messages, width, _rows_per_file(width))
    _write_parquet(files, sorted_shuffle.order_messages(messages, layout), width, layout.message_count, directory)
    digests = _compute_digests(files.session, directory, width)
    found = sum(own for _, own, _ in digests)
    if found != layout.message_count:
        raise EngineError(f"collect: expected {layout.message_count} shuffled messages, got {found}.")
    return digests


def _rows_per_file(width: int) -> int:
    """Returns the number of messages in a file, except the last."""
    return message_files.group_rows(width) * message_files.GROUPS_PER_FILE


def _write_parquet(files: FileSystem, rows: DataFrame, width: int, total: int, directory: str) -> None:
    """Writes messages in order, one partition per file, with names that follow from their number."""
    rows.write.options(**_writer_options(message_files.group_rows(width))).parquet(directory)
    _rename_files(files, directory, -(-total // _rows_per_file(width)))


def _writer_options(group: int) -> Mapping[str, str]:
    """Returns the options for row groups of one size, with nothing in the files but messages."""
    return {
        "compression": "zstd",
        "parquet.block.row.count.limit": str(group),
        "parquet.enable.dictionary": "false",
        "parquet.column.statistics.enabled": "false",
        "parquet.size.statistics.enabled": "false",
        # The older version lists several encodings, in an order that varies between processes.
        "parquet.writer.version": "PARQUET_2_0",
    }


def _rename_files(files: FileSystem, directory: str, expected: int) -> None:
    """Replaces Spark's file names, which hold a random number, by the numbers of the files."""
    written = files.list_names(directory)
    parts = [name for name in written if name.startswith("part-")]
    if [int(name.split("-")[1]) for name in parts] != list(range(expected)):
        raise EngineError(f"collect: expected {expected} files of messages, got {len(parts)}.")
    for number, name in enumerate(parts):
        files.rename(f"{directory}/{name}", f"{directory}/messages-{number:05d}.parquet")
    for name in written:
        if not name.startswith("part-"):
            files.remove(f"{directory}/{name}")


def _compute_digests(session: SparkSession, directory: str, width: int) -> list[tuple[str, int, str]]:
    before = {name: session.conf.get(name) for name in WHOLE_FILE_SETTINGS}
    try:
        for name, value in WHOLE_FILE_SETTINGS.items():
            session.conf.set(name, value)
        return sorted_shuffle.compute_digests(session.read.parquet(directory), width)
    finally:
        for name, previous in before.items():
            session.conf.set(name, str(previous))


def _upload_manifest(files: FileSystem, manifest: ClusterManifest, address: str) -> None:
    with tempfile.TemporaryDirectory() as room:
        manifest.write(Path(room))
        files.upload(Path(room, MANIFEST_NAME), f"{address}/{MANIFEST_NAME}")
