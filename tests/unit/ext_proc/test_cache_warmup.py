"""A new version's part of the cache is filled before its callers come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.cache_warmup import AT_ONCE, FAILED_AT_MOST, KEPT_BYTES, CacheWarmUp, question_of
from ext_proc.continuation import CallFailed, Reply
from ext_proc.contract.snapshot import Backend, Consumer, CredentialRef, Model, PolicyLayer, Rollout, Version
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, RequestHead
from ext_proc.flights import Flights
from ext_proc.hot_questions import MAX_BODY_BYTES
from ext_proc.pipeline import Pipeline
from ext_proc.question import question_key
from ext_proc.refusals import no_backend
from ext_proc.snapshots import Loaded, SnapshotHolder
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally, Warmed
from ext_proc.tiers import Tiers
from ext_proc.warmup import OwnTurns
from ext_proc.wiring.stages import stages
from tests.unit.ext_proc.exchanges import HELLO, SHARING, Counted, caching, exchange, head, snapshot
from tests.unit.ext_proc.test_continuation import Provider as Said
from tests.unit.ext_proc.test_flights import settled
from tests.unit.ext_proc.test_pipeline import NoQuota

RELEASE = Rollout("r", "old", "new", 0.05, "salt", warm_cache=10)
CACHED = PolicyLayer("p", settings={"cache.enabled": True, "cache.max_temperature": 1.0})
KEYED = Backend("b", "http://h/v1", credential=CredentialRef("env", "KEY"))


class Mesh:
    """A warm-up with all around it: a provider, a cache, and the Release of one Model."""

    def __init__(self, backend: Backend = KEYED) -> None:
        self.backend = backend
        self.decision: Answer | Forward = Forward("route")
        self.failing: Exception | None = None
        self.holding = False
        self.calls: list[tuple[RequestHead, bytes]] = []
        self.at_once = self.most = 0
        self.kept: list[Exchange] = []
        self.ended = 0
        self.store = MemoryStore(100, 1_000_000, lambda: 0.0)
        self.tally = CacheTally()
        self.warmup = CacheWarmUp(
            lambda: self.loaded,
            self,
            Tiers(self.store, {}, lambda: Clocks(0.0, 0.0)),
            self,
            tally=self.tally,
            purges=tuple,
            clock=lambda: 0.0,
            log=structlog.get_logger(),
        )
        self.warmup.go_by(self.decide, self.keep, self.end)
        self.turn = True
        self.taken: list[str] = []
        self.to_share(RELEASE.share)

    def to_share(self, share: float, *more: Rollout, **changes: Any) -> None:
        """Put a snapshot in force whose Release has that share; its Model's Releases are `more`, too."""
        versions = (Version("old", "b", "m-old"), Version("new", "b", "m-new"))
        releases = (replace(RELEASE, share=share, **changes), *more) if share >= 0 else more
        self.loaded = Loaded(
            snapshot(
                models={"m": Model("m", versions, releases=releases)},
                backends={"b": self.backend},
                policies=(CACHED,),
            )
        )
        self.warmup.follow(self.loaded.snapshot)

    def exchange(self, text: str, version: str = "old", **more: Any) -> Exchange:
        """Return a caller's question of a version that the Release has given them."""
        headers = more.pop("headers", None)
        document = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
        made = exchange(self.loaded.snapshot, document, headers)
        made.loaded = self.loaded
        model = made.model = self.loaded.snapshot.models["m"]
        made.version = next(one for one in model.versions if one.name == version)
        made.backend, made.release, made.assigned = self.backend, "r", version
        made.policy = self.loaded.policy("m", "")
        return made

    def ask(self, text: str, times: int = 2, **more: Any) -> Exchange:
        """Have callers ask; return one of them."""
        for _ in range(times):
            made = self.exchange(text, **more)
            self.warmup.asked(made, question_key(made))
        return made

    async def decide(self, made: Exchange) -> Answer | Forward | None:
        """Say where it goes."""
        return self.decision

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[Reply]:
        """Answer after a moment."""
        self.calls.append((head, body))
        if self.failing is not None:
            raise self.failing
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await (asyncio.Event().wait() if self.holding else asyncio.sleep(0))
            yield Said()
        finally:
            self.at_once -= 1

    def keep(self, made: Exchange, answered: Answered) -> None:
        """Keep the answer as the cache does."""
        self.kept.append(made)
        assert made.cache_key is not None
        self.store.put(
            made.cache_key,
            StoredAnswer(
                answered.body, "application/json", "m", made.version_name, 0.0, 9.0, fresh_until=9.0
            ),
        )

    def end(self, made: Exchange) -> None:
        """Count it."""
        self.ended += 1

    async def take(self, backend: str, for_s: float) -> bool:
        """Whether this processor asks."""
        self.taken.append(backend)
        return self.turn

    def used(self, backend: str, for_s: float) -> None:
        """Nobody says so."""
        raise AssertionError

    def asked_for(self) -> list[str]:
        """Return what the provider was asked."""
        return [orjson.loads(body)["messages"][0]["content"] for _, body in self.calls]

    def outcomes(self) -> dict[str, int]:
        """Return what was counted."""
        return {outcome.value: number for outcome, number in self.tally.warmups.items() if number}


