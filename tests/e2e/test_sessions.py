"""Sessions in the mesh: what goes up, what is kept, and whose it is."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.e2e.governed import lent
from tests.harness.mesh import Mesh
from tests.harness.processes import eventually
from tests.harness.raw_http import Answer, ask, connect, json_request, post
from tests.harness.redis import RedisMissingError, RedisServer, redis_server
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
MESH = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{port}/v1", default: true}}
---
kind: Policy
metadata: {{name: everyone}}
spec: {{session: {{enabled: true, turns: 3}}, retry: {{attempts: 1}}}}
---
kind: Policy
metadata: {{name: cached}}
spec: {{target: {{models: [cached]}}, cache: {{enabled: true}}, coalesce: {{enabled: true}}}}
---
kind: Policy
metadata: {{name: short}}
spec: {{target: {{models: [short]}}, session: {{maxTokens: 60}}}}
---
kind: Policy
metadata: {{name: brief}}
spec: {{target: {{models: [brief]}}, session: {{ttl: 600ms}}}}
---
kind: Policy
metadata: {{name: plain}}
spec: {{target: {{models: [plain]}}, session: {{enabled: false}}}}
---
kind: Pin
metadata: {{name: welcome}}
spec: {{model: m, match: {{lastUserMessage: "pinned?"}}, answer: "Pinned."}}
"""
MODELS = ("m", "cached", "short", "brief", "plain")
_NAMES = itertools.count(1)
_SYSTEM = {"role": "system", "content": "Be brief."}


def documents(port: int) -> str:
    """Return the documents of a mesh whose provider listens on `port`."""
    return MESH.format(port=port) + "".join(
        f"---\nkind: Model\nmetadata: {{name: {name}}}\nspec: {{versions: [{{name: v1, backend: rude}}]}}\n"
        for name in MODELS
    )


@pytest.fixture(scope="module")
def mesh(mesh: Mesh, rude: RudeProvider) -> Iterator[Mesh]:
    """The shared mesh, with sessions, which it keeps in memory."""
    with lent(mesh, documents(rude.port)):
        yield mesh


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis."""
    try:
        with redis_server(Path(tmp_path_factory.mktemp("redis"))) as started:
            yield started
    except RedisMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def pair(
    rude: RudeProvider, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[Mesh]]:
    """Two sidecars of one Redis: one has one processor, the other two."""
    with ExitStack() as started:
        yield [
            started.enter_context(
                Mesh(
                    tmp_path_factory.mktemp(f"sessions-{workers}"),
                    documents(rude.port),
                    options=("--redis", redis.url, "--workers", workers),
                )
            )
            for workers in ("1", "2")
        ]


def user(text: str) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    """Return an assistant's message."""
    return {"role": "assistant", "content": text}


class Talker:
    """Somebody with a session of his own, and the provider that answers him."""

    def __init__(self, mesh: Mesh, rude: RudeProvider, script: str, model: str = "m") -> None:
        self.port = mesh.proxy_port
        self.rude = rude
        self.script = script
        self.model = model
        self.headers = {"x-outrigger-session": f"session {next(_NAMES)}", "x-script": script}
        rude.script(script, lambda seen: [reply(200, completion(f"to {_last(seen.json())}"))])

    async def ask(self, *messages: dict[str, Any], port: int | None = None, **more: Any) -> Answer:
        """Send new messages; return the answer."""
        headers = {**self.headers, **more.pop("headers", {})}
        document = {"model": more.pop("model", self.model), "messages": list(messages), **more}
        return await post(port or self.port, document, headers)

    async def good(self, *messages: dict[str, Any], **more: Any) -> list[Any]:
        """Send new messages that are answered; return what went up."""
        answer = await self.ask(*messages, **more)
        assert answer.status == 200, answer.body
        return self.up()

    def up(self) -> list[Any]:
        """Return the messages that the provider got last."""
        messages: list[Any] = self.rude.seen(self.script)[-1].json()["messages"]
        return messages


