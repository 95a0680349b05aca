"""The subscriber's end of the push stream over real gRPC."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import structlog

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, encode
from ext_proc.push_client import PlainDial, PushClient, Pushed, UnusableError
from tests.contract.ext_proc.agent.sidecar import ControlPlane


async def listen(folder: Path) -> tuple[ControlPlane, grpc.aio.Server]:
    """Serve a control plane on `folder`/push.sock."""
    (folder / "push.sock").unlink(missing_ok=True)
    control_plane, server = ControlPlane(), grpc.aio.server()
    push_pb2_grpc.add_PolicyPushServicer_to_server(control_plane, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{folder}/push.sock")
    await server.start()
    return control_plane, server


@asynccontextmanager
async def client(
    folder: Path,
    take: Callable[[Pushed], None] | None = None,
    held: Snapshot | None = None,
) -> AsyncIterator[tuple[PushClient, asyncio.Queue[Snapshot]]]:
    """Run a client of `folder`/push.sock; the queue has what it was sent."""
    taken: asyncio.Queue[Snapshot] = asyncio.Queue()
    running = PushClient(
        PlainDial(f"unix:{folder}/push.sock"),
        lambda: push_pb2.Hello(subscriber_id="s", workload="w", in_force="0"),
        take or (lambda pushed: taken.put_nowait(pushed.snapshot)),
        jitter=lambda: 0.0,
        log=structlog.get_logger(),
        pause_max_s=5.0,
        held=lambda: held,
        standing=lambda: [push_pb2.Report(envoy=push_pb2.Envoy(version="1"))],
    )
    task = asyncio.create_task(running.run())
    try:
        yield running, taken
    finally:
        task.cancel()


async def test_snapshots_come_down_and_reports_go_up(tmp_path: Path) -> None:
    """The client says Hello first, hands on what is pushed, and sends acks and nacks."""
    control_plane, server = await listen(tmp_path)
    async with client(tmp_path) as (running, taken):
        await control_plane.push(Snapshot("1"))
        assert (await asyncio.wait_for(taken.get(), 5)).version == "1"
        assert (control_plane.hellos[0].subscriber_id, control_plane.hellos[0].in_force) == ("s", "0")
        running.acknowledge("1", "0")
        assert (await control_plane.told("ack", "1")).oldest_in_use == "0"
        running.refuse("2", "x" * 10_000)
        assert len((await control_plane.told("nack", "2")).reason) == 2_000
    await server.stop(0)


async def test_control_plane_may_come_late_and_go(tmp_path: Path) -> None:
    """A control plane that is not there yet, or comes again, is found; what it pushes then is taken."""
    async with client(tmp_path) as (_, taken):
        for version in ("1", "2"):
            control_plane, server = await listen(tmp_path)
            await control_plane.push(Snapshot(version))
            assert (await asyncio.wait_for(taken.get(), 10)).version == version
            await server.stop(0)


@pytest.mark.parametrize(
    "message",
    [
        push_pb2.Snapshot(content=b"{"),
        push_pb2.Snapshot(content=b"no zlib", encoding=push_pb2.ZLIB),
        push_pb2.Snapshot(content=zlib.compress(encode(Snapshot("")))[:-5], encoding=push_pb2.ZLIB),
        push_pb2.Snapshot(content=encode(Snapshot("")), encoding=7),  # type: ignore[arg-type]
        push_pb2.Snapshot(kept=True),
    ],
    ids=["no snapshot", "not packed", "cut off", "unknown packing", "nothing to keep"],
)
async def test_what_cannot_be_read_is_refused(tmp_path: Path, message: push_pb2.Snapshot) -> None:
    """It is not handed on, and the next one is taken."""
    control_plane, server = await listen(tmp_path)
    async with client(tmp_path) as (_, taken):
        message.version = "bad"
        control_plane.snapshot = message
        assert (await control_plane.told("nack", "bad")).reason
        assert taken.empty()
        await control_plane.push(Snapshot("good"))
        assert (await asyncio.wait_for(taken.get(), 5)).version == "good"
    await server.stop(0)


async def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Whoever takes it may say no, with a reason."""

    def take(pushed: Pushed) -> None:
        raise UnusableError("not with us")

    control_plane, server = await listen(tmp_path)
    async with client(tmp_path, take):
        await control_plane.push(Snapshot("1"))
        assert (await control_plane.told("nack", "1")).reason == "not with us"
    await server.stop(0)


async def test_a_packed_snapshot_comes_with_its_secrets(tmp_path: Path) -> None:
    """Version and revision are the message's; secrets show in no repr."""
    control_plane, server = await listen(tmp_path)
    came: asyncio.Queue[Pushed] = asyncio.Queue()
    async with client(tmp_path, came.put_nowait):
        control_plane.snapshot = push_pb2.Snapshot(
            version="r7-a",
            revision=7,
            encoding=push_pb2.ZLIB,
            content=zlib.compress(encode(Snapshot("", fail_open=False))),
            secrets=[push_pb2.Secret(name="openai", key="k", value=b"sk-1")],
        )
        pushed = await asyncio.wait_for(came.get(), 5)
        assert pushed.snapshot == Snapshot("r7-a", 7, fail_open=False)
        assert pushed.secrets == {("openai", "k"): b"sk-1"}
        assert "sk-1" not in repr(pushed)
    await server.stop(0)


async def test_what_is_held_need_not_be_sent_again(tmp_path: Path) -> None:
    """The client says so at each connect, and takes a message without content for what it holds."""
    control_plane, server = await listen(tmp_path)
    async with client(tmp_path, held=Snapshot("r1-a", 1, fail_open=False)) as (_, taken):
        control_plane.snapshot = push_pb2.Snapshot(version="r2-a", revision=2, kept=True)
        assert await asyncio.wait_for(taken.get(), 5) == Snapshot("r2-a", 2, fail_open=False)
        assert control_plane.hellos[0].keeps
        assert control_plane.hellos[0].accepts == [push_pb2.ZLIB]
    await server.stop(0)


async def test_each_connection_is_told_what_stands(tmp_path: Path) -> None:
    """A control plane that comes again knows as much as before."""
    async with client(tmp_path):
        for _ in range(2):
            control_plane, server = await listen(tmp_path)
            async with asyncio.timeout(10):
                while not control_plane.reports:  # noqa: ASYNC110 - the stand-in has no event for this
                    await asyncio.sleep(0.01)
            assert control_plane.reports[0].envoy.version == "1"
            await server.stop(0)