async def test_at_a_step_the_new_version_is_asked_what_is_hot() -> None:
    """The most asked first, once; the answer is kept for who asked, under the new version."""
    mesh = Mesh()
    mesh.ask("warm", 2)
    mesh.ask("hot", 5)
    mesh.ask("once", 1)
    mesh.to_share(0.05)
    await settled()
    assert not mesh.calls
    mesh.to_share(0.25)
    await settled()
    assert mesh.asked_for() == ["hot", "warm"]
    caller = mesh.exchange("hot", "new")
    stored = mesh.store.get(question_key(caller))
    assert stored is not None
    assert stored.version == "new"
    assert (mesh.outcomes(), mesh.ended, mesh.most <= AT_ONCE) == ({"answered": 2}, 2, True)


async def test_what_is_held_already_is_not_asked_for() -> None:
    """At the next step, or since another processor of the same Redis does."""
    mesh = Mesh()
    mesh.ask("hot", 8)
    mesh.to_share(0.25)
    await settled()
    mesh.to_share(0.5)
    await settled()
    assert mesh.outcomes() == {"answered": 1, "held": 1}
    mesh.turn = False
    mesh.ask("elsewhere", 4)
    mesh.to_share(0.75)
    await settled()
    assert mesh.outcomes() == {"answered": 1, "held": 3}
    assert len(mesh.calls) == 1
    assert mesh.taken[-1] == f"question:{question_key(mesh.exchange('elsewhere', 'new')).hex()}"


async def test_partitions_stay_apart() -> None:
    """The same question of two tenants is asked twice, and a Consumer's stays theirs."""
    mesh = Mesh()
    consumer = Consumer("c", "one")
    for tenant, who in (("tenant:one", consumer), ("workload:w", None)):
        for _ in range(2):
            made = mesh.exchange("same")
            made.tenant, made.consumer = tenant, who
            mesh.warmup.asked(made, question_key(made))
    known = replace(mesh.loaded.snapshot, consumers={"c": consumer})
    grown = replace(known.models["m"], releases=(replace(RELEASE, share=0.5),))
    mesh.loaded = Loaded(replace(known, models={"m": grown}))
    mesh.warmup.follow(mesh.loaded.snapshot)
    await settled()
    assert sorted(kept.tenant for kept in mesh.kept) == ["tenant:one", "workload:w"]
    assert len({kept.cache_key for kept in mesh.kept}) == 2


@pytest.mark.parametrize(
    ("backend", "headers", "expected"),
    [
        pytest.param(KEYED, {"authorization": "Bearer sk-own"}, "answered", id="the Backend has a key"),
        pytest.param(
            Backend("b", "http://h/v1"), {"authorization": "Bearer sk-own"}, "skipped", id="own key only"
        ),
        pytest.param(Backend("b", "http://h/v1"), {"api-key": "own"}, "skipped", id="own key, Azure's way"),
        pytest.param(Backend("b", "http://h/v1"), {}, "answered", id="no key at all"),
    ],
)
async def test_no_key_of_a_caller_is_kept(backend: Backend, headers: dict[str, str], expected: str) -> None:
    """Where the provider needs it, its question is not asked."""
    mesh = Mesh(backend)
    mesh.ask("hot", headers=headers)
    mesh.to_share(0.5)
    await settled()
    assert mesh.outcomes() == {expected: 1}
    assert all(head.headers == {"content-type": "application/json"} for head, _ in mesh.calls)
    assert "own" not in repr(mesh.warmup._watched)


@pytest.mark.parametrize("name", ["x-api-key", "x-goog-api-key", "openai-organization", "openai-project"])
def test_what_an_account_may_answer_otherwise_is_not_kept(name: str) -> None:
    """Its answer would be another account's."""
    assert question_of(exchange(headers={name: "x"})) is None


def test_a_question_with_a_key_in_its_query_or_too_long_is_not_kept() -> None:
    """A version of Azure's API is no secret."""
    assert question_of(exchange(query="api-version=1")) is not None
    assert question_of(exchange(query="api-version=1&key=secret")) is None
    long = {"model": "m", "messages": [{"role": "user", "content": "x" * MAX_BODY_BYTES}]}
    assert question_of(exchange(document=long)) is None
    grown = exchange()
    grown.parsed.document["messages"] = long["messages"]
    grown.changed = True
    assert question_of(grown) is None


