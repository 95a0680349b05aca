"""Answers kept as entries outside the process: what is the same for whatever keeps them.

Such a store is a help, never a need: a read that takes longer than a few milliseconds is given up, and a
server that is down or frozen is left alone until it is back. Writes happen behind the answer, and are dropped
in a jam.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.stores.entries import decode_entry, encode_entry, is_keepable
from ext_proc.stores.neighbour import Away, Neighbour, ToldBreaker
from ext_proc.stores.write_behind import WriteBehind

CLOSE_WITHIN_S: Final = 0.25
# Packing takes up to a tenth of a second a MiB, for which no other request should wait.
IN_A_THREAD_FROM_BYTES: Final = 64 * 1024
# Beyond that a question is not looked up: it would not be its turn in time.
WAITING_READS: Final = 1_000


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What the store has done since it was made.

    `refused` answers are too old or too large to be kept, `dropped` ones came in a jam or to a store that was
    away; `failures` are calls that failed, not answers that were missed by them.
    """

    hits: int
    misses: int
    failures: int
    written: int
    dropped: int
    refused: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer on its way out: its question's key, itself, and both as bytes. Times are those of the day."""

    key: bytes
    answer: StoredAnswer
    data: bytes
    asked_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class _Waiting:
    key: bytes
    answer: StoredAnswer
    clocks: Clocks


class EntryStore(ABC):
    """Keeps answers in what a subclass reaches. For one event loop.

    Args:
        name: what it is called in the log.
        clocks: the time of day and this process's own, now.
        log: where trouble is told, once when it begins and once when it is over.
        read_within_s: what a hit may cost at most.
        write_within_s: what a write may take.
        reads_at_once: how many reads are made at the same time.
        writers: how many write at the same time.
        batch: how many entries are written together.
    """

    def __init__(
        self,
        name: str,
        clocks: Callable[[], Clocks],
        log: FilteringBoundLogger,
        *,
        read_within_s: float,
        write_within_s: float,
        reads_at_once: int,
        writers: int,
        batch: int,
    ) -> None:
        self._clocks = clocks
        self._write_within_s = write_within_s
        self._neighbour = Neighbour(
            self._ping,
            within_s=read_within_s,
            at_once=reads_at_once,
            clock=self._now,
            log=log,
            opens=f"{name} does not answer; the cache goes on without it",
            closes=f"{name} is back",
        )
        self._writes = ToldBreaker(
            self._now,
            log,
            f"{name} takes no answers; what it has is still read",
            f"{name} takes answers again",
        )
        self._behind: WriteBehind[_Waiting] = WriteBehind(self._write, writers=writers, batch=batch)
        self._reading: dict[bytes, asyncio.Task[StoredAnswer | Away | None]] = {}
        self._hits = self._misses = self._written = self._dropped = self._refused = 0

    @abstractmethod
    async def _ping(self) -> None:
        """Return when the server has answered."""

    @abstractmethod
    async def _fetch(self, key: bytes) -> object:
        """Return the entry under `key`, or anything else for none. May raise whatever the client raises."""

    @abstractmethod
    async def _keep(self, entries: Sequence[Entry]) -> None:
        """Keep `entries`, each in place of an older one. May raise whatever the client raises."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Let the connections go. Never raises."""

    @property
    def stats(self) -> StoreStats:
        """The counts."""
        failures = self._neighbour.failures + self._writes.failures
        return StoreStats(self._hits, self._misses, failures, self._written, self._dropped, self._refused)

    def start(self) -> None:
        """Begin to write in the background, on the running loop."""
        self._behind.start()

    async def close(self) -> None:
        """Write what waits, as far as a moment allows, and let the connections go."""
        await self._behind.close(CLOSE_WITHIN_S)
        if self._reading:
            # Each ends by its own deadline, and somebody waits for it.
            await asyncio.wait(self._reading.values(), timeout=CLOSE_WITHIN_S)
        await self._neighbour.close()
        await self._disconnect()

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`; None when there is none or the store does not say so in time.

        Those who ask for one answer at the same moment share one read, and one that leaves disturbs nobody.
        """
        if self._neighbour.is_away():
            return None
        reading = self._reading.get(key)
        if reading is None:
            if len(self._reading) >= WAITING_READS:
                return None
            reading = asyncio.get_running_loop().create_task(self._read(key), name="cache read")
            self._reading[key] = reading
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        answer = await asyncio.shield(reading)
        if isinstance(answer, Away):
            return None
        if answer is None:
            self._misses += 1
        else:
            self._hits += 1
        return answer

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep `answer`, soon. One that is too large is not kept, nor one that comes while too many wait."""
        clocks = self._clocks()
        if answer.expires_at <= clocks.own or not is_keepable(answer):
            self._refused += 1
        elif not self._behind.offer(_Waiting(key, answer, clocks), len(answer.body)):
            self._dropped += 1

    async def _read(self, key: bytes) -> StoredAnswer | Away | None:
        try:
            entry = await self._neighbour.ask(lambda: self._fetch(key))
        except Away as away:
            return away
        clocks = self._clocks()
        if not isinstance(entry, bytes):
            return None
        if len(entry) < IN_A_THREAD_FROM_BYTES:
            return decode_entry(key, entry, clocks)
        return await asyncio.to_thread(decode_entry, key, entry, clocks)

    async def _write(self, waiting: Sequence[_Waiting]) -> None:
        if self._neighbour.is_away() or not self._writes.allows():
            self._dropped += len(waiting)
            return
        try:
            entries = [await _encoded(item) for item in waiting]
            async with asyncio.timeout(self._write_within_s):
                await self._keep(entries)
        except asyncio.CancelledError:
            self._writes.gave_up()
            raise
        except Exception as error:
            # Whatever the client makes of a broken server: the next answer is written all the same.
            self._dropped += len(waiting)
            self._failed_to_write(error)
        else:
            self._written += len(waiting)
            self._writes.succeeded()

    def _failed_to_write(self, error: Exception) -> None:
        if self._neighbour.is_away():
            self._writes.gave_up()  # it has been told that nothing works
        else:
            self._writes.failed(error)

    def _now(self) -> float:
        return self._clocks().own


async def _encoded(waiting: _Waiting) -> Entry:
    key, answer, clocks = waiting.key, waiting.answer, waiting.clocks
    if len(answer.body) < IN_A_THREAD_FROM_BYTES:
        data = encode_entry(key, answer, clocks)
    else:
        data = await asyncio.to_thread(encode_entry, key, answer, clocks)
    offset = clocks.wall - clocks.own
    return Entry(key, answer, data, answer.stored_at - answer.seconds + offset, answer.expires_at + offset)
