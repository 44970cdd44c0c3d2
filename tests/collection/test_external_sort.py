"""The sort for more messages than memory holds, against Python's own, with very little memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from shuffledp._core.validation import Bytes
from shuffledp.storage import sorting


def messages(kind: str, rows: int, width: int, seed: int) -> Bytes:
    """Uniform, few different, one very frequent, ending in zeros, already in order, or in the opposite order."""
    generator = np.random.default_rng(seed)
    wire = generator.integers(0, 256, (rows, width), dtype=np.uint8)
    if kind == "few":
        wire = wire[generator.integers(0, 3, rows)]
    elif kind == "frequent":
        wire[generator.random(rows) < 0.9] = wire[0]
    elif kind == "zeros":
        wire[:, width // 2 :] = 0
        wire[generator.random(rows) < 0.3] = 0
    elif kind in ("sorted", "reversed"):
        ordered = sorted(map(bytes, wire), reverse=kind == "reversed")
        wire = np.frombuffer(b"".join(ordered), dtype=np.uint8).reshape(rows, width)
    return wire


@pytest.mark.parametrize("kind", ["uniform", "few", "frequent", "zeros", "sorted", "reversed"])
@pytest.mark.parametrize("width", [1, 3, 8, 17])
def test_the_order_is_that_of_the_bytes(kind: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs and ranges, in batches of any size; no batch is larger than asked for."""
    monkeypatch.setattr(sorting, "RUN_BYTES", 2000)
    monkeypatch.setattr(sorting, "MERGE_BYTES", 700)
    monkeypatch.setattr(sorting, "SAMPLES_PER_RUN", 16)
    wire = messages(kind, 1500, width, seed=width)
    batches = [wire[start : start + 211] for start in range(0, len(wire), 211)]
    found = list(sorting.sort_on_disk(batches, width, tmp_path, rows=100))
    assert max(map(len, found)) <= 100
    assert [bytes(row) for part in found for row in part] == sorted(bytes(row) for row in wire)


@pytest.mark.parametrize("kind", ["uniform", "frequent", "few"])
def test_ranges_stay_small_whatever_is_frequent(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read to be merged at a time is bounded, even where nine messages in ten are the same."""
    monkeypatch.setattr(sorting, "RUN_BYTES", 40_000)
    monkeypatch.setattr(sorting, "MERGE_BYTES", 4000)
    read: list[int] = []
    original = np.fromfile

    def watched(file: Any, **named: Any) -> Any:
        read.append(4 * named["count"])
        return original(file, **named)

    monkeypatch.setattr(sorting.np, "fromfile", watched)
    wire = messages(kind, 100_000, 4, seed=3)
    found = list(sorting.sort_on_disk([wire], 4, tmp_path, rows=1000))
    assert sum(map(len, found)) == 100_000
    of_each_range = np.array(read).reshape(-1, 10).sum(axis=1)
    assert of_each_range.max() <= 2 * sorting.MERGE_BYTES


def test_nothing_is_sorted_to_nothing(tmp_path: Path) -> None:
    """No messages, no files."""
    assert list(sorting.sort_on_disk([], 3, tmp_path, rows=10)) == []
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.binary(min_size=2, max_size=2), max_size=60), run=st.integers(1, 40), span=st.integers(1, 40))
def test_any_messages(
    rows: list[bytes], run: int, span: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they are, and however little fits."""
    monkeypatch.setattr(sorting, "RUN_BYTES", 2 * run)
    monkeypatch.setattr(sorting, "MERGE_BYTES", span)
    wire = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), 2)
    found = sorting.sort_on_disk([wire], 2, tmp_path_factory.mktemp("room"), rows=7)
    assert [bytes(row) for part in found for row in part] == sorted(rows)
