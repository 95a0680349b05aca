"""One call over a real connection, on each protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from control_plane.tools.diagnose.failures import CallFailed, DiagnoseFailed
from control_plane.tools.diagnose.target import Target
from control_plane.tools.diagnose.wire import Http, Wire
from control_plane.tools.provider import Behaviour, Provider, ProviderSettings, running_provider

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
STREAM = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


@asynccontextmanager
async def served(host: str = "127.0.0.1", **settings: Any) -> AsyncIterator[tuple[Provider, Wire]]:
    """Run a provider and yield a wire to it."""
    async with running_provider(ProviderSettings(**settings)) as provider:
        url = provider.url.replace("127.0.0.1", host)
        ca = settings["tls_cert"].with_name("ca.pem") if "tls_cert" in settings else None
        yield provider, Wire(Target.parse(url, "m", {"authorization": "Bearer sk-right"}), 5.0, ca)


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, Any]:
    """Return a provider's settings for TLS; its authority lies beside them."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    files = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
    issued.private_key_and_cert_chain_pem.write_to_path(str(files["tls_cert"]))
    issued.private_key_pem.write_to_path(str(files["tls_key"]))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return files


@pytest.mark.parametrize("http", ["1.1", "2"])
async def test_a_connection_is_opened_once(http: Http) -> None:
    """The first call has the time of TCP, the second none and none of what opening costs."""
    async with served(tls_handshake_ms=60) as (_, wire), wire.connections(http) as connections:
        first = await wire.call(connections, BODY)
        second = await wire.call(connections, BODY)
    assert first.opened
    assert first.connect_ms is not None
    assert (first.tls_ms, first.dns_ms) == (None, None)
    assert not second.opened
    assert first.ttfb_ms >= 60 > second.ttfb_ms
    assert second.total_ms >= second.ttfb_ms
    assert {first.http2, second.http2} == {http == "2"}
    assert (second.output_tokens, second.cut) == (3, True)
    assert second.prompt_tokens > 0


@pytest.mark.parametrize("http", ["1.1", "2"])
async def test_a_name_and_tls(http: Http, tls: dict[str, Any]) -> None:
    """The lookup and the handshake have times of their own; HTTP/2 is agreed by ALPN."""
    async with served("localhost", tls_handshake_ms=60, **tls) as (_, wire), wire.connections(http) as opened:
        sample = await wire.call(opened, BODY)
    assert sample.dns_ms is not None
    assert sample.connect_ms is not None
    assert sample.tls_ms is not None
    assert sample.tls_ms >= 60 > sample.connect_ms
    assert sample.total_ms >= sample.dns_ms + sample.connect_ms + sample.tls_ms
    assert sample.http2 is (http == "2")


async def test_a_stream() -> None:
    """The first token comes before the end, each further one has its gap."""
    async with (
        served(prefill_ms_per_token=5, decode_ms_per_token=5) as (_, wire),
        wire.connections() as connections,
    ):
        sample = await wire.call(connections, STREAM)
    assert sample.first_token_ms is not None
    assert sample.ttfb_ms <= sample.first_token_ms < sample.total_ms
    assert len(sample.gaps_ms) == sample.output_tokens - 1 == 2


@pytest.mark.parametrize(
    ("behaviour", "body", "reason"),
    [
        (Behaviour(headers=(("content-type", "text/html"),), body="<html>hi</html>"), BODY, "no-answer"),
        (Behaviour(body={"choices": []}), BODY, "no-answer"),
        (Behaviour(body=[]), BODY, "no-answer"),
        (Behaviour(body={"choices": [1]}), STREAM, "no-answer"),
        (Behaviour(chunks=("data: {}\n\n",)), STREAM, "no-answer"),
        (Behaviour(status=503, body="busy"), BODY, "503"),
        (Behaviour(status=429, headers=(("retry-after", "7"),), body={}), STREAM, "429"),
        (Behaviour(close="reset"), BODY, "broken"),
        (Behaviour(hang=True), BODY, "timeout"),
    ],
    ids=["page", "no choice", "a list", "JSON for a stream", "cut stream", "503", "429", "reset", "silence"],
)
async def test_what_is_no_answer(behaviour: Behaviour, body: dict[str, Any], reason: str) -> None:
    """Each is a failure with its reason, and no secret is told."""
    async with served() as (provider, _):
        provider.script(behaviour)
        wire = Wire(Target.parse(provider.url, "m", {"authorization": "Bearer sk-right"}), 0.3)
        async with wire.connections() as connections:
            with pytest.raises(CallFailed) as failed:
                await wire.call(connections, body)
    assert failed.value.reason == reason
    assert failed.value.retry_after_s == (7 if reason == "429" else None)
    assert "sk-right" not in str(failed.value)


async def test_the_key_and_no_store_are_sent() -> None:
    """A provider that wants the key answers; a sidecar is told to keep nothing."""
    async with served(api_keys=("sk-right",), log_body_bytes=100) as (provider, wire):
        async with wire.connections() as connections:
            await wire.call(connections, BODY)
        (seen,) = provider.observations.log
    assert seen.status == 200
    assert ("x-outrigger-cache", "no-store") in seen.headers


async def test_a_sidecar_is_noticed() -> None:
    """By its headers."""
    async with served() as (provider, wire), wire.connections() as connections:
        provider.script(Behaviour(generate=True, headers=(("x-outrigger-model", "m"),)))
        assert (await wire.call(connections, BODY)).sidecar
        assert not (await wire.call(connections, BODY)).sidecar


async def test_nobody_listens() -> None:
    """A port that is closed, a name that is none, a server that is not trusted."""
    async with served() as (provider, _):
        pass
    wire = Wire(Target.parse(provider.url, "m"), 1.0)
    async with wire.connections() as connections:
        with pytest.raises(CallFailed, match="nobody listens"):
            await wire.call(connections, BODY)
    with pytest.raises(CallFailed, match="not known to DNS"):
        async with Wire(Target.parse("http://no.such.host.invalid", "m"), 1.0).connections():
            pass


async def test_a_stranger_by_tls(tls: dict[str, Any]) -> None:
    """A certificate of an unknown authority ends the call; HTTP where TLS is spoken does too."""
    async with served(**tls) as (provider, _):
        for url, part in (
            (provider.url, "not trusted"),
            (provider.url.replace("https", "http"), "closes the connection.*https"),
        ):
            wire = Wire(Target.parse(url, "m"), 1.0)
            async with wire.connections() as connections:
                with pytest.raises(CallFailed, match=part):
                    await wire.call(connections, BODY)


def test_an_authority_that_is_none(tmp_path: Path) -> None:
    """A file without a certificate is refused before anything is sent."""
    (tmp_path / "ca.pem").write_text("nothing", encoding="utf-8")
    with pytest.raises(DiagnoseFailed, match="holds no certificate"):
        Wire(Target.parse("https://h", "m"), 1.0, tmp_path / "ca.pem")
