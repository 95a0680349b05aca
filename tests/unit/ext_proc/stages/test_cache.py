"""Exact answers from memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from ext_proc.answers import StoredAnswer
from ext_proc.contract.policies import CachePolicy, Policy
from ext_proc.contract.snapshot import Backend, Consumer, Model, PolicyLayer, Version
from ext_proc.exchange import Answer, Answered, CacheStatus, Exchange, Reason, ResponseHead
from ext_proc.openai.paths import Operation
from ext_proc.openai.responses import parse_completion
from ext_proc.stages.cache import Cache
from ext_proc.stores.memory import MemoryStore
from tests.unit.ext_proc.exchanges import HELLO, exchange, snapshot

GOOD = orjson.dumps({"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "hi"}}]})
CACHING = Policy(cache=CachePolicy(enabled=True, ttl_ms=10_000))


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


class Mesh:
    """The cache stage with a provider that answers what it is told to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(10, 1_000_000, self.clock)
        self.stage = Cache(self.store, self.clock)
        self.policy = snapshot()

    async def ask(
        self,
        document: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        *,
        status: int = 200,
        body: bytes = GOOD,
        query: str = "",
        **fields: Any,
    ) -> tuple[Exchange, Answer | None]:
        """Ask once; on a miss the provider answers `body` with `status`."""
        opened = exchange(self.policy, document, headers, query=query)
        opened.policy = CACHING
        opened.model = opened.loaded.snapshot.models["m"]
        opened.version = opened.model.versions[0]
        opened.backend = opened.loaded.snapshot.backends["b"]
        for name, value in fields.items():
            setattr(opened, name, value)
        decision = await self.stage.on_request(opened)
        assert decision is None or isinstance(decision, Answer)
        if decision is None:
            response = ResponseHead(status, {"content-type": "application/json", "set-cookie": "a=b"})
            answered = Answered(response, body, parse_completion(Operation.CHAT, body))
            self.stage.on_response(opened, answered)
        return opened, decision


async def test_the_second_call_is_a_hit_with_its_age_and_nothing_of_the_old_call() -> None:
    """Body, type, age, model and version; no cookie, no date."""
    mesh = Mesh()
    first, _ = await mesh.ask()
    assert first.cache_status is CacheStatus.MISS
    mesh.clock.now += 3.5
    second, answer = await mesh.ask()
    assert answer is not None
    assert (answer.status, answer.body, answer.reason) == (200, GOOD, Reason.SERVED_FROM_CACHE)
    assert dict(answer.headers) == {
        "content-type": "application/json",
        "age": "3",
        "x-outrigger-cache": "hit",
        "x-outrigger-model": "m",
        "x-outrigger-version": "v1",
    }
    assert second.cache_status is CacheStatus.HIT


async def test_a_hit_ends_with_its_time_to_live() -> None:
    """After `ttl` the provider is asked again."""
    mesh = Mesh()
    await mesh.ask()
    mesh.clock.now += 10.1
    assert (await mesh.ask())[1] is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(500, GOOD, id="error status"),
        pytest.param(429, b'{"error": {}}', id="rate limit"),
        pytest.param(200, b'{"error": {"message": "x"}}', id="error in a 200"),
        pytest.param(200, b'{"choices": []}', id="no choices"),
        pytest.param(200, b'{"choices": [{"finish_reason": null}]}', id="not finished"),
        pytest.param(200, b"<html>", id="no JSON"),
        pytest.param(200, b'{"choices": [{"fin', id="cut"),
    ],
)
async def test_only_a_complete_answer_is_kept(status: int, body: bytes) -> None:
    """Everything else is asked again."""
    mesh = Mesh()
    await mesh.ask(status=status, body=body)
    assert (await mesh.ask())[1] is None


@pytest.mark.parametrize(
    "other",
    [
        {"temperature": 0.5},
        {"seed": 1},
        {"x_future": 1},
        {"tools": []},
        {"n": 2},
        {"messages": [{"role": "user", "content": "hello "}]},
        {"messages": [{"role": "system", "content": "x"}, *HELLO["messages"]]},
    ],
)
async def test_another_question_is_a_miss(other: dict[str, Any]) -> None:
    """A field that is not known to be irrelevant splits the key."""
    mesh = Mesh()
    await mesh.ask()
    assert (await mesh.ask({**HELLO, **other}))[1] is None
    assert (await mesh.ask({**HELLO, **other}))[1] is not None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tenant": "tenant:other"}, id="tenant"),
        pytest.param({"version": Version("v2", "b", "m")}, id="version"),
        pytest.param({"version": Version("v1", "b", "another")}, id="upstream model"),
        pytest.param({"backend": Backend("b", "http://elsewhere/v1")}, id="Backend's address"),
        pytest.param({"model": Model("m2", ())}, id="Model"),
    ],
)
async def test_nobody_gets_what_another_gave_or_got(change: dict[str, Any]) -> None:
    """An answer belongs to the tenant that asked and the version that gave it."""
    mesh = Mesh()
    await mesh.ask()
    assert (await mesh.ask(**change))[1] is None
    assert (await mesh.ask())[1] is not None


async def test_scopes() -> None:
    """`global` is shared by all; `consumer` splits one tenant."""
    mesh = Mesh()
    shared = replace(CACHING, cache=replace(CACHING.cache, scope="global"))
    await mesh.ask(policy=shared, tenant="tenant:a")
    assert (await mesh.ask(policy=shared, tenant="tenant:b"))[1] is not None
    split = replace(CACHING, cache=replace(CACHING.cache, scope="consumer"))
    await mesh.ask(policy=split, consumer=Consumer("a", "t"))
    assert (await mesh.ask(policy=split, consumer=Consumer("b", "t")))[1] is None


