"""The tiers of the cache as one store: memory, then what processors share, each backing the one before it.

Reading goes through them in their order and fills those above the one that had the answer; writing fills all
of them, never in the way of an answer. What a purge has voided is in none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.contract.snapshot import Purge

MEMORY: Final = "memory"
REDIS: Final = "redis"
DATABASE: Final = "database"
# Reading a longer answer takes milliseconds, for which no other request should wait.
IN_A_THREAD_FROM_BYTES: Final = 64 * 1024

IsAnswer: TypeAlias = Callable[[StoredAnswer], bool]
"""Says of what a tier has whether it is an answer to the question at all."""


class AnswerStore(Protocol):
    """Where one processor keeps answers. Bounded; forgets by itself."""

    def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`, unless it is unknown or forgotten."""
        ...

    def put(self, key: bytes, answer: StoredAnswer) -> bool:
        """Keep `answer`; False when it is larger than the store or not worth the room."""
        ...

    def delete(self, key: bytes) -> bool:
        """Forget the answer under `key`; return whether there was one."""
        ...

    def resize(self, max_entries: int, max_bytes: int) -> None:
        """Change the bounds; forgets what no longer fits."""
        ...

    def items(self) -> Iterator[tuple[bytes, StoredAnswer]]:
        """Yield what there is now."""
        ...

    def sweep(self, is_void: Callable[[bytes, StoredAnswer], bool]) -> int:
        """Forget every answer that `is_void`; return how many."""
        ...


class SharedStore(Protocol):
    """Where processors keep answers together. Never fails: an answer that is not there in time is none."""

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`."""
        ...

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep `answer`, soon."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """An answer and the tier that had it."""

    answer: StoredAnswer
    tier: str


class Tiers:
    """All tiers of one processor.

    Args:
        memory: its own.
        shared: those that processors have in common, by name, the nearest first.
        clocks: the time of day and this process's own, now.
        default: the names of those in use where no Policy names any.
    """

    def __init__(
        self,
        memory: AnswerStore,
        shared: Mapping[str, SharedStore],
        clocks: Callable[[], Clocks],
        default: Sequence[str] | None = None,
    ) -> None:
        self.memory = memory
        self._shared = tuple(shared.items())
        self._clocks = clocks
        self._default = tuple(default) if default is not None else (MEMORY, *shared)
        self._looked_at: Sequence[Purge] = ()
        self._newest_purge_s = 0.0

    def in_memory(
        self, key: bytes, names: Sequence[str] | None, purges: Sequence[Purge] = ()
    ) -> StoredAnswer | None:
        """Return what this processor's own memory has, without waiting."""
        if MEMORY not in (names or self._default):
            return None
        answer = self.memory.get(key)
        if answer is not None and purges and self._is_void(key, answer, purges):
            self.memory.delete(key)
            return None
        return answer

    async def beyond_memory(
        self,
        key: bytes,
        names: Sequence[str] | None,
        purges: Sequence[Purge] = (),
        is_answer: IsAnswer | None = None,
    ) -> Found | None:
        """Return what the tiers that are shared have; the ones above, memory too, have it afterwards.

        Anybody may have written there: what is none by `is_answer` is not there. A stale answer is returned
        only when none of them has a fresh one.
        """
        names = names or self._default
        missed: list[SharedStore] = []
        stale: Found | None = None
        for name, store in self._shared:
            if name not in names:
                continue
            answer = await store.get(key)
            if answer is None or (purges and self._is_void(key, answer, purges)):
                missed.append(store)
                continue
            if is_answer is not None and not await _holds(is_answer, answer):
                missed.append(store)
                continue
            if answer.fresh_until <= self._clocks().own:
                stale = stale or Found(answer, name)
                missed.append(store)
                continue
            for above in missed:
                above.put(key, answer)
            if MEMORY in names:
                self.memory.put(key, answer)
            return Found(answer, name)
        return stale

    async def find(
        self,
        key: bytes,
        names: Sequence[str] | None,
        purges: Sequence[Purge] = (),
        is_answer: IsAnswer | None = None,
    ) -> Found | None:
        """Return what any of the tiers has."""
        answer = self.in_memory(key, names, purges)
        if answer is not None:
            return Found(answer, MEMORY)
        return await self.beyond_memory(key, names, purges, is_answer)

    def put(
        self, key: bytes, answer: StoredAnswer, names: Sequence[str] | None, purges: Sequence[Purge] = ()
    ) -> bool:
        """Keep `answer` in every tier in use; False when it was voided while it was on its way."""
        if purges and self._is_void(key, answer, purges):
            return False
        names = names or self._default
        if MEMORY in names:
            self.memory.put(key, answer)
        for name, store in self._shared:
            if name in names:
                store.put(key, answer)
        return True

    def sweep_memory(self, purges: Sequence[Purge]) -> int:
        """Make the room free that what `purges` have voided takes in memory; return how many answers.

        They are served no more in any case: it is looked at when they are found.
        """
        if not purges:
            return 0
        clocks = self._clocks()
        return self.memory.sweep(lambda key, answer: self._is_void(key, answer, purges, clocks))

    def _is_void(
        self, key: bytes, answer: StoredAnswer, purges: Sequence[Purge], clocks: Clocks | None = None
    ) -> bool:
        if purges is not self._looked_at:
            self._looked_at = purges
            self._newest_purge_s = max(purge.at_s for purge in purges)
        clocks = clocks or self._clocks()
        asked_at = answer.stored_at - answer.seconds - clocks.own + clocks.wall
        # Most answers are younger than any purge.
        if asked_at > self._newest_purge_s:
            return False
        return any(
            asked_at <= purge.at_s and is_meant(purge, key, answer.model, answer.version, answer.partition)
            for purge in purges
        )


async def _holds(is_answer: IsAnswer, answer: StoredAnswer) -> bool:
    if len(answer.body) < IN_A_THREAD_FROM_BYTES:
        return is_answer(answer)
    return await asyncio.to_thread(is_answer, answer)


def is_meant(purge: Purge, key: bytes, model: str, version: str, partition: str) -> bool:
    """Whether `purge` voids, of whatever age, the answer under `key` that this version gave a partition."""
    return (
        (purge.tenant is None or purge.tenant == partition)
        and (purge.model is None or purge.model == model)
        and (purge.version is None or purge.version == version)
        and (purge.key_prefix is None or key.hex().startswith(purge.key_prefix))
    )
