"""The push stream over real gRPC."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
import structlog

from control_plane.push.admission import Admission, Pass
from control_plane.push.fleet import Fleet
from control_plane.push.questions import Questions
from control_plane.push.server import PushServer
from control_plane.push.views import EnvoyState, ReleaseCounts, Released, SidecarView
from control_plane.releases.counts import Counts
from ext_proc.contract import push_pb2
from ext_proc.contract.cache import CacheAnswer, CacheEntry, CacheQuestion
from ext_proc.contract.cache_wire import answer_message
from ext_proc.contract.snapshot import Backend, decode
from tests.contract.control_plane.push.conversation import Sidecar
from tests.unit.control_plane.push.scenes import policy

Connect = Callable[[], Sidecar]


@pytest.fixture
async def connect(fleet: Fleet, tmp_path: Path) -> AsyncIterator[Connect]:
    """Return what opens streams to a running server."""
    address = f"unix:{tmp_path / 'push.sock'}"
    server = PushServer(fleet, address, structlog.get_logger())
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield lambda: Sidecar(channel)
        await server.stop()


def view(fleet: Fleet, name: str) -> SidecarView:
    """Return what is shown of one sidecar."""
    return next(found for found in fleet.sidecars() if found.id == name)


async def until(condition: Callable[[], bool]) -> None:
    """Let the server's tasks run until `condition` holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - plain data has no event
            await asyncio.sleep(0)


async def test_hello_is_answered_by_the_snapshot_of_its_workload(connect: Connect, fleet: Fleet) -> None:
    """The acknowledgement is recorded."""
    fleet.publish(policy(2, of={"shop": "for-shop"}))
    await asyncio.sleep(0.06)  # the burst's pause
    sidecar = connect()
    await sidecar.hello("a", "shop")
    message = await sidecar.receive()
    assert message.revision == 2
    assert decode(message.content).backends == {"b": Backend("b", "http://provider/for-shop")}
    await sidecar.ack(message.version)
    await until(lambda: view(fleet, "a").in_force)


async def test_a_change_reaches_every_sidecar(connect: Connect, fleet: Fleet) -> None:
    """The first acknowledgement lets it go on to the other."""
    sidecars = [connect(), connect()]
    for index, sidecar in enumerate(sidecars):
        await sidecar.hello(str(index))
        await sidecar.ack((await sidecar.receive()).version)
    await until(lambda: all(found.in_force for found in fleet.sidecars()))
    fleet.publish(policy(2, "2"))

    async def follow(sidecar: Sidecar) -> int:
        message = await sidecar.receive()
        await sidecar.ack(message.version)
        return message.revision

    assert await asyncio.gather(*(follow(sidecar) for sidecar in sidecars)) == [2, 2]
    await until(lambda: all(found.in_force for found in fleet.sidecars()))


async def test_a_refusal_halts_the_revision(
    connect: Connect, fleet: Fleet, halted: list[tuple[int, str]]
) -> None:
    """It is shown with its reason, and the content not sent again, also not after a reconnect."""
    sidecar = connect()
    await sidecar.hello("a")
    await sidecar.ack((await sidecar.receive()).version)
    fleet.publish(policy(2, "2"))
    refused = await sidecar.receive()
    await sidecar.nack(refused.version, "cluster x: bad address")
    await until(lambda: bool(halted))
    assert halted == [(2, "cluster x: bad address")]
    assert view(fleet, "a").nack == "cluster x: bad address"
    sidecar.leave()
    again = connect()
    await again.hello("a")
    assert (await again.receive()).revision == 1
    fleet.publish(policy(3, "3"))
    assert (await again.receive()).revision == 3


