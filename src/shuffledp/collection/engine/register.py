"""The engines by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shuffledp.collection.engine.embedded import Embedded
from shuffledp.collection.engine.engine import Engine
from shuffledp.progress import Progress

NAMES = ("embedded", "spark")


def engine_of(name: str, progress: Progress | None = None, master: str | None = None) -> Engine:
    """The engine of this name, ready to run; Spark in the session that this process already has, if any."""
    shown = Progress() if progress is None else progress
    if name == "spark":
        from shuffledp.collection.engine.spark_engine import Spark

        return Spark(shown, master)
    if name != "embedded":
        raise ValueError(f"collect: engine must be one of {', '.join(NAMES)}, got {name!r}.")
    if master is not None:
        raise ValueError("collect: --master goes with --engine spark only.")
    return Embedded(shown)


@contextmanager
def running(engine: str | Engine, progress: Progress | None = None, master: str | None = None) -> Iterator[Engine]:
    """The engine of a name, closed at the end; one that is already running is left as it is."""
    if isinstance(engine, Engine):
        yield engine
        return
    started = engine_of(engine, progress, master)
    try:
        yield started
    finally:
        started.close()
