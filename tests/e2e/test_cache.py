"""The exact cache: what is one question, what is another, and what is never kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import Any

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
    event,
    reply,
)

CHAT = "/v1/chat/completions"
_QUESTIONS = itertools.count(1)


def question(**more: Any) -> dict[str, Any]:
    """Return a cacheable chat that nobody has asked before."""
    messages = [{"role": "user", "content": f"question {next(_QUESTIONS)}"}]
    return {"model": "cached", "messages": messages, **more}


def status(answer: Answer) -> str | None:
    """Return what the cache said."""
    return answer.get("x-outrigger-cache")


VARIANTS: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": "none",
    "response_format": {"type": "json_object"},
    "seed": 1,
    "stop": ["\n"],
    "n": 2,
    "logit_bias": {"50256": -100},
    "parallel_tool_calls": False,
    "temperature": 0.7,
    "top_p": 0.5,
    "max_tokens": 17,
    "x_future": 1,
}


async def test_every_parameter_splits_the_key(mesh: Mesh) -> None:
    """Each variant of a question is a miss with a fresh answer and, repeated, a hit of its own entry."""
    base = question()
    plain = await post(mesh.proxy_port, base)
    assert status(plain) == "miss"
    seen = {plain.body}
    for name, value in VARIANTS.items():
        first = await post(mesh.proxy_port, {**base, name: value})
        again = await post(mesh.proxy_port, {**base, name: value})
        assert (status(first), status(again)) == ("miss", "hit"), name
        assert first.body == again.body
        assert first.body not in seen, name
        seen.add(first.body)
    assert (await post(mesh.proxy_port, base)).body == plain.body


@pytest.mark.parametrize(
    "more",
    [
        {"user": "someone"},
        {"metadata": {"a": "b"}},
        {"store": False},
        {"stream": False},
        {"stream_options": None},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_what_cannot_change_an_answer_does_not_split_the_key(mesh: Mesh, more: dict[str, Any]) -> None:
    """A field that is known to be irrelevant finds the same entry."""
    base = question()
    await post(mesh.proxy_port, base)
    assert status(await post(mesh.proxy_port, {**base, **more})) == "hit"


async def test_numbers_of_another_kind_are_another_question(mesh: Mesh) -> None:
    """1, 1.0 and true are told apart."""
    base = question()
    answers = [await post(mesh.proxy_port, {**base, "x_future": value}) for value in (1, 1.0, True, "1")]
    assert [status(answer) for answer in answers] == ["miss"] * 4


async def test_key_order_and_white_space_do_not_matter_but_message_order_does(mesh: Mesh) -> None:
    """The same JSON in another writing hits, also inside nested schemas; swapped messages miss."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    base = question(tools=tools)
    base["messages"].insert(0, {"role": "system", "content": "Be brief."})
    await post(mesh.proxy_port, base)

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    other = json.dumps(turned(base), indent=3).encode()
    assert status(await ask(mesh.proxy_port, json_request(CHAT, other))) == "hit"
    swapped = {**base, "messages": base["messages"][::-1]}
    assert status(await post(mesh.proxy_port, swapped)) == "miss"


