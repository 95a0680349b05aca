"""Answers in Redis: shared by all processors and sidecars, and there after a restart.

Each call names one key and is one round trip, so that a cluster may keep them. What a purge has voided is
found to be void when it is read (`ext_proc.tiers`), and goes with its time to live.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks
from ext_proc.stores.entry_store import Entry, EntryStore
from ext_proc.stores.neighbour import CONNECT_WITHIN_S

PREFIX: Final = "outrigger:cache:"
# What a hit may cost at most; a call to a model takes hundreds of times as long.
READ_WITHIN_S: Final = 0.02
WRITE_WITHIN_S: Final = 1.0
# Each has a connection while it is at it; more would only make each other late in one thread.
READERS: Final = 8
WRITERS: Final = 4


class RedisStore(EntryStore):
    """Keeps answers in Redis. For one event loop.

    Args:
        client: made by `connect`.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
    """

    def __init__(self, client: Redis, clocks: Callable[[], Clocks], log: FilteringBoundLogger) -> None:
        super().__init__(
            "Redis",
            clocks,
            log,
            read_within_s=READ_WITHIN_S,
            write_within_s=WRITE_WITHIN_S,
            reads_at_once=READERS,
            writers=WRITERS,
            batch=1,
        )
        self._client = client

    async def _ping(self) -> None:
        await self._client.ping()

    async def _fetch(self, key: bytes) -> object:
        try:
            return await self._client.get(_name(key))
        except ResponseError as error:
            # Somebody put a list or a set under our name: that is no answer, and says nothing of Redis.
            if str(error).startswith("WRONGTYPE"):
                return None
            raise

    async def _keep(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            left_ms = max(int((entry.expires_at - self._clocks().wall) * 1000), 1)
            # Value and time to live in one step: no entry is ever without one.
            await self._client.set(_name(entry.key), entry.data, px=left_ms)

    async def _disconnect(self) -> None:
        with contextlib.suppress(RedisError, OSError):
            await self._client.aclose()


def connect(url: str) -> Redis:
    """Return a client of the server at `url` (`redis://`, `rediss://` or `unix://`); it connects when used.

    Raises:
        ValueError: no such URL; the message does not quote it, it may hold a password.
    """
    try:
        client: Redis = Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_WITHIN_S,
            socket_timeout=WRITE_WITHIN_S,
            socket_keepalive=True,
            max_connections=64,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        raise ValueError(
            "the URL of Redis cannot be read; it is redis://[USER:PASSWORD@]HOST:PORT/0, and / or # in a"
            " password are written %2F and %23"
        ) from None
    return client


def _name(key: bytes) -> str:
    return f"{PREFIX}{key.hex()}"
