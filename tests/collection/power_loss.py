"""Power loss, replayed: every write, fsync and change of a name of a real run, and what a disk may hold after each.

``strace`` records a process. A model of a disk repeats the record step by step. After a power loss a file holds what
was last synced, or all that was written; a directory holds the names that were last synced, or all changes of them:
each of the four combinations after each step is a state that a run must be able to go on from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CALLS = (
    "openat,creat,open,write,pwrite64,writev,lseek,ftruncate,truncate,fsync,fdatasync,rename,renameat,renameat2,"
    "link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,close"
)
MAX_STRING_BYTES = 1 << 24
LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
UNFINISHED = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
DESCRIPTOR = re.compile(r"^(-?\d+|AT_FDCWD)<([^>]*)>")


@dataclass
class Node:
    """A file's bytes or a directory's names, as the process sees them and as they are on disk."""

    is_directory: bool
    content: bytearray = field(default_factory=bytearray)
    names: dict[str, Node] = field(default_factory=dict)
    synced_content: bytes = b""
    synced_names: dict[str, Node] = field(default_factory=dict)

    def sync(self) -> None:
        self.synced_content, self.synced_names = bytes(self.content), dict(self.names)


State = tuple[tuple[str, bytes | None], ...]
"""Every path below the root with its content; None of a directory."""


class Disk:
    """What lies below one directory."""

    def __init__(self, root: Path) -> None:
        self.root, self.top = root, Node(True)
        self.open: dict[tuple[str, int], tuple[Node, int]] = {}

    # --- the record -------------------------------------------------------------------------------------------

    def apply(self, pid: str, call: str, given: str, result: int) -> bool:
        """Repeat one call; whether it could change what a power loss leaves."""
        if result < 0:
            return False
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in TEXT.findall(given)]
        if call in ("openat", "open", "creat"):
            return self._open(pid, call, given, texts[0].decode(), result)
        if call in ("write", "pwrite64", "writev", "lseek", "ftruncate", "fsync", "fdatasync", "close"):
            return self._descriptor(pid, call, given, texts, result)
        return self._names(call, given, [text.decode() for text in texts])

    def _open(self, pid: str, call: str, given: str, path: str, result: int) -> bool:
        where = self._is_inside(self._read_content(given, path))
        if where is None:
            self.open.pop((pid, result), None)
            return False
        changed = False
        node = self._find(where)
        if node is None:
            node = self._parent(where).names[where[-1]] = Node(False)
            changed = True
        if "O_TRUNC" in given or call == "creat":
            changed = changed or bool(node.content)
            node.content.clear()
        assert "O_APPEND" not in given, "the model knows no appending"
        self.open[pid, result] = (node, 0)
        return changed

    def _descriptor(self, pid: str, call: str, given: str, texts: list[bytes], result: int) -> bool:
        found = DESCRIPTOR.match(given)
        key = (pid, int(found[1])) if found is not None else None
        if key is None or key not in self.open:
            return False
        node, place = self.open[key]
        if call == "close":
            del self.open[key]
        elif call == "lseek":
            self.open[key] = (node, result)
        elif call == "ftruncate":
            size = int(given.rsplit(",", 1)[1])
            node.content[:] = node.content[:size].ljust(size, b"\0")
        elif call in ("fsync", "fdatasync"):
            node.sync()
        else:
            data = b"".join(texts)[:result]
            assert len(data) == result, f"{call}: {result} bytes written, {len(data)} recorded"
            if call == "pwrite64":
                place = int(given.rsplit(",", 1)[1])
            else:
                self.open[key] = (node, place + result)
            node.content[:] = node.content.ljust(place, b"\0")
            node.content[place : place + result] = data
        return call not in ("close", "lseek")

    def _names(self, call: str, given: str, paths: list[str]) -> bool:
        whole = [self._is_inside(self._read_content(given, path)) for path in paths]
        if None in whole:
            assert not any(whole), f"{call} across the root"
            return False
        inside = [path for path in whole if path is not None]
        if call in ("mkdir", "mkdirat"):
            self._parent(inside[0]).names[inside[0][-1]] = Node(True)
        elif call in ("unlink", "unlinkat", "rmdir"):
            del self._parent(inside[0]).names[inside[0][-1]]
        else:
            old, new = inside
            node = self._find(old)
            assert node is not None
            self._parent(new).names[new[-1]] = node
            if call.startswith("rename"):
                del self._parent(old).names[old[-1]]
        return True

    def _read_content(self, given: str, path: str) -> str:
        base = DESCRIPTOR.match(given)
        if path.startswith("/") or base is None:
            return path
        return os.path.join(bytes.fromhex(base[2].replace("\\x", "")).decode(), path)

    def _is_inside(self, path: str) -> tuple[str, ...] | None:
        try:
            return Path(path).relative_to(self.root).parts or None
        except ValueError:
            return None

    def _parent(self, where: tuple[str, ...]) -> Node:
        parent = self._find(where[:-1])
        assert parent is not None, where
        return parent

    def _find(self, where: tuple[str, ...]) -> Node | None:
        node: Node | None = self.top
        for name in where:
            node = None if node is None else node.names.get(name)
        return node

    # --- what is left -----------------------------------------------------------------------------------------

    def states(self) -> Iterator[State]:
        """What may be left if the power goes now."""
        for names_late in (True, False):
            for contents_late in (True, False):
                yield tuple(sorted(self._listed(self.top, "", names_late, contents_late)))

    def _listed(
        self, node: Node, path: str, names_late: bool, contents_late: bool
    ) -> Iterator[tuple[str, bytes | None]]:
        for name, below in (node.synced_names if names_late else node.names).items():
            where = f"{path}/{name}"
            if below.is_directory:
                yield where, None
                yield from self._listed(below, where, names_late, contents_late)
            else:
                yield where, below.synced_content if contents_late else bytes(below.content)


def record_calls(script: str, arguments: Sequence[str], log: Path) -> None:
    """Run a Python script under ``strace``."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is missing: install it (Debian: apt install strace) to replay power losses."
    command = [strace, "-f", "-q", "-y", "-xx", "--seccomp-bpf", "-s", str(MAX_STRING_BYTES), "-e", f"trace={CALLS}"]
    subprocess.run([*command, "-o", str(log), sys.executable, "-c", script, *arguments], check=True)


