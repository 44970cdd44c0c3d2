"""Writes that survive a power loss: contents reach the disk before names do, and names before anything relies on them.

A file or directory gets its name only when it is complete on disk; a step that cannot be taken back, such as destroying
a key, comes after whatever it relies on. Every change of a collection's files goes through here.

A directory may be shared with other users. What has no name yet has one that nobody can guess, links are not followed,
and a file that is there already is used only if this user made it and nobody else can write to it.
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

from shuffledp.errors import ShuffledpError

UNFINISHED = ".unfinished"
OWNER_ONLY, OWNER_ONLY_DIRECTORY = 0o600, 0o700
ANYBODY_READS = 0o644
OTHERS_WRITE = 0o022


class ForeignFile(ShuffledpError):
    """A file or directory that somebody else made or can write to, where one of this user was expected."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"files: {path} belongs to somebody else, or is a link, or can be written by others, and is not used; move "
            f"it away, or choose another directory."
        )


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
    if os.path.lexists(path):
        with open(open_own(path, os.O_RDWR), "r+b") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            sync(file.fileno())
        remove(path)


def remove_tree(path: Path, *, surely: bool = False) -> None:
    """A directory and all below it, if it is there; ``surely`` is an ``OSError`` where something of it is left."""
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)
        # A directory that is a file system of its own stays, empty.
        if surely and path.is_dir() and any(path.iterdir()):
            raise OSError(errno.ENOTEMPTY, "cannot remove all of it", str(path))
        sync_path(path.parent)


def remove_unfinished(path: Path) -> None:
    """Remove the directories that killed processes of this user left of one; ``OSError`` where something is left."""
    for left in _unfinished(path):
        with suppress(ForeignFile, FileNotFoundError):
            demand_own_directory(left)
            remove_tree(left, surely=True)


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
    """A name that no other process uses or guesses, for what is to become this."""
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

    One process at a time: what a killed one left is removed before anything is written, so that there are never two
    contents to compare. ``BlockingIOError`` where another process is at it, ``FileExistsError`` where it is there.
    """
    unfinished = unfinished_name(path)
    with open(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Each has its file before it looks for others: of two who begin at once at most one goes on.
            _remove_left(path, unfinished)
            if not _is_named(file, unfinished):
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


def tidy(path: Path) -> None:
    """Remove what a killed process left of a file that is there, unless another one is at it."""
    with suppress(BlockingIOError):
        _remove_left(path)
    sync_path(path.parent)


def _remove_left(path: Path, own: Path | None = None) -> None:
    """Remove what killed processes of this user left of a file; ``BlockingIOError`` where one is still at it."""
    for left in _unfinished(path):
        # What belongs to others has nothing of ours in it, and is not ours to remove.
        with suppress(ForeignFile, FileNotFoundError, PermissionError):
            if left != own:
                with open(open_own(left, os.O_RDWR), "r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink()


def _unfinished(path: Path) -> list[Path]:
    """Everything beside a path that may be left of it by processes that were killed."""
    first = f"{path.name}{UNFINISHED}"
    beside = list(path.parent.iterdir()) if path.parent.exists() else []
    return [each for each in beside if each.name == first or each.name.startswith(f"{first}-")]


@contextmanager
def locked(path: Path, *, create: bool = True) -> Iterator[BinaryIO]:
    """The file of this name while no other process has it; made if there is none, unless it must be there."""
    while True:
        # Some file systems lock only what is open for writing.
        with open(open_own(path, os.O_RDWR | (os.O_CREAT if create else 0)), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one who had it may have removed its name meanwhile.
            if _is_named(file, path):
                yield file
                return


def _is_named(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


# --- directories that are shared ----------------------------------------------------------------------------------


def open_own(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file that this user made and nobody else can write to; ``ForeignFile`` for any other, and for links."""
    try:
        # A pipe must not keep anybody waiting.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, OWNER_ONLY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise ForeignFile(path) from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not _is_own(found, path.parent):
            raise ForeignFile(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_own(path: Path) -> bytes:
    """The content of a file that this user made and nobody else can write to; ``ForeignFile`` for any other."""
    with open(open_own(path), "rb") as file:
        return file.read()


def demand_own_directory(path: Path) -> None:
    """Stop unless this is a directory, and no link, that this user made and nobody else can write to."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or not _is_own(found, path.parent):
        raise ForeignFile(path)


def _is_own(found: os.stat_result, directory: Path) -> bool:
    """Whether this user (or root) made what lies in a directory, and nobody else can write to it.

    Some file systems show the same owner or mode for everything: there it must look like what is made now.
    """
    trusted = {os.geteuid(), 0}
    if found.st_uid in trusted and not found.st_mode & OTHERS_WRITE:
        return True
    probe = unfinished_name(directory / "probe")
    try:
        os.mkdir(probe, OWNER_ONLY_DIRECTORY)
        made = os.lstat(probe)
        os.rmdir(probe)
    except OSError:
        return False
    return found.st_uid in {*trusted, made.st_uid} and not found.st_mode & ~made.st_mode & OTHERS_WRITE


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A directory to fill; it gets its name only when the block ends well, and then all of it is on disk.

    Until then it is its owner's only: files on the way to an order tell what came together.
    """
    for old in _unfinished(path):
        with suppress(ForeignFile, FileNotFoundError):
            demand_own_directory(old)
            shutil.rmtree(old, ignore_errors=True)
    # A name of its own: a worker of a run that was killed may still be writing.
    unfinished = unfinished_name(path)
    make_directory(path.parent)
    unfinished.mkdir(OWNER_ONLY_DIRECTORY)
    try:
        yield unfinished
        unfinished.chmod(0o777 & ~_mask())
        sync_tree(unfinished)
        rename(unfinished, path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _mask() -> int:
    """What this process takes from the modes of what it makes; meanwhile other threads take more, never less."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
