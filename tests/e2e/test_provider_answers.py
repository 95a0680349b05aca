"""What providers send back, in good form and bad: framing, codings, trailers, doubled headers, faults."""

from __future__ import annotations

import asyncio
import gzip
import json
import time

import httpx
import pytest

from tests.harness.mesh import Mesh
from tests.harness.raw_http import Answer, ask, connect, json_request, post, request_bytes
from tests.harness.rude import (
    STREAM_END,
    STREAM_HEAD,
    Act,
    Piece,
    RudeProvider,
    chunk,
    completion,
    delta,
    event,
    reply,
    stream_events,
    stream_reply,
)

CHAT = "/v1/chat/completions"
GOOD = {"model": "plain", "messages": [{"role": "user", "content": "hello"}]}
LONG = "a-name-much-longer-than-the-one-the-provider-knows-0123456789"


def framing(answer: Answer) -> None:
    """Check that an answer has exactly one framing header, and that it fits."""
    lengths, codings = answer.all("content-length"), answer.all("transfer-encoding")
    assert len(lengths) + len(codings) == 1, answer.headers
    if lengths:
        assert int(lengths[0]) == len(answer.body)


@pytest.mark.parametrize("model", ["cached-renamed", LONG])
@pytest.mark.parametrize("text", ["ascii", "多字节 ünï 🎉"])
async def test_a_rewritten_body_fits_its_framing(
    mesh: Mesh, rude: RudeProvider, script: str, model: str, text: str
) -> None:
    """A shorter or longer upstream name: framing is right on both sides, in HTTP/1.1 and 2, miss and hit."""
    document = {"model": model, "messages": [{"role": "user", "content": f"{text} {script}"}], "seed": 2**63}
    headers = rude.script(script, reply(200, completion(text)))
    for body in (json.dumps(document), json.dumps(document, ensure_ascii=False)):
        request = json_request(CHAT, body.encode(), list(headers.items()))
        answer = await ask(mesh.proxy_port, request)
        framing(answer)
        assert answer.json()["choices"][0]["message"]["content"] == text
    async with httpx.AsyncClient(http1=False, http2=True) as client:
        second = await client.post(f"{mesh.url}/chat/completions", json=document, headers=headers)
    assert second.json()["choices"][0]["message"]["content"] == text
    for seen in rude.seen(script):
        sent = seen.json()
        assert sent["messages"] == document["messages"]
        assert sent["seed"] == 2**63
        assert sent["model"] in ("m", "模型-längst-ünïcode-0123456789-0123456789")
        assert seen.get("content-length") == str(len(seen.body)) or seen.get("transfer-encoding") == "chunked"
        assert not (seen.get("content-length") and seen.get("transfer-encoding"))


@pytest.mark.parametrize("status", [200, 400, 429, 500])
async def test_a_gzip_answer_can_be_read(mesh: Mesh, rude: RudeProvider, script: str, status: int) -> None:
    """A caller that accepts gzip can read what the provider coded, whatever the status."""
    body = json.dumps(completion("coded")).encode()
    answer = reply(
        status, gzip.compress(body).decode("latin-1").encode("latin-1"), [("content-encoding", "gzip")]
    )
    headers = {**rude.script(script, answer), "accept-encoding": "gzip"}
    got = await post(mesh.proxy_port, {**GOOD, "model": "once"}, headers)
    assert got.status == status
    framing(got)
    plain = gzip.decompress(got.body) if got.get("content-encoding") == "gzip" else got.body
    assert plain == body


@pytest.mark.parametrize(
    "body", [b'{"error": {"message": "not coded"}}', gzip.compress(b"x" * 500)[:-20]], ids=["text", "cut"]
)
@pytest.mark.parametrize("status", [200, 500])
async def test_a_broken_coding_ends_promptly(
    mesh: Mesh, rude: RudeProvider, script: str, body: bytes, status: int
) -> None:
    """Bodies that are not what their label says end soon, as they are or as a 5xx."""
    headers = rude.script(script, reply(status, body, [("content-encoding", "gzip")]))
    got = await post(
        mesh.proxy_port, {**GOOD, "model": "once"}, {**headers, "accept-encoding": "gzip"}, seconds=3
    )
    assert got.body == body or got.status >= 500


