"""Sessions in a database: what is special about it. The suite of all stores: test_shared_sessions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import structlog
from sqlalchemy import func, select

from ext_proc.answers import Clocks
from ext_proc.stores.database_sessions import DatabaseSessions
from ext_proc.stores.engines import engines_for
from ext_proc.stores.neighbour import Away
from ext_proc.stores.session_table import SESSIONS
from tests.contract.ext_proc.stores.conftest import KEY, OTHER


class Time:
    """A time of day that can be moved."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> Clocks:
        """Return both clocks, now."""
        return Clocks(time.time() + self.ahead, time.monotonic())


async def test_what_has_expired_is_swept(database_url: str) -> None:
    """And nothing else."""
    now = Time()
    engines = engines_for(database_url)
    store = DatabaseSessions(engines, now, structlog.get_logger())
    await store.open()
    await store.renew(KEY, [(1, b"x")], ttl_ms=1_000, keep=4, draw=False)
    await store.renew(OTHER, [(1, b"x")], ttl_ms=100_000, keep=4, draw=False)
    now.ahead = 2.0
    assert await store.sweep() == 1
    async with engines.reading.connect() as connection:
        assert await connection.scalar(select(func.count()).select_from(SESSIONS)) == 1
    await store.close()


async def test_sessions_outlive_the_process(database_url: str) -> None:
    """Another one finds them."""
    for expected in ((), ((1, b"x"),)):
        store = DatabaseSessions(engines_for(database_url), Time(), structlog.get_logger())
        await store.open()
        assert (await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=True)).records == expected
        await store.renew(KEY, [(1, b"x")], ttl_ms=10_000, keep=4, draw=False)
        await store.close()


async def test_a_table_that_somebody_removed_is_made_again(database_url: str) -> None:
    """The call that finds it missing fails, and no later one."""
    engines = engines_for(database_url)
    store = DatabaseSessions(engines, Time(), structlog.get_logger())
    await store.open()
    async with engines.writing.begin() as connection:
        await connection.run_sync(SESSIONS.drop)
    with pytest.raises(Away):
        await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=True)
    await store._ping()
    store._neighbour._breaker.succeeded()
    assert (await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=True)).number
    await store.close()


async def test_a_database_that_cannot_be_used_is_away(tmp_path: Path) -> None:
    """At once, from the second call on."""
    (tmp_path / "file").write_text("")
    store = DatabaseSessions(engines_for(f"sqlite:///{tmp_path}/file/x.db"), Time(), structlog.get_logger())
    await store.open()
    for _ in range(2):
        with pytest.raises(Away):
            await store.renew(KEY, (), ttl_ms=10_000, keep=4, draw=True)
    await store.close()
