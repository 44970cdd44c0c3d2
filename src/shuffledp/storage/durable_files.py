"""Writes that survive a power loss: contents reach the disk before names do, and names before anything relies on them.

A file or directory gets its name only when it is complete on disk; an irreversible step, such as destroying a key,
comes after everything that it relies on. Every change of a collection's files goes through this module.

A directory may be shared with other users. Unfinished files have names that nobody can guess, links are not followed,
and an existing file is used only if this user made it and nobody else can write to it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shuffledp._core.errors import ShuffledpError

UNFINISHED_SUFFIX = ".unfinished"
OWNER_ONLY, OWNER_ONLY_DIRECTORY = 0o600, 0o700
WORLD_READABLE = 0o644
WRITABLE_BY_OTHERS = 0o022


class ForeignFile(ShuffledpError):
    """The error raised for a file or directory that another user made or can write to."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"files: {path} belongs to somebody else, or is a link, or can be written by others, and is not used; move "
            f"it away, or choose another directory."
        )


def sync(descriptor: int) -> None:
    """Waits until written data are on the disk itself, not in its cache, as far as the system can tell."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """Flushes a file's contents, or a directory's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Flushes all files and names below a directory to disk, its own names last."""
    for where, _, files in os.walk(directory, topdown=False):
        for name in files:
            sync_path(Path(where, name))
        sync_path(Path(where))


def make_directory(path: Path, mode: int = 0o777) -> None:
    """Creates a directory and its parents, if missing, durably."""
    if not path.parent.exists():
        make_directory(path.parent)
    path.mkdir(mode=mode, exist_ok=True)
    sync_path(path.parent)


def rename(source: Path, target: Path) -> None:
    """Renames atomically and durably, replacing any existing target."""
    os.replace(source, target)
    sync_path(target.parent)
    if source.parent != target.parent:
        sync_path(source.parent)


def remove(path: Path) -> None:
    """Removes a file durably."""
    path.unlink()
    sync_path(path.parent)


def destroy(path: Path) -> None:
    """Overwrites a secret file, as far as the file system allows, and removes it; does nothing if it is missing."""
    if os.path.lexists(path):
        with open(open_owned_file(path, os.O_RDWR), "r+b") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            sync(file.fileno())
        remove(path)


def remove_tree(path: Path, *, surely: bool = False) -> None:
    """Removes a directory tree, if it exists; with ``surely`` raises ``OSError`` if anything is left."""
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)
        # A directory that is a mount point stays, empty.
        if surely and path.is_dir() and any(path.iterdir()):
            raise OSError(errno.ENOTEMPTY, "cannot remove all of it", str(path))
        sync_path(path.parent)


def remove_unfinished_directories(path: Path) -> None:
    """Removes unfinished directories of this user's killed processes; raises ``OSError`` if anything remains."""
    for left in _find_unfinished(path):
        with suppress(ForeignFile, FileNotFoundError):
            check_owned_directory(left)
            remove_tree(left, surely=True)


def create_atomically(path: Path, content: bytes, mode: int = OWNER_ONLY) -> bool:
    """Writes a file that gets its name when it is complete on disk; by default only its owner can read it.

    Returns False, and changes nothing, if the file exists already: of two processes only one succeeds.
    """
    unfinished = _write_unfinished(path, content, mode)
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return False
    finally:
        unfinished.unlink()
        sync_path(path.parent)
    return True


