"""Looking back: revisions, what they changed, and the audit. Read from the database, not from memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from control_plane.registry.changes import versions_diff
from control_plane.registry.errors import NotFoundError
from control_plane.registry.ledger import Ledger
from control_plane.registry.values import AuditEntry, DocumentChange, Revision, StoredDocument

MAX_LISTED: Final = 500


class History:
    """What was. Every look may raise `StoreUnavailableError`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def revisions(self, *, limit: int = 50, before: int | None = None) -> list[Revision]:
        """Return revisions below `before`, newest first; their changes without fields."""
        async with self._ledger.look() as reading:
            return await reading.revisions(limit=_bounded(limit), before=before)

    async def revision(self, number: int) -> Revision:
        """Return one revision with the fields it changed.

        Raises:
            NotFoundError: there is none.
        """
        async with self._ledger.look() as reading:
            found = await reading.revision(number)
            if found is None:
                raise NotFoundError(f"revision {number}")
            versions = await reading.history(number - 1, number)
        return replace(found, changes=await asyncio.to_thread(versions_diff, versions, number - 1, number))

    async def diff(self, older: int, newer: int) -> tuple[DocumentChange, ...]:
        """Return what has to change in `older` to get `newer`; 0 is the empty beginning.

        Raises:
            NotFoundError: one of them does not exist.
        """
        first, last = min(older, newer), max(older, newer)
        async with self._ledger.look() as reading:
            for number in {first, last} - {0}:
                if await reading.revision(number) is None:
                    raise NotFoundError(f"revision {number}")
            versions = await reading.history(first, last)
        return await asyncio.to_thread(versions_diff, versions, older, newer)

    async def documents_at(self, number: int) -> list[StoredDocument]:
        """Return the documents of one revision, sorted by kind and name.

        Raises:
            NotFoundError: there is none.
        """
        async with self._ledger.look() as reading:
            if await reading.revision(number) is None:
                raise NotFoundError(f"revision {number}")
            return await reading.documents_at(number)

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Return audit rows with ids below `before`, newest first."""
        async with self._ledger.look() as reading:
            return await reading.audit(limit=_bounded(limit), before=before)


def _bounded(limit: int) -> int:
    return max(1, min(limit, MAX_LISTED))
