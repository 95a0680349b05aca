"""Requests through the real Envoy as it is configured: what is passed, what is refused, and how."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ext_proc.contract.routes import CallShape, RouteTerms, route_id
from ext_proc.contract.snapshot import Backend, Snapshot, Timeouts
from tests.contract.ext_proc.agent.sidecar import Sidecar
from tests.harness.raw_http import Answer, ask, connect, json_request, post, request_bytes
from tests.harness.rude import RudeProvider, chunk, delta, event, reply, stream_events, stream_reply

pytestmark = pytest.mark.asyncio(loop_scope="module")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Site:
    """A sidecar with one Backend, which is the default one."""

    sidecar: Sidecar
    provider: RudeProvider
    backend: Backend

    @property
    def port(self) -> int:
        """The proxy's port."""
        return self.sidecar.proxy_port

    def route(self, shape: CallShape = CallShape.JSON) -> dict[str, str]:
        """Return the header that makes the decider choose this route."""
        return {"x-test-route": route_id(self.backend, RouteTerms(), shape)}


@pytest.fixture(scope="module")
def provider() -> Iterator[RudeProvider]:
    """Serve a provider that answers as told."""
    with RudeProvider() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def site(provider: RudeProvider) -> AsyncIterator[Site]:
    """Run a sidecar in front of the provider."""
    backend = Backend("main", f"http://127.0.0.1:{provider.port}/base/v1")
    async with Sidecar() as sidecar:
        await sidecar.push(Snapshot(version="1", default_backend="main", backends={backend.name: backend}))
        await sidecar.ready()
        yield Site(sidecar, provider, backend)


async def test_json_call_is_routed_as_decided(site: Site) -> None:
    """A decided call reaches the Backend below its base path, query kept, and is stamped on the way back."""
    script = site.provider.script("json", reply(200, {"fine": True}, [("x-outrigger-model", "forged")]))
    answer = await post(
        site.port, {"model": "m"}, {**site.route(), **script}, "/v1/chat/completions?a=%20b&c"
    )
    assert (answer.status, answer.json()) == (200, {"fine": True})
    assert answer.all("x-outrigger-backend") == ["main"]
    assert answer.get("x-outrigger-model") is None
    assert len(answer.all("x-request-id")) == 1
    assert answer.get("server") is None
    seen = site.provider.seen("json")[-1]
    assert seen.target == "/base/v1/chat/completions?a=%20b&c"
    assert seen.get("host") == f"127.0.0.1:{site.provider.port}"
    assert seen.get("accept-encoding") == "identity"
    assert seen.body == b'{"model": "m"}'


async def test_provider_sees_no_inner_header(site: Site) -> None:
    """Neither forged inner headers, in any spelling, nor Envoy's own reach the provider or move the route."""
    forged = {
        "x-outrigger-route": "nowhere",
        "X-Outrigger-Backend": "other",
        "x_outrigger_route": "nowhere",
        "x-outrigger_consumer": "a",
        "x-outrigger-tiers": "gold",
        "x-outrigger-tie": "gold",
        "x-envoy-retry-on": "5xx",
        "x-envoy-upstream-rq-timeout-ms": "1",
        "x_envoy_original_path": "/x",
        "x-outrigger-tier": "gold",
        "x-outrigger-session": "s",
        "x-outrigger-cache": "refresh",
    }
    script = site.provider.script("forged", reply())
    for route in (site.route(), {}):
        answer = await post(site.port, {}, {**forged, **route, **script, "x_mine": "kept"})
        assert answer.status == 200
    for seen in site.provider.seen("forged"):
        names = {name.lower().replace("_", "-") for name, _ in seen.headers}
        assert not [name for name in names if name.startswith(("x-outrigger", "x-envoy", "x-forwarded"))]
        assert "x-request-id" not in names
        assert seen.get("x_mine") == "kept"


def _logged(site: Site, traceparents: Collection[str]) -> dict[str, Any]:
    records = site.sidecar.access_log.records
    return {one.traceparent: one for one in records if one.traceparent in traceparents}


