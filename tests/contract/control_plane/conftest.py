"""Stores for tests: a SQLite file, and a database of its own on one real PostgreSQL for the whole run."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from control_plane.store.opening import store_for
from control_plane.store.sql_store import SqlStore
from tests.harness.postgres import PostgresMissingError, PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server. Not installed, it is a skip here and a failure in CI."""
    try:
        with postgres_server(install=bool(os.environ.get("CI"))) as server:
            yield server
    except PostgresMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'outrigger.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
async def store(database: str, tmp_path: Path) -> AsyncIterator[SqlStore]:
    """An open store over `database`."""
    store = store_for(database, tmp_path)
    await store.open()
    yield store
    await store.close()
