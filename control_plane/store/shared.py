"""What replicas of the control plane share beside the documents: each other's rows, and ended sessions.

Each writes only what is its own, so nobody waits for the one writer of documents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Column, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from control_plane.registry.replicas import ReplicaRow
from control_plane.store import tables

_REPLICAS = tables.replicas
_ENDED = tables.ended_sessions


class SqlShared:
    """One transaction of `connection`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put_replica(
        self, row: ReplicaRow, *, views: bytes | None = None, totals: bytes | None = None
    ) -> bool:
        """Keep a row; None leaves the views or the totals as they were. Returns whether it was there."""
        values = {"name": row.name, "beat": row.beat, "obeys": row.obeys}
        values |= {"views_edition": row.views_edition, "totals_edition": row.totals_edition}
        blobs = {name: blob for name, blob in (("views", views), ("totals", totals)) if blob is not None}
        change = update(_REPLICAS).where(_REPLICAS.c.id == row.id).values(**values, **blobs)
        known = bool((await self._connection.execute(change)).rowcount)
        if not known:
            made = {"views": b"", "totals": b"", **values, **blobs}
            await self._connection.execute(insert(_REPLICAS).values(id=row.id, **made))
        return known

    async def replicas(self) -> list[ReplicaRow]:
        """Return every row, by id."""
        columns = [column for column in _REPLICAS.c if column.name not in ("views", "totals")]
        found = await self._connection.execute(select(*columns).order_by(_REPLICAS.c.id))
        return [ReplicaRow(**row._mapping) for row in found]

    async def replica_views(self, replica_id: str) -> bytes:
        """Return a replica's sidecars as it wrote them; nothing when its row has gone."""
        return await self._blob(_REPLICAS.c.views, replica_id)

    async def replica_totals(self, replica_id: str) -> bytes:
        """Return what a replica's sidecars counted, as it wrote it; nothing when its row has gone."""
        return await self._blob(_REPLICAS.c.totals, replica_id)

    async def delete_replicas(self, replica_ids: Collection[str]) -> None:
        """Forget these."""
        if replica_ids:
            await self._connection.execute(delete(_REPLICAS).where(_REPLICAS.c.id.in_(list(replica_ids))))

    async def end_sessions(self, until_s: Mapping[str, float], now_s: float) -> None:
        """Keep these, each until its time, and forget those whose time is over."""
        over = (_ENDED.c.until_s <= now_s) | _ENDED.c.id.in_(list(until_s))
        await self._connection.execute(delete(_ENDED).where(over))
        rows = [{"id": one, "until_s": at_s} for one, at_s in until_s.items() if at_s > now_s]
        if rows:
            await self._connection.execute(insert(_ENDED), rows)

    async def ended_sessions(self) -> dict[str, float]:
        """Return all that are kept."""
        found = await self._connection.execute(select(_ENDED.c.id, _ENDED.c.until_s))
        return {row.id: row.until_s for row in found}

    async def _blob(self, column: Column[bytes], replica_id: str) -> bytes:
        found = await self._connection.execute(select(column).where(_REPLICAS.c.id == replica_id))
        return bytes(found.scalar() or b"")
