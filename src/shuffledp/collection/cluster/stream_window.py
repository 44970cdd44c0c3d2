"""Windows of a stream: each is a collection of its own, with its own minimum of users, when it is over."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.collection.cluster.file_system import FileSystem, is_address
from shuffledp.collection.cluster.frame_collection import collect
from shuffledp.collection.cluster.row_identity import quoted
from shuffledp.collection.engine.spark_session import in_a_sentence
from shuffledp.collection.guarantee import Guarantee, TooWeak
from shuffledp.collection.job import REPORT
from shuffledp.errors import NotApplicable
from shuffledp.planner.plan_file import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW = "shuffledp_window"
BATCH = "batch"
TOO_FEW = "too-few"
PREFIX = "window-"


@dataclass
class Windows:
    """What to do with each batch of a stream: ``df.writeStream.foreachBatch(Windows(…)).start()``.

    Rows wait in the directory ``room``, the address of one that only the collecting party can read, until their window
    of ``seconds`` by the column ``time`` is over: when a row comes that is ``late`` seconds younger than its end. Then
    they are collected into ``out/window-START`` (seconds since 1970) and removed. A window of fewer users than the
    plan's target needs releases nothing, and says so by the file ``too-few``. Every other window is a round of the
    plan: the next one that is free in the ledger, or without one the next after the windows in ``out``; after the last
    the stream stops. Rows that come later are left out. A batch that Spark repeats changes nothing. ``column``,
    ``ledger`` and ``out``, a path or an address, as for ``collect``.
    """

    plan: Plan | str | os.PathLike[str]
    column: str | Sequence[str]
    time: str
    seconds: int
    room: str
    out: str | os.PathLike[str]
    late: int = 0
    ledger: str | os.PathLike[str] | None = None
    newest: int = field(default=0, init=False)
    """The youngest time that was seen."""

    def __post_init__(self) -> None:
        if not is_address(self.room):
            raise ValueError(f"windows: room must be an address such as hdfs://host/rows, got {self.room!r}.")
        if self.seconds < 1 or self.late < 0:
            raise ValueError("windows: seconds must be at least 1, and late at least 0.")

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Keep the rows of a batch, and collect the windows that are over."""
        from pyspark.sql import functions as F

        files = FileSystem(batch.sparkSession)
        when = F.unix_timestamp(F.col(quoted(self.time)))
        kept = batch.withColumn(WINDOW, F.floor(when / F.lit(self.seconds)) * F.lit(self.seconds))
        with in_a_sentence("keeping the batch"):
            times: Any = batch.select(F.max(when), F.count_if(when.isNull())).first()
            if times[1]:
                raise ValueError(f"windows: expected a time in every row, got {times[1]:,} rows without one.")
            kept.write.mode("overwrite").partitionBy(WINDOW).parquet(f"{self.room}/{BATCH}={number}")
        self.newest = max(self.newest, int(times[0] or 0))
        for start in self._waiting(files):
            if start + self.seconds + self.late <= self.newest:
                self._release(files, batch, start)

    def _waiting(self, files: FileSystem) -> list[int]:
        """The windows that rows wait for."""
        inside = (name for batch in files.names(self.room) for name in files.names(f"{self.room}/{batch}"))
        return sorted({int(name.partition("=")[2]) for name in inside if name.startswith(f"{WINDOW}=")})

    def _release(self, files: FileSystem, batch: DataFrame, start: int) -> None:
        """A collection of one window; once."""
        places = [f"{self.room}/{name}/{WINDOW}={start}" for name in files.names(self.room)]
        places = [place for place in places if files.exists(place)]
        out = f"{str(self.out).rstrip('/')}/{PREFIX}{start}"
        if {REPORT, TOO_FEW}.isdisjoint(_names(files, out)):
            frame = batch.sparkSession.read.parquet(*places)
            try:
                collect(
                    frame, self.plan, self.column, out=out, ledger=self.ledger, resume=True,
                    round_number=self._round(files, frame, start),
                )  # fmt: skip
            except (TooWeak, NotApplicable):
                _say_too_few(files, out)
        for place in places:
            files.remove(place)

    def _round(self, files: FileSystem, frame: DataFrame, start: int) -> int | None:
        """The round of a window; None where the ledger knows it."""
        if self.ledger is not None:
            return None
        place, plan = str(self.out).rstrip("/"), Plan.of(self.plan)
        others = [name for name in _names(files, place) if name.startswith(PREFIX) and name != f"{PREFIX}{start}"]
        released = sum(REPORT in _names(files, f"{place}/{name}") for name in others)
        if released >= plan.rounds:
            # Too few need no round.
            Guarantee(plan, frame.count()).demand(allow_weaker=False)
            raise ValueError(
                f"windows: the plan has {plan.rounds} rounds, and {released} windows in {place} were released; plan as "
                f"many rounds as there are to be windows."
            )
        return released + 1


def _names(files: FileSystem, directory: str) -> list[str]:
    """What is in a directory of the driver, or at an address."""
    if is_address(directory):
        return files.names(directory)
    return sorted(path.name for path in Path(directory).glob("*"))


def _say_too_few(files: FileSystem, directory: str) -> None:
    if not is_address(directory):
        Path(directory).mkdir(parents=True, exist_ok=True)
        Path(directory, TOO_FEW).touch()
        return
    with tempfile.TemporaryDirectory() as room:
        Path(room, TOO_FEW).touch()
        files.put(Path(room, TOO_FEW), f"{directory}/{TOO_FEW}")
