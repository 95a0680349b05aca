"""Exact answers from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.contract.policies import CachePolicy, Policy, SemanticPolicy
from ext_proc.contract.snapshot import Backend, Consumer, Model, Prices, Purge, Version
from ext_proc.exchange import Answer, Answered, CacheStatus, Exchange, Reason, ResponseHead
from ext_proc.openai.paths import Operation
from ext_proc.openai.responses import parse_completion
from ext_proc.stages.cache import Cache
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally
from ext_proc.tiers import Tiers
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


class Mesh:
    """The cache stage with a provider that answers what it is told to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(10, 1_000_000, self.clock)
        self.tally = CacheTally()
        self.purges: tuple[Purge, ...] = ()
        self.refreshed: list[tuple[bytes, Exchange]] = []
        self.policy = snapshot()
        self.share({})

    def share(self, shared: Mapping[str, Shared]) -> None:
        """Begin anew with these tiers behind memory."""
        tiers = Tiers(self.store, shared, lambda: Clocks(1000 + self.clock(), self.clock()))
        self.stage = Cache(tiers, self.clock, self.tally, lambda: self.purges)
        self.stage.refresh_by(self)

    def refresh(self, key: bytes, again: Exchange) -> None:
        """Write down what would be asked again."""
        self.refreshed.append((key, again))

    async def close(self) -> None:
        """Forget it."""
        self.refreshed.clear()

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


async def test_another_models_answer_is_not_kept() -> None:
    """Whoever stood in, the key is that of the version that was assigned."""
    mesh = Mesh()
    await mesh.ask(passed_over=True)
    _, answer = await mesh.ask()
    assert answer is None


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
        pytest.param(200, b'{"choices": [{"finish_reason": "stop"}]}', id="no message"),
        pytest.param(200, GOOD.replace(b'"index"', b'"error": {}, "index"'), id="error in a choice"),
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
        {"n": 1},
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


async def test_what_is_shared_is_asked_after_memory_and_fills_it() -> None:
    """An answer is kept in both; another processor finds it once and has it in memory then."""
    one, other, shared = Mesh(), Mesh(), Shared()
    for mesh in (one, other):
        mesh.share({"redis": shared})
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
    mesh.share({"redis": shared})
    policy = replace(CACHING, cache=replace(CACHING.cache, tiers=tiers))
    await mesh.ask(policy=policy)
    assert (len(mesh.store), len(shared.kept)) == (in_memory, in_shared)
    assert (await mesh.ask(policy=policy))[1] is not None


STALE = replace(CACHING, cache=replace(CACHING.cache, stale_while_revalidate_ms=5_000))
SAVED = replace(CACHING, cache=replace(CACHING.cache, stale_if_error_ms=60_000))


async def test_a_stale_answer_is_served_while_a_fresh_one_is_fetched() -> None:
    """In its window it is a hit with its age, and the question goes up once behind it; afterwards a miss."""
    mesh = Mesh()
    await mesh.ask(policy=STALE)
    mesh.clock.now += 12
    opened, answer = await mesh.ask(policy=STALE)
    assert answer is not None
    assert (dict(answer.headers)["age"], opened.cache_status) == ("12", CacheStatus.HIT)
    ((key, again),) = mesh.refreshed
    assert key == opened.cache_key
    assert (again.cache_status, again.backend) == (CacheStatus.MISS, mesh.policy.backends["b"])
    response = ResponseHead(200, {"content-type": "application/json"})
    newer = GOOD.replace(b"hi", b"ho")
    mesh.stage.on_response(again, Answered(response, newer, parse_completion(Operation.CHAT, newer)))
    _, answer = await mesh.ask(policy=STALE)
    assert answer is not None
    assert (answer.body, dict(answer.headers)["age"]) == (newer, "0")
    mesh.clock.now += 15.1
    assert (await mesh.ask(policy=STALE))[1] is None


@pytest.mark.parametrize(
    ("status", "saved"), [(500, True), (503, True), (429, True), (400, False), (200, False)]
)
async def test_a_stale_answer_stands_in_for_a_provider_in_trouble(status: int, saved: bool) -> None:
    """Its window begins when it is stale; what is the caller's own fault passes."""
    mesh = Mesh()
    await mesh.ask(policy=SAVED)
    mesh.clock.now += 30
    opened, answer = await mesh.ask(policy=SAVED, status=status)
    assert answer is None
    assert opened.wants_head
    opened.response = ResponseHead(status, {})
    instead = mesh.stage.on_response_head(opened)
    assert (instead is not None) == saved
    if instead is not None:
        assert (instead.status, instead.body, instead.reason) == (200, GOOD, Reason.SERVED_STALE)
        assert dict(instead.headers)["age"] == "30"
    # A question is a hit or a miss, and the Backend is still known to who reads its quota.
    assert (mesh.tally.hits["stale"], mesh.tally.misses) == (saved, 2 - saved)
    assert opened.backend is not None