def test_what_is_kept_is_masked() -> None:
    """A request that a stage has changed is kept as it goes up."""
    made = exchange()
    made.parsed.document["messages"][0]["content"] = "<PHONE_1>"
    made.changed = True
    question = question_of(made)
    assert question is not None
    assert b"<PHONE_1>" in question.body
    assert b"hello" not in question.body


async def test_only_callers_that_a_release_left_on_the_old_version_are_heard() -> None:
    """Not those of the new one, nor of a Release without `warmCache`."""
    mesh = Mesh()
    mesh.ask("new already", version="new")
    elsewhere = mesh.exchange("no Release")
    elsewhere.release = ""
    unknown = mesh.exchange("no Model")
    unknown.model = None
    for made in (elsewhere, unknown):
        mesh.warmup.asked(made, b"k")
    mesh.to_share(0.5)
    await settled()
    mesh.to_share(0.5, warm_cache=0)
    mesh.ask("off")
    mesh.to_share(0.6)
    await settled()
    assert not mesh.calls


async def test_a_release_that_goes_back_or_ends_stops_it() -> None:
    """What it had remembered is gone, and what is under way ends."""
    mesh = Mesh()
    mesh.holding = True
    mesh.ask("hot")
    mesh.to_share(0.5)
    await settled()
    assert mesh.at_once == 1
    mesh.to_share(0.0)
    await settled()
    assert (mesh.at_once, mesh.ended, mesh.warmup._watched) == (0, 1, {})
    mesh.to_share(0.5)
    await settled()
    assert len(mesh.calls) == 1


async def test_a_release_of_other_versions_begins_anew() -> None:
    """Though its name is the same."""
    mesh = Mesh()
    mesh.holding = True
    mesh.ask("hot")
    mesh.to_share(0.5)
    await settled()
    mesh.to_share(0.75, from_version="new", to_version="old")
    await settled()
    assert (mesh.at_once, len(mesh.calls)) == (0, 1)
    (watched,) = mesh.warmup._watched.values()
    assert (watched.move.from_version, len(watched.hot)) == ("new", 0)


async def test_at_the_last_step_the_questions_are_let_go() -> None:
    """Everybody is on the new version; those that were remembered are still asked."""
    mesh = Mesh()
    mesh.ask("hot")
    mesh.to_share(1.0)
    await settled()
    (watched,) = mesh.warmup._watched.values()
    assert (mesh.outcomes(), len(watched.hot)) == ({"answered": 1}, 0)


async def test_no_more_than_four_at_once_and_no_more_than_wanted() -> None:
    """Over all of a processor's Releases."""
    mesh = Mesh()
    for number in range(15):
        mesh.ask(f"q{number}")
    mesh.to_share(0.5)
    await settled()
    assert (len(mesh.calls), mesh.most) == (10, AT_ONCE)


