"""Many short questions to a far provider, merged into one chat or not."""

from __future__ import annotations

from tests.reproduce.clients import Calls, Load, asynchronous, synchronous, together
from tests.reproduce.lab import Conditions, Ports
from tests.reproduce.measured import Figures, Measure, Promise, Row, Run, Table
from tests.reproduce.questions import Call, Shape, small_talk
from tests.reproduce.trials import Effort, Trial, measured

WORDS = 27
CHATS_AT_ONCE = 1_000
CHATS = Conditions("chats", rtt_ms=250, handshake_ms=250, decode_ms=12.5, echo=True)

_DOCUMENTS = """\
kind: Backend
metadata: {name: chats}
spec:
  url: "http://127.0.0.1:{chats}/v1"
  default: true
  http: "2"
  timeouts: {request: 60s}
  quota: {concurrency: 50}
---
kind: Model
metadata: {name: chats}
spec: {versions: [{name: v1, backend: chats}]}
---
kind: Policy
metadata: {name: chats}
spec:
  target: {models: [chats]}
  cache: {enabled: true}
  coalesce: {enabled: true}
  batch: {mode: packed, maxSize: 50, maxWait: 200ms, sendBelow: 5, splitAbove: 20}
"""

NAIVE = "naive synchronous client, a connection a call"
ONE_BY_ONE = "asynchronous client, one call after the other"
THEIR_BATCH = "their batch client: 50 merged, one after the other"
EVERYTHING = "through the sidecar, everything on"


def _for_1000(run: Run) -> Figures:
    return (1000 / run.per_second,)


async def _direct(ports: Ports, effort: Effort) -> list[Row]:
    port, shape = ports.providers["chats"], Shape("chats", CHATS.settings(), 0.3)

    def merged(size: int) -> Calls:
        return lambda number: shape.merged([_chat(number * size + place) for place in range(size)])

    def one(number: int) -> Call:
        return shape.one(_chat(number))

    naive, alone, batches, both = await together(
        synchronous(port, one, Load(1, 3 * effort.rounds)),
        asynchronous(port, one, Load(1, 6 * effort.rounds)),
        asynchronous(port, merged(50), Load(1, effort.rounds // 2)),
        asynchronous(port, merged(20), Load(20, 10 * effort.rounds)),
    )
    return [
        measured(NAIVE, (), naive, _for_1000),
        measured(ONE_BY_ONE, (240,), alone, _for_1000),
        measured(THEIR_BATCH, (140,), batches, _for_1000),
        measured("batches of 20 merged, 20 at once", (), both, _for_1000),
    ]


async def _through(ports: Ports, effort: Effort) -> list[Row]:
    shape = Shape("chats", CHATS.settings(), 0.3)
    load = Load(CHATS_AT_ONCE, CHATS_AT_ONCE)
    run = await asynchronous(ports.sidecar, lambda number: shape.one(_chat(number)), load)
    return [measured(EVERYTHING, (), run, _for_1000, sidecar=True)]


def _chat(number: int) -> str:
    return small_talk(number, WORDS)


def _promises(table: Table) -> list[Promise]:
    _, ratio = table.ratios(table.row(EVERYTHING), 0)
    _, batch = table.ratios(table.row(THEIR_BATCH), 0)
    faster, over_batch = ratio or 0, (ratio or 0) / (batch or 1)
    return [
        Promise(
            "1,000 chats at least 5 × faster than asynchronous calls one after the other",
            f"{faster:.0f} × ({over_batch:.0f} × faster than the article's own batch client)",
            faster >= 5,
        )
    ]


TRIAL = Trial(
    key="chats",
    title="1,000 short chats",
    conditions="RTT 250 ms, 250 ms more for a new connection's TLS, 12.5 ms a token, answers of 27"
    " tokens: so far away and so long that the article's own 240 s and 140 s have their ratio."
    " Packed and merged answers are written one after the other, as a model does.",
    provider=CHATS,
    documents=(_DOCUMENTS,),
    measures=(Measure("time for 1,000", "s", faster=True),),
    naive=ONE_BY_ONE,
    direct=_direct,
    through=_through,
    notes="The slow rows ask fewer chats and are scaled to 1,000; the sidecar gets all 1,000 at"
    " once, and makes at most 50 calls at once. Merging saves round trips, not the time to write"
    " the answers; what gains most is that calls no longer wait for each other.",
    patient=True,
    promises=_promises,
)
