"""One look is one moment: what another writer commits meanwhile is not half seen."""

from control_plane.registry.ports import DocumentVersion
from control_plane.registry.values import ChangeAction, Revision
from control_plane.store.sql_store import SqlStore
from tests.harness.registries import START


async def test_what_is_not_committed_is_not_seen(store: SqlStore) -> None:
    """Readers go on beside a writer, and see the state before it."""
    async with store.write() as tx:
        await tx.add_revision(Revision(1, START, "me", "", "put"), (), of_documents=True)
        async with store.read() as reading:
            assert (await reading.positions()).newest == 0
    async with store.read() as reading:
        assert (await reading.positions()).newest == 1


async def test_ten_versions_of_one_document_are_one_document(store: SqlStore) -> None:
    """The newest at each revision, out of a long history."""
    async with store.write() as tx:
        for number in range(1, 11):
            content = None if number == 5 else str(number).encode()
            found = DocumentVersion("Pin", "p", number, ChangeAction.UPDATE, content, START)
            await tx.add_revision(Revision(number, START, "me", "", "put"), [found], of_documents=True)
    async with store.read() as reading:
        contents = [[item.content for item in await reading.documents_at(at)] for at in (4, 5, 6, 10)]
        assert contents == [[b"4"], [], [b"6"], [b"10"]]
        assert [item.revision for item in await reading.history(8, 9)] == [8, 9]
