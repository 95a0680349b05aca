"""The third article: lists of conversations, to a provider 12 ms away with a quota."""

from __future__ import annotations

from tests.reproduce.clients import Calls, Load, asynchronous, synchronous, together
from tests.reproduce.lab import Conditions, Ports
from tests.reproduce.measured import Figures, Measure, Promise, Row, Run, Table
from tests.reproduce.questions import Shape, numbered
from tests.reproduce.trials import Article, Effort, Trial, measured

BATCH = 20
CALLS_AT_ONCE = 50
CALLERS = 500
RAMP_S = 1.5

NEAR = Conditions(
    "near",
    rtt_ms=12,
    handshake_ms=12,
    decode_ms=63,
    output_tokens=16,
    batch_slowdown=0.003,
    most_conversations=50,
    requests_per_minute=3500,
    tokens_per_minute=90_000,
)

_BACKEND = """\
kind: Backend
metadata: {name: near}
spec:
  url: "http://127.0.0.1:{near}/v1"
  quota: {concurrency: 50}
"""
_MODEL = """\
kind: Model
metadata: {name: LIST}
spec: {versions: [{name: v1, backend: near}]}
---
kind: Policy
metadata: {name: LIST}
spec:
  target: {models: [LIST]}
  cache: {enabled: true}
  coalesce: {enabled: true}
  batch: {mode: array, maxSize: 50, maxWait: 200ms, sendBelow: 5, splitAbove: 20}
"""

SYNC = "naive synchronous client, one conversation a call"
ASYNC = "asynchronous client, one conversation a call"
SYNC_LISTS = "lists of 20, synchronous"
ASYNC_LISTS = "lists of 20, asynchronous"
EVERYTHING = "through the sidecar, everything on"


def _shape(model: str) -> Shape:
    return Shape(model, NEAR.settings(), 0.7, max_tokens=256)


def _one(model: str) -> Calls:
    shape = _shape(model)
    return lambda number: shape.one(numbered(number))


def _lists(model: str) -> Calls:
    shape = _shape(model)
    return lambda number: shape.many([numbered(number * BATCH + place) for place in range(BATCH)])


def _with_p99(run: Run) -> Figures:
    return (run.per_second, run.mean_s, run.quantile_s(0.99))


def _with_p95(run: Run) -> Figures:
    return (run.per_second, run.mean_s, run.quantile_s(0.95))


async def _lists_of_2000(ports: Ports, effort: Effort) -> list[Row]:
    port, rounds = ports.providers["near"], effort.rounds
    runs = await together(
        synchronous(port, _one("two-sync"), Load(20, 20 * rounds)),
        asynchronous(port, _one("two-async"), Load(44, 44 * rounds), kept=False),
        synchronous(port, _lists("two-lists"), Load(5, 5 * rounds)),
        asynchronous(port, _lists("two-both"), Load(8, 8 * rounds), kept=False),
    )
    names = (SYNC, ASYNC, SYNC_LISTS, ASYNC_LISTS)
    theirs = ((9, 2.2, 5.1), (21, 2.1, 4.7), (38, 2.45, 3.2), (65, 2.3, 2.9))
    return [measured(name, told, run, _with_p99) for name, told, run in zip(names, theirs, runs, strict=True)]


async def _2000_through(ports: Ports, effort: Effort) -> list[Row]:
    run = await asynchronous(ports.sidecar, _one("two-through"), Load(CALLERS, effort.chats, ramp_s=RAMP_S))
    return [measured(EVERYTHING, (), run, _with_p99, sidecar=True)]


async def _lists_of_1000(ports: Ports, effort: Effort) -> list[Row]:
    port, rounds = ports.providers["near"], effort.rounds
    runs = await together(
        synchronous(port, _one("one-sync"), Load(17, 17 * rounds)),
        asynchronous(port, _one("one-async"), Load(37, 37 * rounds), kept=False),
        asynchronous(port, _lists("one-both"), Load(5, 5 * rounds), kept=False),
    )
    names = (SYNC, ASYNC, ASYNC_LISTS)
    theirs = ((8, 2.1, 4.8), (18, 2.05, 4.6), (42, 2.4, 3.1))
    return [measured(name, told, run, _with_p95) for name, told, run in zip(names, theirs, runs, strict=True)]


async def _1000_through(ports: Ports, effort: Effort) -> list[Row]:
    run = await asynchronous(
        ports.sidecar, _one("one-through"), Load(CALLERS, effort.chats // 2, ramp_s=RAMP_S)
    )
    return [measured(EVERYTHING, (), run, _with_p95, sidecar=True)]


def _promises(table: Table) -> list[Promise]:
    (_, ours), (_, single) = (table.ratios(table.row(name), 0) for name in (EVERYTHING, ASYNC))
    over_sync, over_async = ours or 0, (ours or 0) / (single or 1)
    return [
        Promise(
            "lists: at least 12 × the throughput of synchronous single calls, 3 × that of asynchronous ones",
            f"{over_sync:.1f} × and {over_async:.1f} × (theirs 7.2 and 3.1)",
            over_sync >= 12 and over_async >= 3,
        )
    ]


_CONDITIONS = (
    "RTT 12 ms, 12 ms for TLS, 63 ms a token, answers of 33 tokens at temperature 0.7, 0.3 % slower for"
    " each further conversation of a call; 3,500 requests and 90,000 tokens a minute, at most 50"
    " conversations a call."
)

ARTICLE = Article(
    "Third article: one by one, side by side, or as lists",
    "A provider in the same machine room that takes a list of conversations in one call.",
    (
        Trial(
            key="lists",
            title="2,000 short conversations",
            conditions=f"{_CONDITIONS} Callers are as many as the article's own throughput and latency"
            " tell: 20, 44, and 5 and 8 with lists.",
            provider=NEAR,
            documents=(_BACKEND, _MODEL.replace("LIST", "two-through")),
            measures=(
                Measure("conversations/s"),
                Measure("mean latency", "s", less=True),
                Measure("p99", "s", less=True),
            ),
            naive=SYNC,
            direct=_lists_of_2000,
            through=_2000_through,
            notes=f"The application lets {CALLERS} callers ask, for the sidecar bounds the calls: in lists of"
            f" 20 that makes {CALLERS // BATCH} at once, fewer than the asynchronous client's 44 (at most"
            f" {CALLS_AT_ONCE}, the article's own bound). 2,000 conversations just fit the quota's minute:"
            " for longer, 90,000 tokens are some 34 such conversations a second, for any client, the"
            " article's 65 too. Its p99 of single calls, twice their mean, has no cause in its conditions"
            " and is not simulated, so no row of ours can fall below it.",
            patient=True,
            promises=_promises,
        ),
        Trial(
            key="comparison",
            title="1,000 conversations, the article's smaller comparison",
            conditions=f"{_CONDITIONS} By the same rule 17, 37 and 5 callers; its 20 coroutines at 2.05 s"
            " would make 10 a second, not 18.",
            provider=NEAR,
            documents=(_BACKEND, _MODEL.replace("LIST", "one-through")),
            measures=(
                Measure("conversations/s"),
                Measure("mean latency", "s", less=True),
                Measure("p95", "s", less=True),
            ),
            naive=SYNC,
            direct=_lists_of_1000,
            through=_1000_through,
            notes=f"Through the sidecar {CALLERS} callers ask, as above.",
            patient=True,
        ),
    ),
)
