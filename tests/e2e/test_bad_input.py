"""What no well-behaved client sends: each gets one clear answer, soon, and harms nobody else."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import httpx
import pytest

from tests.harness.mesh import Mesh
from tests.harness.processes import rss_bytes
from tests.harness.raw_http import Answer, ask, connect, json_request, post, request_bytes
from tests.harness.rude import RudeProvider

CHAT = "/v1/chat/completions"
GOOD = {"model": "plain", "messages": [{"role": "user", "content": "hello"}]}
GOOD_BYTES = json.dumps(GOOD).encode()
JSON_TYPE = ("content-type", "application/json")
MIB = 1024 * 1024


def nested(levels: int) -> bytes:
    """Return a good chat with a tool schema nested so many levels deep."""
    schema = b'{"a":' * levels + b"1" + b"}" * levels
    return GOOD_BYTES[:-1] + b', "tools": [{"type": "function", "function": ' + schema + b"}]}"


def refused(answer: Answer, *statuses: int) -> None:
    """Check that an answer is one of our own refusals."""
    assert answer.status in statuses, (answer.status, answer.body[:300])
    answer.error()
    assert answer.get("x-outrigger-error"), answer.headers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b'""',
        b"{",
        b'{"model": "plain", "messages": [], "temperature": NaN}',
        b"\xef\xbb\xbf" + GOOD_BYTES,
        GOOD_BYTES.decode().encode("utf-16"),
        GOOD_BYTES + b" garbage",
        GOOD_BYTES.replace(b"hello", b"hel\xfflo"),
        GOOD_BYTES.replace(b"hello", rb"\ud800"),
        b'{"messages": []}',
        b'{"model": null, "messages": []}',
        b'{"model": "", "messages": []}',
        b'{"model": {"a": 1}, "messages": []}',
        b'{"model": ["plain"], "messages": []}',
        b'{"model": 5, "messages": []}',
        GOOD_BYTES[:-1] + b', "stream": "yes"}',
        nested(5000),
    ],
    ids=[
        "empty", "null", "list", "number", "string", "cut", "NaN", "BOM", "UTF-16", "garbage-behind",
        "invalid-UTF-8", "lone-surrogate", "no-model", "null-model", "empty-model", "model-object",
        "model-list", "model-number", "stream-text", "5000-levels",
    ],
)  # fmt: skip
async def test_a_body_that_is_no_request_is_refused(
    mesh: Mesh, rude: RudeProvider, script: str, body: bytes
) -> None:
    """It gets a 400 in OpenAI's shape within two seconds, reaches no provider, and the next call works."""
    headers = [JSON_TYPE, *rude.script(script).items()]
    async with asyncio.timeout(2), await connect(mesh.proxy_port) as connection:
        await connection.send(request_bytes("POST", CHAT, body, headers))
        refused(await connection.receive(), 400)
        await connection.send(json_request(CHAT, GOOD, [("x-script", script)]))
        assert (await connection.receive()).status == 200
    assert len(rude.seen(script)) == 1


@pytest.mark.parametrize(
    "document",
    [
        {**GOOD, "messages": "a text"},
        {**GOOD, "messages": {}},
        {**GOOD, "messages": [None, {"role": "user", "content": None}]},
        {**GOOD, "seed": int("9" * 400)},
    ],
    ids=["messages-text", "messages-object", "null-items", "400-digits"],
)
async def test_odd_types_get_a_json_answer(mesh: Mesh, document: dict[str, object]) -> None:
    """Wrong types that no policy reads are the provider's business: 200 passed on, or a 4xx of ours."""
    async with asyncio.timeout(2), await connect(mesh.proxy_port) as connection:
        await connection.send(json_request(CHAT, document))
        answer = await connection.receive()
        assert answer.status == 200 or 400 <= answer.status < 500
        assert answer.json()
        await connection.send(json_request(CHAT, GOOD))
        assert (await connection.receive()).status == 200