@pytest.mark.parametrize(
    ("reason", "saved"), [(Reason.COOLING, True), (Reason.QUOTA, True), (Reason.RATE_LIMIT, False)]
)
async def test_a_stale_answer_stands_in_for_a_provider_that_is_not_asked(reason: Reason, saved: bool) -> None:
    """It cools, or its quota is used up; the caller's own limits are no trouble of a provider's."""
    mesh = Mesh()
    await mesh.ask(policy=SAVED)
    mesh.clock.now += 30
    opened, _ = await mesh.ask(policy=SAVED, status=503)
    refused = Answer(429, b"", reason)
    instead = mesh.stage.on_answer(opened, refused)
    assert (instead is not refused) == saved
    if saved:
        assert (instead.status, instead.body, instead.reason) == (200, GOOD, Reason.SERVED_STALE)
    fresh, _ = await mesh.ask(policy=CACHING)
    assert mesh.stage.on_answer(fresh, refused) is refused


async def test_what_is_stale_here_may_be_fresh_elsewhere() -> None:
    """Another processor has asked meanwhile: its answer is served, and nobody asks again."""
    mesh, shared = Mesh(), Shared()
    mesh.share({"redis": shared})
    opened, _ = await mesh.ask(policy=STALE)
    assert opened.cache_key is not None
    mesh.clock.now += 12
    kept = shared.kept[opened.cache_key]
    body = GOOD.replace(b"hi", b"newer")
    newer = replace(kept, body=body, stored_at=111.0, fresh_until=200.0, expires_at=200.0)
    shared.kept[opened.cache_key] = newer
    _, answer = await mesh.ask(policy=STALE)
    assert answer is not None
    assert (answer.body, mesh.refreshed) == (body, [])


async def test_a_stale_answer_beyond_its_window_helps_nobody() -> None:
    """It is gone."""
    mesh = Mesh()
    await mesh.ask(policy=SAVED)
    mesh.clock.now += 70.1
    opened, _ = await mesh.ask(policy=SAVED)
    opened.response = ResponseHead(500, {})
    assert mesh.stage.on_response_head(opened) is None


@pytest.mark.parametrize(
    ("document", "choices"),
    [
        pytest.param({}, [{"finish_reason": "length", "message": {"content": "h"}}], id="cut by its limit"),
        pytest.param(
            {"tools": [{"type": "function"}]},
            [{"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [{"id": "c"}]}}],
            id="tool calls",
        ),
        pytest.param({}, [{"finish_reason": "stop", "message": {"refusal": "no"}}], id="a refusal"),
        pytest.param(
            {"n": 2},
            [{"index": i, "finish_reason": "stop", "message": {"content": "h"}} for i in range(2)],
            id="several choices",
        ),
        pytest.param({"store": True}, [{"finish_reason": "stop", "message": {"content": "h"}}], id="store"),
        pytest.param(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,a"}}]}
                ]
            },
            [{"finish_reason": "stop", "message": {"content": "h"}}],
            id="an image",
        ),
    ],
)
async def test_complete_answers_of_any_kind_are_kept(
    document: dict[str, Any], choices: list[dict[str, Any]]
) -> None:
    """Byte for byte."""
    mesh, body = Mesh(), orjson.dumps({"choices": choices})
    await mesh.ask({**HELLO, **document}, body=body)
    _, answer = await mesh.ask({**HELLO, **document})
    assert answer is not None
    assert answer.body == body


async def test_images_are_told_apart_by_their_content() -> None:
    """One byte of a data URL makes another question."""
    mesh = Mesh()
    for number in range(2):
        url = {"url": f"data:image/png;base64,AAA{number}"}
        content = [{"type": "image_url", "image_url": url}, {"type": "text", "text": "what is it?"}]
        assert (await mesh.ask({**HELLO, "messages": [{"role": "user", "content": content}]}))[1] is None


@pytest.mark.parametrize("reason", [b"content_filter", b"abort", b"timeout", b"SAFETY", b"x_future"])
async def test_an_answer_that_ended_otherwise_is_not_kept(reason: bytes) -> None:
    """It is a filter's verdict or a fault, and may be another one tomorrow."""
    mesh = Mesh()
    await mesh.ask(body=GOOD.replace(b"stop", reason))
    assert (await mesh.ask())[1] is None


