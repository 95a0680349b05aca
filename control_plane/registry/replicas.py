"""What replicas of the control plane tell each other, as the database keeps it: values."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica.

    Attributes:
        id: unique to its process.
        name: what people call it.
        beat: another one than before: it is there.
        obeys: the revision that each of its connected sidecars holds; 0 while they differ.
        views_edition: another one than before: there are other `views`.
        totals_edition: the same of `totals`.
    """

    id: str
    name: str
    beat: int
    obeys: int
    views_edition: int = 0
    totals_edition: int = 0


class ReplicaRows(Protocol):
    """The rows of all replicas, in one transaction."""

    async def put_replica(
        self, row: ReplicaRow, *, views: bytes | None = None, totals: bytes | None = None
    ) -> bool:
        """Keep a row; None leaves the views or the totals as they were. Returns whether it was there."""

    async def replicas(self) -> list[ReplicaRow]:
        """Return every row, by id."""

    async def replica_views(self, replica_id: str) -> bytes:
        """Return a replica's sidecars as it wrote them; nothing when its row has gone."""

    async def replica_totals(self, replica_id: str) -> bytes:
        """Return what a replica's sidecars counted, as it wrote it; nothing when its row has gone."""

    async def delete_replicas(self, replica_ids: Collection[str]) -> None:
        """Forget these."""


class ReplicaStore(Protocol):
    """Where the rows are. Every use may raise `StoreUnavailableError` or `StorageFullError`."""

    def shared(self) -> AbstractAsyncContextManager[ReplicaRows]:
        """Look at what replicas share, or change it."""
