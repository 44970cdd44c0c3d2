"""No test touches the files of who runs it: the ledger's and what is remembered of ledgers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For the whole run, as processes that a test starts may outlive it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SHUFFLEDP_LEDGER", raising=False)
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield
