"""Random histories of exchanges on the real pipeline, in virtual time: `python -m tests.soak.histories N`.

In each, callers ask at random moments and some leave; the provider answers, refuses, breaks off or is slow.
When all is over, every caller who stayed has one right answer, what was reserved is settled or given back
once, and nobody holds a flight, a batch, a place or a snapshot.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from control_plane.resources.compile import compile_snapshot
from control_plane.resources.documents import check_documents
from control_plane.resources.loading import read_text
from ext_proc.answers import Clocks
from ext_proc.contract.snapshot import Snapshot
from ext_proc.exchange import RequestHead
from ext_proc.flights import Flights
from ext_proc.pipeline import Pipeline, Stage
from ext_proc.providers.cooling import Cooling
from ext_proc.providers.pacing import Spread
from ext_proc.providers.watch import Nobody, Watch
from ext_proc.snapshots import SnapshotHolder
from ext_proc.stages.batch import BatchStage
from ext_proc.stages.hold import Hold
from ext_proc.stores.memory import MemoryStore
from ext_proc.stores.memory_sessions import MemorySessions
from ext_proc.tally import CacheTally
from ext_proc.tiers import Tiers
from ext_proc.wiring.caching import Caching
from ext_proc.wiring.providers import Providers
from ext_proc.wiring.stages import Sharing, stages
from tests.harness.virtual_time import run_virtually
from tests.soak.questions import CHAT, EMBEDDINGS, Got, Kind, Outcome, Question, judge
from tests.soak.virtual_mesh import JUNK, Calls, Provider, VirtualEnvoy, WatchedBook, WatchedQuotas

OVER_S: Final = 4000.0
AFTERMATH_S: Final = 400.0
A_LOOP: Final = 50
TELL_EVERY: Final = 10_000
POLICY_CHANGES: Final = 0.05
MODELS: Final = (
    "plain", "limited", "embed", "array", "session", "cached", "crowd", "narrow", "paced", "backed",
)  # fmt: skip
TIERS: Final = ("soaked", "counting")
_POLICY: Final = """\
kind: Backend
metadata: {name: sim}
spec: {url: "http://127.0.0.1:1/v1", default: true}
---
kind: Backend
metadata: {name: narrow}
spec: {url: "http://127.0.0.1:2/v1", quota: {concurrency: 2}}
---
kind: Backend
metadata: {name: paced}
spec: {url: "http://127.0.0.1:3/v1", quota: {requestsPerMinute: 6, tokensPerMinute: 400}}
---
kind: Tier
metadata: {name: soaked}
spec:
  match: {header: {x-outrigger-tier: soaked}}
  limits: {requestsPerMinute: 8, tokensPerMinute: 300, concurrency: 3}
---
kind: Tier
metadata: {name: counting}
spec:
  match: {header: {x-outrigger-tier: counting}}
  limits: {requestsPerMinute: 5, countCached: true}
---
kind: Policy
metadata: {name: everyone}
spec: {target: {models: ["*"]}, hold: {max: 5s}, retry: {base: 500ms, max: 2s}}
---
kind: Policy
metadata: {name: embed}
spec:
  target: {models: [embed]}
  batch: {mode: native, sendBelow: 2, maxWait: 50ms, maxSize: 4, splitAbove: 4}
---
kind: Policy
metadata: {name: array}
spec: {target: {models: [array]}, batch: {mode: array, sendBelow: 1, maxWait: 50ms, maxSize: 3}}
---
kind: Policy
metadata: {name: session}
spec: {target: {models: [session]}, session: {enabled: true, turns: 3}}
---
kind: Policy
metadata: {name: cached}
spec:
  target: {models: [cached]}
  cache: {enabled: true, ttl: 2s, staleWhileRevalidate: 5s, staleIfError: 1m}
  coalesce: {enabled: true}
---
kind: Policy
metadata: {name: crowd}
spec: {target: {models: [crowd]}, coalesce: {enabled: true, maxFollowers: 3}}
"""


def policy(revision: int = 1) -> Snapshot:
    """Return the policy of all histories; of another revision, one that nobody else has."""
    backends = {"narrow": "narrow", "paced": "paced"}
    models = [
        f"kind: Model\nmetadata: {{name: {name}}}\n"
        f"spec: {{versions: [{{name: v1, backend: {backends.get(name, 'sim')}}}], "
        f"fallbacks: {'[narrow, paced]' if name == 'backed' else '[]'}}}\n"
        for name in MODELS
    ]
    text = "---\n".join((_POLICY, *models))
    return compile_snapshot(check_documents(read_text(text.encode(), "histories")), "default", revision)


@dataclass(frozen=True, slots=True)
class Asked:
    """One caller: when it asks what, and when it leaves if it does."""

    at_s: float
    question: Question
    leaves_after_s: float | None = None


@dataclass(slots=True)
class Verdict:
    """What is amiss after a history, and what became of its callers."""

    amiss: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


class _Silent:
    """Counts nothing."""

    def decided(self, stage: str, reason: str) -> None:
        """Forget it."""

    def masked(self, entity: str, items: int) -> None:
        """Forget it."""

    def learn(self, *_: Any, **__: Any) -> None:
        """Forget it."""

    def observe(self, *_: Any, **__: Any) -> None:
        """Forget it."""


class _Log:
    """Keeps errors, of which there must be none."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def error(self, event: str, **more: Any) -> None:
        """Keep it."""
        self.errors.append(f"{event}: {more.get('error')}")

    def info(self, event: str, **more: Any) -> None:
        """Forget it."""

    debug = warning = info


