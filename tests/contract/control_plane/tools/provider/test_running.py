"""Starting and stopping a provider in process."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from control_plane.tools.provider import Behaviour, ProviderSettings, running_provider
from control_plane.tools.provider.wire.server import CannotListen
from tests.contract.control_plane.tools.provider.servers import CHAT, certificates
from tests.harness.plain import PLAIN
from tests.unit.control_plane.tools.provider.clocks import JumpingClock


async def test_url_and_base_path() -> None:
    """The URL is what a client takes as its base URL, whatever the base path."""
    async with (
        running_provider(ProviderSettings(base_path="/some/api")) as provider,
        httpx.AsyncClient(trust_env=False, verify=PLAIN) as http,
    ):
        assert provider.url == f"http://127.0.0.1:{provider.port}/some/api"
        assert (await http.get(f"{provider.url}/models")).status_code == 200
        assert (await http.get(f"{provider.origin}/v1/models")).status_code == 404


async def test_reset_forgets_script_and_log() -> None:
    """After a reset nothing scripted is left and nothing is remembered."""
    async with (
        running_provider(ProviderSettings()) as provider,
        httpx.AsyncClient(trust_env=False, verify=PLAIN) as http,
    ):
        provider.script(Behaviour(status=500), Behaviour(status=500))
        assert (await http.post(f"{provider.url}/chat/completions", json=CHAT)).status_code == 500
        provider.reset()
        assert len(provider.observations.log) == 0
        assert (await http.post(f"{provider.url}/chat/completions", json=CHAT)).status_code == 200


async def test_port_in_use() -> None:
    """A taken port is one sentence that says what to do."""
    async with running_provider(ProviderSettings()) as provider:
        with pytest.raises(CannotListen, match=f"Port {provider.port} on 127.0.0.1 is in use"):
            async with running_provider(ProviderSettings(port=provider.port)):
                pass


async def test_wrong_tls_files() -> None:
    """A missing key file, or one that is no key, is said at once."""
    with certificates() as files:
        for cert, key in ((files.cert, files.cert.with_name("none")), (files.key, files.key)):
            with pytest.raises(CannotListen, match="Cannot use the certificate"):
                async with running_provider(ProviderSettings(tls_cert=cert, tls_key=key)):
                    pass


async def test_stopping_ends_calls() -> None:
    """A provider that stops leaves no call and no connection behind."""
    async with (
        httpx.AsyncClient(trust_env=False, verify=PLAIN) as http,
        running_provider(ProviderSettings(decode_ms_per_token=10_000)) as provider,
    ):
        call = asyncio.create_task(http.post(f"{provider.url}/chat/completions", json=CHAT))
        await provider.observations.until(lambda seen: seen.in_flight == 1)
    with pytest.raises(httpx.HTTPError):
        await call
    assert provider.observations.open_connections == {}


async def test_a_clock_of_ones_own() -> None:
    """With another clock minutes of simulated time take none."""
    settings = ProviderSettings(decode_ms_per_token=10_000, cold_start_ms=60_000)
    clock = JumpingClock()
    async with (
        asyncio.timeout(5),
        running_provider(settings, clock=clock) as provider,
        httpx.AsyncClient(trust_env=False, verify=PLAIN) as http,
    ):
        assert (await http.post(f"{provider.url}/chat/completions", json=CHAT)).status_code == 200
    assert clock.now > 1000 + 60 + 300
