"""Changing the database: the registry's values to rows, within one transaction."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from control_plane.registry.ports import Bulletin, DocumentVersion, Epochs, SealedSecret
from control_plane.registry.values import AuditEntry, KeyRow, Revision, RevisionState, TokenRow
from control_plane.releases.machine import Standing
from control_plane.releases.wire import standing_bytes, standing_of
from control_plane.store import tables
from control_plane.store.reading import SqlReading
from ext_proc.contract.snapshot import Purge


class SqlWriting(SqlReading):
    """One transaction of `connection`. `announce` has other replicas told when it is committed."""

    def __init__(self, connection: AsyncConnection, announce: Callable[[], Awaitable[None]]) -> None:
        super().__init__(connection)
        self._announce = announce

    async def bump(self, names: Iterable[str]) -> Epochs:
        """Raise the counters `names` by one and return all."""
        table = tables.epochs
        change = update(table).where(table.c.name.in_(list(names))).values(epoch=table.c.epoch + 1)
        await self._connection.execute(change)
        await self._announce()
        return await self.epochs()

    async def add_revision(
        self, revision: Revision, versions: Sequence[DocumentVersion], *, of_documents: bool
    ) -> None:
        """Keep a revision and what it made of documents."""
        row = insert(tables.revisions).values(
            revision=revision.revision,
            at=revision.at,
            actor=revision.actor,
            source=revision.source,
            action=revision.action,
            of_documents=of_documents,
            state=revision.state.value,
            reason=revision.reason,
            detail=revision.detail,
            rolled_back_to=revision.rolled_back_to,
        )
        await self._connection.execute(row)
        if versions:
            await self._connection.execute(
                insert(tables.document_versions),
                [
                    {
                        "kind": version.kind,
                        "name": version.name,
                        "revision": version.revision,
                        "action": version.action.value,
                        "content": version.content,
                        "owner": version.owner,
                    }
                    for version in versions
                ],
            )

    async def halt(self, revision: int, reason: str) -> None:
        """Mark a revision halted."""
        table = tables.revisions
        change = update(table).where(table.c.revision == revision)
        await self._connection.execute(change.values(state=RevisionState.HALTED.value, reason=reason))

    async def add_key(self, row: KeyRow) -> None:
        """Keep a new Consumer key."""
        values = {**asdict(row.info), "digest": row.digest}
        await self._connection.execute(insert(tables.consumer_keys).values(values))

    async def end_key(
        self, key_id: str, *, expires_at: datetime | None = None, revoked_at: datetime | None = None
    ) -> None:
        """Give a key an end: the fields that are not None."""
        ends = {"expires_at": expires_at, "revoked_at": revoked_at}
        table = tables.consumer_keys
        change = update(table).where(table.c.id == key_id)
        await self._connection.execute(
            change.values({name: at for name, at in ends.items() if at is not None})
        )

    async def put_secret(self, name: str, values: Mapping[str, bytes], at: datetime, owner: str = "") -> None:
        """Keep the sealed values of a secret in place of those it had."""
        await self.delete_secret(name)
        rows = [
            {"name": name, "key": key, "sealed": sealed, "changed_at": at, "owner": owner}
            for key, sealed in values.items()
        ]
        await self._connection.execute(insert(tables.secrets), rows)

    async def reseal(self, secrets: Sequence[SealedSecret]) -> None:
        """Replace the sealed form of values that stay what they are."""
        table = tables.secrets
        for item in secrets:
            change = update(table).where(table.c.name == item.name, table.c.key == item.key)
            await self._connection.execute(change.values(sealed=item.sealed))

    async def delete_secret(self, name: str) -> None:
        """Delete every value of a secret."""
        await self._connection.execute(delete(tables.secrets).where(tables.secrets.c.name == name))

    async def add_token(self, row: TokenRow) -> None:
        """Keep a new API token."""
        values = {**asdict(row), "scopes": json.dumps(row.scopes)}
        await self._connection.execute(insert(tables.tokens).values(values))

    async def revoke_token(self, token_id: str, at: datetime) -> None:
        """End a token."""
        table = tables.tokens
        await self._connection.execute(update(table).where(table.c.id == token_id).values(revoked_at=at))

    async def put_purges(self, purges: Sequence[Purge]) -> None:
        """Keep these purges of cached answers in place of those there were."""
        await self._connection.execute(delete(tables.purges))
        rows = [{"position": position, **asdict(purge)} for position, purge in enumerate(purges)]
        if rows:
            await self._connection.execute(insert(tables.purges), rows)

    async def put_release(self, name: str, standing: Standing) -> None:
        """Keep how far a Release is; one that begins anew knows nothing of its versions."""
        table = tables.releases
        values: dict[str, bytes | None] = {"standing": standing_bytes(standing)}
        found = await self._all(select(table.c.standing).where(table.c.name == name))
        if not found:
            await self._connection.execute(insert(table).values(name=name, **values))
            return
        if standing_of(bytes(found[0].standing)).begun != standing.begun:
            values["evidence"] = None
        await self._connection.execute(update(table).where(table.c.name == name).values(values))

    async def put_evidence(self, name: str, content: bytes) -> None:
        """Keep what is known of the versions of a Release."""
        table = tables.releases
        await self._connection.execute(update(table).where(table.c.name == name).values(evidence=content))

    async def delete_release(self, name: str) -> None:
        """Forget how far a Release was."""
        await self._connection.execute(delete(tables.releases).where(tables.releases.c.name == name))

    async def add_bulletins(self, bulletins: Sequence[Bulletin]) -> None:
        """Keep what webhooks are to be told."""
        if bulletins:
            await self._connection.execute(insert(tables.bulletins), [asdict(item) for item in bulletins])

    async def put_bulletin_off(self, bulletin_id: str, due_at: datetime, attempts: int) -> None:
        """Have a bulletin wait until `due_at`; one that is gone is nothing."""
        table = tables.bulletins
        change = update(table).where(table.c.id == bulletin_id).values(due_at=due_at, attempts=attempts)
        await self._connection.execute(change)

    async def delete_bulletin(self, bulletin_id: str) -> None:
        """Forget a bulletin; one that is gone is nothing."""
        await self._connection.execute(delete(tables.bulletins).where(tables.bulletins.c.id == bulletin_id))

    async def set_setting(self, name: str, value: bytes) -> None:
        """Keep a setting of this installation."""
        await self._connection.execute(delete(tables.settings).where(tables.settings.c.name == name))
        await self._connection.execute(insert(tables.settings).values(name=name, value=value))

    async def add_audit(self, entry: AuditEntry) -> None:
        """Keep an audit row; its id is the database's to give."""
        values = asdict(entry)
        del values["id"]
        await self._connection.execute(insert(tables.audit).values(values))
