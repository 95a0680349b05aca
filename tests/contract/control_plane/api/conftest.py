"""A running API, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.contract.control_plane.api.served import Served, serve


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """Return a running API over an empty database."""
    async with serve(tmp_path) as found:
        yield found


@pytest.fixture
async def admin(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that may do everything."""
    async with served.client() as found:
        yield found
