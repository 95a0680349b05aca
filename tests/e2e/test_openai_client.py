"""The unchanged `openai` client through the mesh, against the simulated provider."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.harness.mesh import Mesh
from tests.harness.processes import until
from tests.harness.rude import STREAM_HEAD, Act, RudeProvider, chunk, delta, event, reply

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
def client(mesh: Mesh) -> Iterator[Any]:
    """A synchronous client that never retries by itself."""
    with openai.OpenAI(base_url=mesh.url, api_key="sk-test", max_retries=0, timeout=20) as made:
        yield made


def async_client(mesh: Mesh, **more: Any) -> Any:
    """Return an asynchronous client that never retries by itself."""
    return openai.AsyncOpenAI(base_url=mesh.url, api_key="sk-test", max_retries=0, timeout=60, **more)


def ask(text: str = "Say hello") -> list[dict[str, Any]]:
    """Return the messages of a one-question conversation."""
    return [{"role": "user", "content": text}]


def test_a_chat_is_answered(client: Any) -> None:
    """A chat has a message, a finish reason and usage, and its headers say who answered."""
    raw = client.chat.completions.with_raw_response.create(model="chat", messages=ask())
    answer = raw.parse()
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens > 0
    assert raw.headers["x-outrigger-model"] == "chat"
    assert raw.headers["x-outrigger-version"] == "v1"
    assert raw.headers["x-outrigger-backend"] == "simulated"
    assert raw.headers["x-outrigger-cache"] == "bypass"
    assert raw.headers["x-request-id"]


def test_a_stream_adds_up_to_the_chat(client: Any) -> None:
    """The deltas of a stream, joined, are the text of the same chat."""
    whole = client.chat.completions.create(model="chat", messages=ask(), seed=7)
    pieces = list(client.chat.completions.create(model="chat", messages=ask(), seed=7, stream=True))
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == whole.choices[0].message.content
    assert [piece.choices[0].finish_reason for piece in pieces if piece.choices][-1] == "stop"


def test_a_stream_counts_its_tokens_only_when_asked(client: Any) -> None:
    """With `include_usage` the last chunk holds the usage; without it no chunk does."""
    asked = list(
        client.chat.completions.create(
            model="chat", messages=ask(), stream=True, stream_options={"include_usage": True}
        )
    )
    plain = list(client.chat.completions.create(model="chat", messages=ask(), stream=True))
    assert asked[-1].choices == []
    assert asked[-1].usage.total_tokens > 0
    assert all(piece.usage is None for piece in plain)


def test_tools_are_called(client: Any) -> None:
    """A named tool is called with arguments that parse; its result can be sent back."""
    choice = {"type": "function", "function": {"name": "get_weather"}}
    first = client.chat.completions.create(
        model="chat", messages=ask("Weather in Rome?"), tools=[WEATHER], tool_choice=choice
    )
    call = first.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert isinstance(json.loads(call.function.arguments), dict)
    messages = [
        *ask("Weather in Rome?"),
        first.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    second = client.chat.completions.create(model="chat", messages=messages, tools=[WEATHER])
    assert second.choices[0].message


def test_tool_calls_stream(client: Any) -> None:
    """The fragments of a streamed tool call, joined, parse."""
    choice = {"type": "function", "function": {"name": "get_weather"}}
    pieces = client.chat.completions.create(
        model="chat", messages=ask(), tools=[WEATHER], tool_choice=choice, stream=True
    )
    arguments, name = "", ""
    for piece in pieces:
        for call in (piece.choices[0].delta.tool_calls or []) if piece.choices else []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
    assert name == "get_weather"
    assert isinstance(json.loads(arguments), dict)


def test_several_choices(client: Any) -> None:
    """`n` answers come back with their indexes."""
    answer = client.chat.completions.create(model="chat", messages=ask(), n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


def test_an_image_reaches_the_provider_whole(
    mesh: Mesh, client: Any, rude: RudeProvider, script: str
) -> None:
    """A base64 image of a megabyte arrives as it was sent."""
    url = "data:image/png;base64," + base64.b64encode(PIXEL + bytes(750_000)).decode()
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    headers = rude.script(script)
    client.chat.completions.create(
        model="plain", messages=[{"role": "user", "content": parts}], extra_headers=headers
    )
    assert rude.seen(script)[0].json()["messages"][0]["content"] == parts


def test_completions_take_several_prompts(client: Any) -> None:
    """The legacy completions endpoint answers each prompt of an array."""
    answer = client.completions.create(model="chat", prompt=["one", "two"], max_tokens=8)
    assert [choice.index for choice in answer.choices] == [0, 1]


def test_embeddings_in_both_encodings(client: Any) -> None:
    """The client's own default (base64) and plain floats give the same vectors."""
    texts = ["first", "second"]
    coded = client.embeddings.create(model="embed", input=texts)
    plain = client.embeddings.create(model="embed", input=texts, encoding_format="float")
    assert [item.index for item in coded.data] == [0, 1]
    for one, other in zip(coded.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-5)
    assert coded.usage.prompt_tokens > 0


