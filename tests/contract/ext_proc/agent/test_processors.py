"""The processors' push server over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import structlog

from ext_proc.agent.processors import ProcessorPush
from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.cache import CacheQuestion
from ext_proc.contract.cache_wire import question_message
from ext_proc.contract.snapshot import Snapshot


class Tellings:
    """Keeps what is told of caches, in its order."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[tuple[str, int, object]] = asyncio.Queue()

    def counted(self, stream: int, statistics: push_pb2.CacheStatistics) -> None:
        """Keep statistics."""
        self.said.put_nowait(("counted", stream, statistics.hits))

    def answered(self, stream: int, answer: push_pb2.CacheAnswer) -> None:
        """Keep an answer."""
        self.said.put_nowait(("answered", stream, answer.id))

    def gone(self, stream: int) -> None:
        """Keep that one is gone."""
        self.said.put_nowait(("gone", stream, None))


class Findings:
    """Keeps what is found out of Releases' versions, in its order."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[tuple[str, int, object]] = asyncio.Queue()

    def counted(self, stream: int, comparisons: push_pb2.Comparisons) -> None:
        """Keep the numbers."""
        self.said.put_nowait(("counted", stream, [item.compared for item in comparisons.releases]))

    def gone(self, stream: int) -> None:
        """Keep that one is gone."""
        self.said.put_nowait(("gone", stream, None))


@asynccontextmanager
async def serving(
    folder: Path, tellings: Tellings | None = None, findings: Findings | None = None
) -> AsyncIterator[tuple[ProcessorPush, grpc.aio.Channel, asyncio.Queue[None]]]:
    """Serve processors on a socket; the queue has an item for each change of what they hold."""
    changes: asyncio.Queue[None] = asyncio.Queue()
    service = ProcessorPush(structlog.get_logger(), lambda: changes.put_nowait(None), tellings, findings)
    server = grpc.aio.server()
    push_pb2_grpc.add_PolicyPushServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{folder}/agent.sock")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{folder}/agent.sock") as channel:
        yield service, channel, changes
    await server.stop(0)


async def hello(
    channel: grpc.aio.Channel, in_force: str = "", *, answers: bool = False, hears: bool = False
) -> grpc.aio.StreamStreamCall:
    """Connect as a processor that has `in_force`."""
    stream = push_pb2_grpc.PolicyPushStub(channel).Connect()  # type: ignore[no-untyped-call]
    said = push_pb2.Hello(subscriber_id="p", in_force=in_force, answers=answers, hears=hears)
    await stream.write(push_pb2.Report(hello=said))
    return stream


async def acknowledge(stream: grpc.aio.StreamStreamCall, version: str, oldest: str) -> None:
    """Send an Ack."""
    await stream.write(push_pb2.Report(ack=push_pb2.Ack(version=version, oldest_in_use=oldest)))


async def next_version(stream: grpc.aio.StreamStreamCall) -> str:
    """Return the version of the next snapshot that is pushed."""
    return str((await asyncio.wait_for(stream.read(), 5)).version)


async def test_all_processors_get_what_is_published(tmp_path: Path) -> None:
    """Those connected and those that come later are sent the snapshot; `taken` waits for all of them."""
    async with serving(tmp_path) as (service, channel, _):
        await service.taken("1")  # nobody is there
        early = await hello(channel)
        service.publish(Snapshot("1"))
        assert await next_version(early) == "1"
        late = await hello(channel, in_force="1")
        assert await next_version(late) == "1"
        waiting = asyncio.create_task(service.taken("1"))
        await acknowledge(early, "1", "1")
        await acknowledge(late, "1", "1")
        await asyncio.wait_for(waiting, 5)


async def test_held_versions_follow_the_reports(tmp_path: Path) -> None:
    """What a processor still decides by is held until it says otherwise or goes away."""
    async with serving(tmp_path) as (service, channel, changes):
        service.publish(Snapshot("2"))
        stream = await hello(channel, in_force="1")
        assert await next_version(stream) == "2"
        assert service.held() == {"1"}
        for version, oldest, held in (("2", "1", {"1", "2"}), ("2", "2", {"2"})):
            await acknowledge(stream, version, oldest)
            await asyncio.wait_for(changes.get(), 5)
            assert service.held() == held
        stream.cancel()
        await asyncio.wait_for(changes.get(), 5)
        assert service.held() == set()


async def test_a_refusal_is_told_at_once(tmp_path: Path) -> None:
    """Nobody waits for the others; whoever refuses keeps holding the one before, and takes the next."""
    async with serving(tmp_path) as (service, channel, _):
        service.publish(Snapshot("2"))
        stream = await hello(channel, in_force="1")
        assert await next_version(stream) == "2"
        waiting = asyncio.create_task(service.taken("2"))
        await hello(channel, in_force="1")
        await stream.write(push_pb2.Report(nack=push_pb2.Nack(version="2", reason="cannot")))
        assert await asyncio.wait_for(waiting, 5) == "p: cannot"
        assert service.held() == {"1"}
        service.publish(Snapshot("3"))
        assert await next_version(stream) == "3"


async def test_what_is_withdrawn_is_pushed_to_nobody(tmp_path: Path) -> None:
    """Not to a processor that comes later either."""
    async with serving(tmp_path) as (service, channel, _):
        service.publish(Snapshot("1"))
        service.withdraw()
        stream = await hello(channel)
        service.publish(Snapshot("2"))
        assert await next_version(stream) == "2"


async def test_stranger_is_refused(tmp_path: Path) -> None:
    """A stream that does not begin with Hello is ended with INVALID_ARGUMENT."""
    async with serving(tmp_path) as (_, channel, _):
        stream = push_pb2_grpc.PolicyPushStub(channel).Connect()  # type: ignore[no-untyped-call]
        await acknowledge(stream, "1", "1")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asyncio.wait_for(stream.read(), 5)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_questions_go_to_those_that_understand_them(tmp_path: Path) -> None:
    """What they tell is handed on with the stream it came by, and so is their end."""
    tellings = Tellings()
    async with serving(tmp_path, tellings) as (service, channel, _):
        service.publish(Snapshot("1"))
        old, new = await hello(channel), await hello(channel, answers=True)
        assert await next_version(old) == await next_version(new) == "1"
        (stream,) = service.ask(question_message(CacheQuestion(), 7))
        assert (await asyncio.wait_for(new.read(), 5)).question.id == 7
        await new.write(push_pb2.Report(cache_answer=push_pb2.CacheAnswer(id=7)))
        await new.write(push_pb2.Report(cache_statistics=push_pb2.CacheStatistics(hits=3)))
        said = [await asyncio.wait_for(tellings.said.get(), 5) for _ in range(2)]
        assert said == [("answered", stream, 7), ("counted", stream, 3)]
        new.cancel()
        assert await asyncio.wait_for(tellings.said.get(), 5) == ("gone", stream, None)
        service.publish(Snapshot("2"))
        assert await next_version(old) == "2"


async def test_attempts_are_told_to_those_who_hear(tmp_path: Path) -> None:
    """An older processor would take it for a snapshot."""
    async with serving(tmp_path) as (service, channel, _):
        service.publish(Snapshot("1"))
        deaf, hearing = await hello(channel), await hello(channel, hears=True)
        assert [await next_version(stream) for stream in (deaf, hearing)] == ["1", "1"]
        service.tell(push_pb2.Snapshot(attempt=push_pb2.Attempt(backend="openai", status=429)))
        assert (await asyncio.wait_for(hearing.read(), 5)).attempt.backend == "openai"
        service.publish(Snapshot("2"))
        assert await next_version(deaf) == "2"


async def test_what_is_found_out_of_versions_is_handed_on(tmp_path: Path) -> None:
    """With the stream that it came by, and so is that stream's end."""
    findings = Findings()
    async with serving(tmp_path, findings=findings) as (service, channel, _):
        service.publish(Snapshot("1"))
        stream = await hello(channel)
        assert await next_version(stream) == "1"
        releases = [push_pb2.Comparison(release="r", compared=3)]
        await stream.write(push_pb2.Report(comparisons=push_pb2.Comparisons(epoch="e", releases=releases)))
        assert await asyncio.wait_for(findings.said.get(), 5) == ("counted", 1, [3])
        stream.cancel()
        assert await asyncio.wait_for(findings.said.get(), 5) == ("gone", 1, None)
