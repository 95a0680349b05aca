"""The faults in docs/operations.md, as far as Envoy deals with them: a processor dead, hung, or not there."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ext_proc.contract.routes import CallShape, RouteTerms, route_id
from ext_proc.contract.snapshot import Backend, CredentialRef, Snapshot
from tests.contract.ext_proc.agent.sidecar import Sidecar, until
from tests.harness.raw_http import ask, connect, json_request, post, request_bytes
from tests.harness.rude import Act, RudeProvider, chunk, delta, event, reply, stream_events, stream_reply


@pytest.fixture
def provider() -> Iterator[RudeProvider]:
    """Serve a provider that answers as told."""
    with RudeProvider() as running:
        yield running


@asynccontextmanager
async def serving(provider: RudeProvider, **changes: Any) -> AsyncIterator[tuple[Sidecar, Backend]]:
    """Run a sidecar whose default Backend is the provider."""
    backend = Backend("main", provider.url)
    snapshot = Snapshot(version="1", default_backend="main", backends={"main": backend})
    async with Sidecar() as sidecar:
        await sidecar.push(replace(snapshot, **changes))
        await sidecar.ready()
        yield sidecar, backend


def to(backend: Backend, shape: CallShape = CallShape.JSON) -> dict[str, str]:
    """Return the header that sends a request there."""
    return {"x-test-route": route_id(backend, RouteTerms(), shape)}


async def test_dead_processor_costs_nothing(provider: RudeProvider) -> None:
    """With the processor killed every call goes to the default Backend as it came, within milliseconds."""
    async with serving(provider) as (sidecar, _):
        sidecar.deciders[0].kill()
        sidecar.deciders[0].wait()
        script = provider.script("as-is", reply())
        took = []
        async with connect_once(sidecar) as connection:
            for _ in range(50):
                started = time.perf_counter()
                await connection.send(
                    json_request("/v1/chat/completions?q=1", {"m": 1}, list(script.items()))
                )
                assert (await connection.receive()).status == 200
                took.append(time.perf_counter() - started)
        # Most within milliseconds; what other tests do in that second is not counted.
        assert sorted(took)[10] < 0.005
        seen = provider.seen("as-is")
        assert {(one.target, one.body) for one in seen} == {("/v1/chat/completions?q=1", b'{"m": 1}')}
        assert all(one.get("x-decided") is None for one in seen)
        answer = await ask(sidecar.proxy_port, request_bytes("GET", "/v1/models"), 2)
        assert answer.status == 200


@asynccontextmanager
async def connect_once(sidecar: Sidecar) -> AsyncIterator[Any]:
    """Open one connection to the proxy."""
    async with await connect(sidecar.proxy_port) as connection:
        yield connection


async def test_parked_calls_go_on_when_the_processor_dies(provider: RudeProvider) -> None:
    """A killed processor's parked calls go to the default Backend as they came, whole."""
    async with serving(provider) as (sidecar, backend):
        script = provider.script("parked", reply())
        body = b"x" * 3_000_000
        headers = [("x-test-park", "1"), *to(backend).items(), *script.items()]
        data = json_request("/v1/chat/completions", body, headers)
        calls = [asyncio.create_task(ask(sidecar.proxy_port, data)) for _ in range(20)]
        await in_flight(sidecar, 20)
        sidecar.deciders[0].kill()
        answers = await asyncio.gather(*calls)
    assert {answer.status for answer in answers} == {200}
    assert {one.body for one in provider.seen("parked")} == {body}


async def in_flight(sidecar: Sidecar, number: int) -> None:
    """Wait until the processor holds `number` exchanges."""
    async with asyncio.timeout(5):
        while True:
            if await sidecar.stat("http.proxy.ext_proc.outrigger.stream_msgs_sent") >= 2 * number:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("fail_open", [True, False], ids=["open", "closed"])
async def test_hung_processor_is_ejected_within_three_seconds(
    provider: RudeProvider, fail_open: bool
) -> None:
    """A stopped processor frees its calls within 3 s, later ones at once; resumed, it decides again."""
    async with serving(provider, fail_open=fail_open) as (sidecar, backend):
        parked = [
            asyncio.create_task(post(sidecar.proxy_port, {}, {"x-test-park": "1", **to(backend)}))
            for _ in range(5)
        ]
        await in_flight(sidecar, 5)
        sidecar.deciders[0].send_signal(signal.SIGSTOP)
        started = time.monotonic()
        answers = await asyncio.gather(*parked, post(sidecar.proxy_port, {}, to(backend)))
        assert time.monotonic() - started < 3.0
        started = time.monotonic()
        answers.append(await post(sidecar.proxy_port, {}, to(backend)))
        assert time.monotonic() - started < 0.1
        if fail_open:
            assert {answer.status for answer in answers} == {200}
        else:
            assert {answer.status for answer in answers} == {503}
            assert {answer.get("x-outrigger-error") for answer in answers} == {"processor-unavailable"}
            assert provider.seen() == []
        sidecar.deciders[0].send_signal(signal.SIGCONT)
        await sidecar.ready()
        script = provider.script("again", reply())
        assert (await post(sidecar.proxy_port, {}, {**to(backend), **script})).status == 200
        assert provider.seen("again")[-1].get("x-decided") == "yes"