async def test_another_query_is_another_question() -> None:
    """A provider may take a key from it: nobody gets what another's was answered."""
    mesh = Mesh()
    await mesh.ask(query="key=a")
    assert (await mesh.ask(query="key=b"))[1] is None
    assert (await mesh.ask())[1] is None
    assert (await mesh.ask(query="key=a"))[1] is not None


async def test_directives_in_a_list_all_count() -> None:
    """`no-store, only` neither stores nor calls, as if the header had come twice."""
    mesh = Mesh()
    answer = (await mesh.ask(headers={"x-outrigger-cache": "no-store, Only"}))[1]
    assert answer is not None
    assert answer.reason is Reason.NOT_CACHED
    await mesh.ask(headers={"x-outrigger-cache": "refresh, no-store"})
    assert (await mesh.ask())[1] is None


async def test_directives_of_the_caller() -> None:
    """`no-store` passes by, `refresh` asks again and stores, `only` never asks; case does not matter."""
    mesh = Mesh()
    opened, answer = await mesh.ask(headers={"x-outrigger-cache": "ONLY"})
    assert answer is not None
    assert (answer.status, answer.reason) == (504, Reason.NOT_CACHED)
    opened, _ = await mesh.ask(headers={"x-outrigger-cache": "No-Store"})
    assert opened.cache_status is CacheStatus.BYPASS
    assert (await mesh.ask(headers={"x-outrigger-cache": "refresh"}))[0].cache_status is CacheStatus.MISS
    assert (await mesh.ask(headers={"x-outrigger-cache": "only"}))[0].cache_status is CacheStatus.HIT
    newer = GOOD.replace(b"hi", b"ho")
    await mesh.ask(headers={"x-outrigger-cache": "refresh"}, body=newer)
    _, answer = await mesh.ask()
    assert answer is not None
    assert answer.body == newer


async def test_hot_answers_and_a_cache_that_is_off_pass_by() -> None:
    """Each is `bypass`, and nothing is kept of it."""
    mesh = Mesh()
    cool = replace(CACHING, cache=replace(CACHING.cache, max_temperature=1.0))
    for document, policy in (
        ({**HELLO, "temperature": 1.5}, cool),
        (HELLO, Policy()),
    ):
        for _ in range(2):
            opened, answer = await mesh.ask(document, policy=policy)
            assert answer is None
            assert opened.cache_status is CacheStatus.BYPASS
    assert len(mesh.store) == 0


async def test_a_stream_and_a_json_call_answer_each_other() -> None:
    """Whichever came first; the usage is in a replay only when it was asked for."""
    whole = GOOD[:-1] + b', "usage": {"prompt_tokens": 7}}'
    streaming = {**HELLO, "stream": True}
    mesh = Mesh()
    await mesh.ask(body=whole)
    _, answer = await mesh.ask(streaming)
    assert answer is not None
    assert dict(answer.headers)["content-type"].startswith("text/event-stream")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert b"usage" not in answer.body
    _, answer = await mesh.ask({**streaming, "stream_options": {"include_usage": True}})
    assert answer is not None
    assert b'"prompt_tokens":7' in answer.body
    mesh = Mesh()
    opened, _ = await mesh.ask(streaming, body=whole, recorded=True)
    assert opened.wants_stream
    _, answer = await mesh.ask()
    assert answer is not None
    assert (answer.body, dict(answer.headers)["content-type"]) == (whole, "application/json")


class Shared:
    """What processors share, here by one."""

    def __init__(self) -> None:
        self.kept: dict[bytes, StoredAnswer] = {}
        self.asked = 0

    async def get(self, key: bytes) -> StoredAnswer | None:
        """Return what is kept."""
        self.asked += 1
        return self.kept.get(key)

    def put(self, key: bytes, answer: StoredAnswer) -> None:
        """Keep it."""
        self.kept[key] = answer


async def test_what_is_shared_is_asked_after_memory_and_fills_it() -> None:
    """An answer is kept in both; another processor finds it once and has it in memory then."""
    one, other, shared = Mesh(), Mesh(), Shared()
    for mesh in (one, other):
        mesh.stage = Cache(mesh.store, mesh.clock, shared)
    await one.ask()
    assert len(shared.kept) == 1
    for _ in range(2):
        _, answer = await other.ask()
        assert answer is not None
        assert answer.body == GOOD
    assert shared.asked == 2  # the miss of the one, the first call of the other


@pytest.mark.parametrize(("tiers", "in_memory", "in_shared"), [(("memory",), 1, 0), (("redis",), 0, 1)])
async def test_a_policy_chooses_the_tiers(tiers: tuple[str, ...], in_memory: int, in_shared: int) -> None:
    """What is not named is neither filled nor asked."""
    mesh, shared = Mesh(), Shared()
    mesh.stage = Cache(mesh.store, mesh.clock, shared)
    policy = replace(CACHING, cache=replace(CACHING.cache, tiers=tiers))
    await mesh.ask(policy=policy)
    assert (len(mesh.store), len(shared.kept)) == (in_memory, in_shared)
    assert (await mesh.ask(policy=policy))[1] is not None


async def test_the_store_is_as_large_as_the_largest_policy() -> None:
    """A new snapshot resizes it."""
    mesh = Mesh()
    mesh.policy = snapshot(
        policies=(
            PolicyLayer("a", settings={"cache.memory_entries": 1}),
            PolicyLayer("b", models=("m",), settings={"cache.memory_entries": 2}),
        )
    )
    for seed in range(4):
        await mesh.ask({**HELLO, "seed": seed})
    assert len(mesh.store) == 2