@pytest.mark.parametrize("model", ["plain", "cached", "cached-renamed"])
async def test_of_doubled_keys_policies_and_provider_use_the_same(
    mesh: Mesh, rude: RudeProvider, script: str, model: str
) -> None:
    """With two `model` keys the request is refused, or the last one decides and is what goes upstream."""
    body = b'{"model": "split", "messages": [], "model": "%s"}' % model.encode()
    headers = [JSON_TYPE, *rude.script(script).items()]
    answer = await ask(mesh.proxy_port, request_bytes("POST", CHAT, body, headers))
    if answer.status == 400:
        refused(answer, 400)
        assert rude.seen(script) == []
    else:
        assert answer.get("x-outrigger-model") == model
        assert rude.seen(script)[0].body.count(b'"model"') == 1


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        None,
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/x-json-ish",
    ],
)
async def test_another_content_type_is_415(mesh: Mesh, content_type: str | None) -> None:
    """A chat that does not say it is JSON is refused, whatever its body holds."""
    headers = [] if content_type is None else [("content-type", content_type)]
    refused(await ask(mesh.proxy_port, request_bytes("POST", CHAT, GOOD_BYTES, headers)), 400, 415)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_every_writing_of_json_is_accepted(mesh: Mesh, content_type: str) -> None:
    """Case and a charset parameter do not matter."""
    request = request_bytes("POST", CHAT, GOOD_BYTES, [("CONTENT-type", content_type)])
    assert (await ask(mesh.proxy_port, request)).status == 200


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(GOOD_BYTES)),
        ("deflate", zlib.compress(GOOD_BYTES)),
        ("br", b"\x0b\x02\x80hello\x03"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x00"),
        ("gzip, gzip", gzip.compress(gzip.compress(GOOD_BYTES))),
        ("gzip", gzip.compress(GOOD_BYTES)[:-12]),
        ("frobnicated", GOOD_BYTES),
    ],
    ids=["gzip", "deflate", "br", "zstd", "stacked", "cut", "unknown"],
)
async def test_a_coded_body_is_415(
    mesh: Mesh, rude: RudeProvider, script: str, coding: str, body: bytes
) -> None:
    """A coded body is never passed on with the policies off."""
    headers = [JSON_TYPE, ("content-encoding", coding), *rude.script(script).items()]
    refused(await ask(mesh.proxy_port, request_bytes("POST", CHAT, body, headers), 2), 415)
    assert rude.seen(script) == []


async def test_a_gzip_bomb_costs_no_memory(mesh: Mesh) -> None:
    """300 MB of zeros in gzip are refused within seconds and the processor stays small."""
    bomb = await asyncio.to_thread(gzip.compress, bytes(300 * MIB), 6)
    (processor,) = mesh.pids("processor")
    before = rss_bytes(processor)
    headers = [JSON_TYPE, ("content-encoding", "gzip")]
    refused(await ask(mesh.proxy_port, request_bytes("POST", CHAT, bomb, headers), 5), 415)
    assert rss_bytes(processor) - before < 20 * MIB


