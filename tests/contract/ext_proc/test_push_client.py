"""The subscriber's end of the push stream over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import structlog

from ext_proc.contract import push_pb2, push_pb2_grpc
from ext_proc.contract.snapshot import Snapshot, encode
from ext_proc.push_client import PushClient
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
async def client(folder: Path) -> AsyncIterator[tuple[PushClient, asyncio.Queue[Snapshot]]]:
    """Run a client of `folder`/push.sock; the queue has what it was sent."""
    taken: asyncio.Queue[Snapshot] = asyncio.Queue()
    running = PushClient(
        f"unix:{folder}/push.sock",
        lambda: push_pb2.Hello(subscriber_id="s", workload="w", in_force="0"),
        taken.put_nowait,
        jitter=lambda: 0.0,
        log=structlog.get_logger(),
        pause_max_s=5.0,
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


async def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Content that is no snapshot, or is of another version than said, is refused and not handed on."""
    control_plane, server = await listen(tmp_path)
    async with client(tmp_path) as (_, taken):
        for content in (b"{", encode(Snapshot("other"))):
            control_plane.snapshot = push_pb2.Snapshot(version=f"bad-{len(content)}", content=content)
            await control_plane.announce()
            assert (await control_plane.told("nack", f"bad-{len(content)}")).reason
        assert taken.empty()
    await server.stop(0)