def _last(document: dict[str, Any]) -> str:
    return str(document["messages"][-1]["content"])


@pytest.fixture
def talker(mesh: Mesh, rude: RudeProvider, script: str) -> Talker:
    """Somebody who talks to the model `m`."""
    return Talker(mesh, rude, script)


async def test_the_last_turns_go_up_with_the_new_message(talker: Talker, rude: RudeProvider) -> None:
    """As many as the Policy says, after the system prompt; the session's name stays in the mesh."""
    assert await talker.good(_SYSTEM, user("1")) == [_SYSTEM, user("1")]
    for number in range(2, 6):
        asked = user(str(number))
        past = [
            message
            for earlier in range(max(1, number - 3), number)
            for message in (user(str(earlier)), said(f"to {earlier}"))
        ]
        assert await talker.good(asked) == [_SYSTEM, *past, asked]
    other = {"role": "system", "content": "Be long."}
    assert (await talker.good(other, user("6")))[0] == other
    assert (await talker.good(user("7")))[0] == other
    assert rude.seen(talker.script)[-1].get("x-outrigger-session") is None


async def test_a_streamed_answer_is_a_turn(talker: Talker, rude: RudeProvider) -> None:
    """Its joined text; the caller gets no usage that it did not ask for."""
    rude.script(talker.script, stream_reply(stream_events("to", " 1")))
    answer = await talker.ask(user("1"), stream=True)
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert b"usage" not in answer.body
    assert await talker.good(user("2"), stream=True) == [user("1"), said("to 1"), user("2")]


async def test_tool_calls_stay_whole(talker: Talker, rude: RudeProvider) -> None:
    """The results alone go on with the turn that called; what is over the number of turns goes as a whole."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    calling = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": calling, "finish_reason": "tool_calls"}
    result = {"role": "tool", "tool_call_id": "c1", "content": "7"}
    rude.script(
        talker.script,
        reply(200, completion(choices=[choice])),
        lambda seen: [reply(200, completion(f"to {_last(seen.json())}"))],
    )
    await talker.good(user("1"))
    group = [user("1"), calling, result]
    assert await talker.good(result) == group
    turn = [*group, said("to 7")]
    for number in (2, 3, 4):
        up = await talker.good(user(str(number)))
        assert up[:4] == turn
        assert len(up) == 4 + 2 * (number - 2) + 1
    assert (await talker.good(user("5")))[:2] == [user("2"), said("to 2")]


async def test_more_than_the_tokens_is_left_out_by_whole_turns(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """The oldest first."""
    talker = Talker(mesh, rude, script, "short")
    await talker.good(user("x" * 80))
    await talker.good(user("2"))
    assert await talker.good(user("3")) == [user("2"), said("to 2"), user("3")]


async def test_hits_and_pins_are_turns(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """An answer that cost nothing is one; equal conversations share it, others do not."""
    talker, other = (Talker(mesh, rude, script, "cached") for _ in range(2))
    for one, status in ((talker, "miss"), (other, "hit")):
        for text in (f"first {script}", f"second {script}"):
            assert (await one.ask(user(text))).get("x-outrigger-cache") == status
    for stream in (False, True):
        await other.ask(user("pinned?"), model="m", stream=stream)
    up = await other.good(user("next"))
    assert [message["content"] for message in up] == [
        *(f"second {script}", f"to second {script}"),
        *("pinned?", "Pinned.", "pinned?", "Pinned."),
        "next",
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_everybody_of_a_flight_has_the_turn(
    mesh: Mesh, rude: RudeProvider, script: str, *, stream: bool
) -> None:
    """Also those who got the answer that another one's call brought."""
    talkers = [Talker(mesh, rude, script, "cached") for _ in range(3)]
    held: list[Piece] = [STREAM_HEAD, Act.HOLD, *(chunk(one) for one in stream_events("hi")), STREAM_END]
    whole: list[Piece] = [Act.HOLD, reply(200, completion("hi"))]
    rude.script(script, held if stream else whole)
    asked = [asyncio.create_task(one.ask(user(f"flight {script}"), stream=stream)) for one in talkers]
    async with asyncio.timeout(5):
        while not rude.seen(script):  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    rude.release(script)
    assert [answer.status for answer in await asyncio.gather(*asked)] == [200] * 3
    assert len(rude.seen(script)) == 1
    rude.script(script, reply(200, completion("last")))
    for number, one in enumerate(talkers):
        assert await one.good(user(str(number))) == [user(f"flight {script}"), said("hi"), user(str(number))]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param([reply(500, {"error": {"message": "no"}})], id="500"),
        pytest.param([reply(200, {"error": {"message": "no"}})], id="error in a 200"),
        pytest.param([reply(200, completion())[:-20], Act.CLOSE], id="cut"),
        pytest.param([STREAM_HEAD, chunk(event(delta("half"))), Act.CLOSE], id="stream cut"),
        pytest.param(stream_reply([event(delta("half")), b"data: [DONE]\n\n"]), id="stream without a finish"),
    ],
)
async def test_a_failed_turn_leaves_nothing(talker: Talker, rude: RudeProvider, failure: list[Any]) -> None:
    """The next question follows the last that was answered."""
    await talker.good(user("1"))
    rude.script(talker.script, failure, reply(200, completion("fine")))
    with contextlib.suppress(asyncio.IncompleteReadError):
        await talker.ask(user("lost"), stream=b"event-stream" in failure[0])
    assert await talker.good(user("2")) == [user("1"), said("to 1"), user("2")]


