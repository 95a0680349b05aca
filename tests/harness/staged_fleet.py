"""A control plane with a mesh that is only played: thousands of sidecars that follow, count and keep answers.

Everything of the control plane is real (registry on SQLite, fleet, API); its sidecars are connections inside
of the process, so that a page can be looked at with two thousand of them.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, TypeVar

from control_plane.auth.roles import Role
from control_plane.push.policy import Policy
from control_plane.push.sidecars import Identity, Sidecar
from control_plane.push.views import EnvoyState, TierStatistics, VersionStatistics
from control_plane.registry.values import Head
from control_plane.resources.compile import compile_snapshot
from ext_proc.contract import push_pb2
from ext_proc.contract.cache import CacheAnswer, CacheEntry, CacheStatistics
from ext_proc.contract.cache import TierStatistics as CacheTier
from ext_proc.contract.cache_wire import answer_message
from ext_proc.contract.uses import Uses
from tests.contract.control_plane.api.served import Served, serve

T = TypeVar("T")
START_S: Final = 60
WORKLOADS: Final = ("shop", "search", "support", "batch")


@dataclass(slots=True)
class Play:
    """One sidecar that is played."""

    sidecar: Sidecar
    refuses: bool
    keeps: tuple[CacheEntry, ...] = ()


class StagedFleet:
    """A running control plane and its sidecars; each method may be called from any thread."""

    def __init__(self, served: Served, loop: asyncio.AbstractEventLoop) -> None:
        self._served = served
        self._loop = loop
        self._plays: list[Play] = []
        self._random = random.Random(7)
        self._models: list[tuple[str, str]] = []
        self._sizes: dict[tuple[str, str], float] = {}
        served.registry.subscribe(lambda head: served.fleet.publish(_policy(head)))

    @property
    def url(self) -> str:
        """Where the API is."""
        return self._served.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` comes to on the control plane's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S)

    def token(self, role: Role, *scopes: str) -> str:
        """Return a new token."""
        return self.run(self._served.token(role, *scopes))

    def apply(self, *documents: dict[str, Any]) -> None:
        """Apply documents."""

        async def apply() -> None:
            async with self._served.client() as client:
                answer = await client.post("/api/v1/apply", json=list(documents))
                assert answer.status_code == 200, answer.text

        self.run(apply())

    def connect(self, count: int, *, refusing: int = 0) -> None:
        """Connect `count` sidecars more; the first `refusing` but one refuse what they are pushed first."""

        async def connect() -> None:
            for _ in range(count):
                number = len(self._plays)
                workload = WORKLOADS[number % len(WORKLOADS)]
                identity = Identity(
                    f"{workload}-{number:04}",
                    workload,
                    build="0.1.0",
                    labels={"zone": "abc"[number % 3]},
                    answers=number == 0,
                )
                self._connect(identity, refuses=0 < number <= refusing)

        self.run(connect())

    def _connect(self, identity: Identity, *, refuses: bool) -> None:
        fleet = self._served.fleet
        play: list[Play] = []

        def wake() -> None:
            self._loop.call_soon(self._follow, play[0])

        sidecar = fleet.connect(identity, wake)
        play.append(Play(sidecar, refuses, _kept() if identity.answers else ()))
        self._plays.append(play[0])
        envoy = EnvoyState.WARMING if refuses else EnvoyState.LIVE
        fleet.told(sidecar, replace(sidecar.told, epoch="e", envoy=envoy, envoy_version="1.40.0"))
        fleet.told(sidecar, replace(sidecar.told, cache=CacheStatistics(misses=1)))
        self._follow(play[0])

    def _follow(self, play: Play) -> None:
        fleet, sidecar = self._served.fleet, play.sidecar
        while sidecar.connected and (message := fleet.next_message(sidecar)) is not None:
            told = push_pb2.Snapshot.FromString(message)
            if told.HasField("question"):
                question = told.question
                found = [item for item in play.keeps if question.model in ("", item.model)]
                answer = CacheAnswer(tuple(found) if not question.bodies else tuple(found[:1]))
                self._served.questions.answered(sidecar.identity.sidecar, answer_message(answer, question.id))
            elif play.refuses:
                # Once: a revision that comes later would be halted by it.
                play.refuses = False
                fleet.refuse(sidecar, told.version, "listener 'egress': unknown cluster in weighted route")
            else:
                fleet.acknowledge(sidecar, told.version)

    def leave(self, count: int) -> None:
        """Let the last `count` sidecars go."""

        async def leave() -> None:
            for play in self._plays[-count:]:
                self._served.fleet.disconnect(play.sidecar)

        self.run(leave())

    def use(self, uses: Uses) -> None:
        """Have the first sidecar tell that these accounts of limits have used so much."""

        async def tell() -> None:
            sidecar = self._plays[0].sidecar
            self._served.fleet.told(sidecar, replace(sidecar.told, uses=uses))

        self.run(tell())

    def mirror(self, *documents: dict[str, Any]) -> None:
        """Have these documents come from Kubernetes."""

        async def mirror() -> None:
            async with self._served.client() as client:
                answer = await client.put("/api/v1/mirrors/kubernetes", json={"documents": list(documents)})
                assert answer.status_code == 200, answer.text

        self.run(mirror())

    def serve_models(self, names: list[tuple[str, str]]) -> None:
        """Have the sidecars call these Models' versions from now on."""
        self._models = names
        self._sizes = {name: 1 / (place + 1) ** 0.7 for place, name in enumerate(names)}

    def tick(self, *, busy: int = 20, calls: int = 40) -> float:
        """Have `busy` sidecars tell of some calls; return how long the control plane took, in seconds."""

        async def tick() -> float:
            chosen = self._random.sample(self._plays, min(busy, len(self._plays)))
            told = [
                (play.sidecar, self._more(play.sidecar, calls)) for play in chosen if play.sidecar.connected
            ]
            began = time.thread_time()
            for sidecar, (versions, tiers, cache) in told:
                self._served.fleet.told(
                    sidecar, replace(sidecar.told, versions=versions, tiers=tiers, cache=cache)
                )
            return time.thread_time() - began

        return self.run(tick())

    def _more(
        self, sidecar: Sidecar, calls: int
    ) -> tuple[tuple[VersionStatistics, ...], tuple[TierStatistics, ...], CacheStatistics]:
        chance = self._random
        known = {(item.model, item.version): item for item in sidecar.told.versions}
        versions = []
        for name in self._models:
            before = known.get(name) or VersionStatistics(*name)
            count = int(calls * self._sizes[name] * chance.uniform(0.6, 1.4) + chance.random())
            versions.append(_grown(before, count, chance) if count else before)
        tiers = {item.tier: item for item in sidecar.told.tiers}
        grown = []
        for tier, part in (("", 0.2), ("free", 0.5), ("gold", 1.0)):
            was, more = tiers.get(tier) or TierStatistics(tier), int(calls * part)
            limited = int(more * 0.05) if tier == "free" else 0
            grown.append(
                TierStatistics(
                    tier, was.requests + more, was.limited + limited, was.errors, was.tokens + more * 420
                )
            )
        cache, hits = sidecar.told.cache, int(calls * 0.6)
        return tuple(versions), tuple(grown), _grown_cache(cache, hits, int(calls * 0.9))