async def test_identity_is_asked_of_the_provider(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """On the paths that are parsed no coding is offered upstream."""
    await post(mesh.proxy_port, GOOD, {**rude.script(script), "accept-encoding": "gzip, br"})
    assert rude.seen(script)[0].get("accept-encoding") in (None, "identity")


async def test_answers_that_end_in_trailers_end(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """JSON and SSE bodies with trailers come whole and in normal time."""
    body = json.dumps(completion("trailed")).encode()
    head = STREAM_HEAD.replace(b"text/event-stream", b"application/json").replace(
        b"\r\n\r\n", b"\r\ntrailer: x-sum\r\n\r\n"
    )
    plain = rude.script(f"{script}-json", [head, chunk(body), b"0\r\nx-sum: abc\r\n\r\n"])
    answer = await post(mesh.proxy_port, GOOD, plain, seconds=2)
    assert answer.body == body
    events = stream_events("one", "two")
    streamed = rude.script(
        f"{script}-sse", [STREAM_HEAD, *(chunk(one) for one in events), b"0\r\nx-sum: abc\r\n\r\n"]
    )
    answer = await post(mesh.proxy_port, {**GOOD, "stream": True}, streamed, seconds=2)
    assert answer.body == b"".join(events)


@pytest.mark.parametrize("stream", [False, True])
async def test_doubled_headers_keep_number_and_order(
    mesh: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """Three cookies and two warnings arrive as three and two, in order; odd case is no matter."""
    doubled = [
        ("Set-Cookie", "a=1"), ("SET-COOKIE", "b=2"), ("set-cookie", "c=3"),
        ("Warning", '199 - "one"'), ("warning", '199 - "two"'), ("X-OddLy-CaSed", "kept"),
    ]  # fmt: skip
    headers = rude.script(script, reply(200, completion(), doubled))
    answer = await post(mesh.proxy_port, {**GOOD, "stream": stream}, headers)
    assert answer.all("set-cookie") == ["a=1", "b=2", "c=3"]
    assert answer.all("warning") == ['199 - "one"', '199 - "two"']
    assert answer.get("x-oddly-cased") == "kept"


async def test_doubled_identity_headers_are_refused(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Two authorization headers are one clear 400, on every path."""
    two = [
        ("authorization", "Bearer sk-one"),
        ("Authorization", "Bearer sk-two"),
        *rude.script(script).items(),
    ]
    answer = await ask(mesh.proxy_port, json_request(CHAT, GOOD, two))
    assert answer.status == 400
    answer.error()
    answer = await ask(mesh.proxy_port, request_bytes("GET", "/v1/files", None, two))
    assert answer.status == 400
    assert rude.seen(script) == []


async def test_a_providers_own_mesh_headers_are_not_believed(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """x-outrigger-* of the provider are stripped; what the caller sees is ours."""
    forged = [
        ("x-outrigger-cache", "hit"),
        ("x-outrigger-backend", "forged"),
        ("x-outrigger-error", "forged"),
    ]
    answer = await post(mesh.proxy_port, GOOD, rude.script(script, reply(200, completion(), forged)))
    assert answer.all("x-outrigger-cache") == ["bypass"]
    assert answer.all("x-outrigger-backend") == ["rude"]
    assert answer.all("x-outrigger-error") == []


async def test_a_large_answer_comes_whole(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """20 MiB of JSON arrive as they were sent, announced or chunked."""
    body = json.dumps(completion("y" * 20 * 1024 * 1024)).encode()
    chunked = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    headers = rude.script(script, reply(200, body), [chunked, chunk(body), STREAM_END])
    for _ in range(2):
        assert (await post(mesh.proxy_port, GOOD, headers, seconds=20)).body == body


@pytest.mark.parametrize("fault", [Act.CLOSE, Act.RESET])
async def test_a_stream_cut_short_is_not_finished(
    mesh: Mesh, rude: RudeProvider, script: str, fault: Act
) -> None:
    """After content a break ends the stream: no made-up finish, no retry."""
    first = chunk(event(delta("one")))
    headers = rude.script(script, [STREAM_HEAD, first, 0.05, fault])
    async with asyncio.timeout(5), await connect(mesh.proxy_port) as connection:
        await connection.send(
            json_request(CHAT, {**GOOD, "model": "flaky", "stream": True}, list(headers.items()))
        )
        status, _ = await connection.receive_head()
        rest = await connection.reader.read()
    assert status == 200
    assert b"[DONE]" not in rest
    assert b'"finish_reason": "stop"' not in rest
    assert not rest.endswith(b"0\r\n\r\n")
    assert len(rude.seen(script)) == 1


@pytest.mark.parametrize("age", [0, 4], ids=["at-once", "older-than-the-request-limit"])
async def test_a_silent_stream_is_ended(mesh: Mesh, rude: RudeProvider, script: str, age: int) -> None:
    """`streamIdle` ends a stream that has fallen silent, however old, without a made-up finish."""
    beat: list[Piece] = [chunk(event(delta("one"))), 0.4]
    headers = rude.script(script, [STREAM_HEAD, *beat * age, chunk(event(delta("last"))), Act.HOLD])
    async with asyncio.timeout(6), await connect(mesh.proxy_port) as connection:
        request = json_request(CHAT, {**GOOD, "model": "impatient", "stream": True}, list(headers.items()))
        await connection.send(request)
        await connection.receive_head()
        rest = await connection.reader.read()
    assert b"[DONE]" not in rest
    assert await asyncio.to_thread(rude.seen(script)[0].aborted.wait, 2)


async def test_a_stream_may_outlive_the_request_timeout(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """`timeouts.request` bounds a stream's first byte, not its length."""
    events = stream_events(*"abcdef")
    headers = rude.script(script, stream_reply(events, gap=0.3))
    answer = await post(mesh.proxy_port, {**GOOD, "model": "impatient", "stream": True}, headers)
    assert answer.body == b"".join(events)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_that_says_nothing_is_a_504(
    mesh: Mesh, rude: RudeProvider, script: str, stream: bool
) -> None:
    """After `timeouts.request` the caller is told so in OpenAI's shape; the call upstream is closed."""
    headers = rude.script(script, [Act.HOLD])
    began = time.monotonic()
    answer = await post(mesh.proxy_port, {**GOOD, "model": "impatient", "stream": stream}, headers)
    assert answer.status == 504
    answer.error()
    assert answer.get("x-outrigger-error")
    assert time.monotonic() - began < 6
    assert all(await asyncio.gather(*(asyncio.to_thread(s.aborted.wait, 2) for s in rude.seen(script))))


@pytest.mark.parametrize(
    "broken",
    [
        [Act.CLOSE],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", Act.CLOSE],
        [b"not http at all\r\n\r\n", Act.CLOSE],
        [
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            Act.CLOSE,
        ],
    ],
    ids=["nothing", "short", "no-http", "bad-chunk"],
)
async def test_a_broken_answer_ends_as_a_5xx_or_a_cut(
    mesh: Mesh, rude: RudeProvider, script: str, broken: list[bytes | Act]
) -> None:
    """The caller gets a JSON 5xx, or sees that the body is not whole; never a 200 that looks complete."""
    headers = rude.script(script, broken)
    try:
        answer = await post(mesh.proxy_port, {**GOOD, "model": "once"}, headers, seconds=8)
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    assert 500 <= answer.status < 600, answer
    answer.error()


async def test_a_stream_costs_few_messages(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A stream of 1,000 chunks that nobody records costs at most four messages to the processor."""
    headers = rude.script(script, stream_reply(stream_events(*(f"w{n}" for n in range(1000)))))
    before = sum(mesh.envoy_stats("ext_proc.*stream_msgs_sent").values())
    answer = await post(mesh.proxy_port, {**GOOD, "stream": True}, headers)
    assert answer.body.count(b"data: ") == 1002
    sent = sum(mesh.envoy_stats("ext_proc.*stream_msgs_sent").values()) - before
    assert 0 < sent <= 4


async def test_odd_events_fill_no_log(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A stream full of usage that is no number, and of an event of 3 MB, passes and writes no line."""
    odd = event(delta("a", usage={"prompt_tokens": "many", "completion_tokens": -1}))
    events = [*([odd] * 50), event(delta("x" * 3_000_000)), b"data: [DONE]\n\n"]
    before = mesh.log().count("Envoy:")
    headers = rude.script(script, stream_reply(events))
    answer = await post(mesh.proxy_port, {**GOOD, "stream": True}, headers)
    assert answer.body == b"".join(events)
    await post(mesh.proxy_port, GOOD)  # Envoy's output has come through by then
    assert mesh.log().count("Envoy:") == before


@pytest.mark.parametrize(
    "media_type", ["application/x-ndjson", "application/stream+json", "application/jsonl"]
)
async def test_documents_one_after_the_other_are_not_held(
    mesh: Mesh, rude: RudeProvider, script: str, media_type: str
) -> None:
    """A stream in a form that nobody here reads passes as it comes, where answers are cached, too."""
    head = STREAM_HEAD.replace(b"text/event-stream", media_type.encode())
    headers = rude.script(script, [head, chunk(b'{"a":1}\n'), Act.HOLD])
    document = {**GOOD, "model": "cached", "stream": True, "user": script}
    async with await connect(mesh.proxy_port) as connection:
        await connection.send(json_request(CHAT, document, list(headers.items())))
        async with asyncio.timeout(3):
            await connection.receive_head()
            assert await connection.receive_chunk() == b'{"a":1}\n'
