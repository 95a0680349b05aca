"""Fleets that run on the test's own loop."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime

import pytest
import structlog

from control_plane.push.fleet import Fleet
from tests.unit.control_plane.push.scenes import policy


@pytest.fixture
async def halted() -> list[tuple[int, str]]:
    """Return the list of revisions that are halted."""
    return []


@pytest.fixture
async def fleet(halted: list[tuple[int, str]]) -> Fleet:
    """Return a fleet with revision 1 in force."""
    found = Fleet(
        clock=time.monotonic,
        now=lambda: datetime.now(UTC),
        later=asyncio.get_running_loop().call_later,
        on_halt=lambda revision, reason: halted.append((revision, reason)),
        mark=os.urandom(8),
        log=structlog.get_logger(),
    )
    found.publish(policy(1, "1"))
    return found
