"""The ledger: a database that goes and comes back, and what other replicas do."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from control_plane.registry.errors import StorageFullError, StoreUnavailableError
from control_plane.registry.ledger import printable
from control_plane.registry.registry import Registry
from control_plane.registry.values import Head, StoreStatus
from control_plane.store.opening import store_for
from tests.harness.postgres import PostgresServer
from tests.harness.registries import ACTOR, START, FlakyStore, consumer, new_registry


@pytest.fixture
def flaky(tmp_path: Path) -> FlakyStore:
    """A store that fails when told to."""
    return FlakyStore(store_for(None, tmp_path))


@pytest.fixture
async def registry(flaky: FlakyStore, tmp_path: Path) -> AsyncIterator[Registry]:
    """An open registry over it."""
    registry = new_registry(flaky, tmp_path, poll_s=0.01)
    await registry.open()
    yield registry
    await registry.close()


async def until(registry: Registry, *, reachable: bool) -> StoreStatus:
    """Wait until the status says so."""
    async with asyncio.timeout(5):
        while registry.status().reachable != reachable:  # noqa: ASYNC110  # polled, as /readyz does
            await asyncio.sleep(0.005)
    return registry.status()


async def test_without_its_database_reads_go_on_and_changes_are_refused(
    registry: Registry, flaky: FlakyStore
) -> None:
    """The status says why and since when; it heals by itself; the log has a line for each, not one a poll."""
    await registry.apply([consumer("c", "t")], ACTOR)
    with capture_logs() as logs:
        flaky.failure = StoreUnavailableError("connection refused")
        status = await until(registry, reachable=False)
        assert status == StoreStatus(False, "connection refused", START, "sqlite")
        with pytest.raises(StoreUnavailableError, match="nothing was changed"):
            await registry.put("Consumer", "c", consumer("c", "u"), ACTOR)
        assert registry.head.documents.consumers["c"].tenant == "t"
        assert (await registry.apply([consumer("c", "u")], ACTOR, dry_run=True)).revision == 1
        await asyncio.sleep(0.05)
        flaky.failure = None
        assert await until(registry, reachable=True) == StoreStatus(True, "", None, "sqlite")
    assert [line["event"] for line in logs] == [
        "the database cannot be used; reads go on",
        "the database answers",
    ]
    assert (await registry.put("Consumer", "c", consumer("c", "u"), ACTOR)).stored.etag == '"r2"'


async def test_a_defect_does_not_end_the_following(flaky: FlakyStore, tmp_path: Path) -> None:
    """It is told, and the next change of another replica is seen."""
    writer, reader = (
        new_registry(store, tmp_path, poll_s=0.01) for store in (store_for(None, tmp_path), flaky)
    )
    await writer.open()
    await reader.open()
    heads: asyncio.Queue[Head] = asyncio.Queue()
    failing = True

    def listen(head: Head) -> None:
        heads.put_nowait(head)
        if failing:
            raise ZeroDivisionError

    reader.subscribe(listen)
    async with asyncio.timeout(5):
        with capture_logs() as logs:
            await writer.apply([consumer("c", "t")], ACTOR)
            await heads.get()
            failing = False
            await writer.apply([consumer("c", "u")], ACTOR)
            assert (await heads.get()).documents.consumers["c"].tenant == "u"
    assert [line["event"] for line in logs] == ["the database cannot be followed"]
    await asyncio.gather(writer.close(), reader.close())


async def test_a_full_disk_is_no_missing_database(registry: Registry, flaky: FlakyStore) -> None:
    """The status stays; the caller is told what to do."""
    flaky.failure = StorageFullError()
    with pytest.raises(StorageFullError, match="free some space"):
        await registry.apply([consumer()], ACTOR)
    assert registry.status().reachable


async def test_listeners_get_the_head_at_the_start_and_then_each_new_one(
    flaky: FlakyStore, tmp_path: Path
) -> None:
    """In order; what changes nothing in force tells nobody."""
    registry = new_registry(flaky, tmp_path, poll_s=0.01)
    heads: list[Head] = []
    registry.subscribe(heads.append)
    await registry.open()
    await registry.apply([consumer("c", "t")], ACTOR)
    await registry.apply([consumer("c", "t")], ACTOR)
    await registry.record(ACTOR, "login", "", outcome="refused")
    await registry.apply([consumer("c", "u")], ACTOR)
    await asyncio.sleep(0.05)
    assert [head.revision for head in heads] == [0, 1, 2]
    await registry.close()


async def test_closing_leaves_no_task(registry: Registry) -> None:
    """Whatever it was waiting for."""
    await registry.close()
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not names & {"store-watch", "store-poll"}


async def test_a_real_database_that_is_gone_for_a_while_is_followed_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """Two replicas; one writes as soon as the server is back, the other sees it."""
    url = postgres.new_database()
    writer, reader = (new_registry(store_for(url, tmp_path), tmp_path, poll_s=0.2) for _ in range(2))
    await asyncio.gather(writer.open(), reader.open())
    await writer.apply([consumer("c", "t")], ACTOR)
    await reader.refresh()
    try:
        await asyncio.to_thread(postgres.stop)
        await until(writer, reachable=False)
        with pytest.raises(StoreUnavailableError):
            await writer.apply([consumer("c", "u")], ACTOR)
        assert reader.head.documents.consumers["c"].tenant == "t"
    finally:
        await asyncio.to_thread(postgres.start)
    await until(writer, reachable=True)
    seen = asyncio.Event()
    reader.subscribe(lambda head: seen.set())
    await writer.apply([consumer("c", "u")], ACTOR)
    async with asyncio.timeout(5):
        await seen.wait()
    assert reader.head.documents.consumers["c"].tenant == "u"
    await asyncio.gather(writer.close(), reader.close())


async def test_a_change_reaches_another_replica_by_notify_long_before_the_poll(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """Within a second at the worst; here the poll would take a minute."""
    url = postgres.new_database()
    writer, reader = (new_registry(store_for(url, tmp_path), tmp_path, poll_s=60) for _ in range(2))
    await asyncio.gather(writer.open(), reader.open())
    seen = asyncio.Event()
    reader.subscribe(lambda head: seen.set())
    await asyncio.sleep(0.3)  # the listener connects in its own time
    await writer.apply([consumer("c", "u")], ACTOR)
    async with asyncio.timeout(1):
        await seen.wait()
    await asyncio.gather(writer.close(), reader.close())


def test_texts_of_rows_are_short_and_printable() -> None:
    """A log viewer or a terminal gets no control character."""
    assert printable("a\x00\n\x1b[31mé" + "z" * 2_000) == "a???[31mé" + "z" * 1_015
