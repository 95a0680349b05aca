"""A running API, and clients of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.contract.control_plane.api.served import Served, serve


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database that was opened once: bringing one to its form takes a while."""
    folder = tmp_path_factory.mktemp("empty")

    async def make() -> None:
        async with serve(folder):
            pass

    asyncio.run(make())
    return folder


@pytest.fixture
async def served(empty_database: Path, tmp_path: Path) -> AsyncIterator[Served]:
    """Return a running API over an empty database."""
    shutil.copytree(empty_database, tmp_path / "data")
    async with serve(tmp_path / "data") as found:
        yield found


@pytest.fixture
async def admin(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that may do everything."""
    async with served.client() as found:
        yield found
