"""Names and small files on the file systems that Spark uses, through Hadoop's client in Spark's process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
