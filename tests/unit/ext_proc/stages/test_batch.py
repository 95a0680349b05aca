"""The stage that lets requests travel together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
import structlog

from ext_proc.continuation import CallFailed, Reply
from ext_proc.contract.policies import BatchPolicy, Policy
from ext_proc.contract.snapshot import Backend, BatchLimits
from ext_proc.exchange import Answer, Answered, CacheStatus, Exchange, Forward, Reason, RequestHead
from ext_proc.stages.batch import BatchStage
from ext_proc.stages.route import Route
from ext_proc.wiring.stages import codecs
from tests.unit.ext_proc.exchanges import exchange, snapshot

NATIVE = Policy(batch=BatchPolicy(mode="native", send_below=1, max_wait_ms=20))
PATH = "/v1/embeddings"


class Vectors:
    """A provider of embeddings: a text's vector is its length. Made ill by what is put in `trouble`."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json", "x-outrigger-backend": "b"}
    raw: Sequence[tuple[bytes, bytes]] = ()

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.heads: list[RequestHead] = []
        self.trouble: Exception | None = None
        self._body = b""

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[Reply]:
        """Answer."""
        if self.trouble is not None:
            raise self.trouble
        document = orjson.loads(forward.body or body)
        self.asked.append(document)
        self.heads.append(head)
        data = [{"index": i, "embedding": [len(text)]} for i, text in enumerate(document["input"])]
        usage = {"prompt_tokens": 8 * len(data), "total_tokens": 8 * len(data)}
        self._body = orjson.dumps({"object": "list", "model": "real", "data": data, "usage": usage})
        yield self

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the answer."""
        yield self._body


class Mesh:
    """The stage before its provider."""

    def __init__(self, policy: Policy = NATIVE) -> None:
        self.provider = Vectors()
        self.kept: list[tuple[Exchange, Answered]] = []
        self.policy = policy
        self.snapshot = snapshot()
        self.stage = BatchStage(
            codecs(),
            decide=Route().on_request,
            caller=self.provider,
            keep=(lambda *kept: self.kept.append(kept),),
            clock=asyncio.get_running_loop().time,
            log=structlog.get_logger(),
        )

    def open(
        self,
        document: dict[str, Any],
        headers: Mapping[str, str] | None = None,
        path: str = PATH,
        **fields: Any,
    ) -> Exchange:
        """Return an exchange that has come to the stage."""
        opened = exchange(self.snapshot, {"model": "m", **document}, headers, path=path)
        opened.model = self.snapshot.models["m"]
        opened.version = opened.model.versions[0]
        opened.backend = self.snapshot.backends["b"]
        # As the loaded snapshot would give it: routes are remembered by it.
        opened.policy = self.policy
        for name, value in fields.items():
            setattr(opened, name, value)
        return opened

    async def ask(self, opened: Exchange) -> Answer | None:
        """Take it through the stage."""
        decision = await self.stage.on_request(opened)
        assert decision is None or isinstance(decision, Answer)
        self.stage.on_end(opened)
        return decision


async def test_requests_travel_together_and_get_their_own() -> None:
    """One call; each answer is its own text's, says the size and its share of the tokens."""
    mesh = Mesh()
    opened = [mesh.open({"input": "x" * length}) for length in (1, 2, 3)]
    answers = await asyncio.gather(*(mesh.ask(one) for one in opened))
    assert [document["input"] for document in mesh.provider.asked] == [["x", "xx", "xxx"]]
    for length, answer in enumerate(answers, 1):
        assert answer is not None
        document = orjson.loads(answer.body)
        assert document["data"] == [{"index": 0, "embedding": [length]}]
        assert document["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
        assert answer.reason is Reason.SERVED_FROM_BATCH
        assert dict(answer.headers) == {
            "content-type": "application/json",
            "x-outrigger-backend": "b",
            "x-outrigger-batch": "3",
            "x-outrigger-model": "m",
            "x-outrigger-version": "v1",
            "x-outrigger-cache": "bypass",
        }
        assert dict(answer.metadata)["input_tokens"] == 8.0


async def test_with_few_waiting_a_request_goes_as_it_is() -> None:
    """Unchanged, by itself; the one behind it gathers until it has ended."""
    mesh = Mesh(replace(NATIVE, batch=replace(NATIVE.batch, send_below=2, max_wait_ms=60_000)))
    first = mesh.open({"input": "a"})
    assert await mesh.stage.on_request(first) is None
    assert (first.wants_head, first.changed) == (True, False)
    second = asyncio.create_task(mesh.ask(mesh.open({"input": "b"})))
    await asyncio.sleep(0.01)
    assert not second.done()
    mesh.stage.on_end(first)
    assert await second is not None
    assert [document["input"] for document in mesh.provider.asked] == [["b"]]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"document": {"input": "b", "dimensions": 5}}, id="dimensions"),
        pytest.param({"document": {"input": "b", "encoding_format": "base64"}}, id="format"),
        pytest.param({"document": {"input": "b", "x_future": 1}}, id="unknown field"),
        pytest.param({"document": {"input": "b"}, "headers": {"authorization": "Bearer other"}}, id="key"),
        pytest.param(
            {"document": {"input": "b"}, "headers": {"openai-organization": "o"}}, id="organisation"
        ),
        pytest.param({"document": {"input": "b"}, "headers": {"x-api-key": "k"}}, id="key by another name"),
        pytest.param({"document": {"input": "b"}, "headers": {"idempotency-key": "k"}}, id="its own call"),
        pytest.param({"document": {"input": "b"}, "headers": {"x-future": "k"}}, id="unknown header"),
        pytest.param({"document": {"input": [1, 2]}}, id="token numbers"),
        pytest.param(
            {"document": {"input": "b"}, "backend": Backend("b", "http://elsewhere/v1")}, id="address"
        ),
    ],
)
async def test_requests_that_differ_do_not_mix(other: dict[str, Any]) -> None:
    """Each goes with its like."""
    mesh = Mesh()
    await asyncio.gather(mesh.ask(mesh.open({"input": "a"})), mesh.ask(mesh.open(**other)))
    assert sorted(len(document["input"]) for document in mesh.provider.asked) == [1, 1]