async def test_a_body_of_20_mib_works(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A large request arrives byte for byte."""
    body = json.dumps({**GOOD, "messages": [{"role": "user", "content": "x" * 20 * MIB}]}).encode()
    headers = [JSON_TYPE, *rude.script(script).items()]
    answer = await ask(mesh.proxy_port, request_bytes("POST", CHAT, body, headers), 20)
    assert answer.status == 200
    assert rude.seen(script)[0].body == body


async def test_a_body_of_64_mib_is_413(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A chat above 32 MiB is refused in OpenAI's shape, announced or chunked, and reaches nobody."""
    headers = [JSON_TYPE, *rude.script(script).items()]
    announced = request_bytes("POST", CHAT, b" " * 64 * MIB, headers)
    piece = b"%x\r\n%b\r\n" % (MIB, b" " * MIB)
    head = request_bytes("POST", CHAT, b"", [*headers, ("transfer-encoding", "chunked")])
    for request in (announced, head + piece * 64 + b"0\r\n\r\n"):
        async with asyncio.timeout(20), await connect(mesh.proxy_port) as connection:
            connection.writer.write(request)
            refused(await connection.receive(), 413)
    assert rude.seen(script) == []


async def test_other_paths_take_any_size(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """An upload of 40 MiB to a path that we do not parse streams through unchanged."""
    body = bytes(range(256)) * 4096 * 40
    headers = [("content-type", "multipart/form-data; boundary=b"), *rude.script(script).items()]
    answer = await ask(mesh.proxy_port, request_bytes("POST", "/v1/files?purpose=batch", body, headers), 30)
    assert answer.status == 200
    seen = rude.seen(script)[0]
    assert (seen.method, seen.target) == ("POST", "/v1/files?purpose=batch")
    assert seen.body == body


async def test_an_unknown_model_passes_or_is_refused_as_the_policy_says(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """By default it goes to the default Backend as it is; with `unknownModels: refuse` it is a 404."""
    headers = rude.script(script)
    body = b'{ "model":"who-knows",  "messages":[ ] }'
    passed = await ask(mesh.proxy_port, request_bytes("POST", CHAT, body, [JSON_TYPE, *headers.items()]))
    assert passed.status == 200
    assert passed.get("x-outrigger-backend") == "rude"
    assert rude.seen(script)[0].body == body
    answer = await post(mesh.proxy_port, {**GOOD, "model": "refuse-me"}, headers)
    refused(answer, 404)
    assert answer.error()["code"] == "model_not_found"
    assert answer.error()["param"] == "model"
    assert len(rude.seen(script)) == 1


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_upgrades_are_answered_at_once(mesh: Mesh, protocol: str) -> None:
    """Sixty POSTs that ask for an upgrade are each answered in two seconds, and slow no call beside them."""
    headers = [
        ("connection", "Upgrade, HTTP2-Settings"),
        ("upgrade", protocol),
        ("http2-settings", ""),
        JSON_TYPE,
    ]
    request = request_bytes("POST", CHAT, GOOD_BYTES, headers)
    connections = [await connect(mesh.proxy_port) for _ in range(60)]
    try:
        async with asyncio.timeout(4):
            for connection in connections:
                await connection.send(request)
            answers = await asyncio.gather(*(connection.receive() for connection in connections))
            beside = await post(mesh.proxy_port, GOOD, seconds=1)
    finally:
        for connection in connections:
            connection.writer.close()
    assert {answer.status for answer in answers} <= {200, 400, 403, 426, 501}, {a.status for a in answers}
    assert beside.status == 200


async def test_http_1_0_and_close_just_work(mesh: Mesh) -> None:
    """An HTTP/1.0 client without keep-alive gets a whole answer and the end of the connection."""
    request = request_bytes("POST", CHAT, GOOD_BYTES, [JSON_TYPE], version="HTTP/1.0")
    async with asyncio.timeout(5), await connect(mesh.proxy_port) as connection:
        await connection.send(request)
        status, headers = await connection.receive_head()
        body = await connection.reader.read()
    assert status == 200
    assert "transfer-encoding" not in {name.lower() for name, _ in headers}
    assert json.loads(body)["choices"]


async def test_expect_gets_its_interim_answer_first(mesh: Mesh) -> None:
    """With `Expect: 100-continue` the 100 comes before the body is sent."""
    headers = [JSON_TYPE, ("expect", "100-continue"), ("content-length", str(len(GOOD_BYTES)))]
    async with asyncio.timeout(2), await connect(mesh.proxy_port) as connection:
        await connection.send(request_bytes("POST", CHAT, b"", headers))
        status, _ = await connection.receive_head()
        assert status == 100
        await connection.send(GOOD_BYTES)
        assert (await connection.receive()).status == 200


async def test_a_hundred_levels_of_nesting_work(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A deep tool schema passes unchanged."""
    headers = [JSON_TYPE, *rude.script(script).items()]
    assert (await ask(mesh.proxy_port, request_bytes("POST", CHAT, nested(100), headers))).status == 200
    assert rude.seen(script)[0].body == nested(100)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("length", [None, "0"])
async def test_requests_without_a_body_are_answered(mesh: Mesh, method: str, length: str | None) -> None:
    """Whatever the method, with or without content-length: 0, within a second; HEAD has no body."""
    headers = [] if length is None else [("content-length", length)]
    request = request_bytes(method, "/v1/files/file-1", None, headers)
    async with asyncio.timeout(2), await connect(mesh.proxy_port) as connection:
        for _ in range(2):
            await connection.send(request)
            answer = await connection.receive(head_only=method == "HEAD")
            assert answer.status == 200


async def test_an_empty_chunked_post_is_refused(mesh: Mesh) -> None:
    """A chat whose chunked body is empty is a 400, not a hang."""
    head = request_bytes("POST", CHAT, b"", [JSON_TYPE, ("transfer-encoding", "chunked")])
    refused(await ask(mesh.proxy_port, head + b"0\r\n\r\n", 2), 400)


async def test_a_good_body_in_chunks_with_trailers_works(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A chunked request of 200 KB with a trailer arrives whole and is answered in normal time."""
    body = json.dumps({**GOOD, "user": "u" * 200_000}).encode()
    headers = [
        JSON_TYPE,
        ("transfer-encoding", "chunked"),
        ("trailer", "x-sum"),
        *rude.script(script).items(),
    ]
    pieces = b"".join(
        b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:1], body[1:70_000], body[70_000:])
    )
    request = request_bytes("POST", CHAT, b"", headers) + pieces + b"0\r\nx-sum: abc\r\n\r\n"
    assert (await ask(mesh.proxy_port, request, 3)).status == 200
    assert rude.seen(script)[0].body == body


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/x HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n",
    ],
    ids=["version", "tls-hello", "bad-header"],
)
async def test_what_is_no_http_ends_at_once(mesh: Mesh, request_line: bytes) -> None:
    """Bytes that are no HTTP get a 4xx or the end of the connection, not a hang."""
    async with asyncio.timeout(3), await connect(mesh.proxy_port) as connection:
        await connection.send(request_line)
        answer = await connection.reader.read()
    assert answer == b"" or answer.split()[1].startswith(b"4"), answer