def drawn(chance: random.Random) -> list[Asked]:
    """Return who asks what in one history: few questions, so that many are alike."""
    model = chance.choice((*MODELS, None))
    asked = []
    for number in range(chance.randint(1, 9)):
        name = model or chance.choice(MODELS)
        question = _question(name, number, chance)
        leaves = chance.choice((0.0, 0.005, 0.1, 0.6, 3.0)) if chance.random() < 0.25 else None
        asked.append(Asked(chance.choice((0.0, 0.0, 0.01, 0.2, 1.0, 3.0)), question, leaves))
    return sorted(asked, key=lambda one: one.at_s)


def _question(model: str, number: int, chance: random.Random) -> Question:
    kind = Kind(model) if model in set(Kind) else Kind.CHAT
    alike = model in ("cached", "crowd")
    name = f"q-{model}-{chance.randrange(2) if alike else number}"
    if model == "embed":
        texts = tuple(f"{name} part {place}" for place in range(chance.choice((1, 1, 2, 6))))
        return Question(name, kind, EMBEDDINGS, {"model": model, "input": list(texts)}, texts=texts)
    document: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": name}]}
    streamed = model != "array" and chance.random() < 0.5
    if streamed:
        document["stream"] = True
        if chance.random() < 0.3:
            document["stream_options"] = {"include_usage": True}
    headers = {}
    if model == "limited" or chance.random() < 0.3:
        headers["x-outrigger-tier"] = chance.choice(TIERS)
    if model == "session":
        headers["x-outrigger-session"] = f"s{chance.randrange(2)}"
    return Question(name, kind, CHAT, document, headers, streamed)


