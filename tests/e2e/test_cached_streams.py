"""Streams, live, followed and from the cache: whatever a provider writes, all three add up to the same."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from typing import Any

import openai
import pytest

from tests.e2e.test_coalesce import open_stream, seen, status
from tests.e2e.test_metrics import moved, series, settled
from tests.harness.mesh import Mesh
from tests.harness.raw_http import Answer, post
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

_QUESTIONS = itertools.count(1)
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
CJK = ["你好，", "世界🌏", "ありがとう", "한국어", "e\u0301 👩‍👩‍👧 完"]


def question(**more: Any) -> dict[str, Any]:
    """Return a question that nobody has asked before, of a Model that caches and coalesces."""
    messages = [{"role": "user", "content": f"stream {next(_QUESTIONS)}"}]
    return {"model": "coalesced-and-cached", "messages": messages, **more}


def written(*chunks: dict[str, Any] | bytes, end: bytes = DONE) -> bytes:
    """Return a stream of these chunks, with a usage at its end."""
    events = [one if isinstance(one, bytes) else event(one) for one in chunks]
    return b"".join([*events, event({**delta(), "choices": [], "usage": USAGE}), end])


def sent(stream: bytes, size: int = 0, gap: float = 0.0) -> list[Piece]:
    """Return a stream as an answer, in writes of `size` bytes (0: all at once)."""
    step = size or len(stream)
    pieces: list[Piece] = [STREAM_HEAD]
    for at in range(0, len(stream), step):
        pieces += [chunk(stream[at : at + step]), *([gap] if gap else [])]
    return [*pieces, STREAM_END]


def chunks_of(body: bytes) -> list[dict[str, Any]]:
    """Return the chunks of a stream; a broken one fails."""
    return [
        json.loads(line[5:])
        for line in body.decode().splitlines()
        if line.startswith("data:") and "[DONE]" not in line
    ]


def text_of(body: bytes) -> str:
    """Return the joined text of a stream."""
    choices = [one for found in chunks_of(body) for one in found.get("choices") or ()]
    return "".join((one.get("delta") or {}).get("content") or "" for one in choices)


class Read:
    """One question read in every way: live by its leader and a follower, then twice from the cache."""

    live: Answer
    followed: Answer
    hit: Answer
    as_json: dict[str, Any]


async def read(
    mesh: Mesh, rude: RudeProvider, script: str, pieces: list[Piece], *, cached: bool = True
) -> Read:
    """Let the provider answer `pieces` and read them in every way; one call is made, or two uncached."""
    headers = rude.script(script, [0.2, *pieces], reply(200, completion("fresh")))
    document, found = question(stream=True), Read()
    leading = asyncio.create_task(post(mesh.proxy_port, document, headers, seconds=30))
    await seen(rude, script, 1)
    following = asyncio.create_task(post(mesh.proxy_port, document, headers, seconds=30))
    found.live, found.followed = await leading, await following
    assert (status(found.live), status(found.followed)) == ("miss", "coalesced")
    if cached:
        found.hit = await post(mesh.proxy_port, document, headers)
        answer = await post(mesh.proxy_port, {**document, "stream": False}, headers)
        assert (status(found.hit), status(answer)) == ("hit", "hit")
        assert len(rude.seen(script)) == 1
        found.as_json = answer.json()
    return found


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_characters_that_are_cut_are_whole_again(
    mesh: Mesh, rude: RudeProvider, script: str, size: int
) -> None:
    """The joined text is exact live, followed, replayed and as JSON."""
    stream = written(*(delta(text) for text in CJK), delta(finish="stop"))
    found = await read(mesh, rude, script, sent(stream, size))
    for answer in (found.live, found.followed, found.hit):
        assert text_of(answer.body) == "".join(CJK)
        assert "\ufffd" not in answer.body.decode()
    assert found.as_json["choices"][0]["message"]["content"] == "".join(CJK)


@pytest.mark.parametrize("style", ["LF", "CRLF", "CR", "CRLF cut in two"])
async def test_four_ways_to_end_a_line(mesh: Mesh, rude: RudeProvider, script: str, style: str) -> None:
    """Delivered, counted and cached alike."""
    line_end = {"LF": b"\n", "CR": b"\r"}.get(style, b"\r\n")
    stream = written(delta("a"), delta("b"), delta(finish="stop")).replace(b"\n", line_end)
    pieces = sent(stream)
    if "cut" in style:
        halves = stream.replace(b"\r\n", b"\r\0\n").split(b"\0")
        pieces = [STREAM_HEAD, *(piece for half in halves for piece in (chunk(half), 0.005)), STREAM_END]
    found = await read(mesh, rude, script, pieces)
    for answer in (found.live, found.followed, found.hit):
        assert text_of(answer.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")) == "ab"
    assert found.as_json["usage"] == USAGE


WISHES: dict[str, dict[str, Any]] = {
    "none": {},
    "false": {"stream_options": {"include_usage": False}},
    "true": {"stream_options": {"include_usage": True}},
}


@pytest.mark.parametrize("order", list(itertools.permutations(WISHES)), ids="-".join)
async def test_who_asked_for_the_usage_sees_it_once(
    mesh: Mesh, rude: RudeProvider, script: str, order: tuple[str, ...]
) -> None:
    """Whoever fills the cache and whoever reads it, live or later; null fields stay inside too."""
    nulls = [{**delta(text), "usage": None} for text in "ab"]
    stream = written(*nulls, {**delta(finish="stop"), "usage": None})
    headers = rude.script(script, [0.2, *sent(stream)])
    document = question(stream=True)
    first, *others = ({**document, **WISHES[name]} for name in order)
    leading = asyncio.create_task(post(mesh.proxy_port, first, headers))
    await seen(rude, script, 1)
    following = [asyncio.create_task(post(mesh.proxy_port, one, headers)) for one in others]
    live = [await leading, *await asyncio.gather(*following)]
    later = [await post(mesh.proxy_port, {**document, **WISHES[name]}, headers) for name in order]
    assert [status(answer) for answer in (*live, *later)] == ["miss", *["coalesced"] * 2, *["hit"] * 3]
    for name, answer in zip((*order, *order), (*live, *later), strict=True):
        told = [one["usage"] for one in chunks_of(answer.body) if "usage" in one]
        assert [one for one in told if one] == ([USAGE] if name == "true" else []), name
        assert told == [] or name == "true", name
        assert text_of(answer.body) == "ab"
    assert len(rude.seen(script)) == 1


def fragment(index: int | None, arguments: str, **more: Any) -> dict[str, Any]:
    """Return one fragment of a tool call."""
    named = {"index": index} if index is not None else {}
    function = {"arguments": arguments, **({"name": more["id"][5:]} if more else {})}
    return {**named, **more, "function": function}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    """Return a chunk with fragments of tool calls."""
    found = delta()
    found["choices"][0]["delta"] = {"tool_calls": list(calls)}
    return found


CITIES = [json.dumps({"city": city}, ensure_ascii=False) for city in ("東京", "Köln", "NYC")]
CALLS = {
    "interleaved": [
        *(calling(fragment(n, "", id=f"call_{n}", type="function")) for n in range(3)),
        *(calling(fragment(n, CITIES[n][at : at + 5])) for at in (0, 5, 10) for n in (2, 0, 1)),
        *(calling(fragment(n, CITIES[n][15:])) for n in range(3)),
    ],
    "whole, without an index": [
        calling(fragment(None, CITIES[n], id=f"call_{n}", type="function")) for n in range(3)
    ],
}


@pytest.mark.parametrize("kind", CALLS)
async def test_three_parallel_tool_calls(mesh: Mesh, rude: RudeProvider, script: str, kind: str) -> None:
    """Ids, names and arguments that parse, replayed and as JSON."""
    stream = written(*CALLS[kind], delta(finish="tool_calls"))
    found = await read(mesh, rude, script, sent(stream))
    assert b"".join(sorted(found.live.body.splitlines())) == b"".join(
        sorted(found.followed.body.splitlines())
    )
    calls = found.as_json["choices"][0]["message"]["tool_calls"]
    replayed: dict[int, dict[str, str]] = {}
    for one in chunks_of(found.hit.body):
        for call in one["choices"][0]["delta"].get("tool_calls", ()):
            known = replayed.setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
            known["id"] += call.get("id", "")
            known["name"] += call["function"].get("name", "")
            known["arguments"] += call["function"]["arguments"]
    told = [{"id": call["id"], **call["function"]} for call in calls]
    assert list(replayed.values()) == told
    by_id = {call["id"]: call for call in told}
    assert {(name, call["name"]) for name, call in by_id.items()} == {(f"call_{n}", str(n)) for n in range(3)}
    assert [by_id[f"call_{n}"]["arguments"] for n in range(3)] == CITIES


def odd(**choice: Any) -> dict[str, Any]:
    """Return a chunk whose only choice holds more than usual."""
    found = delta()
    found["choices"][0] |= choice
    return found


async def test_every_field_comes_back(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Reasoning, log probabilities, fingerprints and what nobody knows, as the live stream added up to."""
    words = [{"token": text, "logprob": -0.5, "bytes": [1]} for text in "xy"]
    stream = written(
        odd(delta={"role": "assistant", "reasoning_content": "let me "}),
        odd(delta={"reasoning_content": "think", "x_future": {"deep": [1]}}),
        *(
            odd(delta={"content": one["token"]}, logprobs={"content": [one], "refusal": None})
            for one in words
        ),
        {
            **delta(finish="stop"),
            "system_fingerprint": "fp",
            "service_tier": "default",
            "x_top": [1, {"a": 2}],
        },
    )
    found = await read(mesh, rude, script, sent(stream))
    (choice,) = found.as_json["choices"]
    assert choice["message"]["reasoning_content"] == "let me think"
    assert (choice["message"]["content"], choice["message"]["x_future"]) == ("xy", {"deep": [1]})
    assert choice["logprobs"]["content"] == words
    top = {"system_fingerprint": "fp", "service_tier": "default", "x_top": [1, {"a": 2}]}
    assert {name: found.as_json[name] for name in top} == top
    added: dict[str, str] = {"reasoning_content": "", "content": ""}
    probabilities: list[Any] = []
    for one in chunks_of(found.hit.body):
        for name in added:
            added[name] += one["choices"][0]["delta"].get(name) or ""
        probabilities += (one["choices"][0].get("logprobs") or {}).get("content") or []
        assert {name: one[name] for name in top} == top
    assert (added, probabilities) == ({"reasoning_content": "let me think", "content": "xy"}, words)


