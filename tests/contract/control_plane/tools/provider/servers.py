"""Providers over each of the four wires, and clients for them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import trustme

from control_plane.tools.provider import Provider, ProviderSettings, running_provider

WIRES = ("http1", "h2c", "tls-http1", "tls-h2")
CHAT = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}]}


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files of a server certificate, and a client context that trusts it."""

    cert: Path
    key: Path
    trust: ssl.SSLContext


@contextmanager
def certificates() -> Iterator[Certificates]:
    """Make a throw-away authority and a certificate for 127.0.0.1."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with TemporaryDirectory() as folder:
        cert, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(str(cert))
        issued.private_key_pem.write_to_path(str(key))
        yield Certificates(cert, key, trust)


@asynccontextmanager
async def served(wire: str, **settings: Any) -> AsyncIterator[tuple[Provider, httpx.AsyncClient]]:
    """Run a provider and a client that speaks `wire` to it; the client's base URL is the origin."""
    with certificates() as files:
        if wire.startswith("tls"):
            settings |= {"tls_cert": files.cert, "tls_key": files.key}
        http2 = wire.endswith(("h2", "h2c"))
        async with (
            running_provider(ProviderSettings(**settings)) as provider,
            httpx.AsyncClient(
                base_url=provider.origin,
                http1=not http2,
                http2=http2,
                verify=files.trust,
                trust_env=False,
                timeout=10,
            ) as client,
        ):
            yield provider, client


@asynccontextmanager
async def raw(provider: Provider) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a bare TCP connection to the provider."""
    reader, writer = await asyncio.open_connection("127.0.0.1", provider.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def exchanged(provider: Provider, data: bytes) -> bytes:
    """Send bytes and return all that comes until the provider closes (add `connection: close`)."""
    async with asyncio.timeout(5), raw(provider) as (reader, writer):
        writer.write(data)
        return await reader.read()
