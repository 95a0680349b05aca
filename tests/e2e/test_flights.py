"""Flights in trouble: processors die, providers misbehave, callers come and go, policy changes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.faults import CHAT, nobody_restarts
from tests.e2e.governed import ADMIN, Governed
from tests.e2e.test_coalesce import DONE, open_stream, seen, slowly, status, text_of
from tests.e2e.test_metrics import moved, series, settled
from tests.harness.mesh import Mesh
from tests.harness.processes import eventually, rss_bytes, until
from tests.harness.raw_http import Connection, json_request, post
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
)

# A follower is cut after 2 + 3 + 1 s of silence: the longest limits of all Backends, and a margin.
DOCUMENTS = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{rude}/v1", default: true, timeouts: {{request: 2s, streamIdle: 1s}}}}
---
kind: Backend
metadata: {{name: patient}}
spec: {{url: "http://127.0.0.1:{rude}/v1", timeouts: {{request: 2s, streamIdle: 3s}}}}
---
kind: Model
metadata: {{name: large}}
spec: {{versions: [{{name: v1, backend: patient}}]}}
---
kind: Model
metadata: {{name: m}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: few}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: shared}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Consumer
metadata: {{name: a}}
spec: {{tenant: one}}
---
kind: Consumer
metadata: {{name: b}}
spec: {{tenant: one}}
---
kind: Consumer
metadata: {{name: c}}
spec: {{tenant: two}}
---
kind: Policy
metadata: {{name: all}}
spec: {{coalesce: {{enabled: true}}, retry: {{attempts: 1}}}}
---
kind: Policy
metadata: {{name: few}}
spec: {{target: {{models: [few]}}, coalesce: {{maxFollowers: 3}}}}
---
kind: Policy
metadata: {{name: shared}}
spec: {{target: {{models: [shared]}}, cache: {{scope: global}}}}
"""