async def test_odd_chunks_pass_and_count_and_are_cached(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """No choices, null or empty ones, a null delta: untouched, and in nobody's way."""
    oddities: list[dict[str, Any]] = [
        {"id": "x", "object": "chat.completion.chunk"},
        {"id": "x", "choices": None},
        {"id": "x", "choices": [], "prompt_filter_results": [1]},
        odd(delta=None),
        delta("a"),
        delta(finish="stop"),
    ]
    found = await read(mesh, rude, script, sent(written(*oddities)))
    for answer in (found.live, found.followed):
        assert chunks_of(answer.body) == oddities
        assert answer.body.endswith(DONE)
    assert text_of(found.hit.body) == "a"
    assert found.as_json["usage"] == USAGE


async def test_a_silence_in_mid_stream(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A stream with ids that falls silent goes on, for the `openai` client and for a follower."""
    events = [b"id: %d\n" % number + event(delta(text)) for number, text in enumerate("abc")]
    pieces: list[Piece] = [STREAM_HEAD, chunk(events[0]), 3.0, chunk(b"".join(events[1:]))]
    rest = chunk(written(delta(finish="stop")))
    headers = rude.script(script, [*pieces, rest, STREAM_END])
    document = question()

    async def heard() -> str:
        async with openai.AsyncOpenAI(base_url=mesh.url, api_key="sk-test", max_retries=0) as client:
            stream: Any = await client.chat.completions.create(**document, stream=True, extra_headers=headers)
            return "".join([one.choices[0].delta.content or "" async for one in stream if one.choices])

    leader = asyncio.create_task(heard())
    await seen(rude, script, 1)
    texts = await asyncio.gather(leader, heard())
    assert list(texts) == ["abc", "abc"]
    assert len(rude.seen(script)) == 1


NOTHING: dict[str, list[Piece]] = {
    "length 0": [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n"],
    "the last chunk": [STREAM_HEAD, STREAM_END],
    "reset": [STREAM_HEAD, 0.05, Act.RESET],
}


@pytest.mark.parametrize("kind", NOTHING)
async def test_a_stream_with_nothing_in_it(mesh: Mesh, rude: RudeProvider, script: str, kind: str) -> None:
    """An end within seconds, nothing kept, and the next call works."""
    headers = rude.script(script, NOTHING[kind], reply(200, completion("fresh")))
    document = question(stream=True)
    async with asyncio.timeout(3):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            first = await post(mesh.proxy_port, document, headers)
            assert (first.status, first.body) == (200, b"") or kind == "reset"
    again = await post(mesh.proxy_port, {**document, "stream": False}, headers)
    assert (status(again), again.json()["choices"][0]["message"]["content"]) == ("miss", "fresh")


async def test_a_hit_at_a_pace_is_a_hit_in_all_else(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Piece by piece with the usual headers, whole at its end, counted as a hit and no call; JSON at once."""
    headers = rude.script(script, [reply(200, completion("three short words"))])
    document = {**question(), "model": "paced"}
    calls = series(mesh, "openai_request_total")
    assert status(await post(mesh.proxy_port, document, headers)) == "miss"
    await settled(mesh, calls, 1)
    before, calls = series(mesh), series(mesh, "openai_request_total")
    began = time.monotonic()
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    async with await open_stream(mesh, {**document, **usage}, headers) as paced:
        code, found = await paced.receive_head()
        head, pieces = dict(found), list[bytes]()
        while piece := await paced.receive_chunk():
            pieces.append(piece)
    assert time.monotonic() - began >= 0.5  # the opening, three words, their end, the usage, the mark
    assert (code, head["x-outrigger-cache"], head["x-outrigger-model"]) == (200, "hit", "paced")
    assert head["x-outrigger-version"] == "v1"
    assert int(head["age"]) < 5
    assert "x-outrigger-backend" not in head
    assert len(pieces) == 7
    body = b"".join(pieces)
    assert text_of(body) == "three short words"
    assert chunks_of(body)[-1]["usage"]["completion_tokens"] == 3
    assert body.endswith(DONE)
    at_once = await post(mesh.proxy_port, document, headers)
    assert (status(at_once), at_once.json()["choices"][0]["message"]["content"]) == (
        "hit",
        "three short words",
    )
    assert len(rude.seen(script)) == 1
    assert moved(calls, await settled(mesh, calls, 2)) == {("openai_request_total", (("status", "200"),)): 2}
    change = moved(before, series(mesh))
    cached = {dict(labels)["result"]: n for (name, labels), n in change.items() if "cache_requests" in name}
    assert cached == {"hit": 2}
    assert not {name for name, _ in change} & {
        "outrigger_upstream_attempts_total",
        "gen_ai_client_token_usage_sum",
    }


async def test_a_caller_that_leaves_a_paced_hit_costs_nothing_more(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """The next one gets it from its beginning."""
    headers = rude.script(script, [reply(200, completion("three short words"))])
    document = {**question(stream=True), "model": "paced"}
    await post(mesh.proxy_port, document, headers)
    leaving = await open_stream(mesh, document, headers)
    await leaving.receive_head()
    await leaving.receive_chunk()
    await leaving.__aexit__()
    again = await post(mesh.proxy_port, document, headers)
    assert (status(again), text_of(again.body)) == ("hit", "three short words")
    assert len(rude.seen(script)) == 1
