"""The migration that brings owners, there and back, and beside a build that knows none."""

from collections.abc import Callable
from datetime import UTC, datetime

from alembic import command
from sqlalchemy import Connection, insert, inspect

from control_plane.registry.ports import DocumentVersion
from control_plane.registry.values import ChangeAction, Revision
from control_plane.store.migrating import alembic_config
from control_plane.store.sql_store import SqlStore
from control_plane.store.tables import document_versions

NOW = datetime(2030, 1, 1, tzinfo=UTC)


async def written(store: SqlStore, number: int, content: bytes | None, owner: str) -> None:
    """Add a revision that writes or deletes one Tier."""
    version = DocumentVersion("Tier", "t", number, ChangeAction.UPDATE, content, NOW, owner)
    async with store.write() as tx:
        await tx.add_revision(Revision(number, NOW, "a", "", "put"), [version], of_documents=True)


async def run(store: SqlStore, work: Callable[[Connection], object]) -> object:
    """Do something with the tables."""
    async with store._engine.connect() as connection:
        await store._database.lock(connection)
        found = await connection.run_sync(work)
        await connection.commit()
    return found


async def test_owners_can_be_undone_alone(store: SqlStore) -> None:
    """Documents and secrets stay, and are anybody's when it is done again."""

    def back(connection: Connection) -> set[str]:
        command.downgrade(alembic_config(connection), "0004")
        found = inspect(connection)
        return {
            item["name"] for table in ("document_versions", "secrets") for item in found.get_columns(table)
        }

    await written(store, 1, b"{}", "kubernetes")
    async with store.write() as tx:
        await tx.put_secret("s", {"k": b"sealed"}, NOW, "kubernetes")
    assert "owner" not in await run(store, back)  # type: ignore[operator]
    await store.open()
    async with store.read() as reading:
        assert [item.owner for item in await reading.documents_at(1)] == [""]
        assert [(item.sealed, item.owner) for item in await reading.secrets()] == [(b"sealed", "")]


async def test_what_a_build_without_owners_writes_keeps_its_owner(store: SqlStore) -> None:
    """While replicas are exchanged one by one; what is deleted and made anew by this build is anybody's."""

    def older(number: int, content: bytes | None) -> Callable[[Connection], object]:
        def write(connection: Connection) -> object:
            values = {"kind": "Tier", "name": "t", "revision": number, "action": "update", "content": content}
            return connection.execute(insert(document_versions).values(values))

        return write

    async def owner_at(number: int) -> list[str]:
        async with store.read() as reading:
            return [item.owner for item in await reading.documents_at(number)]

    await written(store, 1, b"{}", "kubernetes")
    for number in (2, 4, 6):
        async with store.write() as tx:
            await tx.add_revision(Revision(number, NOW, "a", "", "put"), [], of_documents=True)
        await run(store, older(number, b"{}"))
        if number == 2:
            await written(store, 3, None, "")
        if number == 4:
            await written(store, 5, b"{}", "kubernetes")
    assert [await owner_at(number) for number in range(1, 7)] == [
        ["kubernetes"],
        ["kubernetes"],
        [],
        [""],
        ["kubernetes"],
        ["kubernetes"],
    ]
