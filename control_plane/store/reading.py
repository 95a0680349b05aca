"""Looking at the database: rows to the registry's values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, RowMapping, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import Select

from control_plane.registry.ports import Bulletin, DocumentVersion, Epochs, Positions, SealedSecret
from control_plane.registry.values import (
    AuditEntry,
    ChangeAction,
    ConsumerKeyInfo,
    DocumentChange,
    KeyRow,
    Revision,
    RevisionState,
    StoredDocument,
    TokenRow,
)
from control_plane.releases.machine import Standing
from control_plane.releases.wire import standing_of
from control_plane.store import tables
from control_plane.store.tables import document_versions as versions
from ext_proc.contract.snapshot import Purge


class SqlReading:
    """One look, within the transaction of `connection`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def epochs(self) -> Epochs:
        """Return the counters."""
        rows = await self._all(select(tables.epochs.c.name, tables.epochs.c.epoch))
        return Epochs(**{row.name: row.epoch for row in rows})

    async def positions(self) -> Positions:
        """Return which revisions matter."""
        newest = select(func.max(tables.revisions.c.revision))
        accepted = tables.revisions.c.state == RevisionState.ACCEPTED.value
        of_documents = tables.revisions.c.of_documents.is_(True)
        row = (
            await self._all(
                select(
                    newest.scalar_subquery(),
                    newest.where(accepted).scalar_subquery(),
                    newest.where(of_documents).scalar_subquery(),
                    newest.where(accepted, of_documents).scalar_subquery(),
                )
            )
        )[0]
        return Positions(*(number or 0 for number in row))

    async def documents_at(self, revision: int) -> list[StoredDocument]:
        """Return the documents there were at `revision`, sorted by kind and name."""
        found = await self._versions(_newest(versions.c.revision <= revision))
        return [document for version in found if (document := version.stored()) is not None]

    async def versions_since(self, revision: int) -> list[DocumentVersion]:
        """Return the newest version of each document that changed after `revision`."""
        return await self._versions(_newest(versions.c.revision > revision))

    async def history(self, older: int, newer: int) -> list[DocumentVersion]:
        """Return the versions from `older` to `newer` of what changed in between, oldest first.

        Of each document the last version up to `older` is among them, if there is one.
        """
        changed = (
            select(versions.c.kind, versions.c.name)
            .where(versions.c.revision > older, versions.c.revision <= newer)
            .distinct()
            .subquery()
        )
        base = (
            select(versions.c.kind, versions.c.name, func.max(versions.c.revision).label("revision"))
            .join(changed, and_(versions.c.kind == changed.c.kind, versions.c.name == changed.c.name))
            .where(versions.c.revision <= older)
            .group_by(versions.c.kind, versions.c.name)
            .subquery()
        )
        before = await self._versions(_joined(base))
        after = await self._versions(
            _columns().where(versions.c.revision > older, versions.c.revision <= newer)
        )
        return [*before, *sorted(after, key=lambda version: version.revision)]

    async def keys(self) -> list[KeyRow]:
        """Return every Consumer key, oldest first."""
        table = tables.consumer_keys
        return [_key(row) for row in await self._all(select(table).order_by(table.c.created_at, table.c.id))]

    async def secrets(self) -> list[SealedSecret]:
        """Return every stored secret."""
        rows = await self._all(select(tables.secrets))
        return [SealedSecret(row.name, row.key, row.sealed, row.changed_at, row.owner or "") for row in rows]

    async def tokens(self) -> list[TokenRow]:
        """Return every API token, oldest first."""
        table = tables.tokens
        rows = await self._all(select(table).order_by(table.c.created_at, table.c.id))
        return [TokenRow(**{**row._mapping, "scopes": tuple(json.loads(row.scopes))}) for row in rows]

    async def purges(self) -> list[Purge]:
        """Return the purges of cached answers, the oldest first."""
        table = tables.purges
        rows = await self._all(select(table).order_by(table.c.position))
        return [Purge(row.at_s, row.tenant, row.model, row.version, row.key_prefix) for row in rows]

    async def releases(self) -> dict[str, Standing]:
        """Return how far each Release is, by name."""
        table = tables.releases
        rows = await self._all(select(table.c.name, table.c.standing).order_by(table.c.name))
        return {row.name: standing_of(bytes(row.standing)) for row in rows}

    async def evidence(self, name: str) -> bytes | None:
        """Return what is known of the versions of a Release, as it was kept."""
        table = tables.releases
        rows = await self._all(select(table.c.evidence).where(table.c.name == name))
        return bytes(rows[0].evidence) if rows and rows[0].evidence is not None else None

    async def bulletins(self) -> list[Bulletin]:
        """Return the oldest bulletin of each target, the oldest first."""
        table = tables.bulletins
        oldest = select(func.min(table.c.position)).group_by(table.c.target)
        query = select(table).where(table.c.position.in_(oldest)).order_by(table.c.position)
        return [
            Bulletin(row.id, row.release, row.target, row.body, row.made_at, row.due_at, row.attempts)
            for row in await self._all(query)
        ]

    async def setting(self, name: str) -> bytes | None:
        """Return a setting of this installation."""
        rows = await self._all(select(tables.settings.c.value).where(tables.settings.c.name == name))
        return bytes(rows[0].value) if rows else None

    async def revisions(self, *, limit: int, before: int | None) -> list[Revision]:
        """Return revisions below `before`, newest first, with the documents they changed."""
        query = select(tables.revisions).order_by(tables.revisions.c.revision.desc()).limit(limit)
        if before is not None:
            query = query.where(tables.revisions.c.revision < before)
        return await self._with_changes(await self._all(query))

    async def revision(self, number: int) -> Revision | None:
        """Return one revision with the documents it changed."""
        query = select(tables.revisions).where(tables.revisions.c.revision == number)
        found = await self._with_changes(await self._all(query))
        return found[0] if found else None

    async def audit(self, *, limit: int, before: int | None) -> list[AuditEntry]:
        """Return audit rows with ids below `before`, newest first."""
        query = select(tables.audit).order_by(tables.audit.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(tables.audit.c.id < before)
        return [AuditEntry(**row._mapping) for row in await self._all(query)]

    async def _with_changes(self, rows: Sequence[Row[Any]]) -> list[Revision]:
        if not rows:
            return []
        numbers = [row.revision for row in rows]
        query = (
            select(versions.c.revision, versions.c.kind, versions.c.name, versions.c.action)
            .where(versions.c.revision.between(min(numbers), max(numbers)))
            .order_by(versions.c.kind, versions.c.name)
        )
        changes: dict[int, list[DocumentChange]] = {}
        for change in await self._all(query):
            found = DocumentChange(change.kind, change.name, ChangeAction(change.action))
            changes.setdefault(change.revision, []).append(found)
        return [_revision(row._mapping, tuple(changes.get(row.revision, ()))) for row in rows]

    async def _versions(self, query: Select[Any]) -> list[DocumentVersion]:
        found = [
            DocumentVersion(
                row.kind,
                row.name,
                row.revision,
                ChangeAction(row.action),
                row.content,
                row.at,
                row.known_owner or "",
            )
            for row in await self._all(query)
        ]
        # Not the database's collation: the same order everywhere.
        return sorted(found, key=lambda version: version.key)

    async def _all(self, query: Select[Any]) -> Sequence[Row[Any]]:
        rows: Sequence[Row[Any]] = (await self._connection.execute(query)).all()
        return rows


def _columns() -> Select[Any]:
    # A build that knows no owners writes none, and means no other.
    earlier = versions.alias()
    inherited = (
        select(earlier.c.owner)
        .where(
            earlier.c.kind == versions.c.kind,
            earlier.c.name == versions.c.name,
            earlier.c.revision < versions.c.revision,
            earlier.c.owner.is_not(None),
        )
        .order_by(earlier.c.revision.desc())
        .limit(1)
        .correlate(versions)
        .scalar_subquery()
    )
    owner = func.coalesce(versions.c.owner, inherited).label("known_owner")
    return select(versions, owner, tables.revisions.c.at).join(tables.revisions)


def _newest(condition: Any) -> Select[Any]:
    newest = (
        select(versions.c.kind, versions.c.name, func.max(versions.c.revision).label("revision"))
        .where(condition)
        .group_by(versions.c.kind, versions.c.name)
        .subquery()
    )
    return _joined(newest)


def _joined(picked: Any) -> Select[Any]:
    same = (versions.c.kind == picked.c.kind, versions.c.name == picked.c.name)
    return _columns().join(picked, and_(*same, versions.c.revision == picked.c.revision))


def _key(row: Row[Any]) -> KeyRow:
    info = ConsumerKeyInfo(row.id, row.consumer, row.hint, row.created_at, row.expires_at, row.revoked_at)
    return KeyRow(info, row.digest)


def _revision(row: RowMapping, changes: tuple[DocumentChange, ...]) -> Revision:
    return Revision(
        revision=row["revision"],
        at=row["at"],
        actor=row["actor"],
        source=row["source"],
        action=row["action"],
        state=RevisionState(row["state"]),
        reason=row["reason"],
        changes=changes,
        rolled_back_to=row["rolled_back_to"],
        detail=row["detail"],
    )
