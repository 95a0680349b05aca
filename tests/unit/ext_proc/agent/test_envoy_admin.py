"""How Envoy is, as its admin interface says; the contract tests ask the real one."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ext_proc.agent.envoy_admin import EnvoyAdmin
from ext_proc.contract import push_pb2
from ext_proc.settings import Address

VERSION = "c0ffee/1.40.0/Clean/RELEASE/BoringSSL"


class Admin:
    """An admin interface that says what it is told to, and counts how often it is asked for everything."""

    def __init__(self, state: str = "LIVE", version: str = VERSION) -> None:
        self.state = state
        self.asked = 0
        self._version = version

    async def ready(self, _: web.Request) -> web.Response:
        """Answer as Envoy does: anything but LIVE with 503."""
        return web.Response(status=200 if self.state == "LIVE" else 503, text=f"{self.state}\n")

    async def server_info(self, _: web.Request) -> web.Response:
        """Tell the version."""
        self.asked += 1
        return web.json_response({"version": self._version, "state": self.state})

    def server(self, port: int | None = None) -> TestServer:
        """Return what serves it."""
        app = web.Application()
        app.router.add_get("/ready", self.ready)
        app.router.add_get("/server_info", self.server_info)
        return TestServer(app, port=port)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("LIVE", push_pb2.Envoy.LIVE),
        ("DRAINING", push_pb2.Envoy.DRAINING),
        ("PRE_INITIALIZING", push_pb2.Envoy.WARMING),
        ("INITIALIZING", push_pb2.Envoy.WARMING),
        ("something new", push_pb2.Envoy.UNKNOWN),
    ],
)
async def test_what_envoy_says_of_itself(said: str, state: push_pb2.Envoy.State) -> None:
    """Whatever the status of its answer."""
    async with Admin(said).server() as server:
        admin = EnvoyAdmin(Address("127.0.0.1", server.port or 0))
        assert await admin.state() == push_pb2.Envoy(state=state, version="1.40.0")
        await admin.close()


async def test_the_version_is_asked_once_of_each_envoy() -> None:
    """It costs more than the state; after one that did not answer another may be there."""
    first, second = Admin(), Admin(version="c0ffee/1.41.0/Clean")
    async with first.server() as server:
        port = server.port or 0
        admin = EnvoyAdmin(Address("127.0.0.1", port))
        assert [(await admin.state()).version for _ in range(3)] == ["1.40.0"] * 3
    assert first.asked == 1
    assert await admin.state() == push_pb2.Envoy(state=push_pb2.Envoy.DEAD)
    async with second.server(port):
        assert (await admin.state()).version == "1.41.0"
    await admin.close()


async def test_a_version_that_cannot_be_read_is_none() -> None:
    """The state is told all the same."""
    async with Admin(version="").server() as server:
        admin = EnvoyAdmin(Address("127.0.0.1", server.port or 0))
        assert await admin.state() == push_pb2.Envoy(state=push_pb2.Envoy.LIVE)
        await admin.close()