async def test_the_log_has_the_call(site: Site) -> None:
    """How long it took, who answered, what the caller said of itself; also bytes that are no text."""
    said = {"00-1-2-01": "00-1-2-01", "\udcff\udcfe": "\N{REPLACEMENT CHARACTER}" * 2}
    began = time.time_ns()
    for sent in said:
        await post(site.port, {}, {**site.route(), "traceparent": sent})
    # On a busy machine lines of calls before come, too.
    async with asyncio.timeout(10):
        while len(found := _logged(site, said.values())) < 2:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    first, second = (found[text] for text in said.values())
    assert (first.status, first.attempts, first.backend) == (200, 1, "main")
    assert began <= first.started_ns <= second.started_ns <= time.time_ns()
    assert first.first_byte_s is not None
    assert 0 < first.first_byte_s <= first.duration_s < 5
    assert first.request_id
    assert first.request_id != second.request_id
    assert (first.failure, first.aborted, first.bypass, first.own_answer) == ("", False, None, "")


async def test_an_agent_that_starts_again_costs_no_count(site: Site) -> None:
    """What ended while it was away is told to it afterwards, once."""
    log = site.sidecar.access_log
    await log.settled()
    before = len(log.records)
    await site.sidecar.stop_agent()
    for number in range(20):
        await post(site.port, {}, {**site.route(), "traceparent": f"away-{number}"})
        await asyncio.sleep(0.05)
    site.sidecar.start_agent()
    await log.count(before + 20)
    await log.settled()
    assert sorted(record.traceparent for record in log.records[before:]) == sorted(
        f"away-{number}" for number in range(20)
    )


async def test_stream_comes_through_piece_by_piece(site: Site) -> None:
    """Each event of a stream arrives when it is sent, long before the stream ends."""
    events = stream_events("a", "b")
    pieces = [*stream_reply(events[:1])[:-1], 0.6, *(chunk(one) for one in events[1:]), b"0\r\n\r\n"]
    script = site.provider.script("stream", pieces)
    headers = list({**site.route(CallShape.STREAM), **script}.items())
    async with asyncio.timeout(5), await connect(site.port) as connection:
        started = time.monotonic()
        await connection.send(json_request("/v1/chat/completions", {"stream": True}, headers))
        status, _ = await connection.receive_head()
        assert status == 200
        assert await connection.receive_chunk() == event(delta("a"))
        assert time.monotonic() - started < 0.5
        rest = b""
        while piece := await connection.receive_chunk():
            rest += piece
        assert rest == b"".join(events[1:])


async def test_silent_stream_is_ended_without_a_finish(provider: RudeProvider) -> None:
    """A silent stream is cut after `streamIdle`, without a finish; a slow one outlives `timeouts.request`."""
    backend = Backend("main", provider.url, timeouts=Timeouts(request_ms=1_000, stream_idle_ms=700))
    shape = route_id(backend, RouteTerms(), CallShape.STREAM)
    slow = [event(delta(str(number))) for number in range(4)]
    script = provider.script("slow", stream_reply(slow, 0.5))
    silent = provider.script("silent", [*stream_reply(slow[:1])[:-1], 30.0])
    async with Sidecar() as sidecar:
        await sidecar.push(Snapshot(version="1", backends={"main": backend}))
        await sidecar.ready()
        answer = await post(sidecar.proxy_port, {}, {"x-test-route": shape, **script})
        assert answer.body == b"".join(slow)
        started = time.monotonic()
        with pytest.raises(asyncio.IncompleteReadError):
            await post(sidecar.proxy_port, {}, {"x-test-route": shape, **silent})
        assert 0.6 < time.monotonic() - started < 2.5


@pytest.mark.parametrize("size", [0, MIB + 1, 20 * MIB, 32 * MIB])
async def test_bodies_up_to_the_limit_pass(site: Site, size: int) -> None:
    """Bodies of up to 32 MiB reach the provider byte for byte."""
    script = site.provider.script("size", reply())
    headers = list({**site.route(), **script}.items())
    answer = await ask(site.port, json_request("/v1/chat/completions", b"x" * size, headers), 30)
    assert answer.status == 200
    assert len(site.provider.seen("size")[-1].body) == size