async def test_a_dropped_stream_is_no_turn(talker: Talker, rude: RudeProvider) -> None:
    """Left after its first part, the next sent at once: up go the finished past and the new question."""
    await talker.good(user("1"))
    slow: list[Piece] = [
        STREAM_HEAD,
        chunk(event(delta("half"))),
        0.05,
        *(chunk(one) for one in stream_events("rest")),
    ]
    rude.script(talker.script, [*slow, STREAM_END], reply(200, completion("to 2")))
    document = {"model": "m", "messages": [user("dropped")], "stream": True}
    async with await connect(talker.port) as connection:
        await connection.send(json_request(CHAT, document, list(talker.headers.items())))
        assert (await connection.receive_head())[0] == 200
        assert b"half" in await connection.receive_chunk()
    await asyncio.sleep(0.01)
    assert await talker.good(user("2")) == [user("1"), said("to 1"), user("2")]
    await asyncio.sleep(0.1)
    assert await talker.good(user("3")) == [user("1"), said("to 1"), user("2"), said("to 2"), user("3")]


async def test_concurrent_turns_are_all_kept_each_beside_its_answer(
    talker: Talker, rude: RudeProvider
) -> None:
    """In the order in which they were asked, though the first was answered last."""

    def answer(seen: Any) -> list[Any]:
        text = _last(seen.json())
        return [{"a": 0.3, "b": 0.2, "c": 0.1}.get(text, 0.0), reply(200, completion(f"to {text}"))]

    rude.script(talker.script, answer)
    asked = []
    for text in "abc":
        asked.append(asyncio.create_task(talker.ask(user(text))))
        await asyncio.sleep(0.03)
    await asyncio.gather(*asked)
    past = [message for text in "abc" for message in (user(text), said(f"to {text}"))]
    assert await talker.good(user("d")) == [*past, user("d")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"authorization": "Bearer sk-other"}, id="another key"),
        pytest.param({"x-outrigger-session": "ID"}, id="another case"),
        pytest.param({"x-outrigger-session": "id*"}, id="pattern"),
        pytest.param({"x-outrigger-session": "../id"}, id="path"),
        pytest.param({"x-outrigger-session": "i%64"}, id="escape"),
    ],
)
async def test_a_session_is_its_callers_and_names_are_just_names(
    talker: Talker, other: dict[str, str]
) -> None:
    """Whoever else says a name like it finds nothing, and puts nothing into it."""
    talker.headers |= {"authorization": f"Bearer sk-{talker.script}", "x-outrigger-session": "id"}
    await talker.good(user("secret"))
    stranger = {**talker.headers, **other}
    assert await talker.good(user("poison"), headers=stranger) == [user("poison")]
    assert await talker.good(user("2")) == [user("secret"), said("to secret"), user("2")]


