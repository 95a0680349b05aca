"""Answers in Redis: shared by all processors and sidecars, and there after a restart.

Redis is a help, never a need: a read that takes longer than a few milliseconds is given up, and one that is
down or frozen is left alone until it is back. Writes happen behind the answer, and are dropped in a jam.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.stores.breaker import Breaker
from ext_proc.stores.entries import MAX_BODY_BYTES, decode_entry, encode_entry

PREFIX: Final = "outrigger:cache:"
# What a hit may cost at most; a call to a model takes hundreds of times as long.
READ_WITHIN_S: Final = 0.02
# A busy moment of this process makes reads late, too; so many in a row are Redis's own.
LATE_IN_A_ROW: Final = 3
# What the first answer after a start, or a probe of one that was away, may cost.
CONNECT_WITHIN_S: Final = 0.25
WRITE_WITHIN_S: Final = 1.0
WAITING_WRITES: Final = 1_000
WAITING_BYTES: Final = 64 * 1024 * 1024
# Packing takes up to a tenth of a second a MiB, for which no other request should wait.
IN_A_THREAD_FROM_BYTES: Final = 64 * 1024
WRITERS: Final = 4


@dataclass(slots=True)
class RedisStats:
    """What the store has done since it was made."""

    hits: int = 0
    misses: int = 0
    failures: int = 0
    written: int = 0
    dropped: int = 0
    refused: int = 0


class RedisStore:
    """Keeps answers in Redis. For one event loop.

    Args:
        client: made by `connect`.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
    """

    def __init__(self, client: Redis, clocks: Callable[[], Clocks], log: FilteringBoundLogger) -> None:
        self._client = client
        self._clocks = clocks
        self._log = log
        self._breaker = Breaker()
        self._waiting: asyncio.Queue[tuple[bytes, StoredAnswer, Clocks]] = asyncio.Queue(WAITING_WRITES)
        self._waiting_bytes = 0
        self._late = 0
        self._writers: list[asyncio.Task[None]] = []
        self.stats = RedisStats()

    def start(self) -> None:
        """Begin to write in the background, on the running loop."""
        loop = asyncio.get_running_loop()
        self._writers = [loop.create_task(self._write_all(), name="redis writer") for _ in range(WRITERS)]

    async def close(self) -> None:
        """Write what waits, as far as a moment allows, and let the connections go."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_WITHIN_S):
                await self._waiting.join()
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)
        with contextlib.suppress(RedisError, OSError):
            await self._client.aclose()

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`; None when there is none or Redis does not say so in time."""
        clocks = self._clocks()
        was_open = self._breaker.is_open
        if not self._breaker.allows(clocks.own):
            return None
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S if was_open else READ_WITHIN_S):
                entry = await self._client.get(f"{PREFIX}{key.hex()}")
        except TimeoutError as error:
            self._late += 1
            if was_open or self._late >= LATE_IN_A_ROW:
                self._failed(error)
            return None
        except asyncio.CancelledError:
            # The caller has left, which says nothing of Redis.
            self._breaker.gave_up()
            raise
        except Exception as error:
            # Whatever the client makes of a broken server: a request never fails by it.
            self._failed(error)
            return None
        self._late = 0
        self._went_well()
        answer = await self._decoded(key, entry, clocks)
        if answer is None:
            self.stats.misses += 1
        else:
            self.stats.hits += 1
        return answer

    async def _decoded(self, key: bytes, entry: object, clocks: Clocks) -> StoredAnswer | None:
        if not isinstance(entry, bytes):
            return None
        if len(entry) < IN_A_THREAD_FROM_BYTES:
            return decode_entry(key, entry, clocks)
        return await asyncio.to_thread(decode_entry, key, entry, clocks)

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep `answer`, soon. One that is too large is not kept, nor one that comes while too many wait."""
        clocks = self._clocks()
        if answer.expires_at <= clocks.own or len(answer.body) > MAX_BODY_BYTES:
            self.stats.refused += 1
            return
        if self._breaker.is_open or self._waiting.full() or self._waiting_bytes > WAITING_BYTES:
            self.stats.dropped += 1
            return
        self._waiting_bytes += len(answer.body)
        self._waiting.put_nowait((key, answer, clocks))

    async def _write_all(self) -> None:
        while True:
            key, answer, clocks = await self._waiting.get()
            try:
                await self._write(key, answer, clocks)
                self.stats.written += 1
            except Exception as error:
                self.stats.dropped += 1
                self._failed(error)
            finally:
                self._waiting_bytes -= len(answer.body)
                self._waiting.task_done()

    async def _write(self, key: bytes, answer: StoredAnswer, clocks: Clocks) -> None:
        if len(answer.body) < IN_A_THREAD_FROM_BYTES:
            entry = encode_entry(key, answer, clocks)
        else:
            entry = await asyncio.to_thread(encode_entry, key, answer, clocks)
        left_ms = max(int((answer.expires_at - self._clocks().own) * 1000), 1)
        async with asyncio.timeout(WRITE_WITHIN_S):
            # Value and time to live in one step: no entry is ever without one.
            await self._client.set(f"{PREFIX}{key.hex()}", entry, px=left_ms)

    def _failed(self, error: Exception) -> None:
        self.stats.failures += 1
        if self._breaker.failed(self._clocks().own):
            self._log.warning(
                "Redis does not answer; the cache goes on without it", error=type(error).__name__
            )

    def _went_well(self) -> None:
        if self._breaker.succeeded():
            self._log.warning("Redis is back")


def connect(url: str) -> Redis:
    """Return a client of the server at `url` (`redis://`, `rediss://` or `unix://`); it connects when used.

    Raises:
        ValueError: no such URL.
    """
    client: Redis = Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_WITHIN_S,
        socket_timeout=WRITE_WITHIN_S,
        socket_keepalive=True,
        max_connections=64,
        retry=Retry(NoBackoff(), 0),
    )
    return client
