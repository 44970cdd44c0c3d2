"""The stores that a shuffler may have: a file, and a database that several servers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.postgres import Postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.database)])
def database(request: pytest.FixtureRequest) -> str | None:
    """None is the file; else the address of a new database."""
    if request.param == "sqlite":
        return None
    server: Postgres = request.getfixturevalue("database_server")
    return server.new_database()