@pytest.mark.parametrize(
    "headers",
    [
        [("content-length", "5"), ("transfer-encoding", "chunked")],
        [("content-length", "5"), ("content-length", "6")],
        [("transfer-encoding", "xchunked")],
    ],
    ids=["both-framings", "two-lengths", "odd-coding"],
)
async def test_smuggled_framing_is_refused(
    mesh: Mesh, rude: RudeProvider, script: str, headers: list[tuple[str, str]]
) -> None:
    """A request with doubtful framing never reaches the provider."""
    request = request_bytes("POST", CHAT, None, [JSON_TYPE, *rude.script(script).items(), *headers])
    answer = await ask(mesh.proxy_port, request + b"0\r\n\r\n", 3)
    refused(answer, 400)
    assert rude.seen(script) == []


@pytest.mark.parametrize("target", [CHAT, "/v1/files"])
async def test_trace_is_refused(mesh: Mesh, rude: RudeProvider, script: str, target: str) -> None:
    """A provider would answer with the headers that it got, and so with its own key."""
    request = request_bytes("TRACE", target, None, list(rude.script(script).items()))
    refused(await ask(mesh.proxy_port, request, 3), 405)
    assert rude.seen(script) == []


async def test_connect_is_refused(mesh: Mesh) -> None:
    """It has no path that any policy could be about."""
    answer = await ask(mesh.proxy_port, request_bytes("CONNECT", "api.openai.com:443"), 3)
    refused(answer, 405)
    assert "CONNECT" in str(answer.error()["message"])


async def test_http_2_with_prior_knowledge_works(mesh: Mesh) -> None:
    """The proxy port speaks HTTP/2 without TLS to a client that knows it does."""
    async with httpx.AsyncClient(http1=False, http2=True) as client:
        answer = await client.post(f"{mesh.url}/chat/completions", json=GOOD)
    assert answer.http_version == "HTTP/2"
    assert answer.status_code == 200
    assert answer.json()["choices"]


async def test_a_path_outside_v1_is_a_404(mesh: Mesh) -> None:
    """Paths that are not ours say so in OpenAI's shape."""
    for target in ("/", "/v2/chat/completions", "/chat/completions", "/metrics"):
        refused(await ask(mesh.proxy_port, request_bytes("GET", target)), 404)
