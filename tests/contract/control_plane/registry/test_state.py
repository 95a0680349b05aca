"""How a replica's memory follows the database."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.registry.errors import SecretKeyError, StoreOpenError
from control_plane.registry.planning import parse_all, plan_change
from control_plane.registry.ports import DocumentVersion, Positions
from control_plane.registry.state import State, documents_changed, load, refreshed, renumbered
from control_plane.registry.values import ChangeAction, ConsumerKeyInfo, Head, KeyRow, Revision
from control_plane.secrets.fernet import FernetSealer
from control_plane.secrets.key_source import KeyFile
from control_plane.store.sql_store import SqlStore
from tests.harness.registries import START, consumer


@pytest.fixture
def sealer(tmp_path: Path) -> FernetSealer:
    """A sealer with a key of its own."""
    return FernetSealer(KeyFile(tmp_path / "secret.key", os.urandom))


async def write(store: SqlStore, number: int, content: bytes | None) -> None:
    """Have another replica make a Consumer of `content`, or delete it."""
    async with store.write() as tx:
        version = DocumentVersion("Consumer", "c", number, ChangeAction.UPDATE, content, START)
        await tx.add_revision(Revision(number, START, "other", "", "put"), [version], of_documents=True)
        await tx.bump(["revisions"])


def content(tenant: str) -> bytes:
    """Return a Consumer's content."""
    return b'{"kind":"Consumer","metadata":{"name":"c"},"spec":{"tenant":"%s"}}' % tenant.encode()


async def test_nothing_new_is_the_same_object(store: SqlStore, sealer: FernetSealer) -> None:
    """Which is how a poll costs one query."""
    async with store.read() as reading:
        state = await load(reading, sealer, "ab")
        assert await refreshed(state, reading, sealer) is state
    assert state.head.key_salt == "ab"


async def test_only_what_changed_is_read_again(store: SqlStore, sealer: FernetSealer) -> None:
    """What did not change stays the object it was."""
    await write(store, 1, content("t"))
    async with store.read() as reading:
        first = await load(reading, sealer, "")
    async with store.write() as tx:
        await tx.add_key(KeyRow(ConsumerKeyInfo("k", "c", "", START), "d"))
        await tx.bump(["keys"])
        second = await refreshed(first, tx, sealer)
    assert second.head.documents is first.head.documents
    assert list(second.in_force.consumer_keys) == ["d"]


async def test_a_document_that_this_build_refuses_holds_back_no_key(
    store: SqlStore, sealer: FernetSealer
) -> None:
    """The last documents that were understood stay; the reason is there; later it heals."""
    await write(store, 1, content("t"))
    async with store.read() as reading:
        state = await load(reading, sealer, "")
    await write(store, 2, content("t").replace(b"tenant", b"tenure"))
    async with store.write() as tx:
        await tx.add_key(KeyRow(ConsumerKeyInfo("k", "c", "", START), "d"))
        await tx.bump(["keys"])
    async with store.read() as reading:
        state = await refreshed(state, reading, sealer)
        assert "Consumer/c" in state.unread["revisions"]
        assert state.head.documents.consumers["c"].tenant == "t"
        assert list(state.in_force.consumer_keys) == ["d"]
        with pytest.raises(StoreOpenError, match="this build refuses the documents in the database"):
            await load(reading, sealer, "")
    await write(store, 3, content("u"))
    async with store.read() as reading:
        state = await refreshed(state, reading, sealer)
    assert not state.unread
    assert (state.head.revision, state.head.documents.consumers["c"].tenant) == (3, "u")


async def test_a_secret_that_does_not_open_holds_back_nothing(
    store: SqlStore, sealer: FernetSealer, tmp_path: Path
) -> None:
    """But a replica does not start with it."""
    async with store.read() as reading:
        state = await load(reading, sealer, "")
    other = FernetSealer(KeyFile(tmp_path / "other.key", os.urandom))
    async with store.write() as tx:
        await tx.put_secret("s", {"k": other.seal("s", "k", b"v")}, START)
        await tx.bump(["secrets"])
    await write(store, 1, content("t"))
    async with store.read() as reading:
        state = await refreshed(state, reading, sealer)
        assert "another key" in state.unread["secrets"]
        assert state.head.revision == 1
        with pytest.raises(SecretKeyError):
            await load(reading, sealer, "")
        assert (await load(reading, other, "")).head.secrets == {("s", "k"): b"v"}


async def test_another_database_in_its_place_is_read_from_the_start(
    store: SqlStore, sealer: FernetSealer
) -> None:
    """A backup was put back: it has fewer revisions than are known."""
    await write(store, 1, content("t"))
    async with store.read() as reading:
        state = await load(reading, sealer, "")
        late = replace(state, positions=Positions(9, 9, 9, 9), epochs=replace(state.epochs, revisions=77))
        found = await refreshed(late, reading, sealer)
    assert (found.head.revision, found.head.documents.consumers["c"].tenant) == (1, "t")
    assert found.head == state.head


def test_a_plan_becomes_the_head_and_is_in_force() -> None:
    """A later revision without documents renumbers both heads and keeps them apart."""
    state = documents_changed(State(), plan_change(Head(0), parse_all([consumer()])), 4, START)
    assert state.head is state.in_force
    assert state.head.stored["Consumer", "c"].revision == 4
    halted = replace(state, in_force=Head(3))
    again = renumbered(halted, 5)
    assert (again.head.revision, again.in_force.revision, dict(again.in_force.stored)) == (5, 5, {})
    assert again.positions == Positions(5, 5, 4, 4)