def read_lines(log: Path) -> Iterator[str]:
    """The record's lines, those of calls that others came between put together."""
    begun: dict[str, str] = {}
    with open(log, encoding="ascii", errors="replace") as file:
        for line in file:
            if (found := UNFINISHED.match(line.rstrip("\n"))) is not None:
                begun[found[1]] = f"{found[1]} {found[2]}"
            elif (found := RESUMED.match(line.rstrip("\n"))) is not None:
                yield begun.pop(found[1]) + found[2]
            else:
                yield line


def states_after_every_step(log: Path, root: Path) -> Iterator[State]:
    """Each different state that a power loss at some moment may leave below the root, in order."""
    disk, seen = Disk(root), set[State]()
    shared = re.compile(re.escape("".join(f"\\x{byte:02x}" for byte in os.fsencode(root))))
    for line in read_lines(log):
        found = LINE.match(line)
        if found is None or shared.search(line) is None:
            continue
        if disk.apply("", found[2], found[3], int(found[4])):
            for state in disk.states():
                if state not in seen:
                    seen.add(state)
                    yield state


def restore(state: State, root: Path) -> None:
    """Make the directory what the state says; files for their owner only, as they were."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o700)
    for path, content in state:
        where = root / path.lstrip("/")
        if content is None:
            where.mkdir(mode=0o700)
        else:
            where.write_bytes(content)
            where.chmod(0o600)
