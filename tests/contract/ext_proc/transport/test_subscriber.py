"""The processor's end of the push stream, against a real server of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
import structlog

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.cache import CacheAnswer, CacheEntry, CacheQuestion, CacheStatistics
from ext_proc.contract.cache_wire import question_message
from ext_proc.contract.comparisons import Comparison, Likeness
from ext_proc.contract.snapshot import Snapshot, encode
from ext_proc.release_tally import ReleaseTally
from ext_proc.snapshots import SnapshotHolder
from ext_proc.transport.subscriber import CacheView, Subscriber
from tests.unit.ext_proc.exchanges import snapshot


class Agent(push_pb2_grpc.PolicyPushServicer):
    """Pushes what it is given and keeps what it hears."""

    def __init__(self) -> None:
        self.to_push: asyncio.Queue[push_pb2.Snapshot] = asyncio.Queue()
        self.heard: asyncio.Queue[push_pb2.Report] = asyncio.Queue()

    async def Connect(
        self, reports: AsyncIterator[push_pb2.Report], context: object
    ) -> AsyncIterator[push_pb2.Snapshot]:
        """Serve one processor."""

        async def listen() -> None:
            async for report in reports:
                self.heard.put_nowait(report)

        listening = asyncio.create_task(listen())
        try:
            while True:
                yield await self.to_push.get()
        finally:
            listening.cancel()

    async def next(self) -> push_pb2.Report:
        """Return what it hears next."""
        return await asyncio.wait_for(self.heard.get(), 10)

    def push(self, pushed: Snapshot) -> None:
        """Push a snapshot."""
        self.to_push.put_nowait(push_pb2.Snapshot(version=pushed.version, content=encode(pushed)))


@asynccontextmanager
async def serving(agent: Agent, socket: Path) -> AsyncIterator[None]:
    """Serve `agent` at `socket`."""
    server = grpc.aio.server()
    push_pb2_grpc.add_PolicyPushServicer_to_server(agent, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    yield
    await server.stop(0)


@asynccontextmanager
async def subscribed(
    socket: Path,
    cache: CacheView | None = None,
    comparisons: Callable[[], Mapping[str, Comparison]] | None = None,
) -> AsyncIterator[tuple[SnapshotHolder, list[str]]]:
    """Run a subscriber; yield its holder and the versions that it put in force."""
    holder, switched = SnapshotHolder(), []
    subscriber = Subscriber(
        f"unix:{socket}",
        "p",
        holder,
        lambda taken: switched.append(taken.version),
        jitter=lambda: 0.0,
        log=structlog.get_logger(),
        cache=cache,
        epoch="e",
        comparisons=comparisons,
    )
    task = asyncio.create_task(subscriber.run())
    yield holder, switched
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path short enough for a Unix socket."""
    with TemporaryDirectory(prefix="or-") as folder:
        yield Path(folder) / "a.sock"


async def test_a_snapshot_is_put_in_force_and_acknowledged(socket: Path) -> None:
    """Hello first, then one Ack a switch; what an exchange holds is told until it lets go."""
    agent = Agent()
    async with serving(agent, socket), subscribed(socket) as (holder, switched):
        assert (await agent.next()).hello.subscriber_id == "p"
        agent.push(snapshot(version="1"))
        assert (await agent.next()).ack == push_pb2.Ack(version="1", oldest_in_use="1")
        held = holder.acquire()
        assert held is not None
        agent.push(snapshot(version="2"))
        assert (await agent.next()).ack == push_pb2.Ack(version="2", oldest_in_use="1")
        holder.release(held)
        assert (await agent.next()).ack == push_pb2.Ack(version="2", oldest_in_use="2")
        assert switched == ["1", "2"]


async def test_what_cannot_be_read_is_refused_and_the_old_stays(socket: Path) -> None:
    """A Nack with the reason; the next good one is taken."""
    agent = Agent()
    async with serving(agent, socket), subscribed(socket) as (holder, switched):
        await agent.next()
        agent.push(snapshot(version="1"))
        await agent.next()
        agent.to_push.put_nowait(push_pb2.Snapshot(version="2", content=b"{}"))
        refused = (await agent.next()).nack
        assert refused.version == "2"
        assert "cannot read" in refused.reason
        assert holder.oldest_in_use() == "1"
        agent.push(snapshot(version="3"))
        assert (await agent.next()).ack.version == "3"
        assert switched == ["1", "3"]


async def test_it_comes_back_to_an_agent_that_was_away(socket: Path) -> None:
    """Nothing changes while the agent is gone; Hello then says what is in force."""
    agent = Agent()
    async with subscribed(socket) as (holder, switched):
        async with serving(agent, socket):
            await agent.next()
            agent.push(snapshot(version="1"))
            await agent.next()
        assert holder.oldest_in_use() == "1"
        agent = Agent()
        async with serving(agent, socket):
            assert (await agent.next()).hello.in_force == "1"
            agent.push(snapshot(version="1"))
            assert (await agent.next()).ack.version == "1"
        assert switched == ["1"]


