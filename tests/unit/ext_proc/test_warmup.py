"""Waking providers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
import structlog

from ext_proc import warmup
from ext_proc.continuation import CallFailed, Reply
from ext_proc.contract.snapshot import Backend, Model, Quota, Version, Warmup
from ext_proc.exchange import Answer, Exchange, Forward, RequestHead
from ext_proc.refusals import no_backend
from ext_proc.snapshots import Loaded
from ext_proc.warmup import AT_ONCE, OwnTurns, WarmUp
from tests.unit.ext_proc.exchanges import snapshot
from tests.unit.ext_proc.test_continuation import Provider as Said

IDLE_S = 600.0


class Provider:
    """Answers with these statuses, the last one for ever, when it is let to."""

    def __init__(self, *statuses: int, unreachable: int = 0) -> None:
        self.statuses = list(statuses or (200,))
        self.unreachable = unreachable
        self.bodies: list[dict[str, Any]] = []
        self.at_once = self.most = 0

    @asynccontextmanager
    async def call(self, head: RequestHead, forward: Forward, body: bytes) -> AsyncIterator[Reply]:
        """Answer after a moment."""
        if self.unreachable:
            self.unreachable -= 1
            raise CallFailed("nobody is there")
        self.bodies.append(orjson.loads(body))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        yield Said(status=status)
        self.at_once -= 1


class Mesh:
    """A warm-up with all around it."""

    def __init__(self, provider: Provider, backend: Backend, *models: Model) -> None:
        self.now = 1_000.0
        self.provider = provider
        known = {model.name: model for model in models or (snapshot().models["m"],)}
        self.loaded = Loaded(snapshot(backends={"b": backend}, models=known))
        self.decision: Answer | Forward = Forward("route")
        self.ended: list[Exchange] = []
        self.counted: Counter[str] = Counter()
        self.warmup = WarmUp(
            lambda: self.loaded, provider, OwnTurns(), lambda: self.now, structlog.get_logger()
        )
        self.warmup.go_by(self.decide, self.ended.append)
        self.warmup.counted_by(self)

    async def decide(self, exchange: Exchange) -> Answer | Forward | None:
        """Say where it goes."""
        return self.decision

    def warmed(self, outcome: str) -> None:
        """Count it."""
        self.counted[outcome] += 1

    def started_cold(self) -> None:
        """Count it."""
        self.counted["cold"] += 1

    async def round(self) -> None:
        """Look, and wait for what begins."""
        self.warmup.look()
        await asyncio.gather(*self.warmup._rounds.values())


def backend(requests: int = 20, **more: Any) -> Backend:
    """Return one that is to be kept warm."""
    return Backend("b", "http://h/v1", warmup=Warmup(requests, "Hi", int(IDLE_S * 1000)), **more)


async def test_small_calls_are_made_at_the_start_and_after_a_pause() -> None:
    """So many, some at a time; not again while anybody calls."""
    mesh = Mesh(Provider(), backend())
    await mesh.round()
    assert len(mesh.provider.bodies) == 20
    assert mesh.provider.bodies[0] == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 1,
    }
    assert 1 < mesh.provider.most <= AT_ONCE
    assert mesh.counted == {"ok": 20}
    assert len(mesh.ended) == 20
    mesh.now += IDLE_S - 1
    await mesh.round()
    warmup = mesh.loaded.snapshot.backends["b"].warmup
    assert warmup is not None
    assert not mesh.warmup.sent(backend(), warmup)
    mesh.now += IDLE_S - 1
    await mesh.round()
    assert len(mesh.provider.bodies) == 20
    mesh.now += 1
    await mesh.round()
    assert len(mesh.provider.bodies) == 40


async def test_without_a_warmup_nothing_is_called() -> None:
    """It is off by default; before any policy there is nothing to look at."""
    mesh = Mesh(Provider(), Backend("b", "http://h/v1"))
    await mesh.round()
    assert not mesh.provider.bodies
    mesh.warmup._current = lambda: None
    mesh.warmup.look()


async def test_all_versions_of_the_backend_are_woken_in_turn() -> None:
    """But those that do not chat, have no weight or are elsewhere."""
    model = Model("m", (Version("a", "b", "one"), Version("c", "b", "two"), Version("d", "b", "off", 0.0)))
    others = Model("e", (Version("a", "b", "text-embedding"), Version("x", "other", "three")))
    mesh = Mesh(Provider(), backend(4), model, others)
    await mesh.round()
    assert Counter(body["model"] for body in mesh.provider.bodies) == {"one": 2, "two": 2}


async def test_the_first_refusal_ends_the_round() -> None:
    """A provider that says no is not asked on; nor one whose quota has no room."""
    mesh = Mesh(Provider(200, 200, 429), backend(200))
    await mesh.round()
    assert len(mesh.provider.bodies) <= 3 + AT_ONCE
    assert mesh.counted["ok"] == 2
    full = Mesh(Provider(), backend())
    full.decision = no_backend()
    await full.round()
    assert (full.counted, full.provider.bodies) == ({"refused": 1}, [])


async def test_no_more_at_once_than_the_quota_allows() -> None:
    """Its concurrency."""
    mesh = Mesh(Provider(), replace(backend(), quota=Quota(concurrency=2)))
    await mesh.round()
    assert mesh.provider.most == 2


async def test_at_the_start_envoy_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later on a call that fails is the round's last."""
    monkeypatch.setattr(warmup, "UNREACHED_AGAIN_S", 0.0)
    mesh = Mesh(Provider(unreachable=3), backend(5))
    await mesh.round()
    assert mesh.counted == {"failed": 3, "ok": 5}
    mesh.now += IDLE_S
    mesh.provider.unreachable = 1
    await mesh.round()
    assert mesh.counted == {"failed": 4, "ok": 5}


async def test_a_cold_start_is_counted() -> None:
    """When somebody's first call took far longer than usual."""
    mesh, cold = Mesh(Provider(), backend()), backend()
    for _ in range(6):
        mesh.warmup.answered(cold, 0.1, first=False)
    mesh.warmup.answered(cold, 2.0, first=True)
    assert mesh.counted == {"cold": 1}


async def test_closing_ends_what_goes_on() -> None:
    """Nothing is left behind."""
    mesh = Mesh(Provider(), backend(10**6))
    mesh.warmup.begin()
    await asyncio.sleep(0.01)
    await mesh.warmup.close()
    assert not mesh.warmup._rounds