async def test_what_a_sidecar_reports_is_shown(connect: Connect, fleet: Fleet) -> None:
    """Its Envoy, and how each version does."""
    sidecar = connect()
    await sidecar.hello("a")
    await sidecar.receive()
    await sidecar.say(push_pb2.Report(envoy=push_pb2.Envoy(state=push_pb2.Envoy.LIVE, version="1.40.0")))
    counted = push_pb2.VersionStatistics(model="m", version="v", calls=3, errors=1, duration={40: 2})
    statistics = push_pb2.Statistics(epoch="e", versions=[counted])
    await sidecar.say(push_pb2.Report(statistics=statistics))
    await until(lambda: view(fleet, "a").epoch == "e")
    shown = view(fleet, "a")
    assert (shown.envoy, shown.envoy_version) == (EnvoyState.LIVE, "1.40.0")
    assert [(item.model, item.calls, item.errors, item.duration) for item in shown.versions] == [
        ("m", 3, 1, {40: 2})
    ]


async def test_what_it_counted_of_releases_is_told_apart(connect: Connect, fleet: Fleet) -> None:
    """With the sidecar and its epoch, for whoever adds it up; and whether it obeys."""
    sidecar = connect()
    await sidecar.hello("a")
    pushed = await sidecar.receive()
    assert fleet.released() == [Released("a", "", ())]
    assert not fleet.obeyed()
    counted = push_pb2.VersionStatistics(release="r", version="v", calls=3, throttled=1)
    await sidecar.say(push_pb2.Report(statistics=push_pb2.Statistics(epoch="e", releases=[counted])))
    await sidecar.say(push_pb2.Report(ack=push_pb2.Ack(version=pushed.version)))
    await until(fleet.obeyed)
    assert fleet.released() == [Released("a", "e", (ReleaseCounts("r", "v", Counts(3, 1)),))]
    assert view(fleet, "a").versions == ()


async def test_a_sidecar_that_goes_is_marked_as_gone(connect: Connect, fleet: Fleet) -> None:
    """A broken stream is noticed without waiting for a push."""
    sidecar = connect()
    await sidecar.hello("a")
    await sidecar.receive()
    sidecar.leave()
    await until(lambda: not view(fleet, "a").connected)


async def test_a_second_connection_ends_the_first(connect: Connect) -> None:
    """One sidecar has one stream."""
    first, second = connect(), connect()
    await first.hello("a")
    await first.receive()
    await second.hello("a")
    assert (await second.receive()).revision == 1
    assert await first.code() is grpc.StatusCode.OK


@pytest.mark.parametrize("name", ["", None, "a\x1b[31m", "x" * 300])
async def test_a_stream_without_hello_is_refused(connect: Connect, name: str | None) -> None:
    """An acknowledgement first, or a name that can be none, is a broken subscriber's."""
    sidecar = connect()
    if name is None:
        await sidecar.ack("r1-x")
    else:
        await sidecar.hello(name)
    assert await sidecar.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_is_no_message_ends_that_stream_only(tmp_path: Path, fleet: Fleet) -> None:
    """Before and after Hello; others go on."""
    address = f"unix:{tmp_path / 'push.sock'}"
    server = PushServer(fleet, address, structlog.get_logger())
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        good = Sidecar(channel)
        await good.hello("good")
        await good.receive()
        connecting = channel.stream_stream("/outrigger.push.v1.PolicyPush/Connect")
        junk = connecting()
        await junk.write(b"\xff\xff\xff")
        assert await junk.code() is grpc.StatusCode.INVALID_ARGUMENT
        late = connecting()
        await late.write(push_pb2.Report(hello=push_pb2.Hello(subscriber_id="b")).SerializeToString())
        await late.read()
        await late.write(b"\xff\xff\xff")
        assert await late.code() is grpc.StatusCode.OK
        assert [found.id for found in fleet.sidecars() if found.connected] == ["good"]
    await server.stop()