async def test_memory_is_shared_by_all_releases() -> None:
    """However many there are."""
    mesh = Mesh()
    others = [replace(RELEASE, name=f"r{number}", share=0.5) for number in range(3)]
    mesh.to_share(0.05, *others)
    bounds = [watched.hot._max_bytes for watched in mesh.warmup._watched.values()]
    assert bounds == [KEPT_BYTES // 4] * 4


async def test_a_provider_in_trouble_is_not_asked_on() -> None:
    """After one refusal of ours, or some failures; what is left is counted."""
    mesh = Mesh()
    for number in range(10):
        mesh.ask(f"q{number}")
    mesh.decision = no_backend()
    mesh.to_share(0.25)
    await settled()
    found = mesh.outcomes()
    assert not mesh.calls
    assert found["refused"] <= AT_ONCE
    assert sum(found.values()) == 10
    failing = Mesh()
    failing.failing = CallFailed("no")
    for number in range(10):
        failing.ask(f"q{number}")
    failing.to_share(0.25)
    await settled()
    assert failing.outcomes()["failed"] < FAILED_AT_MOST + AT_ONCE
    assert sum(failing.outcomes().values()) == 10


async def test_an_answer_that_somebody_else_has_just_got_is_held() -> None:
    """It is kept by whoever asked."""
    mesh = Mesh()
    mesh.ask("hot")
    mesh.decision = Answer(200, b"{}", Reason.SERVED_FROM_FLIGHT)
    mesh.to_share(0.5)
    await settled()
    assert (mesh.outcomes(), mesh.calls) == ({"held": 1}, [])


async def test_a_fault_is_told_and_ends_nothing() -> None:
    """Without a word of what was asked."""
    mesh = Mesh()
    mesh.failing = RuntimeError("broken")
    mesh.ask("a secret question")
    with capture_logs() as logs:
        mesh.to_share(0.5)
        await settled()
    assert (mesh.outcomes(), mesh.ended) == ({"failed": 1}, 1)
    assert [entry["log_level"] for entry in logs] == ["error", "info"]
    assert "secret question" not in str([{**entry, "exc_info": ""} for entry in logs])


@pytest.mark.parametrize("case", ["no cache", "too hot", "Consumer gone", "version gone"])
async def test_what_may_no_longer_be_answered_from_the_cache_is_skipped(case: str) -> None:
    """The policy of now counts."""
    mesh = Mesh()
    if case == "Consumer gone":
        for _ in range(2):
            made = mesh.exchange("hot")
            made.consumer = Consumer("gone", "t")
            mesh.warmup.asked(made, question_key(made))
    else:
        mesh.ask("hot", temperature=0.9)
    mesh.to_share(0.5)  # the round begins with the loop's next turn
    current = mesh.loaded.snapshot
    if case == "no cache":
        mesh.loaded = Loaded(replace(current, policies=()))
    elif case == "too hot":
        mesh.loaded = Loaded(
            replace(
                current,
                policies=(replace(CACHED, settings={**CACHED.settings, "cache.max_temperature": 0.5}),),
            )
        )
    elif case == "version gone":
        mesh.loaded = Loaded(replace(current, models={"m": Model("m", (Version("old", "b", "m"),))}))
    await settled()
    assert (mesh.outcomes(), mesh.calls) == ({Warmed.SKIPPED.value: 1}, [])


async def test_closing_ends_every_call() -> None:
    """Nothing is left behind, and who shares with nobody always asks."""
    mesh = Mesh()
    mesh.holding = True
    mesh.ask("hot")
    mesh.to_share(0.5)
    await settled()
    await mesh.warmup.close()
    assert (mesh.at_once, mesh.ended) == (0, 1)
    assert await OwnTurns().take("question:00", 1.0)


class Processor:
    """All stages with a warm-up, whose provider answers when it is let to."""

    def __init__(self) -> None:
        self.may_answer, self.status, self.calls = asyncio.Event(), 200, 0
        self.holder, cached, counted = SnapshotHolder(), caching(), Counted()
        self.warmup = CacheWarmUp(
            lambda: self.holder.current,
            self,
            cached.tiers,
            OwnTurns(),
            tally=cached.tally,
            purges=tuple,
            clock=time.monotonic,
            log=structlog.get_logger(),
        )
        sharing = replace(SHARING, flights=Flights(), caller=self, cache_warmup=self.warmup)
        steps = stages(cached, counted, NoQuota(), 0, sharing, audit=counted)
        self.pipeline = Pipeline(steps, self.holder, counted)

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[Reply]:
        """Wait, and answer."""
        self.calls += 1
        await self.may_answer.wait()
        yield Said(status=self.status)

    def to_share(self, share: float) -> None:
        """Put a snapshot in force whose Release has that share."""
        versions = (Version("old", "b", "m-old"), Version("new", "b", "m-new", 0.0))
        model = Model("m", versions, releases=(replace(RELEASE, share=share),))
        shared = PolicyLayer("p", settings={"cache.enabled": True, "coalesce.enabled": True})
        self.warmup.follow(self.holder.replace(snapshot(models={"m": model}, policies=(shared,))).snapshot)

    async def ask(self) -> Answer | Forward:
        """Ask as somebody who leaves before there is an answer."""
        made = self.pipeline.begin(head())
        await self.pipeline.request_head(made)
        decision = await self.pipeline.request_body(made, orjson.dumps(HELLO))
        self.pipeline.end(made)
        return decision


@pytest.mark.parametrize("status", [200, 500])
async def test_callers_may_join_a_call_that_is_made_in_advance(status: int) -> None:
    """With coalescing on they wait for its answer, and go on alone if there is none."""
    processor = Processor()
    processor.status = status
    processor.to_share(1e-9)
    for _ in range(2):
        assert isinstance(await processor.ask(), Forward)
    processor.to_share(1.0)
    await settled()
    asking = asyncio.create_task(processor.ask())
    await settled()
    assert (processor.calls, asking.done()) == (1, False)
    processor.may_answer.set()
    joined, later = await asking, await processor.ask()
    if status == 200:
        assert isinstance(joined, Answer)
        assert isinstance(later, Answer)
        assert (joined.reason, later.reason) == (Reason.SERVED_FROM_FLIGHT, Reason.SERVED_FROM_CACHE)
        assert dict(joined.headers)["x-outrigger-version"] == "new"
    else:
        assert isinstance(joined, Forward)
    assert processor.calls == 1
    await processor.pipeline.close()
