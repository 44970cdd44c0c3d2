"""Files wherever Spark reads and writes them: names and small files only, by Hadoop's own client in Spark's process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")


def is_address(text: Any) -> bool:
    """Whether it names a place on some file system, such as ``s3a://bucket/data``, and is no path of this machine."""
    return isinstance(text, str) and SCHEME.match(text) is not None


@dataclass(frozen=True)
class FileSystem:
    """The file systems that a session of Spark knows."""

    session: SparkSession

    def exists(self, address: str) -> bool:
        """Whether there is a file or directory."""
        system, path = self._open(address)
        return bool(system.exists(path))

    def names(self, address: str) -> list[str]:
        """What is in a directory, in order; nothing if there is none."""
        system, path = self._open(address)
        return sorted(each.getPath().getName() for each in system.listStatus(path)) if system.exists(path) else []

    def rename(self, source: str, target: str) -> None:
        """Another name; an error if it could not be given."""
        system, path = self._open(source)
        if not system.rename(path, self._open(target)[1]):
            raise OSError(f"cannot rename {source} to {target}")

    def remove(self, address: str) -> None:
        """A file, or a directory and all below it, if it is there."""
        system, path = self._open(address)
        system.delete(path, True)

    def put(self, local: Path, address: str) -> None:
        """A copy of a file of this machine."""
        system, path = self._open(address)
        system.copyFromLocalFile(False, True, self._path(local.resolve().as_uri()), path)

    def _open(self, address: str) -> tuple[Any, Any]:
        path = self._path(address)
        context: Any = self.session.sparkContext
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path

    def _path(self, address: str) -> Any:
        jvm: Any = self.session.sparkContext._jvm
        return jvm.org.apache.hadoop.fs.Path(address)