class Kept:
    """A cache with one answer, whose hits the test counts."""

    def __init__(self) -> None:
        self.hits = 0
        self.broken = False
        self.asked: list[CacheQuestion] = []

    def statistics(self) -> CacheStatistics:
        """Return what it did."""
        if self.broken:
            raise ValueError("cannot convert float NaN to integer")
        return CacheStatistics(hits=self.hits)

    def entries(self, question: CacheQuestion) -> CacheAnswer:
        """Return what it keeps."""
        self.asked.append(question)
        return CacheAnswer((CacheEntry("ab", "memory", "m", "v", "t", 1.0, 2.0),))


async def test_a_question_about_the_cache_is_answered(socket: Path) -> None:
    """It is no snapshot: nothing is acknowledged. Hello says that there is an answer."""
    agent, kept = Agent(), Kept()
    async with serving(agent, socket), subscribed(socket, kept) as (_, switched):
        assert (await agent.next()).hello.answers
        assert (await agent.next()).cache_statistics.epoch == "e"
        question = CacheQuestion(key_prefix="a", bodies=True)
        agent.to_push.put_nowait(question_message(question, 7))
        answer = (await agent.next()).cache_answer
        assert (answer.id, [entry.key for entry in answer.entries]) == (7, ["ab"])
        assert kept.asked == [question]
        assert switched == []


async def test_statistics_of_the_cache_are_told_when_they_change(socket: Path) -> None:
    """And at each connection, whatever was told before."""
    agent, kept = Agent(), Kept()
    async with subscribed(socket, kept):
        async with serving(agent, socket):
            await agent.next()
            assert (await agent.next()).cache_statistics.hits == 0
            kept.hits = 3
            assert (await agent.next()).cache_statistics.hits == 3
        agent = Agent()
        async with serving(agent, socket):
            await agent.next()
            assert (await agent.next()).cache_statistics.hits == 3


async def test_what_is_found_out_of_versions_is_told_when_there_is_more(socket: Path) -> None:
    """With the epoch that it was counted in, and all of it at each connection."""
    agent, tally = Agent(), ReleaseTally()
    async with subscribed(socket, Kept(), lambda: tally.comparisons):
        async with serving(agent, socket):
            await agent.next()
            assert (await agent.next()).cache_statistics.epoch == "e"
            tally.add("r", Comparison(likeness=Likeness(compared=2)))
            told = (await agent.next()).comparisons
            assert (told.epoch, [item.compared for item in told.releases]) == ("e", [2])
        agent = Agent()
        async with serving(agent, socket):
            kinds = [(await agent.next()).WhichOneof("kind") for _ in range(3)]
            assert kinds == ["hello", "cache_statistics", "comparisons"]


async def test_statistics_that_cannot_be_told_end_nothing(socket: Path) -> None:
    """Policy goes on to be followed, and once they can be told again they are; it is logged once."""
    agent, kept = Agent(), Kept()
    kept.broken = True
    with structlog.testing.capture_logs() as logged:
        async with serving(agent, socket), subscribed(socket, kept):
            await agent.next()
            await asyncio.sleep(2.2)
            agent.push(snapshot(version="1"))
            assert (await agent.next()).ack.version == "1"
            kept.hits, kept.broken = 3, False
            assert (await agent.next()).cache_statistics.hits == 3
    assert [line["event"] for line in logged].count("the statistics of the cache cannot be told") == 1


async def test_without_a_cache_nothing_is_told_of_it(socket: Path) -> None:
    """An agent asks nobody who does not say that he answers."""
    agent = Agent()
    async with serving(agent, socket), subscribed(socket):
        assert not (await agent.next()).hello.answers
        agent.to_push.put_nowait(question_message(CacheQuestion(), 7))
        agent.push(snapshot(version="1"))
        assert (await agent.next()).ack.version == "1"


async def test_a_cache_that_cannot_be_looked_at_ends_nothing(socket: Path) -> None:
    """It is said that the answer is not whole, and policy is followed on."""

    class Broken(Kept):
        """A defect."""

        def entries(self, question: CacheQuestion) -> CacheAnswer:
            """Fail."""
            raise RuntimeError

    agent = Agent()
    async with serving(agent, socket), subscribed(socket, Broken()):
        await agent.next()
        await agent.next()
        agent.to_push.put_nowait(question_message(CacheQuestion(), 7))
        assert (await agent.next()).cache_answer == push_pb2.CacheAnswer(id=7, partial=True)
        agent.push(snapshot(version="1"))
        assert (await agent.next()).ack.version == "1"