def replace_atomically(path: Path, content: bytes) -> None:
    """Writes a file for its owner only and replaces the previous one; one of the two always exists, complete."""
    unfinished = _write_unfinished(path, content)
    try:
        rename(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def unfinished_name(path: Path) -> Path:
    """Returns a name that no other process uses or can guess, for the unfinished file or directory."""
    return path.with_name(f"{path.name}{UNFINISHED_SUFFIX}-{os.urandom(8).hex()}")


def _write_unfinished(path: Path, content: bytes, mode: int = OWNER_ONLY) -> Path:
    """Writes an unfinished file beside ``path``, complete on disk, and returns its name."""
    unfinished = unfinished_name(path)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
    return unfinished


@contextmanager
def create_atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to fill, for its owner only; it gets its name if the block ends without an exception.

    One process at a time: the remains of killed processes are removed before anything is written, so that there are
    never two contents to compare. Raises ``BlockingIOError`` if another process is writing, ``FileExistsError`` if the
    file exists.
    """
    unfinished = unfinished_name(path)
    with open(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Each process creates its file before it looks for others: if two begin at once, at most one continues.
            _remove_stale_files(path, unfinished)
            if not _has_name(file, unfinished):
                raise BlockingIOError(errno.EWOULDBLOCK, "another process began at the same time", str(path))
            if path.exists():
                raise FileExistsError(path)
            yield file
            file.flush()
            sync(file.fileno())
            os.link(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
            sync_path(path.parent)


def remove_unfinished_files(path: Path) -> None:
    """Removes the unfinished remains of an existing file, unless another process is writing it."""
    with suppress(BlockingIOError):
        _remove_stale_files(path)
    sync_path(path.parent)


def _remove_stale_files(path: Path, own: Path | None = None) -> None:
    """Removes unfinished files of this user's killed processes; raises ``BlockingIOError`` if one is in use."""
    for left in _find_unfinished(path):
        # Files of other users hold no data of ours, and are not ours to remove.
        with suppress(ForeignFile, FileNotFoundError, PermissionError):
            if left != own:
                with open(open_owned_file(left, os.O_RDWR), "r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink()


def _find_unfinished(path: Path) -> list[Path]:
    """Returns everything beside a path that killed processes may have left of it."""
    first = f"{path.name}{UNFINISHED_SUFFIX}"
    beside = list(path.parent.iterdir()) if path.parent.exists() else []
    return [each for each in beside if each.name == first or each.name.startswith(f"{first}-")]


@contextmanager
def open_locked(path: Path, *, create: bool = True) -> Iterator[BinaryIO]:
    """Opens and locks a file, creating it if ``create``; raises ``BlockingIOError`` if another process holds it."""
    while True:
        # Some file systems lock only files that are open for writing.
        with open(open_owned_file(path, os.O_RDWR | (os.O_CREAT if create else 0)), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the name meanwhile.
            if _has_name(file, path):
                yield file
                return


def _has_name(file: BinaryIO, path: Path) -> bool:
    """Returns True if an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


# --- Shared directories ---


def open_owned_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Opens a file that this user made and nobody else can write to; raises ``ForeignFile`` for others and links."""
    try:
        # Opening a pipe must not block.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, OWNER_ONLY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise ForeignFile(path) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not _is_owned(found, path.parent):
            raise ForeignFile(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_owned_file(path: Path) -> bytes:
    """Returns the content of a file that this user made and nobody else can write to; else raises ``ForeignFile``."""
    with open(open_owned_file(path), "rb") as file:
        return file.read()


def check_owned_directory(path: Path) -> None:
    """Raises ``ForeignFile`` unless this is a directory, not a link, of this user that nobody else can write to."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or not _is_owned(found, path.parent):
        raise ForeignFile(path)


def _is_owned(found: os.stat_result, directory: Path) -> bool:
    """Returns True if this user (or root) made an entry of ``directory``, and nobody else can write to it.

    Some file systems show the same owner or mode for everything: there the entry must look like one that is made now.
    """
    trusted = {os.geteuid(), 0}
    if found.st_uid in trusted and not found.st_mode & WRITABLE_BY_OTHERS:
        return True
    probe = unfinished_name(directory / "probe")
    try:
        os.mkdir(probe, OWNER_ONLY_DIRECTORY)
        made = os.lstat(probe)
        os.rmdir(probe)
    except OSError:
        return False
    return found.st_uid in {*trusted, made.st_uid} and not found.st_mode & ~made.st_mode & WRITABLE_BY_OTHERS


@contextmanager
def create_atomic_directory(path: Path) -> Iterator[Path]:
    """Yields a directory to fill; it gets its name, complete on disk, if the block ends without an exception.

    Until then only its owner can read it: files of a shuffle in progress reveal which messages arrived together.
    """
    for old in _find_unfinished(path):
        with suppress(ForeignFile, FileNotFoundError):
            check_owned_directory(old)
            shutil.rmtree(old, ignore_errors=True)
    # An unguessable name: a worker of a killed run may still be writing.
    unfinished = unfinished_name(path)
    make_directory(path.parent)
    unfinished.mkdir(OWNER_ONLY_DIRECTORY)
    try:
        yield unfinished
        unfinished.chmod(0o777 & ~_read_umask())
        sync_tree(unfinished)
        rename(unfinished, path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _read_umask() -> int:
    """Returns the umask of this process; meanwhile other threads create files with stricter modes, never laxer."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