async def test_fewer_answers_than_were_asked_are_not_kept() -> None:
    """But one: some servers do not know `n`, and give one the next time, too."""
    two = orjson.dumps({"choices": [{**orjson.loads(GOOD)["choices"][0], "index": i} for i in range(2)]})
    for number, body, kept in ((3, two, False), (2, two, True), (2, GOOD, True)):
        mesh = Mesh()
        await mesh.ask({**HELLO, "n": number}, body=body)
        assert ((await mesh.ask({**HELLO, "n": number}))[1] is not None) == kept


@pytest.mark.parametrize(
    ("purge", "void"),
    [
        pytest.param(Purge(1_100.0), True, id="everything"),
        pytest.param(Purge(1_099.9), False, id="what is older"),
        pytest.param(Purge(1_100.0, tenant="workload:default"), True, id="its tenant"),
        pytest.param(Purge(1_100.0, tenant="tenant:other"), False, id="another tenant"),
        pytest.param(Purge(1_100.0, model="m", version="v1"), True, id="its version"),
        pytest.param(Purge(1_100.0, model="m", version="v2"), False, id="another version"),
        pytest.param(Purge(1_100.0, key_prefix=""), True, id="any key"),
        pytest.param(Purge(1_100.0, key_prefix="xx"), False, id="another key"),
    ],
)
async def test_a_purge_voids_what_it_means_in_every_tier(purge: Purge, void: bool) -> None:
    """Memory's and what is shared; what is asked afterwards is kept again."""
    mesh, shared = Mesh(), Shared()
    mesh.share({"redis": shared})
    await mesh.ask()
    mesh.purges = (purge,)
    mesh.clock.now += 1
    assert ((await mesh.ask())[1] is None) == void
    assert (await mesh.ask())[1] is not None


async def test_an_answer_that_was_on_its_way_when_it_was_voided_is_not_kept() -> None:
    """It was asked for before the purge."""
    mesh = Mesh()
    opened = exchange(mesh.policy)
    opened.policy = CACHING
    assert await mesh.stage.on_request(opened) is None
    mesh.clock.now += 2
    mesh.purges = (Purge(1_101.0),)
    response = ResponseHead(200, {"content-type": "application/json"})
    mesh.stage.on_response(opened, Answered(response, GOOD, parse_completion(Operation.CHAT, GOOD)))
    assert len(mesh.store) == 0


async def test_what_a_hit_saves_is_counted() -> None:
    """Tokens, money by the Model's prices, and the time that the call took."""
    mesh = Mesh()
    priced = Model("m", (Version("v1", "b", "m"),), prices=Prices(1_000_000, 2_000_000))
    body = GOOD[:-1] + b',"usage":{"prompt_tokens":3,"completion_tokens":4}}'
    await mesh.ask(body=body, model=priced)
    mesh.clock.now += 2
    await mesh.ask(model=priced)
    tally = mesh.tally
    assert (tally.misses, tally.hits["memory"], sum(tally.ages)) == (1, 1, 1)
    assert (tally.saved_prompt_tokens, tally.saved_completion_tokens, tally.saved_money) == (3, 4, 11)


class Similar:
    """Finds `answer` for every question, and writes down what it is told."""

    def __init__(self, answer: StoredAnswer | None) -> None:
        self.answer = answer
        self.learned: list[bytes] = []

    async def find(self, exchange: Exchange) -> StoredAnswer | None:
        """Return it."""
        return self.answer

    def learn(self, exchange: Exchange, key: bytes, answer: StoredAnswer) -> None:
        """Write it down."""
        self.learned.append(key)


async def test_a_similar_answer_is_served_after_an_exact_miss() -> None:
    """As `semantic-hit`, with what gave it; a question without one goes up and is learned from."""
    mesh = Mesh()
    similar = Similar(None)
    tiers = Tiers(mesh.store, {}, lambda: Clocks(0.0, 0.0))
    mesh.stage = Cache(tiers, mesh.clock, mesh.tally, tuple, similar)
    policy = replace(CACHING, cache=replace(CACHING.cache, semantic=SemanticPolicy(enabled=True)))
    opened, answer = await mesh.ask(policy=policy)
    assert answer is None
    assert similar.learned == [opened.cache_key]
    similar.answer = StoredAnswer(GOOD, "application/json", "m", "v1", 99.0, 200.0)
    opened, answer = await mesh.ask({**HELLO, "seed": 1}, {"x-outrigger-cache": "only"}, policy=policy)
    assert answer is not None
    assert dict(answer.headers)["x-outrigger-cache"] == opened.cache_status == "semantic-hit"
    assert mesh.tally.hits["semantic"] == 1
    assert (await mesh.ask({**HELLO, "seed": 2}))[1] is None  # the Policy does not want it


