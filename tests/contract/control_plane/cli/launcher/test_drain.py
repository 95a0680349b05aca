"""Draining the real Envoy."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from control_plane.cli.launcher.drain import drain_envoy
from tests.harness.processes import free_ports

HOST = "127.0.0.1"
ENVOY = str(Path(sys.executable).with_name("envoy"))

CONFIG = """
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
static_resources:
  listeners:
  - name: proxy
    address: {{socket_address: {{address: 127.0.0.1, port_value: {proxy}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: proxy
          route_config:
            virtual_hosts: [{{name: v, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: c}}}}]}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: c
    load_assignment:
      cluster_name: c
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {upstream}}}}}}}
"""  # noqa: E501 - type names are long


@dataclass
class Running:
    """A running Envoy before a provider that answers when it is told to."""

    admin_url: str
    proxy_port: int
    arrived: asyncio.Event
    answer: asyncio.Event


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """Return an Envoy that proxies to a server of the test's."""
    arrived, answer = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    upstream = await asyncio.start_server(serve, HOST, 0)
    ports = {
        "admin": free_ports(1)[0],
        "proxy": free_ports(1)[0],
        "upstream": upstream.sockets[0].getsockname()[1],
    }
    config = tmp_path / "envoy.yaml"
    config.write_text(CONFIG.format(**ports))
    process = await asyncio.create_subprocess_exec(
        ENVOY, "-c", str(config), "--concurrency", "1", "--disable-hot-restart", "-l", "error"
    )
    try:
        await _connected(ports["proxy"])
        yield Running(f"http://{HOST}:{ports['admin']}", ports["proxy"], arrived, answer)
    finally:
        process.kill()
        await process.wait()
        answer.set()
        upstream.close()


async def _connected(port: int) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection(HOST, port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return


async def _call(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    answer = await reader.readuntil(b"ok")
    writer.close()
    return answer


async def test_an_idle_envoy_is_drained_at_once_and_refuses_new_connections(running: Running) -> None:
    """Nothing new comes in once the stop has begun."""
    assert await drain_envoy(running.admin_url, 5)
    with pytest.raises(OSError, match=r"refused|failed|Connect"):
        await asyncio.open_connection(HOST, running.proxy_port)


async def test_a_request_in_flight_is_waited_for_and_whole(running: Running) -> None:
    """Its answer arrives, and asks the caller to close."""
    call = asyncio.create_task(_call(running.proxy_port))
    await running.arrived.wait()
    draining = asyncio.create_task(drain_envoy(running.admin_url, 10))
    done, _ = await asyncio.wait((draining,), timeout=0.5)
    assert not done
    running.answer.set()
    answer = await call
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer
    assert await draining


async def test_the_wait_has_a_limit(running: Running) -> None:
    """A stream of hours does not keep the mesh from stopping."""
    call = asyncio.create_task(_call(running.proxy_port))
    await running.arrived.wait()
    assert not await drain_envoy(running.admin_url, 0.5)
    running.answer.set()
    await call


async def test_a_dead_envoy_is_not_waited_for() -> None:
    """There is nothing in flight that could be saved."""
    assert not await drain_envoy(f"http://{HOST}:{free_ports(1)[0]}", 5)
