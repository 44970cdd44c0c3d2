"""Each test of a command has a ledger of its own, or none."""

from __future__ import annotations

import pytest

from shuffledp.ledger.ledger import Ledger


@pytest.fixture(autouse=True)
def own_ledger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none yet, wherever the user keeps one."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


@pytest.fixture
def ledger(own_ledger: None) -> Ledger:
    """The user's own, which knows the people of the tests."""
    found = Ledger.create(Ledger.default_path())
    found.register("test")
    return found