LONG = orjson.dumps(
    {
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "word " * 10}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 10},
    }
)


@pytest.mark.parametrize(
    ("body", "pieces"), [(LONG, 10), (GOOD, 2)], ids=["of a token each", "tokens unknown"]
)
async def test_a_stream_with_a_pace_is_cut(body: bytes, pieces: int) -> None:
    """About as its provider told it; JSON, and streams without a pace, are whole."""
    mesh = Mesh()
    await mesh.ask(body=body)
    policy = replace(CACHING, cache=replace(CACHING.cache, stream_pace_ms=20))
    _, hit = await mesh.ask({**HELLO, "stream": True}, policy=policy)
    assert hit is not None
    # The opening, the end and its mark stand around the text.
    assert (hit.pace_ms, hit.body.count(b"data: ")) == (20, pieces + 3)
    assert mesh.tally.hits["memory"] == 1
    mesh.clock.now += 1
    _, whole = await mesh.ask({**HELLO, "stream": True})
    assert whole is not None
    assert (whole.pace_ms, whole.body.count(b"data: ")) == (0, 4)
    _, as_json = await mesh.ask()
    assert as_json is not None
    assert as_json.pace_ms == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"hello": "world"}',
        b'{"object": "list", "data": [{"index": 0, "embedding": [1.0]}]}',
        b'{"error": {"message": "no"}, "choices": []}',
        GOOD.replace(b'"stop"', b"null"),
        GOOD.replace(b'"stop"', b'"content_filter"'),
        orjson.dumps({"choices": orjson.loads(GOOD)["choices"] * 2}),
    ],
    ids=["any object", "vectors", "an error", "cut", "filtered", "two for one"],
)
@pytest.mark.parametrize("long", [False, True])
async def test_what_others_wrote_is_served_only_if_it_answers_the_question(body: bytes, long: bool) -> None:
    """It is asked anew, and the answer takes its place, in memory too."""
    mesh, shared = Mesh(), Shared()
    mesh.share({"redis": shared})
    await mesh.ask()
    ((key, kept),) = shared.kept.items()
    padding = b" " * 100_000 if long else b""
    shared.kept[key] = replace(kept, body=body + padding)
    mesh.store.delete(key)
    asked, answer = await mesh.ask()
    assert (answer, asked.cache_status) == (None, CacheStatus.MISS)
    assert shared.kept[key].body == GOOD
    _, answer = await mesh.ask()
    assert answer is not None
    assert answer.body == GOOD


class Ear:
    """Hears what is asked under a Release."""

    def __init__(self) -> None:
        self.heard: list[tuple[Exchange, bytes]] = []
        self.closed = False

    def asked(self, exchange: Exchange, key: bytes) -> None:
        """Write it down."""
        self.heard.append((exchange, key))

    async def close(self) -> None:
        """Be told that nothing comes any more."""
        self.closed = True


async def test_what_is_asked_under_a_release_is_told() -> None:
    """Hits and misses alike; not what passes the cache by, and not what no Release has decided."""
    mesh, ear = Mesh(), Ear()
    mesh.stage.remembered_by(ear)
    missed, _ = await mesh.ask(release="r")
    hit, answer = await mesh.ask(release="r")
    await mesh.ask()
    await mesh.ask(release="r", headers={"x-outrigger-cache": "no-store"})
    assert answer is not None
    assert ear.heard == [(missed, missed.cache_key), (hit, missed.cache_key)]
    await mesh.stage.close()
    assert ear.closed


class Comparing:
    """Sees what is asked and answered under a Release."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def asked(self, exchange: Exchange) -> None:
        """Write it down, and wait for the answer."""
        self.seen.append("asked")
        exchange.other_key = b"other"

    def answered(self, exchange: Exchange, answer: StoredAnswer) -> None:
        """Write down who answered."""
        self.seen.append(answer.version)


async def test_what_is_answered_under_a_release_is_shown_to_who_compares() -> None:
    """The question, and the provider's own answer; nothing of calls without a Release."""
    mesh, comparing = Mesh(), Comparing()
    mesh.stage.compared_by(comparing)
    await mesh.ask({**HELLO, "seed": 1})
    await mesh.ask(release="r")
    await mesh.ask(release="r")
    assert comparing.seen == ["asked", "v1", "asked"]
