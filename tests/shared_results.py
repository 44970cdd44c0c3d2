"""Results that several tests look at: computed once in a run, by whichever of its processes needs them first."""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

Result = TypeVar("Result")


def processor_seconds() -> float:
    """Return the user and system time of this process and of the children it waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class SharedWork:
    """The processor time that this process has spent on what several tests share."""

    def __init__(self) -> None:
        self.fixtures, self.cached_seconds, self._depth = 0.0, 0.0, 0

    @contextmanager
    def measure(self, *, fixture: bool = False) -> Iterator[None]:
        """Add the time of a block to that of fixtures or of kept results; a block within another is a part of it."""
        self._depth += 1
        begun = processor_seconds()
        try:
            yield
        finally:
            self._depth -= 1
            taken = 0.0 if self._depth else processor_seconds() - begun
            if fixture:
                self.fixtures += taken
            else:
                self.cached_seconds += taken


WORK = SharedWork()


def shared_folder_path(factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of a run, removed with its other temporary files."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def compute_once(path: Path, compute: Callable[[], Result]) -> Result:
    """What ``compute`` gives, kept in a file; processes that need it meanwhile wait. Failures are not kept."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            # Its own name only when it is complete: a process may be killed while it writes.
            part = path.with_suffix(".part")
            with WORK.measure():
                part.write_bytes(pickle.dumps(compute()))
            part.rename(path)
        found: Result = pickle.loads(path.read_bytes())
    return found
