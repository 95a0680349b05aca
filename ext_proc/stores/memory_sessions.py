"""Sessions in the processor's own memory: those used last, bounded by number and by bytes.

What a shared store has not been told yet is marked, so that it can be told later (`stores.shared_sessions`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ext_proc.sessions.records import Kept, Opened, Record, tenths

MAX_SESSIONS: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
# What CPython takes for a session beside its records, and for each of those.
SESSION_BYTES: Final = 700
RECORD_BYTES: Final = 150


@dataclass(slots=True)
class _Session:
    kept: Kept = field(default_factory=Kept)
    untold: set[int] = field(default_factory=set)
    expires_at: float = 0.0
    bytes: int = 0


class MemorySessions:
    """Keeps sessions until they expire or room is needed. For one event loop: not thread-safe.

    Args:
        clock: a monotonic time in seconds.
        salt: below `records.STEP`, another one in each processor that may have to do without a shared store.
        max_sessions: how many at most.
        max_bytes: how many bytes they take at most, by estimate.
        wall_s: the time of day in seconds since the epoch, where other processors number turns, too.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        salt: int = 0,
        max_sessions: int = MAX_SESSIONS,
        max_bytes: int = MAX_BYTES,
        wall_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._clock = clock
        self._salt = salt
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._wall_s = wall_s
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    async def begin(self, key: bytes, *, ttl_ms: int, keep: int) -> Opened:
        """Draw a number for a request of the session, and return the last `keep` records."""
        session = self._use(key, ttl_ms)
        session.kept.take((), keep)
        number = session.kept.draw(self._salt, tenths(self._wall_s()))
        self._measure(session)
        return Opened(number, session.kept.in_order())

    def commit(self, key: bytes, record: Record, *, ttl_ms: int, keep: int) -> None:
        """Keep `record` in its session, in the place of one with its number."""
        session = self._use(key, ttl_ms)
        session.kept.take((record,), keep)
        session.untold.add(record[0])
        self._measure(session)

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Forget the session, and turns of it that are under way."""
        session = self._use(key, ttl_ms)
        session.kept.erase(tenths(self._wall_s()))
        self._measure(session)

    async def close(self) -> None:
        """Hold nothing."""

    def untold(self, key: bytes) -> list[Record]:
        """Return the records that were kept here and that no shared store is known to have."""
        session = self._there(key)
        if session is None:
            return []
        return [record for record in session.kept.in_order() if record[0] in session.untold]

    def told(self, key: bytes, records: Sequence[Record]) -> None:
        """Take notice that a shared store has these, unless they have changed since."""
        session = self._sessions.get(key)
        if session is not None:
            session.untold.difference_update(
                number for number, record in records if session.kept.records.get(number, record) is record
            )

    def adopt(self, key: bytes, opened: Opened, *, ttl_ms: int, keep: int) -> Opened:
        """Keep what a shared store has, and what it has not been told; return both together."""
        session = self._use(key, ttl_ms)
        untold = self.untold(key)
        session.kept.records.clear()
        if opened.number <= session.kept.floor:
            session.kept.floor = 0  # the store knows better
        session.kept.last = max(session.kept.last, opened.number)
        session.kept.take((*opened.records, *untold), keep)
        self._measure(session)
        return Opened(opened.number, session.kept.in_order())

    def _there(self, key: bytes) -> _Session | None:
        session = self._sessions.get(key)
        if session is not None and session.expires_at <= self._clock():
            self._bytes -= self._sessions.pop(key).bytes
            return None
        return session

    def _use(self, key: bytes, ttl_ms: int) -> _Session:
        session = self._there(key)
        if session is None:
            session = self._sessions[key] = _Session()
        self._sessions.move_to_end(key)
        session.expires_at = self._clock() + ttl_ms / 1000
        return session

    def _measure(self, session: _Session) -> None:
        session.untold.intersection_update(session.kept.records)
        size = SESSION_BYTES + sum(len(record) + RECORD_BYTES for record in session.kept.records.values())
        self._bytes += size - session.bytes
        session.bytes = size
        while len(self._sessions) > self._max_sessions or self._bytes > self._max_bytes:
            _, oldest = self._sessions.popitem(last=False)
            self._bytes -= oldest.bytes
