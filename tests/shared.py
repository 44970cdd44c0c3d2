"""Results that several tests look at: computed once in a run, by whichever of its processes needs them first."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Result = TypeVar("Result")


def folder_of(factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of a run, removed with its other temporary files."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def once(path: Path, compute: Callable[[], Result]) -> Result:
    """What ``compute`` gives, kept in a file; processes that need it meanwhile wait. Failures are not kept."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            # Its own name only when it is complete: a process may be killed while it writes.
            part = path.with_suffix(".part")
            part.write_bytes(pickle.dumps(compute()))
            part.rename(path)
        found: Result = pickle.loads(path.read_bytes())
    return found
