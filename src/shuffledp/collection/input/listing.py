"""Which files hold the rows of a path: the same list for every engine, or a sentence where a list would not do.

Names that begin with ``_`` or ``.`` are not data, as for Spark and its friends. What a path holds beyond that is never
left out in silence: a person who is counted twice, or rows that were deleted, would make the promise false.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shuffledp.collection.input.format import FORMATS, Format, format_of

MAGIC = b"PAR1"
"""With this a Parquet file begins."""
UNFINISHED = "._COPYING_"
EXPORT = (
    "export the rows that are in force to a plain Parquet file first (read the table with its own reader, write it)"
)


def all_files(paths: Sequence[Path]) -> list[Path]:
    """The files that hold the rows of several paths, in order, none of them twice."""
    found = [file for path in paths for file in data_files(path)]
    _demand_different(found)
    return found


def data_files(path: Path) -> list[Path]:
    """The files that hold the rows, in order; of a directory all files of one format in the order of their names.

    Directories in it that are called ``name=value`` hold partitions, which belong to it.
    """
    if not path.is_dir():
        _demand_file(path)
        _refuse_managed(path)
        return [path]
    _refuse_managed(path)
    found = list(_inside(path))
    if not found:
        known = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes[:2])
        raise ValueError(f"input: expected files of rows ({known}) in the directory {str(path)!r}, got none.")
    return found


def _inside(path: Path) -> Iterator[Path]:
    """The files of rows in a directory, and in its partitions."""
    for entry in sorted(path.iterdir()):
        if is_hidden(entry.name):
            continue
        if entry.is_symlink():
            _refuse_managed(entry)
        if entry.is_dir():
            if "=" in entry.name and not entry.is_symlink():
                yield from _inside(entry)
            else:
                _refuse_nested(path, entry)
        elif format_of(entry) is not None:
            yield entry
        else:
            _refuse_strange(path, entry)


def one_format(files: Sequence[Path]) -> Format:
    """The format of all these files; a sentence where they have several."""
    kinds = {format_of(file): file for file in reversed(files)}
    if len(kinds) > 1:
        first, second, *_ = kinds.values()
        raise ValueError(
            f"input: {first.name} and {second.name} are files of different formats; convert them to one, or move "
            f"some elsewhere."
        )
    (found,) = kinds
    assert found is not None, "only files of a known format are listed"
    return found


def is_hidden(name: str) -> bool:
    """Whether a name in a directory is not one of data."""
    return name.startswith(("_", ".")) or name.endswith(UNFINISHED)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def demand_unlike(files: Iterable[Path]) -> None:
    """Stop if two files hold the same bytes; only those of one size are read for that."""
    sizes: dict[int, list[Path]] = defaultdict(list)
    for file in files:
        sizes[file.stat().st_size].append(file)
    for alike in sizes.values():
        if len(alike) > 1:
            demand_no_copies((file, digest(file)) for file in alike)


def demand_no_copies(digests: Iterable[tuple[Path, str]]) -> None:
    """Stop if two files hold the same bytes: their people would count twice."""
    seen: dict[str, Path] = {}
    for path, known in digests:
        if known in seen and not _is_empty(path):
            raise ValueError(
                f"input: {path.name} is a copy of {seen[known].name}, whose people would count twice; remove one of "
                f"them, or put both into one file if they are of different people."
            )
        seen.setdefault(known, path)


def _demand_file(path: Path) -> None:
    if not path.is_file():
        raise ValueError(f"input: expected a file, got {str(path)!r}, which is none.")
    if format_of(path) is None:
        known = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes)
        raise ValueError(
            f"input: expected a file whose name ends in {known}, got {path.name!r}; save its rows as one of these, "
            f"such as CSV."
        )


def _refuse_managed(path: Path) -> None:
    """A table of Delta, Iceberg or Hudi keeps rows that were deleted or replaced: only its own reader knows which."""
    absolute = path.resolve()
    for room in (absolute, *absolute.parents):
        kind = None
        if (room / "_delta_log").is_dir():
            kind = "Delta"
        elif (room / ".hoodie").is_dir():
            kind = "Hudi"
        elif (room / "metadata").is_dir() and any((room / "metadata").glob("*.metadata.json")):
            kind = "Iceberg"
        if kind is not None:
            where = "is" if room == absolute else "is part of"
            raise ValueError(
                f"input: {path.name} {where} a {kind} table, whose files also hold rows that were deleted or replaced; "
                f"{EXPORT}."
            )


def _refuse_nested(path: Path, entry: Path) -> None:
    if entry.is_symlink():
        raise ValueError(f"input: {path.name} has a link to a directory, {entry.name}; give one directory of files.")
    for room, rooms, names in os.walk(entry):
        rooms[:] = [name for name in rooms if not is_hidden(name)]
        for name in sorted(names):
            if not is_hidden(name) and format_of(Path(name)) is not None:
                inside = (Path(room) / name).relative_to(path)
                raise ValueError(
                    f"input: {path.name} has files in directories of its own, such as {inside}; put all rows into one "
                    f"file or one directory of files, or call the directories name=value."
                )


def _refuse_strange(path: Path, entry: Path) -> None:
    if not entry.is_file():
        return
    with entry.open("rb") as file:
        is_parquet = file.read(len(MAGIC)) == MAGIC
    if is_parquet:
        raise ValueError(
            f"input: {path.name} has {entry.name}, a Parquet file without the suffix .parquet; rename it, or move it "
            f"elsewhere."
        )


def _demand_different(files: list[Path]) -> None:
    """No file twice, by a link of either kind."""
    seen: dict[tuple[int, int], Path] = {}
    for file in files:
        if not file.is_file():
            raise ValueError(f"input: {file.name} is no file that can be read.")
        status = file.stat()
        identity = status.st_dev, status.st_ino
        if identity in seen:
            raise ValueError(
                f"input: {file.name} and {seen[identity].name} are the same file by two names; remove one of them."
            )
        seen[identity] = file


def _is_empty(path: Path) -> bool:
    """Whether a Parquet file says that it has no rows: writers leave many such files, all the same."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows) == 0
    except (pa.ArrowException, OSError):
        return False
