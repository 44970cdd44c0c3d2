"""No test touches the files of who runs it; all tests of a run have one folder for what is computed once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import shared_results

if TYPE_CHECKING:
    from tests.service.postgres import Postgres

pytest_plugins = ["pytester", "tests.tiers"]


def pytest_collection_finish() -> None:
    """Modules and thousands of tests stay to the end: nobody looks for garbage among them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For the whole run, as processes that a test starts may outlive it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SHUFFLEDP_LEDGER", raising=False)
        # How long anything takes here tells nothing of the product.
        patch.setenv("SHUFFLEDP_PROGRESS", "none")
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        # Spark's process lives for seconds: what it would save by compiling thoroughly costs more than it saves.
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        # What was written is there for all who read it; only a power loss could tell: tests/collection/power_loss.py
        # replays those of processes that do wait for their disk.
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def database_server() -> Iterator[Postgres]:
    """One for all tests of a process."""
    from tests.service.postgres import run_postgres

    with run_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where processes of one run leave what they computed for each other."""
    return shared_results.shared_folder_path(tmp_path_factory)


@pytest.fixture(scope="module")
def each_curve_once() -> Iterator[None]:
    """For modules whose tests ask the same few curves again and again."""
    from tests.cached_curves import cache_curves

    with cache_curves():
        yield


@pytest.fixture
def few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worst crowds by a few pieces of each simplex instead of 160: an upper bound as well, and soon found.

    For comparisons with brute force over a few users: where a bound is nearest to the truth, by 2%, finer pieces give
    the same number.
    """
    from shuffledp.numerics import worst_case_positive_part

    monkeypatch.setattr(worst_case_positive_part, "MAX_PIECES", 3)


@pytest.fixture(scope="module")
def no_pictures() -> Iterator[None]:
    """For modules whose collections nobody looks at: what is drawn is tested by tests/collection/test_plot.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shuffledp._core.plotting.has_matplotlib", lambda: False)
        yield
