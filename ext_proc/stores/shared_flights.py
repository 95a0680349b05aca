"""Flights that processors share: who leads has a lease, and the others get its answer (see `leases`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.flights import Landed
from ext_proc.stores.entries import decode_entry, encode_entry, is_keepable
from ext_proc.stores.leases import Held, Lease, RedisLeases

LEASE_S: Final = 5.0
"""How long the others wait for a leader whose process has died."""
ANSWER_S: Final = 60.0


class SharedFlights:
    """Tells who leads a question among processors. For one event loop.

    Args:
        leases: where the leaders are known.
        clocks: the time of day and this process's own, now.
    """

    def __init__(self, leases: RedisLeases, clocks: Callable[[], Clocks]) -> None:
        self._leases = leases
        self._clocks = clocks
        self._ending: set[asyncio.Task[bool]] = set()

    async def lead(self, key: bytes) -> Lease | Held | None:
        """Take the lead; return it, who has it, or None when nobody can tell."""
        return await self._leases.take(key, LEASE_S)

    def is_lead(self, taken: Lease | Held) -> bool:
        """Whether `lead` took the lead."""
        return isinstance(taken, Lease)

    def end(self, lease: Lease, landed: Landed | None) -> None:
        """Give the lead up, soon, with the answer that came; None sends those who wait on alone."""
        ending = asyncio.get_running_loop().create_task(
            self._leases.release(lease, self._encoded(lease, landed)), name="shared flight"
        )
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def hear(self, held: Held, within_s: float) -> Landed | None:
        """Wait for the answer that another processor's leader gets; None when there is none in time."""
        entry = await self._leases.outcome(held, within_s)
        answer = decode_entry(held.key, entry, self._clocks()) if entry is not None else None
        # The Backend's name travels in the place of the partition, which nobody asks of such an answer.
        return Landed(answer.body, answer.content_type, answer.partition) if answer is not None else None

    async def close(self) -> None:
        """Give back what is led, as far as a moment allows."""
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._leases.close()

    def _encoded(self, lease: Lease, landed: Landed | None) -> bytes | None:
        if landed is None:
            return None
        clocks = self._clocks()
        answer = StoredAnswer(
            body=landed.body,
            content_type=landed.content_type,
            model="",
            version="",
            stored_at=clocks.own,
            expires_at=clocks.own + ANSWER_S,
            partition=landed.backend,
        )
        return encode_entry(lease.key, answer, clocks) if is_keepable(answer) else None
