"""The controller's own port over real HTTP."""

from __future__ import annotations

import asyncio

from aiohttp.test_utils import TestClient, TestServer

from control_plane.controller.health import HEARD_WITHIN_S, MAX_CONNECTIONS, Health
from control_plane.controller.metrics import Metrics


async def test_ready_is_who_has_heard_of_the_api_server() -> None:
    """Not before, not long after; alive all the time."""
    time = [0.0]
    health = Health(lambda: time[0], Metrics().text)
    async with TestClient(TestServer(health.application())) as client:
        assert (await client.get("/readyz")).status == 503
        health.heard()
        assert (await client.get("/readyz")).status == 200
        time[0] = HEARD_WITHIN_S
        assert (await client.get("/readyz")).status == 503
        assert (await client.get("/healthz")).status == 200
        assert "outrigger_controller_leads" in await (await client.get("/metrics")).text()


async def test_it_serves_until_it_is_stopped() -> None:
    """On the address that it is given, which is free again afterwards."""
    health = Health(lambda: 0.0, bytes)
    for _ in range(2):
        await health.start("127.0.0.1", 0)
        await health.stop()


async def test_silent_connections_do_not_keep_the_kubelet_out() -> None:
    """The oldest gives way to a new one."""
    health = Health(lambda: 0.0, bytes)
    await health.start("127.0.0.1", 0)
    held = [await asyncio.open_connection("127.0.0.1", health.port) for _ in range(MAX_CONNECTIONS)]
    assert await asked(health.port) == b"HTTP/1.1 200 OK"
    assert await asyncio.wait_for(held[0][0].read(), 5) == b""
    for reader, writer in held[1:]:
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    for _, writer in held:
        writer.close()
    await health.stop()


async def test_no_connection_is_kept_for_long() -> None:
    """Neither one that never asked, nor one that did."""
    health = Health(lambda: 0.0, bytes, max_age_s=0.05)
    await health.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", health.port)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await health.stop()


async def asked(port: int) -> bytes:
    """Return the first line of the answer to a probe."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return answer.partition(b"\r\n")[0]
