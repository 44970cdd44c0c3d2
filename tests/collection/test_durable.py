"""Files that another user planted in a shared directory: nothing is written to them, read from them or taken for ours.

Only root can give a file to somebody else. Whoever runs these tests as another user plants links and files that
everybody may write to, which are refused by the same checks.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from shuffledp.collection import engine
from shuffledp.collection.collect import CollectionRequest, run_collection
from shuffledp.collection.engine import create_engine
from shuffledp.sampling.random_sources import KEY_BYTES
from shuffledp.storage import durable_files
from tests.collection import list_paths
from tests.collection.test_resume import request_in

pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

NOBODY = 65534
KINDS = ["link", "mode", *(["owner"] if os.geteuid() == 0 else [])]
SECRET = b"messages in the order of the input"


def plant(path: Path, kind: str, content: bytes = b"") -> Path:
    """A file that somebody else put there, or could have changed; returns where its content is."""
    there = path.with_name("elsewhere") if kind == "link" else path
    there.write_bytes(content)
    give_away(there, kind)
    if kind == "link":
        path.symlink_to(there)
    return there


def give_away(path: Path, kind: str) -> None:
    """Let somebody else change it."""
    if kind == "owner":
        os.chown(path, NOBODY, NOBODY)
    else:
        path.chmod(0o777 if path.is_dir() else 0o666)


@pytest.mark.parametrize("name", ["out.messages.unfinished", "out.messages.unfinished-00"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_to_a_planted_file(tmp_path: Path, kind: str, name: str) -> None:
    """Whoever has a descriptor of it would read the messages; it is neither emptied, replaced nor waited for."""
    planted = plant(tmp_path / name, kind, b"theirs")
    with open(planted, "rb") as theirs:
        with durable_files.create_atomic_file(tmp_path / "out.messages") as file:
            file.write(SECRET)
        assert theirs.read() == b"theirs"
    assert (tmp_path / "out.messages").read_bytes() == SECRET
    assert (tmp_path / "out.messages").stat().st_uid == os.geteuid()
    assert (tmp_path / name).read_bytes() == b"theirs"


def test_a_killed_process_leaves_nothing_to_compare(tmp_path: Path) -> None:
    """What this user left is removed, unless its process is still at it; its name cannot be guessed."""
    path = tmp_path / "out.messages"
    left = durable_files.unfinished_name(path)
    left.touch(0o600)
    (tmp_path / "out.messages.unfinished").touch(0o600)
    with durable_files.create_atomic_file(path) as file:
        (own,) = (each for each in tmp_path.iterdir() if each != left)
        assert own.name not in (left.name, "out.messages.unfinished")
        with pytest.raises(BlockingIOError), durable_files.create_atomic_file(path):
            pass
        assert own.exists()
        file.write(SECRET)
    assert list_paths(tmp_path) == ["out.messages"]
    with pytest.raises(FileExistsError), durable_files.create_atomic_file(path):
        pass
    assert path.read_bytes() == SECRET


def test_two_who_begin_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one whose file is removed before it could lock it writes nothing."""
    path, flock = tmp_path / "out.messages", durable_files.fcntl.flock
    named = durable_files.unfinished_name(path)

    def removed_first(file: object, operation: int) -> None:
        named.unlink(missing_ok=True)
        flock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(durable_files, "unfinished_name", lambda _: named)
    monkeypatch.setattr(durable_files.fcntl, "flock", removed_first)
    with pytest.raises(BlockingIOError), durable_files.create_atomic_file(path):
        pytest.fail("it wrote into a file without a name")
    assert list_paths(tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_lock_or_secret_is_left_alone(tmp_path: Path, kind: str) -> None:
    """A link to a file of ours would have it overwritten with zeros."""
    planted = plant(tmp_path / "key", kind, SECRET)
    with pytest.raises(durable_files.ForeignFile, match="key"):
        durable_files.destroy(tmp_path / "key")
    with pytest.raises(durable_files.ForeignFile, match="key"), durable_files.open_locked(tmp_path / "key"):
        pass
    assert planted.read_bytes() == SECRET


def test_an_unfinished_directory_is_its_owners(tmp_path: Path) -> None:
    """Sorted runs tell which messages came together; when it is whole, the directory is as others are made."""
    before = os.umask(0o002)
    try:
        with durable_files.create_atomic_directory(tmp_path / "shuffled") as unfinished:
            assert unfinished.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
    assert (tmp_path / "shuffled").stat().st_mode & 0o777 == 0o775


def test_directories_of_others_are_not_removed(tmp_path: Path) -> None:
    """Neither through a link, nor where root could; what this user left is."""
    precious, mine = tmp_path / "precious", tmp_path / "shuffled.unfinished-01"
    for directory in (precious, mine):
        directory.mkdir()
        (directory / "file").touch()
    (tmp_path / "shuffled.unfinished-00").symlink_to(precious)
    wanted = ["precious/file"]
    if os.geteuid() == 0:
        theirs = tmp_path / "shuffled.unfinished-02"
        theirs.mkdir()
        os.chown(theirs, NOBODY, NOBODY)
        (theirs / "file").touch()
        wanted.append("shuffled.unfinished-02/file")
    with durable_files.create_atomic_directory(tmp_path / "shuffled"):
        pass
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("file"))] == wanted
    assert not mine.exists()