async def test_body_above_the_limit_is_refused(site: Site) -> None:
    """A body of more than 32 MiB is 413 in OpenAI's shape, and does not reach the provider."""
    script = site.provider.script("413", reply())
    headers = list({**site.route(), **script}.items())
    body = b"x" * (32 * MIB + 1)
    answer = await ask(site.port, json_request("/v1/chat/completions", body, headers), 30)
    assert (answer.status, answer.get("x-outrigger-error")) == (413, "request-too-large")
    assert answer.error()["type"] == "invalid_request_error"
    assert site.provider.seen("413") == []


async def test_large_answer_passes_whole(site: Site) -> None:
    """A JSON answer of 20 MiB passes although the processor has it held."""
    script = site.provider.script("large", reply(200, b"x" * (20 * MIB)))
    answer = await post(site.port, {}, {**site.route(), **script}, seconds=30)
    assert (answer.status, len(answer.body)) == (200, 20 * MIB)


async def test_other_paths_stream_without_a_limit(site: Site) -> None:
    """A body of 40 MiB to a path that we do not read passes, in both directions."""
    script = site.provider.script("files", reply(200, b"y" * (40 * MIB), content_type="audio/mpeg"))
    headers = list({**site.route(CallShape.RAW), **script}.items())
    answer = await ask(site.port, request_bytes("POST", "/v1/files", b"x" * (40 * MIB), headers), 30)
    assert (answer.status, len(answer.body)) == (200, 40 * MIB)
    assert len(site.provider.seen("files")[-1].body) == 40 * MIB


async def test_own_answer_of_the_processor_is_left_alone(site: Site) -> None:
    """What the processor answers itself keeps its body and headers; Envoy adds only the request's id."""
    answer = await post(site.port, {}, {"x-test-answer": "503"})
    assert (answer.status, answer.body, answer.get("x-own")) == (503, b'{"own": true}', "yes")
    assert answer.get("x-outrigger-error") is None
    assert answer.get("x-request-id")


async def test_unknown_route_is_never_the_default(site: Site) -> None:
    """A route id that Envoy does not know is 503 `no-route`; the default Backend sees nothing."""
    script = site.provider.script("no-route", reply())
    answer = await post(site.port, {}, {"x-test-route": "gone.json.0", **script})
    assert (answer.status, answer.get("x-outrigger-error")) == (503, "no-route")
    assert answer.error()["code"] == "no_route"
    assert site.provider.seen("no-route") == []


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        pytest.param(request_bytes("GET", "/"), 404, "unknown-path", id="root"),
        pytest.param(request_bytes("POST", "/chat/completions", b"{}"), 404, "unknown-path", id="no-v1"),
        pytest.param(request_bytes("POST", "/V1/chat/completions", b"{}"), 404, "unknown-path", id="case"),
        pytest.param(request_bytes("GET", "/v1/../x"), 404, "unknown-path", id="dots-out"),
        pytest.param(request_bytes("GET", "/v1%2fmodels"), 400, "bad-path", id="escaped-slash"),
        pytest.param(request_bytes("GET", "/v1/a%5cb"), 400, "bad-path", id="escaped-backslash"),
        pytest.param(request_bytes("GET", "/v1/models/..%2F..%2Fx"), 400, "bad-path", id="escaped-in-a-name"),
        pytest.param(b"GARBAGE\r\n\r\n", 400, "bad-request", id="garbage"),
        pytest.param(
            request_bytes("POST", "/v1/x", b"{}", [("content-length", "2"), ("content-length", "3")]),
            400,
            "bad-request",
            id="two-lengths",
        ),
        pytest.param(
            request_bytes("GET", "/v1/x", None, [(f"h{number}", "x" * 1000) for number in range(150)]),
            431,
            "headers-too-large",
            id="large-headers",
        ),
        pytest.param(
            json_request("/v1/chat/completions", {}, [("connection", "Upgrade"), ("upgrade", "websocket")]),
            400,
            "upgrade-refused",
            id="websocket",
        ),
    ],
)
async def test_refusals_are_in_openais_shape(site: Site, request_: bytes, status: int, reason: str) -> None:
    """What Envoy refuses by itself is JSON in OpenAI's shape, at once."""
    answer = await ask(site.port, request_, 2)
    assert (answer.status, answer.get("x-outrigger-error")) == (status, reason)
    assert answer.error()["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "target", ["//v1//chat/completions?q=1", "/v1/./x/../chat/completions?q=1", "/v1/%63hat/completions?q=1"]
)
async def test_spellings_of_a_path_become_one(site: Site, target: str) -> None:
    """Doubled slashes, dot segments and needless escapes are gone before the processor looks."""
    script = site.provider.script("spelling", reply())
    answer = await post(site.port, {}, {**site.route(), **script}, target)
    assert answer.status == 200
    seen = site.provider.seen("spelling")[-1]
    assert seen.target == "/base/v1/chat/completions?q=1"
    assert seen.get("x-decided") == "yes"


