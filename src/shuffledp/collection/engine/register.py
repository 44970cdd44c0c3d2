"""The engines by name."""

from __future__ import annotations

from shuffledp.collection.engine.embedded import Embedded
from shuffledp.collection.engine.engine import Engine
from shuffledp.progress import Progress

NAMES = ("embedded", "spark")


def engine_of(name: str, progress: Progress | None = None, master: str | None = None) -> Engine:
    """The engine of this name, ready to run."""
    shown = Progress() if progress is None else progress
    if name == "spark":
        from shuffledp.collection.engine.spark import Spark

        return Spark(shown, master)
    if name != "embedded":
        raise ValueError(f"collect: engine must be one of {', '.join(NAMES)}, got {name!r}.")
    if master is not None:
        raise ValueError("collect: --master goes with --engine spark only.")
    return Embedded(shown)