def test_a_file_system_without_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything that is made looks alike, what looks so is ours: nobody could tell."""
    path = tmp_path / "lock"
    path.touch()
    path.chmod(0o666)
    with pytest.raises(durable_files.ForeignFile), durable_files.open_locked(path):
        pass
    made = os.mkdir
    monkeypatch.setattr(os, "mkdir", lambda where, mode: (made(where, mode), os.chmod(where, 0o777)))
    with durable_files.open_locked(path):
        assert list_paths(tmp_path) == ["lock"]


# --- a collection -------------------------------------------------------------------------------------------------


def planted_work(out: Path, kind: str) -> None:
    """A directory for the work, with a key that somebody else knows."""
    out.mkdir(exist_ok=True)
    there = out.with_name("theirs") if kind == "link" else out / "work"
    there.mkdir()
    (there / "key").write_bytes(bytes(KEY_BYTES))
    give_away(there, kind)
    if kind == "link":
        (out / "work").symlink_to(there)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_job_makes_its_key_itself(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever drops a key in, while the values are looked at, would know every report's randomness."""
    request, _ = request_in(tmp_path, ledger=None)
    check = engine.EmbeddedEngine.check

    def slow_check(self: engine.EmbeddedEngine, *arguments: object) -> int:
        planted_work(request.out, kind)
        return check(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine.EmbeddedEngine, "check", slow_check)
    with pytest.raises(durable_files.ForeignFile, match=r"out/work .* choose another"):
        run_collection(request, create_engine("embedded"))
    theirs = tmp_path / "theirs" if kind == "link" else request.out / "work"
    assert list_paths(theirs) == ["key"]
    assert not (request.out / "messages").exists()


def begun(request: CollectionRequest, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A collection that was killed before it encoded anything; its key."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(engine.EmbeddedEngine, "encode", stop)
        with pytest.raises(KeyboardInterrupt):
            run_collection(request, create_engine("embedded"))
    return (request.out / "work" / "key").read_bytes()


@pytest.mark.parametrize("name", ["", "key", "job.json"])
@pytest.mark.parametrize("kind", KINDS)
def test_work_that_others_could_change_is_not_gone_on_with(
    tmp_path: Path, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory, its key, and what it says of the collection; what nobody touched goes on."""
    request, _ = request_in(tmp_path, ledger=None)
    begun(request, monkeypatch)
    again, path = dataclasses.replace(request, resume=True), request.out / "work" / name
    before = path.stat().st_mode
    if kind == "link":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    else:
        give_away(path, kind)
    with pytest.raises(durable_files.ForeignFile, match=r"work.*belongs to somebody else, or is a link, or"):
        run_collection(again, create_engine("embedded"))
    assert not (request.out / "messages").exists()
    if kind == "link":
        path.unlink()
        (tmp_path / "moved").rename(path)
    os.chown(path, os.geteuid(), -1)
    path.chmod(before)
    run_collection(again, create_engine("embedded"))
    assert (request.out / "report.json").exists()
