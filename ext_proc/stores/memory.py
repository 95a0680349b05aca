"""Answers in the processor's own memory, bounded by number and by bytes.

What is new comes into a window, a quarter of the room, first in, first out. What has been asked for by the
time that it would leave moves on to the main part; the rest is forgotten, but its key is remembered for a
while, and when it comes again it goes to the main part at once. There, what has been asked for since it was
last looked at gets another turn. So questions that are asked once push nothing out that is asked often, and
a hit costs a counter: S3-FIFO (https://s3fifo.com), measured in docs/decisions/cache-admission.md.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from ext_proc.answers import StoredAnswer

# What CPython 3.11 takes for an entry beside its texts: dictionary nodes, objects' heads, floats, a hash.
ENTRY_OVERHEAD_BYTES: Final = 690
WINDOW_PARTS: Final = 4


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


class _Slot:
    """One answer, how often it was a hit, and how many of those had been when it was last looked at."""

    __slots__ = ("answer", "bytes", "hits", "seen")

    def __init__(self, answer: StoredAnswer, size: int) -> None:
        self.answer = answer
        self.bytes = size
        self.hits = 0
        self.seen = 0


class MemoryStore:
    """Keeps answers until they expire or room is needed. For one event loop: not thread-safe.

    The answer that was put last is never the one that makes room.

    Args:
        max_entries: how many answers at most; 0 keeps none.
        max_bytes: how many bytes at most, keys and overhead counted. A larger answer is not kept.
        clock: seconds; the same clock as the answers' `expires_at`.
    """

    def __init__(self, max_entries: int, max_bytes: int, clock: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._window: OrderedDict[bytes, _Slot] = OrderedDict()
        self._main: OrderedDict[bytes, _Slot] = OrderedDict()
        self._left = _Left()
        self._bytes = self._window_bytes = 0
        self._hits = self._misses = self._evicted = self._expired = self._refused = 0

    def __len__(self) -> int:
        return len(self._window) + len(self._main)

    def get(self, key: bytes) -> StoredAnswer | None:
        """Return the answer under `key`; None when absent or expired."""
        slot = self._main.get(key) or self._window.get(key)
        if slot is None:
            self._misses += 1
            return None
        answer = slot.answer
        if answer.expires_at <= self._clock():
            self.delete(key)
            self._expired += 1
            self._misses += 1
            return None
        slot.hits += 1
        self._hits += 1
        return answer

    def put(self, key: bytes, answer: StoredAnswer) -> bool:
        """Keep `answer` under `key`, in place of an older one; return whether it was kept.

        One that is too large, or has expired, is not; what it would have replaced is gone all the same.
        """
        older = self._take(key)
        known = older is not None or self._left.remove(key)
        size = entry_bytes(key, answer)
        if size > self._max_bytes or self._max_entries < 1 or answer.expires_at <= self._clock():
            self._refused += 1
            return False
        slot = _Slot(answer, size)
        self._bytes += size
        if known:
            slot.hits = max(older.hits, 1) if older is not None else 1  # it has been asked for before
            self._main[key] = slot
        else:
            self._window[key] = slot
            self._window_bytes += size
        self._make_room(key)
        return True

    def delete(self, key: bytes) -> bool:
        """Forget the answer under `key`; return whether there was one."""
        return self._take(key) is not None

    def clear(self) -> None:
        """Forget every answer."""
        self._window.clear()
        self._main.clear()
        self._left = _Left()
        self._bytes = self._window_bytes = 0

    def resize(self, max_entries: int, max_bytes: int) -> None:
        """Take new bounds; what no longer fits goes."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._make_room()

    def items(self) -> Iterator[tuple[bytes, StoredAnswer]]:
        """Yield what there is now. To look at: it counts as no hit."""
        now = self._clock()
        for key, slot in chain(self._main.items(), self._window.items()):
            if slot.answer.expires_at > now:
                yield key, slot.answer

    def hits(self, key: bytes) -> int:
        """Return how often the answer under `key` was a hit here, 0 when there is none."""
        slot = self._main.get(key) or self._window.get(key)
        return slot.hits if slot is not None else 0

    def sweep(self, is_void: Callable[[bytes, StoredAnswer], bool]) -> int:
        """Forget every answer that `is_void`, and what has expired; return how many were void."""
        now = self._clock()
        void = 0
        for key, slot in (*self._main.items(), *self._window.items()):
            if slot.answer.expires_at <= now:
                self._expired += 1
            elif is_void(key, slot.answer):
                void += 1
            else:
                continue
            self.delete(key)
        return void

    def stats(self) -> MemoryStats:
        """Return the counts."""
        return MemoryStats(
            len(self),
            self._bytes,
            self._hits,
            self._misses,
            self._evicted,
            self._expired,
            self._refused,
        )

    def _take(self, key: bytes) -> _Slot | None:
        slot = self._main.pop(key, None)
        if slot is None:
            slot = self._window.pop(key, None)
            if slot is None:
                return None
            self._window_bytes -= slot.bytes
        self._bytes -= slot.bytes
        return slot

    def _make_room(self, newest: bytes | None = None) -> None:
        while len(self) > self._max_entries or self._bytes > self._max_bytes:
            # Each turn forgets one, or takes one out of the window, or uses up an answer's other turn.
            # Room for the newest is not made by forgetting it.
            alone = len(self._main) == 1 and newest in self._main and self._window
            if self._window_is_full() or not self._main or alone:
                self._leave_window()
            else:
                self._leave_main()

    def _window_is_full(self) -> bool:
        return len(self._window) > 1 and (
            len(self._window) * WINDOW_PARTS > self._max_entries
            or self._window_bytes * WINDOW_PARTS > self._max_bytes
        )

    def _leave_window(self) -> None:
        key, slot = self._window.popitem(last=False)
        self._window_bytes -= slot.bytes
        if slot.hits and self._window:
            slot.seen = slot.hits
            self._main[key] = slot
            return
        self._forget(slot)
        self._left.add(key, len(self))

    def _leave_main(self) -> None:
        key, slot = self._main.popitem(last=False)
        if slot.hits > slot.seen:
            slot.seen = slot.hits
            self._main[key] = slot
        else:
            self._forget(slot)

    def _forget(self, slot: _Slot) -> None:
        self._bytes -= slot.bytes
        self._evicted += 1


class _Left:
    """Keys that have left the window, by their hashes, the oldest forgotten first."""

    __slots__ = ("_hashes", "_order")

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._order: deque[int] = deque()

    def add(self, key: bytes, at_most: int) -> None:
        """Remember `key` and, of all, `at_most`."""
        remembered = hash(key)
        self._hashes.add(remembered)
        self._order.append(remembered)
        while len(self._order) > at_most:
            self._hashes.discard(self._order.popleft())

    def remove(self, key: bytes) -> bool:
        """Forget `key`; return whether it was remembered."""
        remembered = hash(key)
        if remembered not in self._hashes:
            return False
        self._hashes.discard(remembered)
        return True


def entry_bytes(key: bytes, answer: StoredAnswer) -> int:
    """Return what one entry costs in memory, by measurement (within a quarter)."""
    texts = len(answer.content_type) + len(answer.model) + len(answer.version) + len(answer.partition)
    return len(key) + len(answer.body) + texts + ENTRY_OVERHEAD_BYTES