def _grown(before: VersionStatistics, count: int, chance: random.Random) -> VersionStatistics:
    slow = 80 if before.model.startswith("gpt-4o") else 70
    duration, first_byte = dict(before.duration), dict(before.first_byte)
    for _ in range(min(count, 40)):
        bucket = slow - 10 + int(abs(chance.gauss(0, 6)))
        duration[bucket] = duration.get(bucket, 0) + 1
        early = bucket - 14
        first_byte[early] = first_byte.get(early, 0) + 1
    wrong = sum(
        chance.random() < (0.04 if before.version == "candidate" else 0.006) for _ in range(min(count, 60))
    )
    return replace(
        before,
        calls=before.calls + count,
        errors=before.errors + wrong,
        throttled=before.throttled + (chance.random() < 0.1),
        input_tokens=before.input_tokens + count * 180,
        output_tokens=before.output_tokens + count * 240,
        duration=duration,
        first_byte=first_byte,
    )


def _grown_cache(cache: CacheStatistics, hits: int, misses: int) -> CacheStatistics:
    memory = next((tier for tier in cache.tiers if tier.tier == "memory"), CacheTier("memory"))
    redis = next((tier for tier in cache.tiers if tier.tier == "redis"), CacheTier("redis"))
    near = int(hits * 0.8)
    ages = cache.hit_ages or (0,) * 8
    return replace(
        cache,
        hits=cache.hits + hits,
        misses=cache.misses + misses,
        tiers=(
            CacheTier("memory", memory.hits + near, memory.misses + misses, 812, 3_400_000),
            CacheTier("redis", redis.hits + hits - near, redis.misses + misses, 14_200, 61_000_000),
        ),
        saved_prompt_tokens=cache.saved_prompt_tokens + hits * 160,
        saved_completion_tokens=cache.saved_completion_tokens + hits * 230,
        saved_cost_micros=cache.saved_cost_micros + hits * 162,
        saved_ms=cache.saved_ms + hits * 900,
        hit_ages=tuple(age + int(hits * part) for age, part in zip(ages, _AGES, strict=True)),
    )


_AGES: Final = (0.3, 0.22, 0.17, 0.12, 0.08, 0.06, 0.04, 0.02)


def _kept() -> tuple[CacheEntry, ...]:
    models = (("gpt-4o-mini", "stable"), ("gpt-4o", "stable"), ("text-embedding-3-small", "stable"))
    return tuple(
        CacheEntry(
            f"{number * 7919 % 65536:04x}" + "0" * 60,
            "memory",
            *models[number % 3],
            f"tenant:team-{'abc'[number % 3]}",
            12.0 * math.exp(number / 6),
            86_400 - number * 900.0,
            fresh_s=-1.0 if number == 5 else 600.0,
            size_bytes=600 + number * 97,
            hits=40 - number,
            content_type="application/json",
            body=b'{"object": "chat.completion", "choices": []}' if number == 0 else None,
        )
        for number in sorted(range(40), key=lambda number: number * 7919 % 65536)
    )


def _policy(head: Head) -> Policy:
    return Policy(
        head.revision,
        lambda workload: compile_snapshot(head.documents, workload, head.revision),
        head.secrets,
    )


@contextmanager
def staged_fleet(folder: Path) -> Iterator[StagedFleet]:
    """Run one, on a loop of its own."""
    started, found = Event(), list[tuple[StagedFleet, asyncio.Event]]()

    async def run() -> None:
        async with serve(folder, burst=10_000) as served:
            ending = asyncio.Event()
            found.append((StagedFleet(served, asyncio.get_running_loop()), ending))
            started.set()
            await ending.wait()

    thread = Thread(target=lambda: asyncio.run(run()), name="staged fleet")
    thread.start()
    assert started.wait(START_S)
    fleet, ending = found[0]
    try:
        yield fleet
    finally:
        fleet._loop.call_soon_threadsafe(ending.set)
        thread.join(30)