async def test_answers_under_way_outlive_the_processor(provider: RudeProvider) -> None:
    """A stream and a JSON answer that are on their way when the processor dies come whole."""
    events = stream_events("a", "b")
    pieces = [*stream_reply(events[:1])[:-1], Act.HOLD, *(chunk(one) for one in events[1:]), b"0\r\n\r\n"]
    stream = provider.script("stream", pieces)
    whole = reply(200, b"y" * 100_000)
    json_ = provider.script("json", [whole[:50_000], Act.HOLD, whole[50_000:]])
    async with serving(provider) as (sidecar, backend):
        call = asyncio.create_task(post(sidecar.proxy_port, {}, {**to(backend), **json_}))
        headers = list({**to(backend, CallShape.STREAM), **stream}.items())
        async with asyncio.timeout(8), await connect(sidecar.proxy_port) as connection:
            await connection.send(json_request("/v1/chat/completions", {"stream": True}, headers))
            assert (await connection.receive_head())[0] == 200
            assert await connection.receive_chunk() == event(delta("a"))
            await until(lambda: provider.seen("json"), "the JSON call with the provider")
            sidecar.deciders[0].kill()
            sidecar.deciders[0].wait()
            provider.release("stream")
            provider.release("json")
            rest = b""
            while piece := await connection.receive_chunk():
                rest += piece
        answer = await call
    assert rest == b"".join(events[1:])
    assert (answer.status, answer.body) == (200, b"y" * 100_000)


@pytest.mark.parametrize("header", ["authorization", "api-key"])
@pytest.mark.parametrize("own", [True, False], ids=["backend-has-a-key", "backend-has-none"])
async def test_consumer_keys_stay_inside(provider: RudeProvider, header: str, own: bool) -> None:
    """On the fail-open route a Consumer's key is removed, in any spelling; a provider's own passes."""
    credential = CredentialRef("env", "OWN") if own else None
    backend = Backend("main", provider.url, credential=credential)
    script = provider.script("keys", reply())
    bearer = "Bearer " if header == "authorization" else ""
    secrets = [f"{bearer}ork_secret", f"{bearer.lower()} ORK_secret", f"{bearer}sk-work_mine"]
    async with Sidecar(environment={"OWN": "sk-own"}, deciders=1) as sidecar:
        await sidecar.push(Snapshot(version="1", default_backend="main", backends={"main": backend}))
        await sidecar.ready()
        sidecar.deciders[0].kill()
        sidecar.deciders[0].wait()
        for secret in secrets:
            assert (await post(sidecar.proxy_port, {}, {header: secret, **script})).status == 200
    seen = provider.seen("keys")
    assert not [value for one in seen for _, value in one.headers if "ork_" in value.lower().split()[-1][:4]]
    if own:
        assert [one.get("authorization") for one in seen] == ["Bearer sk-own"] * 3
        assert [one.get("api-key") for one in seen] == [None] * 3
    else:
        assert [one.get(header) for one in seen] == [None, None, secrets[2]]


async def test_failing_closed_is_503(provider: RudeProvider) -> None:
    """With `failOpen: false` what the processor has not decided is 503; decided large bodies pass."""
    async with serving(provider, fail_open=False) as (sidecar, backend):
        data = json_request("/v1/chat/completions", b"x" * 5_000_000, list(to(backend).items()))
        assert (await ask(sidecar.proxy_port, data)).status == 200
        undecided = await post(sidecar.proxy_port, {})
        assert (undecided.status, undecided.get("x-outrigger-error")) == (503, "processor-unavailable")
        count = len(provider.seen())
        sidecar.deciders[0].kill()
        sidecar.deciders[0].wait()
        for target in ("/v1/chat/completions", "/v1/files"):
            answer = await post(sidecar.proxy_port, {}, to(backend), target)
            assert (answer.status, answer.get("x-outrigger-error")) == (503, "processor-unavailable")
            assert answer.error()["message"]
        assert len(provider.seen()) == count


async def test_without_a_default_backend_undecided_calls_are_503(provider: RudeProvider) -> None:
    """Where no Backend is the default one, an undecided call is 503 `no-backend`; decided ones are served."""
    async with serving(provider, default_backend=None) as (sidecar, backend):
        assert (await post(sidecar.proxy_port, {}, to(backend))).status == 200
        for target in ("/v1/chat/completions", "/v1/files"):
            answer = await post(sidecar.proxy_port, {}, target=target)
            assert (answer.status, answer.get("x-outrigger-error")) == (503, "no-backend")


async def test_burst_waits_its_turn(provider: RudeProvider) -> None:
    """Two thousand calls at once are all decided; none goes by."""
    async with serving(provider) as (sidecar, backend):
        script = provider.script("burst", reply())
        answers = await asyncio.gather(
            *(post(sidecar.proxy_port, {}, {**to(backend), **script}, seconds=60) for _ in range(2_000))
        )
    assert {answer.status for answer in answers} == {200}
    assert {one.get("x-decided") for one in provider.seen("burst")} == {"yes"}