async def test_what_says_nothing_of_the_question_keeps_nobody_apart() -> None:
    """User agents, traces, the SDK's own headers."""
    mesh = Mesh()
    headers = ({"user-agent": "a", "x-stainless-lang": "python"}, {"user-agent": "b", "traceparent": "00-1"})
    await asyncio.gather(*(mesh.ask(mesh.open({"input": "a"}, one)) for one in headers))
    assert len(mesh.provider.asked) == 1


async def test_what_a_batch_answers_is_kept_in_each_ones_name() -> None:
    """For the cache and for those who follow; nothing is kept of what nobody wants kept."""
    mesh = Mesh()
    cached = mesh.open({"input": "a"}, cache_key=b"k", cache_status=CacheStatus.MISS)
    await asyncio.gather(mesh.ask(cached), mesh.ask(mesh.open({"input": "bb"})))
    ((kept, answered),) = mesh.kept
    assert kept is cached
    assert answered.completion is not None
    assert answered.completion.complete
    assert orjson.loads(answered.body)["data"] == [{"index": 0, "embedding": [1]}]


async def test_a_batch_that_fails_leaves_each_to_itself() -> None:
    """The stage passes them on; nobody gets an error of the batch."""
    mesh = Mesh()
    mesh.provider.trouble = CallFailed("refused")
    opened = [mesh.open({"input": text}) for text in "ab"]
    assert await asyncio.gather(*(mesh.ask(one) for one in opened)) == [None, None]
    assert [one.parsed.document["input"] for one in opened] == ["a", "b"]
    assert not any(one.changed for one in opened)
    assert [(one.shared, one.shared_failed) for one in opened] == [(True, False)] * 2


async def test_one_that_fails_for_good_has_been_sent() -> None:
    """It is more than one call holds, so it cannot go by itself."""
    mesh = Mesh(replace(NATIVE, batch=replace(NATIVE.batch, max_size=1)))
    mesh.provider.trouble = CallFailed("refused")
    opened = mesh.open({"input": ["a", "b"]})
    answer = await mesh.ask(opened)
    assert answer is not None
    assert answer.reason is Reason.BATCH_FAILED
    assert opened.shared
    assert opened.shared_failed


async def test_the_provider_bounds_a_call() -> None:
    """What the Backend takes at most, though the policy allows more."""
    mesh = Mesh()
    backend = replace(mesh.snapshot.backends["b"], batch=BatchLimits(max_items=2))
    opened = [mesh.open({"input": text}, backend=backend) for text in "abcd"]
    await asyncio.gather(*(mesh.ask(one) for one in opened))
    assert [document["input"] for document in mesh.provider.asked] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param({"input": "a"}, "/v1/chat/completions", id="another operation"),
        pytest.param({"input": {}}, PATH, id="no inputs"),
        pytest.param({"prompt": "a", "stream": True}, "/v1/completions", id="a stream"),
        pytest.param({"input": "x" * 300_000}, PATH, id="a large one"),
    ],
)
async def test_what_does_not_batch_passes(document: dict[str, Any], path: str) -> None:
    """By itself, as it came."""
    mesh = Mesh()
    assert await mesh.ask(mesh.open(document, path=path)) is None
    assert mesh.provider.asked == []


async def test_one_that_leaves_while_it_parks_leaves_nothing_behind() -> None:
    """No queue is kept for it."""
    mesh = Mesh()
    opened = mesh.open({"input": "a"})

    async def ask_for_time() -> None:
        await asyncio.Event().wait()

    opened.ask_for_time = ask_for_time
    leaving = asyncio.create_task(mesh.stage.on_request(opened))
    await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert len(mesh.stage._batches) == 0


async def test_off_is_off() -> None:
    """Nothing batches without a Policy."""
    mesh = Mesh(Policy())
    assert await mesh.ask(mesh.open({"input": "a"})) is None


async def test_packed_questions_never_meet_another_tenants() -> None:
    """Equal in all but the tenant, they are two calls."""
    mesh = Mesh(replace(NATIVE, batch=replace(NATIVE.batch, mode="packed")))
    mesh.provider.trouble = CallFailed("counted")
    asked: list[int] = []

    async def count(opened: Exchange) -> Forward:
        asked.append(len(orjson.loads(opened.parsed.document["messages"][-1]["content"])))
        return Forward("r")

    mesh.stage._decide = count
    question = {"messages": [{"role": "user", "content": "q"}]}
    path = "/v1/chat/completions"
    tenants = ("tenant:a", "tenant:b", "tenant:a")
    await asyncio.gather(*(mesh.ask(mesh.open(question, path=path, tenant=one)) for one in tenants))
    assert sorted(asked) == [1, 2]
