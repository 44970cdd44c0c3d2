"""The contract suite passes the embedded engine and fails engines that break one promise each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shuffledp._core.results_and_value_objects import Progress
from shuffledp.collection import message_files
from shuffledp.collection.batch_processing import AccumulatedStatistic
from shuffledp.collection.engine import EmbeddedEngine, create_engine
from shuffledp.collection.message_files import BatchSpec
from shuffledp.mechanisms.base.estimator import Estimator
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.testing import ConformanceError, check_engine
from shuffledp.testing.engines import ENGINE_CHECKS


class Reads(EmbeddedEngine):
    """The embedded engine, made without arguments."""

    def __init__(self) -> None:
        super().__init__(Progress())


class KeepsTheOrder(Reads):
    """Copies messages instead of shuffling them."""

    def shuffle(self, encoded: Path, spec: BatchSpec, directory: Path) -> None:
        directory.mkdir()
        with message_files.MessageWriter(directory, spec.width) as writer:
            for wire in message_files.read_messages(message_files.list_message_files(encoded), spec.width):
                writer.write(wire)


class LosesARow(Reads):
    """Drops the last message."""

    def shuffle(self, encoded: Path, spec: BatchSpec, directory: Path) -> None:
        width = spec.width
        wire = np.concatenate(list(message_files.read_messages(message_files.list_message_files(encoded), width)))
        rows = sorted(row.tobytes() for row in wire)[:-1]
        directory.mkdir()
        with message_files.MessageWriter(directory, width) as writer:
            writer.write(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width))


class OtherKey(Reads):
    """Draws a key of its own each time."""

    keys = iter(range(1, 200))

    def encode(self, table: Any, column: Any, key: bytes, spec: BatchSpec, directory: Path) -> None:
        super().encode(table, column, bytes([next(self.keys)]) * 32, spec, directory)


class Miscounts(Reads):
    """Adds up half of the statistic."""

    def aggregate(
        self, mechanism: Mechanism, shuffled: Path, messages: int, reading: Estimator | None = None
    ) -> AccumulatedStatistic:
        total = super().aggregate(mechanism, shuffled, messages, reading)
        return replace(total, statistic=total.statistic // 2)


class TakesAll(Reads):
    """Checks nothing."""

    def check(self, table: Any, column: Any) -> int:
        return sum(len(batch) for batch in table.batches(column, 1000))


def test_the_embedded_engine_passes() -> None:
    """Made by a function."""
    checked = check_engine(lambda: create_engine("embedded"))
    assert checked.passed
    assert str(checked) == f"EmbeddedEngine passes all {len(ENGINE_CHECKS)} checks."


@pytest.mark.parametrize(
    ("kind", "failing", "words"),
    [
        (
            KeepsTheOrder,
            {
                "messages are those of the key",
                "the order tells nothing",
                "a killed shuffle is done again",
            },
            "messages of 1 bytes in 1 files do not come out in order of their bytes",
        ),
        (
            LosesARow,
            {"messages are those of the key", "the order tells nothing", "a killed shuffle is done again"},
            "krr: the shuffled messages are other ones than were encoded",
        ),
        (OtherKey, {"messages are those of the key", "a retry repeats"}, "send other messages"),
        (Miscounts, {"the statistic adds up"}, "krr: the statistic is not that of all messages"),
        (TakesAll, {"a bad value is refused"}, "krr: check() took a value outside the domain"),
    ],
)
def test_a_broken_engine_fails_for_the_right_reason(kind: Any, failing: set[str], words: str, tmp_path: Path) -> None:
    """All failures are listed, no other ones."""
    with pytest.raises(ConformanceError) as caught:
        check_engine(kind, directory=tmp_path)
    assert {failure.check for failure in caught.value.checked.failures} == failing
    assert words in " ".join(str(caught.value).split())
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"^check_engine: expected a function that gives an Engine, got one that gives 3\.$"
    ):
        check_engine(lambda: 3)  # type: ignore[arg-type,return-value]


def test_the_engine_is_closed() -> None:
    """Whatever the outcome."""
    closed = []

    class Closes(Reads):
        def close(self) -> None:
            closed.append(True)

    check_engine(Closes)
    assert closed == [True]
