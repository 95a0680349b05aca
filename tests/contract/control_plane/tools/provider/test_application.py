"""The whole provider over real sockets: every operation, error, delay and limit."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, AuthenticationError, NotFoundError, RateLimitError

from control_plane.tools.provider import ProviderSettings, running_provider
from tests.contract.control_plane.tools.provider.servers import CHAT, WIRES, served
from tests.unit.control_plane.tools.provider.clocks import JumpingClock

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
MESSAGES: Any = [{"role": "user", "content": "hi"}]


def sdk(client: httpx.AsyncClient, key: str = "sk-test") -> AsyncOpenAI:
    """Return OpenAI's own client on top of the given connection pool."""
    return AsyncOpenAI(
        base_url=f"{client.base_url!s}".rstrip("/") + "/v1", api_key=key, http_client=client, max_retries=0
    )


@pytest.mark.parametrize("wire", WIRES)
async def test_openai_client(wire: str) -> None:
    """OpenAI's client gets chats, streams, completions, embeddings and models on every wire."""
    async with served(wire, models=("m", "e")) as (provider, http):
        client = sdk(http)
        whole = await client.chat.completions.create(model="m", messages=MESSAGES, n=2)
        assert len({choice.message.content for choice in whole.choices}) == 2
        stream = await client.chat.completions.create(
            model="m", messages=MESSAGES, n=2, stream=True, stream_options={"include_usage": True}
        )
        texts, used = ["", ""], None
        async for chunk in stream:
            used = chunk.usage or used
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        assert texts == [choice.message.content for choice in whole.choices]
        assert used == whole.usage
        completions = await client.completions.create(model="m", prompt=["a", "b"])
        assert [choice.index for choice in completions.choices] == [0, 1]
        vectors = await client.embeddings.create(model="e", input=["a", "b"], dimensions=4)  # asks for base64
        floats = await client.embeddings.create(model="e", input="b", dimensions=4, encoding_format="float")
        assert vectors.data[1].embedding == floats.data[0].embedding
        assert [model.id async for model in client.models.list()] == ["m", "e"]
        assert (await client.models.retrieve("m")).id == "m"
        with pytest.raises(NotFoundError):
            await client.models.retrieve("other")
        expected = "2" if wire.endswith(("h2", "h2c")) else "1.1"
        assert {seen.http_version for seen in provider.observations.log} == {expected}
        assert provider.observations.aborted == 0


async def test_tools_and_json() -> None:
    """Demanded tool calls and structured outputs parse, as JSON and as a stream."""
    async with served("http1") as (_, http):
        client = sdk(http)
        whole = await client.chat.completions.create(
            model="m", messages=MESSAGES, tools=[TOOL], tool_choice="required"
        )
        call: Any = (whole.choices[0].message.tool_calls or [None])[0]
        assert whole.choices[0].finish_reason == "tool_calls"
        assert set(json.loads(call.function.arguments)) == {"city"}
        async with client.chat.completions.stream(
            model="m", messages=MESSAGES, tools=[TOOL], tool_choice="required"
        ) as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.tool_calls[0].function.arguments == call.function.arguments
        answer = await client.chat.completions.create(
            model="m", messages=MESSAGES, response_format={"type": "json_object"}
        )
        assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        pytest.param("POST", "/v1/chat/completions", b"{", 400, None, id="bad-json"),
        pytest.param("POST", "/v1/chat/completions", b"", 400, None, id="no-body"),
        pytest.param("POST", "/v1/chat/completions", b"{}", 400, None, id="no-model"),
        pytest.param(
            "POST",
            "/v1/chat/completions",
            b'{"model":"m"}',
            400,
            "missing_required_parameter",
            id="no-messages",
        ),
        pytest.param(
            "POST",
            "/v1/chat/completions",
            b'{"model":"x","messages":[{"role":"user","content":""}]}',
            404,
            "model_not_found",
            id="unknown-model",
        ),
        pytest.param("GET", "/v1/chat/completions", None, 405, "method_not_supported", id="wrong-method"),
        pytest.param("POST", "/v1/files", b"x", 404, "unknown_url", id="unknown-path"),
        pytest.param("GET", "/_provider/other", None, 404, "unknown_url", id="unknown-own-path"),
        pytest.param("POST", "/_provider/script", b"[{}, 5]", 400, "invalid_script", id="bad-script"),
    ],
)
async def test_errors(method: str, path: str, body: bytes | None, status: int, code: str | None) -> None:
    """What is wrong gets OpenAI's status and error object."""
    async with served("http1", models=("m",)) as (_, http):
        answer = await http.request(method, path, content=body)
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == code
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_any_model_without_a_list() -> None:
    """Without a list of models every name is a model."""
    async with served("http1") as (_, http):
        assert (await http.post("/v1/chat/completions", json=CHAT | {"model": "invented"})).status_code == 200
        assert (await http.get("/v1/models/invented")).json()["id"] == "invented"