def test_models_are_our_own_list(client: Any) -> None:
    """`GET /v1/models` lists the configured Models, one of them can be got, an unknown one is a 404."""
    names = {model.id for model in client.models.list()}
    assert {"chat", "plain", "cached"} <= names
    assert client.models.retrieve("chat").id == "chat"
    # The client writes the slash %2F.
    assert client.models.retrieve("org/chat").id == "org/chat"
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("no-such-model")
    assert refused.value.code == "model_not_found"


async def test_many_asynchronous_calls_at_once(mesh: Mesh) -> None:
    """Fifty calls at once on one client each get their own answer."""
    async with async_client(mesh) as client:
        answers = await asyncio.gather(
            *(client.chat.completions.create(model="chat", messages=ask(f"Number {n}")) for n in range(50))
        )
    assert all(answer.choices[0].message.content for answer in answers)


async def test_five_hundred_streams_at_once(mesh: Mesh, rude: RudeProvider, script: str) -> None:
    """500 streams that are all open at the same time each get all of their text in order."""
    words = [f"w{number} " for number in range(5)]
    first = [STREAM_HEAD, chunk(event(delta(words[0])))]
    rest = b"".join(event(delta(word)) for word in words[1:]) + event(delta(finish="stop"))
    headers = rude.script(script, [*first, Act.HOLD, chunk(rest + b"data: [DONE]\n\n"), b"0\r\n\r\n"])
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    open_now = 0
    all_open = asyncio.Event()

    async def read(client: Any) -> str:
        nonlocal open_now
        stream = await client.chat.completions.create(
            model="plain", messages=ask(), stream=True, extra_headers=headers
        )
        text = ""
        async for piece in stream:
            if not text:
                open_now += 1
                if open_now == 500:
                    all_open.set()
            text += piece.choices[0].delta.content or ""
        return text

    async with async_client(mesh, http_client=httpx.AsyncClient(limits=limits, timeout=60)) as client:
        readers = [asyncio.create_task(read(client)) for _ in range(500)]
        async with asyncio.timeout(60):
            await all_open.wait()
            rude.release(script)
            texts = await asyncio.gather(*readers)
    assert set(texts) == {"".join(words)}
    assert len(rude.seen(script)) == 500


async def test_a_client_that_leaves_cancels_the_upstream_call(
    mesh: Mesh, rude: RudeProvider, script: str
) -> None:
    """Hanging up, before the answer or in mid-stream, closes the provider's call within a second."""
    streamed = rude.script(f"{script}-stream", [STREAM_HEAD, chunk(event(delta("one"))), Act.HOLD])
    silent = rude.script(f"{script}-silent", [Act.HOLD])
    async with async_client(mesh) as client:
        stream = await client.chat.completions.create(
            model="plain", messages=ask(), stream=True, extra_headers=streamed
        )
        await anext(aiter(stream))
        await stream.close()
        call = asyncio.create_task(
            client.chat.completions.create(model="plain", messages=ask(), extra_headers=silent)
        )
        await asyncio.to_thread(until, lambda: rude.seen(f"{script}-silent"), 5, "the call is upstream")
        call.cancel()
        for name in (f"{script}-stream", f"{script}-silent"):
            seen = rude.seen(name)[0]
            assert await asyncio.to_thread(seen.aborted.wait, 1.5), f"{name} goes on upstream"
        await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_a_providers_error_raises_the_clients_own_exception(
    client: Any, rude: RudeProvider, script: str, status: int, raised: type[Exception]
) -> None:
    """Errors of the provider pass unchanged, so the client maps each to its own class."""
    body = {"error": {"message": f"no {status}", "type": "some_type", "param": None, "code": "some_code"}}
    headers = rude.script(script, reply(status, body))
    with pytest.raises(raised) as caught:
        client.chat.completions.create(model="once", messages=ask(), extra_headers=headers)
    assert caught.value.body == body["error"]  # type: ignore[attr-defined]
