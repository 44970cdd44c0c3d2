"""Writes that survive a power loss: contents reach the disk before names do, and names before anything relies on them.

A file or directory gets its name only when it is complete on disk; a step that cannot be taken back, such as destroying
a key, comes after whatever it relies on. Every change of a collection's files goes through here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".unfinished"
OWNER_ONLY = 0o600
ANYBODY_READS = 0o644


def sync(descriptor: int) -> None:
    """Wait until what was written is on the disk itself, not in its cache, as far as the system can tell."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """A file's contents, or a directory's names, onto the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """All files and names below a directory onto the disk, and its own names last."""
    for where, _, files in os.walk(directory, topdown=False):
        for name in files:
            sync_path(Path(where, name))
        sync_path(Path(where))


def make_directory(path: Path, mode: int = 0o777) -> None:
    """A directory, if it is not there yet, and the names that lead to it."""
    if not path.parent.exists():
        make_directory(path.parent)
    path.mkdir(mode=mode, exist_ok=True)
    sync_path(path.parent)


def rename(source: Path, target: Path) -> None:
    """Another name, in one step, on the disk when this returns; what had the name before is gone."""
    os.replace(source, target)
    sync_path(target.parent)
    if source.parent != target.parent:
        sync_path(source.parent)


def remove(path: Path) -> None:
    """A file's name is gone from the disk when this returns."""
    path.unlink()
    sync_path(path.parent)


def destroy(path: Path) -> None:
    """Overwrite a secret, as far as the file system lets it be, and remove it; nothing if it is not there."""
    if path.exists():
        with open(path, "r+b") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            sync(file.fileno())
        remove(path)


def remove_tree(path: Path) -> None:
    """A directory and all below it, if it is there."""
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)
        sync_path(path.parent)


def write_whole(path: Path, content: bytes, mode: int = OWNER_ONLY) -> bool:
    """Write a file that only its owner may read, unless ``mode`` says more; it gets its name when it is whole on disk.

    Returns False, and leaves it alone, if it is there already: of two processes only one succeeds.
    """
    unfinished = _written(path, content, mode)
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return False
    finally:
        unfinished.unlink()
        sync_path(path.parent)
    return True


def replace_whole(path: Path, content: bytes) -> None:
    """Write a file for its owner only, in place of what had its name: at any time one of the two is there, whole."""
    unfinished = _written(path, content)
    try:
        rename(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def unfinished_name(path: Path) -> Path:
    """A name that no other process uses, for what is to become this."""
    return path.with_name(f"{path.name}{UNFINISHED}-{os.urandom(8).hex()}")


def _written(path: Path, content: bytes, mode: int = OWNER_ONLY) -> Path:
    """A file beside the one that is meant, complete on disk."""
    unfinished = unfinished_name(path)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
    return unfinished


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to fill, for its owner only; it gets its name when the block ends well.

    One process at a time: what a killed one left is emptied before anything is written, so that there are never two
    contents to compare. ``BlockingIOError`` where another process is at it, ``FileExistsError`` where it is there.
    """
    unfinished = path.with_name(f"{path.name}{UNFINISHED}")
    with locked(unfinished) as file:
        try:
            if path.exists():
                raise FileExistsError(path)
            file.truncate()
            yield file
            file.flush()
            sync(file.fileno())
            os.link(unfinished, path)
        finally:
            unfinished.unlink()
            sync_path(path.parent)


def tidy(path: Path) -> None:
    """Remove what a killed process left of a file that is there, unless another one is at it."""
    unfinished = path.with_name(f"{path.name}{UNFINISHED}")
    if unfinished.exists():
        with suppress(BlockingIOError), locked(unfinished):
            remove(unfinished)


@contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """The file of this name, made if there is none, while no other process has it."""
    while True:
        # Some file systems lock only what is open for writing.
        with open(os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
            except FileNotFoundError:
                same = False
            # The one who had it may have removed its name meanwhile.
            if same:
                yield file
                return


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A directory to fill; it gets its name only when the block ends well, and then all of it is on disk."""
    for old in list(path.parent.iterdir()) if path.parent.exists() else []:
        if old.name.startswith(f"{path.name}{UNFINISHED}-"):
            shutil.rmtree(old, ignore_errors=True)
    # A name of its own: a worker of a run that was killed may still be writing.
    unfinished = unfinished_name(path)
    make_directory(path.parent)
    unfinished.mkdir()
    try:
        yield unfinished
        sync_tree(unfinished)
        rename(unfinished, path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
