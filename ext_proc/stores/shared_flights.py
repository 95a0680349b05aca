"""Flights that processors share: who leads has a lease, and the others get its answer (see `leases`)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import orjson

from ext_proc.flights import Follow, Landed, Lead
from ext_proc.stores.entries import MAX_BODY_BYTES
from ext_proc.stores.leases import Held, Lease, RedisLeases

LEASE_S: Final = 5.0
"""How long the others wait for a leader whose process has died."""


class SharedFlights:
    """Tells who leads a question among processors. For one event loop.

    Args:
        leases: where the leaders are known.
    """

    def __init__(self, leases: RedisLeases) -> None:
        self._leases = leases
        self._ending: set[asyncio.Task[bool]] = set()

    async def lead(self, key: bytes) -> Lead | Follow | None:
        """Take the lead of `key`, or follow who has it; None when Redis does not say so in time."""
        taken = await self._leases.take(key, LEASE_S)
        if taken is None:
            return None
        if isinstance(taken, Lease):
            return Lead(partial(self._end, taken))
        return Follow(partial(self._hear, taken))

    async def close(self) -> None:
        """Give back what is led, as far as a moment allows."""
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._leases.close()

    def _end(self, lease: Lease, landed: Landed | None) -> None:
        answer = None
        if landed is not None and len(landed.body) <= MAX_BODY_BYTES:
            answer = encode_landed(landed)
        ending = asyncio.get_running_loop().create_task(
            self._leases.release(lease, answer), name="shared flight"
        )
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _hear(self, held: Held, within_s: float) -> Landed | None:
        answer = await self._leases.outcome(held, within_s)
        return decode_landed(answer) if answer is not None else None


def encode_landed(landed: Landed) -> bytes:
    """Return an answer as bytes. It is there for seconds: packing it would take longer than it saves."""
    return orjson.dumps([landed.content_type, landed.backend]) + b"\n" + landed.body


def decode_landed(data: bytes) -> Landed | None:
    """Return the answer in `data`; None when it is none. Never raises: anybody may have written it."""
    head, newline, body = data.partition(b"\n")
    try:
        texts = orjson.loads(head)
    except ValueError:
        return None
    if not newline or not isinstance(texts, list) or len(texts) != 2:
        return None
    if not all(isinstance(text, str) and text.isprintable() for text in texts):
        return None
    return Landed(body, *texts)
