"""A running API, and clients of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.control_plane.api.served import Served, serve, serving


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


@pytest.fixture(scope="module")
def lasting(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a running API that tests of a file share: what they ask for changes nothing, or nothing more."""
    folder = tmp_path_factory.mktemp("lasting")
    shutil.copytree(empty_database, folder / "data")
    with serving(folder / "data", burst=10_000) as found:
        yield found


@pytest.fixture
async def visitor(lasting: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the API that tests share; it may do everything."""
    async with lasting.client() as found:
        yield found
