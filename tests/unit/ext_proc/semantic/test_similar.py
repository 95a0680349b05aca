"""The whole way: a question, its candidate, the provider's word, and what is served in the end."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
import structlog

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.contract.policies import CachePolicy, Policy, SemanticPolicy
from ext_proc.contract.snapshot import Purge
from ext_proc.exchange import Exchange
from ext_proc.question import question_key
from ext_proc.semantic.embedding import Embedder, EmbeddingFailed, Remembering, Vectors
from ext_proc.semantic.partitions import Partitions
from ext_proc.semantic.similar import LEARNED_AT_ONCE, SimilarQuestions
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally
from ext_proc.tiers import Tiers
from tests.unit.ext_proc.exchanges import exchange

SEMANTIC = SemanticPolicy(enabled=True, max_error_rate=0.2)
ENOUGH = 40
"""So many right ones are surely enough for the bound above."""


class Angles:
    """Makes vectors with the angle that a text has been given, 0 where it has none."""

    name = "angles"

    def __init__(self) -> None:
        self.of: dict[str, float] = {}
        self.broken = self.hangs = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one for each."""
        if self.broken:
            raise EmbeddingFailed("broken")
        if self.hangs:
            await asyncio.Event().wait()
        angles = [self.of.get(text, 0.0) for text in texts]
        return np.array([[np.cos(angle), np.sin(angle)] for angle in angles], np.float32)

    def of_questions(self, exchange: Exchange) -> Remembering:
        """Return itself, remembering nothing."""
        return Remembering(self, OrderedDict())

    def of_answers(self, exchange: Exchange) -> Embedder | None:
        """Only equal answers are the same."""
        return None

    def close(self) -> None:
        """Nothing is held."""