async def test_earlier_turns_and_system_prompts_are_part_of_the_question(mesh: Mesh) -> None:
    """Conversations that end alike but began differently are different questions."""
    last = {"role": "user", "content": f"and then? {next(_QUESTIONS)}"}

    def talk(*earlier: dict[str, str]) -> dict[str, Any]:
        return {"model": "cached", "messages": [*earlier, last]}

    talks = [
        talk(),
        talk({"role": "system", "content": "A"}),
        talk({"role": "system", "content": "B"}),
        talk({"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}),
        talk({"role": "user", "content": "x"}, {"role": "assistant", "content": "z"}),
    ]
    first = [await post(mesh.proxy_port, one) for one in talks]
    again = [await post(mesh.proxy_port, one) for one in talks]
    assert {status(answer) for answer in first} == {"miss"}
    assert {status(answer) for answer in again} == {"hit"}
    assert len({answer.body for answer in first}) == len(talks)


@pytest.mark.parametrize("failure", [400, 401, 429, 500, 503])
async def test_a_failure_is_never_kept(mesh: Mesh, rude: RudeProvider, script: str, failure: int) -> None:
    """The first caller gets the failure, the next call goes up again, only its 200 is replayed."""
    error = {"error": {"message": "no", "type": "t", "param": None, "code": None}}
    failed = reply(failure, error)
    headers = rude.script(script, failed, reply(200, completion("fine")))
    document = {**question(), "model": "cached-flaky"}
    answers = [await post(mesh.proxy_port, document, headers) for _ in range(3)]
    assert [answer.status for answer in answers] == [failure, 200, 200]
    assert status(answers[2]) == "hit"
    assert len(rude.seen(script)) == 2


@pytest.mark.parametrize(
    "body",
    [
        completion(choices=[]),
        {"id": "x", "object": "chat.completion", "error": {"message": "overloaded"}},
        completion(
            choices=[{"index": 0, "message": {"role": "assistant", "content": "cut"}, "finish_reason": None}]
        ),
        {"not": "a completion"},
        completion(choices=[{"index": 0, "message": None, "finish_reason": "stop"}]),
        completion(
            choices=[
                {"index": 0, "message": {"role": "assistant", "content": "cut"}, "finish_reason": "abort"}
            ]
        ),
        completion(
            choices=[{"index": 0, "message": {"content": ""}, "finish_reason": "stop", "error": {"code": 1}}]
        ),
    ],
    ids=["no-choices", "error-in-200", "unfinished", "other", "no-message", "aborted", "error-in-choice"],
)
async def test_an_answer_that_is_not_whole_passes_and_is_not_kept(
    mesh: Mesh, rude: RudeProvider, script: str, body: dict[str, Any]
) -> None:
    """It goes through unchanged, twice, and poisons nothing."""
    headers = rude.script(script, reply(200, body))
    document = question()
    for _ in range(2):
        answer = await post(mesh.proxy_port, document, headers)
        assert answer.status == 200
        assert answer.json() == body
    assert len(rude.seen(script)) == 2


async def test_a_hit_carries_nothing_of_the_old_call(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Framing fits the body; cookies, dates, ids, connection and quota headers of the old call are gone."""
    body = json.dumps(completion("stored")).encode()
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nTransfer-Encoding: chunked\r\n"
        b"Keep-Alive: timeout=5\r\nSet-Cookie: a=1\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\n"
        b"x-request-id: provider-id\r\nx-ratelimit-remaining-requests: 7\r\nopenai-processing-ms: 5\r\n\r\n"
    )
    headers = rude.script(script, [head, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)])
    document = question()
    first = await post(mesh.proxy_port, document, headers)
    assert first.body == body
    async with asyncio.timeout(5), await connect(mesh.proxy_port) as connection:
        for _ in range(2):
            await connection.send(json_request(CHAT, document))
            hit = await connection.receive()
            assert status(hit) == "hit"
            assert hit.body == body
            assert hit.all("content-length") == [str(len(body))]
            names = {name.lower() for name, _ in hit.headers}
            assert not names & {"transfer-encoding", "set-cookie", "keep-alive", "connection"}, names
            assert not {name for name in names if name.startswith("x-ratelimit")}, names
            assert hit.get("date") != "Mon, 01 Jan 2001 00:00:00 GMT"
            assert hit.get("x-request-id") not in (None, "provider-id", first.get("x-request-id"))
            assert hit.get("x-outrigger-model") == "cached"
            assert hit.get("x-outrigger-version") == "v1"
    assert len(rude.seen(script)) == 1


async def test_each_caller_has_a_partition_of_its_own(mesh: Mesh) -> None:
    """A provider key partitions; headers that name tenants or namespaces move nobody into another one."""
    document = question()
    owner = {"authorization": "Bearer sk-owner"}
    assert status(await post(mesh.proxy_port, document, owner)) == "miss"
    forged = {
        "authorization": "Bearer sk-other",
        "x-outrigger-tenant": "owner",
        "x-outrigger-consumer": "owner",
        "x-outrigger-cache-key": "owner",
        "x-outrigger-cache-namespace": "owner",
        "x-outrigger-cache-threshold": "0",
        "x-tenant": "owner",
    }
    assert status(await post(mesh.proxy_port, document, forged)) == "miss"
    assert status(await post(mesh.proxy_port, document)) == "miss"
    assert status(await post(mesh.proxy_port, document, owner)) == "hit"


async def test_callers_can_steer_the_cache(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """`no-store` bypasses, `refresh` replaces, `only` never goes up; case does not matter."""
    headers = rude.script(script, *(reply(200, completion(f"answer {n}")) for n in range(9)))
    document = question()

    async def call(directive: str | None) -> Answer:
        more = {} if directive is None else {"x-outrigger-cache": directive}
        return await post(mesh.proxy_port, document, {**headers, **more})

    only = await call("Only")
    assert only.status == 504
    assert only.get("x-outrigger-error") == "not-cached"
    only.error()
    assert rude.seen(script) == []
    assert [status(await call(one)) for one in ("NO-STORE", None, "no-store", "only")] == [
        "bypass", "miss", "bypass", "hit",
    ]  # fmt: skip
    refreshed = await call("refresh")
    assert status(refreshed) == "miss"
    assert (await call(None)).body == refreshed.body
    odd = await call("frobnicate")
    assert status(odd) in ("hit", "miss")


def chunk_of(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return one chunk of a chat stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }


def streamed(*documents: dict[str, Any], end: bytes = b"data: [DONE]\n\n") -> tuple[Piece, ...]:
    """Return a whole stream, an event a chunk."""
    events = [chunk(event(document)) for document in documents]
    return (STREAM_HEAD, *events, chunk(end), STREAM_END)


def chunks_in(answer: Answer) -> list[dict[str, Any]]:
    """Return the chunks of a streamed answer; its end mark must be the last event."""
    *events, last = answer.body.decode().removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(found.removeprefix("data: ")) for found in events if found.startswith("data: {")]


HELLO_STREAM = (
    chunk_of({"role": "assistant", "content": ""}, usage=None),
    chunk_of({"content": "Hel"}, usage=None),
    chunk_of({"content": "lo", "x_unknown": "!"}, usage=None, system_fingerprint="f"),
    chunk_of({}, "stop", usage=None),
    {**chunk_of({}), "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
)


async def test_a_stream_and_a_json_call_answer_each_other(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """A recorded stream is a hit as JSON and as a stream, with all its fields; usage only where asked for."""
    headers = rude.script(script, streamed(*HELLO_STREAM))
    document = {**question(), "stream": True}
    first = await post(mesh.proxy_port, document, headers)
    assert status(first) == "miss"
    sent = json.loads(rude.seen(script)[0].body)
    assert sent["stream_options"] == {"include_usage": True}
    # What we asked for ourselves is taken out again, and nothing else.
    assert chunks_in(first) == [
        {name: value for name, value in one.items() if name != "usage"} for one in HELLO_STREAM[:-1]
    ]
    again = await post(mesh.proxy_port, document, headers)
    assert status(again) == "hit"
    assert (again.get("content-type") or "").startswith("text/event-stream")
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in chunks_in(again)) == "Hello"
    assert b"usage" not in again.body
    asking = {**document, "stream_options": {"include_usage": True}}
    assert chunks_in(await post(mesh.proxy_port, asking, headers))[-1]["usage"]["total_tokens"] == 5
    as_json = await post(mesh.proxy_port, {**document, "stream": False}, headers)
    assert (status(as_json), as_json.get("content-type")) == ("hit", "application/json")
    assert as_json.json()["choices"][0]["message"] == {
        "role": "assistant", "content": "Hello", "x_unknown": "!",
    }  # fmt: skip
    assert as_json.json()["system_fingerprint"] == "f"
    assert len(rude.seen(script)) == 1


async def test_a_json_answer_is_replayed_as_a_stream(mesh: Mesh) -> None:
    """The other way round."""
    document = question()
    whole = await post(mesh.proxy_port, document)
    replayed = await post(mesh.proxy_port, {**document, "stream": True})
    assert (status(whole), status(replayed)) == ("miss", "hit")
    text = "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks_in(replayed))
    assert text == whole.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        pytest.param(streamed(*HELLO_STREAM[:-1], end=b""), True, id="no end mark, but a clean end"),
        pytest.param(streamed(*HELLO_STREAM[:2]), False, id="no finish reason"),
        pytest.param((*streamed(*HELLO_STREAM[:4])[:-2], Act.CLOSE), False, id="cut after the reason"),
        pytest.param((*streamed(*HELLO_STREAM[:3])[:-2], Act.RESET), False, id="reset in the middle"),
        pytest.param(
            streamed(*HELLO_STREAM[:3], {"error": {"message": "x"}}, chunk_of({}, "stop")),
            False,
            id="an error frame",
        ),
        pytest.param((STREAM_HEAD, STREAM_END), False, id="nothing"),
        pytest.param(streamed(chunk_of({}, "stop", choices=[])), False, id="no choices"),
        pytest.param(streamed(*HELLO_STREAM[:3], chunk_of({}, "timeout")), False, id="a fault's reason"),
    ],
)
async def test_only_a_whole_stream_is_kept(
    mesh: Mesh, rude: RudeProvider, script: str, pieces: tuple[Piece, ...], kept: bool
) -> None:
    """Whatever else comes is passed on as far as it came, and asked again."""
    headers = rude.script(script, pieces, reply(200, completion("fresh")))
    document = question()
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        await post(mesh.proxy_port, {**document, "stream": True}, headers)
    second = await post(mesh.proxy_port, document, headers)
    assert status(second) == ("hit" if kept else "miss")


async def test_a_reader_who_hangs_up_after_the_end_mark_leaves_a_hit(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """The answer was whole by then."""
    headers = rude.script(script, [*streamed(*HELLO_STREAM)[:-1], Act.HOLD])
    document = {**question(), "stream": True}
    async with await connect(mesh.proxy_port) as connection:
        await connection.send(json_request(CHAT, document, list(headers.items())))
        await connection.receive_head()
        while b"[DONE]" not in await connection.receive_chunk():
            pass
    assert status(await post(mesh.proxy_port, document, headers)) == "hit"


async def test_an_alias_finds_its_models_answer(mesh: Mesh) -> None:
    """What was asked under the Model's name is a hit under its alias."""
    document = question()
    await post(mesh.proxy_port, document)
    assert status(await post(mesh.proxy_port, {**document, "model": "cached-alias"})) == "hit"


async def test_embeddings_are_cached(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """An embeddings answer with its data is complete and replayed."""
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    body = {"object": "list", "data": data, "model": "e", "usage": usage}
    headers = rude.script(script, reply(200, body))
    document = {"model": "cached", "input": [f"text {next(_QUESTIONS)}"]}
    answers = [await post(mesh.proxy_port, document, headers, "/v1/embeddings") for _ in range(2)]
    assert [status(answer) for answer in answers] == ["miss", "hit"]
    assert answers[1].json() == body


async def test_embeddings_that_are_fewer_than_the_inputs_are_not_kept(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """One vector for two texts passes, each time anew."""
    body = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "e"}
    headers = rude.script(script, reply(200, body))
    document = {"model": "cached", "input": [f"text {next(_QUESTIONS)}", "another"]}
    answers = [await post(mesh.proxy_port, document, headers, "/v1/embeddings") for _ in range(2)]
    assert [(status(answer), answer.json()) for answer in answers] == [("miss", body)] * 2


async def test_another_operation_is_another_question(mesh: Mesh) -> None:
    """The same body sent to chat, completions and embeddings is three questions."""
    document = {"model": "cached", "prompt": f"p {next(_QUESTIONS)}", "input": "i", "messages": []}
    targets = (CHAT, "/v1/completions", "/v1/embeddings")
    answers = [await post(mesh.proxy_port, document, target=target) for target in targets]
    assert [status(answer) for answer in answers] == ["miss"] * 3


async def test_a_refused_body_is_never_kept(mesh: Mesh) -> None:
    """A broken request is refused each time anew."""
    request = request_bytes("POST", CHAT, b'{"model": "cached"', [("content-type", "application/json")])
    answers = [await ask(mesh.proxy_port, request) for _ in range(2)]
    assert [answer.status for answer in answers] == [400, 400]
