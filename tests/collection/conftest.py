"""One Spark session for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shuffledp.collection.engine.engine import Engine
from shuffledp.collection.engine.register import engine_of
from shuffledp.collection.engine.spark_engine import Spark
from shuffledp.progress import Progress

MASTER = "local[2,3]"
"""Two cores, and a task that fails is tried again."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """A running session; where Java is missing this fails with the sentence that users get."""
    engine = Spark(Progress(), MASTER)
    _ = engine.session
    yield engine
    engine.close()


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    if request.param == "spark":
        running: Engine = request.getfixturevalue("spark")
        return running
    return engine_of("embedded")
