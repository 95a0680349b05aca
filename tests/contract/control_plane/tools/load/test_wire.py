"""Calls over real HTTP, to the simulated provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from control_plane.tools.load.calls import Call, Operation, asking, call
from control_plane.tools.load.verdicts import BROKEN, CONNECT, CUT, NO_ANSWER, TIMEOUT
from control_plane.tools.load.wire import CannotConnect, Endpoint, Outcome, connected
from control_plane.tools.provider import Behaviour, Provider, ProviderSettings, running_provider

CHAT = call(Operation.CHAT, asking(Operation.CHAT, "m", "hello"))
STREAM = call(Operation.CHAT, {**asking(Operation.CHAT, "m", "hello"), "stream": True})


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """A provider that answers at once."""
    async with running_provider(ProviderSettings(conversations=True)) as started:
        yield started


async def sent(endpoint: Endpoint, one: Call) -> Outcome:
    """Send a call on a connection of its own."""
    async with connected(endpoint) as send:
        return await send(one)


@pytest.mark.parametrize("operation", list(Operation))
async def test_every_operation_is_answered(provider: Provider, operation: Operation) -> None:
    """With its tokens, and no time before it began."""
    outcome = await sent(Endpoint(provider.url), call(operation, asking(operation, "m", "hello")))
    assert outcome.verdict.good
    assert outcome.verdict.prompt_tokens > 0
    assert outcome.ended > outcome.began


@pytest.mark.parametrize(
    "one",
    [
        call(Operation.EMBEDDINGS, {"model": "m", "input": ["a", "b", "c"]}, 3),
        call(Operation.COMPLETIONS, {"model": "m", "prompt": ["a", "b", "c"]}, 3),
        call(
            Operation.CHAT, {"model": "m", "messages": [[{"role": "user", "content": t}] for t in "abc"]}, 3
        ),
    ],
    ids=["embeddings", "completions", "conversations"],
)
async def test_batches_bring_an_answer_for_each_question(provider: Provider, one: Call) -> None:
    """In order; one answer too few is none at all."""
    assert (await sent(Endpoint(provider.url), one)).verdict.good
    short = replace(one, questions=4)
    assert (await sent(Endpoint(provider.url), short)).verdict.result == NO_ANSWER


async def test_a_stream_tells_when_its_text_came() -> None:
    """The first piece, and the time between pieces as the provider spaces them."""
    async with running_provider(ProviderSettings(decode_ms_per_token=5)) as provider:
        body = {**asking(Operation.CHAT, "m", "hello", max_tokens=8), "stream": True}
        outcome = await sent(Endpoint(provider.url), call(Operation.CHAT, body))
    assert outcome.verdict.good
    assert outcome.first is not None
    assert outcome.began < outcome.first < outcome.ended
    assert len(outcome.gaps) == 7
    # A busy machine may see several pieces at one moment; what they took together stays.
    assert outcome.ended - outcome.began >= 0.035
    assert sum(outcome.gaps) <= outcome.ended - outcome.first


@pytest.mark.parametrize(
    ("behaviour", "one", "result"),
    [
        (Behaviour(status=429, body={"error": {}}), CHAT, "429"),
        (Behaviour(status=302, headers=(("location", "/v1/x"),)), CHAT, "302"),
        (Behaviour(body="<html>"), CHAT, NO_ANSWER),
        (Behaviour(close="before-headers"), CHAT, BROKEN),
        (Behaviour(close="reset"), CHAT, BROKEN),
        (Behaviour(hang=True), CHAT, TIMEOUT),
        (Behaviour(chunks=('data: {"choices":[]}\n\n',), close="mid-stream"), STREAM, BROKEN),
        (Behaviour(chunks=('data: {"choices":[]}\n\n',)), STREAM, CUT),
        (Behaviour(status=503, body={}), STREAM, "503"),
        (Behaviour(raw_base64="bm9uc2Vuc2UNCg0K"), CHAT, BROKEN),
    ],
)
async def test_what_fails_is_told_and_never_raised(
    provider: Provider, behaviour: Behaviour, one: Call, result: str
) -> None:
    """In a word of a closed list, or the status."""
    provider.script(behaviour)
    outcome = await sent(Endpoint(provider.url, timeout_s=0.3), one)
    assert (outcome.verdict.good, outcome.verdict.result) == (False, result)


async def test_nobody_there(unused_tcp_port: int) -> None:
    """That is told by the same word for every call."""
    outcome = await sent(Endpoint(f"http://127.0.0.1:{unused_tcp_port}/v1"), CHAT)
    assert outcome.verdict.result == CONNECT


async def test_connections_are_used_again(provider: Provider) -> None:
    """Callers that follow each other share one."""
    async with connected(Endpoint(provider.url)) as send:
        for _ in range(5):
            await send(CHAT)
        await asyncio.gather(*(send(CHAT) for _ in range(3)))
    assert provider.observations.opened == 3


async def test_headers_are_sent_and_what_a_sidecar_says_is_read(provider: Provider) -> None:
    """The key goes along and is in no repr."""
    endpoint = Endpoint(provider.url, {"authorization": "Bearer sk-secret"})
    provider.script(
        Behaviour(generate=True, headers=(("x-outrigger-cache", "miss"), ("x-outrigger-batch", "4")))
    )
    outcome = await sent(endpoint, CHAT)
    assert (outcome.cache, outcome.batch) == ("miss", 4)
    assert "secret" not in repr(endpoint)


@pytest.mark.parametrize("name", ["x-outrigger-cache", "x-outrigger-batch"])
async def test_what_no_sidecar_says_is_not_repeated(provider: Provider, name: str) -> None:
    """Reports hold no words of strangers."""
    provider.script(Behaviour(generate=True, headers=((name, "<b>" * 40),)))
    outcome = await sent(Endpoint(provider.url), CHAT)
    assert (outcome.verdict.good, outcome.cache, outcome.batch) == (True, "", 0)


async def test_tls_is_verified(tmp_path: Path) -> None:
    """By the authority that is named; a file that holds none is told."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    cert, key, ca = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    async with running_provider(ProviderSettings(tls_cert=cert, tls_key=key)) as provider:
        assert (await sent(Endpoint(provider.url, ca=ca), CHAT)).verdict.good
        assert (await sent(Endpoint(provider.url), CHAT)).verdict.result == CONNECT
    with pytest.raises(CannotConnect, match=r"key\.pem holds no certificate"):
        await sent(Endpoint("https://127.0.0.1/v1", ca=key), CHAT)
