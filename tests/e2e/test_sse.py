"""Streams byte for byte: however the provider cuts and decorates its events, the caller gets them so."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import openai
import pytest

from tests.harness.mesh import Mesh
from tests.harness.raw_http import connect, json_request, post
from tests.harness.rude import (
    STREAM_END,
    STREAM_HEAD,
    Piece,
    RudeProvider,
    chunk,
    delta,
    event,
    stream_events,
    stream_reply,
)

CHAT = {"model": "plain", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
TEXT = ["你好", "🎉é", " end"]
GAP = 0.004

LINE_ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR": b"\r"}


def decorated(line_end: bytes) -> bytes:
    """Return a short stream with comments, ids and a BOM, its lines ended one way."""
    events = [b": comment\n\n", b"id: 7\nevent: message\n" + event(delta(TEXT[0])), *stream_events(*TEXT[1:])]
    return b"\xef\xbb\xbf" + b"".join(events).replace(b"\n", line_end)


async def through(mesh: Mesh, rude: RudeProvider, name: str, pieces: list[bytes]) -> bytes:
    """Send `pieces` as writes of their own and return what the caller got."""
    answer: list[Piece] = [STREAM_HEAD]
    for piece in pieces:
        answer += [chunk(piece), GAP]
    headers = rude.script(name, [*answer, STREAM_END])
    return (await post(mesh.proxy_port, CHAT, headers, seconds=30)).body


@pytest.mark.parametrize("line_end", LINE_ENDS)
async def test_every_split_of_every_event_passes(
    mesh: Mesh, rude: RudeProvider, script: str, line_end: str
) -> None:
    """Cut at any one byte, within a character and between CR and LF too, the bytes arrive unchanged."""
    whole = decorated(LINE_ENDS[line_end])
    limit = asyncio.Semaphore(50)

    async def cut(at: int) -> bytes:
        async with limit:
            return await through(mesh, rude, f"{script}-{at}", [whole[:at], whole[at:]])

    answers = await asyncio.gather(*(cut(at) for at in range(1, len(whole), 3)))
    assert set(answers) == {whole}


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_tiny_writes_pass(mesh: Mesh, rude: RudeProvider, script: str, size: int) -> None:
    """A stream written a byte or a few at a time is the same stream."""
    whole = decorated(b"\n")
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert await through(mesh, rude, script, pieces) == whole


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_the_client_reads_what_was_cut(mesh: Mesh, rude: RudeProvider, script: str, size: int) -> None:
    """The `openai` client's joined text is exact when characters are cut in the middle."""
    whole = b"".join(stream_events(*TEXT))
    pieces: list[Piece] = [STREAM_HEAD, *(chunk(whole[at : at + size]) for at in range(0, len(whole), size))]
    headers = rude.script(script, [*pieces, STREAM_END])
    async with openai.AsyncOpenAI(base_url=mesh.url, api_key="sk-test", max_retries=0) as client:
        stream: Any = await client.chat.completions.create(**CHAT, extra_headers=headers)
        text = [piece.choices[0].delta.content async for piece in stream]
    assert "".join(part or "" for part in text) == "".join(TEXT)


async def test_odd_chunks_pass_untouched(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Chunks without choices, with null or empty ones, unknown fields and error frames are left alone."""
    events = [
        event({"id": "x", "object": "chat.completion.chunk"}),
        event({"id": "x", "choices": None}),
        event({"id": "x", "choices": [], "prompt_filter_results": [1]}),
        event({"id": "x", "choices": [{"index": 0, "delta": None, "finish_reason": None}]}),
        event(delta("text", reasoning_content="…", x_future={"a": [1, 2.50]})),
        event({"error": {"message": "overloaded", "type": "server_error"}}),
        event({"id": "x", "choices": [], "usage": {"total_tokens": 3}}),
        b"data: [DONE]\n\n",
    ]
    headers = rude.script(script, stream_reply(events))
    assert (await post(mesh.proxy_port, CHAT, headers)).body == b"".join(events)


async def test_an_empty_choices_stream_is_not_an_error(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """A stream that holds nothing but an empty list of choices goes through, twice."""
    events = [event({"id": "x", "choices": []}), b"data: [DONE]\n\n"]
    headers = rude.script(script, stream_reply(events))
    for _ in range(2):
        answer = await post(mesh.proxy_port, {**CHAT, "model": "cached"}, headers)
        assert (answer.status, answer.body) == (200, b"".join(events))


@pytest.mark.parametrize(
    "answer",
    [
        [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n"],
        [STREAM_HEAD, STREAM_END],
        [STREAM_HEAD, chunk(event(delta(finish="stop"))), STREAM_END],
    ],
    ids=["length-0", "no-events", "last-chunk-only"],
)
async def test_a_stream_of_nothing_ends(
    mesh: Mesh, rude: RudeProvider, script: str, answer: list[Piece]
) -> None:
    """The caller gets an end it can parse within seconds, and the next call works."""
    headers = rude.script(script, answer, stream_reply(stream_events("next")))
    first = await post(mesh.proxy_port, CHAT, headers, seconds=3)
    assert first.status == 200
    assert b"next" in (await post(mesh.proxy_port, CHAT, headers, seconds=3)).body


async def test_each_event_arrives_when_it_is_sent(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """Events 200 ms apart arrive 200 ms apart, the first one too, for two readers; nothing is gathered."""
    events = stream_events(*"abcdef")
    headers = rude.script(script, stream_reply(events, gap=0.2))

    async def read() -> list[float]:
        async with asyncio.timeout(10), await connect(mesh.proxy_port) as connection:
            began = time.monotonic()
            await connection.send(json_request("/v1/chat/completions", CHAT, list(headers.items())))
            await connection.receive_head()
            times = []
            while piece := await connection.receive_chunk():
                assert piece in events
                times.append(time.monotonic() - began)
            return times

    for times in await asyncio.gather(read(), read()):
        assert len(times) == len(events)
        late = [at - number * 0.2 for number, at in enumerate(times)]
        assert max(late) - min(late) < 0.15, times
        assert min(late) < 0.15, times