@pytest.mark.parametrize("token", ["h2c", "TLS/1.2"])
async def test_upgrades_we_do_not_take_up_are_answered_on_http1(site: Site, token: str) -> None:
    """An offer of another protocol is ignored and the request answered, sixty open ones beside."""
    headers = [
        ("connection", "Upgrade, HTTP2-Settings"),
        ("upgrade", token),
        ("http2-settings", "AAMAAABkAAQAAP__"),
        *site.route().items(),
    ]
    data = json_request("/v1/chat/completions", {}, headers)
    connections = [await connect(site.port) for _ in range(60)]
    answers: list[Answer] = []
    async with asyncio.timeout(4):
        for connection in connections:
            await connection.send(data)
        for connection in connections:
            answers.append(await connection.receive())
        plain = await post(site.port, {}, site.route())
    for connection in connections:
        connection.writer.close()
    assert {answer.status for answer in answers} == {200}
    assert plain.status == 200


async def test_http_1_0_is_served(site: Site) -> None:
    """A request in HTTP/1.0, without a Host, is answered."""
    data = b"GET /v1/models HTTP/1.0\r\n\r\n"
    answer = await ask(site.port, data, 2)
    assert answer.status == 200


async def test_http2_with_prior_knowledge_is_served(site: Site) -> None:
    """HTTP/2 without TLS works on the proxy's port, many streams on one connection."""
    async with httpx.AsyncClient(http1=False, http2=True, trust_env=False) as client:
        answers = await asyncio.gather(
            *(
                client.post(f"{site.sidecar.url}/v1/chat/completions", json={}, headers=site.route())
                for _ in range(20)
            )
        )
    assert {(answer.http_version, answer.status_code) for answer in answers} == {("HTTP/2", 200)}


async def test_expect_and_trailers_and_methods(site: Site) -> None:
    """`Expect: 100-continue`, a chunked body with a trailer, and requests without a body are all answered."""
    headers = [("expect", "100-continue"), *site.route().items()]
    async with asyncio.timeout(5), await connect(site.port) as connection:
        await connection.send(
            request_bytes("POST", "/v1/chat/completions", b"", [("content-length", "2"), *headers])
        )
        status, _ = await connection.receive_head()
        assert status == 100
        await connection.send(b"{}")
        assert (await connection.receive()).status == 200
    chunked = [("transfer-encoding", "chunked"), ("trailer", "x-t"), *site.route().items()]
    body = chunk(b"{" + b" " * 200_000 + b"}") + b"0\r\nx-t: 1\r\n\r\n"
    answer = await ask(site.port, request_bytes("POST", "/v1/chat/completions", None, chunked) + body, 5)
    assert answer.status == 200
    for method in ("GET", "OPTIONS", "DELETE", "HEAD"):
        script = site.provider.script("method", reply(200, b""))
        data = request_bytes(method, "/v1/models", None, list(script.items()))
        assert (await ask(site.port, data, 2, head_only=method == "HEAD")).status == 200


async def test_error_answers_of_the_provider_pass_byte_for_byte(site: Site) -> None:
    """Statuses that are not retried pass with their body and headers."""
    body = json.dumps({"error": {"message": "no", "type": "t", "param": None, "code": None}}).encode()
    for status in (400, 401, 404, 422):
        script = site.provider.script(
            "error", reply(status, body, [("set-cookie", "a"), ("set-cookie", "b")])
        )
        answer = await post(site.port, {}, {**site.route(), **script})
        assert (answer.status, answer.body) == (status, body)
        assert answer.all("set-cookie") == ["a", "b"]
        assert answer.get("x-outrigger-error") is None
        assert len(site.provider.seen("error")) == 1