class World:
    """Similar questions in front of a provider. `luck` is what the draw returns."""

    def __init__(self) -> None:
        self.now = 100.0
        self.luck = 0.9
        self.draw_fails = False
        self.policy = Policy(cache=CachePolicy(enabled=True, semantic=SEMANTIC))
        self.store = MemoryStore(1000, 10_000_000, lambda: self.now)
        self.tiers = Tiers(self.store, {}, lambda: Clocks(self.now, self.now))
        self.purges: tuple[Purge, ...] = ()
        self.counts = CacheTally()
        self.embedders = Angles()
        self.partitions = Partitions()
        self.similar = SimilarQuestions(
            self.tiers,
            self.embedders,
            self.counts,
            clock=lambda: self.now,
            draw=lambda: 1 / self.luck if self.draw_fails else self.luck,
            log=structlog.get_logger(),
            purges=lambda: self.purges,
            partitions=self.partitions,
        )

    def exchange(self, asked: str, tenant: str = "t", **fields: Any) -> Exchange:
        """Return an exchange that has missed exactly. What follows `@` is the angle of its text."""
        text, _, angle = asked.partition(" @")
        self.embedders.of[text] = float(angle or 0)
        one = exchange(document={"model": "m", "messages": [{"role": "user", "content": text}], **fields})
        one.policy, one.tenant = self.policy, tenant
        one.model = one.loaded.snapshot.models["m"]
        one.version = one.model.versions[0]
        one.backend = one.loaded.snapshot.backends["b"]
        one.cache_key = question_key(one)
        return one

    async def ask(self, text: str, answer: str = "yes", **fields: Any) -> str | None:
        """Return what is served; where nothing is, the provider answers `answer`, and it is learned."""
        one = self.exchange(text, **fields)
        served = await self.similar.find(one)
        if served is not None:
            content: str = orjson.loads(served.body)["choices"][0]["message"]["content"]
            return content
        assert one.cache_key is not None
        stored = self.stored(answer)
        self.tiers.put(one.cache_key, stored, None, self.purges)
        self.similar.learn(one, one.cache_key, stored)
        await self.similar.settle()
        return None

    def stored(self, answer: str) -> StoredAnswer:
        """Return a provider's answer as it is kept."""
        body = orjson.dumps({"choices": [{"finish_reason": "stop", "message": {"content": answer}}]})
        return StoredAnswer(
            body, "application/json", "m", "v1", self.now, self.now + 60, fresh_until=self.now + 60
        )

    def forget_counts(self) -> None:
        """Count anew."""
        self.counts.semantic_explored = self.counts.semantic_vetoed = 0
        self.counts.semantic_would_serve = self.counts.semantic_would_be_wrong = 0

    async def teach(self, right: int = ENOUGH) -> None:
        """Let it see that similar questions have the same answer, each entry once."""
        self.luck = 0.0
        for number in range(right):
            await self.ask(f"about topic{number}x please @{number}")
            await self.ask(f"topic{number}x @{number + 0.001}")
        self.luck = 0.9
        self.forget_counts()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world where nothing is known."""
    made = World()
    yield made
    await made.similar.close()


async def test_at_first_everything_is_explored(world: World) -> None:
    """The provider answers, however alike the questions are."""
    assert await world.ask("what is this @0") is None
    assert await world.ask("what would this be @0.001") is None
    assert world.counts.semantic_explored == 1


async def test_what_has_shown_to_be_right_is_served(world: World) -> None:
    """With the answer of the candidate."""
    await world.teach()
    assert await world.ask("about thingy please @0.5", "of the thingy") is None
    assert await world.ask("thingy @0.501") == "of the thingy"
    assert world.counts.semantic_explored == 0


async def test_some_of_it_is_explored_all_the_same(world: World) -> None:
    """As the draw says."""
    await world.teach()
    await world.ask("about thingy please @0.5")
    world.luck = 0.01
    assert await world.ask("thingy @0.501") is None


async def test_what_is_less_alike_is_not(world: World) -> None:
    """Nothing was shown of it."""
    await world.teach()
    await world.ask("about thingy please @0.5")
    assert await world.ask("thingy @1.2") is None


async def test_wrong_ones_are_not_served(world: World) -> None:
    """When the provider answers otherwise, that entry is left alone there."""
    await world.teach()
    await world.ask("about thingy please @0.5", "one")
    world.luck = 0.0
    assert await world.ask("thingy @0.501", "other") is None
    world.luck = 0.9
    assert await world.ask("a thingy @0.4999", "other") is None


async def test_a_veto_keeps_questions_apart(world: World) -> None:
    """A number that differs is never explored, nor served."""
    await world.teach()
    await world.ask("about 5 thingies please @0.5")
    world.forget_counts()
    assert await world.ask("about 6 thingies please @0.5") is None
    assert world.counts.semantic_vetoed == 1


async def test_the_next_one_is_looked_at_behind_a_veto(world: World) -> None:
    """The nearest question of all may be another one."""
    await world.teach()
    await world.ask("about 6 thingies please @0.52", "six")
    await world.ask("about 5 thingies please @0.5", "five")
    assert await world.ask("6 thingies @0.501") == "six"


async def test_tenants_have_nothing_in_common(world: World) -> None:
    """Neither answers nor what was learned."""
    await world.teach()
    await world.ask("about thingy please @0.5", "of the thingy")
    assert await world.ask("thingy @0.501", tenant="other") is None
    assert await world.ask("thingy @0.501", temperature=0.1) is None


async def test_shadow_mode_serves_nothing_and_tells(world: World) -> None:
    """What it would have done, and when it would have been wrong."""
    await world.teach()
    semantic = replace(SEMANTIC, mode="shadow")
    world.policy = Policy(cache=replace(world.policy.cache, semantic=semantic))
    await world.ask("about thingy please @0.5", "one")
    world.forget_counts()
    assert await world.ask("thingy @0.501", "one") is None
    assert (world.counts.semantic_would_serve, world.counts.semantic_would_be_wrong) == (1, 0)
    assert await world.ask("a thingy @0.5005", "other") is None
    assert (world.counts.semantic_would_serve, world.counts.semantic_would_be_wrong) == (2, 1)


async def test_an_answer_that_is_gone_is_forgotten(world: World) -> None:
    """Its entry leaves, and the provider is asked."""
    await world.teach()
    await world.ask("about thingy please @0.5")
    size = len(world.partitions)
    world.now += 61
    assert await world.ask("thingy @0.501") is None
    assert len(world.partitions) == size  # one went, one came


async def test_a_purged_answer_is_not_served(world: World) -> None:
    """The tiers do not have it any more."""
    await world.teach()
    await world.ask("about thingy please @0.5", "of the thingy")
    world.purges = (Purge(at_s=world.now),)
    assert await world.ask("thingy @0.501") is None


async def test_a_stale_answer_is_not_served(world: World) -> None:
    """It waits for its own question."""
    await world.teach()
    one = world.exchange("about thingy please @0.5")
    assert one.cache_key is not None
    stale = replace(world.stored("old"), fresh_until=world.now - 1)
    world.tiers.put(one.cache_key, stale, None)
    world.similar.learn(one, one.cache_key, stale)
    await world.similar.settle()
    assert await world.ask("thingy @0.501") is None


async def test_the_question_itself_is_no_candidate(world: World) -> None:
    """It missed exactly: its answer is gone."""
    await world.teach()
    await world.ask("about thingy please @0.5")
    assert await world.ask("about thingy please @0.5") is None


@pytest.mark.parametrize("trouble", ["broken", "hangs"])
async def test_without_vectors_it_is_a_miss(world: World, trouble: str) -> None:
    """In a moment, and again all is well when they are back."""
    await world.teach()
    await world.ask("about thingy please @0.5", "of the thingy")
    setattr(world.embedders, trouble, True)
    began = asyncio.get_running_loop().time()
    assert await world.similar.find(world.exchange("thingy @0.501")) is None
    assert asyncio.get_running_loop().time() - began < 1
    setattr(world.embedders, trouble, False)
    assert await world.ask("thingy @0.501") == "of the thingy"


async def test_what_fails_in_it_is_a_miss_and_is_told(world: World) -> None:
    """A request never fails for it."""
    await world.teach()
    await world.ask("about thingy please @0.5")
    world.luck, world.draw_fails = 0.0, True
    with structlog.testing.capture_logs() as told:
        assert await world.similar.find(world.exchange("thingy @0.501")) is None
    assert [line["error"] for line in told] == ["ZeroDivisionError"]
    assert "thingy" not in str(told)


async def test_an_answer_that_is_no_text_is_not_learned(world: World) -> None:
    """A tool call answers one question only."""
    one = world.exchange("what is this @0")
    call = {"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [{"id": "1"}]}}
    stored = replace(world.stored(""), body=orjson.dumps({"choices": [call]}))
    assert one.cache_key is not None
    world.similar.learn(one, one.cache_key, stored)
    await world.similar.settle()
    assert len(world.partitions) == 0


async def test_a_request_that_asks_no_question_is_left_alone(world: World) -> None:
    """Nothing is found, nothing is learned."""
    assert await world.ask("what is this @0", n=2) is None
    assert len(world.partitions) == 0


async def test_not_everything_is_learned_at_once(world: World) -> None:
    """What comes beyond that is asked another time."""
    for number in range(LEARNED_AT_ONCE + 5):
        one = world.exchange(f"about topic{number}x @{number}")
        assert one.cache_key is not None
        world.similar.learn(one, one.cache_key, world.stored("yes"))
    await world.similar.settle()
    assert len(world.partitions) == LEARNED_AT_ONCE