async def test_keys() -> None:
    """With keys given others are refused; bearer and Azure's api-key header both carry one."""
    async with served("http1", api_keys=("right",)) as (_, http):
        with pytest.raises(AuthenticationError):
            await sdk(http, "wrong").models.list()
        assert (await sdk(http, "right").models.list()).data
        azure = "/openai/deployments/mini/chat/completions?api-version=2024-10-21"
        answer = await http.post(azure, json={"messages": CHAT["messages"]}, headers={"api-key": "right"})
        assert answer.json()["model"] == "mini"


async def test_other_paths_are_echoed() -> None:
    """With the option, paths that are not simulated tell what came, so that a pass-through can be checked."""
    async with served("http1", other_paths="echo") as (_, http):
        answer = await http.post("/v1/audio/speech?x=1", content=b"\x00\xff")
        assert (answer.json()["path"], answer.json()["query"], answer.json()["body_bytes"]) == (
            "/v1/audio/speech",
            "x=1",
            2,
        )


async def test_conversations() -> None:
    """A list of conversations is answered in order, each as if it had come alone."""
    async with served("http1", conversations=True, answers="echo") as (_, http):
        several = [[{"role": "user", "content": f"question {number}"}] for number in range(20)]
        answer = (await http.post("/v1/chat/completions", json={"model": "m", "messages": several})).json()
        assert [(choice["index"], choice["message"]["content"]) for choice in answer["choices"]] == [
            (number, f"question {number}") for number in range(20)
        ]


async def test_quota() -> None:
    """Limits are announced on answers; beyond them OpenAI's client raises its RateLimitError."""
    async with served("http1", requests_per_minute=2, tokens_per_minute=100_000) as (_, http):
        client = sdk(http)
        answer = await client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
        assert answer.headers["x-ratelimit-remaining-requests"] == "1"
        await client.chat.completions.create(model="m", messages=MESSAGES)
        with pytest.raises(RateLimitError) as caught:
            await client.chat.completions.create(model="m", messages=MESSAGES)
        assert 28 <= int(caught.value.response.headers["retry-after"]) <= 30
        assert {name for name in caught.value.response.headers if name.startswith("x-ratelimit-")} == {
            f"x-ratelimit-{what}-{unit}"
            for what in ("limit", "remaining", "reset")
            for unit in ("requests", "tokens")
        }


async def test_error_rate() -> None:
    """The share of injected errors is near the rate, of the chosen statuses, and the same for one seed."""
    runs = []
    for _ in range(2):
        async with served("http1", error_rate=0.3, error_statuses=(500, 503), seed=7) as (_, http):
            answers = [await http.post("/v1/chat/completions", json=CHAT) for _ in range(100)]
            runs.append([answer.status_code for answer in answers])
    assert runs[0] == runs[1]
    assert set(runs[0]) == {200, 500, 503}
    assert 15 <= 100 - runs[0].count(200) <= 45


async def test_times_add_up() -> None:
    """A call takes connection, round trip, cold start, prefill and decode; the next only what it must."""
    settings = {
        "rtt_ms": 20,
        "tls_handshake_ms": 40,
        "cold_start_ms": 100,
        "prefill_ms_per_token": 1,
        "decode_ms_per_token": 2,
    }
    async with served("http1", **settings) as (_, http):
        elapsed = []
        for _ in range(2):
            before = time.monotonic()
            await http.post("/v1/chat/completions", json=CHAT | {"max_tokens": 20})
            elapsed.append(time.monotonic() - before)
    warm = 0.020 + 0.008 + 0.040
    # Upper bounds leave room for a busy machine; exact times are tested on a clock that jumps.
    assert warm <= elapsed[1] < warm + 1
    assert warm + 0.160 <= elapsed[0] < warm + 0.160 + 1


