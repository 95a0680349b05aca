"""Connections: counted, charged for, and closed."""

from __future__ import annotations

import asyncio
import json
import time

import httpx

from control_plane.tools.provider import ProviderSettings, running_provider
from tests.contract.control_plane.tools.provider.servers import CHAT, certificates, exchanged, raw, served

PATH = "/v1/chat/completions"


async def test_a_new_connection_costs_and_a_kept_one_does_not() -> None:
    """The handshake is charged once a connection."""
    async with served("tls-http1", tls_handshake_ms=500) as (_, http):
        elapsed = []
        for _ in range(2):
            before = time.monotonic()
            await http.get("/v1/models")
            elapsed.append(time.monotonic() - before)
    assert elapsed[0] >= 0.5
    assert elapsed[1] < 0.5


async def test_alpn_chooses() -> None:
    """A client that offers both gets HTTP/2, one that offers only 1.1 gets that."""
    with certificates() as files:
        settings = ProviderSettings(tls_cert=files.cert, tls_key=files.key)
        async with running_provider(settings) as provider:
            for http2, version in ((True, "HTTP/2"), (False, "HTTP/1.1")):
                async with httpx.AsyncClient(http2=http2, verify=files.trust, trust_env=False) as http:
                    assert (await http.get(f"{provider.url}/models")).http_version == version


async def test_clear_text_on_a_tls_port() -> None:
    """A failed handshake is counted and disturbs nobody."""
    async with served("tls-http1") as (provider, http), asyncio.timeout(5):
        async with raw(provider) as (_, writer):
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await provider.observations.until(lambda seen: seen.tls_failures == 1)
        assert (await http.get("/v1/models")).status_code == 200


async def test_idle_connections_are_seen() -> None:
    """A connection that was opened ahead counts before any request, and until it is closed."""
    async with served("http1") as (provider, _), asyncio.timeout(5):
        async with raw(provider):
            await provider.observations.until(lambda seen: len(seen.open_connections) == 1)
            assert provider.observations.as_json()["connections"]["list"][0]["requests"] == 0
        await provider.observations.until(lambda seen: not seen.open_connections)
        assert provider.observations.opened == 1


async def test_many_at_once() -> None:
    """Five hundred streams at once, each on a connection of its own, all end well."""
    body = json.dumps(CHAT | {"stream": True, "max_tokens": 5})
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    async with running_provider(ProviderSettings(decode_ms_per_token=5)) as provider:
        answers = await asyncio.gather(*(exchanged(provider, (head + body).encode()) for _ in range(500)))
        assert all(answer.endswith(b"0\r\n\r\n") and b"data: [DONE]" in answer for answer in answers)
        assert (provider.observations.aborted, provider.observations.opened) == (0, 500)
