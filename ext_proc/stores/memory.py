"""Answers in the processor's own memory: least recently used out, by number and by bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ext_proc.answers import StoredAnswer

# What CPython 3.11 takes for an entry beside its texts: the dictionary's node, objects' heads, floats.
ENTRY_OVERHEAD_BYTES: Final = 450


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What the store holds now and has done since it was made."""

    entries: int
    bytes: int
    hits: int
    misses: int
    evicted: int
    expired: int
    refused: int


class MemoryStore:
    """Keeps answers until they expire or room is needed. For one event loop: not thread-safe.

    Args:
        max_entries: how many answers at most; 0 keeps none.
        max_bytes: how many bytes at most, keys and overhead counted. A larger answer is not kept.
        clock: seconds; the same clock as the answers' `expires_at`.
    """

    __slots__ = (
        "_bytes",
        "_clock",
        "_entries",
        "_evicted",
        "_expired",
        "_hits",
        "_max_bytes",
        "_max_entries",
        "_misses",
        "_refused",
    )

    def __init__(self, max_entries: int, max_bytes: int, clock: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[bytes, StoredAnswer] = OrderedDict()
        self._bytes = 0
        self._hits = self._misses = self._evicted = self._expired = self._refused = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`, now the most recently used; None when absent or expired."""
        answer = self._entries.get(key)
        if answer is None:
            self._misses += 1
            return None
        if answer.expires_at <= self._clock():
            self.delete(key)
            self._expired += 1
            self._misses += 1
            return None
        self._entries.move_to_end(key)
        self._hits += 1
        return answer

    def put(self, key: bytes, answer: StoredAnswer) -> bool:
        """Keep `answer` under `key`, in place of an older one; return whether it was kept.

        One that is too large, or has expired, is not; what it would have replaced is gone all the same.
        """
        self.delete(key)
        size = entry_bytes(key, answer)
        if size > self._max_bytes or self._max_entries < 1 or answer.expires_at <= self._clock():
            self._refused += 1
            return False
        self._entries[key] = answer
        self._bytes += size
        self._make_room()
        return True

    def delete(self, key: bytes) -> bool:
        """Forget the answer under `key`; return whether there was one."""
        answer = self._entries.pop(key, None)
        if answer is None:
            return False
        self._bytes -= entry_bytes(key, answer)
        return True

    def clear(self) -> None:
        """Forget every answer."""
        self._entries.clear()
        self._bytes = 0

    def resize(self, max_entries: int, max_bytes: int) -> None:
        """Take new bounds; what no longer fits goes, least recently used first."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._make_room()

    def stats(self) -> MemoryStats:
        """Return the counts."""
        return MemoryStats(
            len(self._entries),
            self._bytes,
            self._hits,
            self._misses,
            self._evicted,
            self._expired,
            self._refused,
        )

    def _make_room(self) -> None:
        while self._entries and (len(self._entries) > self._max_entries or self._bytes > self._max_bytes):
            key, answer = self._entries.popitem(last=False)
            self._bytes -= entry_bytes(key, answer)
            self._evicted += 1


def entry_bytes(key: bytes, answer: StoredAnswer) -> int:
    """Return what one entry costs in memory, by measurement (within a quarter)."""
    texts = len(answer.content_type) + len(answer.model) + len(answer.version)
    return len(key) + len(answer.body) + texts + ENTRY_OVERHEAD_BYTES