class Tokens:
    """Who may join: the tokens in `good`. `broken` makes every question fail."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)
        self.broken = False
        self.sources: list[str] = []

    async def may_join(self, token: str, source: str) -> Pass | None:
        """Look the token up."""
        if self.broken:
            raise ConnectionError("the database is gone")
        self.sources.append(source)
        return Pass() if token in self.good else None


@pytest.fixture
def tokens() -> Tokens:
    """Return a gate that knows one token."""
    return Tokens("ort_good")


@pytest.fixture
async def guarded(fleet: Fleet, tokens: Tokens) -> AsyncIterator[str]:
    """Return the address of a server that asks for tokens."""
    log = structlog.get_logger()
    server = PushServer(fleet, "127.0.0.1:0", log, admission=Admission(tokens.may_join, log, 0.05))
    await server.start()
    yield f"127.0.0.1:{server.port}"
    await server.stop()


@pytest.mark.parametrize(
    "authorization", [None, "", "ort_good", "Bearer ", "Bearer ort_bad", "Basic ort_good"]
)
async def test_who_has_no_valid_token_is_sent_away(
    guarded: str, fleet: Fleet, authorization: str | None
) -> None:
    """All in the same words."""
    metadata = () if authorization is None else (("authorization", authorization),)
    async with grpc.aio.insecure_channel(guarded) as channel:
        sidecar = Sidecar(channel, metadata)
        assert await sidecar.code() is grpc.StatusCode.UNAUTHENTICATED
        assert (await sidecar.details()).startswith("a valid token of a sidecar is needed")
    assert fleet.sidecars() == []


async def test_a_revoked_token_ends_its_streams(guarded: str, fleet: Fleet, tokens: Tokens) -> None:
    """Those with another token go on; the address that a token came from is passed on at the door."""
    tokens.good.add("ort_other")
    async with grpc.aio.insecure_channel(guarded) as channel:
        leaves = Sidecar(channel, (("authorization", "Bearer ort_good"),))
        stays = Sidecar(channel, (("authorization", "bearer ort_other"),))
        for name, sidecar in (("leaves", leaves), ("stays", stays)):
            await sidecar.hello(name)
            await sidecar.receive()
        assert tokens.sources[0] == "127.0.0.1"
        tokens.good.remove("ort_good")
        assert await leaves.code() is grpc.StatusCode.UNAUTHENTICATED
        await until(lambda: not view(fleet, "leaves").connected)
        assert view(fleet, "stays").connected


async def test_when_tokens_cannot_be_checked_nobody_comes_in_or_is_cut(
    guarded: str, fleet: Fleet, tokens: Tokens
) -> None:
    """A database that is gone breaks no stream."""
    async with grpc.aio.insecure_channel(guarded) as channel:
        inside = Sidecar(channel, (("authorization", "Bearer ort_good"),))
        await inside.hello("inside")
        await inside.receive()
        tokens.broken = True
        outside = Sidecar(channel, (("authorization", "Bearer ort_unseen"),))
        assert await outside.code() is grpc.StatusCode.UNAVAILABLE
        await asyncio.sleep(0.15)  # several looks at the tokens in use
        assert view(fleet, "inside").connected


async def test_a_question_goes_down_and_its_answer_comes_up(fleet: Fleet, tmp_path: Path) -> None:
    """Beside snapshots, on the same stream; a sidecar that does not say that it understands is not asked."""
    questions = Questions(fleet, itertools.count(1).__next__)
    address = f"unix:{tmp_path / 'push.sock'}"
    server = PushServer(fleet, address, structlog.get_logger(), questions=questions)
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        old, new = Sidecar(channel), Sidecar(channel)
        await old.hello("old")
        await new.hello("new", answers=True)
        for sidecar in (old, new):
            await sidecar.ack((await sidecar.receive()).version)
        await new.say(push_pb2.Report(cache_statistics=push_pb2.CacheStatistics(hits=3)))
        await until(lambda: view(fleet, "new").cache.hits == 3)
        asking = asyncio.create_task(questions.ask(CacheQuestion(key_prefix="a")))
        asked = (await new.receive()).question
        assert asked.key_prefix == "a"
        answer = CacheAnswer((CacheEntry("ab", "memory", "m", "v", "t", 1.0, 2.0),))
        await new.say(push_pb2.Report(cache_answer=answer_message(answer, asked.id)))
        found = await asyncio.wait_for(asking, 5)
        assert [(kept.entry.key, kept.sidecars) for kept in found.answers] == [("ab", ("new",))]
        assert found.unanswered == ("old",)
        fleet.publish(policy(2, "2"))
        assert (await new.receive()).revision == 2
    await server.stop()
