"""What is written is what is read, over SQLite and PostgreSQL alike."""

from dataclasses import replace
from datetime import timedelta

from control_plane.registry.ports import DocumentVersion, Epochs, Positions, SealedSecret
from control_plane.registry.values import (
    AuditEntry,
    ChangeAction,
    ConsumerKeyInfo,
    DocumentChange,
    KeyRow,
    Revision,
    RevisionState,
    TokenRow,
)
from control_plane.store.sql_store import SqlStore
from ext_proc.contract.snapshot import Purge
from tests.harness.registries import START

CREATE, UPDATE, DELETE = ChangeAction.CREATE, ChangeAction.UPDATE, ChangeAction.DELETE


def revision(number: int, action: str = "put") -> Revision:
    """Return a revision; its time runs backwards, since nothing may depend on it."""
    return Revision(number, START - timedelta(hours=number), "me", "::1", action)


def version(number: int, name: str, content: bytes | None, action: ChangeAction = CREATE) -> DocumentVersion:
    """Return what revision `number` made of a Tier."""
    return DocumentVersion("Tier", name, number, action, content, START - timedelta(hours=number))


async def fill(store: SqlStore) -> None:
    """Three revisions of documents, then one of a key."""
    async with store.write() as tx:
        first = [version(1, "a", b"{1}"), version(1, "B", b"{}"), version(1, "c", b"{}")]
        await tx.add_revision(revision(1, "apply"), first, of_documents=True)
        await tx.add_revision(revision(2), [version(2, "a", b"{2}", UPDATE)], of_documents=True)
        await tx.add_revision(revision(3), [version(3, "c", None, DELETE)], of_documents=True)
        await tx.add_revision(replace(revision(4, "key"), detail="made"), (), of_documents=False)


async def test_documents_are_those_of_a_revision(store: SqlStore) -> None:
    """Each as its last change up to there left it, in an order that is no database's own."""
    await fill(store)
    async with store.read() as reading:
        found = [await reading.documents_at(number) for number in range(5)]
    names = [[(item.name, item.revision, item.content) for item in items] for items in found]
    assert names[0] == []
    assert names[1] == [("B", 1, b"{}"), ("a", 1, b"{1}"), ("c", 1, b"{}")]
    assert names[2] == [("B", 1, b"{}"), ("a", 2, b"{2}"), ("c", 1, b"{}")]
    assert names[3] == names[4] == [("B", 1, b"{}"), ("a", 2, b"{2}")]
    assert found[4][1].changed_at == START - timedelta(hours=2)


async def test_a_replica_reads_what_changed_since_it_looked(store: SqlStore) -> None:
    """The newest version of each, deletions too."""
    await fill(store)
    async with store.read() as reading:
        since = await reading.versions_since(1)
        assert [(item.name, item.content) for item in since] == [("a", b"{2}"), ("c", None)]
        assert await reading.versions_since(4) == []


async def test_the_history_between_two_revisions_has_what_was_before(store: SqlStore) -> None:
    """Only documents that changed in between, each with its last version up to the older one."""
    await fill(store)
    async with store.read() as reading:
        history = await reading.history(1, 3)
        assert [(item.name, item.revision) for item in history] == [("a", 1), ("c", 1), ("a", 2), ("c", 3)]
        assert [(item.name, item.revision) for item in await reading.history(2, 3)] == [("c", 1), ("c", 3)]


async def test_halted_revisions_are_told_from_accepted_ones(store: SqlStore) -> None:
    """Of all revisions, and of those that changed documents."""
    async with store.read() as reading:
        assert await reading.positions() == Positions(0, 0, 0, 0)
    await fill(store)
    async with store.write() as tx:
        assert await tx.positions() == Positions(4, 4, 3, 3)
        await tx.halt(3, "listener: bad")
        assert await tx.positions() == Positions(4, 4, 3, 2)
        await tx.halt(4, "")
        assert await tx.positions() == Positions(4, 2, 3, 2)
        found = await tx.revision(3)
    assert found is not None
    assert (found.state, found.reason) == (RevisionState.HALTED, "listener: bad")