@pytest.mark.parametrize("name", ["x" * 257, "tab\there", "\x80"], ids=["long", "tab", "no text"])
async def test_names_that_nobody_can_mean_are_refused(talker: Talker, rude: RudeProvider, name: str) -> None:
    """400 in OpenAI's shape; nothing goes up. 256 characters are a name."""
    document = {"model": "m", "messages": [user("1")]}
    head, body = json_request(CHAT, document, [("x-script", talker.script)]).split(b"\r\n\r\n", 1)
    line = b"\r\nx-outrigger-session: " + name.encode("latin-1")
    async with await connect(talker.port) as connection:
        await connection.send(head + line + b"\r\n\r\n" + body)
        answer = await connection.receive()
    assert (answer.status, answer.get("x-outrigger-error")) == (400, "bad-request")
    assert answer.error()["type"] == "invalid_request_error"
    assert rude.seen(talker.script) == []
    longest = f"{next(_NAMES):0256}"
    assert await talker.good(user("1"), headers={"x-outrigger-session": longest}) == [user("1")]


async def test_without_the_policy_a_request_passes_byte_for_byte(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """And without a session, too."""
    talker = Talker(mesh, rude, script, "plain")
    for number in ("1", "2"):
        assert await talker.good(user(number)) == [user(number)]
    request = {"model": "m", "messages": [user("1")]}
    body = json_request(CHAT, request, [("x-script", script)])
    async with await connect(mesh.proxy_port) as connection:
        await connection.send(body)
        await connection.receive()
    assert rude.seen(script)[-1].body == body.partition(b"\r\n\r\n")[2]


async def test_a_caller_erases_a_session(talker: Talker, rude: RudeProvider) -> None:
    """By DELETE on the path of chats: 204, nothing goes up, and another's stays."""
    mine = {**talker.headers, "authorization": f"Bearer sk-{talker.script}"}
    for headers in (talker.headers, mine):
        await talker.good(user("1"), headers=headers)
    rude.script(f"{talker.script} erased", reply(405))
    asked = [*mine.items(), ("x-script", f"{talker.script} erased")]
    answer = await ask(talker.port, json_request(CHAT, {}, asked, method="DELETE"))
    assert (answer.status, answer.body, answer.get("x-outrigger-error")) == (204, b"", None)
    assert rude.seen(f"{talker.script} erased") == []
    assert await talker.good(user("2"), headers=mine) == [user("2")]
    assert (await talker.good(user("2")))[0] == user("1")


async def test_a_session_ends_when_it_is_not_used(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Each use gives it its time anew."""
    talker = Talker(mesh, rude, script, "brief")
    await talker.good(user("1"))
    for number in ("2", "3"):
        await asyncio.sleep(0.35)
        assert (await talker.good(user(number)))[0] == user("1")
    await asyncio.sleep(0.7)
    assert await talker.good(user("4")) == [user("4")]


async def test_sidecars_and_processors_of_one_redis_share_sessions(
    pair: Sequence[Mesh], rude: RudeProvider, redis: RedisServer, script: str
) -> None:
    """Turns come from everywhere and go everywhere; every key has a time to live and none quotes a name."""
    talker = Talker(pair[0], rude, script)
    past: list[Any] = []
    for number in range(1, 7):
        asked = user(str(number))
        assert await talker.good(asked, port=pair[number % 2].proxy_port) == [*past[-6:], asked]
        past += [asked, said(f"to {number}")]
        await asyncio.sleep(0.02)
    with Redis.from_url(redis.url) as client:
        keys = list(client.scan_iter("outrigger:session:*"))
        assert keys
        assert all(0 < client.pttl(key) <= 1_800_000 for key in keys)
        assert not any(talker.headers["x-outrigger-session"].encode() in key for key in keys)


async def test_concurrent_turns_on_two_sidecars_are_all_kept(
    pair: Sequence[Mesh], rude: RudeProvider, script: str
) -> None:
    """None overwrites another."""
    talker = Talker(pair[0], rude, script)
    rude.script(script, lambda seen: [0.1, reply(200, completion(f"to {_last(seen.json())}"))])
    await asyncio.gather(*(talker.ask(user(str(n)), port=pair[n % 2].proxy_port) for n in range(3)))
    await asyncio.sleep(0.05)
    up = await talker.good(user("last"), port=pair[1].proxy_port)
    pairs = list(zip(up[:-1:2], up[1:-1:2], strict=True))
    assert sorted(asked["content"] for asked, _ in pairs) == ["0", "1", "2"]
    assert all(answer == said(f"to {asked['content']}") for asked, answer in pairs)


async def test_without_redis_a_session_goes_on_where_it_was(
    pair: Sequence[Mesh], rude: RudeProvider, redis: RedisServer, script: str
) -> None:
    """After a moment at most; what was said meanwhile is there for everybody when Redis is back."""
    talker = Talker(pair[0], rude, script)
    await talker.good(user("1"))
    redis.freeze()
    try:
        begun = time.monotonic()
        assert await talker.good(user("2")) == [user("1"), said("to 1"), user("2")]
        assert time.monotonic() - begun < 1.0
        begun = time.monotonic()
        await talker.good(user("3"))
        assert time.monotonic() - begun < 0.1
    finally:
        redis.thaw()
    past = [message for text in "12345" for message in (user(text), said(f"to {text}"))]
    await asyncio.sleep(1.1)  # the pause after a failure; the next request lets somebody look
    assert await talker.good(user("4")) == [*past[:6], user("4")]
    await asyncio.sleep(0.2)
    assert await talker.good(user("5")) == [*past[2:8], user("5")]
    await asyncio.sleep(0.05)
    assert await talker.good(user("6"), port=pair[1].proxy_port) == [*past[4:], user("6")]


def kept_in(database: Path) -> int:
    """Return how many sessions a SQLite file has; 0 as long as it has no table."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM outrigger_sessions_v1").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


async def test_in_a_database_a_session_outlives_the_processor(
    start_mesh: Callable[..., Mesh], rude: RudeProvider, script: str, tmp_path: Path
) -> None:
    """Whoever is started next finds it, once the database is open, which is done in the background."""
    database = tmp_path / "mesh.db"
    mesh = start_mesh(documents(rude.port), options=("--cache-database", f"sqlite:///{database}"))
    anybody = Talker(mesh, rude, script)
    # Each of them finds out once, as what is asked too early is another session's beginning.
    talkers = [Talker(mesh, rude, f"{script}-{number}") for number in range(15)]

    async def is_kept() -> bool:
        return (await anybody.ask(user("?"))).status == 200 and kept_in(database) > 0

    await eventually(is_kept, 15, "the database is open")
    past = [user("1"), said("to 1"), user("2"), said("to 2")]
    for talker in talkers:
        await talker.good(user("1"))
        assert await talker.good(user("2")) == past[:3]
    await asyncio.sleep(0.1)
    mesh.kill("processor")

    async def is_back() -> bool:
        return (await anybody.ask(user("?"))).get("x-outrigger-version") is not None

    await eventually(is_back, 15, "the processor is back")

    async def is_found() -> bool:
        await asyncio.sleep(0.5)
        return await talkers.pop(0).good(user("3")) == [*past, user("3")]

    await eventually(is_found, 15, "a session goes on")
