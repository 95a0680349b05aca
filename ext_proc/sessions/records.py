"""What is kept of one session, and what goes when there is too much (pure). Every store does the same.

A request draws its number when it comes and its turn is kept under that number when it is answered: turns
stand in the order in which they were asked, however long each answer took. Numbers grow with the time of day,
so they do even where one that was drawn before is not known yet.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

Record = tuple[int, bytes]
MAX_BYTES: Final = 1024 * 1024
"""What the records of one session may take together. A longer turn is kept as an empty record."""
STEP: Final = 1 << 16
"""Between the numbers that a shared store draws is room for those of processors that cannot reach it.

Times a tenth of a second since the epoch that is less than 2^53, which is what a double of Lua's holds.
"""
ERASED_NUMBERS: Final = 1_000 * STEP
"""Erasing passes over so many numbers: those that are out, wherever they were drawn."""
_HEAD: Final = struct.Struct("<QI")


class NotErased(Exception):
    """A session may be there still, though it was to be erased."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A session as a request finds it: its number, and what is kept, the oldest first."""

    number: int
    records: tuple[Record, ...]


@dataclass(slots=True)
class Kept:
    """One session as it is kept: the last number drawn, and the records by their numbers.

    Up to `floor` all is erased: what comes with such a number, having been asked before, is not kept.
    """

    last: int = 0
    records: MutableMapping[int, bytes] = field(default_factory=dict)
    floor: int = 0

    def take(self, records: Iterable[Record], keep: int) -> None:
        """Keep `records` too, and of all the last `keep`."""
        for number, record in records:
            if number > self.floor:
                self.records[number] = record
                self.last = max(self.last, number)
        for number in surplus(self.records, keep):
            del self.records[number]

    def draw(self, salt: int = 0, at: int = 0) -> int:
        """Return the next number, at that time (`tenths`).

        Processors with different `salt` (below `STEP`) draw different ones.
        """
        self.last = max(self.last // STEP + 1, at) * STEP + salt
        return self.last

    def erase(self, at: int = 0) -> None:
        """Forget all that is kept, and all that has been asked and not been answered at that time."""
        self.records.clear()
        self.last = self.floor = max(self.last, at * STEP) + ERASED_NUMBERS

    def in_order(self) -> tuple[Record, ...]:
        """Return the records, the oldest first."""
        return tuple(sorted(self.records.items()))


def tenths(wall_s: float) -> int:
    """Return a time of day (seconds since the epoch) as numbers count it."""
    return int(wall_s * 10)


def surplus(records: Mapping[int, bytes], keep: int, max_bytes: int = MAX_BYTES) -> list[int]:
    """Return the numbers that go: all but the last `keep`, or as many of those as `max_bytes` allow."""
    room = max_bytes
    newest_first = sorted(records, reverse=True)
    for place, number in enumerate(newest_first):
        room -= len(records[number])
        if place >= keep or room < 0:
            return newest_first[place:]
    return []


def session_key(tenant: str, consumer: str, session: str) -> bytes:
    """Return the identity of a session, 32 bytes: of another caller the same name is another session."""
    digest = hashlib.sha256()
    for part in (tenant, consumer, session):
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8) + data)
    return digest.digest()


def packed(records: Iterable[Record]) -> bytes:
    """Return records as one value, for stores that keep a session in one place."""
    return b"".join(_HEAD.pack(number, len(record)) + record for number, record in records)


def unpacked(value: bytes) -> list[Record]:
    """Return the records of a value; of one that is none, those up to where it breaks off."""
    records: list[Record] = []
    at = 0
    while len(value) - at >= _HEAD.size:
        number, size = _HEAD.unpack_from(value, at)
        at += _HEAD.size
        if len(value) - at < size:
            break
        records.append((number, value[at : at + size]))
        at += size
    return records