async def test_the_field_reports_figures() -> None:
    """By options: 2 s and more cold, then about 520 ms at temperature 0.2, 980 ms at 0.8; 120 ms RTT."""
    clock = JumpingClock()
    settings = ProviderSettings(cold_start_ms=2000, decode_ms_per_token=12.5, output_spread=0)
    far = ProviderSettings(rtt_ms=120, tls_handshake_ms=240)
    elapsed = []
    async with (
        running_provider(settings, clock=clock) as provider,
        httpx.AsyncClient(base_url=provider.url, trust_env=False) as http,
    ):
        for temperature in (0.2, 0.2, 0.8):
            before = clock.now
            await http.post("/chat/completions", json=CHAT | {"temperature": temperature})
            elapsed.append(clock.now - before)
    assert elapsed == pytest.approx([2.525, 0.525, 0.975], rel=0.01)
    async with (
        running_provider(far, clock=clock) as provider,
        httpx.AsyncClient(base_url=provider.url, trust_env=False) as http,
    ):
        for cost in (0.120 + 0.240 + 0.120, 0.120):
            before = clock.now
            await http.post("/chat/completions", json=CHAT)
            assert clock.now - before == pytest.approx(cost, rel=0.01)


async def test_a_stream_arrives_token_by_token() -> None:
    """Chunks come one decode step apart, not gathered; the first after one step."""
    async with (
        served("http1", decode_ms_per_token=20) as (_, http),
        http.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True, "max_tokens": 10}) as answer,
    ):
        arrivals = [time.monotonic() async for _ in answer.aiter_raw()]
    assert len(arrivals) >= 5
    assert arrivals[-1] - arrivals[0] >= 0.15


async def test_slots_and_queue() -> None:
    """One worker serves one call at a time; one may wait; the third is refused with 503."""
    async with served("http1", slots=1, queue=1, decode_ms_per_token=30) as (_, http):
        body = CHAT | {"max_tokens": 10}
        answers = await asyncio.gather(*(http.post("/v1/chat/completions", json=body) for _ in range(3)))
        assert sorted(answer.status_code for answer in answers) == [200, 200, 503]


@pytest.mark.parametrize("wire", ["http1", "tls-http1"])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_a_caller_that_hangs_up(wire: str, stream: bool) -> None:
    """When the caller leaves, generation stops at once, is counted, and its slot is free again."""
    async with served(wire, decode_ms_per_token=1000, slots=1) as (provider, http):
        body = CHAT | {"stream": stream}
        call = asyncio.create_task(http.post("/v1/chat/completions", json=body))
        async with asyncio.timeout(5):
            await provider.observations.until(lambda seen: seen.in_flight == 1)
            call.cancel()
            await provider.observations.until(lambda seen: seen.aborted == 1)
        seen = provider.observations.log[0]
        assert (seen.aborted, seen.ended is not None, seen.stream) == (True, True, stream)
        answer = await http.post("/v1/embeddings", json={"model": "e", "input": "a"})
        assert answer.status_code == 200


async def test_stats_and_reset() -> None:
    """The observation endpoints tell what came and forget it; they do not count themselves."""
    async with served("http1") as (provider, http):
        await http.post("/v1/chat/completions", json=CHAT, headers={"authorization": "Bearer sk-secret"})
        async with httpx.AsyncClient(base_url=provider.origin, trust_env=False) as observer:
            told = (await observer.get("/_provider/stats")).json()
            assert told["requests"] == {"/v1/chat/completions": 1}
            assert (told["connections"]["opened"], told["connections"]["now"]) == (1, 1)
            entry = told["log"][0]
            assert (
                entry["model"],
                entry["status"],
                entry["stream"],
                entry["aborted"],
                entry["connection"],
            ) == (
                "gpt-4o-mini",
                200,
                False,
                False,
                1,
            )
            assert entry["ended"] >= entry["started"]
            assert "sk-secret" not in json.dumps(told)
            assert (await observer.get("/_provider/script")).json()["type"] == "array"
            await observer.post("/_provider/reset")
            assert (await observer.get("/_provider/stats")).json()["requests"] == {}
