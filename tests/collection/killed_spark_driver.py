"""A driver of Spark that is killed (SIGKILL, with its Java) before a step: ``python -m`` with a directory and the step.

The directory holds a plan, data and a ledger; the collection goes to an address beside them.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shuffledp._core import plotting
from shuffledp.collection.report import Report
from shuffledp.spark.cluster_files import FileSystem
from shuffledp.spark.collection import collect
from shuffledp.spark.engine import Spark

Step = tuple[type, str, Callable[..., bool]]

STEPS: dict[str, Step] = {
    "messages get their name": (FileSystem, "rename", lambda _, source, target: target.endswith("/messages")),
    "the report gets its place": (FileSystem, "upload", lambda _, local, address: address.endswith("/report.json")),
}
"""Before which call of which method, in the order in which a collection comes to them."""


def kill_before_step(step: str) -> None:
    """From now on this process dies before the step."""
    kind, name, is_it = STEPS[step]
    original = getattr(kind, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if is_it(*arguments, **named):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    setattr(kind, name, call)


def run_collection(room: Path, engine: Spark) -> Report:
    """The collection, from its beginning or from wherever it stands."""
    frame = engine.session.read.parquet(f"file:{room}/data.parquet")
    return collect(
        frame, room / "plan.json", "value", out=f"file:{room}/out", state=room / "state", engine=engine,
        ledger=room / "ledger.sqlite", resume=True,
    )  # fmt: skip


def main(room: Path, step: str) -> None:
    """Dies before it ends."""
    warnings.simplefilter("ignore", FutureWarning)
    plotting.has_matplotlib = lambda: False
    kill_before_step(step)
    run_collection(room, Spark(master="local[1]"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