class History:
    """One history, on the running loop."""

    def __init__(self, snapshot: Snapshot, chance: random.Random) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._chance = chance
        self._holder = SnapshotHolder()
        self._holder.replace(snapshot)
        self._other = replace(snapshot, version="r2-other", revision=2)
        self._book, self._quotas = WatchedBook(loop.time), WatchedQuotas(loop.time)
        self._flights = Flights()
        self._log = _Log()
        self.provider = Provider(chance, chance.choice((0.0, 0.2, 0.6)))
        self._calls = Calls(self.provider)
        watch = Watch(Cooling(chance.random), Spread(), Nobody(), loop.time, loop.time)

        def clocks() -> Clocks:
            return Clocks(1_700_000_000.0 + loop.time(), loop.time())

        tiers = Tiers(MemoryStore(20, 1 << 20, loop.time), {}, clocks)
        sharing = Sharing(
            self._flights,
            self._calls,
            "origin",
            self._log,  # type: ignore[arg-type]
            book=self._book,
            sessions=MemorySessions(loop.time),
            providers=Providers(watch, self._quotas),
            clock=loop.time,
            clocks=clocks,
        )
        silent = _Silent()
        self._stages: Sequence[Stage] = stages(
            Caching(tiers, CacheTally(), tuple),
            silent,
            silent,
            0,
            sharing,
            audit=silent,
        )
        self._pipeline = Pipeline(self._stages, self._holder, silent)
        self._envoy = VirtualEnvoy(self._pipeline, self._flights, self.provider, self._calls)
        self._sessions: dict[str, list[str]] = {}

    async def run(self, asked: Sequence[Asked]) -> Verdict:
        """Let it happen, and look at what is left."""
        verdict = Verdict()
        begun = self._loop.time()
        tasks = []
        for one in asked:
            await asyncio.sleep(max(0.0, begun + one.at_s - self._loop.time()))
            task = self._loop.create_task(self._caller(one, verdict))
            tasks.append(task)
            if one.leaves_after_s is not None:
                self._loop.call_later(one.leaves_after_s, task.cancel)
            if self._chance.random() < POLICY_CHANGES:
                self._holder.replace(self._other)
        _, parked = await asyncio.wait(tasks, timeout=OVER_S)
        if parked:
            verdict.amiss.append(f"{len(parked)} wait for ever")
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                verdict.amiss.append(f"{task.exception()!r}")
        # What goes on in nobody's name comes to its end.
        await asyncio.sleep(AFTERMATH_S)
        verdict.amiss += [*self._left(), *self._log.errors]
        for task in parked:
            task.cancel()
        await self._pipeline.close()
        await self._flights.close()
        return verdict

    async def _caller(self, asked: Asked, verdict: Verdict) -> None:
        question = asked.question
        session = question.headers.get("x-outrigger-session", "")
        earlier = self._sessions.setdefault(session, [])
        before = tuple(earlier)
        earlier.append(question.name)
        headers = {"content-type": "application/json", **question.headers}
        head = RequestHead("POST", question.target, "", headers)
        got: Got | None = await self._envoy.serve(head, orjson.dumps(dict(question.document)))
        outcome, why = judge(question, got, before)
        if got is not None and got.body == JUNK:
            outcome = Outcome.REFUSED  # what the provider says reaches whoever asked for it
        verdict.outcomes.append(outcome)
        if outcome in (Outcome.WRONG, Outcome.DISORDERED):
            verdict.amiss.append(f"{question.name}: {outcome} {why}")

    def _left(self) -> list[str]:
        """Return what is held though nobody is there."""
        batch = next(one for one in self._stages if isinstance(one, BatchStage))
        hold = next(one for one in self._stages if isinstance(one, Hold))
        left = {
            "flights are open": len(self._flights),
            "flights are known by their number": len(self._flights._by_number),
            "calls of flights go on": len(self._flights._calls),
            "queues of batches are there": len(batch._batches),
            "calls of batches go on": len(batch._batches._calls),
            "calls are held": hold._held,
            "lines are there": len(hold._lines._lines),
            "calls count as under way": sum(hold._under_way.values()),
            "places of accounts are held": self._book.held(),
            "places of Backends are held": sum(one.held for one in self._quotas._standings.values()),
            "reservations hold their place": sum(
                one.holds for one in self._book.made if any(claim.slot for claim in one.claims)
            ),
            "drafts hold their place": sum(one.holds for one in self._quotas.drawn),
            "calls of the mesh's own go on": self._calls.open,
            "exchanges hold a snapshot": sum(one.holds_snapshot for one in self._envoy.begun),
        }
        amiss = [f"{count} {what}" for what, count in left.items() if count]
        for exchange in self._envoy.begun:
            reserved = exchange.metered.reserved if exchange.metered is not None else None
            # What was left while it came is charged as it was estimated.
            if reserved is not None and reserved.open and exchange.response is None:
                amiss.append(f"a reservation of {exchange.model_name} is neither settled nor given back")
        return amiss


def try_one(snapshot: Snapshot, number: int) -> Verdict:
    """Try the history of that number, by itself."""
    return run_virtually(_one(snapshot, number))


async def _one(snapshot: Snapshot, number: int) -> Verdict:
    chance = random.Random(number)
    return await History(snapshot, chance).run(drawn(chance))


async def _several(snapshot: Snapshot, numbers: range) -> dict[int, Verdict]:
    return {number: await _one(snapshot, number) for number in numbers}


def try_several(numbers: range) -> dict[int, Verdict]:
    """Try the histories of these numbers one after the other."""
    return run_virtually(_several(policy(), numbers))


def main() -> int:
    """Try so many histories; return 1 when something is amiss in any."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.histories", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    parser.add_argument("--from", dest="first", type=int, default=0, help="Number of the first.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="At the same time.")
    options = parser.parse_args()
    began, end = time.monotonic(), options.first + options.count
    starts = range(options.first, end, A_LOOP)
    failed: dict[int, list[str]] = {}
    outcomes: Counter[Outcome] = Counter()
    with ProcessPoolExecutor(options.jobs) as running:
        for verdicts in running.map(try_several, [range(one, min(one + A_LOOP, end)) for one in starts]):
            for number, verdict in verdicts.items():
                outcomes.update(verdict.outcomes)
                if verdict.amiss:
                    failed[number] = verdict.amiss
                if number % TELL_EVERY == TELL_EVERY - 1:
                    print(f"{number + 1 - options.first:,} tried, {len(failed)} amiss", flush=True)
    for number, amiss in list(failed.items())[:20]:
        print(f"history {number}: {'; '.join(amiss)}")
    print(
        f"{options.count:,} histories in {time.monotonic() - began:.0f} s, {len(failed)} of them amiss; "
        f"answers: {', '.join(f'{count:,} {outcome}' for outcome, count in outcomes.most_common())}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
