"""Sessions that processors share, in a store that may be away.

What this processor has seen of a session it remembers besides. While the store is away that is all there is:
a conversation goes on where it was as long as its requests come here, and nobody is refused. What was kept
meanwhile is told with the next call, and is seen here before the store has heard of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ext_proc.sessions.records import NotErased, Opened, Record
from ext_proc.stores.memory_sessions import MemorySessions
from ext_proc.stores.neighbour import Away
from ext_proc.stores.outlasting import Calls

CLOSE_WITHIN_S: Final = 0.5


class Far(Protocol):
    """The store itself."""

    async def renew(
        self, key: bytes, records: Sequence[Record], *, ttl_ms: int, keep: int, draw: bool
    ) -> Opened:
        """Keep `records` too, and of all the last `keep`; return them and, with `draw`, the next number.

        It is one step: none of several at once loses what another keeps. The session lives on for `ttl_ms`.

        Raises:
            Away: the store does not answer, or not in time.
        """
        ...

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Forget the session, and for `ttl_ms` turns of it that are under way. Raises Away."""
        ...

    async def close(self) -> None:
        """Let it go."""
        ...


class SharedSessions:
    """Sessions of all processors of one store. For one event loop.

    Args:
        far: the store.
        memory: what this processor remembers.
    """

    def __init__(self, far: Far, memory: MemorySessions) -> None:
        self._far = far
        self._memory = memory
        self._calls = Calls()

    async def begin(self, key: bytes, *, ttl_ms: int, keep: int) -> Opened:
        """Draw a number for a request of the session, and return the last `keep` records."""
        try:
            opened = await self._tell(key, ttl_ms, keep, draw=True)
        except Away:
            return await self._memory.begin(key, ttl_ms=ttl_ms, keep=keep)
        return self._memory.adopt(key, opened, ttl_ms=ttl_ms, keep=keep)

    def commit(self, key: bytes, record: Record, *, ttl_ms: int, keep: int) -> None:
        """Keep `record` in its session: here at once, in the store as soon as may be."""
        self._memory.commit(key, record, ttl_ms=ttl_ms, keep=keep)
        self._calls.start(self._told(key, ttl_ms, keep))

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Forget the session, and turns of it that are under way.

        Raises:
            NotErased: the store does not answer, and may have it still.
        """
        await self._memory.erase(key, ttl_ms=ttl_ms)
        try:
            await self._far.erase(key, ttl_ms=ttl_ms)
        except Away as error:
            raise NotErased from error

    async def close(self) -> None:
        """Wait a moment for what is on its way."""
        await self._calls.close(CLOSE_WITHIN_S)
        await self._far.close()

    async def _told(self, key: bytes, ttl_ms: int, keep: int) -> None:
        try:
            await self._tell(key, ttl_ms, keep, draw=False)
        except Away:
            return  # the session's next call tells it

    async def _tell(self, key: bytes, ttl_ms: int, keep: int, *, draw: bool) -> Opened:
        untold = self._memory.untold(key)
        opened = await self._far.renew(key, untold, ttl_ms=ttl_ms, keep=keep, draw=draw)
        self._memory.told(key, untold)
        return opened
