"""The second article: connections that are kept, to a provider 120 ms away."""

from __future__ import annotations

from tests.reproduce.clients import Calls, Load, asynchronous, synchronous, together
from tests.reproduce.lab import Conditions, Ports
from tests.reproduce.measured import Figures, Measure, Row, Run
from tests.reproduce.questions import Shape, numbered, repeating
from tests.reproduce.trials import Article, Effort, Trial, measured

# Callers = throughput × latency: 150/s × 1.5 s and 320/s × 0.8 s.
NAIVE_CALLERS = 225
CALLERS = 256
BATCH = 20
TEMPERATURE = 0.2

KEPT = Conditions(
    "kept", rtt_ms=120, handshake_ms=580, decode_ms=12.5, output_tokens=44, batch_slowdown=0.003
)

_DOCUMENTS = """\
kind: Backend
metadata: {name: kept}
spec: {url: "http://127.0.0.1:{kept}/v1", http: "2"}
---
kind: Model
metadata: {name: kept}
spec: {versions: [{name: v1, backend: kept}]}
---
kind: Model
metadata: {name: kept-all}
spec: {versions: [{name: v1, backend: kept, upstreamModel: kept}]}
---
kind: Policy
metadata: {name: kept-all}
spec:
  target: {models: [kept-all]}
  cache: {enabled: true}
  coalesce: {enabled: true}
  batch: {mode: array, maxSize: 50, maxWait: 20ms, sendBelow: 5, splitAbove: 20}
"""
NAIVE = "naive synchronous client, a connection a call"


def _figures(run: Run) -> Figures:
    return (run.per_second, run.mean_s)


async def _direct(ports: Ports, effort: Effort) -> list[Row]:
    port, seconds = ports.providers["kept"], effort.seconds
    naive, lists = await together(
        synchronous(port, _new(), Load(NAIVE_CALLERS, seconds=seconds)),
        synchronous(port, _lists(), Load(NAIVE_CALLERS // BATCH, seconds=seconds)),
    )
    kept, both = await together(
        asynchronous(port, _new(), Load(CALLERS, seconds=seconds)),
        asynchronous(port, _lists(), Load(CALLERS // BATCH, seconds=seconds)),
    )
    return [
        measured(NAIVE, (150, 1.5), naive, _figures),
        measured("asynchronous client, connections kept", (320, 0.8), kept, _figures),
        measured("lists of 20, synchronous, a connection a call", (), lists, _figures),
        measured("lists of 20, asynchronous, connections kept", (), both, _figures),
    ]


async def _through(ports: Ports, effort: Effort) -> list[Row]:
    load = Load(CALLERS, seconds=effort.seconds)
    new = await asynchronous(ports.sidecar, _new(), load)
    shape = Shape("kept-all", KEPT.settings(), TEMPERATURE, upstream_model="kept")
    everything = await asynchronous(
        ports.sidecar, lambda number: shape.one(numbered(repeating(number))), load
    )
    return [
        measured("through the sidecar, each question new, no batches", (), new, _figures, sidecar=True),
        measured("through the sidecar, everything on", (), everything, _figures, sidecar=True),
    ]


def _shape() -> Shape:
    return Shape("kept", KEPT.settings(), TEMPERATURE)


def _new() -> Calls:
    shape = _shape()
    return lambda number: shape.one(numbered(number))


def _lists() -> Calls:
    shape = _shape()
    return lambda number: shape.many([numbered(number * BATCH + place) for place in range(BATCH)])


ARTICLE = Article(
    "Second article: long connections and streams",
    "A provider 120 ms away, where look-ups and handshakes are the bottleneck; connections are kept for"
    " 10,000 requests.",
    (
        Trial(
            key="connections",
            title="Before and after keeping connections",
            conditions="RTT 120 ms, 580 ms more for a new connection's look-up and TLS (the article's 1.5"
            " s less its 0.8 s), 12.5 ms a token, 54 tokens: 0.8 s on a kept connection. 225 callers"
            " before and 256 after.",
            provider=KEPT,
            documents=(_DOCUMENTS,),
            measures=(Measure("requests/s"), Measure("mean latency", "s", less=True)),
            naive=NAIVE,
            direct=_direct,
            through=_through,
            notes="Callers wait for their answers, so lists and batches, which save calls and not time,"
            " cannot raise the throughput of so many callers by themselves; with everything on, two of"
            " five questions repeat one that was asked before, and those need no call.",
        ),
    ),
)
