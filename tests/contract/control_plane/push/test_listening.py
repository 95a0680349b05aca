"""Where the push stream is listened on, with real sockets and certificates."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
import structlog
import trustme

from control_plane.push.fleet import Fleet
from control_plane.push.listening import PushAddressError
from control_plane.push.server import PushServer
from control_plane.settings import PushTls
from ext_proc.agent.dial import ControlPlaneDial
from ext_proc.push_client import CHANNEL_OPTIONS
from ext_proc.settings import Joining
from tests.contract.control_plane.push.conversation import Sidecar


async def test_an_address_in_use_is_told_in_a_sentence(fleet: Fleet) -> None:
    """The message says which option to change."""
    first = PushServer(fleet, "127.0.0.1:0", structlog.get_logger())
    await first.start()
    second = PushServer(fleet, f"127.0.0.1:{first.port}", structlog.get_logger())
    with pytest.raises(PushAddressError, match="--push-address"):
        await second.start()
    await first.stop()


async def test_a_dead_predecessors_socket_is_no_obstacle(fleet: Fleet, tmp_path: Path) -> None:
    """After kill -9 the socket file is still there."""
    (tmp_path / "push.sock").touch()
    server = PushServer(fleet, f"unix:{tmp_path / 'push.sock'}", structlog.get_logger())
    await server.start()
    await server.stop()


class Certificates:
    """A certificate of the server and one of a sidecar, of two authorities, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client_authority = trustme.CA()
        self.client_authority.cert_pem.write_to_path(folder / "client-ca.pem")
        client = self.client_authority.issue_cert("sidecar")
        client.private_key_pem.write_to_path(folder / "client.key")
        client.cert_chain_pems[0].write_to_path(folder / "client.pem")
        self.renew()

    def renew(self) -> None:
        """Replace the server's certificate by one of another authority."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "ca.pem")
        server = authority.issue_cert("localhost")
        server.private_key_pem.write_to_path(self.folder / "server.key")
        server.cert_chain_pems[0].write_to_path(self.folder / "server.pem")

    def tls(self, *, mutual: bool = True) -> PushTls:
        """Return the server's settings."""
        client_ca = self.folder / "client-ca.pem" if mutual else None
        return PushTls(self.folder / "server.pem", self.folder / "server.key", client_ca)

    def joining(self, *, mutual: bool = True) -> Joining:
        """Return a sidecar's settings."""
        certificate = (self.folder / "client.pem", self.folder / "client.key") if mutual else (None, None)
        return Joining(self.folder / "ca.pem", *certificate)


async def joined(port: int, joining: Joining) -> grpc.StatusCode | None:
    """Connect as an agent does; return None when a snapshot comes, else how the stream ended."""
    dial = ControlPlaneDial(f"localhost:{port}", joining, {}, structlog.get_logger())
    async with dial.channel(CHANNEL_OPTIONS) as channel:
        sidecar = Sidecar(channel, dial.metadata())
        try:
            await sidecar.hello("a")
            await sidecar.receive()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return await sidecar.code()
        return None


async def test_the_stream_is_secured_both_ways(fleet: Fleet, tmp_path: Path) -> None:
    """A sidecar without a certificate, or in clear, does not come in."""
    files = Certificates(tmp_path)
    server = PushServer(fleet, "127.0.0.1:0", structlog.get_logger(), tls=files.tls())
    await server.start()
    assert await joined(server.port, files.joining()) is None
    assert await joined(server.port, files.joining(mutual=False)) is grpc.StatusCode.UNAVAILABLE
    assert await joined(server.port, Joining()) is grpc.StatusCode.UNAVAILABLE
    await server.stop()


async def test_a_renewed_certificate_is_served_to_the_next_connection(fleet: Fleet, tmp_path: Path) -> None:
    """Neither side starts anew; files that are gone for a moment change nothing."""
    files = Certificates(tmp_path)
    server = PushServer(fleet, "127.0.0.1:0", structlog.get_logger(), tls=files.tls(mutual=False))
    await server.start()
    files.renew()
    assert await joined(server.port, files.joining(mutual=False)) is None
    (tmp_path / "server.pem").rename(tmp_path / "away.pem")
    assert await joined(server.port, files.joining(mutual=False)) is None
    await server.stop()


async def test_a_certificate_that_is_not_there_is_told_in_a_sentence(fleet: Fleet, tmp_path: Path) -> None:
    """The message names the file and the options."""
    tls = PushTls(tmp_path / "none.pem", tmp_path / "none.key")
    server = PushServer(fleet, "127.0.0.1:0", structlog.get_logger(), tls=tls)
    with pytest.raises(PushAddressError, match=r"none\.key.*--push-cert"):
        await server.start()