async def test_revisions_come_newest_first_a_page_at_a_time(store: SqlStore) -> None:
    """By number, whatever the clock said, with the documents they changed."""
    await fill(store)
    async with store.read() as reading:
        page = await reading.revisions(limit=2, before=None)
        rest = await reading.revisions(limit=9, before=3)
        assert await reading.revision(9) is None
    assert page == [
        replace(revision(4, "key"), detail="made"),
        replace(revision(3), changes=(DocumentChange("Tier", "c", DELETE),)),
    ]
    assert [item.revision for item in rest] == [2, 1]
    assert sorted(change.document for change in rest[1].changes) == ["Tier/B", "Tier/a", "Tier/c"]


async def test_counters_that_are_bumped_are_one_higher(store: SqlStore) -> None:
    """The others stay."""
    async with store.write() as tx:
        assert await tx.bump(["keys", "revisions"]) == Epochs(2, 2, 1, 1)


async def test_consumer_keys_are_kept_and_ended(store: SqlStore) -> None:
    """Expiry and revocation are fields of their own."""
    row = KeyRow(ConsumerKeyInfo("k1", "c", "wxyz", START), "d1")
    other = KeyRow(ConsumerKeyInfo("k0", "c", "abcd", START + timedelta(1), START + timedelta(2)), "d0")
    async with store.write() as tx:
        await tx.add_key(other)
        await tx.add_key(row)
        assert await tx.keys() == [row, other]
        await tx.end_key("k1", expires_at=START + timedelta(3))
        await tx.end_key("k1", revoked_at=START + timedelta(4))
        ended = (await tx.keys())[0].info
    assert (ended.expires_at, ended.revoked_at) == (START + timedelta(3), START + timedelta(4))


async def test_tokens_are_kept_and_revoked(store: SqlStore) -> None:
    """With bytes as bytes and scopes in their order."""
    row = TokenRow("t1", "ci", "editor", ("models", "tiers"), b"\x00\xff", b"\x01", START)
    async with store.write() as tx:
        await tx.add_token(row)
        assert await tx.tokens() == [row]
        await tx.revoke_token("t1", START + timedelta(1))
        assert await tx.tokens() == [replace(row, revoked_at=START + timedelta(1))]


async def test_a_secrets_values_are_replaced_as_a_whole(store: SqlStore) -> None:
    """A key that is not given again is gone; sealing again keeps the time of the change."""
    async with store.write() as tx:
        await tx.put_secret("s", {"a": b"1", "b": b"2"}, START)
        await tx.put_secret("s", {"a": b"3"}, START + timedelta(1))
        assert await tx.secrets() == [SealedSecret("s", "a", b"3", START + timedelta(1))]
        await tx.reseal([SealedSecret("s", "a", b"4", START + timedelta(9))])
        assert await tx.secrets() == [SealedSecret("s", "a", b"4", START + timedelta(1))]
        await tx.delete_secret("s")
        assert await tx.secrets() == []


async def test_audit_rows_get_their_ids_from_the_database(store: SqlStore) -> None:
    """Growing, newest first, a page at a time."""
    async with store.append() as tx:
        for number in range(3):
            await tx.add_audit(
                AuditEntry(0, START, "me", "admin", "::1", "put", f"Tier/{number}", None, "ok", "")
            )
    async with store.read() as reading:
        rows = await reading.audit(limit=2, before=None)
        assert [row.target for row in rows] == ["Tier/2", "Tier/1"]
        assert rows[0].id > rows[1].id
        assert [row.target for row in await reading.audit(limit=9, before=rows[1].id)] == ["Tier/0"]


async def test_purges_come_back_in_their_order(store: SqlStore) -> None:
    """All of them are written at once, in place of those before; moments are exact."""
    purges = [Purge(1893456000.123457, "tenant:a", "m", "v", "ab"), Purge(2.5), Purge(1.0, key_prefix="c")]
    for kept in (purges, purges[1:], []):
        async with store.write() as tx:
            await tx.put_purges(kept)
        async with store.read() as reading:
            assert await reading.purges() == kept
