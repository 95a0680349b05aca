"""The entries of every partition, bounded, and the one thread where vectors are compared.

Entries are seen by the loop only, vectors by the thread only; the thread does things in the order in which it
is told. So what it finds may be gone by the time the loop hears of it, and nothing is ever half there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ext_proc.semantic.embedding import Vectors
from ext_proc.semantic.evidence import Record, Tally
from ext_proc.semantic.marks import Marks

if TYPE_CHECKING:
    from ext_proc.semantic.index import VectorIndex

Place = tuple[bytes, str]
"""A partition's digest and the name of the embedder: nothing else can be compared."""

MAX_ENTRIES: Final = 20_000
"""Of 2.8 kB each: 1.9 kB of marks and keys, the rest is a vector of 384 dimensions."""
MAX_PARTITIONS: Final = 1_000


@dataclass(slots=True)
class Entry:
    """One question that has an answer under `key` (as in the tiers), and what is known of it."""

    key: bytes
    marks: Marks
    record: Record | None = None


@dataclass(slots=True)
class Partition:
    """The questions among which one may be found, the one used last at the end."""

    entries: OrderedDict[bytes, Entry] = field(default_factory=OrderedDict)
    tally: Tally = field(default_factory=Tally)


class Partitions:
    """All partitions of one processor. What goes first is the oldest entry of the one unused for longest."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_partitions: int = MAX_PARTITIONS) -> None:
        self._max_entries = max_entries
        self._max_partitions = max_partitions
        self._partitions: OrderedDict[Place, Partition] = OrderedDict()
        self._count = 0
        self._thread: ThreadPoolExecutor | None = None
        self._indexes: dict[Place, VectorIndex] = {}  # the thread's own

    def __len__(self) -> int:
        return self._count

    def get(self, place: Place) -> Partition | None:
        """Return the partition at `place`."""
        return self._partitions.get(place)

    async def nearest(self, place: Place, vector: Vectors, count: int) -> list[tuple[Entry, float]]:
        """Return at most `count` entries with their similarity to `vector`, the nearest first."""
        partition = self._partitions.get(place)
        if partition is None:
            return []
        self._partitions.move_to_end(place)
        loop = asyncio.get_running_loop()
        near = await loop.run_in_executor(self._worker(), self._look, place, vector, count)
        return [(partition.entries[key], alike) for key, alike in near if key in partition.entries]

    def put(self, place: Place, key: bytes, marks: Marks, vector: Vectors) -> None:
        """Keep a question. One that is there already keeps its record."""
        partition = self._partitions.get(place)
        if partition is None:
            partition = self._partitions[place] = Partition()
        self._partitions.move_to_end(place)
        entry = partition.entries.get(key)
        if entry is None:
            partition.entries[key] = Entry(key, marks)
            self._count += 1
        partition.entries.move_to_end(key)
        self._worker().submit(self._keep, place, key, vector)
        while self._count > self._max_entries or len(self._partitions) > self._max_partitions:
            self._drop_one()

    def used(self, place: Place, key: bytes) -> None:
        """Take notice that an entry was of use."""
        partition = self._partitions.get(place)
        if partition is not None and key in partition.entries:
            partition.entries.move_to_end(key)

    def remove(self, place: Place, key: bytes) -> None:
        """Forget an entry: its answer is gone. What the partition has learned stays."""
        partition = self._partitions.get(place)
        if partition is not None and partition.entries.pop(key, None) is not None:
            self._count -= 1
            self._worker().submit(self._forget, place, key)

    def close(self) -> None:
        """Let the thread go."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _drop_one(self) -> None:
        place, partition = next(iter(self._partitions.items()))
        if partition.entries and len(self._partitions) <= self._max_partitions:
            self.remove(place, next(iter(partition.entries)))
            return
        del self._partitions[place]
        self._count -= len(partition.entries)
        self._worker().submit(self._indexes.pop, place, None)

    def _worker(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="vectors")
        return self._thread

    def _look(self, place: Place, vector: Vectors, count: int) -> list[tuple[bytes, float]]:
        index = self._indexes.get(place)
        return index.nearest(vector, count) if index is not None else []

    def _keep(self, place: Place, key: bytes, vector: Vectors) -> None:
        from ext_proc.semantic.index import VectorIndex  # noqa: PLC0415 - numpy, for those who have vectors

        index = self._indexes.get(place)
        if index is None or index.dimensions != len(vector):
            # An embedder that changes its dimensions under one name begins anew.
            index = self._indexes[place] = VectorIndex(len(vector))
        index.put(key, vector)

    def _forget(self, place: Place, key: bytes) -> None:
        index = self._indexes.get(place)
        if index is not None:
            index.remove(key)