@pytest.fixture(scope="module")
def governed(rude: RudeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """A mesh in which every Model coalesces."""
    documents = DOCUMENTS.format(rude=rude.port)
    with Mesh(tmp_path_factory.mktemp("flights"), documents, ("--admin-token", ADMIN)) as mesh:
        yield Governed(mesh)


@pytest.fixture
def sky(governed: Governed) -> Mesh:
    """The same, for those who only ask."""
    return governed.mesh


def question(script: str, model: str = "m", **more: Any) -> dict[str, Any]:
    """Return the question of one test."""
    return {"model": model, "messages": [{"role": "user", "content": script}], **more}


async def waiting(sky: Mesh, count: int, *, live: bool = False) -> None:
    """Wait until Envoy has `count` requests that wait for the processor, or that follow at its origin."""
    cluster = "outrigger_origin_0" if live else "outrigger_processor"
    name = f"cluster.{cluster}.upstream_rq_active"

    async def there() -> bool:
        return (await asyncio.to_thread(sky.envoy_stats, f"{name}$"))[name] >= count

    await eventually(there, 10, f"{count} wait")
    await asyncio.sleep(0.1)


async def read_until_cut(connection: Connection) -> bytes:
    """Read a stream that has begun until it breaks off."""
    body = b""
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        async with asyncio.timeout(15):
            while part := await connection.receive_chunk():
                body += part
    return body


@contextlib.contextmanager
def goes_on(pid: int) -> Iterator[None]:
    """Let a stopped process go on at the end, whatever happens."""
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
async def test_the_processor_fails_under_150_followers(
    sky: Mesh, rude: RudeProvider, script: str, number: signal.Signals
) -> None:
    """Who waits fails open, live followers are cut without a made-up finish, the leader's stream goes on."""
    json_script, live_script = f"{script}-json", f"{script}-live"
    json_headers = rude.script(json_script, [Act.HOLD], reply(200, completion("as it came")))
    count = 20 if number is signal.SIGKILL else 80
    words = [piece for n in range(count) for piece in (chunk(event(delta(f"{n} "))), 0.1)]
    live_headers = rude.script(
        live_script, [STREAM_HEAD, *words, chunk(event(delta(finish="stop"))), DONE, STREAM_END]
    )
    parked, live = question(json_script), question(live_script, stream=True)
    leader = await open_stream(sky, live, live_headers)
    await leader.receive_head()
    lives = [await open_stream(sky, live, live_headers) for _ in range(50)]
    for one in lives:
        assert (await one.receive_head())[0] == 200
    first = asyncio.create_task(post(sky.proxy_port, parked, json_headers, seconds=20))
    await seen(rude, json_script, 1)
    others = [asyncio.create_task(post(sky.proxy_port, parked, json_headers, seconds=20)) for _ in range(100)]
    await waiting(sky, 102)
    (pid,) = sky.pids("processor")
    with nobody_restarts(sky) if number is signal.SIGKILL else goes_on(pid):
        os.kill(pid, number)
        answers = await asyncio.gather(*others)
        heard = await asyncio.gather(*(read_until_cut(one) for one in lives))
        assert {answer.status for answer in answers} == {200}
        assert {answer.get("x-outrigger-model") for answer in answers} == {None}
        assert all(b"[DONE]" not in one and b'"stop"' not in one for one in heard)
        assert all(text_of(one).startswith("0 ") for one in heard)
        told = b""
        while part := await leader.receive_chunk():
            told += part
        assert text_of(told).endswith(f" {count - 1} ")
        rude.release(json_script)
        await first
    for one in (leader, *lives):
        one.writer.close()

    async def decided() -> bool:
        again = await post(sky.proxy_port, question(f"{script} again"))
        return again.get("x-outrigger-model") == "m"

    await eventually(decided, 10, "requests are decided again")
    await asyncio.to_thread(until, lambda: len(sky.pids("processor")) == 1, 5, "one processor")


ERROR = {"error": {"message": "no", "type": "t", "param": None, "code": None}}
LARGE = json.dumps(completion("x" * 25 * 1024 * 1024)).encode()
UNSHARED: dict[str, list[Piece]] = {
    "429": [reply(429, ERROR)],
    "500": [reply(500, ERROR)],
    "gzip": [reply(200, gzip.compress(json.dumps(completion()).encode()), [("content-encoding", "gzip")])],
    "HTML": [reply(200, "<html>", content_type="text/html")],
    "empty": [reply(200, b"")],
    "no JSON": [reply(200, b"oops")],
    "an error in a 200": [reply(200, ERROR)],
    "24 MiB": [reply(200, LARGE)],
    "an empty stream": [reply(200, b"", content_type="text/event-stream")],
    "a stream of nothing": [STREAM_HEAD, STREAM_END],
}


@pytest.mark.parametrize("kind", UNSHARED)
async def test_what_cannot_be_shared_is_the_leaders_alone(
    sky: Mesh, rude: RudeProvider, script: str, kind: str
) -> None:
    """It comes to the leader as the provider said it; the others ask by themselves."""
    answers = slowly("own", gap=0.0)
    headers = rude.script(script, [0.4, *UNSHARED[kind]], [0.05, *answers])
    # While a large answer is looked at nothing is sent, on a busy machine for over a second.
    document = question(script, "large" if kind == "24 MiB" else "m", stream=True)
    leading = asyncio.create_task(post(sky.proxy_port, document, headers, seconds=20))
    await seen(rude, script, 1)
    asking = {**document, "stream_options": {"include_usage": True}}
    streams = [
        asyncio.create_task(post(sky.proxy_port, one, headers)) for one in (document, document, asking)
    ]
    leader = await leading
    said = b"".join(piece for piece in UNSHARED[kind] if isinstance(piece, bytes))
    assert leader.status == int(said.split(b" ", 2)[1])
    assert leader.body == (b"" if "stream" in kind else said.partition(b"\r\n\r\n")[2])
    own = await asyncio.gather(*streams)
    assert [text_of(answer.body) for answer in own] == ["own"] * 3
    assert [answer.body.count(b'"usage"') for answer in own] == [0, 0, 1]
    assert len(rude.seen(script)) == 4


LIVE: dict[str, list[Piece]] = {
    "no end mark": [STREAM_END],
    "trailers": [DONE, b"0\r\nx-checksum: 1\r\n\r\n"],
    "an error frame": [chunk(event(ERROR)), STREAM_END],
}


@pytest.mark.parametrize("kind", LIVE)
async def test_an_odd_end_is_everybodys(sky: Mesh, rude: RudeProvider, script: str, kind: str) -> None:
    """A follower of the stream gets what the leader got; who waits for the whole gets it if it is whole."""
    finish = [] if kind == "an error frame" else [chunk(event(delta(finish="stop")))]
    stream = [STREAM_HEAD, 0.4, chunk(event(delta("a"))), *finish, *LIVE[kind]]
    headers = rude.script(script, stream, reply(200, completion("own")))
    document = question(script, stream=True)
    leading = asyncio.create_task(post(sky.proxy_port, document, headers))
    await seen(rude, script, 1)
    follower = asyncio.create_task(post(sky.proxy_port, document, headers))
    as_json = asyncio.create_task(post(sky.proxy_port, {**document, "stream": False}, headers))
    leader = await leading
    assert (await follower).body == leader.body
    assert leader.body.count(b"[DONE]") == (1 if kind == "trailers" else 0)
    message = (await as_json).json()["choices"][0]["message"]
    assert message["content"] == ("own" if kind == "an error frame" else "a")


PHASES = ["thinking", "begun", "half an event", "finished"]


@pytest.mark.parametrize("phase", PHASES)
async def test_the_leader_leaves_in_every_phase(
    sky: Mesh, rude: RudeProvider, script: str, phase: str
) -> None:
    """Streams and JSON get the whole, each event once; at most one more call is made."""
    half = chunk(event(delta("b"))[:30])
    first: dict[str, list[Piece]] = {
        "thinking": [],
        "begun": [STREAM_HEAD, chunk(event(delta("a")))],
        "half an event": [STREAM_HEAD, chunk(event(delta("a"))), half],
        "finished": [STREAM_HEAD, chunk(event(delta("abc"))), chunk(event(delta(finish="stop")))],
    }
    headers = rude.script(script, [0.3, *first[phase], Act.HOLD], slowly("ab", "c", gap=0.05))
    document = question(script, stream=True)
    leader = await open_stream(sky, document, headers)
    await seen(rude, script, 1)
    streams = [asyncio.create_task(post(sky.proxy_port, document, headers)) for _ in range(3)]
    as_json = asyncio.create_task(post(sky.proxy_port, {**document, "stream": False}, headers))
    await waiting(sky, 3, live=True)
    if phase != "thinking":
        await leader.receive_head()
        await leader.receive_chunk()
    await leader.__aexit__()
    answers = await asyncio.gather(*streams)
    assert [text_of(answer.body) for answer in answers] == ["abc"] * 3
    for answer in answers:
        assert [answer.body.count(mark) for mark in (b'"stop"', b"[DONE]", b'"usage"')] == [1, 1, 0]
        assert all(json.loads(line[6:]) for line in answer.body.splitlines() if line.startswith(b"data: {"))
    assert (await as_json).json()["choices"][0]["message"]["content"] == "abc"
    assert len(rude.seen(script)) == 2
    ours, theirs = (
        {name.lower(): value for name, value in call.headers} for call in reversed(rude.seen(script))
    )
    assert ours == theirs, "the flight's own call looks like the leader's"
    assert rude.seen(script)[0].body == rude.seen(script)[1].body


@pytest.mark.parametrize("phase", PHASES[:3])
@pytest.mark.parametrize("order", ["leader first", "leader last"])
async def test_all_leave_in_every_phase(
    sky: Mesh, rude: RudeProvider, script: str, phase: str, order: str
) -> None:
    """Every call is closed within a second, and nothing of the flight is left: the next one asks anew."""
    begun = [] if phase == "thinking" else [STREAM_HEAD, chunk(event(delta("a")))]
    half = [chunk(b'data: {"ha')] if phase == "half an event" else []
    headers = rude.script(script, [0.2, *begun, *half, Act.HOLD])
    document = question(script, stream=True)
    leader = await open_stream(sky, document, headers)
    await seen(rude, script, 1)
    others = [await open_stream(sky, document, headers) for _ in range(3)]
    others += [await open_stream(sky, {**document, "stream": False}, headers) for _ in range(2)]
    await waiting(sky, 3, live=True)
    for one in (leader, *others) if order == "leader first" else (*others, leader):
        await one.__aexit__()
        await asyncio.sleep(0.02)
    for call in rude.seen(script):
        assert await asyncio.to_thread(call.aborted.wait, 1.5)
    calls = len(rude.seen(script))
    assert calls <= 2
    rude.script(f"{script}-fresh")
    fresh = await post(sky.proxy_port, {**document, "stream": False}, {"x-script": f"{script}-fresh"})
    assert (fresh.status, status(fresh)) == (200, "bypass")


async def test_followers_that_come_and_go_leave_nothing(sky: Mesh, rude: RudeProvider, script: str) -> None:
    """A hundred, each after another moment; who stays gets everything, and the call is one."""
    headers = rude.script(script, slowly(*"abcdef", gap=0.5))
    document = question(script, stream=True)
    leader = asyncio.create_task(post(sky.proxy_port, document, headers))
    await seen(rude, script, 1)

    async def come_and_go(number: int) -> None:
        await asyncio.sleep(number * 0.008)
        connection = await open_stream(sky, {**document, "stream": number % 3 > 0}, headers)
        await asyncio.sleep(number % 7 * 0.01)
        await connection.__aexit__()

    leaving = [asyncio.create_task(come_and_go(number)) for number in range(100)]
    staying = [asyncio.create_task(post(sky.proxy_port, document, headers)) for _ in range(5)]
    await asyncio.gather(*leaving)
    assert {text_of(answer.body) for answer in await asyncio.gather(leader, *staying)} == {"abcdef"}
    assert len(rude.seen(script)) == 1


def deaf(mesh: Mesh, request: bytes) -> socket.socket:
    """Send a request on a connection whose answer nobody reads."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", mesh.proxy_port))
    one.sendall(request)
    return one


def all_that_comes(one: socket.socket) -> bytes:
    """Read to the end of a chunked answer and close the connection."""
    body = bytearray()
    one.settimeout(30)
    while not body.endswith(b"\r\n0\r\n\r\n"):
        body += one.recv(1 << 20) or b"\r\n0\r\n\r\n"
    one.close()
    return bytes(body)


async def test_a_slow_reader_holds_nobody_up(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Eight MiB pass to the others while ten read nothing; the processor holds them for all together.

    By the mesh whose Backend has time: here a follower is cut when this machine is silent for four seconds.
    """
    piece = chunk(event(delta("x" * 64 * 1024)))
    headers = rude.script(script, [Act.HOLD, STREAM_HEAD, *[piece] * 128, DONE, STREAM_END])
    document = question(script, "coalesced", stream=True)
    leader = asyncio.create_task(post(mesh.proxy_port, document, headers, seconds=20))
    await seen(rude, script, 1)
    slow = [deaf(mesh, json_request(CHAT, document, list(headers.items()))) for _ in range(10)]
    quick = [asyncio.create_task(post(mesh.proxy_port, document, headers, seconds=20)) for _ in range(2)]
    await waiting(mesh, 12, live=True)
    (pid,) = mesh.pids("processor")
    before = rss_bytes(pid)
    rude.release(script)
    sizes = {len(answer.body) for answer in await asyncio.gather(leader, *quick)}
    assert sizes.pop() > 8 * 1024 * 1024
    assert not sizes
    assert rss_bytes(pid) - before < 128 * 1024 * 1024
    for answer in await asyncio.gather(*(asyncio.to_thread(all_that_comes, one) for one in slow)):
        assert len(answer) > 8 * 1024 * 1024
        assert b"data: [DONE]\n\n" in answer[-50:]


async def test_no_more_than_max_followers(sky: Mesh, rude: RudeProvider, script: str) -> None:
    """What comes beyond goes up by itself; when one leaves, its place is free."""
    headers = rude.script(script, [Act.HOLD, reply(200, completion("x"))])
    document = question(script, "few")
    leader = asyncio.create_task(post(sky.proxy_port, document, headers))
    await seen(rude, script, 1)
    places = [await open_stream(sky, document, headers) for _ in range(3)]
    await waiting(sky, 4)
    beyond = asyncio.create_task(post(sky.proxy_port, document, headers))
    await seen(rude, script, 2)
    await places.pop().__aexit__()
    await waiting(sky, 3)
    fourth = asyncio.create_task(post(sky.proxy_port, document, headers))
    await waiting(sky, 4)
    rude.release(script)
    answers = [await leader, await beyond, await fourth, *[await one.receive() for one in places]]
    for one in places:
        one.writer.close()
    assert [status(answer) for answer in answers] == ["bypass", "bypass", *["coalesced"] * 3]
    assert len(rude.seen(script)) == 2


async def test_whose_key_goes_where(governed: Governed, rude: RudeProvider, script: str) -> None:
    """A Consumer's key to nobody; a caller's own key only with its own call; tenants never mixed."""
    sky = governed.mesh
    keys = [governed.api.post(f"/consumers/{name}/keys").json()["key"] for name in "abc"]
    bearers = [{"authorization": f"Bearer {key}"} for key in keys]

    async def known() -> bool:
        asked = [await post(sky.proxy_port, question(f"{script} key"), bearer) for bearer in bearers]
        return [answer.status for answer in asked] == [200] * 3

    await eventually(known, 5, "the keys are known")
    headers = rude.script(script, [Act.HOLD], [0.2, reply(200, completion("x"))])
    document = question(script)
    one = await open_stream(sky, document, {**headers, **bearers[0]})
    await seen(rude, script, 1)
    same = asyncio.create_task(post(sky.proxy_port, document, {**headers, **bearers[1]}))
    other = asyncio.create_task(post(sky.proxy_port, document, {**headers, **bearers[2]}))
    await seen(rude, script, 2)
    await waiting(sky, 2)
    await one.__aexit__()
    assert (status(await same), status(await other)) == ("coalesced", "bypass")
    assert len(rude.seen(script)) == 3
    assert not [call for call in rude.seen(script) if "ork_" in str(call.headers)]

    # In the scope `global` callers share answers, but not keys: only the leader's is refused.
    script += "-global"
    headers = rude.script(script, [0.4, reply(401, ERROR)], slowly("ok", gap=0.0))
    document = question(script, "shared", stream=True)
    leader = asyncio.create_task(
        post(sky.proxy_port, document, {**headers, "authorization": "Bearer sk-bad"})
    )
    await seen(rude, script, 1)
    good = [{"authorization": f"Bearer sk-good-{n}"} for n in range(3)]
    followers = [asyncio.create_task(post(sky.proxy_port, document, {**headers, **key})) for key in good]
    assert (await leader).status == 401
    assert [text_of(answer.body) for answer in await asyncio.gather(*followers)] == ["ok"] * 3
    used = {call.get("authorization") for call in rude.seen(script)[1:]}
    assert used == {key["authorization"] for key in good}


async def test_policy_changes_while_a_flight_is_open(
    governed: Governed, rude: RudeProvider, script: str
) -> None:
    """Who is aboard arrives, also when the leader leaves; who comes later goes up alone."""
    sky = governed.mesh
    headers = rude.script(
        script, [STREAM_HEAD, chunk(event(delta("a"))), Act.HOLD], slowly("ab", "c", gap=0.1)
    )
    document = question(script, stream=True)
    leader = await open_stream(sky, document, headers)
    await leader.receive_head()
    follower = asyncio.create_task(post(sky.proxy_port, document, headers))
    as_json = asyncio.create_task(post(sky.proxy_port, {**document, "stream": False}, headers))
    await waiting(sky, 1, live=True)
    off = "kind: Policy\nmetadata: {name: all}\nspec: {coalesce: {enabled: false}, retry: {attempts: 2}}\n"
    governed.apply(off)
    try:

        async def alone() -> bool:
            asked = question(f"{script} {os.urandom(4).hex()}")
            own = rude.script(asked["messages"][0]["content"], [0.2, reply(200, completion("x"))])
            pair = await asyncio.gather(*(post(sky.proxy_port, asked, own) for _ in range(2)))
            return {status(answer) for answer in pair} == {"bypass"}

        await eventually(alone, 5, "the change is in force")
        await leader.__aexit__()
        assert text_of((await follower).body) == "abc"
        assert (await as_json).json()["choices"][0]["message"]["content"] == "abc"
    finally:
        governed.good("rollback", "1")


async def test_every_call_moves_one_series(sky: Mesh, rude: RudeProvider, script: str) -> None:
    """Leader and followers are calls; tokens, tries and the Backend are counted where they were bought."""
    headers = rude.script(script, slowly("a", gap=0.3))
    document = question(script, stream=True, stream_options={"include_usage": True})
    before, calls_before = series(sky), series(sky, "openai_request_total")
    leader = asyncio.create_task(post(sky.proxy_port, document, headers))
    await seen(rude, script, 1)
    asked = [document, document, {**document, "stream": False}]
    followers = [asyncio.create_task(post(sky.proxy_port, one, headers)) for one in asked]
    answers = [await leader, *await asyncio.gather(*followers)]
    assert [status(answer) for answer in answers] == ["bypass", *["coalesced"] * 3]
    calls = moved(calls_before, await settled(sky, calls_before, 4))
    assert calls == {("openai_request_total", (("status", "200"),)): 4}
    change = moved(before, series(sky))
    by_name: dict[str, float] = {}
    for (name, _), value in change.items():
        by_name[name] = by_name.get(name, 0) + value
    assert by_name["outrigger_upstream_attempts_total"] == 1
    assert by_name["outrigger_backend_requests_total"] == 1
    assert by_name["gen_ai_client_token_usage_sum"] == 9 + 3
    cached = {dict(labels)["result"]: n for (name, labels), n in change.items() if "cache_requests" in name}
    assert cached == {"bypass": 1, "coalesced": 3}


async def test_each_worker_has_its_own_flights(
    rude: RudeProvider, script: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At most one call in each, everybody answered, streams by the worker that has them."""
    documents = DOCUMENTS.format(rude=rude.port)
    options = ("--workers", "2")
    with Mesh(tmp_path_factory.mktemp("workers"), documents, options) as mesh:
        headers = rude.script(script, [0.8, *slowly("a", "b", gap=0.1)])
        document = question(script, stream=True)
        asked = [post(mesh.proxy_port, document, headers) for _ in range(60)]
        answers = await asyncio.gather(*asked)
        assert {answer.status for answer in answers} == {200}
        assert {text_of(answer.body) for answer in answers} == {"ab"}
        assert 1 <= len(rude.seen(script)) <= 2
        assert len(mesh.pids("processor")) == 2
